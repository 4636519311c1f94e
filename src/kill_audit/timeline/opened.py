"""Runs and main processes that are still open, as the lines of one source tell of them."""

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Micros
from kill_audit.timeline.partial import End, Group, Mark, Run, Segment

RECENT_RUNS = 32  # finished runs that a death may turn out to be about: the process died after its task's success
_REORDER_TOLERANCE = 500_000  # microseconds


class OpenRun:
    """A run that has not ended yet; becomes a `Run`."""

    __slots__ = ("due", "end", "facts", "hash", "number", "segment", "waits", "witness")

    def __init__(self, segment: "OpenSegment | None", task_hash: int, facts: dict[str, Any]) -> None:
        self.segment = segment
        self.hash = task_hash
        self.facts = facts
        self.number: int | None = None
        self.waits = False
        self.due: Micros | None = None
        self.witness = False  # it was open when a pool process of its worker died
        self.end: End | None = None

    def closed(self) -> Run:
        """Say what is known of it."""
        return Run(**self.facts, number=self.number, waits=self.waits, due=self.due, end=self.end)


class OpenSegment:
    """A main process as its lines tell of it; becomes a `Segment`."""

    def __init__(self, group: Group, main_pid: int, at: Micros) -> None:
        self.group = group
        self.main_pid = main_pid
        self.first_at = at
        self.last = Mark(at, "", "")
        self.later_row: int | None = None  # of the batch; what `last` will be
        self.started: Mark | None = None
        self.banner = False
        self.ready_at: Micros | None = None
        self.node: str | None = None
        self.version: str | None = None
        self.concurrency: int | None = None
        self.pool: str | None = None
        self.receipts = 0
        self.dispatched = 0
        self.drained = 0
        self.finished = 0
        self.recycled = 0
        self.informed = False
        self.stopping = False
        self.stopped_at: Micros | None = None
        self.last_death_at: Micros = 0
        self.reordered = False
        self.furthest = (-1, 0.0)  # the highest number seen to end, and when it had started
        self.starts: list[tuple[int, int, float]] = []  # row of an end, number, start; not yet compared
        self.open: dict[int, OpenRun] = {}
        self.recent: deque[tuple[int, OpenRun]] = deque(maxlen=RECENT_RUNS)  # with the rows of their ends
        self.waiting: list[tuple[Micros, OpenRun]] = []

    def hand_out(self, run: OpenRun) -> None:
        """Give a run its number: jobs are counted as they are handed to the pool (billiard/pool.py job_counter)."""
        run.number, run.waits = self.dispatched, False
        self.dispatched += 1

    def hand_out_due(self, now: Micros) -> None:
        """Hand out the runs whose time has come."""
        due = [item for item in self.waiting if item[0] <= now]
        if due:
            self.waiting = [item for item in self.waiting if item[0] > now]
            for _, run in sorted(due, key=lambda item: item[0]):
                if run.waits and run.end is None:
                    self.hand_out(run)

    def say(self, mark: Mark) -> None:
        """Take note of its last line."""
        self.last, self.later_row = mark, None

    def had_started(self, run: OpenRun, at: float, row: int) -> None:
        """Learn from an end line in `row` when its run had started."""
        if run.number is not None:
            self.starts.append((row, run.number, at))

    def compare_starts(
        self, rows: npt.ArrayLike = (), numbers: npt.ArrayLike = (), starts: npt.ArrayLike = ()
    ) -> None:
        """Compare the starts seen in a batch, and those of more runs: jobs are taken in the order of their numbers."""
        here = np.array(self.starts).reshape(-1, 3)
        self.starts.clear()
        row = np.r_[here[:, 0], rows]
        if not len(row):
            return
        order = np.argsort(row)
        number = np.r_[self.furthest[0], np.r_[here[:, 1], numbers][order]]
        start = np.r_[self.furthest[1], np.r_[here[:, 2], starts][order]]
        highest = np.maximum.accumulate(number)
        further = number[1:] > highest[:-1]
        holder = np.maximum.accumulate(np.where(np.r_[True, further], np.arange(len(number)), 0))
        late = ~further & (start[1:] > start[holder[:-1]] + _REORDER_TOLERANCE)
        self.reordered |= bool(late.any())
        self.furthest = int(highest[-1]), float(start[holder[-1]])

    def turn(self) -> None:
        """End a batch: what it knows by the batch's rows is older than any row of the next."""
        if self.starts:
            self.compare_starts()
        self.recent = deque(((-1, run) for _, run in self.recent), RECENT_RUNS)

    def take_back(self, run: OpenRun) -> None:
        """Undo a number that was never handed out: the run waits, or was discarded."""
        if run.number is None:
            return
        number, run.number = run.number, None
        self.dispatched -= 1
        for other in self.open.values():
            if other.number is not None and other.number > number:
                other.number -= 1

    def closed(self, *, wrote_as_child: bool, last_child_line_at: Micros) -> Segment:
        """Say what is known of it."""
        return Segment(
            group=self.group,
            main_pid=self.main_pid,
            started=self.started,
            ready_at=self.ready_at,
            node=self.node,
            version=self.version,
            concurrency=self.concurrency,
            pool=self.pool,
            first_at=self.first_at,
            last=self.last,
            receipts=self.receipts,
            dispatched=self.dispatched,
            drained=self.drained,
            finished=self.finished,
            stopping=self.stopping,
            stopped_at=self.stopped_at,
            furthest=self.furthest,
            recycled=self.recycled,
            informed=self.informed,
            reordered=self.reordered,
            wrote_as_child=wrote_as_child,
            last_child_line_at=last_child_line_at,
        )
