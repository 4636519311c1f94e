"""Journals written in a few words: workers, PID 1, the kernel and others say their lines, an audit reads them.

Every value is invented. Times are seconds after `NOON`, 2026-11-30 12:00:00 UTC; a pool process's pid is its main
process's plus its number.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from kill_audit.audit import audit
from kill_audit.classify import TaskSettings
from kill_audit.document import Document, RunLogFacts
from kill_audit.entry import BATCH_ENTRIES, Batch, Micros, Origin, Problem, Question, Source
from kill_audit.events import Event, Line
from kill_audit.grammar import recognise
from kill_audit.reconcile import Row, RunLog, State

SECOND = 1_000_000
NOON = 1_796_040_000 * SECOND
HOUR = 3600 * SECOND
DAY = 24 * HOUR
BEAT = 5_000  # microseconds from one line to the next
TASK = "shop.tasks.ring"


def moment(second: float) -> Micros:
    """The time of a second after noon, in microseconds since the epoch."""
    return NOON + round(second * SECOND)


EVERYTHING = Question(since=moment(-3600), until=NOON + DAY, read_since=NOON - 7 * DAY, read_until=NOON + 8 * DAY)


# -- entries and sources ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a batch."""

    realtime: Micros
    monotonic: int
    pid: int
    origin: Origin
    message: str | None
    cursor: str
    fields: Mapping[str, str] = field(default_factory=dict)


def batch_of(entries: Sequence[Entry]) -> Batch:
    """Put entries into columns."""
    origins = list(dict.fromkeys(entry.origin for entry in entries))
    places = {origin: place for place, origin in enumerate(origins)}
    return Batch(
        realtime=[entry.realtime for entry in entries],
        monotonic=[entry.monotonic for entry in entries],
        pid=[entry.pid for entry in entries],
        origin=[places[entry.origin] for entry in entries],
        origins=origins,
        message=[entry.message for entry in entries],
        cursor=[entry.cursor for entry in entries],
        fields=[entry.fields for entry in entries],
    )


def entries_of(batches: Iterable[Batch | Problem]) -> tuple[Entry, ...]:
    """Take batches apart again; problems are left out."""
    return tuple(
        Entry(
            realtime=batch.realtime[row],
            monotonic=batch.monotonic[row],
            pid=batch.pid[row],
            origin=batch.origins[batch.origin[row]],
            message=batch.message[row],
            cursor=batch.cursor[row],
            fields=batch.fields[row],
        )
        for batch in batches
        if isinstance(batch, Batch)
        for row in range(len(batch))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Entries as a source, `at_once` of them in a batch."""

    name: str
    entries: Sequence[Entry]
    problems: Sequence[Problem] = ()
    at_once: int = BATCH_ENTRIES

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the entries of the span that the question reads."""
        yield from self.problems
        asked = [entry for entry in self.entries if question.read_since <= entry.realtime < question.read_until]
        for place in range(0, len(asked), self.at_once):
            yield batch_of(asked[place : place + self.at_once])


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A task line that the grammar recognised."""

    kind: Line
    task_id: str
    task_name: str
    process: str
    number: float = 0.0


def recognised(*entries: Entry, question: Question | None = None) -> tuple[Said | Event, ...]:
    """Give what the grammar recognises in entries, in their order."""
    lines, found = recognise(batch_of(entries), question or EVERYTHING)
    said: list[tuple[int, Said | Event]] = [
        (
            row,
            Said(
                kind=Line(lines.kind[place]),
                task_id=lines.task_id[place],
                task_name=lines.task_name[place],
                process=lines.process[place],
                number=lines.number[place],
            ),
        )
        for place, row in enumerate(lines.row)
    ]
    return tuple(thing for _, thing in sorted([*said, *found], key=lambda item: item[0]))


# -- a host's journal in one boot ------------------------------------------------------------------------------------

MANAGER = Origin(
    transport="journal",
    identifier="systemd",
    facility=3,
    exe="/usr/lib/systemd/systemd",
    comm="systemd",
    uid=0,
    unit="init.scope",
)
KERNEL = Origin(transport="kernel", identifier="kernel", facility=0)
JOURNALD = Origin(
    transport="driver",
    identifier="systemd-journald",
    exe="/usr/lib/systemd/systemd-journald",
    comm="systemd-journal",
    uid=0,
    unit="systemd-journald.service",
)
LOGIND = Origin(
    transport="journal",
    identifier="systemd-logind",
    exe="/usr/lib/systemd/systemd-logind",
    comm="systemd-logind",
    uid=0,
    unit="systemd-logind.service",
)
COREDUMP = Origin(
    transport="journal",
    identifier="systemd-coredump",
    exe="/usr/lib/systemd/systemd-coredump",
    comm="systemd-coredum",
    uid=0,
    unit="systemd-coredump@0-1-0.service",
)
OOMD = Origin(
    transport="journal",
    identifier="systemd-oomd",
    exe="/usr/lib/systemd/systemd-oomd",
    comm="systemd-oomd",
    uid=100,
    unit="systemd-oomd.service",
)
EARLYOOM = Origin(
    transport="stdout", identifier="earlyoom", exe="/usr/bin/earlyoom", comm="earlyoom", uid=0, unit="earlyoom.service"
)
SUDO = Origin(
    transport="syslog",
    identifier="sudo",
    facility=10,
    exe="/usr/bin/sudo",
    comm="sudo",
    uid=1000,
    unit="session-3.scope",
)
LOGGER = Origin(
    transport="syslog",
    identifier="logger",
    facility=1,
    exe="/usr/bin/logger",
    comm="logger",
    uid=1000,
    unit="session-3.scope",
)


class Journal:
    """What one host writes in one boot, entry after entry, at a clock that only the test moves."""

    def __init__(self, host: str = "web1", *, boot: int = 1, vouched: bool = True) -> None:
        self.host = host
        self.origin = Origin(host=host, machine_id=f"machine-{host}", boot_id=f"boot-{host}-{boot}")
        if not vouched:
            self.origin = Origin(host=host, transport="text", vouched=False)
        self.now = NOON
        self.entries: list[Entry] = []

    def at(self, second: float) -> Self:
        """Set the clock to a second after noon; it may only go forward."""
        assert moment(second) >= self.now or not self.entries, "the scene is written in order"
        self.now = moment(second)
        return self

    def write(self, message: str | None, origin: Origin, *, pid: int = 0, **fields: str) -> Entry:
        """Write an entry of this host and boot; the clock goes on by a beat."""
        entry = Entry(
            realtime=self.now,
            monotonic=self.now - NOON + HOUR if self.origin.vouched else 0,
            pid=pid,
            origin=replace(
                origin,
                host=self.origin.host,
                machine_id=self.origin.machine_id,
                boot_id=self.origin.boot_id,
                vouched=self.origin.vouched,
            ),
            message=message,
            cursor=f"s={self.origin.boot_id or self.host};t={self.now}",
            fields=fields,
        )
        self.entries.append(entry)
        self.now += BEAT
        return entry

    def source(self, name: str | None = None) -> Memory:
        """Make a source of what was written."""
        return Memory(name=name or f"{self.host}.journal", entries=tuple(self.entries))

    def unit(self, name: str = "celery@a.service", **known: Any) -> "Unit":
        """Write about a worker's unit; `known` are arguments of `Unit`."""
        return Unit(self, name, **known)

    def kernel(self, message: str, **changed: Any) -> Entry:
        """Write a kernel line."""
        return self.write(message, replace(KERNEL, **changed))

    def oom(self, pid: int, cgroup: str | None = None, comm: str = "celery") -> None:
        """Let the kernel's OOM killer take a process, in the two lines that it writes."""
        if cgroup is not None:
            self.kernel(
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
                f"oom_memcg={cgroup},task_memcg={cgroup},task={comm},pid={pid},uid=0"
            )
        self.kernel(
            f"Memory cgroup out of memory: Killed process {pid} ({comm}) total-vm:299672kB, anon-rss:279072kB, "
            "file-rss:7080kB, shmem-rss:0kB, UID:0 pgtables:620kB oom_score_adj:0"
        )

    def sudo(self, command: str, **changed: Any) -> Entry:
        """Let alice run a command through sudo."""
        return self.write(
            f"   alice : TTY=pts/0 ; PWD=/home/alice ; USER=root ; COMMAND={command}",
            replace(SUDO, **changed),
            pid=7001,
        )

    def goes_down(self, how: str = "reboot") -> Entry:
        """Let logind say that the machine goes down."""
        return self.write(
            f"The system will {how} now!", LOGIND, pid=600, MESSAGE_ID="98268866d1d54a499c4e98921d93bc40", SHUTDOWN=how
        )

    def journal_stops(self) -> Entry:
        """Let journald stop in an orderly way."""
        return self.write("Journal stopped", JOURNALD, pid=300, MESSAGE_ID="d93fb3c9c24d451a97cea615ce59c00b")

    def suppressed(self, unit: str, count: int = 120) -> Entry:
        """Let journald say that its rate limit dropped lines of a unit."""
        return self.write(
            f"Suppressed {count} messages from {unit}",
            JOURNALD,
            pid=300,
            MESSAGE_ID="a596d6fe7bfa4994828e72309e95d61e",
            N_DROPPED=str(count),
            OBJECT_SYSTEMD_UNIT=unit,
        )

    def missed(self, count: int = 12) -> Entry:
        """Let journald say that kernel lines were lost before it read them."""
        return self.write(
            f"Missed {count} kernel messages", JOURNALD, pid=300, MESSAGE_ID="e9bf28e6e834481bb6f48f548ad13606"
        )

    def coredump(self, pid: int, unit: str, signal: int) -> Entry:
        """Let systemd-coredump take a core."""
        return self.write(
            f"Process {pid} (celery) of user 33 dumped core.",
            COREDUMP,
            pid=7100,
            MESSAGE_ID="fc2e22bc6ee647b6b90729ab34a250b1",
            COREDUMP_PID=str(pid),
            COREDUMP_UNIT=unit,
            COREDUMP_SIGNAL=str(signal),
            COREDUMP_COMM="celery",
        )

    def chatter(self, message: str = "GET /health 200", unit: str = "nginx.service") -> Entry:
        """Write a line that has nothing to do with Celery."""
        return self.write(message, Origin(transport="stdout", unit=unit, identifier="nginx", uid=33), pid=900)


class Unit:
    """A worker's unit: what its processes print, and (`systemd`) what PID 1 says about it."""

    def __init__(
        self,
        journal: Journal,
        name: str = "celery@a.service",
        *,
        main: int = 100,
        concurrency: int = 2,
        version: str = "5.7.0",
        pool: str = "prefork",
        starts: bool = True,
        **origin: Any,
    ) -> None:
        self.journal = journal
        self.name = name
        self.main = main
        self.concurrency = concurrency
        self.version = version
        self.pool = pool
        self.runs = 0
        self.node = f"{name.split('.', maxsplit=1)[0].removeprefix('celery@')}@{journal.host}"
        place = {"cgroup": f"/system.slice/{name}"} | origin
        self.origin = Origin(transport="stdout", identifier="celery", unit=name, comm="celery", uid=33, **place)
        self.systemd = Manager(self)
        if starts:
            self.starts()

    @property
    def invocation(self) -> str:
        """The invocation id of the unit's present run."""
        return f"{self.name}-run-{self.runs}"

    def starts(self, main: int | None = None, *, anew: bool = True) -> Self:
        """Print the banner and "ready": a new run of the unit, or (not `anew`) the same process executed anew."""
        self.main = self.main if main is None else main
        self.runs += anew
        self.bare(f" -------------- {self.node} v{self.version} (codename)")
        self.bare(f"- *** --- * --- .> concurrency: {self.concurrency} ({self.pool})")
        self.ready()
        return self

    def bare(self, text: str, pid: int | None = None) -> Entry:
        """Print a line as it is."""
        origin = replace(self.origin, invocation_id=self.invocation if self.journal.origin.vouched else None)
        return self.journal.write(text, origin, pid=self.main if pid is None else pid)

    def says(self, text: str, *, child: int | None = None, level: str = "INFO", pid: int | None = None) -> Entry:
        """Log a record in Celery's format, from the main process or a pool process."""
        process = "MainProcess" if child is None else self.process(child)
        writer = self.main if child is None else self.pid(child)
        return self.bare(f"[2026-11-30 12:00:00,000: {level}/{process}] {text}", writer if pid is None else pid)

    @staticmethod
    def process(child: int) -> str:
        """Name a pool process."""
        return f"ForkPoolWorker-{child}"

    def pid(self, child: int) -> int:
        """Number a pool process."""
        return self.main + child

    def ready(self) -> Entry:
        """Log that the worker is ready."""
        return self.says(f"{self.node} ready.")

    # -- tasks ---------------------------------------------------------------------------------------------------

    def received(self, *ids: str, name: str = TASK) -> None:
        """Receive tasks."""
        for task_id in ids:
            self.says(f"Task {name}[{task_id}] received")

    def received_old(self, task_id: str, eta: float | None = None, name: str = TASK) -> Entry:
        """Receive a task in the wording of Celery up to 5.0, which shows an ETA (seconds after noon)."""
        due = dt.datetime.fromtimestamp(moment(eta or 0) / SECOND, dt.UTC)
        when = "" if eta is None else f"  ETA:[{due.isoformat(sep=' ', timespec='microseconds')}]"
        return self.says(f"Received task: {name}[{task_id}]{when}")

    def accepted(self, task_id: str, child: int, name: str = TASK) -> Entry:
        """Log, at level DEBUG, that a pool process took a task."""
        return self.says(f"Task accepted: {name}[{task_id}] pid:{self.pid(child)}", level="DEBUG")

    def speaks(self, task_id: str, child: int, text: str = "half done", name: str = TASK) -> Entry:
        """Let a task log a line through Celery's task logger."""
        return self.says(f"{name}[{task_id}]: {text}", child=child)

    def succeeded(self, task_id: str, child: int, seconds: float = 1.0, name: str = TASK) -> Entry:
        """End a task well."""
        return self.says(f"Task {name}[{task_id}] succeeded in {seconds}s: None", child=child)

    def raised(self, task_id: str, child: int, text: str = "ValueError('no')", name: str = TASK) -> Entry:
        """End a task with an exception."""
        return self.says(f"Task {name}[{task_id}] raised unexpected: {text}", child=child, level="ERROR")

    def retries(self, task_id: str, child: int, seconds: float = 5, name: str = TASK) -> Entry:
        """End a task with a retry."""
        return self.says(f"Task {name}[{task_id}] retry: Retry in {seconds:g}s: ValueError('again')", child=child)

    # -- deaths --------------------------------------------------------------------------------------------------

    def exited(self, child: int, signal: int | None = 9, code: int | None = None) -> Entry:
        """Find a pool process dead."""
        status = f"signal {signal} ({_NAMES.get(signal, 'SIGX')})" if code is None and signal else f"exitcode {code}"
        return self.says(
            f"Process '{self.process(child)}' pid:{self.pid(child)} exited with '{status}'", level="ERROR"
        )

    def lost(self, job: int | None, signal: int | None = 9, code: int | None = None) -> Entry:
        """Report a run as lost with its pool process."""
        status = f"signal {signal} ({_NAMES.get(signal, 'SIGX')})" if code is None and signal else f"exitcode {code}"
        number = "" if job is None else f" Job: {job}"
        return self.says(
            f"Task handler raised error: WorkerLostError('Worker exited prematurely: {status}{number}.')",
            level="ERROR",
        )

    def dies(self, child: int, job: int | None, signal: int | None = 9, code: int | None = None) -> None:
        """Lose a pool process with its task: both lines."""
        self.exited(child, signal, code)
        self.lost(job, signal, code)

    def warm(self) -> Entry:
        """Begin a warm shutdown."""
        return self.bare("worker: Warm shutdown (MainProcess)")

    def cold(self) -> Entry:
        """End in a cold shutdown."""
        return self.bare("worker: Cold shutdown (MainProcess)")

    def restores(self, count: int) -> Entry:
        """Put unacknowledged messages back on the queue."""
        return self.says(f"Restoring {count} unacknowledged message(s)")


_NAMES = {1: "SIGHUP", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


CONTAINER = "0f5e6d7c8b9a0f5e6d7c8b9a0f5e6d7c8b9a0f5e6d7c8b9a0f5e6d7c8b9a0f5e"


class ContainerUnit(Unit):
    """A worker in a container whose lines Docker's journald driver writes: the journal knows no pid of its processes.

    The worker's own numbers are the container's: its main process is 1.
    """

    def __init__(self, journal: Journal, name: str = "shop_worker_1", **known: Any) -> None:
        super().__init__(journal, name, main=1, starts=False, container=CONTAINER, **known)
        self.origin = replace(
            self.origin, transport="journal", identifier=CONTAINER[:12], exe="/usr/bin/dockerd", comm="dockerd", uid=0
        )
        self.starts()

    def bare(self, text: str, pid: int | None = None) -> Entry:
        """Print a line as it is; whoever wrote it, the entry has no pid."""
        del pid
        return self.journal.write(text, self.origin, pid=0)


class Manager:
    """What PID 1 says about a unit, in the records of systemd 252."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def says(self, text: str, message_id: str | None = None, **fields: str) -> Entry:
        """Write a record about the unit."""
        about = {"UNIT": self._unit.name, "INVOCATION_ID": self._unit.invocation}
        if message_id is not None:
            about["MESSAGE_ID"] = message_id
        return self._unit.journal.write(text, MANAGER, pid=1, **about, **fields)

    def started(self, job: int = 11) -> Entry:
        """Finish a start job."""
        return self.says(
            f"Started {self._unit.name}.",
            "39f53479d3a045ac8e11786248231fbf",
            JOB_ID=str(job),
            JOB_TYPE="start",
            JOB_RESULT="done",
        )

    def stopping(self, job: int = 10) -> Entry:
        """Begin a stop job."""
        return self.says(
            f"Stopping {self._unit.name}...", "de5b426a63be47a7b6ac3eaac82e2f6f", JOB_ID=str(job), JOB_TYPE="stop"
        )

    def stopped(self, job_type: str = "stop", job: int = 10) -> Entry:
        """Finish a stop job, or the stop half of a restart."""
        return self.says(
            f"Stopped {self._unit.name}.",
            "9d1aaa27d60140bd96365438aad20286",
            JOB_ID=str(job),
            JOB_TYPE=job_type,
            JOB_RESULT="done",
        )

    def timed_out(self, state: str = "stop-sigterm") -> Entry:
        """Let a stop run out of time."""
        return self.says(f"{self._unit.name}: State '{state}' timed out. Killing.", CODE_FUNC="service_dispatch_timer")

    def runtime_over(self) -> Entry:
        """Let RuntimeMaxSec run out."""
        return self.says(
            f"{self._unit.name}: Service reached runtime time limit. Stopping.", CODE_FUNC="service_dispatch_timer"
        )

    def killing(self, pid: int, signal: str = "SIGKILL") -> Entry:
        """Send a process a noteworthy signal."""
        return self.says(f"{self._unit.name}: Killing process {pid} (celery) with signal {signal}.")

    def sent(self, pid: int, signal: str = "SIGKILL", *, main: bool = False) -> Entry:
        """Send a process a signal on a client's request."""
        how = "Sent signal {} to main process" if main else "Sending signal {} to process"
        return self.says(f"{self._unit.name}: {how.format(signal)} {pid} (celery) on client request.")

    def main_exited(self, code: str = "killed", status: int = 9) -> Entry:
        """Find the main process dead."""
        name = {9: "KILL", 6: "ABRT", 11: "SEGV", 1: "FAILURE"}.get(status, str(status))
        return self.says(
            f"{self._unit.name}: Main process exited, code={code}, status={status}/{name}",
            "98e322203f7a4ed290d09fe03c09fe15",
            EXIT_CODE=code,
            EXIT_STATUS=str(status),
            COMMAND="ExecStart",
        )

    def failed(self, result: str = "signal") -> Entry:
        """End a run of the unit badly."""
        return self.says(
            f"{self._unit.name}: Failed with result '{result}'.",
            "d9b373ed55a64feb8242e02dbe79a49c",
            UNIT_RESULT=result,
        )

    def succeeded(self) -> Entry:
        """End a run of the unit well."""
        return self.says(f"{self._unit.name}: Deactivated successfully.", "7ad2d189f7e94e70a38c781354912448")

    def restart_scheduled(self, counter: int = 1) -> Entry:
        """Schedule an automatic restart."""
        return self.says(
            f"{self._unit.name}: Scheduled restart job, restart counter is at {counter}.",
            "5eb03494b6584870a536b337290809b3",
            N_RESTARTS=str(counter),
        )

    def out_of_memory(self) -> Entry:
        """Notice an OOM kill in the unit."""
        return self.says(
            f"{self._unit.name}: A process of this unit has been killed by the OOM killer.",
            "fe6faa94e7774663a0da52717891d8ef",
        )

    def oomd_killed(self) -> Entry:
        """Notice that systemd-oomd killed processes of the unit."""
        return self.says(
            f"{self._unit.name}: systemd-oomd killed 3 process(es) in this unit.",
            "d989611b15e44c9dbf31e3c81256e4ed",
            N_PROCESSES="3",
        )

    def watchdog(self) -> Entry:
        """Let WatchdogSec run out."""
        return self.says(f"{self._unit.name}: Watchdog timeout (limit 30s)!", CODE_FUNC="service_dispatch_watchdog")


# -- the run log --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A run log in memory."""

    rows: Sequence[Row] = ()
    one_row_per_id: bool = False
    oldest_at: Micros | None = NOON - DAY
    knows_its_zone: bool = True

    @property
    def facts(self) -> RunLogFacts:
        """Say what it is."""
        return RunLogFacts(kind="memory", table="runs", preset=None, rows=len(self.rows), time_zone="UTC", skew_s=None)

    def rows_of(self, task_ids: Collection[str]) -> Iterable[Row]:
        """Give the rows of these ids."""
        return [row for row in self.rows if row.task_id in task_ids]

    def rows_without_id(self, task_names: Collection[str], since: Micros, until: Micros) -> Iterable[Row]:
        """Give the rows without an id."""
        named = [row for row in self.rows if row.task_id is None and row.task_name in task_names]
        return [row for row in named if row.started_at is not None and since <= row.started_at < until]

    def open_rows(self, since: Micros | None = None) -> Iterable[Row]:  # noqa: ARG002 - nothing here is big
        """Give the open rows."""
        return [row for row in self.rows if row.state is State.OPEN]

    def finished_twice(self, since: Micros, until: Micros) -> Iterable[tuple[str, str | None, int]]:
        """Give the ids with several done rows."""
        done = [
            row
            for row in self.rows
            if row.state is State.DONE and row.finished_at is not None and since <= row.finished_at < until
        ]
        for task_id in sorted({row.task_id for row in done if row.task_id is not None}):
            same = [row for row in done if row.task_id == task_id]
            if len(same) > 1:
                yield task_id, same[0].task_name, len(same)

    def oldest(self) -> Micros | None:
        """Give the oldest moment that the table tells of."""
        return self.oldest_at


_STATUS = {
    State.OPEN: "running",
    State.DONE: "success",
    State.FAILED: "failure",
    State.REVOKED: "revoked",
    State.RETRY: "retry",
    State.OTHER: "odd",
}


def row(task_id: str | None, state: State, started: float | None, finished: float | None = None, **known: Any) -> Row:
    """A run log's row; times in seconds after noon."""
    key = known.pop("key", f"{task_id}-{started}-{finished}")
    return Row(
        key=key,
        task_id=task_id,
        task_name=TASK,
        status=_STATUS[state],
        state=state,
        started_at=None if started is None else moment(started),
        finished_at=None if finished is None else moment(finished),
        **known,
    )


# -- audits -------------------------------------------------------------------------------------------------------


def one_by_one(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Run scans one after another in this process."""
    return [function(item) for item in items]


def audited(
    *sources: Journal | Source,
    question: Question = EVERYTHING,
    run_log: RunLog | None = None,
    now: Micros = NOON + DAY,
    settings: Mapping[str, TaskSettings] | None = None,
) -> Document:
    """Audit what the sources hold."""
    opened = [source.source() if isinstance(source, Journal) else source for source in sources]
    return audit(opened, run_log, question, one_by_one, now=now, settings=settings)


def findings(document: Document) -> dict[str, Any]:
    """Give a document without what tells of its sources: the findings, as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(document)
    for key in ("tool", "generated_at", "coverage"):
        del plain[key]
    return plain
