"""Follow tasks through one source: cancel what began and ended, keep what is open and what died.

Rules of this file:
1. A run is cancelled only when nothing about it can matter later: one receipt, one end, in one unit's run, and no
   pool process of its worker died in between. Everything doubtful is kept for `join`, and a run whose receipt must be
   in another source.
2. A receipt is not a start. Nothing here decides that a run began, or that it was killed.
3. It knows nothing of causes, windows or databases.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kill_audit import events
from kill_audit.entry import Batch, Micros, Origin, Problem, Question
from kill_audit.events import ENDINGS, Event, Line, TaskLines, TaskRow
from kill_audit.grammar.celery import is_child
from kill_audit.grammar.ids import hash_of
from kill_audit.timeline.alive import SignsOfLife, Stream
from kill_audit.timeline.catching import RECENT_SPAN, CatchUp, mark_of
from kill_audit.timeline.hashes import Hashes
from kill_audit.timeline.opened import OpenRun, OpenSegment
from kill_audit.timeline.partial import (
    End,
    Group,
    Mark,
    Partial,
    Segment,
    Stretch,
    runtime_bucket,
    version_numbers,
)
from kill_audit.timeline.plain import runtimes, sort_out

_SECOND = 1_000_000
_MAIN_ONLY = (
    events.WorkerBanner,
    events.WorkerPool,
    events.WorkerQueue,
    events.WorkerReady,
    events.ChildExited,
    events.TaskLost,
    events.HardTimeLimit,
    events.Terminating,
    events.Terminated,
    events.Shutdown,
    events.ShutdownCrash,
    events.Reexec,
    events.ChildNotUp,
    events.CancelledOnConnectionLoss,
    events.WorkerCrash,
    events.ConnectionLost,
    events.Restoring,
)
_DEATHS = (events.ChildExited, events.TaskLost)
_FIRST_WORDS, _MANY_UNITS = 3, 5_000
_NEVER = 2**62
_ECHO_SPAN = 2 * _SECOND
_LATE_BANNERS = (5, 0, 1)  # releases up to this one do not flush the banner (celery/apps/worker.py)


class Follower:
    """Follows one source; fed batch by batch, asked once for its `Partial`."""

    def __init__(self, question: Question) -> None:
        self._keep = question.keep
        self._entries = 0
        self._stretches: dict[tuple[str, str, str, str | None], list[int]] = {}
        self._problems: list[Problem] = []
        self._groups: dict[Origin, Group] = {}
        self._streams: dict[Stream, Group] = {}
        self._current: dict[tuple[Group, int], OpenSegment] = {}
        self._latest: dict[Group, OpenSegment] = {}
        self._closed: list[OpenSegment] = []
        self._child_pids: dict[tuple[Group, int], Micros] = {}
        self._open: dict[str, list[OpenRun]] = {}
        self._kept: list[OpenRun] = []
        self._ends: list[End] = []
        self._events: list[Event] = []
        self._finished = Hashes()
        self._repeated: set[int] = set()
        self._retried: Counter[int] = Counter()
        self._due: dict[str, Micros] = {}
        self._busy: dict[tuple[Group, str], Micros] = {}
        self._runtimes: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        self._multi: set[tuple[Group, str]] = set()
        self._vouched = True
        # Of the batch at hand: its origins' groups, its plain runs, what else its lines show, the row gone through.
        self._own: list[Group | None]
        self._catch: CatchUp
        self._signs: SignsOfLife
        self._row: int

    # -- feeding -----------------------------------------------------------

    def problem(self, problem: Problem) -> None:
        """Take note of something that could not be read."""
        self._problems.append(problem)

    def feed(self, batch: Batch, lines: TaskLines, found: tuple[tuple[int, Event], ...]) -> None:
        """Follow a batch; `lines` and `found` are what the grammar recognised in it."""
        self._measure(batch)
        self._own = [self._own_group(origin) for origin in batch.origins]
        told = (row for row, event in found if isinstance(event, events.WorkerEvent))
        sorted_out = sort_out(batch, lines, self._own, told, self._met())
        self._finished.expect(lines.id_hash[sorted_out.others])
        self._catch = CatchUp(batch, lines, sorted_out.tracks, self._segment)
        self._signs = SignsOfLife(batch, lines, self._own)
        for segment in self._current.values():
            self._catch.watch(segment, [due for due, _ in segment.waiting])
        place = 0
        for line in lines.rows(sorted_out.others):
            while place < len(found) and found[place][0] <= line.row:
                self._event(batch, *found[place])
                place += 1
            self._line(batch, line)
        for row, event in found[place:]:
            self._event(batch, row, event)
        self._catch.finish()
        for segment in (*self._closed, *self._current.values()):
            segment.turn()
        self._finished.add_all(sorted_out.hashes)
        for key, counts in runtimes(lines, sorted_out.tracks).items():
            self._runtimes[key].update(dict(counts))
        self._streams.update({stream: group for stream, (_, group) in self._signs.streams.items()})
        self._child_pids.update(self._signs.child_pids())
        self._signs.settle(self._busy)

    def _own_group(self, origin: Origin) -> Group | None:
        """Give the unit's run that an origin names; None if it names none, and other lines have to tell."""
        return None if origin.unit is None and (origin.vouched or origin.stream_id) else self._group_named(origin)

    def _met(self) -> npt.NDArray[np.uint64]:
        """Give the hashes of ids that must not be counted as plain runs, ascending."""
        few = {run.hash for runs in self._open.values() for run in runs}
        few.update(self._keep, self._retried, map(hash_of, self._due))
        return self._finished.joined(few)

    def _measure(self, batch: Batch) -> None:
        """Count entries, and the first and last of each unit in each boot."""
        self._entries += len(batch)
        if not len(batch):
            return
        origin, at = np.asarray(batch.origin, np.int64), np.asarray(batch.realtime, np.int64)
        order = np.argsort(origin, kind="stable")
        codes, begin, counts = np.unique(origin[order], return_index=True, return_counts=True)
        firsts, lasts = np.minimum.reduceat(at[order], begin), np.maximum.reduceat(at[order], begin)
        for code, first, last, count in zip(*map(np.ndarray.tolist, (codes, firsts, lasts, counts)), strict=True):
            of = batch.origins[code]
            self._vouched &= of.vouched
            key = (of.host, of.machine_id or of.host, of.boot_id or "", of.unit)
            known = self._stretches.setdefault(key, [first, last, 0])
            known[:] = [min(known[0], first), max(known[1], last), known[2] + count]

    def _group(self, batch: Batch, row: int) -> Group | None:
        """Tell which unit's run a line belongs to; a line that lost its unit goes by its process and stream.

        None where journald vouches for the line and nothing tells whose it is: anybody may have written it.
        """
        code = batch.origin[row]
        group, origin = self._own[code], batch.origins[code]
        if origin.stream_id is None:
            return group
        stream = (origin.boot_id or "", batch.pid[row], origin.stream_id)
        if group is None:
            first, whose = self._signs.streams.get(stream, (row, None))
            return whose if first < row else self._streams.get(stream)
        self._streams[stream] = group
        return group

    def _group_named(self, origin: Origin) -> Group:
        group = self._groups.get(origin)
        if group is None:
            group = self._groups[origin] = Group(
                origin.machine_id or origin.host, origin.boot_id or "", origin.unit or "", origin.invocation_id or ""
            )
        return group

    # -- main processes ----------------------------------------------------

    def _segment(self, group: Group, pid: int, at: Micros) -> OpenSegment:
        segment = self._current.get((group, pid))
        if segment is None:
            segment = self._current[group, pid] = OpenSegment(group, pid, at)
        self._latest[group] = segment
        return segment

    def _start(self, group: Group, pid: int, mark: Mark) -> OpenSegment:
        """Begin a new life of a main process."""
        old = self._current.pop((group, pid), None)
        if old is not None:
            self._closed.append(old)
        segment = self._segment(group, pid, mark.at)
        segment.started = mark
        return segment

    def _begins(self, group: Group, event: events.WorkerBanner | events.WorkerReady) -> OpenSegment:
        """Take a banner or ready line: a second one of its kind is a new life, also under the same pid (SIGHUP)."""
        pid, mark = event.seen.pid, _mark(event)
        segment = self._current.get((group, pid))
        ready = segment is not None and segment.ready_at is not None
        # Where it is not flushed, the banner may come after "ready", even at exit.
        late = isinstance(event, events.WorkerBanner) and ready and version_numbers(event.version) <= _LATE_BANNERS
        again = segment is not None and segment.banner if late else ready
        if isinstance(event, events.WorkerBanner) and segment is not None:
            again |= segment.banner
        if segment is None or again or not (segment.started or late):
            segment = self._start(group, pid, mark)
        segment.node = event.node
        if isinstance(event, events.WorkerBanner):
            segment.banner, segment.version = True, event.version
        else:
            segment.ready_at, segment.informed = mark.at, True
        return segment

    def _event(self, batch: Batch, row: int, event: Event) -> None:
        if isinstance(event, events.WorkerEvent):
            self._worker_event(batch, row, event)
        else:
            self._events.append(event)

    def _worker_event(self, batch: Batch, row: int, event: events.WorkerEvent) -> None:
        group = self._group(batch, row)
        if group is None:
            return
        self._row = row
        self._catch.hand_out_due(row)
        self._catch.to(group, row)
        if isinstance(event, events.Recycled):
            segment = self._latest.get(group)
            if segment is not None:
                segment.recycled += 1
            return
        if isinstance(event, events.LogsToFile):
            if (group, event.seen.text) in self._multi:
                return
            self._multi.add((group, event.seen.text))
            self._segment(group, event.seen.pid, event.at)
        if is_child(event.process):  # a pool process cannot speak for the main process
            return
        if isinstance(event, events.WorkerBanner | events.WorkerReady):
            segment = self._begins(group, event)
        elif isinstance(event, _MAIN_ONLY):
            segment = self._segment(group, event.seen.pid, event.at)
        else:
            self._events.append(_within(event, group))
            return
        segment.say(_mark(event))
        self._events.append(_within(self._apply(segment, event), group))

    def _apply(self, segment: OpenSegment, event: events.WorkerEvent) -> events.WorkerEvent:
        """Let an event change what is known of its main process."""
        segment.hand_out_due(event.at)
        if isinstance(event, events.WorkerPool):
            segment.concurrency, segment.pool = event.concurrency, event.pool
        elif isinstance(event, events.Shutdown | events.Reexec):
            segment.stopping = True
            segment.stopped_at = segment.stopped_at or event.at
        elif isinstance(event, _DEATHS):
            segment.last_death_at = event.at
            for run in segment.open.values():
                run.witness = True
            self._keep_recent(segment, since=event.at - RECENT_SPAN)
            if isinstance(event, events.ChildExited):
                return replace(
                    event, heard_at=self._signs.take_heard(self._busy, segment.group, event.child, self._row)
                )
        return event

    # -- task lines --------------------------------------------------------

    def _line(self, batch: Batch, line: TaskRow) -> None:
        row, kind, task_id, task_hash, name, process, number = line
        group, at, pid = self._group(batch, row), batch.realtime[row], batch.pid[row]
        if group is None:
            return
        self._row = row
        self._catch.hand_out_due(row)
        self._catch.to(group, row)
        if is_child(process):
            self._child_pids[group, pid] = at
        if kind is Line.HEARD:
            self._busy[group, process] = at
            return
        mark = mark_of(batch, row)
        if kind is Line.RECEIVED or kind is Line.WAITING:
            self._received(group, pid, mark, task_id, task_hash, name, number if kind is Line.WAITING else None)
        elif kind is Line.SPOKE or kind is Line.ACCEPTED:
            accepted = int(number) if kind is Line.ACCEPTED else None
            self._spoke(group, pid, mark, task_id, task_hash, name, process, accepted)
        elif kind in ENDINGS:
            runtime = number if kind is Line.SUCCEEDED and number else None
            end = End(
                group=group,
                task_id=task_id,
                task_name=name,
                kind=kind,
                mark=mark,
                pid=pid,
                process=process,
                runtime_s=runtime,
            )
            self._ended(end, task_hash, countdown=number if kind is Line.RETRIED else 0.0)

    def _received(
        self, group: Group, pid: int, mark: Mark, task_id: str, task_hash: int, name: str, due_s: float | None
    ) -> None:
        segment = self._segment(group, pid, mark.at)
        segment.say(mark)
        segment.informed = True
        segment.hand_out_due(mark.at)
        if any(self._is_echo(run, group, mark) for run in self._open.get(task_id, ())):
            return
        if task_hash in self._finished:
            self._repeated.add(task_hash)
        run = OpenRun(
            segment,
            task_hash,
            {
                "group": group,
                "main_pid": pid,
                "task_id": task_id,
                "task_name": name,
                "received": mark,
                "order": segment.receipts,
            },
        )
        segment.receipts += 1
        due = self._due.pop(task_id, None)
        if due_s is not None:
            due = int(due_s * _SECOND) or _NEVER
        if due is not None and due > mark.at:
            self._wait(segment, run, due)
        else:
            segment.hand_out(run)
        segment.open[id(run)] = run
        self._open.setdefault(task_id, []).append(run)

    @staticmethod
    def _is_echo(run: OpenRun, group: Group, mark: Mark) -> bool:
        """Whether a receipt was printed twice: a worker may log to its stdout and to syslog as well."""
        received = run.facts["received"]
        return (
            received is not None
            and run.facts["group"] == group
            and received.text == mark.text
            and mark.at - received.at < _ECHO_SPAN
        )

    def _wait(self, segment: OpenSegment, run: OpenRun, due: Micros) -> None:
        segment.take_back(run)
        run.waits, run.due = True, due if due < _NEVER else None
        segment.waiting.append((due, run))
        self._catch.watch(segment, (due,))

    def _spoke(
        self,
        group: Group,
        pid: int,
        mark: Mark,
        task_id: str,
        task_hash: int,
        name: str,
        process: str,
        accepted_pid: int | None,
    ) -> None:
        if process and accepted_pid is None:
            self._busy[group, process] = mark.at
        runs = [run for run in self._open.get(task_id, ()) if run.facts["group"] == group and run.end is None]
        if not runs:
            if task_hash in self._finished:  # a signal handler may log after the task's end
                return
            run = OpenRun(
                None,
                task_hash,
                {"group": group, "main_pid": 0, "task_id": task_id, "task_name": name, "received": None},
            )
            self._open.setdefault(task_id, []).append(run)
            runs = [run]
        facts = runs[-1].facts
        if accepted_pid is not None:
            facts.setdefault("accepted", mark)
            facts.setdefault("accepted_pid", accepted_pid)
        else:  # a soft time limit is the main process's word: it shows that the run had begun, not where
            own = is_child(process) or not process
            facts.setdefault("spoke", mark)
            facts.setdefault("spoke_pid", (pid or None) if own else None)
            facts.setdefault("spoke_process", process if own else "")

    def _ended(self, end: End, task_hash: int, *, countdown: float) -> None:
        if end.process:
            self._busy.pop((end.group, end.process), None)
        if end.runtime_s is not None:
            self._runtimes[end.group.unit, end.task_name][runtime_bucket(end.runtime_s)] += 1
        runs = self._open.get(end.task_id, [])
        here = [run for run in runs if run.facts["group"] == end.group and run.end is None]
        run = self._whose(end, here, alone=len(runs) == 1)
        if end.kind is Line.RETRIED and countdown:
            self._retry(end, here, run, countdown)
        if run is None:
            if task_hash in self._finished:
                self._repeated.add(task_hash)
            self._ends.append(end)
        else:
            self._close(run, end, cancel=len(runs) == 1 or end.kind is Line.RETRIED)
        if end.finished:
            self._finished.add(task_hash)
            self._retried.pop(task_hash, None)

    @staticmethod
    def _whose(end: End, here: list[OpenRun], *, alone: bool) -> OpenRun | None:
        """Tell which open run an end belongs to, where that is beyond doubt."""
        if len(here) == 1 and alone:
            return here[0]
        if end.kind is Line.RETRIED and here:
            # The retried message may be received before its own "retry:" line: then the end is the earlier run's.
            first = here[0]
            died = first.segment is not None and first.segment.last_death_at >= first.facts["received"].at
            return None if died else first
        return None

    def _keep_recent(self, segment: OpenSegment, *, since: Micros) -> None:
        """Keep what ended just before a death: it may have been what died."""
        for run in self._catch.recent(segment, self._row, since):
            self._kept.append(run)
            if run.end is not None and run.end.kind is Line.RETRIED and self._retried[run.hash]:
                self._retried[run.hash] -= 1
        self._catch.forget(segment, self._row)

    def _retry(self, end: End, here: list[OpenRun], run: OpenRun | None, countdown: float) -> None:
        """Note when the retried message is due: it waits in the worker and takes its number only then."""
        due = end.mark.at + int(countdown * _SECOND)
        later = [other for other in here if other is not run and other.segment is not None]
        if run is not None and later:
            segment = later[-1].segment
            if segment is not None and not later[-1].waits:
                self._wait(segment, later[-1], due)
        else:
            self._due[end.task_id] = due

    def _close(self, run: OpenRun, end: End, *, cancel: bool) -> None:
        run.end = end
        segment = run.segment
        if segment is not None:
            if run.waits and end.kind is not Line.DISCARDED:
                segment.hand_out(run)
            if end.kind is Line.DISCARDED:
                segment.take_back(run)
            segment.open.pop(id(run), None)
            if end.runtime_s is not None:
                segment.had_started(run, end.mark.at - end.runtime_s * _SECOND, self._row)
            segment.finished += end.finished
            segment.drained += segment.stopping and end.finished
        runs = self._open[end.task_id]
        runs.remove(run)
        if not runs:
            del self._open[end.task_id]
        if segment is None or not cancel or run.witness or run.hash in self._keep:
            self._kept.append(run)
            return
        segment.recent.append((self._row, run))
        if end.kind is Line.RETRIED:
            self._retried[run.hash] += 1

    # -- the result --------------------------------------------------------

    def partial(self, source: str) -> Partial:
        """Say what the source holds; call once, after the last batch."""
        segments = [*self._closed, *self._current.values()]
        runs = [*self._kept, *(run for same in self._open.values() for run in same)]
        return Partial(
            source=source,
            entries=self._entries,
            problems=tuple(self._problems),
            vouched=self._vouched,
            stretches=tuple(
                Stretch(host=host, machine=machine, boot=boot, unit=unit, first=first, last=last, entries=count)
                for (host, machine, boot, unit), (first, last, count) in self._stretches.items()
            ),
            segments=tuple(self._segment_of(segment) for segment in segments),
            runs=tuple(run.closed() for run in runs),
            ends=tuple(self._ends),
            events=self._worth_keeping(),
            finished=self._finished.joined(()),
            repeated=frozenset(self._repeated),
            due=dict(self._due),
            busy=dict(self._busy),
            retried=dict(self._retried),
            runtimes={key: tuple(sorted(counts.items())) for key, counts in self._runtimes.items()},
        )

    def _segment_of(self, segment: OpenSegment) -> Segment:
        at = self._child_pids.get((segment.group, segment.main_pid))
        return segment.closed(wrote_as_child=at is not None, last_child_line_at=at or 0)

    def _worth_keeping(self) -> tuple[Event, ...]:
        """Leave out what services say that start and end by themselves: they were never stopped.

        The first words about a unit stay: the lines of its worker may be in the file before this one.
        """
        stopped = {event.unit for event in self._events if isinstance(event, events.UnitStopping)}
        workers = {group.unit for group, _ in self._current} | {segment.group.unit for segment in self._closed}
        heard: Counter[str | None] = Counter()
        kept: list[Event] = []
        for event in self._events:
            if (
                isinstance(event, events.UnitStarted | events.UnitEnded)
                and getattr(event, "result", "success") == "success"
                and event.unit not in stopped
                and event.unit not in workers
            ):
                if heard[event.unit] >= _FIRST_WORDS or len(heard) > _MANY_UNITS:
                    continue
                heard[event.unit] += 1
            kept.append(event)
        return tuple(kept)


def _mark(event: Event) -> Mark:
    return Mark(event.seen.at, event.seen.cursor, event.seen.text)


def _within(event: events.WorkerEvent, group: Group) -> events.WorkerEvent:
    """Give an event whose entry lost its unit the unit that it was traced to."""
    if (event.seen.origin.unit or "") == group.unit:
        return event
    origin = replace(event.seen.origin, unit=group.unit or None, invocation_id=group.invocation or None)
    return replace(event, seen=replace(event.seen, origin=origin))
