"""Pair deaths with tasks: one death is one kill, however many lines tell of it.

Rules of this file:
1. A loss line and the exit line of its process are one death. The lines of one maintenance pass come exits first,
   losses after; the n-th exit is not the n-th loss (billiard/pool.py _join_exited_workers).
2. A hard time limit, a revoked task's end and the exit that follows each are one death.
3. Of the unfinished tasks of a dead main process at most *concurrency* had begun: those with a line of their own
   first, then the oldest. Those waiting for their time had not.
4. An exit without a loss takes a task only in a life that reports no losses at all (brokers without an event loop),
   or where one unfinished task has nowhere else to have gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kill_audit import events
from kill_audit.entry import Micros
from kill_audit.events import ChildExited, Event, HardTimeLimit, TaskLost, Terminated, Terminating
from kill_audit.timeline.lives import CLOSE, SECOND, Ending, Life
from kill_audit.timeline.naming import Loss, Name, Surroundings, ended_just_before, name_losses, open_at
from kill_audit.timeline.partial import Mark, Run

LOSS_LAG = (
    15 * SECOND
)  # worker_lost_wait is 10 s with brokers without an event loop, and the pool is looked at every 5 s
LOSS_AT_ONCE = 2 * SECOND  # with an event loop the loss follows in the same pass
LOSS_WAIT = int(9.5 * SECOND)  # worker_lost_wait, less what two log lines' times may differ by
LIMIT_LAG = int(
    6.5 * SECOND
)  # the exit after a hard time limit comes with the pool's next maintenance, at most 5 s later
PASS_GAP = SECOND // 4  # exits of one pass are printed in one loop, some 10 ms apart
EVENT_GAP = 15 * SECOND  # losses closer than this belong to one event of a worker
_HARMLESS = frozenset(
    {2, 10, 12, 17, 18, 19, 20, 23, 28}
)  # INT is ignored by pool processes; USR1 raises a soft limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The death of a pool process, or of a main process with all its pool processes, and one run that it cut off.

    `run` is None where the run cannot be named. `told`: the line that tells of it (a loss, a limit, a termination),
    None for what died with its main process. `at`: the first record that shows the death.
    """

    life: Life
    at: Micros
    main: bool
    run: Run | None
    name: Name
    told: Event | None = None
    exit: ChildExited | None = None
    exits: tuple[ChildExited, ...] = ()
    signal: int | None = None
    exit_code: int | None = None
    job: int | None = None
    retried: bool = False
    marks: tuple[Mark, ...] = ()
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleExit:
    """A pool process that died with no task on it."""

    life: Life
    exit: ChildExited
    not_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """A worker that died while its lines cannot show what it was running."""

    life: Life
    at: Micros
    max_tasks: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """A line that looks like a kill and is none."""

    life: Life
    mark: Mark
    why: str


@dataclass(slots=True)
class Findings:
    """What was found in one life; filled step by step by `deaths_of`."""

    life: Life
    deaths: list[Death] = field(default_factory=list)
    idle: list[IdleExit] = field(default_factory=list)
    blind: list[Blind] = field(default_factory=list)
    spared: list[Spared] = field(default_factory=list)
    claimed: set[int] = field(default_factory=set)
    exits_left: list[ChildExited] = field(default_factory=list)

    def take(self, run: Run | None) -> None:
        """Account for a run."""
        if run is not None:
            self.claimed.add(id(run))


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What other lives tell: runs of this life received again after it, and spans in which lines are missing."""

    received_again: frozenset[int]
    concurrency: int | None
    gaps: tuple[tuple[Micros, Micros], ...]


def deaths_of(life: Life, elsewhere: Elsewhere) -> Findings:
    """Find every death in one life."""
    found = Findings(life=life)
    found.exits_left = [event for event in life.said if isinstance(event, ChildExited)]
    _not_up(found)
    _hard_limits(found)
    _terminations(found)
    _cancellations(found)
    _named_losses(found)
    losses = _pair(found)
    _name_all(found, losses, elsewhere)
    _exits_alone(found, elsewhere)
    _with_main_process(found, elsewhere)
    return found


def mark_of(event: Event) -> Mark:
    """Point at the entry of an event."""
    return Mark(event.at, event.seen.cursor, event.seen.text)


# -- what names itself ----------------------------------------------------


def _not_up(found: Findings) -> None:
    """Set apart the processes that the pool itself killed because they did not come up (P7): no task was on them."""
    names = {event.child: event.at for event in found.life.said if isinstance(event, events.ChildNotUp)}
    for exit_ in [exit_ for exit_ in found.exits_left if exit_.child in names]:
        found.exits_left.remove(exit_)
        found.idle.append(IdleExit(life=found.life, exit=exit_, not_up=True))


def _latest(life: Life, task_id: str, moment: Micros, claimed: Collection[int]) -> Run | None:
    """The latest unfinished receipt of an id by a moment."""
    runs = [run for run in open_at(life, moment, claimed) if run.task_id == task_id and run.end is None]
    return runs[-1] if runs else None


def _stand_in(life: Life, task_id: str, name: str | None) -> Run:
    """A run whose receipt was not read."""
    return Run(group=life.group, main_pid=life.main_pid, task_id=task_id, task_name=name or "", received=None)


def _take_exit(
    found: Findings, after: Micros, lag: Micros, signals: Collection[int | None], run: Run | None
) -> ChildExited | None:
    """Take the exit that follows a line: the run's own process where that is known, else the next one."""
    fitting = [
        exit_ for exit_ in found.exits_left if after - CLOSE <= exit_.at <= after + lag and exit_.signal in signals
    ]
    if run is not None and _is_placed(run):
        own = [exit_ for exit_ in fitting if run.spoke_process == exit_.child or run.accepted_pid == exit_.child_pid]
        fitting = own or ([] if run.accepted_pid else fitting)
    if not fitting:
        return None
    found.exits_left.remove(fitting[0])
    return fitting[0]


def _is_placed(run: Run) -> bool:
    """Whether a line shows on which pool process the run was."""
    return bool(run.spoke_process or run.accepted_pid)


def _hard_limits(found: Findings) -> None:
    limits = [event for event in found.life.said if isinstance(event, HardTimeLimit)]
    nameless = [event for event in limits if event.task_id is None]
    for event in limits:
        if event.task_id is None:
            continue
        before = [other for other in nameless if event.at - 2 * SECOND <= other.at <= event.at + CLOSE]
        for other in before[:1]:
            nameless.remove(other)
        run = _latest(found.life, event.task_id, event.at, found.claimed) or _stand_in(
            found.life, event.task_id, event.task_name
        )
        _add_limit(found, event, before[:1], run, Name(run=run, how="line", confidence="high"))
    for event in nameless:
        why = ("the line that names the task was not printed",)
        _add_limit(found, event, [], None, Name(run=None, how="none", confidence=None, reasons=why))


def _add_limit(
    found: Findings, event: HardTimeLimit, before: Sequence[HardTimeLimit], run: Run | None, name: Name
) -> None:
    exit_ = _take_exit(found, event.at, LIMIT_LAG, (9, 15), run)
    told = (*before, event, *((exit_,) if exit_ else ()))
    found.take(run)
    found.deaths.append(
        Death(
            life=found.life,
            at=min(one.at for one in told),
            main=False,
            run=run,
            name=name,
            told=event,
            exit=exit_,
            signal=exit_.signal if exit_ else None,
            marks=tuple(mark_of(one) for one in told),
        )
    )


def _terminations(found: Findings) -> None:
    """Runs revoked with terminate; a soft signal, or a task that ended by itself afterwards, is no kill."""
    confirmed = [event for event in found.life.said if isinstance(event, Terminated)]
    for event in (event for event in found.life.said if isinstance(event, Terminating)):
        if event.signal is None or event.signal in _HARMLESS:
            continue
        run = _latest(found.life, event.task_id, event.at, found.claimed)
        later = [
            other
            for other in confirmed
            if other.at >= event.at - CLOSE
            and (other.task_id == event.task_id or (other.task_id is None and other.at <= event.at + LOSS_LAG))
        ]
        if run is None:
            if not later or any(run.task_id == event.task_id for run in found.life.runs):
                continue
            run = _stand_in(found.life, event.task_id, later[0].task_name)
        # A process that was stopped on purpose gets no exit line (billiard/pool.py, _controlled_termination): the next
        # one of that signal is another's, unless the run is known to have been there, or its end was told at once.
        exit_ = _take_exit(found, event.at, LIMIT_LAG, (event.signal,), run) if _is_placed(run) else None
        if exit_ is None and later:
            exit_ = _take_exit(found, later[0].at - LOSS_AT_ONCE, LOSS_AT_ONCE, (event.signal,), run)
        for other in later[:1]:
            confirmed.remove(other)
        told = (event, *((exit_,) if exit_ else ()), *later[:1])
        found.take(run)
        found.deaths.append(
            Death(
                life=found.life,
                at=event.at,
                main=False,
                run=run,
                told=event,
                exit=exit_,
                signal=event.signal,
                name=Name(run=run, how="line", confidence="high"),
                marks=tuple(mark_of(one) for one in told),
            )
        )


def _cancellations(found: Findings) -> None:
    """Late-acknowledged runs that the worker itself ended because its broker connection was lost (B6)."""
    for event in (event for event in found.life.said if isinstance(event, events.CancelledOnConnectionLoss)):
        run = _latest(found.life, event.task_id, event.at, found.claimed)
        if run is None:
            continue
        found.take(run)
        found.deaths.append(
            Death(
                life=found.life,
                at=event.at,
                main=False,
                run=run,
                told=event,
                name=Name(run=run, how="line", confidence="high"),
                marks=(mark_of(event),),
            )
        )


def _named_losses(found: Findings) -> None:
    """Losses whose line names the task: Celery up to 3.1, and 5.7 where it sends the task again itself."""
    for event in (event for event in found.life.said if isinstance(event, TaskLost) and event.task_id):
        exit_ = next(
            (exit_ for exit_ in reversed(found.exits_left) if _fits(exit_, event) and exit_.at <= event.at + CLOSE),
            None,
        )
        if event.outcome == "succeeded":
            if exit_ is not None:
                found.exits_left.remove(exit_)
            found.spared.append(Spared(life=found.life, mark=mark_of(event), why="success-before-death"))
            continue
        task_id = event.task_id or ""
        run = _latest(found.life, task_id, event.at, found.claimed) or _stand_in(found.life, task_id, event.task_name)
        if exit_ is not None:
            found.exits_left.remove(exit_)
        found.take(run)
        found.deaths.append(
            _death_of_loss(
                found.life,
                Loss(event=event, exits=(exit_,) if exit_ else ()),
                Name(run=run, how="line", confidence="high"),
            )
        )


def _fits(exit_: ChildExited, loss: TaskLost) -> bool:
    """Whether an exit can be a loss's: the same status, in time. Up to 3.1 a loss may tell no status at all."""
    same = (exit_.signal, exit_.exit_code) == (loss.signal, loss.exit_code) or (loss.signal, loss.exit_code) == (
        None,
        None,
    )
    return same and loss.at - LOSS_LAG <= exit_.at <= loss.at + LIMIT_LAG


def _death_of_loss(life: Life, loss: Loss, name: Name) -> Death:
    event, exit_ = loss.event, name.exit or loss.exit
    told: list[Event] = [*([exit_] if exit_ else loss.exits), event]
    told.extend(
        other
        for other in life.said
        if isinstance(other, events.ShutdownTraceback) and event.at <= other.at <= event.at + CLOSE
    )
    return Death(
        life=life,
        at=min(one.at for one in told),
        main=False,
        run=name.run,
        name=name,
        told=event,
        exit=exit_,
        exits=loss.exits,
        signal=event.signal if event.signal is not None else (exit_.signal if exit_ else None),
        exit_code=event.exit_code if event.exit_code is not None else (exit_.exit_code if exit_ else None),
        job=event.job,
        retried=event.outcome == "retried",
        marks=tuple(mark_of(one) for one in told[:8]),
    )


# -- losses that name nobody ----------------------------------------------


def _pair(found: Findings) -> list[Loss]:
    """Pair each nameless loss with the exits it may belong to (rule 1), by the order of the main process's lines."""
    order = {id(event): place for place, event in enumerate(found.life.said)}
    losses: list[Loss] = []
    for block in _blocks(found.life):
        first = order[id(block[0])]
        pending = [exit_ for exit_ in found.exits_left if any(_fits(exit_, event) for event in block)]
        before = _waited_for([exit_ for exit_ in pending if order[id(exit_)] < first], block[0].at)
        after = [exit_ for exit_ in pending if order[id(exit_)] > first]
        own = _busy_ones(_last_pass(before, len(block)) or after[: len(block)], len(block))
        losses.extend(_match(block, own))
        for exit_ in own[-len(block) :]:  # of more exits than losses it is not shown which were busy
            found.exits_left.remove(exit_)
    return losses


def _blocks(life: Life) -> list[list[TaskLost]]:
    """Losses of one maintenance pass: no exit stands between them, and they are printed together."""
    blocks: list[list[TaskLost]] = []
    fresh = True
    for event in life.said:
        if isinstance(event, ChildExited):
            fresh = True
        elif isinstance(event, TaskLost) and event.task_id is None:
            last = blocks[-1][-1] if blocks else None
            same = last is not None and (last.signal, last.exit_code) == (event.signal, event.exit_code)
            if fresh or last is None or not same or event.at - last.at > 2 * SECOND:
                blocks.append([])
            blocks[-1].append(event)
            fresh = False
    return blocks


def _waited_for(exits: list[ChildExited], moment: Micros) -> list[ChildExited]:
    """Leave out exits whose loss cannot be due yet, where losses come late (brokers without an event loop).

    There a loss is printed once its process has been dead for worker_lost_wait (billiard/pool.py,
    lost_worker_timeout); that it is so is shown by the youngest exit, which has been waiting already.
    """
    if not exits or moment - max(exit_.at for exit_ in exits) <= LOSS_AT_ONCE:
        return exits
    due = [exit_ for exit_ in exits if moment - exit_.at >= LOSS_WAIT]
    return due or exits


def _last_pass(exits: Sequence[ChildExited], wanted: int) -> list[ChildExited]:
    """The exits of the last pass before a block of losses, and of earlier ones while there are fewer than losses."""
    own: list[ChildExited] = []
    for exit_ in reversed(exits):
        if own and len(own) >= wanted and own[-1].at - exit_.at > PASS_GAP:
            break
        own.append(exit_)
    return own[::-1]


def _busy_ones(own: list[ChildExited], wanted: int) -> list[ChildExited]:
    """Of more exits than losses, prefer those that were heard from after their last task's end."""
    if len(own) > wanted:
        busy = [exit_ for exit_ in own if exit_.heard_at is not None]
        if len(busy) == wanted:
            return busy
    return own


def _match(block: Sequence[TaskLost], own: Sequence[ChildExited]) -> list[Loss]:
    if len(block) == len(own) == 1:
        return [Loss(event=block[0], exits=(own[0],))]
    return [Loss(event=event, exits=tuple(own)) for event in block]


def _name_all(found: Findings, losses: Sequence[Loss], elsewhere: Elsewhere) -> None:
    life = found.life
    real: list[Loss] = []
    for loss in losses:
        finished = ended_just_before(life, loss, found.claimed)
        if finished is not None and finished.end is not None:
            found.spared.append(Spared(life=life, mark=mark_of(loss.event), why="success-before-death"))
        elif loss.event.exit_code == 0 and _stopping(life, loss.event.at):
            found.spared.append(Spared(life=life, mark=mark_of(loss.event), why="exit-0-at-shutdown"))
        else:
            real.append(loss)
    for cluster in _clusters(real):
        names = name_losses(cluster, _surroundings(found, cluster, elsewhere))
        for loss, name in zip(cluster, names, strict=True):
            found.take(name.run)
            found.deaths.append(_death_of_loss(life, loss, name))


def _stopping(life: Life, moment: Micros) -> bool:
    return any(isinstance(event, events.Shutdown) and event.at <= moment for event in life.said)


def _clusters(losses: Sequence[Loss]) -> list[list[Loss]]:
    clusters: list[list[Loss]] = []
    for loss in sorted(losses, key=lambda loss: loss.event.at):
        if not clusters or loss.event.at - clusters[-1][-1].event.at > EVENT_GAP:
            clusters.append([])
        clusters[-1].append(loss)
    return clusters


def _surroundings(found: Findings, cluster: Sequence[Loss], elsewhere: Elsewhere) -> Surroundings:
    life = found.life
    first, last = cluster[0].event.at, cluster[-1].event.at
    idle = [exit_ for exit_ in found.exits_left if first - EVENT_GAP <= exit_.at <= last + EVENT_GAP]
    restored = sum(event.count for event in life.said if isinstance(event, events.Restoring) and event.at >= first)
    stopping = _stopping(life, last)
    back = (
        frozenset(id(run) for run in life.runs if id(run) in elsewhere.received_again and id(run) not in found.claimed)
        if stopping
        else frozenset()
    )
    return Surroundings(
        life=life,
        claimed=found.claimed,
        handed_back=back,
        restored=restored if stopping else None,
        idle_exits=bool(idle) and stopping,
        gaps=any(since <= last and until >= life.first_at for since, until in elsewhere.gaps),
    )


# -- exits without a loss line --------------------------------------------


def _exits_alone(found: Findings, elsewhere: Elsewhere) -> None:
    """Tell idle processes from those whose task's loss was never printed (rule 4)."""
    life = found.life
    reports = any(isinstance(event, TaskLost) for event in life.said)
    for exit_ in sorted(found.exits_left, key=lambda exit_: exit_.at):
        run = None if _told_soon(exit_, life) else _left_on(exit_, found, elsewhere, reports=reports)
        if run is None:
            found.idle.append(IdleExit(life=life, exit=exit_))
            continue
        found.take(run)
        name = Name(run=run, how=_how_left(run, exit_), confidence="medium", exit=exit_)
        found.deaths.append(
            Death(
                life=life,
                at=exit_.at,
                main=False,
                run=run,
                name=name,
                exit=exit_,
                signal=exit_.signal,
                exit_code=exit_.exit_code,
                marks=(mark_of(exit_),),
            )
        )


def _how_left(run: Run, exit_: ChildExited) -> str:
    if run.accepted_pid == exit_.child_pid:
        return "accepted"
    return "process" if run.spoke_process == exit_.child else "elimination"


def _told_soon(exit_: ChildExited, life: Life) -> bool:
    """Whether a loss may still be on its way: the life's lines end before it could have been printed."""
    return False if life.end.ending is not Ending.RUNNING else life.last.at < exit_.at and exit_.exit_code is not None


def _left_on(exit_: ChildExited, found: Findings, elsewhere: Elsewhere, *, reports: bool) -> Run | None:
    """The run that was on a process that died without a loss line, where one was."""
    left = [
        run
        for run in open_at(found.life, exit_.at, found.claimed)
        if run.end is None and not run.waits_at(exit_.at) and id(run) not in elsewhere.received_again
    ]
    own = [run for run in left if exit_.child == run.spoke_process or run.accepted_pid == exit_.child_pid]
    if own:
        return own[-1]
    elsewhere_busy = [run for run in left if run.spoke_process or run.accepted_pid]
    left = [run for run in left if run not in elsewhere_busy]
    if reports or not left:
        return None
    slots = elsewhere.concurrency or len(left)
    begun = [*elsewhere_busy, *left][:slots]
    begun = [run for run in begun if run in left]
    return begun[0] if begun else None


# -- what died with its main process --------------------------------------


def _with_main_process(found: Findings, elsewhere: Elsewhere) -> None:
    life, end = found.life, found.life.end
    if end.ending in (Ending.RUNNING, Ending.ORDERLY) or end.at is None:
        return
    slots = life.concurrency or elsewhere.concurrency
    if slots is not None:
        slots = max(0, slots - _not_replaced(life))
    open_runs = open_at(life, end.at, found.claimed, slack=CLOSE)
    left = [run for run in open_runs if run.end is None and not run.waits_at(end.at)]
    if not left:
        _blind(found, slots)
        return
    shown = [run for run in left if run.spoke is not None or run.accepted is not None]
    begun = [*shown, *(run for run in left if run not in shown)]
    begun = begun[:slots] if slots is not None else begun
    # Of a worker whose concurrency nothing shows, any of them may still have waited.
    certain = (slots is not None and len(begun) == len(left)) or all(run in shown for run in begun)
    for place, run in enumerate(sorted(begun, key=lambda run: run.first_at)):
        how = "accepted" if run.accepted else "process" if run.spoke else "elimination"
        confidence = "high" if run in shown else "medium" if certain else "low"
        name = Name(run=run, how=how, confidence=confidence, reasons=_why_begun(run, shown, slots, len(left)))
        found.take(run)
        found.deaths.append(
            Death(
                life=life,
                at=end.at,
                main=True,
                run=run,
                name=name,
                signal=end.signal,
                exit_code=None,
                marks=end.marks[:8],
                place=place,
            )
        )


def _not_replaced(life: Life) -> int:
    """Pool processes that died after the shutdown began; a stopping pool starts no new ones."""
    begun = next((event.at for event in life.said if isinstance(event, events.Shutdown)), None)
    if begun is None:
        return 0
    return sum(1 for event in life.said if isinstance(event, ChildExited) and event.at >= begun - CLOSE)


def _why_begun(run: Run, shown: Sequence[Run], slots: int | None, left: int) -> tuple[str, ...]:
    if run in shown:
        return ("a line of its own shows that it had begun",)
    if slots is None:
        return ("the worker's concurrency is not known, so every unfinished task is taken to have begun",)
    if left <= slots:
        return (f"{left} unfinished, and the worker runs {slots} at a time",)
    return (f"one of the oldest {slots} of {left} unfinished tasks: the worker runs {slots} at a time",)


def _blind(found: Findings, slots: int | None) -> None:
    """A main process that died while its log level hides what it received, or before its first line was read."""
    life = found.life
    if not life.quiet or life.end.at is None or slots == 0:
        return
    why = "no line of it was read that would show the tasks it received"
    if any(isinstance(event, events.LogsToFile) for event in life.said):
        why = "its lines are in log files, not in the journal"
    elif life.started is not None:
        why = "its log level hides the tasks it received"
    found.blind.append(Blind(life=life, at=life.end.at, max_tasks=slots, why=why))
