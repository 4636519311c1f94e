"""Which row is whose: every run of an id and every row of it are proposed to each other, and the best pairs stay.

Rules of this file: the id first, and with it the times of the attempt. Rows that hold no id are tried last, for runs
that have no other row: by the task's name, the worker or the queue where the row names one (a worker's banner lists
the queues that it consumes; its log lines name none), and times that fit at both ends. A
row that tells no time fits only where none that does. One row serves one run. Where two rows fit a run equally well
and say different things, nothing is guessed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kill_audit import events
from kill_audit.classify import Kill
from kill_audit.entry import Micros
from kill_audit.reconcile.rows import SECOND, Row, State
from kill_audit.timeline import History, Life, Run

NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run of an id, killed or not, as an interval of time that a row may have started in. `died`: it was killed."""

    run: Run
    since: Micros
    until: Micros
    start: Micros
    died: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A run and a row that may be its own: how far the row lies outside the run's time, and how far from its start."""

    run: Run
    row: Row
    outside: Micros
    apart: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """Runs (by identity) with their rows, and the runs that two rows fit equally well."""

    row_of: Mapping[int, Row]
    torn: frozenset[int]

    def __or__(self, other: "Matches") -> "Matches":
        return Matches(row_of={**self.row_of, **other.row_of}, torn=self.torn | other.torn)


def attempts_of(task_id: str, history: History) -> tuple[Attempt, ...]:
    """Give the runs of an id, in order of time."""
    died = {id(death.run): death for death in history.deaths if death.run is not None}
    runs = [one.run for one in history.receipts.get(task_id, ())]
    known = {id(run) for run in runs}
    runs.extend(
        death.run
        for death in history.deaths
        if death.run is not None and death.run.task_id == task_id and id(death.run) not in known
    )
    found = []
    for run in runs:
        death = died.get(id(run))
        until = death.at if death is not None else run.end.mark.at if run.end is not None else NEVER
        unread = death.at - 1 if death is not None else 0
        shown = run.received or run.accepted or run.spoke
        since = shown.at if shown is not None else unread
        start = run.accepted.at if run.accepted is not None else since
        found.append(Attempt(run=run, since=since, until=until, start=start, died=death is not None))
    return tuple(sorted(found, key=lambda one: one.since))


def by_ids(
    attempts: Mapping[str, Sequence[Attempt]],
    rows_of: Mapping[str, Sequence[Row]],
    *,
    one_row_per_id: bool,
    tolerance: Micros,
) -> Matches:
    """Match runs with the rows of the same id.

    Args:
        attempts: the runs, by id.
        rows_of: the rows, by id.
        one_row_per_id: whether a row is overwritten by each later run of its id.
        tolerance: how far outside a run's time its row may lie, microseconds.
    """
    timed: list[Pair] = []
    timeless: list[Pair] = []
    for task_id, runs in attempts.items():
        rows = rows_of.get(task_id, ())
        one_row = one_row_per_id or len(rows) == 1
        for run in runs:
            for row in rows:
                outside, apart = cost(run, row, runs, one_row=one_row)
                kind = timeless if row.started_at is None and row.finished_at is None else timed
                kind.append(Pair(run=run.run, row=row, outside=outside, apart=apart))
    matches = best_first(timed, tolerance)
    return matches | best_first([pair for pair in timeless if id(pair.run) not in matches.row_of], tolerance)


def by_names(
    kills: Sequence[Kill],
    attempts: Mapping[str, Sequence[Attempt]],
    rows: Sequence[Row],
    *,
    tolerance: Micros,
) -> Matches:
    """Match killed runs with rows that hold no id; a row that is nearer by less than a second is no better.

    Args:
        kills: those that have no row of their id.
        attempts: their runs, by id.
        rows: rows without an id.
        tolerance: how far a row's start may lie from the run's, and its finish from the death, microseconds.
    """
    pairs = []
    for kill in kills:
        run = next(one for one in attempts[kill.task_id or ""] if one.run is kill.death.run)
        for row in rows:
            named_alike = row.task_name == run.run.task_name
            if not (named_alike and _worked_alike(row, kill.death.life) and row.started_at is not None):
                continue
            late = 0 if row.finished_at is None else abs(row.finished_at - kill.at)
            apart = abs(row.started_at - run.start)
            if max(late, apart) <= tolerance:
                pairs.append(Pair(run=run.run, row=row, outside=0, apart=apart // SECOND))
    return best_first(pairs, tolerance)


def _worked_alike(row: Row, life: Life) -> bool:
    """Whether a row can be of this worker: by the node that it names, else by a queue that the worker consumed."""
    if row.worker is not None:
        return row.worker == life.node
    queues = {event.queue for event in life.of(events.WorkerQueue) if isinstance(event, events.WorkerQueue)}
    return row.queue is None or not queues or row.queue in queues


def cost(run: Attempt, row: Row, siblings: Sequence[Attempt], *, one_row: bool) -> tuple[Micros, Micros]:
    """How far a row lies outside a run's time, and how far from its start.

    Args:
        run: the run.
        row: a row of its id.
        siblings: all runs of the id.
        one_row: whether the id has but this row, which later runs overwrite.
    """
    later = [other for other in siblings if other.since > run.since]
    done_at = row.finished_at if one_row and row.state is State.DONE else None
    if done_at is not None and any(other.since <= done_at for other in later):
        return NEVER, 0  # the row was overwritten: a success after a later receipt is the later run's
    moment = row.started_at if row.started_at is not None else row.finished_at
    if moment is None:
        return (0, 0) if not later else (NEVER, 0)
    return max(0, run.since - moment, moment - run.until), abs(moment - run.start)


def best_first(pairs: Sequence[Pair], tolerance: Micros) -> Matches:
    """Assign rows to runs, the best pair first."""
    if not pairs:
        return Matches(row_of={}, torn=frozenset())
    row_of: dict[int, Row] = {}
    best: dict[int, tuple[Micros, Micros]] = {}
    torn: set[int] = set()
    taken: set[str] = set()
    for pair in _near(pairs, tolerance):
        run = id(pair.run)
        if pair.row.key in taken:
            continue
        if run in row_of:
            if best[run] == (pair.outside, pair.apart) and pair.row.state is not row_of[run].state:
                torn.add(run)
            continue
        row_of[run], best[run] = pair.row, (pair.outside, pair.apart)
        taken.add(pair.row.key)
    return Matches(row_of=row_of, torn=frozenset(torn))


_MANY: Final = 20_000


def _near(pairs: Sequence[Pair], tolerance: Micros) -> Iterator[Pair]:
    """Give the pairs within the tolerance, the best first."""
    if len(pairs) < _MANY:
        return iter(
            sorted((one for one in pairs if one.outside <= tolerance), key=lambda one: (one.outside, one.apart))
        )
    import pandas as pd  # noqa: PLC0415 - its import takes as long as some hundred thousand pairs without it

    frame = pd.DataFrame([(pair.outside, pair.apart) for pair in pairs], columns=["outside", "apart"])
    near = frame[frame["outside"] <= tolerance].sort_values(["outside", "apart"], kind="stable")
    return (pairs[place] for place in near.index.tolist())


def without_rows(kills: Sequence[Kill], matches: Matches, ids_with_rows: Collection[str]) -> tuple[Kill, ...]:
    """Give the named kills that have neither a row of their own nor any other row of their id."""
    return tuple(
        kill
        for kill in kills
        if kill.task_id is not None and kill.task_id not in ids_with_rows and id(kill.death.run) not in matches.row_of
    )
