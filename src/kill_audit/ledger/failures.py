"""What can go wrong with a ledger."""

from kill_audit.errors import KillAuditError


class LedgerError(KillAuditError):
    """The ledger cannot be opened, read or written."""
