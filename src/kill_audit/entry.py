"""A batch of journal entries as columns, the question asked of them, and what could not be read.

Rules of this file: it knows journald's fields (systemd.journal-fields(7)) and nothing of any program's wording.
Times are microseconds since the epoch, UTC, as journald keeps them (`__REALTIME_TIMESTAMP`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BATCH_ENTRIES = 65_536  # a batch never holds more entries, so that a scan's memory does not grow with its source

Micros = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who wrote an entry, by the fields that journald itself vouches for (all but `identifier`).

    Entries share few origins, so a batch keeps each once. `unit` is `_SYSTEMD_UNIT`, or `_SYSTEMD_USER_UNIT` for a
    user's service, or the container's name, or for text without any of these the program's name. `vouched` is False
    for text files and streams of text, where only the file's owner vouches for who wrote a line.
    """

    host: str = ""
    machine_id: str | None = None
    boot_id: str | None = None
    unit: str | None = None
    invocation_id: str | None = None
    transport: str = ""
    identifier: str | None = None
    facility: int | None = None
    exe: str | None = None
    comm: str | None = None
    uid: int | None = None
    stream_id: str | None = None
    cgroup: str | None = None
    namespace: str | None = None
    container: str | None = None
    vouched: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMessages:
    """Messages as bytes: that of `rows[i]` (ascending) is `length[i]` bytes of `buffer`, from `start[i]` on."""

    buffer: "npt.NDArray[np.uint8]"
    rows: "npt.NDArray[np.int64]"
    start: "npt.NDArray[np.int64]"
    length: "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """At most `BATCH_ENTRIES` entries in the order of their source; column i of each sequence is entry i.

    `realtime`, `monotonic`: microseconds (`monotonic` since boot; 0 where unknown). `pid`: `_PID`, 0 where unknown.
    `origin`: index into `origins`. `message`: text with invalid UTF-8 as backslash escapes, None where the source has
    no text for it (`journalctl -o json` without `--all` prints null). `cursor`: `__CURSOR`, or for text `FILE:LINE`.
    `fields`: every other field of an entry that the readers keep (see `DETAIL_FIELDS`), as text.
    `raw`: gives the messages of some rows (ascending) as bytes, where the source has them so; no row is in two parts
    of its answer, and some may be in none.
    """

    realtime: Sequence[Micros]
    monotonic: Sequence[Micros]
    pid: Sequence[int]
    origin: Sequence[int]
    origins: Sequence[Origin]
    message: Sequence[str | None]
    cursor: Sequence[str]
    fields: Sequence[Mapping[str, str]]
    raw: "Callable[[npt.NDArray[np.int64]], Iterable[RawMessages]] | None" = None

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.realtime)


DETAIL_FIELDS = frozenset(
    {
        "MESSAGE_ID",
        "UNIT",
        "USER_UNIT",
        "INVOCATION_ID",
        "USER_INVOCATION_ID",
        "JOB_ID",
        "JOB_TYPE",
        "JOB_RESULT",
        "RESULT",
        "EXIT_CODE",
        "EXIT_STATUS",
        "COMMAND",
        "UNIT_RESULT",
        "N_RESTARTS",
        "N_DROPPED",
        "N_PROCESSES",
        "CODE_FUNC",
        "SHUTDOWN",
        "ACTION",
        "OPERATOR",
        "OBJECT_PID",
        "OBJECT_SYSTEMD_UNIT",
        "COREDUMP_UNIT",
        "COREDUMP_USER_UNIT",
        "COREDUMP_PID",
        "COREDUMP_SIGNAL",
        "COREDUMP_COMM",
        "CURRENT_USE_PRETTY",
        "JOURNAL_NAME",
        "JOURNAL_PATH",
        "_CMDLINE",
        "_LINE_BREAK",
        "_SOURCE_MONOTONIC_TIMESTAMP",
        "_AUDIT_LOGINUID",
        "PRIORITY",
    }
)
"""The fields beside those of `Origin` that a grammar may ask for; readers leave out all others.

Readers may leave out `_CMDLINE`, `PRIORITY` and `CODE_FUNC` of entries that carry no `MESSAGE_ID`, `UNIT` or
`_LINE_BREAK`; a field that repeats is kept with its first value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that keeps the evidence from being whole, with the span it is about (None: unknown)."""

    code: str
    detail: str
    since: Micros | None = None
    until: Micros | None = None
    host: str | None = None
    boot_id: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRule:
    """What marks a deploy in a journal: entries whose `fields` (name and value) all hold, or a unit that runs it.

    `label`: what to call the deploy, None for the entry's own message or the unit's name.
    """

    fields: tuple[tuple[str, str], ...] = ()
    unit: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every source.

    Deaths in [`since`, `until`) are reported; entries in [`read_since`, `read_until`) are read, so that a task
    received long before its death is named, and what became of it afterwards is seen. `units`: patterns as for
    `journalctl -u`, none means every unit whose own lines are a Celery worker's. `keep`: hashes of task ids whose
    runs must not be cancelled (see `timeline`). `assume_timezone`, `assume_year`: for text without them. `marks`:
    what marks a deploy.
    """

    since: Micros
    until: Micros
    read_since: Micros
    read_until: Micros
    units: tuple[str, ...] = ()
    keep: frozenset[int] = field(default_factory=frozenset)
    assume_timezone: str | None = None
    assume_year: int | None = None
    marks: tuple[MarkRule, ...] = ()

    def wants_unit(self, unit: str | None) -> bool:
        """Whether `unit` is among those asked for (every unit is, when none was named)."""
        return not self.units or (unit is not None and any(fnmatchcase(unit, pattern) for pattern in self.units))


class Source(Protocol):
    """One journal file or stream. Picklable: it is opened in the process that reads it."""

    @property
    def name(self) -> str:
        """What people call it: a path, or `-`."""

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the entries of [`read_since`, `read_until`) in the source's order, and problems where they are met.

        Raises:
            SourceError: it cannot be opened at all. Damage further in is a Problem, and what can be read is yielded.
        """
