"""What one source says of tasks' lives, small enough to be sent from one process to another.

A `Partial` grows with what is open and what died, not with entries: task runs that begin and end in one source are
cancelled by `follow`, and only an 8-byte hash of each finished id is kept, for duplicates and redeliveries across
sources.
"""

from dataclasses import dataclass, field
from math import ceil, log2
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Micros, Problem
from kill_audit.events import Event, Line


class Group(NamedTuple):
    """The processes of one run of a unit: machine (else host), boot, unit and invocation; "" where unknown."""

    machine: str
    boot: str
    unit: str
    invocation: str


class Mark(NamedTuple):
    """An entry to point at."""

    at: Micros
    cursor: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A task line that ends a run: by which process, after how many seconds (None where the line does not say)."""

    group: Group
    task_id: str
    task_name: str
    kind: Line
    mark: Mark
    pid: int
    process: str
    runtime_s: float | None

    @property
    def finished(self) -> bool:
        """Whether the task's own code came to its end."""
        return self.kind in (Line.SUCCEEDED, Line.RAISED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One delivery of a task to a worker.

    `received` is None where only later lines were read. `number`: which job it is if no task waited unseen, counted
    from 0 in its life's source (None while it waits for its time). `order`: its place among the receipts. `spoke`:
    the first line of its own, with the pid and name of the process that wrote it. `waits`: it waited for its time when
    its source ended, until `due` where that is known. `settled_late`: `join` found its
    end, not `follow`.
    """

    group: Group
    main_pid: int
    task_id: str
    task_name: str
    received: Mark | None
    number: int | None = None
    order: int = 0
    waits: bool = False
    due: Micros | None = None
    accepted: Mark | None = None
    accepted_pid: int | None = None
    spoke: Mark | None = None
    spoke_pid: int | None = None
    spoke_process: str = ""
    end: End | None = None
    settled_late: bool = False

    def waits_at(self, moment: Micros) -> bool:
        """Whether it still waited for its time at a moment."""
        return self.waits and (self.due is None or self.due > moment)

    @property
    def first_at(self) -> Micros:
        """The first moment at which the run is known of."""
        return min(mark.at for mark in (self.received, self.accepted, self.spoke) if mark is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What one source says of one main process, from a start (or the source's first line) to its last line there.

    `receipts` counts "received" lines, `dispatched` the jobs handed out, `drained` the runs that ended after a
    shutdown began. `informed`: a line was seen that only log level INFO prints. `reordered`: a run was seen to start
    after one that was received later, so some tasks waited unseen and the numbers do not hold. `wrote_as_child`: the
    pid also writes as a pool process (journald before v244 names the main process for its children's lines).
    """

    group: Group
    main_pid: int
    started: Mark | None
    ready_at: Micros | None
    node: str | None
    version: str | None
    concurrency: int | None
    pool: str | None
    first_at: Micros
    last: Mark
    receipts: int
    dispatched: int
    drained: int
    finished: int
    stopping: bool
    stopped_at: Micros | None
    furthest: tuple[int, float]
    recycled: int
    informed: bool
    wrote_as_child: bool
    last_child_line_at: Micros
    reordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """How many entries a source holds of one unit in one boot of one machine, and from when to when."""

    host: str
    machine: str
    boot: str
    unit: str | None
    first: Micros
    last: Micros
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What `follow` made of one source.

    `finished`: hashes of finished ids, ascending; `repeated`: of those seen again afterwards. `due`: when retried
    tasks come due that were not received again yet. `busy`: pool processes by when they were last heard of.
    `retried`: how often an id was retried. `runtimes`: by unit and task name, pairs of histogram bucket and count.
    """

    source: str
    entries: int = 0
    stretches: tuple[Stretch, ...] = ()
    problems: tuple[Problem, ...] = ()
    segments: tuple[Segment, ...] = ()
    runs: tuple[Run, ...] = ()
    ends: tuple[End, ...] = ()
    events: tuple[Event, ...] = ()
    finished: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    repeated: frozenset[int] = frozenset()
    due: dict[str, Micros] = field(default_factory=dict)
    busy: dict[tuple[Group, str], Micros] = field(default_factory=dict)
    retried: dict[int, int] = field(default_factory=dict)
    runtimes: dict[tuple[str, str], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    vouched: bool = True


BUCKETS_PER_DOUBLING = 4


def runtime_bucket(seconds: float) -> int:
    """Place a run time in a histogram: bucket 0 ends at 1 ms, each next one at 2 ** (1/4) times that."""
    return max(0, ceil(log2(max(seconds, 1e-3) * 1e3) * BUCKETS_PER_DOUBLING))


def bucket_top_s(bucket: int) -> float:
    """Return the longest run time, in seconds, that a bucket holds."""
    return float(2.0 ** (bucket / BUCKETS_PER_DOUBLING) / 1e3)


def version_numbers(text: str | None) -> tuple[int, ...]:
    """Split a release into its numbers (`5.2.7` is (5, 2, 7)); what is no number in it is left out."""
    parts = (text or "").split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
