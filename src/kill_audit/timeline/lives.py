"""Worker lives: each main process from its start to its end, put together across sources.

Rules of this file:
1. A life is a main process of one run of a unit, from its banner or "ready" to its end; a SIGHUP re-exec under the
   same pid is a new life.
2. Only what the main process itself wrote begins or feeds a life. Where a unit has a main process, a pid that is
   known as a pool process's is an impostor: its claims to speak for the main process are dropped. Where nothing
   shows a worker's life, only a Python program is believed to be one.
3. How a life ended is told by the service manager first, by the worker's own last words next, by a successor's start
   last.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

from kill_audit import events
from kill_audit.entry import Micros, Origin
from kill_audit.events import Event, UnitEvent, WorkerEvent
from kill_audit.timeline.partial import Group, Mark, Partial, Run, Segment, version_numbers

SECOND = 1_000_000
CLOSE = SECOND // 2  # two sockets bring lines up to 146 ms out of order on a busy machine (seen on two cores)


class Ending(StrEnum):
    """How a life ended."""

    RUNNING = "running"
    ORDERLY = "orderly"  # a warm shutdown, a re-exec, an exit of its own
    COLD = "cold"  # a cold shutdown: what ran was terminated
    ABANDONED = "abandoned"  # the warm shutdown was cut short by the worker itself
    KILLED = "killed"  # the main process was killed
    VANISHED = "vanished"  # a successor started, and nothing tells of the end
    BOOT_OVER = "boot-over"  # the boot ended under it


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEnd:
    """The end of a life: the first record that shows it, and the main process's own status where one is known."""

    ending: Ending
    at: Micros | None = None
    signal: int | None = None
    exit_code: int | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One main process's life.

    `runs` in order of receipt; `said`: its own events; `about`: the service manager's events of its unit in its boot.
    `numbered`: the start was read and no line of it is missing, so that runs' numbers are billiard's `Job: N`.
    """

    group: Group
    main_pid: int
    host: str
    started: Mark | None
    ready_at: Micros | None
    node: str | None
    version: tuple[int, ...]
    concurrency: int | None
    pool: str | None
    first_at: Micros
    last: Mark
    receipts: int
    drained: int
    recycled: int
    informed: bool
    numbered: bool
    vouched: bool
    runs: tuple[Run, ...] = ()
    said: tuple[WorkerEvent, ...] = ()
    about: tuple[UnitEvent, ...] = ()
    end: LifeEnd = LifeEnd(ending=Ending.RUNNING)

    @property
    def key(self) -> tuple[Group, int, Micros]:
        """What tells this life from every other."""
        return self.group, self.main_pid, self.first_at

    @property
    def quiet(self) -> bool:
        """Whether its log level hides receipts: lines of it were read, and none that INFO prints."""
        return not self.informed and not self.runs

    def of(self, *kinds: type[WorkerEvent]) -> tuple[WorkerEvent, ...]:
        """Its own events of these kinds, in order."""
        return tuple(event for event in self.said if isinstance(event, kinds))


def unseen(group: Group, last: Mark, end: LifeEnd, about: tuple[UnitEvent, ...]) -> Life:
    """Make the life of a worker of which no line was read, only what a service manager says of its end."""
    return Life(
        group=group,
        main_pid=0,
        host=group.machine,
        started=None,
        ready_at=None,
        node=None,
        version=(),
        concurrency=None,
        pool=None,
        first_at=last.at,
        last=last,
        receipts=0,
        drained=0,
        recycled=0,
        informed=False,
        numbered=False,
        vouched=False,
        about=about,
        end=end,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """When each boot of each machine was first and last heard of."""

    spans: Mapping[tuple[str, str], tuple[Micros, Micros]]

    def over(self, machine: str, boot: str) -> Micros | None:
        """The last moment of a boot that a later boot of its machine followed; None while it may still run."""
        span = self.spans.get((machine, boot))
        if not boot or span is None:
            return None
        later = any(
            other != boot and start >= span[1] for (owner, other), (start, _) in self.spans.items() if owner == machine
        )
        return span[1] if later else None


def boots_of(partials: Iterable[Partial]) -> Boots:
    """Measure the boots from the entries that were read."""
    spans: dict[tuple[str, str], tuple[Micros, Micros]] = {}
    for partial in partials:
        for stretch in partial.stretches:
            first, last = spans.get((stretch.machine, stretch.boot), (stretch.first, stretch.last))
            spans[stretch.machine, stretch.boot] = (min(first, stretch.first), max(last, stretch.last))
    return Boots(spans=spans)


# -- putting segments together --------------------------------------------


def impostors(partials: Sequence[Partial], worker_events: Iterable[WorkerEvent]) -> frozenset[tuple[Group, int]]:
    """Find pids that claim to be a main process and are not (rule 2)."""
    segments = [segment for partial in partials for segment in partial.segments]
    began = {(one.group, one.main_pid) for one in segments if one.started is not None or one.receipts}
    child_writers = {(one.group, one.main_pid) for one in segments if one.wrote_as_child}
    lines_of: Counter[tuple[str, ...]] = Counter()
    for partial in partials:
        for stretch in partial.stretches:
            lines_of[stretch.machine, stretch.boot, stretch.unit or ""] += stretch.entries
    named: set[tuple[Group, int]] = set()
    found: set[tuple[Group, int]] = set()
    for event in worker_events:
        group = group_of(event)
        if isinstance(event, events.ChildExited) and event.child_pid != event.seen.pid:
            named.add((group, event.child_pid))
        if (group, event.seen.pid) not in began and not _may_be_worker(event.seen.origin, lines_of[group[:3]]):
            found.add((group, event.seen.pid))
    return frozenset(found | _children(segments, began, child_writers, named))


def _children(
    segments: Sequence[Segment],
    began: set[tuple[Group, int]],
    child_writers: set[tuple[Group, int]],
    named: set[tuple[Group, int]],
) -> set[tuple[Group, int]]:
    """Pool processes that spoke as a main process, in units whose real main process is known."""
    mains: dict[Group, dict[int, Micros]] = defaultdict(dict)
    for segment in segments:
        pids = mains[segment.group]
        pids[segment.main_pid] = min(segment.first_at, pids.get(segment.main_pid, segment.first_at))
    found: set[tuple[Group, int]] = set()
    for group, pids in mains.items():
        real = {pid: at for pid, at in pids.items() if (group, pid) in began and (group, pid) not in child_writers}
        if not real:
            continue
        first = min(real.values())
        for pid in pids.keys() - real.keys():
            claim = (group, pid)
            # Where a pipe carries a worker's lines its pool processes' come under the same pid: such a worker may
            # have been there before the one whose pid is its own.
            forked = claim in child_writers and pids[pid] >= first
            if forked or claim in named or claim not in began:
                found.add(claim)
    return found


_FEW_LINES = 4  # a loss comes with a traceback: a worker whose only words are a line or two is none
_TOOLS = frozenset({"bash", "cat", "dash", "echo", "logger", "printf", "sh", "systemd-cat", "tee"})


def _may_be_worker(origin: Origin, lines: int) -> bool:
    """Whether the program that wrote a line can be a Celery worker, though no line shows one begin or receive.

    A process that has gone before journald looked at it has no name; then its unit must have said more than that.
    """
    if not origin.vouched or origin.container is not None:
        return True
    if origin.exe is not None:
        names = f"{origin.exe} {origin.comm or ''}"
        return any(word in names for word in ("python", "pypy", "celery", "uwsgi", "supervis"))
    return lines >= _FEW_LINES and origin.comm not in _TOOLS


def group_of(event: Event) -> Group:
    """The run of a unit whose process wrote an event."""
    origin = event.seen.origin
    return Group(origin.machine_id or origin.host, origin.boot_id or "", origin.unit or "", origin.invocation_id or "")


@dataclass(slots=True)
class _Draft:
    segments: list[tuple[int, Segment]]  # with the number of the source


def _drafts(partials: Sequence[Partial], outsiders: frozenset[tuple[Group, int]]) -> list[_Draft]:
    """Gather the segments of each life: one without a start continues the life that was there before it."""
    by_process: dict[tuple[Group, int], list[tuple[int, Segment]]] = defaultdict(list)
    for number, partial in enumerate(partials):
        for segment in partial.segments:
            if (segment.group, segment.main_pid) not in outsiders:
                by_process[segment.group, segment.main_pid].append((number, segment))
    drafts: list[_Draft] = []
    for found in _without_chatter(by_process).values():
        found.sort(key=lambda item: (item[1].first_at, item[1].started is None))
        mine: list[_Draft] = []
        for item in found:
            if not mine or (item[1].started is not None and not _same_life(mine[-1], item[1])):
                mine.append(_Draft([]))
            mine[-1].segments.append(item)
        drafts.extend(mine)
    return drafts


_Segments = dict[tuple[Group, int], list[tuple[int, Segment]]]


def _without_chatter(by_process: _Segments) -> _Segments:
    """Leave out what only chats (`celery multi`) in a unit whose worker's own lines were read."""
    speaking = {
        group[:3]
        for (group, _), found in by_process.items()
        for _, one in found
        if one.started or one.receipts or one.node
    }
    return {
        key: found
        for key, found in by_process.items()
        if key[0][:3] not in speaking or any(one.started or one.receipts or one.last.text for _, one in found)
    }


def _same_life(draft: _Draft, segment: Segment) -> bool:
    """Whether a start read in another source is the same one: its banner there and its "ready" here, or both twice."""
    known = [one for _, one in draft.segments]
    first = known[0].started
    if first is not None and segment.started is not None and first.at == segment.started.at:
        return True
    had_banner, had_ready = any(one.version for one in known), any(one.ready_at is not None for one in known)
    banner, ready = segment.version is not None, segment.ready_at is not None
    return not ((banner and had_banner) or (ready and had_ready))


def _merge(draft: _Draft, runs: Sequence[tuple[int, Run]], hosts: Mapping[str, str], *, vouched: bool) -> Life:
    segments = [segment for _, segment in draft.segments]
    first = segments[0]
    overlap = any(a.last.at > b.first_at for a, b in pairwise(segments))
    base: dict[int, tuple[int, int]] = {}
    receipts = dispatched = 0
    for number, segment in draft.segments:
        base.setdefault(number, (receipts, dispatched))
        receipts += segment.receipts
        dispatched += segment.dispatched
    placed = tuple(
        replace(
            run,
            order=run.order + base.get(number, (0, 0))[0],
            number=None if run.number is None else run.number + base.get(number, (0, 0))[1],
        )
        for number, run in sorted(runs, key=lambda item: item[1].first_at)
    )
    return Life(
        group=first.group,
        main_pid=first.main_pid,
        host=hosts.get(first.group.machine, first.group.machine),
        started=first.started,
        ready_at=_first(segment.ready_at for segment in segments),
        node=_first(segment.node for segment in segments),
        version=version_numbers(_first(segment.version for segment in segments)),
        concurrency=_first(segment.concurrency for segment in segments),
        pool=_first(segment.pool for segment in segments),
        first_at=first.first_at,
        last=max((segment.last for segment in segments), key=lambda mark: mark.at),
        receipts=receipts,
        drained=_drained(segments, runs),
        recycled=sum(segment.recycled for segment in segments),
        informed=any(segment.informed for segment in segments),
        numbered=first.started is not None
        and not overlap
        and not _reordered(draft, base, placed)
        and not (len(base) > 1 and _came_due_elsewhere(placed, segments[-1].last.at)),
        vouched=vouched,
        runs=placed,
    )


def _drained(segments: Sequence[Segment], runs: Sequence[tuple[int, Run]]) -> int:
    """Count the runs that ended after a shutdown began, also where another source tells of the shutdown."""
    drained, stopping = 0, False
    for segment in segments:
        drained += segment.finished if stopping else segment.drained
        stopping |= segment.stopping
    begun = min((segment.stopped_at for segment in segments if segment.stopped_at is not None), default=None)
    if begun is None:
        return drained
    loose = [run.end for _, run in runs if run.settled_late and run.end is not None]
    return drained + sum(1 for end in loose if end.finished and end.mark.at >= begun)


def _reordered(draft: _Draft, base: Mapping[int, tuple[int, int]], runs: Sequence[Run]) -> bool:
    """Whether a run started after one that was received later: some waited unseen, and the numbers do not hold."""
    if any(segment.reordered for _, segment in draft.segments):
        return True
    furthest = [
        (segment.furthest[0] + base[number][1], segment.furthest[1])
        for number, segment in draft.segments
        if segment.furthest[0] >= 0
    ]
    started = [
        (run.number, run.end.mark.at - run.end.runtime_s * SECOND)
        for run in runs
        if run.settled_late and run.number is not None and run.end is not None and run.end.runtime_s is not None
    ]
    return any(
        later > number and begun + CLOSE < at for number, at in started for later, begun in (*furthest, *started)
    )


def _came_due_elsewhere(runs: Iterable[Run], last: Micros) -> bool:
    """Whether a run waited at the end of its source and was handed out in the next: it shifts the numbers there."""
    return any(
        run.number is None and (run.settled_late or (run.waits and run.due is not None and run.due <= last))
        for run in runs
    )


_T = TypeVar("_T")


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)


# -- how a life ended -----------------------------------------------------

_CLEAN_RESULTS = frozenset({"success", "exit-code"})


def end_of(life: Life, successor: Mark | None, same_process: bool, boots: Boots) -> LifeEnd:
    """Tell how a life ended. `successor`: the start of the unit's next life, if one was read."""
    if successor is not None and same_process:
        return LifeEnd(ending=Ending.ORDERLY, at=successor.at, marks=(successor,))
    limit = successor.at + CLOSE if successor is not None else None
    about = [
        event
        for event in life.about
        if event.at >= life.last.at - CLOSE and (limit is None or event.at <= limit) and _concerns(event, life)
    ]
    over = boots.over(life.group.machine, life.group.boot)
    told = _told_by_manager(life, about)
    if told is not None:
        return told
    cut = _cut_short(life)
    if cut is not None and (successor is not None or over is not None or _last_words(life)):
        return cut
    if over is not None:
        if _asked_to_stop(life) and life.of(events.Shutdown) and any(isinstance(e, events.UnitStopped) for e in about):
            return LifeEnd(ending=Ending.ORDERLY, at=over)
        return LifeEnd(ending=Ending.BOOT_OVER, at=over)
    if successor is not None:
        if _asked_to_stop(life):
            return LifeEnd(ending=Ending.ORDERLY, at=successor.at, marks=(successor,))
        return LifeEnd(ending=Ending.VANISHED, at=successor.at, marks=(successor,))
    return LifeEnd(ending=Ending.RUNNING)


def _concerns(event: UnitEvent, life: Life) -> bool:
    return not event.invocation_id or not life.group.invocation or event.invocation_id == life.group.invocation


def _last_words(life: Life) -> bool:
    """Whether the cold shutdown's own last line was read: the process ends right after it."""
    return any(isinstance(event, events.Shutdown) and event.kind == "cold" for event in life.said)


def _asked_to_stop(life: Life) -> bool:
    return bool(life.of(events.Shutdown, events.Reexec, events.WorkerCrash))


def _told_by_manager(life: Life, about: Sequence[UnitEvent]) -> LifeEnd | None:
    exited = next((event for event in about if isinstance(event, events.MainExited)), None)
    ended = next((event for event in about if isinstance(event, events.UnitEnded)), None)
    stopped = next((event for event in about if isinstance(event, events.UnitStopped)), None)
    last = exited or ended or stopped
    if last is None:
        return None
    marks = tuple(Mark(event.at, event.seen.cursor, event.seen.text) for event in (exited, ended, stopped) if event)
    signal = exited.status if exited and exited.code in ("killed", "dumped") else None
    code = exited.status if exited and exited.code == "exited" else None
    killed = signal is not None or (exited is None and ended is not None and ended.result not in _CLEAN_RESULTS)
    if killed and not (exited is None and ended is not None and ended.result == "oom-kill" and _asked_to_stop(life)):
        return LifeEnd(
            ending=Ending.KILLED,
            at=_first_sign(life, about, last.at),
            signal=signal if exited else _kill_signal(about),
            marks=(*_signs(about), *marks),
        )
    cut = _cut_short(life)
    if cut is not None:
        return replace(cut, exit_code=code, marks=(*cut.marks, *marks))
    if not _asked_to_stop(life) and code is None and life.runs and life.main_pid:
        # Nothing was printed before it stopped: not even the line that every asked-for shutdown begins with (that
        # line goes to stdout, so that a log file, which does not say the pid, never has it).
        return LifeEnd(ending=Ending.KILLED, at=_first_sign(life, about, last.at), marks=marks)
    return LifeEnd(ending=Ending.ORDERLY, at=last.at, exit_code=code, marks=marks)


def _signs(about: Sequence[UnitEvent]) -> tuple[Mark, ...]:
    """The records of the killing itself, before its result."""
    return tuple(
        Mark(event.at, event.seen.cursor, event.seen.text)
        for event in about
        if isinstance(event, events.StopTimedOut | events.ProcessKilled | events.SignalSent | events.WatchdogTimeout)
    )[:12]


def _first_sign(life: Life, about: Sequence[UnitEvent], default: Micros) -> Micros:
    return min([default, *(mark.at for mark in _signs(about) if mark.at >= life.last.at - CLOSE)])


def _kill_signal(about: Sequence[UnitEvent]) -> int | None:
    signals = [event.signal for event in about if isinstance(event, events.ProcessKilled | events.SignalSent)]
    return signals[0] if signals else None


def _cut_short(life: Life) -> LifeEnd | None:
    """Tell a shutdown that terminates what runs: a cold one, or a warm one that the worker itself cut short."""
    shutdowns = [event for event in life.said if isinstance(event, events.Shutdown)]
    cold = [event for event in shutdowns if event.kind == "cold"]
    soft = [event for event in shutdowns if event.kind == "soft"]
    again = [event for event in shutdowns if event.kind == "again"]
    if cold or (again and soft) or (again and life.version >= (5, 5)):
        first = cold[0] if soft and cold else min([*again, *cold], key=lambda event: event.at)
        if soft and not cold:
            return None
        return LifeEnd(ending=Ending.COLD, at=first.at, marks=tuple(_mark(event) for event in (*again, *cold)))
    crash = life.of(events.ShutdownCrash)
    if crash:
        return LifeEnd(ending=Ending.ABANDONED, at=crash[0].at, marks=(_mark(crash[0]),))
    warm = [event for event in shutdowns if event.kind == "warm"]
    if len(warm) > 1 and (3,) <= life.version < (5, 3):
        return LifeEnd(ending=Ending.ABANDONED, at=warm[1].at, marks=tuple(_mark(event) for event in warm))
    return None


def _mark(event: Event) -> Mark:
    return Mark(event.at, event.seen.cursor, event.seen.text)


# -- all lives ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The events of all sources, each once, in order of time."""

    worker: Mapping[tuple[Group, int], tuple[WorkerEvent, ...]]
    units: Mapping[tuple[str, str, str], tuple[UnitEvent, ...]]
    other: tuple[Event, ...]


def lives_of(
    partials: Sequence[Partial], told: Told, runs: Sequence[tuple[int, Run]], boots: Boots
) -> tuple[Life, ...]:
    """Put together every life, in order of its first line, with its runs, its own events and its unit's."""
    every = [event for found in told.worker.values() for event in found]
    outsiders = impostors(partials, every)
    hosts = {stretch.machine: stretch.host for partial in partials for stretch in partial.stretches}
    vouched = {segment.group: partial.vouched for partial in partials for segment in partial.segments}
    drafts = _drafts(partials, outsiders)
    by_process: dict[tuple[Group, int], list[_Draft]] = defaultdict(list)
    by_group: dict[Group, list[_Draft]] = defaultdict(list)
    for draft in drafts:
        segment = draft.segments[0][1]
        by_process[segment.group, segment.main_pid].append(draft)
        by_group[segment.group].append(draft)
    owned: dict[int, list[tuple[int, Run]]] = defaultdict(list)
    for number, run in runs:
        pool = by_process.get((run.group, run.main_pid)) or by_group.get(run.group)
        if pool and (run.group, run.main_pid) not in outsiders:
            owned[id(_at(pool, run.first_at))].append((number, run))
    merged = [
        _merge(draft, owned[id(draft)], hosts, vouched=vouched.get(draft.segments[0][1].group, True))
        for draft in drafts
    ]
    return _with_events(merged, told, boots)


def _at(drafts: Sequence[_Draft], moment: Micros) -> _Draft:
    """The draft that was alive at a moment: the last one begun before it, else the first."""
    before = [draft for draft in drafts if draft.segments[0][1].first_at <= moment]
    return max(before, key=lambda draft: draft.segments[0][1].first_at) if before else drafts[0]


_OPENING = (events.WorkerBanner, events.WorkerPool, events.WorkerQueue, events.WorkerReady)


def _with_events(merged: Sequence[Life], told: Told, boots: Boots) -> tuple[Life, ...]:
    by_process: dict[tuple[Group, int], list[Life]] = defaultdict(list)
    by_unit: dict[tuple[str, str, str], list[Life]] = defaultdict(list)
    for life in sorted(merged, key=lambda life: life.first_at):
        by_process[life.group, life.main_pid].append(life)
        by_unit[life.group[:3]].append(life)
    done: list[Life] = []
    for siblings in by_process.values():
        starts = [life.first_at for life in siblings]
        said: dict[int, list[WorkerEvent]] = defaultdict(list)
        for event in told.worker.get((siblings[0].group, siblings[0].main_pid), ()):
            # A banner in a text file has no time of its own: what stands at the same moment was said before it.
            place_of = bisect_right if isinstance(event, _OPENING) else bisect_left
            said[max(0, place_of(starts, event.at) - 1)].append(event)
        for place, life in enumerate(siblings):
            about = _of_same_manager(told.units.get(life.group[:3], ()), said[place])
            whole = replace(life, said=tuple(said[place]), about=about, numbered=life.numbered)
            following, same = _successor(whole, siblings[place + 1 :], by_unit[life.group[:3]])
            done.append(replace(whole, end=end_of(whole, following, same, boots)))
    return tuple(sorted(done, key=lambda life: life.first_at))


def _of_same_manager(about: tuple[UnitEvent, ...], said: Sequence[WorkerEvent]) -> tuple[UnitEvent, ...]:
    """Leave out what another manager says of its own unit of that name: a user's, or the system's."""
    users = {_user_of(event.seen.origin) for event in said} - {None}
    if len(users) != 1:
        return about
    return tuple(event for event in about if _user_of(event.seen.origin) in users | {None})


_USER_MANAGER = re.compile(r"user@(\d+)\.service")  # systemd's units/user@.service.in


def _user_of(origin: Origin) -> str | None:
    """Whose manager an entry's process is under: a uid, "" for the system's; None where nothing shows it."""
    place = origin.cgroup or (origin.unit if (origin.unit or "").startswith(("user@", "init.scope")) else None)
    if place is None:
        return None
    found = _USER_MANAGER.search(place)
    return found[1] if found is not None else ""


def _successor(life: Life, later: Sequence[Life], unit: Sequence[Life]) -> tuple[Mark | None, bool]:
    """Find the start of the unit's next life, and whether it is the same process executed anew."""
    if later:
        # Lines without pids are not one process's. Yet a log file may lack what the worker prints on stdout, its
        # banner and the words of its shutdown: then nothing but the manager's records tells how a life ended.
        told = bool(life.about or life.version or (life.said and life.said[0].seen.origin.container))
        return later[0].started or Mark(later[0].first_at, "", ""), life.main_pid != 0 or not told
    following = [
        other
        for other in unit
        if other.started is not None
        and other.started.at > life.last.at
        and other.key != life.key
        and (other.node == life.node or None in (other.node, life.node))
    ]
    first = min(following, key=lambda other: other.started.at if other.started else 0, default=None)
    return (first.started, False) if first is not None else (None, False)
