"""Join killed runs with the rows of the app's run log, one to one and both ways, with a verdict each.

Rules of this room:
1. SQL and files are not known here (`runlog` hands in rows); how a kill was found is not either.
2. A row belongs to the run that it can have started from; one row serves one run, best match first. Where two rows
   fit a run equally well, nothing is guessed (`matching`).
3. The first verdict that holds is given (`verdicts`). Age is measured at the moment the run log is read, never against
   the window.
4. A question that the run log refuses takes no other question's answer away.
5. pandas proposes the pairs here and nowhere above, where they are many; its import alone takes longer than few do.

Times are microseconds since the epoch, UTC.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kill_audit.classify import Kill
from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros, Question
from kill_audit.errors import RunLogError, RunLogGoneError
from kill_audit.reconcile.clock import Clock, clock_of, skew_s
from kill_audit.reconcile.ghosts import Ghost, ghosts_of
from kill_audit.reconcile.matching import Attempt, Matches, attempts_of, by_ids, by_names, without_rows
from kill_audit.reconcile.naming import named_by_results
from kill_audit.reconcile.rows import (
    SETTLE,
    TOLERANCE,
    Results,
    Row,
    RunLog,
    State,
    StoredResult,
    by_id,
    refusal,
)
from kill_audit.reconcile.verdicts import REACH, Finding, Verdict, View, finding_of
from kill_audit.timeline import History

__all__ = [
    "REACH",
    "SETTLE",
    "TOLERANCE",
    "Finding",
    "Ghost",
    "Reconciled",
    "Results",
    "Row",
    "RunLog",
    "State",
    "StoredResult",
    "Twice",
    "Verdict",
    "named_by_results",
    "reconcile",
]


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
    questions = _Questions()
    told = _ask(run_log, kills, question, questions)
    attempts = {kill.task_id: attempts_of(kill.task_id, history) for kill in kills if kill.task_id is not None}
    clock = Clock() if run_log.knows_its_zone else clock_of(attempts, by_id(told.rows or ()))
    rows_of = by_id(map(clock.right, told.rows or ()))
    matches = by_ids(attempts, rows_of, one_row_per_id=run_log.one_row_per_id, tolerance=tolerance)
    if told.rows is not None:
        left = without_rows(kills, matches, rows_of.keys())
        matches |= _by_names(run_log, left, attempts, questions, clock, tolerance)
    view = View(
        history=history,
        attempts=attempts,
        rows_of=rows_of,
        matches=matches,
        oldest=None if told.oldest is None else clock.moment(*told.oldest),
        reach_known=told.oldest is not None,
        unsettled=(now - settle, now),
        readable=told.rows is not None,
        zone_known=run_log.knows_its_zone or clock.zone is not None,
    )
    claimed = {row.key for kill in kills if (row := matches.row_of.get(id(kill.death.run))) is not None}
    return Reconciled(
        findings=tuple(finding_of(kill, view) for kill in kills),
        ghosts=tuple(ghosts_of(map(clock.right, told.open_rows or ()), claimed, history)),
        twice=_twice(history, told.doubles or (), question),
        facts=_facts(run_log, clock, attempts, matches),
        refused=tuple(dict.fromkeys(questions.refused)),
    )


def _facts(run_log: RunLog, clock: Clock, attempts: Mapping[str, Sequence[Attempt]], matches: Matches) -> RunLogFacts:
    """Say what the run log is, and what is known of its clock."""
    facts = run_log.facts
    skew = skew_s(attempts, matches.row_of)
    return msgspec.structs.replace(facts, time_zone=clock.zone or facts.time_zone, skew_s=skew)


# -- the questions ----------------------------------------------------------------------------------------------------


_T = TypeVar("_T")


class _Questions:
    """Puts questions to the run log; one that is refused, or cut off, leaves the others their answers.

    `refused`: why some have none, in words. A run log that is gone is asked nothing more.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._gone = False

    def put(self, ask: Callable[[], Iterable[_T]]) -> tuple[_T, ...] | None:
        """Put one question; None if it is not answered to the end."""
        if self._gone:
            return None
        try:
            return tuple(ask())
        except RunLogError as error:
            self._gone = isinstance(error, RunLogGoneError)
            self.refused.append(refusal(error))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What the run log answered; None where it did not."""

    rows: tuple[Row, ...] | None
    oldest: tuple[Micros | None] | None
    open_rows: tuple[Row, ...] | None
    doubles: tuple[tuple[str, str | None, int], ...] | None


def _ask(run_log: RunLog, kills: Sequence[Kill], question: Question, questions: _Questions) -> _Told:
    ids = sorted({kill.task_id for kill in kills if kill.task_id is not None})
    rows = questions.put(lambda: run_log.rows_of(ids))
    oldest = questions.put(lambda: [run_log.oldest()])
    return _Told(
        rows=rows,
        oldest=None if oldest is None else (oldest[0],),
        open_rows=questions.put(lambda: run_log.open_rows(question.read_since)),
        doubles=questions.put(lambda: run_log.finished_twice(question.since, question.until)),
    )


def _by_names(
    run_log: RunLog,
    kills: Sequence[Kill],
    attempts: Mapping[str, Sequence[Attempt]],
    questions: _Questions,
    clock: Clock,
    tolerance: Micros,
) -> Matches:
    """Look for rows without an id of the runs that have none by their id."""
    runs = [one for kill in kills for one in attempts[kill.task_id or ""] if one.run is kill.death.run]
    if not runs:
        return Matches(row_of={}, torn=frozenset())
    names = {one.run.task_name for one in runs}
    span = min(one.start for one in runs) - tolerance, max(one.start for one in runs) + tolerance + 1
    rows = questions.put(lambda: run_log.rows_without_id(names, *span)) or ()
    return by_names(kills, attempts, tuple(map(clock.right, rows)), tolerance=tolerance)


# -- the other direction ----------------------------------------------------------------------------------------------


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
