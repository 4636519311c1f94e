"""Celery workers that live, are deployed and lose tasks: every line they would write, and which runs were killed.

Everything follows from a seed. A worker is followed event by event: tasks are received, numbered as they are handed to
the pool, run, end, raise, are retried; now and then the kernel kills a pool process, a deploy restarts the unit with
systemd's default KillMode, or the power fails. Times are microseconds since the epoch, UTC.
"""

import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from typing import Final, NamedTuple

from .journald import Entry, Host, field_bytes

SECOND: Final = 1_000_000
CHILDREN: Final = 4
QUIET: Final = 110 * SECOND  # before a deploy nothing more is received, so that only the doomed are still running
_LONGEST: Final = 40.0
_TASKS: Final = (
    "shop.tasks.send_invoice",
    "shop.tasks.resize_image",
    "shop.tasks.sync_stock",
    "shop.tasks.welcome_mail",
    "shop.search.reindex_product",
    "shop.reports.monthly_statement",
    "crm.tasks.push_contact",
    "crm.tasks.refresh_segments",
)
_TRACEBACK: Final = (
    "Traceback (most recent call last):",
    '  File "/srv/shop/lib/python3.11/site-packages/celery/app/trace.py", line 453, in trace_task',
    "    R = retval = fun(*args, **kwargs)",
    "                 ^^^^^^^^^^^^^^^^^^^^",
    '  File "/srv/shop/lib/python3.11/site-packages/celery/app/trace.py", line 736, in __protected_call__',
    "    return self.run(*args, **kwargs)",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^",
    '  File "/srv/shop/src/shop/gateway.py", line 88, in call',
    "    raise GatewayError(answer.status)",
    "shop.gateway.GatewayError: 503",
)
_BANNER: Final = (
    " ",
    " -------------- {node} v5.4.0 (opalescent)",
    "--- ***** -----",
    "-- ******* ---- Linux-6.1.0-28-amd64-x86_64-with-glibc2.36",
    "- *** --- * ---",
    "- ** ---------- [config]",
    "- ** ---------- .> app:         shop:0x7f6c96597a90",
    "- ** ---------- .> transport:   redis://127.0.0.1:6379/0",
    "- ** ---------- .> results:     disabled://",
    "- *** --- * --- .> concurrency: 4 (prefork)",
    "-- ******* ---- .> task events: OFF (enable -E to monitor tasks in this worker)",
    "--- ***** -----",
    " -------------- [queues]",
    "                .> celery           exchange=celery(direct) key=celery",
    "[tasks]",
    *(f"  . {name}" for name in _TASKS),
)


class Incident(NamedTuple):
    """Something that is planned to happen to a worker; `kills` runs are made to be under way just then."""

    at: int
    kind: str  # "oom", "deploy" or "power"
    kills: int = 1


class Kill(NamedTuple):
    """A run that was killed."""

    at: int
    unit: str
    task_id: str
    task_name: str
    cause: str


class Row(NamedTuple):
    """A row of the app's run log, which is written when a run ends."""

    task_id: str
    task_name: str
    started_at: int
    finished_at: int
    status: str


@dataclass(slots=True)
class _Task:
    task_id: str
    name: str
    runtime: float
    ending: str  # "succeeded", "raised", "retry" or "doomed"
    job: int = -1
    started_at: int = 0


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    task: _Task | None = None


@dataclass(slots=True)
class _Life:
    """One main process and its pool."""

    pid: int
    stream: str
    invocation: str
    children: list[_Child]
    jobs: Iterator[int] = field(default_factory=count)
    names: Iterator[int] = field(default_factory=lambda: count(CHILDREN + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """How busy a worker is, and what its lines are like."""

    every_s: float  # seconds between two tasks, on average
    long_results: float = 0.0  # the share of success lines with a result of more than 512 bytes


class Worker:
    """A unit `celery@wNN.service`; `lines` gives its entries in order, and fills `kills` and `rows` on the way."""

    def __init__(
        self, host: Host, number: int, seed: str, workload: Workload, span: tuple[int, int], plan: Sequence[Incident]
    ) -> None:
        self.unit = f"celery@w{number:02}.service"
        self.kills: list[Kill] = []
        self.rows: list[Row] = []
        self._host = host
        self._node = f"w{number:02}@{host.name}"
        self._slot = number
        self._random = random.Random(f"{seed} {self.unit}")  # noqa: S311 -- it plays dice
        self._workload = workload
        self._since, self._until = span
        self._plan = plan
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()
        self._queue: deque[_Task] = deque()
        self._out: list[Entry] = []
        self._heads: dict[int, bytes] = {}
        self._life = self._new_life()
        self._quiet_until = 0

    def lines(self) -> Iterator[Entry]:
        """Yield the entries of the worker, of the kernel and of PID 1 about it."""
        self._at(self._since + self._slot * SECOND // 3, self._start)
        self._at(self._since + 30 * SECOND, self._arrive)
        for incident in self._plan:
            self._at(incident.at - QUIET, partial(self._hush_at, incident))
            for place in range(incident.kills):
                self._at(incident.at - (15 - place) * SECOND, lambda at: self._receive(at, self._doomed()))
            happen = getattr(self, f"_{incident.kind}")
            self._at(incident.at + self._slot * SECOND // 50 * (incident.kind == "deploy"), happen)
        while self._events:
            at, _, happen = heapq.heappop(self._events)
            happen(at)
            written, self._out = self._out, []
            for entry in written:
                if entry.at <= at:
                    yield entry
                else:  # others may write before
                    self._at(entry.at, partial(self._write_later, entry))

    def _hush_at(self, incident: Incident, _at: int) -> None:
        self._hush(incident)

    def _write_later(self, entry: Entry, _at: int) -> None:
        self._out.append(entry)

    # -- what is written --------------------------------------------------

    def _at(self, at: int, happen: Callable[[int], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), happen))

    def _write(self, at: int, pid: int, *texts: str) -> None:
        head = self._heads.get(pid)
        if head is None:
            head = self._heads[pid] = self._host.stdout(
                self.unit, pid, "celery", self._life.stream, self._life.invocation
            )
        self._out += [Entry(at, head, field_bytes(b"MESSAGE", text.encode())) for text in texts]

    def _log(self, at: int, level: str, process: str, pid: int, text: str) -> None:
        self._write(at, pid, f"[{_stamp(at - 900)}: {level}/{process}] {text}")

    def _main(self, at: int, level: str, text: str) -> None:
        self._log(at, level, "MainProcess", self._life.pid, text)

    def _manager(self, at: int, text: str, **fields: str) -> None:
        self._out.append(self._host.manager(at, self.unit, text, self._life.invocation, **fields))

    # -- a worker's life --------------------------------------------------

    def _new_life(self) -> _Life:
        dice, pids = self._random, self._host.pids
        children = [_Child(f"ForkPoolWorker-{place}", next(pids)) for place in range(1, CHILDREN + 1)]
        self._heads.clear()
        return _Life(next(pids), f"{dice.getrandbits(128):032x}", f"{dice.getrandbits(128):032x}", children)

    def _start(self, at: int) -> None:
        self._life = self._new_life()
        self._manager(
            at, f"Started {self.unit} - Celery worker.", MESSAGE_ID="39f53479d3a045ac8e11786248231fbf",
            JOB_TYPE="start", JOB_RESULT="done", JOB_ID=str(next(self._host.jobs)),
        )  # fmt: skip
        self._write(at + 900_000, self._life.pid, *(line.format(node=self._node) for line in _BANNER))
        self._main(at + 1_100_000, "INFO", "Connected to redis://127.0.0.1:6379/0")
        self._main(at + 2_200_000, "INFO", f"{self._node} ready.")

    def _hush(self, incident: Incident) -> None:
        if incident.kind != "oom":
            self._quiet_until = incident.at + 60 * SECOND

    def _arrive(self, at: int) -> None:
        dice = self._random
        following = at + int(dice.expovariate(1 / self._workload.every_s) * SECOND)
        if following < self._until:
            self._at(following, self._arrive)
        if at < self._quiet_until:
            return
        ending = dice.choices(("succeeded", "raised", "retry"), (975, 15, 10))[0]
        runtime = min(dice.lognormvariate(0.3, 1.1), _LONGEST)
        self._receive(at, _Task(self._new_id(), dice.choice(_TASKS), runtime, ending))

    def _new_id(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def _doomed(self) -> _Task:
        return _Task(self._new_id(), self._random.choice(_TASKS), 1200.0, "doomed")

    def _receive(self, at: int, task: _Task) -> None:
        self._main(at, "INFO", f"Task {task.name}[{task.task_id}] received")
        self._hand_out(at, task)

    def _hand_out(self, at: int, task: _Task) -> None:
        task.job = next(self._life.jobs)
        self._queue.append(task)
        self._work(at)

    def _work(self, at: int) -> None:
        idle = [child for child in self._life.children if child.task is None]
        while idle and self._queue:
            child = idle.pop(self._random.randrange(len(idle)))
            self._begin(at + 1500, child, self._queue.popleft())

    def _begin(self, at: int, child: _Child, task: _Task) -> None:
        child.task, task.started_at = task, at
        if self._random.random() < 0.1:
            text = f"{task.name}[{task.task_id}]: working on item {self._random.randrange(10**6)}"
            self._at(at + int(task.runtime * SECOND * 0.4), lambda now: self._speak(now, child, task, text))
        self._at(at + int(task.runtime * SECOND), lambda now: self._end(now, child, task))

    def _speak(self, at: int, child: _Child, task: _Task, text: str) -> None:
        if child.task is task:
            self._log(at, "INFO", child.name, child.pid, text)

    def _end(self, at: int, child: _Child, task: _Task) -> None:
        if child.task is not task:
            return
        child.task = None
        ref = f"Task {task.name}[{task.task_id}]"
        if task.ending == "succeeded":
            self._log(at, "INFO", child.name, child.pid, f"{ref} succeeded in {task.runtime!r}s: {self._result()}")
        elif task.ending == "raised":
            self._log(at, "ERROR", child.name, child.pid, f"{ref} raised unexpected: GatewayError(503)")
            self._write(at, child.pid, *_TRACEBACK)
        else:
            self._log(at, "INFO", child.name, child.pid, f"{ref} retry: Retry in 30s: GatewayError(503)")
            self._write(at, child.pid, *_TRACEBACK)
            self._retry(at, task)
        status = {"succeeded": "success", "raised": "failure", "retry": "retry"}[task.ending]
        self.rows.append(Row(task.task_id, task.name, task.started_at, at, status))
        self._work(at + 300)

    def _retry(self, at: int, task: _Task) -> None:
        again = _Task(task.task_id, task.name, task.runtime, "succeeded")
        self._at(at + 4000, lambda now: self._main(now, "INFO", f"Task {again.name}[{again.task_id}] received"))
        self._at(at + 30 * SECOND, lambda now: self._hand_out(now, again))

    def _result(self) -> str:
        dice = self._random
        if dice.random() < self._workload.long_results:
            rows = ", ".join(f"{{'sku': 'A-{dice.randrange(10**6)}', 'left': {place}}}" for place in range(24))
            return f"[{rows}]"
        return dice.choice(("None", "True", "{'sent': 1}", str(dice.randrange(10**5))))

    # -- what befalls it --------------------------------------------------

    def _killed(self, at: int, child: _Child, cause: str) -> _Task:
        task, child.task = child.task, None
        assert task is not None
        self.kills.append(Kill(at, self.unit, task.task_id, task.name, cause))
        return task

    def _lose(self, at: int, child: _Child, cause: str, how: str) -> None:
        """Let the main process find a pool process dead, and report its run as lost."""
        task = self._killed(at, child, cause)
        self._main(at, "ERROR", f"Process '{child.name}' pid:{child.pid} exited with '{how}'")
        lost = f"WorkerLostError('Worker exited prematurely: {how} Job: {task.job}.')"
        self._main(at + 120_000, "ERROR", f"Task handler raised error: {lost}")
        self._write(at + 120_000, self._life.pid, *_TRACEBACK[:1], f"billiard.exceptions.WorkerLostError: {lost}")

    def _oom(self, at: int) -> None:
        """Take one pool process out, as the kernel does where the cgroup's memory runs out."""
        for place, child in enumerate(self._life.children):
            if child.task is not None and child.task.ending == "doomed":
                self._out += self._host.oom_kill(at, self.unit, child.pid)
                self._lose(at + 140_000, child, "oom-kernel", "signal 9 (SIGKILL)")
                fresh = _Child(f"ForkPoolWorker-{next(self._life.names)}", next(self._host.pids))
                self._life.children[place] = fresh

    def _deploy(self, at: int) -> None:
        self._manager(
            at, f"Stopping {self.unit} - Celery worker...", MESSAGE_ID="de5b426a63be47a7b6ac3eaac82e2f6f",
            JOB_TYPE="restart", JOB_ID=str(next(self._host.jobs)),
        )  # fmt: skip
        self._write(at + 1000, self._life.pid, "worker: Warm shutdown (MainProcess)")
        for place, child in enumerate(self._life.children):
            if child.task is not None:
                self._lose(at + 500_000 + place * 150_000, child, "unit-stop", "signal 15 (SIGTERM)")
        self._at(at + 2 * SECOND, self._stopped)

    def _stopped(self, at: int) -> None:
        self._manager(at, f"{self.unit}: Deactivated successfully.", MESSAGE_ID="7ad2d189f7e94e70a38c781354912448")
        self._manager(
            at + 300, f"Stopped {self.unit} - Celery worker.", MESSAGE_ID="9d1aaa27d60140bd96365438aad20286",
            JOB_TYPE="restart", JOB_RESULT="done", JOB_ID=str(next(self._host.jobs)),
        )  # fmt: skip
        self._queue.clear()
        self._start(at + 40_000)

    def _power(self, at: int) -> None:
        for child in self._life.children:
            if child.task is not None:
                self._killed(at, child, "host-reboot")
        self._queue.clear()
        self._at(at + 40 * SECOND + self._slot * SECOND // 7, self._start)


def _stamp(at: int) -> str:
    """Write a time as Celery's log does."""
    second, rest = divmod(at, SECOND)
    return f"{_to_the_second(second)},{rest // 1000:03}"


@lru_cache(maxsize=64)
def _to_the_second(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(second))
