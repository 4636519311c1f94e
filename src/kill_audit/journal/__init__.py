"""Doors to the evidence: journal files, streams of entries and log files as sources, each read in columns.

Rules of this room: it knows formats and journald's fields, and nothing of what any program's lines mean. A source says
by `fragile` that reading it may end the process, and is opened in the process that reads it.
"""

from collections.abc import Iterable, Sequence
from typing import BinaryIO

from kill_audit.journal.boots import in_boot
from kill_audit.journal.choosing import Reader
from kill_audit.journal.files import (
    FileSource,
    Found,
    Workspace,
    distinct,
    file_sources,
    folder_sources,
    stream_source,
)
from kill_audit.journal.host import open_host

__all__ = ["Found", "Reader", "in_boot", "open_host", "open_sources", "read_by"]


def read_by(sources: Iterable[Found], reader: Reader) -> tuple[Found, ...]:
    """Choose what reads the journal files among the sources."""
    return tuple(one.read_by(reader) if isinstance(one, FileSource) else one for one in sources)


def open_sources(
    *, files: Sequence[str] = (), directories: Sequence[str] = (), stdin: BinaryIO | None = None
) -> tuple[Found, ...]:
    """Find the sources that the command line names, and tell by their content what they hold.

    Args:
        files: paths and glob patterns (`**` too); `-` is left to `stdin`.
        directories: folders of journal files, as `journalctl -D` takes them; namespaces' folders are read as well.
        stdin: a stream to read; it is copied into a private file that is removed at exit.

    Raises:
        SourceError: something named is missing or cannot be read, or a pattern or folder holds nothing to read.
    """
    workspace = Workspace()
    found = [
        *file_sources([path for path in files if path != "-"], workspace),
        *(source for folder in directories for source in folder_sources(folder, workspace)),
    ]
    if stdin is not None:
        found.append(stream_source(stdin, workspace))
    return tuple(distinct(found))
