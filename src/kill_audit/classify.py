"""Say why each run was killed and what became of it: two ordered tables, first match wins, each rule named.

Rules of this file:
1. The order of `CAUSES` and `FATES` is the definition; a rule may rely on those above it having said no.
2. A cause is named only with a witness in the journal. Signal 9 alone is not the OOM killer; a deploy window is
   context. 3. What was looked for in vain is said, and "unknown" is an answer.
4. Nothing is joined across boots. Patterns and databases are not known here.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from kill_audit import events
from kill_audit.document import Confidence
from kill_audit.entry import Micros
from kill_audit.events import Event, UnitEvent
from kill_audit.timeline import Death, Ending, Group, History, Mark, Stop, stops_of
from kill_audit.timeline.lives import CLOSE, SECOND, Life

# A pool's main process looks for dead children at least every 5 s, and prints up to 15 s late with some brokers; a
# witness of a child's death may be older than the line by as much.
CHILD_LAG = 6 * SECOND
STOP_TAIL = 5 * SECOND
OOM_SPAN = 12 * SECOND
SHUTDOWN_SPAN = 15 * 60 * SECOND


class Cause(StrEnum):
    """What killed a run."""

    HOST_REBOOT = "host-reboot"
    WATCHDOG = "watchdog"
    OOM_KERNEL = "oom-kernel"
    OOM_SYSTEMD = "oom-systemd"
    HARD_TIME_LIMIT = "hard-time-limit"
    MANUAL_SIGNAL = "manual-signal"
    COLD_SHUTDOWN = "cold-shutdown"
    STOP_TIMEOUT = "stop-timeout"
    CRASH = "crash"
    EXIT = "exit"
    UNIT_STOP = "unit-stop"
    UNKNOWN = "unknown"


class Fate(StrEnum):
    """What became of a killed run's task."""

    REDELIVERED = "redelivered"
    REQUEUED = "requeued"
    RETRIED = "retried"
    REVOKED = "revoked"
    LOST = "lost"
    PENDING = "pending"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """A task's acknowledgement settings, where the user states them; None: not stated."""

    acks_late: bool | None = None
    reject_on_worker_lost: bool | None = None
    acks_on_failure_or_timeout: bool | None = None
    safe_to_rerun: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a rule says. `host_pid`: the kernel's number of the process, where its line names it."""

    cause: Cause
    confidence: Confidence
    reasons: tuple[str, ...]
    marks: tuple[Mark, ...] = ()
    host_pid: int | None = None
    bystander: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A run that was killed, with its cause and fate. `at`: the first record that shows the death."""

    death: Death
    at: Micros
    ruling: Ruling
    fate: Fate
    fate_reason: str
    deliveries: int
    killed_times: int = 1
    marks: tuple[Mark, ...] = ()

    @property
    def task_id(self) -> str | None:
        """The id of the task, where it could be named."""
        return self.death.run.task_id if self.death.run is not None else None


_E = TypeVar("_E", bound=Event)


@dataclass(slots=True)
class Scene:
    """What surrounds a death: its unit's records and its machine's, of its boot."""

    history: History
    settings: Mapping[str, TaskSettings]
    stops: dict[tuple[Group, int, Micros], tuple[Stop, ...]] = field(default_factory=dict)
    taken_oom: dict[int, Death] = field(default_factory=dict)

    def stop_at(self, life: Life, moment: Micros, tail: Micros = STOP_TAIL) -> Stop | None:
        """The stop of the life's unit that a moment lies in."""
        # By life: a user's unit and the system's may have one name, and each has a manager of its own.
        if life.key not in self.stops:
            self.stops[life.key] = stops_of(life.about)
        for stop in reversed(self.stops[life.key]):
            other_run = stop.invocation_id and life.group.invocation and stop.invocation_id != life.group.invocation
            if (
                not other_run
                and stop.begun.at - CLOSE <= moment
                and (stop.until is None or moment <= stop.until + tail)
            ):
                return stop
        return None

    def near(self, life: Life, kind: type[_E], since: Micros, until: Micros) -> tuple[_E, ...]:
        """Events of a kind on the life's machine, in its boot, in a span."""
        return tuple(
            event
            for event in self.history.told.other
            if isinstance(event, kind) and since <= event.at <= until and _same_boot(event, life)
        )


def _same_boot(event: Event, life: Life) -> bool:
    origin = event.seen.origin
    return (origin.machine_id or origin.host) == life.group.machine and (origin.boot_id or "") == life.group.boot


def about(life: Life, kind: type[UnitEvent], since: Micros, until: Micros) -> tuple[UnitEvent, ...]:
    """The service manager's records of a kind about the life's own run of its unit, in a span."""
    return tuple(
        event
        for event in life.about
        if isinstance(event, kind)
        and since <= event.at <= until
        and (not event.invocation_id or not life.group.invocation or event.invocation_id == life.group.invocation)
    )


def mark(event: Event) -> Mark:
    """Point at an event's entry."""
    return Mark(event.at, event.seen.cursor, event.seen.text)


# -- causes ---------------------------------------------------------------


def host_reboot(death: Death, scene: Scene) -> Ruling | None:
    """The boot ended under it, or its stop is part of a machine's shutdown."""
    life = death.life
    if death.main and life.end.ending is Ending.BOOT_OVER:
        return Ruling(
            cause=Cause.HOST_REBOOT,
            confidence="high",
            reasons=("the boot ends with the run unfinished, and the machine booted again",),
        )
    down = scene.near(life, events.HostShutdown, death.at - SHUTDOWN_SPAN, death.at + CLOSE)
    stop = scene.stop_at(life, death.at)
    again = stop is not None and any(
        isinstance(event, events.UnitStarted) and event.at > stop.begun.at for event in life.about
    )  # then the boot went on, and what logind announced was called off
    if down and stop is not None and not again and stop.begun.at >= down[0].at - 10 * SECOND:
        return Ruling(
            cause=Cause.HOST_REBOOT,
            confidence="high",
            marks=(mark(down[0]), stop.begun),
            reasons=("the unit was stopped because the machine went down",),
        )
    return None


def watchdog(death: Death, _scene: Scene) -> Ruling | None:
    """WatchdogSec ran out: systemd aborts the main process, and with KillMode=control-group everything else."""
    fired = about(death.life, events.WatchdogTimeout, death.at - 120 * SECOND, death.at + CLOSE)
    if not fired:
        return None
    return Ruling(
        cause=Cause.WATCHDOG,
        confidence="high",
        marks=(mark(fired[-1]),),
        reasons=("systemd's watchdog for the unit ran out just before",),
    )


def oom_kernel(death: Death, scene: Scene) -> Ruling | None:
    """The kernel's OOM killer took the process, or the unit was stopped because it took another (OOMPolicy=stop)."""
    return _oom_victim(death, scene) or _oom_unit(death, scene) or _oom_bystander(death, scene)


def _oom_victim(death: Death, scene: Scene) -> Ruling | None:
    if death.signal not in (9, None):
        return None
    life = death.life
    kills = scene.near(life, events.KernelOomKill, death.at - OOM_SPAN, death.at + 2 * SECOND)
    pids = {death.exit.child_pid} if death.exit else {exit_.child_pid for exit_ in death.exits}
    if death.main:
        pids.add(life.main_pid)
    boxes = {event.seen.origin.container for event in life.said} - {None}
    in_unit = {kill.pid for kill in kills if kill.unit == life.group.unit or _of_container(kill, boxes)}
    # Numbers in a container are its own: only the cgroup's path tells whose the host's number is.
    by_pid = [] if boxes else [kill for kill in kills if kill.pid in pids and _comm_fits(kill.comm)]
    chosen = by_pid or [kill for kill in kills if kill.pid in in_unit]
    free = [kill for kill in chosen if _one_death(scene.taken_oom.get(kill.pid, death), death)]
    if not free:
        return None
    nearest = max(free, key=lambda kill: kill.at)
    pid = nearest.pid
    told = [kill for kill in kills if kill.pid == pid]
    if death.main and not by_pid and death.signal != 9:
        return None
    scene.taken_oom[pid] = death
    sure = bool(by_pid) or len({kill.pid for kill in free}) == 1
    why = (
        f"the kernel's OOM killer took process {pid}"
        + (" of this unit's cgroup" if pid in in_unit else "")
        + ("" if by_pid else ", a number of the host: the worker's own numbers differ in a container")
    )
    return Ruling(
        cause=Cause.OOM_KERNEL,
        confidence="high" if sure else "medium",
        host_pid=pid,
        reasons=(why,),
        marks=tuple(mark(kill) for kill in told),
    )


def _of_container(kill: events.KernelOomKill, boxes: Collection[str | None]) -> bool:
    """Whether the victim's cgroup is that of a container: its path ends with the id, as `docker-ID.scope` or `ID`."""
    return any(box is not None and len(box) >= _SHORT_ID and box in (kill.cgroup or "") for box in boxes)


_SHORT_ID = 12  # the shortest form in which Docker and podman write a container's id


def _one_death(one: Death, other: Death) -> bool:
    """Whether two runs died with the same process."""
    return one is other or (one.main and other.main and one.life is other.life)


def _comm_fits(comm: str | None) -> bool:
    """Whether a process name can be a worker's: anything but another well-known server's."""
    return comm is None or re.match(r"(?:\[?celery|python|uwsgi$)", comm) is not None or not _OTHER_SERVERS.match(comm)


_OTHER_SERVERS = re.compile(r"(?:nginx|postgres|mysqld|mariadbd|redis|java|node|ruby|php|gunicorn|uwsgi|mongod)")


def _oom_unit(death: Death, _scene: Scene) -> Ruling | None:
    if death.signal != 9:
        return None
    told = about(death.life, events.UnitOutOfMemory, death.at - OOM_SPAN, death.at + 2 * SECOND)
    if not told:
        return None
    return Ruling(
        cause=Cause.OOM_KERNEL,
        confidence="medium",
        marks=(mark(told[-1]),),
        reasons=(
            "systemd saw an OOM kill in this unit; the kernel's own line, which names the process, was not read",
        ),
    )


def _oom_bystander(death: Death, _scene: Scene) -> Ruling | None:
    """OOMPolicy=stop (systemd's default): the unit is stopped without a job because one process was OOM-killed."""
    life = death.life
    told = about(life, events.UnitOutOfMemory, death.at - 10 * 60 * SECOND, death.at + CLOSE)
    ended = [event for event in life.about if isinstance(event, events.UnitEnded) and event.at >= death.at - CLOSE]
    asked = told and about(life, events.UnitStopping, told[-1].at - 30 * SECOND, death.at + CLOSE)
    if not told or asked or not ended or getattr(ended[0], "result", "") != "oom-kill":
        return None
    return Ruling(
        cause=Cause.OOM_KERNEL,
        confidence="high",
        bystander=True,
        marks=(mark(told[-1]), mark(ended[0])),
        reasons=("systemd stopped the whole unit because one of its processes was OOM-killed (OOMPolicy=stop)",),
    )


def oom_systemd(death: Death, scene: Scene) -> Ruling | None:
    """systemd-oomd or earlyoom chose the unit's cgroup, or the process."""
    life = death.life
    told: list[Event] = list(about(life, events.UnitOomdKill, death.at - OOM_SPAN, death.at + 2 * SECOND))
    pids = {exit_.child_pid for exit_ in (death.exit, *death.exits) if exit_} | (
        {life.main_pid} if death.main else set()
    )
    told.extend(
        event
        for event in scene.near(life, events.OomDaemonKill, death.at - OOM_SPAN, death.at + 2 * SECOND)
        if event.unit == life.group.unit or event.pid in pids
    )
    if not told:
        return None
    return Ruling(
        cause=Cause.OOM_SYSTEMD,
        confidence="high",
        marks=tuple(mark(event) for event in told),
        reasons=("an out-of-memory daemon recorded that it killed this",),
    )


def hard_time_limit(death: Death, _scene: Scene) -> Ruling | None:
    """The worker's own line says so."""
    if not isinstance(death.told, events.HardTimeLimit):
        return None
    limit = death.told.limit_s
    return Ruling(
        cause=Cause.HARD_TIME_LIMIT,
        confidence="high",
        reasons=("the worker enforced the hard time limit" + (f" of {limit:g} s" if limit else ""),),
    )


def manual_signal(death: Death, scene: Scene) -> Ruling | None:
    """The journal shows who sent the signal: a revocation, a client of systemd, a command through sudo."""
    if isinstance(death.told, events.Terminating):
        return Ruling(cause=Cause.MANUAL_SIGNAL, confidence="high", reasons=("the task was revoked with terminate",))
    if isinstance(death.told, events.CancelledOnConnectionLoss):
        return Ruling(
            cause=Cause.MANUAL_SIGNAL,
            confidence="high",
            reasons=("the worker itself terminated it, because it had lost its connection to the broker",),
        )
    return _client_request(death) or _sudo_kill(death, scene)


def _client_request(death: Death) -> Ruling | None:
    life = death.life
    pids = {exit_.child_pid for exit_ in (death.exit, *death.exits) if exit_} | (
        {life.main_pid} if death.main else set()
    )
    sent = [
        event
        for event in about(life, events.SignalSent, death.at - CHILD_LAG, death.at + CLOSE)
        if isinstance(event, events.SignalSent) and _signal_fits(event.signal, death)
    ]
    if not sent:
        return None
    own = [event for event in sent if event.pid is None or event.pid in pids or (death.main and event.main)]
    return Ruling(
        cause=Cause.MANUAL_SIGNAL,
        confidence="high" if own else "medium",
        marks=tuple(mark(event) for event in (own or sent)[:4]),
        reasons=("systemd sent the signal on a client's request (systemctl kill)",),
    )


def _signal_fits(sent: int | None, death: Death) -> bool:
    if sent is None or sent == death.signal:
        return True
    if death.exit_code in (15, 70):  # a pool process's own handlers turn SIGTERM, SIGHUP and SIGQUIT into an exit
        return sent in (15, 1, 3)
    return death.signal is None and death.exit_code is None


_KILL = re.compile(r"(?:^|[/\s;&|])(?:kill|pkill|killall|skill)(?:\s|$)|systemctl\s+(?:\S+\s+)*kill\s")


def _sudo_kill(death: Death, scene: Scene) -> Ruling | None:
    """A kill through sudo just before. `sudo systemctl restart` is a stop of the unit, not this."""
    life = death.life
    if scene.stop_at(life, death.at) is not None and death.signal != 9:
        return None
    pids = {str(exit_.child_pid) for exit_ in (death.exit, *death.exits) if exit_} | {str(life.main_pid)}
    found: list[tuple[events.SudoCommand, bool]] = []
    for event in scene.near(life, events.SudoCommand, death.at - CHILD_LAG, death.at + CLOSE):
        if _KILL.search(event.command):
            words = re.findall(r"[\w.@:-]+", event.command)
            named = [word for word in words if word.isdecimal() and len(word) > 2]
            by_unit = bool(life.group.unit) and life.group.unit.removesuffix(".service") in event.command
            by_name = not named and re.search(r"celery|python|worker", event.command) is not None
            if pids & set(words) or by_unit or by_name:
                found.append((event, bool(pids & set(words)) or by_unit))
    if not found:
        return None
    event, sure = found[-1]
    return Ruling(
        cause=Cause.MANUAL_SIGNAL,
        confidence="high" if sure else "medium",
        marks=(mark(event),),
        reasons=(f"{event.user} ran a kill command through sudo just before",),
    )


def cold_shutdown(death: Death, _scene: Scene) -> Ruling | None:
    """The main process was told to terminate what runs: SIGQUIT, a second Ctrl+C, or SIGTERM remapped to SIGQUIT."""
    life = death.life
    traced = any("WorkerTerminate" in one.text for one in death.marks)
    ended_so = death.main and life.end.ending is Ending.COLD
    said = [
        event
        for event in life.said
        if isinstance(event, events.Shutdown) and event.kind == "cold" and event.at <= death.at + CLOSE
    ]
    abandoned = death.main and life.end.ending is Ending.ABANDONED
    if abandoned and not said:
        return None
    if not (traced or ended_so or said) or death.signal in _CRASHES:
        return None
    return Ruling(
        cause=Cause.COLD_SHUTDOWN,
        confidence="high",
        marks=(*life.end.marks, *(mark(event) for event in said))[:4],
        reasons=("the worker was in a cold shutdown, which terminates running tasks",),
    )


def stop_timeout(death: Death, scene: Scene) -> Ruling | None:
    """A stop ran out of time: what dies at or after that record died of it, whatever the signal."""
    stop = scene.stop_at(death.life, death.at)
    timed_out = stop.timed_out if stop is not None else None
    if stop is None:
        since = max(death.at - 120 * SECOND, death.life.first_at - CLOSE)  # an earlier run's stop is not this one's
        fired = about(death.life, events.StopTimedOut, since, death.at + CLOSE)
        timed_out = mark(fired[0]) if fired else None
    if timed_out is not None and timed_out.at > death.at + CLOSE:
        return None
    if timed_out is None or _child_died_before(death, timed_out.at):
        return None
    return Ruling(
        cause=Cause.STOP_TIMEOUT,
        confidence="high",
        marks=((stop.begun,) if stop else ()) + (timed_out,),
        reasons=("the stop ran out of time (TimeoutStopSec), and systemd killed what was left",),
    )


def _child_died_before(death: Death, moment: Micros) -> bool:
    return not death.main and death.at < moment - CLOSE


_CRASHES = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}


def crash(death: Death, scene: Scene) -> Ruling | None:
    """The process crashed by itself: a signal that only a fault raises."""
    name = _CRASHES.get(death.signal or 0)
    if name is None:
        return None
    life = death.life
    pids = {exit_.child_pid for exit_ in (death.exit, *death.exits) if exit_} | (
        {life.main_pid} if death.main else set()
    )
    witnesses: list[Event] = [
        event
        for event in about(life, events.CoreDumped, death.at - CHILD_LAG, death.at + 30 * SECOND)
        if isinstance(event, events.CoreDumped) and (event.pid in pids or event.signal == death.signal)
    ]
    faults = scene.near(life, events.KernelCrash, death.at - CHILD_LAG, death.at + CLOSE)
    same = [event for event in faults if event.pid in pids]
    witnesses.extend(same or ([event for event in faults if event.comm.startswith(("celery", "python"))][-1:]))
    host_pid = next((event.pid for event in witnesses if isinstance(event, events.KernelCrash)), None)
    return Ruling(
        cause=Cause.CRASH,
        confidence="high",
        host_pid=host_pid,
        marks=tuple(mark(event) for event in witnesses),
        reasons=(f"the process died of {name}, a fault of its own",),
    )


_SIGNAL_CODES = frozenset({15, 70})


def exit_(death: Death, _scene: Scene) -> Ruling | None:
    """The task ended its own process. Codes 15 and 70 are what a pool process's signal handlers leave (billiard)."""
    if death.exit_code is None or death.exit_code in _SIGNAL_CODES:
        return None
    if death.exit_code == 155:
        return Ruling(
            cause=Cause.EXIT,
            confidence="low",
            reasons=(
                "the process retired itself (exit 155) and no end of its task was printed: its work may be done",
            ),
        )
    return Ruling(
        cause=Cause.EXIT, confidence="high", reasons=(f"the process ended itself with exit code {death.exit_code}",)
    )


def unit_stop(death: Death, scene: Scene) -> Ruling | None:
    """The unit was being stopped or restarted, or the worker executed itself anew (SIGHUP)."""
    if death.signal in _CRASHES:
        return None
    life = death.life
    stop = scene.stop_at(life, death.at)
    nine = death.signal == 9 and not death.main
    if stop is not None and (not nine or _killed_by_stop(life, stop, death)):
        what = "restarted" if stop.restart else "stopped" if stop.job else "stopped at its RuntimeMaxSec"
        return Ruling(
            cause=Cause.UNIT_STOP,
            confidence="medium" if nine else "high",
            marks=tuple(one for one in (stop.begun, stop.end) if one),
            reasons=(f"the unit was being {what}",),
        )
    if nine:  # a stop sends SIGKILL only after its time-out, or to what outlives the main process, and says so
        return None
    return _own_restart(death) or _stop_without_records(death)


def _killed_by_stop(life: Life, stop: Stop, death: Death) -> bool:
    return bool(about(life, events.ProcessKilled, stop.begun.at, death.at + CLOSE))


def _own_restart(death: Death) -> Ruling | None:
    reexec = [event for event in death.life.said if isinstance(event, events.Reexec) and event.at <= death.at + CLOSE]
    if not reexec:
        return None
    return Ruling(
        cause=Cause.UNIT_STOP,
        confidence="medium",
        marks=(mark(reexec[-1]),),
        reasons=("the worker was restarting itself (SIGHUP)",),
    )


def _stop_without_records(death: Death) -> Ruling | None:
    """Only the worker's own lines were read: a shutdown on request, with no record of the service manager."""
    life = death.life
    if life.about and life.vouched:
        return None
    warm = [
        event
        for event in life.said
        if isinstance(event, events.Shutdown) and event.kind == "warm" and event.at <= death.at + CLOSE
    ]
    if not warm:
        return None
    return Ruling(
        cause=Cause.UNIT_STOP,
        confidence="medium",
        marks=(mark(warm[-1]),),
        reasons=("the worker was shutting down on request; the service manager's records were not read",),
    )


def unknown(death: Death, scene: Scene) -> Ruling:
    """Nobody in the journal owns up to it."""
    life = death.life
    kernel = any(
        event.seen.origin.transport == "kernel" for event in scene.history.told.other if _same_boot(event, life)
    )
    if scene.stop_at(life, death.at) is not None:
        stopped = "the unit was being stopped, but not with the signal that it died of"
    elif life.about or life.vouched:
        stopped = "the unit was not being stopped"
    else:
        stopped = "no record of a service manager was read"
    reasons = [
        "no time limit, revocation, client request, sudo command or crash is recorded for it",
        stopped,
        "no OOM kill is recorded near it" + ("" if kernel else " (no kernel line of interest was read in this boot)"),
    ]
    if death.main and life.end.ending is Ending.VANISHED:
        reasons.insert(0, "the worker started anew, and nothing tells how the one before it ended")
    return Ruling(
        cause=Cause.UNKNOWN, confidence="low", reasons=tuple(reasons), marks=life.end.marks if death.main else ()
    )


CAUSES: tuple[Callable[[Death, Scene], Ruling | None], ...] = (
    host_reboot,
    watchdog,
    oom_kernel,
    oom_systemd,
    hard_time_limit,
    manual_signal,
    cold_shutdown,
    stop_timeout,
    crash,
    exit_,
    unit_stop,
    unknown,
)
"""The rules for causes, in order: the first that speaks decides."""


def ruled_out(cause: Cause) -> tuple[Cause, ...]:
    """Give the causes that were looked for before this one, and not found."""
    order = tuple(Cause)
    return order[: order.index(cause)]


# -- fates ----------------------------------------------------------------

Said = tuple[Fate, str]


def redelivered(death: Death, scene: Scene) -> Said | None:
    """The same id was received again."""
    run = death.run
    if run is None:
        return None
    since = run.received.at if run.received is not None else death.at
    later = [one for one in scene.history.receipts.get(run.task_id, ()) if one.run is not run and one.at > since]
    if not later:
        return None
    ended = later[-1].run.end
    then = f", and ended there ({ended.kind.name.lower()})" if ended is not None else ""
    return Fate.REDELIVERED, f"received again by {later[0].group.unit or 'a worker'}{then}"


def _came_back(death: Death, moment: Micros, scene: Scene) -> bool:
    """Whether a killed run's message had been received again by a moment."""
    receipts = scene.history.receipts.get(death.run.task_id, ()) if death.run is not None else ()
    return any(death.at < receipt.at <= moment for receipt in receipts)


def requeued(death: Death, scene: Scene) -> Said | None:
    """The message was seen going back: bounced, or restored by a worker that had nothing else to restore."""
    run, life = death.run, death.life
    if run is None:
        return None
    bounced = [event.at for event in life.said if isinstance(event, events.RequeueBounced)]
    bounced = [at for at in bounced if at >= death.at - CLOSE]
    if bounced:
        dead = [other for other in scene.history.deaths if other.life is life and other.run is not None]
        away = [other for other in dead if not _came_back(other, bounced[0], scene)]
        waiting = [other for other in away if redelivered(other, scene) is None]
        if len(waiting) == 1 and len(bounced) >= len(away):  # what was received again later may be what had bounced
            return Fate.REQUEUED, "the worker put its message back on the queue while it stopped"
    restored = sum(
        event.count for event in life.said if isinstance(event, events.Restoring) and event.at >= death.at - CLOSE
    )
    left = [other for other in life.runs if other.end is None]
    if death.main and left and restored >= len(left):
        return Fate.REQUEUED, f"the worker put all {restored} unacknowledged messages back on the queue"
    return None


def retried(death: Death, _scene: Scene) -> Said | None:
    """Celery itself sends the task again (task_retry_on_worker_lost, 5.7)."""
    return (Fate.RETRIED, "Celery sent the task again because its process was lost") if death.retried else None


def revoked(death: Death, _scene: Scene) -> Said | None:
    """It was ended on purpose, and its message acknowledged."""
    if isinstance(death.told, events.Terminating):
        return Fate.REVOKED, "revoked with terminate: nobody will run it again"
    return None


def lost(death: Death, scene: Scene) -> Said | None:
    """The main process lived to report the loss, and the id did not come back: the message was acknowledged."""
    run = death.run
    if run is None:
        return None
    if isinstance(death.told, events.TaskLost) and _was_handed_back(death, scene):
        return (
            Fate.UNKNOWN,
            "an earlier loss of it was handed back to the broker (task_reject_on_worker_lost), as this may be",
        )
    if isinstance(death.told, events.TaskLost | events.HardTimeLimit):
        return Fate.LOST, "the worker reported the loss and acknowledged the message; it was not received again"
    settings = scene.settings.get(run.task_name)
    if settings is not None and settings.acks_late is False:
        return Fate.LOST, "its message was acknowledged when it began (acks_late is off), so nobody will run it again"
    return None


def _was_handed_back(death: Death, scene: Scene) -> bool:
    """Whether an earlier loss line about the same id did not acknowledge its message: it was received again."""
    return any(
        other.run is not None
        and death.run is not None
        and other.run.task_id == death.run.task_id
        and other.at < death.at
        and isinstance(other.told, events.TaskLost)
        and redelivered(other, scene) is not None
        for other in scene.history.deaths
    )


def pending(death: Death, scene: Scene) -> Said | None:
    """The message was not acknowledged and will be delivered again."""
    if isinstance(death.told, events.CancelledOnConnectionLoss):
        return Fate.PENDING, "its line says that it is acknowledged late: the broker will deliver it again"
    settings = scene.settings.get(death.run.task_name) if death.run is not None else None
    if settings is not None and settings.acks_late and not isinstance(death.told, events.TaskLost):
        return Fate.PENDING, "its message was not acknowledged (acks_late is on): the broker will deliver it again"
    return None


def fate_unknown(death: Death, _scene: Scene) -> Said:
    """Both ways are open."""
    if death.run is None:
        return Fate.UNKNOWN, "the task could not be named, so its id could not be followed"
    return Fate.UNKNOWN, (
        "with acks_late the broker delivers it again, without it the task is gone; "
        "the journal does not show which holds for this task"
    )


FATES: tuple[Callable[[Death, Scene], Said | None], ...] = (
    redelivered,
    requeued,
    retried,
    revoked,
    lost,
    pending,
    fate_unknown,
)
"""The rules for fates, in order: the first that speaks decides."""


# -- all kills ------------------------------------------------------------


def scene_of(history: History, settings: Mapping[str, TaskSettings] | None = None) -> Scene:
    """Set the scene for judging the deaths of a history."""
    return Scene(history=history, settings=settings or {})


def judge(deaths: Iterable[Death], scene: Scene) -> tuple[Kill, ...]:
    """Give each death its cause and fate, in order of time."""
    ordered = list(deaths)
    times: dict[str, int] = {}
    for death in ordered:
        if death.run is not None:
            times[death.run.task_id] = times.get(death.run.task_id, 0) + 1
    return tuple(
        replace(_kill(death, scene), killed_times=times.get(death.run.task_id, 1) if death.run else 1)
        for death in _pids_first(ordered)
    )


def _pids_first(deaths: Sequence[Death]) -> Sequence[Death]:
    return sorted(deaths, key=lambda death: (death.at, death.place))


def cause_of(death: Death, scene: Scene) -> Ruling:
    """Rule on one death."""
    for rule in CAUSES:
        ruling = rule(death, scene)
        if ruling is not None:
            return ruling
    raise AssertionError("the last rule speaks always")


def _kill(death: Death, scene: Scene) -> Kill:
    ruling = cause_of(death, scene)
    fate, why = next(said for rule in FATES if (said := rule(death, scene)) is not None)
    marks = {(one.at, one.cursor): one for one in (*death.marks, *ruling.marks)}
    if death.run is not None:
        for one in (death.run.received, death.run.accepted, death.run.spoke):
            if one is not None:
                marks[one.at, one.cursor] = one
    witnesses = [one.at for one in ruling.marks if ruling.host_pid is not None and one.at <= death.at]
    return Kill(
        death=death,
        at=min([death.at, *witnesses]),
        ruling=ruling,
        fate=fate,
        fate_reason=why,
        deliveries=max(1, scene.history.deliveries.get(death.run.task_id, 1) if death.run else 1),
        marks=tuple(sorted(marks.values(), key=lambda one: one.at)),
    )
