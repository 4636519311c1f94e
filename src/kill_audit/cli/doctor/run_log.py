"""How the app's run log is read, and what it lacks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kill_audit import when
from kill_audit.cli.doctor.check import Check, State
from kill_audit.errors import KillAuditError

if TYPE_CHECKING:
    from datetime import tzinfo

    from kill_audit.reconcile import Row
    from kill_audit.runlog import Explanation


_WORTH_AN_INDEX = 100_000
"""With fewer rows a missing index is told and is no warning: the table is read in a moment."""


def run_log_checks(place: str, arguments: dict[str, Any], zone: "tzinfo") -> Iterator[Check]:
    """Open the run log and say how it is read: its columns, three rows, what it lacks, and the TOML that pins it."""
    from kill_audit.runlog import explain  # SQLAlchemy is heavy

    try:
        explained = explain(place, **arguments)
    except KillAuditError as error:
        yield failed("run log", error)
        return
    yield Check(name="run log", state="ok", detail=_read_as(explained), more=tuple(_more(explained, zone)))
    for lack in explained.lacks:
        small = lack.code == "index" and explained.rows is not None and explained.rows < _WORTH_AN_INDEX
        state: State = "ok" if small else "warn"
        yield Check(name="run log", state=state, detail=f"{lack.detail} ({lack.code})", fix=lack.hint)


def results_check(place: str, arguments: dict[str, Any]) -> Check:
    """Say whether Celery's own result table can be read."""
    from kill_audit.runlog import open_results  # SQLAlchemy is heavy

    try:
        open_results(place, **arguments)
    except KillAuditError as error:
        return failed("results", error)
    return Check(name="results", state="ok", detail="Celery's result table can be read")


def failed(name: str, error: KillAuditError) -> Check:
    """Make a check of what went wrong."""
    return Check(name=name, state="fail", detail=error.message, fix=error.hint or None)


def _read_as(explained: "Explanation") -> str:
    parts = [f"{explained.kind} {explained.place}"]
    parts += [f"table {explained.table}"] if explained.table else []
    parts += [f"preset {explained.preset}"] if explained.preset else []
    parts += [f"{explained.rows:,} row{'' if explained.rows == 1 else 's'}"] if explained.rows is not None else []
    parts += ["one row for each id" if explained.one_row_per_id else "one row for each run"]
    parts += [f"times in {explained.time_zone}"] if explained.time_zone else []
    return ", ".join(parts)


def _more(explained: "Explanation", zone: "tzinfo") -> Iterator[str]:
    named = (f"{name} = {column or '(none)'}" for name, column in explained.columns)
    yield "columns: " + ", ".join(named)
    for row in explained.sample:
        yield "row: " + _row(row, zone)
    yield "to pin this, write into kill-audit.toml:"
    yield from (f"    {line}" for line in explained.toml.splitlines() if line)


def _row(row: "Row", zone: "tzinfo") -> str:
    def moment(at: int | None) -> str:
        return "-" if at is None else when.describe(at, zone)

    status = f"{row.status or 'no status'} ({row.state})"
    return (
        f"{row.key}: {row.task_name or '(no name)'}[{row.task_id or '-'}], {status}, "
        f"{moment(row.started_at)} to {moment(row.finished_at)}"
    )
