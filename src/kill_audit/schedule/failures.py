"""What can go wrong with a schedule."""

from kill_audit.errors import KillAuditError


class ScheduleError(KillAuditError):
    """The schedule cannot be written, or is not this program's to change."""
