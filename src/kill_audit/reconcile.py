"""Join killed runs with the rows of the app's run log, one to one and both ways, with a verdict each.

Rules of this file:
1. SQL and files are not known here (`runlog` hands in rows); how a kill was found is not either.
2. A row belongs to the run that it can have started from; one row serves one run, best match first. Where two rows
   fit a run equally well, nothing is guessed.
3. The first verdict that holds is given. Age is measured at the moment the run log is read, never against the window.
4. pandas proposes the pairs here and nowhere above; it is imported only when there is a run log.

Times are microseconds since the epoch, UTC.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kill_audit.classify import Kill
from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros, Question
from kill_audit.timeline import Ending, History, Life, Run

SECOND = 1_000_000
SETTLE = (
    120 * SECOND
)  # a younger death may still get its row: the worker reports it up to 15 s late, and apps write later
TOLERANCE = 15 * SECOND  # a row is written within 5 s of a death, 10 s more with brokers without an event loop
REACH = 3600 * SECOND  # a table whose oldest row is this much younger than a kill was not kept back then
_OPEN_END = 2**62


class State(StrEnum):
    """What a row's status word means."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    REVOKED = "revoked"
    RETRY = "retry"
    OTHER = "other"


class Verdict(StrEnum):
    """What the run log says of a killed run."""

    UNSETTLED = "unsettled"
    STUCK = "stuck"
    RECORDED = "recorded"
    CONTRADICTED = "contradicted"
    RECOVERED = "recovered"
    AMBIGUOUS = "ambiguous"
    UNCOVERED = "uncovered"
    MISSING = "missing"


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


class RunLog(Protocol):
    """The app's run log, as this room wants it; read once, at the moment `read_at`."""

    @property
    def facts(self) -> RunLogFacts:
        """Kind, table, preset, number of rows, time zone."""

    @property
    def one_row_per_id(self) -> bool:
        """Whether the id is unique in the table, so that a row is overwritten by each later run of that id."""

    def rows_of(self, task_ids: Collection[str]) -> Iterable[Row]:
        """All rows of these ids."""

    def open_rows(self) -> Iterable[Row]:
        """All rows that are still open."""

    def finished_twice(self, since: Micros, until: Micros) -> Iterable[tuple[str, str | None, int]]:
        """Ids with more than one done row that finished in [since, until): id, task name, number of done rows."""

    def oldest(self) -> Micros | None:
        """The oldest moment any row tells of; None for an empty table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ghost:
    """A row that is still open although its process is dead, and that no reported kill claims."""

    row: Row
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A kill with its verdict (None without a run log, or where the run could not be named) and the rows of its id."""

    kill: Kill
    verdict: Verdict | None = None
    rows: tuple[Row, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """An id that finished more than once, by the journal or by the run log."""

    task_id: str
    task_name: str | None
    deliveries: int
    finished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Both directions: each kill with its verdict, and the rows that no living process stands behind."""

    findings: tuple[Finding, ...]
    ghosts: tuple[Ghost, ...]
    twice: tuple[Twice, ...]
    facts: RunLogFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """A run of an id, killed or not, as an interval of time that a row may have started in."""

    run: Run
    since: Micros
    until: Micros
    start: Micros


def reconcile(
    kills: Sequence[Kill],
    history: History,
    run_log: RunLog | None,
    question: Question,
    now: Micros,
    *,
    settle: Micros = SETTLE,
) -> Reconciled:
    """Give each kill its verdict and find ghosts and duplicates.

    `now`: when the run log is read. `settle`: a death younger than this may still get its row.
    """
    if run_log is None:
        return Reconciled(
            findings=tuple(Finding(kill=kill) for kill in kills), ghosts=(), twice=_twice(history, ()), facts=None
        )
    ids = sorted({kill.task_id for kill in kills if kill.task_id is not None})
    rows_of: dict[str, list[Row]] = defaultdict(list)
    for row in run_log.rows_of(ids):
        if row.task_id is not None:
            rows_of[row.task_id].append(row)
    attempts = {task_id: _attempts(task_id, history) for task_id in ids}
    matches, ambiguous = _match(attempts, rows_of, one_row=run_log.one_row_per_id)
    oldest = run_log.oldest()
    findings = tuple(
        _finding(kill, history, rows_of, matches, ambiguous, oldest, (now - settle, now)) for kill in kills
    )
    claimed = {row.key for found in findings for row in found.rows if matches.get(_run_key(found.kill)) is row}
    ghosts = tuple(_ghosts(run_log.open_rows(), claimed, history))
    twice = _twice(history, run_log.finished_twice(question.since, question.until))
    return Reconciled(findings=findings, ghosts=ghosts, twice=twice, facts=run_log.facts)


def _run_key(kill: Kill) -> int:
    return id(kill.death.run)


# -- which row is whose ---------------------------------------------------


def _attempts(task_id: str, history: History) -> tuple[_Attempt, ...]:
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
        until = death.at if death is not None else run.end.mark.at if run.end is not None else _OPEN_END
        unread = death.at - 1 if death is not None else 0
        shown = run.received or run.accepted or run.spoke
        since = shown.at if shown is not None else unread
        start = run.accepted.at if run.accepted is not None else since
        found.append(_Attempt(run=run, since=since, until=until, start=start))
    return tuple(sorted(found, key=lambda one: one.since))


def _match(
    attempts: Mapping[str, Sequence[_Attempt]], rows_of: Mapping[str, Sequence[Row]], *, one_row: bool
) -> tuple[dict[int, Row], set[int]]:
    """Assign rows to runs, best match first; returns run -> row, and the runs that two rows fit equally."""
    pairs = [
        (attempt, row, *_cost(attempt, row, attempts[task_id], one_row=one_row or len(rows_of[task_id]) == 1))
        for task_id in attempts
        for attempt in attempts[task_id]
        for row in rows_of.get(task_id, ())
    ]
    if not pairs:
        return {}, set()
    import pandas as pd  # noqa: PLC0415 - heavy, and only needed with a run log

    frame = pd.DataFrame(
        [(id(attempt.run), row.key, outside, apart) for attempt, row, outside, apart in pairs],
        columns=["run", "row", "outside", "apart"],
    )
    frame["pair"] = range(len(pairs))
    frame = frame[frame["outside"] <= TOLERANCE].sort_values(["outside", "apart", "pair"], kind="stable")
    matches: dict[int, Row] = {}
    ambiguous: set[int] = set()
    taken: set[str] = set()
    for position in frame["pair"].tolist():
        attempt, row, outside, apart = pairs[position]
        key = id(attempt.run)
        if row.key in taken:
            continue
        if key in matches:
            rival = next(pair for pair in pairs if id(pair[0].run) == key and pair[1] is matches[key])
            if (rival[2], rival[3]) == (outside, apart) and row.state is not rival[1].state:
                ambiguous.add(key)
            continue
        matches[key] = row
        taken.add(row.key)
    return matches, ambiguous


def _cost(attempt: _Attempt, row: Row, siblings: Sequence[_Attempt], *, one_row: bool) -> tuple[int, int]:
    """How far a row lies outside a run's interval, and how far from its start, in microseconds."""
    later = [other for other in siblings if other.since > attempt.since]
    done_at = row.finished_at if one_row and row.state is State.DONE else None
    if done_at is not None and any(other.since <= done_at for other in later):
        return _OPEN_END, 0  # the row was overwritten: a success after a later receipt is the later run's
    moment = row.started_at if row.started_at is not None else row.finished_at
    if moment is None:
        return (0, 0) if not later else (_OPEN_END, 0)
    outside = max(0, attempt.since - moment, moment - attempt.until)
    return outside, abs(moment - attempt.start)


# -- verdicts -------------------------------------------------------------


def _finding(
    kill: Kill,
    history: History,
    rows_of: Mapping[str, Sequence[Row]],
    matches: Mapping[int, Row],
    ambiguous: Collection[int],
    oldest: Micros | None,
    unsettled: tuple[Micros, Micros],
) -> Finding:
    task_id = kill.task_id
    if task_id is None:
        return Finding(kill=kill, reasons=("the task could not be named, so its row cannot be looked for",))
    rows = tuple(rows_of.get(task_id, ()))
    own = matches.get(_run_key(kill))
    verdict = _verdict(kill, history, rows, own, oldest, unsettled, torn=_run_key(kill) in ambiguous)
    shown = (own, *(row for row in rows if row is not own)) if own is not None else rows
    return Finding(kill=kill, verdict=verdict, rows=shown[:20])


def _verdict(
    kill: Kill,
    history: History,
    rows: Sequence[Row],
    own: Row | None,
    oldest: Micros | None,
    unsettled: tuple[Micros, Micros],
    *,
    torn: bool,
) -> Verdict:
    since, now = unsettled
    if since < kill.at <= now:  # a death later than now has settled: the clocks differ, which `doctor` reports
        return Verdict.UNSETTLED
    if own is not None and not torn:
        return _by_own_row(kill, history, own)
    if any(row.state is State.DONE and _after(row, kill) for row in rows if row is not own):
        return Verdict.RECOVERED
    if torn:
        return Verdict.AMBIGUOUS
    if oldest is not None and oldest > kill.at + REACH:
        return Verdict.UNCOVERED
    return Verdict.MISSING


def _by_own_row(kill: Kill, history: History, row: Row) -> Verdict:
    run = kill.death.run
    since = kill.at if run is None or run.received is None else run.received.at
    later = any(one.run is not run and one.at > since for one in history.receipts.get(kill.task_id or "", ()))
    if row.state is State.OPEN or (row.state is State.RETRY and not later):
        return Verdict.STUCK
    if row.state is State.OTHER and row.finished_at is None:
        return Verdict.STUCK
    if row.state is State.DONE:
        return Verdict.CONTRADICTED
    return Verdict.RECORDED


def _after(row: Row, kill: Kill) -> bool:
    """Whether a row tells of a later run than the killed one: it ended after the death, or does not say when."""
    moment = row.finished_at if row.finished_at is not None else row.started_at
    return moment is None or moment >= kill.at - TOLERANCE


# -- the other direction --------------------------------------------------


def _ghosts(open_rows: Iterable[Row], claimed: Collection[str], history: History) -> Iterable[Ghost]:
    life_of = {id(run): life for life in history.lives for run in life.runs}
    by_node: dict[str, list[Life]] = defaultdict(list)
    for life in history.lives:
        if life.node is not None:
            by_node[life.node].append(life)
    for row in open_rows:
        if row.key in claimed:
            continue
        reasons = _dead(row, history, life_of) or _restarted(row, by_node)
        if reasons:
            yield Ghost(row=row, reasons=reasons)


def _dead(row: Row, history: History, life_of: Mapping[int, Life]) -> tuple[str, ...]:
    """Whether the journal shows the process of the row's run dead."""
    if row.task_id is None:
        return ()
    attempts = _attempts(row.task_id, history)
    fitting = [one for one in attempts if _cost(one, row, attempts, one_row=False)[0] <= TOLERANCE]
    if not fitting:
        return ()
    run = min(fitting, key=lambda one: _cost(one, row, attempts, one_row=False)).run
    if any(death.run is run for death in history.deaths):
        return ("its run was killed, outside the window of this report or with another row of its own",)
    life = life_of.get(id(run))
    if life is None or life.end.ending is Ending.RUNNING:
        return ()
    if life.end.ending is Ending.BOOT_OVER:
        return ("the boot that it ran in is over",)
    return (f"the worker {life.node or life.group.unit} that received it has ended since",)


def _restarted(row: Row, by_node: Mapping[str, Sequence[Life]]) -> tuple[str, ...]:
    """Whether the worker that the row names was started anew since the row began."""
    if row.worker is None or row.started_at is None:
        return ()
    begun = [
        life.started.at
        for life in by_node.get(row.worker, ())
        if life.started is not None and life.started.at > row.started_at + TOLERANCE
    ]
    return (f"the worker {row.worker} was started anew since",) if begun else ()


def _twice(history: History, more: Iterable[tuple[str, str | None, int]]) -> tuple[Twice, ...]:
    found = {
        one.task_id: Twice(
            task_id=one.task_id, task_name=one.task_name or None, deliveries=one.deliveries, finished=one.finished
        )
        for one in history.twice
    }
    for task_id, name, finished in more:
        known = found.get(task_id)
        if known is None or known.finished < finished:
            deliveries = max(finished, history.deliveries.get(task_id, 0), known.deliveries if known else 0)
            found[task_id] = Twice(task_id=task_id, task_name=name, deliveries=deliveries, finished=finished)
    return tuple(sorted(found.values(), key=lambda one: one.task_id))
