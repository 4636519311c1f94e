"""Says how a run log is read: the columns chosen, a few rows as they come out, what is missing, and how to pin it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kill_audit.reconcile import Row, State
from kill_audit.runlog.columns import FIELDS
from kill_audit.runlog.files import FileRunLog
from kill_audit.runlog.opening import Layout
from kill_audit.runlog.presets import Zone
from kill_audit.runlog.source import Source
from kill_audit.runlog.sql import SqlRunLog

SHOWN_ROWS: Final = 3
LOOKED_AT: Final = 100  # rows by which it is judged whether Celery stores names and starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something whose absence makes the reconciliation weaker: a stable code, a sentence, and what to do about it."""

    code: str
    detail: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a run log is read.

    `place`: the URL without secrets, or the path. `columns`: the column of each field, None where there is none.
    `states`: the status words met and what they mean. `sample`: a few rows. `toml`: the
    configuration that pins all this.
    """

    kind: str
    place: str
    table: str | None
    preset: str | None
    rows: int | None
    columns: tuple[tuple[str, str | None], ...]
    states: tuple[tuple[str, State], ...]
    one_row_per_id: bool
    time_zone: str | None
    sample: tuple[Row, ...]
    lacks: tuple[Lack, ...]
    toml: str


def explain_file(run_log: FileRunLog, place: str, *, zone_given: bool) -> Explanation:
    """Explain a run log that is a file."""
    fields = run_log.fields
    return Explanation(
        kind=run_log.facts.kind,
        place=place,
        table=None,
        preset=None,
        rows=run_log.facts.rows,
        columns=tuple((name, fields.get(name)) for name in FIELDS),
        states=run_log.states,
        one_row_per_id=run_log.one_row_per_id,
        time_zone=run_log.facts.time_zone,
        sample=run_log.sample(SHOWN_ROWS),
        lacks=(
            *_lacks_of_ids(fields),
            *(() if zone_given else _lacks_of_zone(run_log, None)),
            *_lacks_of_rows(run_log),
        ),
        toml=_toml({}, fields, run_log.states, zone=run_log.facts.time_zone if zone_given else None),
    )


def explain_table(run_log: SqlRunLog, source: Source, layout: Layout, *, zone_given: bool) -> Explanation:
    """Explain a run log that is a table or a query."""
    sample = run_log.sample(SHOWN_ROWS)
    facts, columns = run_log.facts, {name: getattr(layout.columns, name) for name in FIELDS}
    pinned = {
        "table": None if source.table.query is not None else facts.table,
        "query": source.table.query,
        "preset": facts.preset,
    }
    named = {} if layout.preset else {name: column for name, column in columns.items() if column is not None}
    lacks = (
        *_lacks_of_ids(columns),
        *_lacks_of_celery(run_log, layout),
        *_lacks_of_indexes(source, layout),
        *(() if zone_given else _lacks_of_zone(run_log, layout.zone)),
        *_lacks_of_rows(run_log),
    )
    return Explanation(
        kind=facts.kind,
        place=source.database.shown,
        table=facts.table,
        preset=facts.preset,
        rows=facts.rows,
        columns=tuple(columns.items()),
        states=run_log.states,
        one_row_per_id=run_log.one_row_per_id,
        time_zone=facts.time_zone,
        sample=sample,
        lacks=lacks,
        toml=_toml(
            pinned,
            named,
            () if layout.preset else run_log.states,
            zone=facts.time_zone if zone_given else None,
        ),
    )


def _lacks_of_ids(fields: Mapping[str, str | None]) -> Iterator[Lack]:
    if fields.get("task_id") is None:
        yield Lack(
            code="task_id",
            detail="no column holds the task's id, so that rows are told apart by name, worker or queue, and time",
            hint="keep the task's own id (self.request.id) in the run log",
        )


def _lacks_of_celery(run_log: SqlRunLog, layout: Layout) -> Iterator[Lack]:
    if layout.preset is None:
        return
    rows = run_log.sample(LOOKED_AT)
    if layout.columns.task_name is None or (rows and all(row.task_name is None for row in rows)):
        yield Lack(
            code="result_extended",
            detail="the table holds no task names and no workers",
            hint="set result_extended = True in the Celery app",
        )
    if all(row.state is not State.OPEN and row.started_at is None for row in rows):
        yield Lack(
            code="track_started",
            detail="no row shows a start, so that a run that was killed may have left no row",
            hint="set task_track_started = True in the Celery app",
        )


def _lacks_of_indexes(source: Source, layout: Layout) -> Iterator[Lack]:
    if source.table.is_view:
        return
    columns, leading = layout.columns, source.table.leading
    times = [name for name in (columns.finished_at, columns.started_at) if name]
    for wanted in ([columns.task_id] if columns.task_id else [], times):
        if wanted and not leading.intersection(wanted):
            yield Lack(
                code="index",
                detail=f"no index begins with {' or '.join(wanted)}; with more than {source.scan_at_most:,} rows the "
                f"table cannot be read without one, and it has {source.rows:,}",
                hint=source.create_index(wanted[0]),
            )


def _lacks_of_zone(run_log: SqlRunLog | FileRunLog, zone: Zone | None) -> Iterator[Lack]:
    if zone in {Zone.APP, Zone.UTC_OR_APP}:
        age = "this table is of 5.6.3 or later" if zone is Zone.APP else "this table does not show its version"
        yield Lack(
            code="time_zone",
            detail=f"Celery writes date_done in the app's zone since 5.5, up to 5.4 in UTC; {age}; UTC is assumed",
            hint='write the app\'s `timezone` setting into [run-log]: time-zone = "Europe/Berlin"',
        )
    elif run_log.zoneless_times:
        yield Lack(
            code="time_zone",
            detail="the times carry no zone; UTC is assumed",
            hint='write the zone of the clock that wrote them into [run-log]: time-zone = "Europe/Berlin"',
        )


def _lacks_of_rows(run_log: SqlRunLog | FileRunLog) -> Iterator[Lack]:
    if run_log.unknown_states:
        yield Lack(
            code="states",
            detail=f"nobody says what these status words mean: {', '.join(run_log.unknown_states)}",
            hint="name them in the configuration, table [run-log.states]",
        )
    if run_log.unread_times:
        yield Lack(
            code="times",
            detail=f"{run_log.unread_times} times cannot be read and count as not there",
            hint="write times as ISO 8601, or as seconds since the epoch",
        )


def _toml(
    pinned: dict[str, str | None], columns: dict[str, str], states: Sequence[tuple[str, State]], *, zone: str | None
) -> str:
    """Write the configuration; `zone`: the one that the user gave. One that is assumed is not pinned, but derived."""
    whole = {**pinned, "time-zone": zone}
    lines = ["[run-log]", *(f"{name} = {_quoted(value)}" for name, value in whole.items() if value is not None)]
    if columns:
        lines += ["", "[run-log.columns]", *(f"{name} = {_quoted(column)}" for name, column in columns.items())]
    known = [state for state in State if any(meant is state for _, meant in states) and state is not State.OTHER]
    if known:
        lines += ["", "[run-log.states]"]
    for state in known:
        words = ", ".join(_quoted(word) for word, meant in states if meant is state)
        lines.append(f"{state} = [{words}]")
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """Write a TOML basic string; JSON's escapes are a part of TOML's (toml.io, "String")."""
    return json.dumps(value, ensure_ascii=False)
