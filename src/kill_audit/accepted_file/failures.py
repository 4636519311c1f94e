"""What can go wrong with the file of accepted findings."""

from kill_audit.errors import KillAuditError


class AcceptedFileError(KillAuditError):
    """The file of accepted findings is missing although it was named, cannot be read or written, or has mistakes."""
