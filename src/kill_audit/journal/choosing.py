"""Which reader reads a `.journal` file: by columns, or libsystemd.

libsystemd may abort its process on a damaged file, so the choice is made before a file is read: what is left to
libsystemd is read in a child by itself.
"""

from collections.abc import Iterator
from enum import StrEnum

from kill_audit.entry import Batch, Problem, Question
from kill_audit.journal.layout import JournalFile, UnmappableError
from kill_audit.journal.mapped import MappedJournal
from kill_audit.journal.native import read_native


class Reader(StrEnum):
    """What a `.journal` file is read by."""

    AUTO = "auto"  # by columns, and what that cannot read by libsystemd
    COLUMNS = "columns"
    SYSTEMD = "systemd"


def read_journal(path: str, question: Question, reader: Reader = Reader.AUTO) -> Iterator[Batch | Problem]:
    """Yield the entries of a `.journal` file, and problems where they are met.

    Raises:
        OSError: the file cannot be opened.
        SourceError: libsystemd is needed, and neither systemd-python nor journalctl is there.
    """
    if reader is not Reader.SYSTEMD:
        try:
            journal = MappedJournal(path)
        except UnmappableError as error:
            if reader is Reader.COLUMNS:
                yield Problem(code="damaged", detail=f"cannot be read by columns: {error}")
                return
        else:
            yield from journal.batches(question)
            return
    yield from read_native(path, question)


def why_not_by_columns(path: str) -> str | None:
    """Say why libsystemd has to read a file; None if it need not.

    Raises:
        OSError: the file cannot be opened.
    """
    try:
        JournalFile(path).entries()
    except UnmappableError as error:
        return str(error)
    return None
