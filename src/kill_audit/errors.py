"""Every way kill-audit refuses: an exit status, one clear line, and a hint that names the next command.

Only `cli` catches these; every other room raises them. Exit statuses are documented in docs/exit-status.md.
"""

from typing import ClassVar


class KillAuditError(Exception):
    """An error that a person can act on; printed as `kill-audit: MESSAGE` and, below it, `hint: HINT`."""

    exit_status: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the hint through the process pool (keyword-only arguments do not pickle by themselves)."""
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[KillAuditError], message: str, hint: str) -> KillAuditError:
    return kind(message, hint=hint)


class UsageError(KillAuditError):
    """The words of the command line or of the configuration cannot be understood."""


class SourceError(KillAuditError):
    """A journal, a stream or a log file cannot be opened or holds nothing of what was asked for."""


class RunLogError(KillAuditError):
    """The run log (a database or a file) cannot be reached, or does not have the table or columns named."""


class RunLogGoneError(RunLogError):
    """The database does not answer any more; asking it further questions would only take time."""
