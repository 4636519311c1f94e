"""What this room wants of a run log and of Celery's own result table: rows, and the questions that give them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros
from kill_audit.errors import RunLogError

SECOND = 1_000_000
SETTLE = (
    120 * SECOND
)  # a younger death may still get its row: the worker reports it up to 15 s late, and apps write later
TOLERANCE = 15 * SECOND  # a row is written within 5 s of a death, 10 s more with brokers without an event loop


class State(StrEnum):
    """What a row's status word means."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    REVOKED = "revoked"
    RETRY = "retry"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the run log, its columns translated. `key`: the primary key as text, else the row's number from 1."""

    key: str
    task_id: str | None
    task_name: str | None
    status: str | None
    state: State
    started_at: Micros | None
    finished_at: Micros | None
    worker: str | None = None
    queue: str | None = None


class RunLog(Protocol):
    """The app's run log, as this room wants it; read once, at the moment `read_at`."""

    @property
    def facts(self) -> RunLogFacts:
        """Kind, table, preset, number of rows, time zone."""

    @property
    def one_row_per_id(self) -> bool:
        """Whether the id is unique in the table, so that a row is overwritten by each later run of that id."""

    @property
    def knows_its_zone(self) -> bool:
        """Whether all times read so far carry their zone, or the user gave it; else UTC was assumed."""

    def rows_of(self, task_ids: Collection[str]) -> Iterable[Row]:
        """All rows of these ids."""

    def rows_without_id(self, task_names: Collection[str], since: Micros, until: Micros) -> Iterable[Row]:
        """Rows that hold no id, of tasks of these names, that started in a span at least as wide as [since, until)."""

    def open_rows(self, since: Micros | None = None) -> Iterable[Row]:
        """All rows that are still open; of a big table perhaps only those that started `since`."""

    def finished_twice(self, since: Micros, until: Micros) -> Iterable[tuple[str, str | None, int]]:
        """Ids with more than one done row that finished in [since, until): id, task name, number of done rows."""

    def oldest(self) -> Micros | None:
        """The oldest moment any row tells of; None for an empty table."""


class StoredResult(Protocol):
    """A row of Celery's own result table; what it does not hold is None."""

    @property
    def task_id(self) -> str: ...  # noqa: D102 - a field of the protocol
    @property
    def task_name(self) -> str | None: ...  # noqa: D102
    @property
    def worker(self) -> str | None: ...  # noqa: D102
    @property
    def stored_at(self) -> Micros | None: ...  # noqa: D102
    @property
    def job(self) -> int | None: ...  # noqa: D102
    @property
    def signal(self) -> int | None: ...  # noqa: D102
    @property
    def exit_code(self) -> int | None: ...  # noqa: D102
    @property
    def pid(self) -> int | None: ...  # noqa: D102
    @property
    def hostname(self) -> str | None: ...  # noqa: D102


class Results(Protocol):
    """Celery's own result table, as further evidence of which task a loss took."""

    @property
    def knows_its_zone(self) -> bool:
        """As of a run log."""

    def losses(self, since: Micros, until: Micros) -> Iterable[StoredResult]:
        """Rows stored in [since, until) whose result tells of a lost worker; a day more if the zone is not known."""

    def started(self) -> Iterable[StoredResult]:
        """Rows whose last word is that a process began the task."""


def refusal(error: RunLogError) -> str:
    """Say in one sentence what was refused, and what helps."""
    return error.message + (f" ({error.hint})" if error.hint else "")


def by_id(rows: Iterable[Row]) -> Mapping[str, Sequence[Row]]:
    """Give the rows of each id."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.task_id is not None:
            found[row.task_id].append(row)
    return found
