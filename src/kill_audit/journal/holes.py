"""Files that are missing between others: journald numbers its entries, and what is not there leaves a hole.

All files of one log, the system's and the users', share a sequence (`seqnum_id`, `head_entry_seqnum` and
`tail_entry_seqnum` of https://systemd.io/JOURNAL_FILE_FORMAT/). When the ranges of all files of a folder leave
numbers out between them, the file that held these entries has been removed, lost or not copied.

Rules of this file: it looks at headers alone, and only at folders that are read whole. Behind a file that was not
closed nothing is said: its header may not know its last entries, and its boot has no end, which is told already.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kill_audit.entry import Micros, Problem
from kill_audit.journal.layout import ONLINE, Header, UnmappableError

_FEW: Final = 10  # numbers left out where an entry could not be written are no missing file


def holes(paths: Iterable[Path]) -> Iterator[Problem]:
    """Find the spans that files missing between those of a folder leave without entries (microseconds, UTC)."""
    logs: dict[bytes, list[Header]] = defaultdict(list)
    for path in paths:
        header = _header(path)
        if header is not None and header.entries:
            logs[header.seqnum_id].append(header)
    for headers in logs.values():
        yield from _holes(sorted(headers, key=lambda header: header.first_number))


def _holes(headers: Iterable[Header]) -> Iterator[Problem]:
    before: Header | None = None
    latest: Micros = 0
    for header in headers:
        if before is not None:
            missing = header.first_number - before.last_number - 1
            if missing >= _FEW and before.state != ONLINE and latest < header.first:
                yield Problem(
                    code="files-missing",
                    detail=f"{missing:,} entries that journald numbered are in none of the files",
                    since=latest,
                    until=header.first,
                )
        latest = max(latest, header.last)
        if before is None or header.last_number > before.last_number:
            before = header


def _header(path: Path) -> Header | None:
    try:
        with path.open("rb") as file:
            return Header.read(file.fileno())
    except (OSError, UnmappableError):
        return None
