"""What software can say that matters here: one frozen class for each thing, and the columns of task lines.

Rules of this file: no causes, no patterns. `grammar` makes these, `timeline` and the rooms above it read them.
Every event keeps where it was seen, so that every claim can point at its journal entry.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Micros, Origin

MAX_TEXT = 500  # of an evidence line; a task's arguments or a result can be megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The entry that shows an event. `pid` is 0 and `monotonic` is 0 where the source does not tell."""

    at: Micros
    monotonic: Micros
    cursor: str
    text: str
    pid: int
    origin: Origin


class Line(IntEnum):
    """What a task line says."""

    RECEIVED = 1
    WAITING = 2  # received, and its line shows an ETA still to come
    ACCEPTED = 3
    SPOKE = 4  # the task's own line
    HEARD = 5  # a pool process's line that names no task
    SUCCEEDED = 6
    RAISED = 7
    RETRIED = 8
    REJECTED = 9
    IGNORED = 10
    DISCARDED = 11  # revoked or expired before it began


ENDINGS = frozenset({Line.SUCCEEDED, Line.RAISED, Line.RETRIED, Line.REJECTED, Line.IGNORED, Line.DISCARDED})


class Coded(Sequence[str]):
    """Texts of which few are distinct: each row's place in `words`. A place below 0 is the empty text."""

    def __init__(self, codes: npt.NDArray[np.int32], words: Sequence[str]) -> None:
        self.codes = codes
        self.words = words

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Coded":
        """Number texts as they are met."""
        places: dict[str, int] = {}
        codes = [places.setdefault(text, len(places)) for text in texts]
        return cls(np.array(codes, np.int32), tuple(places))

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return Coded(self.codes[place], self.words)
        code = int(self.codes[place])
        return self.words[code] if code >= 0 else ""


class TaskRow(NamedTuple):
    """One of `TaskLines`."""

    row: int
    kind: Line
    task_id: str
    id_hash: int
    task_name: str
    process: str
    number: float


_LINES = {int(line): line for line in Line}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLines:
    """The task lines of a batch as columns, in its order.

    `row`: place in the batch. `kind`: a `Line`. `id_hash`: see `ids.hash_of`. `process`: as the line names it
    (`MainProcess`, `ForkPoolWorker-2`), "" where it does not. `number`: seconds run (SUCCEEDED), seconds until the
    retried message is due (RETRIED), the epoch second until which it waits (WAITING), the child's pid (ACCEPTED); 0
    where the line does not say.
    """

    row: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]
    task_id: Sequence[str]
    id_hash: npt.NDArray[np.uint64]
    task_name: Coded
    process: Coded
    number: npt.NDArray[np.float64]

    def rows(self, places: npt.NDArray[np.int64]) -> Iterator[TaskRow]:
        """Give some of the lines one by one."""
        columns = (column[places].tolist() for column in (self.row, self.kind, self.id_hash, self.number))
        for place, row, kind, id_hash, number in zip(places.tolist(), *columns, strict=True):
            yield TaskRow(
                row, _LINES[kind], self.task_id[place], id_hash, self.task_name[place], self.process[place], number
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something said once, at one entry."""

    seen: Seen

    @property
    def at(self) -> Micros:
        """When it was said, in microseconds since the epoch."""
        return self.seen.at


# -- a Celery worker ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Something that a Celery worker wrote. `process` as the line names it, "" where it does not."""

    process: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBanner(WorkerEvent):
    """The banner's node line."""

    node: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPool(WorkerEvent):
    """The banner's concurrency line; for an autoscaled pool `concurrency` is its maximum."""

    concurrency: int
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerQueue(WorkerEvent):
    """A line of the banner's list of queues: one that the worker consumes."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady(WorkerEvent):
    """The worker is ready: `NODE ready.` was printed."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExited(WorkerEvent):
    """The main process found a pool process dead. `heard_at`: its last line of its own after its last task's end."""

    child: str
    child_pid: int
    signal: int | None
    exit_code: int | None
    heard_at: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLost(WorkerEvent):
    """The main process reports a run as lost with its pool process (WorkerLostError).

    `job` is billiard's number of the job; `outcome` is `failed`, `retried` (Celery sends it again itself) or
    `succeeded` (the result was stored before the process died). Only some versions name the task.
    """

    signal: int | None
    exit_code: int | None
    job: int | None
    outcome: str = "failed"
    task_id: str | None = None
    task_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownTraceback(WorkerEvent):
    """A line of a loss's traceback that shows the worker was shutting down. `cold`: WorkerTerminate."""

    cold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HardTimeLimit(WorkerEvent):
    """A hard time limit ended a run; nameless when only the exception was printed."""

    limit_s: float | None
    task_id: str | None = None
    task_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminating(WorkerEvent):
    """A run is revoked with terminate: its pool process is signalled. `signal` None: not understood."""

    task_id: str
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated(WorkerEvent):
    """The second line of a termination in some versions."""

    task_id: str | None = None
    task_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(WorkerEvent):
    """The main process begins to stop: `warm`, `cold`, `soft`, `remote`, or `again` (a further cold request)."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownCrash(WorkerEvent):
    """A boot step failed while stopping; with billiard 3.5 this ends a warm shutdown early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reexec(WorkerEvent):
    """SIGHUP: the main process finishes its tasks and executes itself anew under the same pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring(WorkerEvent):
    """Messages put back on the queue, at shutdown or at a lost connection."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueBounced(WorkerEvent):
    """A requeued message came back to a worker that no longer consumes, and was put back again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildNotUp(WorkerEvent):
    """A pool process did not come up in time; the main process kills it."""

    child: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost(WorkerEvent):
    """The connection to the broker was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledOnConnectionLoss(WorkerEvent):
    """A late-acknowledged run ended by the worker itself because its broker connection was lost."""

    task_id: str
    task_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCrash(WorkerEvent):
    """`Unrecoverable error`: the main process stops by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recycled(WorkerEvent):
    """A pool process retired itself after its task: its memory or task limit was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsToFile(WorkerEvent):
    """A line of `celery multi`: the worker's own log is in files. `path`: where ExecStart shows it."""

    path: str | None = None


# -- systemd (PID 1, or a user's manager), or in text supervisord ---------


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEvent(Event):
    """Something the service manager says of a unit. `unit` is None only in text that does not name it."""

    unit: str | None
    invocation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStarted(UnitEvent):
    """A start job is done."""

    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStopping(UnitEvent):
    """A stop job begins (also the first half of a restart)."""

    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStopped(UnitEvent):
    """A stop job, or the stop half of a restart job, is done. `job_type`: `stop`, `restart`, None before v235."""

    job_id: str | None = None
    job_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitReloading(UnitEvent):
    """A reload job begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTimedOut(UnitEvent):
    """A stop, or RuntimeMaxSec, ran out of time; `state` as systemd names it (`stop-sigterm`, `stop`, …)."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessKilled(UnitEvent):
    """PID 1 sends a noteworthy signal (SIGKILL, SIGABRT) to a process of the unit."""

    pid: int
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSent(UnitEvent):
    """`systemctl kill`: a signal on a client's request. `pid` None: the whole control group."""

    pid: int | None
    signal: int | None
    main: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MainExited(UnitEvent):
    """The main process ended: `code` is `exited`, `killed` or `dumped`, `status` the exit code or the signal."""

    code: str
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTimedOut(UnitEvent):
    """A control process (ExecStop) ended by a signal."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnded(UnitEvent):
    """The run of the unit is over. `result`: `success`, `signal`, `timeout`, `oom-kill`, `watchdog` and so on."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartScheduled(UnitEvent):
    """An automatic restart (`Restart=`), which is no deploy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogTimeout(UnitEvent):
    """WatchdogSec ran out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutOfMemory(UnitEvent):
    """systemd's own record of a kernel OOM kill in the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOomdKill(UnitEvent):
    """systemd-oomd killed processes of the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDumped(UnitEvent):
    """systemd-coredump took a core of a process of the unit."""

    pid: int
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShutdown(Event):
    """The machine goes down or reboots (logind, or PID 1's last words)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployMark(Event):
    """An entry that the user says marks a deploy. `run`: what entries of one deploy share, "" for a lone entry."""

    label: str
    run: str = ""


# -- journald -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEvent(Event):
    """Something journald says of its own evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStarted(JournalEvent):
    """journald started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStopped(JournalEvent):
    """journald stopped in an orderly way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed(JournalEvent):
    """Lines of a unit were dropped by the rate limit, before this entry."""

    unit: str | None
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedKernelLines(JournalEvent):
    """Kernel lines were lost before journald read them."""

    count: int | None


# -- the kernel and those who kill ----------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOomKill(Event):
    """The kernel's OOM killer took a process. `pid` is the host's number. `unit`: from the victim's cgroup path."""

    pid: int
    comm: str | None
    unit: str | None
    cgroup: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCrash(Event):
    """The kernel reports a fault that kills a process (segfault, trap). `pid` is the host's number."""

    pid: int
    comm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OomDaemonKill(Event):
    """systemd-oomd or earlyoom chose a victim: a cgroup's unit, or a pid."""

    daemon: str
    unit: str | None
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SudoCommand(Event):
    """A command run through sudo; who ran it."""

    user: str
    command: str
