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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from kill_audit.classify import Kill
from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros, Question
from kill_audit.errors import RunLogError
from kill_audit.events import TaskLost
from kill_audit.timeline import Death, Ending, History, Life, Run

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

    def losses(self, since: Micros, until: Micros) -> Iterable[StoredResult]:
        """Rows stored in [since, until) whose result tells of a lost worker."""

    def started(self) -> Iterable[StoredResult]:
        """Rows whose last word is that a process began the task."""


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
    """Both directions: each kill with its verdict, and the rows that no living process stands behind.

    `refused`: questions that the run log did not answer, in words.
    """

    findings: tuple[Finding, ...]
    ghosts: tuple[Ghost, ...]
    twice: tuple[Twice, ...]
    facts: RunLogFacts | None
    refused: tuple[str, ...] = ()


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
    tolerance: Micros = TOLERANCE,
) -> Reconciled:
    """Give each kill its verdict and find ghosts and duplicates.

    Args:
        kills: the kills of the window.
        history: everything else that the journal tells.
        run_log: the app's run log, or None.
        question: the window.
        now: when the run log is read.
        settle: a death younger than this may still get its row.
        tolerance: how far outside a run's time its row may lie.
    """
    if run_log is None:
        return Reconciled(
            findings=tuple(Finding(kill=kill) for kill in kills),
            ghosts=(),
            twice=_twice(history, (), question),
            facts=None,
        )
    refused: list[str] = []
    ids = sorted({kill.task_id for kill in kills if kill.task_id is not None})
    rows = tuple(_asked(lambda: run_log.rows_of(ids), refused))
    open_rows = tuple(_asked(run_log.open_rows, refused))
    doubles = tuple(_asked(lambda: run_log.finished_twice(question.since, question.until), refused))
    oldest = next(iter(_asked(lambda: [run_log.oldest()], refused)), None)
    attempts = {task_id: _attempts(task_id, history) for task_id in ids}
    clock = _clock(run_log.facts, attempts, rows)
    matching = _Matching(
        attempts=attempts,
        rows_of=_by_id(clock.right(row) for row in rows),
        one_row=run_log.one_row_per_id,
        tolerance=tolerance,
    )
    matches, ambiguous = matching.best()
    view = _View(
        history=history,
        rows_of=matching.rows_of,
        matches=matches,
        ambiguous=frozenset(ambiguous),
        oldest=None if oldest is None else oldest + clock.offset,
        unsettled=(now - settle, now),
        readable=bool(rows) or not refused,
    )
    findings = tuple(_finding(kill, view) for kill in kills)
    claimed = {row.key for found in findings for row in found.rows if matches.get(_run_key(found.kill)) is row}
    ghosts = tuple(_ghosts((clock.right(row) for row in open_rows), claimed, history))
    facts = msgspec.structs.replace(
        run_log.facts,
        time_zone=clock.zone if clock.offset else run_log.facts.time_zone,
        skew_s=_skew(attempts, matches),
    )
    return Reconciled(
        findings=findings,
        ghosts=ghosts,
        twice=_twice(history, doubles, question),
        facts=facts,
        refused=tuple(dict.fromkeys(refused)),
    )


_T = TypeVar("_T")


def _asked(ask: Callable[[], Iterable[_T]], refused: list[str]) -> Iterator[_T]:
    """Put one question to the run log; one that is refused, or cut off, leaves the others their answers."""
    try:
        yield from ask()
    except RunLogError as error:
        refused.append(error.message + (f" ({error.hint})" if error.hint else ""))


def _by_id(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.task_id is not None:
            found[row.task_id].append(row)
    return found


# -- the run log's clock ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """What to add to a row's times; `zone`: the offset in words."""

    offset: Micros = 0
    zone: str | None = None

    def right(self, row: Row) -> Row:
        if not self.offset:
            return row
        return replace(
            row,
            started_at=None if row.started_at is None else row.started_at + self.offset,
            finished_at=None if row.finished_at is None else row.finished_at + self.offset,
        )


QUARTER = 15 * 60 * SECOND  # every zone's offset is a multiple of a quarter of an hour
_ENOUGH_PAIRS = 2


def _clock(facts: RunLogFacts, attempts: Mapping[str, Sequence[_Attempt]], rows: Sequence[Row]) -> _Clock:
    """Derive the zone of times that carry none, from ids with exactly one run and one row.

    If all of them lie off by the same multiple of a quarter of an hour, that is the zone's offset.
    """
    if facts.time_zone not in (None, "UTC"):
        return _Clock()
    by_id = _by_id(rows)
    apart = [
        found[0].started_at - attempts[task_id][0].start
        for task_id, found in by_id.items()
        if len(found) == 1 and len(attempts.get(task_id, ())) == 1 and found[0].started_at is not None
    ]
    quarters = {round(one / QUARTER) for one in apart}
    if len(apart) < _ENOUGH_PAIRS or len(quarters) != 1 or not next(iter(quarters)):
        return _Clock()
    offset = next(iter(quarters)) * QUARTER
    if abs(offset) > 14 * 3600 * SECOND or any(abs(one - offset) > 120 * SECOND for one in apart):
        return _Clock()
    hours, minutes = divmod(abs(offset) // (60 * SECOND), 60)
    sign = "+" if offset > 0 else "-"
    return _Clock(offset=-offset, zone=f"UTC{sign}{hours:02d}:{minutes:02d} (derived from {len(apart)} rows)")


def _skew(attempts: Mapping[str, Sequence[_Attempt]], matches: Mapping[int, Row]) -> float | None:
    """How far the run log's clock is ahead of the journal's, in seconds: the median over runs whose start is shown.

    A receipt is a start only where the worker had a process free; the smallest distances are the honest ones.
    """
    apart = sorted(
        matches[id(one.run)].started_at - one.start  # type: ignore[operator]
        for found in attempts.values()
        for one in found
        if id(one.run) in matches and matches[id(one.run)].started_at is not None
    )
    if not apart:
        return None
    low = apart[: max(1, len(apart) // 2)]
    return round(low[len(low) // 2] / SECOND, 3)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matching:
    """Runs and rows of the same ids, to be assigned to each other."""

    attempts: Mapping[str, Sequence[_Attempt]]
    rows_of: Mapping[str, Sequence[Row]]
    one_row: bool
    tolerance: Micros

    def best(self) -> tuple[dict[int, Row], set[int]]:
        """Assign rows to runs, best match first; returns run -> row, and the runs that two rows fit equally."""
        pairs = [
            (attempt, row, *_cost(attempt, row, self.attempts[task_id], one_row=self._overwritten(task_id)))
            for task_id in self.attempts
            for attempt in self.attempts[task_id]
            for row in self.rows_of.get(task_id, ())
        ]
        if not pairs:
            return {}, set()
        import pandas as pd  # noqa: PLC0415 - heavy, and only needed with a run log

        frame = pd.DataFrame([(outside, apart) for _, _, outside, apart in pairs], columns=["outside", "apart"])
        near = frame[frame["outside"] <= self.tolerance].sort_values(["outside", "apart"], kind="stable")
        matches: dict[int, Row] = {}
        cost: dict[int, tuple[int, int]] = {}
        ambiguous: set[int] = set()
        taken: set[str] = set()
        for position in near.index.tolist():
            attempt, row, outside, apart = pairs[position]
            key = id(attempt.run)
            if row.key in taken:
                continue
            if key in matches:
                if cost[key] == (outside, apart) and row.state is not matches[key].state:
                    ambiguous.add(key)
                continue
            matches[key], cost[key] = row, (outside, apart)
            taken.add(row.key)
        return matches, ambiguous

    def _overwritten(self, task_id: str) -> bool:
        return self.one_row or len(self.rows_of.get(task_id, ())) == 1


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


# -- naming by results --------------------------------------------------------


def named_by_results(history: History, results: Results, question: Question) -> History:
    """Name losses by what Celery itself stored of them: the same `Job: N` text, or the pid of a STARTED row.

    The text of a loss line is the exception of its task's FAILURE row (celery/worker/request.py on_failure); a row
    must be of the death's worker, or of an id that this worker received, and be stored within the tolerance. Where it
    disagrees with another naming the row wins, with low confidence.

    Raises:
        RunLogError: the table cannot be read.
    """
    told = [death for death in history.deaths if isinstance(death.told, TaskLost) and death.job is not None]
    losses = list(results.losses(question.since - TOLERANCE, question.until + TOLERANCE)) if told else []
    wanted = [death for death in history.deaths if death.exit is not None or death.exits]
    begun = list(results.started()) if wanted else []
    renamed: list[Death] = []
    taken: set[str] = set()
    for death in history.deaths:
        row = _stored_loss(death, losses, taken) or _stored_start(death, begun, taken)
        if row is not None:
            taken.add(row.task_id)
            renamed.append(_renamed(death, row))
        else:
            renamed.append(death)
    return replace(history, deaths=tuple(renamed))


def _stored_loss(death: Death, losses: Sequence[StoredResult], taken: Collection[str]) -> StoredResult | None:
    told, life = death.told, death.life
    if not isinstance(told, TaskLost) or death.job is None:
        return None
    received = {run.task_id for run in life.runs}
    fitting = [
        row
        for row in losses
        if row.job == death.job
        and (row.signal, row.exit_code) == (told.signal, told.exit_code)
        and row.stored_at is not None
        and told.at - SECOND <= row.stored_at <= told.at + TOLERANCE
        and row.task_id not in taken
        and (row.worker == life.node if row.worker and life.node else row.task_id in received)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _stored_start(death: Death, begun: Sequence[StoredResult], taken: Collection[str]) -> StoredResult | None:
    life = death.life
    if death.exit is None or death.name.how not in ("none", "elimination", "job"):
        return None
    fitting = [
        row
        for row in begun
        if row.pid == death.exit.child_pid and row.task_id not in taken and row.hostname == life.node is not None
    ]
    return fitting[0] if len(fitting) == 1 else None


def _renamed(death: Death, row: StoredResult) -> Death:
    """Give a death the run that its stored result tells of."""
    name, life = death.name, death.life
    stored = "its stored result says so" if row.job is not None else "its STARTED result has the process's pid"
    if name.run is not None and name.run.task_id == row.task_id:
        return replace(death, name=replace(name, confidence="high", reasons=(*name.reasons, stored)))
    own = [run for run in life.runs if run.task_id == row.task_id and run.first_at <= death.at + SECOND]
    run = (
        own[-1]
        if own
        else Run(
            group=life.group, main_pid=life.main_pid, task_id=row.task_id, task_name=row.task_name or "", received=None
        )
    )
    reasons: tuple[str, ...] = (stored,)
    if name.run is not None:
        reasons = (
            stored,
            f"the journal alone would have named {name.run.task_name}[{name.run.task_id}] by {name.how}",
        )
    how = "result" if row.job is not None else "accepted"
    confidence = "low" if name.run is not None else "high"
    return replace(death, run=run, name=replace(name, run=run, how=how, confidence=confidence, reasons=reasons))


# -- verdicts -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What verdicts are given on. `unsettled`: deaths in this span may still get their row."""

    history: History
    rows_of: Mapping[str, Sequence[Row]]
    matches: Mapping[int, Row]
    ambiguous: frozenset[int]
    oldest: Micros | None
    unsettled: tuple[Micros, Micros]
    readable: bool


def _finding(kill: Kill, view: _View) -> Finding:
    task_id = kill.task_id
    if task_id is None:
        return Finding(kill=kill, reasons=("the task could not be named, so its row cannot be looked for",))
    if not view.readable:
        return Finding(kill=kill, reasons=("the run log refused to be read, so there is no verdict",))
    rows = tuple(view.rows_of.get(task_id, ()))
    own = view.matches.get(_run_key(kill))
    shown = (own, *(row for row in rows if row is not own)) if own is not None else rows
    return Finding(kill=kill, verdict=_verdict(kill, view, rows, own), rows=shown[:20])


def _verdict(kill: Kill, view: _View, rows: Sequence[Row], own: Row | None) -> Verdict:
    torn = _run_key(kill) in view.ambiguous
    since, now = view.unsettled
    if since < kill.at <= now:  # a death later than now has settled: the clocks differ, which `doctor` reports
        return Verdict.UNSETTLED
    if own is not None and not torn:
        return _by_own_row(kill, view.history, own)
    if any(row.state is State.DONE and _after(row, kill) for row in rows if row is not own):
        return Verdict.RECOVERED
    if torn:
        return Verdict.AMBIGUOUS
    if view.oldest is not None and view.oldest > kill.at + REACH:
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


def _twice(history: History, more: Iterable[tuple[str, str | None, int]], question: Question) -> tuple[Twice, ...]:
    """Give the ids that finished once more within the window; the evidence before it would tell last week's again."""
    found = {
        one.task_id: Twice(
            task_id=one.task_id,
            task_name=one.task_name or None,
            deliveries=one.deliveries,
            finished=len(one.finished_at),
        )
        for one in history.twice
        if any(question.since <= at < question.until for at in one.finished_at[1:])
    }
    for task_id, name, finished in more:
        known = found.get(task_id)
        if known is None or known.finished < finished:
            deliveries = max(finished, history.deliveries.get(task_id, 0), known.deliveries if known else 0)
            found[task_id] = Twice(task_id=task_id, task_name=name, deliveries=deliveries, finished=finished)
    return tuple(sorted(found.values(), key=lambda one: one.task_id))
