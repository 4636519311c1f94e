"""Which column of a table holds what, found by the usual names.

Rules of this file: names are compared without regard to case and to anything but letters and digits, so that
`taskId`, `TASK_ID` and `task id` are one. Of several that fit the first in the list below wins. What the user named
is taken as it stands.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from kill_audit.errors import RunLogError

# Sure names say by themselves that they are about a task; the others are common words that many tables use.
SURE_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "task_id": ("task_id", "celery_task_id", "celery_id", "task_uuid", "celery_uuid", "taskid"),
    "task_name": ("task_name", "celery_task_name", "celery_task", "task", "task_type", "task_path"),
}
USUAL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "task_id": (*SURE_NAMES["task_id"], "job_id", "job_uuid", "run_id", "uuid", "id"),
    "task_name": (*SURE_NAMES["task_name"], "name", "job_name", "job", "function", "func_name"),
    "status": ("status", "state", "task_status", "task_state", "run_status", "job_status", "outcome"),
    "started_at": (
        *("started_at", "start_time", "date_started", "started_on", "time_started", "started", "start_at", "start"),
        *("begun_at", "began_at", "begin_time", "run_at", "created_at", "date_created", "created_on", "created"),
        *("inserted_at",),
    ),
    "finished_at": (
        *("finished_at", "ended_at", "date_done", "completed_at", "finish_time", "end_time", "done_at", "stopped_at"),
        *("date_finished", "date_ended", "finished_on", "ended_on", "completed_on", "finished", "ended", "completed"),
        *("finish", "end"),
    ),
    "worker": ("worker", "worker_name", "worker_hostname", "hostname", "worker_host", "node", "host"),
    "queue": ("queue", "queue_name", "task_queue", "celery_queue"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a run log by what they hold; `key` are those of the primary key, in its order.

    Without a column of ids, rows are told apart by name, worker or queue, and time.
    """

    task_id: str | None = None
    task_name: str | None = None
    status: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    worker: str | None = None
    queue: str | None = None
    key: tuple[str, ...] = field(default=())

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        cells = (getattr(self, name) for name in FIELDS)
        return tuple(dict.fromkeys((*self.key, *(cell for cell in cells if cell is not None))))


FIELDS: Final = tuple(column.name for column in fields(Columns) if column.name != "key")


def find(
    available: Sequence[str], *, given: Mapping[str, str] | None = None, numbers: Collection[str] = ()
) -> dict[str, str]:
    """Find the column of each field of a run log, as far as there is one.

    Args:
        available: the names of the columns there are.
        given: what the user named, field -> column.
        numbers: the columns that hold whole numbers; a column named `id` that counts rows is no task id.

    Raises:
        RunLogError: `given` names a field that does not exist, or a column that is not there.
    """
    sure = set(map(_bare, SURE_NAMES["task_id"]))
    may_be_id = [name for name in available if name not in numbers or _bare(name) in sure]
    found = {name: _first(may_be_id if name == "task_id" else available, USUAL_NAMES[name]) for name in FIELDS}
    return {name: column for name, column in ({**found, **checked(available, given)}).items() if column is not None}


def checked(available: Collection[str], given: Mapping[str, str] | None) -> Mapping[str, str]:
    """Make sure that what the user named is there.

    Raises:
        RunLogError: `given` names a field that does not exist, or a column that is not there.
    """
    for name, column in (given or {}).items():
        if name not in FIELDS:
            raise RunLogError(f"a run has no field {name!r}", hint=f"name columns for {', '.join(FIELDS)}")
        if column not in available:
            raise RunLogError(f"there is no column {column!r}", hint=f"there are: {', '.join(available)}")
    return given or {}


def lacking(found: Mapping[str, str]) -> str | None:
    """Say what `found` lacks to be a run log: ids (or names and starts), a time, and what tells open from finished."""
    if "task_id" not in found and not {"task_name", "started_at"}.issubset(found):
        return "a column of task ids"
    if "started_at" not in found and "finished_at" not in found:
        return "a column with the time a run started or finished"
    if "status" not in found and "finished_at" not in found:
        return "a column with the status or the finish time of a run"
    return None


def is_sure(found: Mapping[str, str]) -> bool:
    """Whether the names say by themselves that a row is a task run, so that the table may be chosen unasked."""
    sure = {name: {_bare(usual) for usual in names} for name, names in SURE_NAMES.items()}
    return (
        "task_id" in found
        and lacking(found) is None
        and any(_bare(found.get(name, "")) in names for name, names in sure.items())
    )


def _first(available: Sequence[str], usual: Sequence[str]) -> str | None:
    there = {_bare(name): name for name in reversed(available)}
    return next((there[bare] for bare in map(_bare, usual) if bare in there), None)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
