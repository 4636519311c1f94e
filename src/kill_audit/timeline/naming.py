"""Name the task of a loss: Celery's loss line names neither task nor id, so always say how it was named.

Rules of this file:
1. The ladder, first that holds: `line` (the line names it), `accepted` (the pool process that took it is the one that
   died), `process` (the last unfinished task line of that process), `job` (billiard's number), `elimination` (the
   only ones left).
2. `job` names a task only if exactly one numbering fits: every unseen wait (ETA, rate limit) shifts the numbers, so
   each way of holding tasks back that the lines allow counts, and two ways that differ name nobody.
3. A wrong name is worse than none: what is left open is listed as candidates.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Micros
from kill_audit.events import ChildExited, Line, TaskLost
from kill_audit.timeline.lives import CLOSE, Life
from kill_audit.timeline.partial import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss line and the exits it may belong to: exactly one, several of one pass, or none that was printed."""

    event: TaskLost
    exits: tuple[ChildExited, ...] = ()

    @property
    def exit(self) -> ChildExited | None:
        """The exit, where it is the only one."""
        return self.exits[0] if len(self.exits) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The run that was lost, and how that is known. `exit`: the exit that the naming settled."""

    run: Run | None
    how: str
    confidence: str | None
    candidates: tuple[Run, ...] = ()
    reasons: tuple[str, ...] = ()
    exit: ChildExited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known around a batch of losses.

    `claimed`: runs already accounted for. `handed_back`: runs that were put back on the queue unstarted as far as the
    lines tell (received again after this life). `idle_exits`: pool processes that died in the same event with no loss
    of their own, while this life reports its losses: then no task can have been waiting for a free process. `gaps`:
    lines are missing.
    """

    life: Life
    claimed: Collection[int]
    handed_back: frozenset[int]
    restored: int | None
    idle_exits: bool
    gaps: bool


@dataclass(slots=True)
class _Work:
    names: dict[int, Name] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)


def open_at(life: Life, moment: Micros, claimed: Collection[int], *, slack: Micros = 0) -> tuple[Run, ...]:
    """Runs received by `moment` and not known to have ended by then.

    `slack`: for a moment that another program tells of; lines of one main process are in exact order.
    """
    return tuple(
        run
        for run in life.runs
        if id(run) not in claimed
        and run.first_at <= moment + (slack if run.received is not None else CLOSE)
        and (run.end is None or run.end.mark.at > moment)
    )


def name_losses(losses: Sequence[Loss], around: Surroundings) -> tuple[Name, ...]:
    """Name the runs of losses that belong to one event of one life; a name for each loss, in its order."""
    work = _Work(taken=set(around.claimed))
    for place, loss in enumerate(losses):
        name = _by_process(loss, around.life, work.taken)
        if name is not None and name.run is not None:
            work.names[place] = name
            work.taken.add(id(name.run))
    rest = [place for place in range(len(losses)) if place not in work.names]
    if rest:
        last = max(losses[place].event.at for place in rest)
        unfinished = open_at(around.life, last, work.taken)
        candidates = tuple(run for run in unfinished if _may_be_lost(run, losses))
        _by_number(rest, losses, unfinished, candidates, around, work)
    return tuple(work.names[place] for place in range(len(losses)))


def _may_be_lost(run: Run, losses: Sequence[Loss]) -> bool:
    """Leave out what ended later, waits for its time, or was seen on a process that did not die here."""
    if run.end is not None or (run.waits and run.waits_at(max(loss.event.at for loss in losses))):
        return False
    if run.accepted_pid is None and not run.spoke_process:  # nothing to compare, and a wide worker has many exits
        return True
    exits = [exit_ for loss in losses for exit_ in loss.exits]
    if not exits or any(not loss.exits for loss in losses):
        return True
    if run.accepted_pid is not None:
        return run.accepted_pid in {exit_.child_pid for exit_ in exits}
    return run.spoke_process in {exit_.child for exit_ in exits}


def _by_process(loss: Loss, life: Life, taken: Collection[int]) -> Name | None:
    """Name by the one pool process that died: it took the task, or the task's last line is its own."""
    exit_ = loss.exit
    if exit_ is None:
        return None
    open_runs = [run for run in open_at(life, loss.event.at, taken) if run.end is None]
    for run in reversed(open_runs):
        if run.accepted_pid == exit_.child_pid:
            return Name(run=run, how="accepted", confidence="high", exit=exit_)
    spoken = [run for run in open_runs if _spoke_there(run, exit_, life)]
    if not spoken:
        return None
    run = max(spoken, key=lambda run: run.spoke.at if run.spoke else 0)
    return Name(run=run, how="process", confidence="high", exit=exit_)


def _process_of(run: Run, loss: Loss, life: Life) -> ChildExited | None:
    """Which of a loss's exits is the run's own process, where a line shows it."""
    if run.accepted_pid is None and run.spoke is None:
        return loss.exit
    return loss.exit or next(
        (exit_ for exit_ in loss.exits if run.accepted_pid == exit_.child_pid or _spoke_there(run, exit_, life)), None
    )


def _surely_dead(losses: Sequence[Loss], candidates: Sequence[Run], life: Life) -> frozenset[int]:
    """Runs that were on one of the processes that died together, whichever loss is theirs."""
    together = [loss for loss in losses if len(loss.exits) > 1]
    return frozenset(id(run) for run in candidates if any(_process_of(run, loss, life) for loss in together))


def _spoke_there(run: Run, exit_: ChildExited, life: Life) -> bool:
    if run.spoke is None:
        return False
    if run.spoke_process:
        return run.spoke_process == exit_.child
    return run.spoke_pid == exit_.child_pid and exit_.child_pid != life.main_pid


def _by_number(
    rest: Sequence[int],
    losses: Sequence[Loss],
    unfinished: Sequence[Run],
    candidates: Sequence[Run],
    around: Surroundings,
    work: _Work,
) -> None:
    jobs = [losses[place].event.job for place in rest]
    usable = around.life.numbered and not around.gaps and all(job is not None for job in jobs)
    dead = _surely_dead([losses[place] for place in rest], candidates, around.life)
    if usable:
        numbers = [job for job in jobs if job is not None]
        needed = dead if len(dead) <= len(rest) else frozenset()
        way = _only_numbering(numbers, unfinished, candidates, around, needed)
        for place, run in zip(rest, way, strict=bool(way)):
            exit_ = _process_of(run, losses[place], around.life)
            doubt = _late_rivals(run, losses[place], candidates, around.life)
            work.names[place] = Name(
                run=run, how="job", confidence="medium" if doubt else "high", exit=exit_, reasons=doubt
            )
        if way:
            return
    if len(dead) == len(rest):
        candidates = [run for run in candidates if id(run) in dead]
    _by_elimination(rest, losses, candidates, around, work, certain=len(dead) == len(rest))


def hides_waits(life: Life) -> bool:
    """Whether a task's ETA may be hidden: "received" lines show it up to 5.0 only (celery/app/trace.py)."""
    return not life.version or life.version >= (5, 1)


def _late_rivals(run: Run, loss: Loss, candidates: Sequence[Run], life: Life) -> tuple[str, ...]:
    """Say whether an older task might have taken this job's number instead: one whose wait ended just then, unseen."""
    job = loss.event.job
    older = [
        other
        for other in candidates
        if other is not run
        and other.number is not None
        and job is not None
        and other.number < job
        and not _surely_handed_out(other)
    ]
    if not older or not hides_waits(life):
        return ()
    return ("if an older task had waited for its time unseen, and began just before, the number would be that task's",)


def _only_numbering(
    jobs: Sequence[int],
    unfinished: Sequence[Run],
    candidates: Sequence[Run],
    around: Surroundings,
    needed: Collection[int],
) -> tuple[Run, ...]:
    """Assign the jobs to runs, in their order, if just one way fits that takes all `needed` ones; else say nothing.

    Where some way leaves over only runs that were handed back when the worker stopped, the others do not count.
    """
    board = _board(unfinished, candidates, around)
    still = [run for run in unfinished if run.end is None]
    if around.restored and len(still) > len(jobs):
        kept = {id(run) for run in still if id(run) not in around.handed_back}
        count, way = _numberings(jobs, board, {*needed, *kept})
        if count:
            return way
    return _numberings(jobs, board, needed)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Board:
    """The runs that jobs may belong to, in ascending order of their numbers.

    `highest`: the job of a run if nothing older waits, its number. `lowest`: its job if every older run that may wait
    unseen does. Neither ever falls from one run to the next. `doubtful`: 1 where the run itself may wait unseen, else
    0. `shifts`: whether a wait can be hidden, so that a job may be lower than the number. `exact`: whether all that
    may wait did.
    """

    runs: tuple[Run, ...]
    highest: npt.NDArray[np.int64]
    lowest: npt.NDArray[np.int64]
    doubtful: npt.NDArray[np.int64]
    shifts: bool
    exact: bool


def _board(unfinished: Sequence[Run], candidates: Sequence[Run], around: Surroundings) -> _Board:
    """Lay out the candidates; none of them where two runs have one number, for then the numbers do not hold."""
    numbers = [run.number for run in unfinished if run.number is not None]
    sound = len(set(numbers)) == len(numbers)
    waiting = sorted(run.number for run in unfinished if run.number is not None and not _surely_handed_out(run))
    numbered = sorted((run.number, place) for place, run in enumerate(candidates) if run.number is not None and sound)
    runs = tuple(candidates[place] for _, place in numbered)
    return _Board(
        runs=runs,
        highest=np.array([number for number, _ in numbered], np.int64),
        lowest=np.array([number - bisect_left(waiting, number) for number, _ in numbered], np.int64),
        doubtful=np.array([not _surely_handed_out(run) for run in runs], np.int64),
        shifts=hides_waits(around.life),
        exact=around.idle_exits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """From where an assignment that goes upwards may go on: item 0 is before all runs, item n + 1 is at run n.

    `highest`, `lowest`: the bounds of the job there, less those that the runs up to there take for themselves.
    `end`: behind the next run that must not be passed over.
    """

    highest: npt.NDArray[np.int64]
    lowest: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


def _steps(board: _Board, must: Sequence[int]) -> _Steps:
    """Prepare the steps of a board whose runs at the places `must` are to be taken."""
    size = len(board.runs)
    ends = np.array([*(place + 1 for place in must), size], np.int64)
    return _Steps(
        highest=np.concatenate(([0], board.highest)),
        lowest=np.concatenate(([0], board.lowest - board.doubtful)),
        end=ends[np.searchsorted(np.array(must, np.int64), np.arange(size + 1))],
    )


def _window(board: _Board, steps: _Steps, rise: int, at: slice) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Say which runs (from, until) may have the next job, which is higher by `rise`, for each place to go on from.

    A run that still waits lowers the jobs of those received after it: number less job may grow from one victim to the
    next by as many as wait unseen between them, and never falls.
    """
    highest, lowest = steps.highest[at] + rise, steps.lowest[at] + rise
    first = np.maximum(np.arange(len(steps.end))[at], np.searchsorted(board.highest, highest))
    end = np.minimum(steps.end[at], np.searchsorted(board.lowest, lowest, "right"))
    if board.exact:
        first = np.maximum(first, np.searchsorted(board.lowest, lowest))
    if not board.shifts:
        end = np.minimum(end, np.searchsorted(board.highest, highest, "right"))
    return first, np.maximum(first, end)


def _numberings(jobs: Sequence[int], board: _Board, needed: Collection[int]) -> tuple[int, tuple[Run, ...]]:
    """Count the assignments of jobs to runs that some set of unseen waits explains: 0, 1, or 2 for several.

    An only one is given too, in the order of the jobs. Jobs and numbers ascend together, and whether a run may have
    the next job depends on the run before it alone: so the ways to go on from each run are counted once for each job,
    from the last job to the first, and no assignment is spelled out.
    """
    must = [place for place, run in enumerate(board.runs) if id(run) in needed]
    order = sorted(range(len(jobs)), key=lambda place: jobs[place])
    if len(must) < len(needed) or len(board.runs) < len(jobs) or jobs[order[-1]] > board.highest[-1]:
        return 0, ()
    rises = [after - before for before, after in pairwise([0, *(jobs[place] for place in order)])]
    steps = _steps(board, must)
    ways = (np.arange(len(board.runs)) >= (must[-1] if must else 0)).astype(np.int8)
    layers = [ways]
    for rise in reversed(rises):
        first, end = _window(board, steps, rise, slice(None))
        sums = np.concatenate(([0], np.cumsum(ways, dtype=np.int64)))
        onward = np.minimum(sums[end] - sums[first], 2).astype(np.int8)
        ways = onward[1:]
        layers.append(ways)
    if onward[0] != 1:
        return int(onward[0]), ()
    chosen = _follow(board, steps, rises, layers[-2::-1])
    run_of = dict(zip(order, chosen, strict=True))
    return 1, tuple(run_of[place] for place in range(len(jobs)))


def _follow(
    board: _Board, steps: _Steps, rises: Sequence[int], layers: Sequence[npt.NDArray[np.int8]]
) -> tuple[Run, ...]:
    """Walk along the only way, given for each job how many ways go on from each run that may have it."""
    chosen: list[int] = []
    for rise, ways in zip(rises, layers, strict=True):
        here = chosen[-1] + 1 if chosen else 0
        first, end = _window(board, steps, rise, slice(here, here + 1))
        chosen.append(int(first[0] + np.flatnonzero(ways[first[0] : end[0]])[0]))
    return tuple(board.runs[place] for place in chosen)


def _surely_handed_out(run: Run) -> bool:
    """Whether a line shows that a run was on a process soon after its receipt: it did not wait unseen."""
    if run.accepted is not None or run.spoke is not None:
        return True
    if run.end is None or run.received is None or run.end.runtime_s is None:
        return False
    return run.end.mark.at - run.end.runtime_s * 1_000_000 <= run.received.at + 1_000_000


def _by_elimination(
    rest: Sequence[int],
    losses: Sequence[Loss],
    candidates: Sequence[Run],
    around: Surroundings,
    work: _Work,
    *,
    certain: bool,
) -> None:
    left = list(candidates)
    if len(left) > len(rest):
        kept = [run for run in left if id(run) not in around.handed_back]
        if len(kept) == len(rest):
            left = kept
    if len(left) == len(rest) and (certain or not around.gaps):
        ordered = sorted(rest, key=lambda place: (losses[place].event.job or 0, losses[place].event.at))
        for place, run in zip(ordered, sorted(left, key=lambda run: run.order), strict=True):
            pairing = len(rest) == 1
            work.names[place] = Name(
                run=run,
                how="elimination",
                confidence="high" if pairing and around.life.vouched else "medium",
                exit=_process_of(run, losses[place], around.life),
                reasons=() if pairing else ("which of the processes had which of these tasks is not shown",),
            )
        return
    for place in rest:
        work.names[place] = Name(
            run=None,
            how="none",
            confidence=None,
            candidates=tuple(left),
            reasons=(_why_unnamed(left, around),),
            exit=losses[place].exit,
        )


def _why_unnamed(left: Sequence[Run], around: Surroundings) -> str:
    if around.gaps:
        return "lines of this worker are missing, so a task not seen to finish may have finished"
    if not left:
        return (
            "the worker's log level hides which tasks it received"
            if around.life.quiet
            else "no task that this worker received is unaccounted for"
        )
    return f"{len(left)} unfinished tasks fit, and nothing shown tells them apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A run that was unfinished at a death as well, and why it is not the one that died."""

    run: Run
    why: str


def rivals(
    life: Life, victim: Run | None, moment: Micros, killed: Collection[int], again: Collection[str]
) -> tuple[Rival, ...]:
    """Say of every other unfinished run of a life why it is not a death's.

    Args:
        life: the life of the death.
        victim: the run that the death was given.
        moment: the death.
        killed: ids (`id()`) of runs that other deaths were given.
        again: task ids that were received again after the life.
    """
    found = []
    for run in open_at(life, moment, ()):
        if run is victim:
            continue
        if run.end is not None:
            why = f"it went on and {run.end.kind.name.lower()} {(run.end.mark.at - moment) / 1_000_000:.1f} s later"
        elif id(run) in killed:
            why = "it was killed as well, and is a kill of its own"
        elif run.waits_at(moment):
            why = "it was waiting for its time (ETA or countdown)"
        elif run.spoke_process:
            why = f"its own line shows it on {run.spoke_process}"
        elif run.task_id in again:
            why = "it was handed back unstarted, and received again"
        else:
            why = "nothing shows that it had begun"
        found.append(Rival(run=run, why=why))
    return tuple(found)


def ended_just_before(life: Life, loss: Loss, claimed: Collection[int]) -> Run | None:
    """Find a run that had finished when its process died: the loss is then no loss.

    No unfinished run may be left that the loss could be about, if some tasks waited unseen. The process or the job's
    number must agree, and both where unfinished runs are left at all.
    """
    moment = loss.event.at
    left = [run for run in open_at(life, moment, claimed) if _may_be_lost(run, [loss])]
    job = loss.event.job
    spoken = [run for run in left if run.spoke is not None]
    if any(_spoke_there(run, exit_, life) for run in spoken for exit_ in loss.exits):
        return None
    explains = any(run.number is None or job is None or run.number >= job for run in left)
    # A task that waited unseen may have the finished task's number: then only a success right before the death counts.
    doubtful = bool(left) and hides_waits(life)
    since = min((exit_.at for exit_ in loss.exits), default=moment) - _AT_ONCE if doubtful else moment - _AFTERMATH
    for run in reversed(life.runs):
        end = run.end
        if end is None or end.kind not in _DONE or not since <= end.mark.at <= moment:
            continue
        same_process = bool(end.process) and any(end.process == exit_.child for exit_ in loss.exits)
        same_job = life.numbered and run.number is not None and run.number == job
        if not explains and (same_process and same_job if left else same_process or same_job):
            return run
    return None


_DONE = frozenset({Line.SUCCEEDED, Line.RAISED, Line.IGNORED})
_AT_ONCE = 1_000_000
_AFTERMATH = 15_000_000  # a loss is printed at most some 15 s after the death (worker_lost_wait 10 s, pool check 5 s)
