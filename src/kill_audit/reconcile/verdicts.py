"""What the run log says of each killed run. The first verdict that holds is given.

Rules of this file: age is measured at the moment the run log is read, never against the window. Rows come matched
(`matching`) and with their clock put right (`clock`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kill_audit.classify import Kill
from kill_audit.entry import Micros
from kill_audit.reconcile.clock import offset_of_one
from kill_audit.reconcile.matching import Attempt, Matches
from kill_audit.reconcile.rows import SECOND, TOLERANCE, Row, State
from kill_audit.timeline import History

REACH = 3600 * SECOND  # a table whose oldest row is this much younger than a kill was not kept back then
SHOWN_ROWS = 20  # of an id


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
class Finding:
    """A kill with its verdict (None without a run log, or where the run could not be named) and the rows of its id."""

    kill: Kill
    verdict: Verdict | None = None
    rows: tuple[Row, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What verdicts are given on.

    `attempts`, `rows_of`: by id. `matches`: which row is whose. `oldest`: the oldest moment of the table, None where
    it is empty; `reach_known`: whether it could be asked for. `unsettled`: deaths in this span may still get their
    row. `readable`: whether the rows of the ids could be read. `zone_known`: whether the rows' times are certain.
    """

    history: History
    attempts: Mapping[str, Sequence[Attempt]]
    rows_of: Mapping[str, Sequence[Row]]
    matches: Matches
    oldest: Micros | None
    reach_known: bool
    unsettled: tuple[Micros, Micros]
    readable: bool
    zone_known: bool


def finding_of(kill: Kill, view: View) -> Finding:
    """Give a kill its verdict, and the rows of its id, its own first."""
    task_id = kill.task_id
    if task_id is None:
        return Finding(kill=kill, reasons=("the task could not be named, so its row cannot be looked for",))
    if not view.readable:
        return Finding(kill=kill, reasons=("the run log refused to be read, so there is no verdict",))
    rows = tuple(view.rows_of.get(task_id, ()))
    own = view.matches.row_of.get(id(kill.death.run))
    shown = (own, *(row for row in rows if row is not own)) if own is not None else rows
    verdict, reasons = _doubted(kill, view, rows, _verdict(kill, view, rows, own))
    if own is not None and own.task_id is None:
        reasons = (*reasons, "its row holds no id; the task's name, the worker and the times fit")
    return Finding(kill=kill, verdict=verdict, rows=shown[:SHOWN_ROWS], reasons=reasons)


def _verdict(kill: Kill, view: View, rows: Sequence[Row], own: Row | None) -> Verdict:
    torn = id(kill.death.run) in view.matches.torn
    since, now = view.unsettled
    if since < kill.at <= now:  # a death later than now has settled: the clocks differ, which `doctor` reports
        return Verdict.UNSETTLED
    if own is not None and not torn:
        return _by_own_row(kill, view.history, own)
    if any(row.state is State.DONE and _is_after(row, kill) for row in rows if row is not own):
        return Verdict.RECOVERED
    if torn:
        return Verdict.AMBIGUOUS
    if view.oldest is not None and view.oldest > kill.at + REACH:
        return Verdict.UNCOVERED
    return Verdict.MISSING


def _doubted(kill: Kill, view: View, rows: Sequence[Row], verdict: Verdict) -> tuple[Verdict, tuple[str, ...]]:
    """Take back what rests on an assumption: on a zone that nobody gave, or on how far back the table reaches."""
    if not view.zone_known and verdict in (Verdict.MISSING, Verdict.RECOVERED):
        offset = offset_of_one(view.attempts.get(kill.task_id or "", ()), rows)
        if offset is not None:
            reason = (
                f"its only row fits if the run log's times are in {offset}, not UTC: say so by [run-log] time-zone"
            )
            return Verdict.AMBIGUOUS, (reason,)
    if verdict is Verdict.MISSING and not view.reach_known:
        return verdict, ("how far back the run log reaches could not be read: perhaps it was not kept back then",)
    return verdict, ()


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


def _is_after(row: Row, kill: Kill) -> bool:
    """Whether a row tells of a later run than the killed one: it ended after the death, or does not say when."""
    moment = row.finished_at if row.finished_at is not None else row.started_at
    return moment is None or moment >= kill.at - TOLERANCE
