"""What can go wrong with a mail."""

from kill_audit.errors import KillAuditError


class MailError(KillAuditError):
    """A mail cannot be composed, or was not taken by any server."""
