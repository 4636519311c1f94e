"""A run log in a file, read anew for each question, so that its size does not matter."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros
from kill_audit.errors import RunLogError
from kill_audit.reconcile import Row, State
from kill_audit.runlog import columns
from kill_audit.runlog.cells import CellReader
from kill_audit.runlog.duplicates import DoneTwice

DAY: Final = 86_400_000_000  # microseconds
WORDS_KEPT: Final = 1000  # a status column with more different words is none


class Records(Protocol):
    """The rows of a file. `numbers`: the columns that hold whole numbers only."""

    kind: str
    path: Path
    header: tuple[str, ...]
    numbers: frozenset[str]

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Read these columns of all rows, in the order of the file."""


class FileRunLog:
    """The rows of a file (`reconcile.RunLog`).

    Args:
        records: the file.
        given: the columns that the user named, field -> column.
        reader: reads the cells.
        time_zone: the name of the zone of `reader`, where the user gave one.

    Raises:
        RunLogError: the file has no header line, or lacks a column.
    """

    def __init__(
        self, records: Records, *, given: Mapping[str, str] | None, reader: CellReader, time_zone: str | None = None
    ) -> None:
        self.fields = _fields(records, given)
        self._records = records
        self._reader = reader
        self._time_zone = time_zone
        self._survey = _Survey()
        for row in self._rows():
            self._survey.add(row)
        self.states = tuple(sorted(self._survey.states.items()))  # the status words of the file and what they mean
        self.unread_times = reader.unread_times  # how many times of the file cannot be read; they count as not there
        self.zoneless_times = reader.zoneless_times  # how many times of the file carry no zone

    @property
    def facts(self) -> RunLogFacts:
        """Kind, table, preset, number of rows, time zone."""
        return RunLogFacts(
            kind=self._records.kind,
            table=None,
            preset=None,
            rows=self._survey.rows,
            time_zone=self._time_zone or "UTC",
            skew_s=None,
        )

    @property
    def one_row_per_id(self) -> bool:
        """Whether no id is there twice."""
        return self._survey.unique

    @property
    def knows_its_zone(self) -> bool:
        """Whether all times carry their zone, or the user gave it."""
        return self._time_zone is not None or not self.zoneless_times

    @property
    def unknown_states(self) -> tuple[str, ...]:
        """Status words of the file that mean nothing here; their rows are OTHER."""
        return self._reader.words.unknown

    def rows_of(self, task_ids: Collection[str]) -> Iterator[Row]:
        """All rows of these ids."""
        wanted = frozenset(task_ids)
        yield from (row for row in self._rows() if row.task_id in wanted)

    def rows_without_id(self, task_names: Collection[str], since: Micros, until: Micros) -> Iterator[Row]:
        """Rows that hold no id, of tasks of these names; where the zone is not known, from a day around the span."""
        early, late = (since, until) if self.knows_its_zone else (since - DAY, until + DAY)
        for row in self._rows():
            is_near = row.started_at is not None and early <= row.started_at < late
            if row.task_id is None and row.task_name in task_names and is_near:
                yield row

    def open_rows(self, since: Micros | None = None) -> Iterator[Row]:  # noqa: ARG002 -- only a database needs a bound
        """All rows that are still open."""
        yield from (row for row in self._rows() if row.state is State.OPEN)

    def finished_twice(self, since: Micros, until: Micros) -> Iterator[tuple[str, str | None, int]]:
        """Ids with more than one done row that finished in [since, until): id, task name, number of done rows."""
        if self.one_row_per_id:
            return
        done = DoneTwice(since, until, by_end="finished_at" in self.fields)
        for row in self._rows():
            done.add(row)
        yield from done.found()

    def oldest(self) -> Micros | None:
        """The oldest moment any row tells of; None for a file without rows."""
        return self._survey.oldest

    def sample(self, count: int) -> tuple[Row, ...]:
        """Give the first rows, to show how they are read."""
        return tuple(row for _, row in zip(range(count), self._rows(), strict=False))

    def _rows(self) -> Iterator[Row]:
        names = tuple(self.fields)
        for number, cells in enumerate(self._records.rows(tuple(self.fields.values())), start=1):
            yield self._reader.row(dict(zip(names, cells, strict=True)), key=str(number))


class _Survey:
    """What one pass over all rows tells; of the ids only their hashes are kept, and none once one came twice."""

    def __init__(self) -> None:
        self.rows = 0
        self.oldest: Micros | None = None
        self.states: dict[str, State] = {}
        self._ids: set[int] | None = set()

    @property
    def unique(self) -> bool:
        return self._ids is not None

    def add(self, row: Row) -> None:
        self.rows += 1
        moments = (moment for moment in (self.oldest, row.started_at, row.finished_at) if moment is not None)
        self.oldest = min(moments, default=None)
        if row.status is not None and len(self.states) < WORDS_KEPT:
            self.states[row.status] = row.state
        if self._ids is None or row.task_id is None:
            return
        before = len(self._ids)
        self._ids.add(hash(row.task_id))
        if len(self._ids) == before:
            self._ids = None


def _fields(records: Records, given: Mapping[str, str] | None) -> dict[str, str]:
    """Find the column of each field."""
    found = columns.find(records.header, given=given, numbers=records.numbers)
    lack = columns.lacking(found)
    if lack is None:
        return found
    if not found:
        raise RunLogError(
            f"the first line of {records.path} names no column that is known: {', '.join(records.header)}",
            hint="write a header line such as task_id,task_name,status,started_at,finished_at",
        )
    raise RunLogError(
        f"{records.path} lacks {lack}; its columns are: {', '.join(records.header)}",
        hint="name the columns in the configuration, table [run-log.columns]",
    )
