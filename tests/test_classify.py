"""Causes and fates: each rule with its witness and a near miss, and the order in which the rules are tried."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from builders import EARLYOOM, MANAGER, OOMD, TASK, Journal, Unit, audited
from kill_audit import texts
from kill_audit.classify import CAUSES, FATES, Cause, Fate, TaskSettings
from kill_audit.document import Document, Kill

CGROUP = "/system.slice/celery@a.service"
Write = Callable[[Unit], object]


def running(*ids: str, **known: object) -> Unit:
    """A worker of a service that received tasks at noon; the clock stands at 12:00:10."""
    journal = Journal()
    unit = journal.unit(starts=False, **known)  # type: ignore[arg-type]
    unit.runs = 1
    unit.systemd.started()
    unit.starts(anew=False)
    unit.received(*ids)
    journal.at(10)
    return unit


def only(document: Document) -> Kill:
    """The only kill."""
    (kill,) = document.kills
    return kill


def child_dies(signal: int | None = 9, code: int | None = None) -> Write:
    """The pool process dies with its task."""
    return lambda unit: unit.dies(1, 0, signal, code)


def main_dies(status: int = 9, result: str = "signal", code: str = "killed") -> Write:
    """The main process dies."""

    def write(unit: Unit) -> None:
        unit.systemd.main_exited(code, status)
        unit.systemd.failed(result)

    return write


def stopping(job_type: str = "restart") -> Write:
    """The unit is stopped while the process dies of SIGTERM."""

    def write(unit: Unit) -> None:
        unit.systemd.stopping()
        unit.warm()
        unit.dies(1, 0, 15)
        unit.systemd.succeeded()
        unit.systemd.stopped(job_type)

    return write


def steps(*writes: Write, apart: float = 0.2) -> Write:
    """One after another, so many seconds apart."""

    def write(unit: Unit) -> None:
        second = 10.0
        for one in writes:
            unit.journal.at(max(second, (unit.journal.now - unit.journal.entries[0].realtime) / 1e6))
            one(unit)
            second += apart

    return write


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How one task dies, and the cause that must be found."""

    write: Write
    cause: Cause
    confidence: str | None = None


def sudo(command: str) -> Write:
    """A command through sudo."""
    return lambda unit: unit.journal.sudo(command)


def kernel(text: str) -> Write:
    """A kernel line."""
    return lambda unit: unit.journal.kernel(text)


def stop_that_times_out(unit: Unit) -> None:
    """KillMode=mixed: the main process drains, and TimeoutStopSec runs out."""
    unit.systemd.stopping()
    unit.warm()
    unit.journal.at(20)
    unit.systemd.timed_out()
    unit.systemd.killing(unit.main)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("timeout")
    unit.systemd.stopped()


def stop_command_that_times_out(unit: Unit) -> None:
    """ExecStop outlasts TimeoutStopSec: the cgroup gets SIGTERM only then."""
    unit.systemd.stopping()
    unit.journal.at(20)
    unit.systemd.says(f"{unit.name}: Stopping timed out. Terminating.", CODE_FUNC="service_dispatch_timer")
    unit.warm()
    unit.dies(1, 0, 15)
    unit.systemd.failed("timeout")
    unit.systemd.stopped()


def early_in_a_stop_that_times_out(unit: Unit) -> None:
    """KillMode=control-group: the process dies at once, and the stop times out later for another reason."""
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, 0, 15)
    unit.journal.at(20)
    unit.systemd.timed_out()
    unit.systemd.killing(unit.main)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("timeout")
    unit.systemd.stopped()


def watchdog(unit: Unit) -> None:
    """WatchdogSec runs out."""
    unit.systemd.watchdog()
    unit.systemd.killing(unit.main, "SIGABRT")
    unit.systemd.main_exited("killed", 6)
    unit.systemd.failed("watchdog")


def cold(unit: Unit) -> None:
    """A cold shutdown."""
    unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.cold()
    unit.systemd.succeeded()


def cold_in_a_stop(unit: Unit) -> None:
    """A stop with KillSignal=SIGQUIT."""
    unit.systemd.stopping()
    cold(unit)
    unit.systemd.stopped("restart")


def powered_off(unit: Unit) -> None:
    """The machine goes down, and its units are stopped."""
    unit.journal.goes_down()
    stopping("stop")(unit)


def limit(unit: Unit) -> None:
    """A hard time limit."""
    unit.says("Task handler raised error: TimeLimitExceeded(9)", level="ERROR")
    unit.says(f"Hard time limit (9s) exceeded for {TASK}[t1]", level="ERROR")
    unit.exited(1)


def revoked(unit: Unit) -> None:
    """A revocation with terminate."""
    unit.says("Terminating t1 (15)")


def asked_for(pid: int, signal: str = "SIGKILL", *, main: bool = False) -> Write:
    """A signal on a client's request."""
    return lambda unit: unit.systemd.sent(pid, signal, main=main)


def runtime_over(unit: Unit) -> None:
    """RuntimeMaxSec stops the unit without a job."""
    unit.systemd.runtime_over()
    unit.warm()
    unit.dies(1, 0, 15)
    unit.systemd.failed("timeout")


def reexec(unit: Unit) -> None:
    """SIGHUP to all processes: the worker restarts itself while its pool processes exit with 70."""
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    unit.dies(1, 0, code=70)
    unit.journal.at(15)
    unit.starts(anew=False)


def crash_of_the_stop(unit: Unit) -> None:
    """A process that segfaults during a stop."""
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, 0, 11)
    unit.systemd.succeeded()
    unit.systemd.stopped()


def killed_in_a_drain(unit: Unit) -> None:
    """A child dies of SIGKILL while the main process drains, long before any time-out."""
    unit.systemd.stopping()
    unit.warm()
    unit.journal.at(15)
    unit.dies(1, 0, 9)
    unit.systemd.succeeded()
    unit.systemd.stopped()


WITNESSED = {
    # watchdog
    "the watchdog": Scene(write=watchdog, cause=Cause.WATCHDOG, confidence="high"),
    "an abort without the watchdog": Scene(write=main_dies(6), cause=Cause.CRASH),
    # the kernel's OOM killer
    "an OOM kill by cgroup": Scene(
        write=steps(lambda unit: unit.journal.oom(101, CGROUP), child_dies()),
        cause=Cause.OOM_KERNEL,
        confidence="high",
    ),
    "an OOM kill by pid alone": Scene(
        write=steps(lambda unit: unit.journal.oom(101), child_dies()), cause=Cause.OOM_KERNEL, confidence="high"
    ),
    "an OOM kill with the host's pid": Scene(
        write=steps(lambda unit: unit.journal.oom(70_101, CGROUP), child_dies()), cause=Cause.OOM_KERNEL
    ),
    "an OOM kill that systemd alone saw": Scene(
        write=steps(lambda unit: unit.systemd.out_of_memory(), child_dies()),
        cause=Cause.OOM_KERNEL,
        confidence="medium",
    ),
    "an OOM kill of the main process": Scene(
        write=steps(lambda unit: unit.journal.oom(100, CGROUP), main_dies(9, "oom-kill")), cause=Cause.OOM_KERNEL
    ),
    "an OOM kill in another unit": Scene(
        write=steps(lambda unit: unit.journal.oom(999, "/system.slice/mysql.service", "mysqld"), child_dies()),
        cause=Cause.UNKNOWN,
    ),
    "an OOM kill of another process without a cgroup": Scene(
        write=steps(lambda unit: unit.journal.oom(999, comm="mysqld"), child_dies()), cause=Cause.UNKNOWN
    ),
    "an OOM kill a minute before": Scene(
        write=steps(lambda unit: unit.journal.oom(101, CGROUP), child_dies(), apart=60), cause=Cause.UNKNOWN
    ),
    "an OOM kill and another signal": Scene(
        write=steps(lambda unit: unit.journal.oom(101, CGROUP), child_dies(11)), cause=Cause.CRASH
    ),
    "signal 9 alone": Scene(write=child_dies(), cause=Cause.UNKNOWN, confidence="low"),
    # oomd, earlyoom
    "oomd by its record": Scene(
        write=steps(lambda unit: unit.systemd.oomd_killed(), child_dies()), cause=Cause.OOM_SYSTEMD, confidence="high"
    ),
    "oomd by its own line": Scene(
        write=steps(
            lambda unit: unit.journal.write(
                f"Killed {CGROUP} due to memory pressure for /system.slice being 74.32% > 60.00% for > 20s",
                OOMD,
                pid=600,
            ),
            child_dies(),
        ),
        cause=Cause.OOM_SYSTEMD,
    ),
    "oomd about another unit": Scene(
        write=steps(
            lambda unit: unit.journal.write(
                "Killed /system.slice/mysql.service due to memory pressure for /system.slice being 74.32%",
                OOMD,
                pid=600,
            ),
            child_dies(),
        ),
        cause=Cause.UNKNOWN,
    ),
    "earlyoom": Scene(
        write=steps(
            lambda unit: unit.journal.write(
                'sending SIGTERM to process 101 uid 33 "celery": badness 801', EARLYOOM, pid=9
            ),
            child_dies(15),
        ),
        cause=Cause.OOM_SYSTEMD,
    ),
    "earlyoom about another process": Scene(
        write=steps(
            lambda unit: unit.journal.write(
                'sending SIGKILL to process 7101 uid 33 "chrome": badness 801', EARLYOOM, pid=9
            ),
            child_dies(),
        ),
        cause=Cause.UNKNOWN,
    ),
    # limits and revocations
    "a hard time limit": Scene(write=limit, cause=Cause.HARD_TIME_LIMIT, confidence="high"),
    "a revocation with terminate": Scene(write=revoked, cause=Cause.MANUAL_SIGNAL, confidence="high"),
    # people
    "systemctl kill of the child": Scene(
        write=steps(asked_for(101), child_dies()), cause=Cause.MANUAL_SIGNAL, confidence="high"
    ),
    "systemctl kill of the main process": Scene(
        write=steps(asked_for(100, main=True), main_dies()), cause=Cause.MANUAL_SIGNAL
    ),
    "systemctl kill of the whole cgroup": Scene(
        write=steps(
            lambda unit: unit.systemd.says(f"{unit.name}: Killed unit cgroup with SIGKILL on client request."),
            main_dies(),
        ),
        cause=Cause.MANUAL_SIGNAL,
    ),
    "systemctl kill -s HUP, which children turn into exit 70": Scene(
        write=steps(asked_for(101, "SIGHUP"), child_dies(None, 70)), cause=Cause.MANUAL_SIGNAL
    ),
    "systemctl kill with another signal": Scene(
        write=steps(asked_for(101, "SIGUSR1"), child_dies()), cause=Cause.UNKNOWN
    ),
    "systemctl kill long before": Scene(write=steps(asked_for(101), child_dies(), apart=60), cause=Cause.UNKNOWN),
    "sudo kill by pid": Scene(
        write=steps(sudo("/usr/bin/kill -9 101"), child_dies()), cause=Cause.MANUAL_SIGNAL, confidence="high"
    ),
    "sudo kill of another pid": Scene(write=steps(sudo("/usr/bin/kill -9 4101"), child_dies()), cause=Cause.UNKNOWN),
    "sudo pkill by name": Scene(
        write=steps(sudo("/usr/bin/pkill -9 -f celery"), child_dies()), cause=Cause.MANUAL_SIGNAL
    ),
    "sudo systemctl kill": Scene(
        write=steps(sudo("/usr/bin/systemctl kill -s KILL celery@a.service"), main_dies()), cause=Cause.MANUAL_SIGNAL
    ),
    "sudo without a kill": Scene(write=steps(sudo("/usr/bin/skillet celery@a"), child_dies()), cause=Cause.UNKNOWN),
    "sudo systemctl restart": Scene(
        write=steps(sudo("/usr/bin/systemctl restart celery@a"), stopping()), cause=Cause.UNIT_STOP
    ),
    # shutdowns of the worker
    "a cold shutdown": Scene(write=cold, cause=Cause.COLD_SHUTDOWN, confidence="high"),
    "a cold shutdown inside a stop": Scene(write=cold_in_a_stop, cause=Cause.COLD_SHUTDOWN),
    # stops
    "a stop that runs out of time": Scene(write=stop_that_times_out, cause=Cause.STOP_TIMEOUT, confidence="high"),
    "a stop command that runs out of time": Scene(write=stop_command_that_times_out, cause=Cause.STOP_TIMEOUT),
    "a death before the stop runs out of time": Scene(write=early_in_a_stop_that_times_out, cause=Cause.UNIT_STOP),
    "a restart": Scene(write=stopping("restart"), cause=Cause.UNIT_STOP, confidence="high"),
    "a stop": Scene(write=stopping("stop"), cause=Cause.UNIT_STOP, confidence="high"),
    "RuntimeMaxSec": Scene(write=runtime_over, cause=Cause.UNIT_STOP),
    "the worker's own restart": Scene(write=reexec, cause=Cause.UNIT_STOP),
    "a lone SIGTERM": Scene(write=child_dies(15), cause=Cause.UNKNOWN),
    "SIGKILL during a drain": Scene(write=killed_in_a_drain, cause=Cause.UNKNOWN),
    # crashes
    **{
        f"a crash by signal {signal}": Scene(write=child_dies(signal), cause=Cause.CRASH, confidence="high")
        for signal in (4, 5, 6, 7, 8, 11)
    },
    "a crash of the main process": Scene(write=main_dies(11), cause=Cause.CRASH),
    "a dumped core": Scene(write=main_dies(11, "core-dump", "dumped"), cause=Cause.CRASH),
    "a crash during a stop": Scene(write=crash_of_the_stop, cause=Cause.CRASH),
    # exits
    "an exit": Scene(write=child_dies(None, 3), cause=Cause.EXIT, confidence="high"),
    "an exit with 0": Scene(write=lambda unit: unit.lost(0, code=0), cause=Cause.EXIT),
    "an exit with 155": Scene(write=lambda unit: unit.lost(0, code=155), cause=Cause.EXIT, confidence="low"),
    "exit 70, a signal's trace": Scene(write=child_dies(None, 70), cause=Cause.UNKNOWN),
    "exit 15, a signal's trace": Scene(write=child_dies(None, 15), cause=Cause.UNKNOWN),
    # the machine
    "a power-off": Scene(write=powered_off, cause=Cause.HOST_REBOOT, confidence="high"),
}


@pytest.mark.parametrize("scene", WITNESSED.values(), ids=WITNESSED.keys())
def test_cause(scene: Scene) -> None:
    """A cause is named with its witness, and with a near miss of it another is, or none."""
    unit = running("t1", concurrency=1)
    scene.write(unit)
    kill = only(audited(unit.journal))
    assert kill.cause == scene.cause
    if scene.confidence is not None:
        assert kill.confidence == scene.confidence


@pytest.mark.parametrize("scene", WITNESSED.values(), ids=WITNESSED.keys())
def test_reasons_and_evidence(scene: Scene) -> None:
    """Every kill has reasons, and entries that prove it: at least its receipt and what tells of its death."""
    unit = running("t1", concurrency=1)
    scene.write(unit)
    kill = only(audited(unit.journal))
    cursors = {entry.cursor for entry in unit.journal.entries}
    assert kill.reasons
    assert len(kill.evidence) >= 2
    assert {one.cursor for one in kill.evidence} <= cursors
    assert [one.at for one in kill.evidence] == sorted(one.at for one in kill.evidence)


@pytest.mark.parametrize("command", ["systemctl kill nginx.service", "pkill -9 nginx", "killall -9 postgres"])
def test_sudo_kill_of_others(command: str) -> None:
    """A kill through sudo that names another unit or program killed no worker."""
    unit = running("t1", concurrency=1)
    steps(sudo(f"/usr/bin/{command}"), child_dies())(unit)
    assert only(audited(unit.journal)).cause == "unknown"


def test_stop_of_a_user_s_unit() -> None:
    """A user's unit may bear the name of the system's: the stop by its own manager is what its tasks died of."""
    system = running("t1")
    system.dies(1, 0)
    system.journal.at(60)
    slices = "/user.slice/user-1000.slice/user@1000.service"
    user = system.journal.unit(main=500, starts=False, cgroup=f"{slices}/app.slice/{system.name}")
    user.runs = 2
    user.starts()
    user.received("t2")
    manager = replace(MANAGER, uid=1000, unit="user@1000.service", cgroup=f"{slices}/init.scope")
    about = {"USER_UNIT": user.name, "USER_INVOCATION_ID": user.invocation, "JOB_ID": "9", "JOB_TYPE": "restart"}
    user.journal.write("Stopping...", manager, pid=400, MESSAGE_ID="de5b426a63be47a7b6ac3eaac82e2f6f", **about)
    user.dies(1, 0, 15)
    user.journal.write("Stopped.", manager, pid=400, MESSAGE_ID="9d1aaa27d60140bd96365438aad20286", **about)
    assert [(kill.task.id, kill.cause) for kill in audited(user.journal).kills] == [
        ("t1", "unknown"),
        ("t2", "unit-stop"),
    ]


def test_power_loss() -> None:
    """A boot that ends under a task is the machine's end, at the last entry of that boot."""
    first, second = Journal(boot=1), Journal(boot=2)
    unit = first.unit(concurrency=1)
    unit.received("t1")
    first.at(40)
    last = first.chatter()
    second.at(300).chatter()
    kill = only(audited(first, second))
    assert (kill.cause, kill.at) == ("host-reboot", "2026-11-30T12:00:40.000000Z")
    assert last.cursor


def test_witness_of_another_boot() -> None:
    """What the kernel killed in another boot is no witness, whatever its pid."""
    first, second = Journal(boot=1), Journal(boot=2)
    first.oom(101, CGROUP)
    first.journal_stops()
    second.at(3)
    unit = second.unit(concurrency=1)
    unit.received("t1")
    second.at(5)
    unit.dies(1, 0)
    assert only(audited(first, second)).cause == "unknown"


def test_witness_on_another_host() -> None:
    """What the kernel killed on another host is no witness, whatever its pid and unit."""
    here, there = Journal("web1"), Journal("web2")
    unit = here.unit(concurrency=1)
    unit.received("t1")
    here.at(10)
    there.at(9.9).oom(101, CGROUP)
    there.sudo("/usr/bin/kill -9 101")
    unit.dies(1, 0)
    assert only(audited(here, there)).cause == "unknown"


def test_bystanders_of_an_oom_kill() -> None:
    """OOMPolicy=stop: the victim is the culprit, the others keep their signal and share its cause."""
    unit = running("t1", "t2")
    unit.journal.oom(101, CGROUP)
    unit.systemd.out_of_memory()
    unit.dies(1, 0)
    unit.warm()
    unit.dies(2, 1, 15)
    unit.systemd.failed("oom-kill")
    document = audited(unit.journal)
    assert [(kill.task.id, kill.signal, kill.cause) for kill in document.kills] == [
        ("t1", 9, "oom-kernel"),
        ("t2", 15, "oom-kernel"),
    ]
    (incident,) = document.incidents
    assert (incident.kills, incident.culprit) == (2, document.kills[0].id)


def test_host_pid() -> None:
    """The kernel's number of a container's process stands beside the worker's own."""
    unit = running("t1", concurrency=1)
    unit.journal.oom(70_101, CGROUP)
    unit.dies(1, 0)
    kill = only(audited(unit.journal))
    assert (kill.child_pid, kill.host_pid) == (101, 70_101)


def test_one_oom_kill_for_one_death() -> None:
    """One line of the OOM killer explains one death: the other process died otherwise."""
    unit = running("t1", "t2")
    unit.speaks("t1", 1)
    unit.speaks("t2", 2)
    unit.journal.at(20)
    unit.journal.oom(70_102, CGROUP)
    unit.dies(2, 1)
    unit.journal.at(22)
    unit.dies(1, 0)
    assert {kill.task.id: kill.cause for kill in audited(unit.journal).kills} == {"t2": "oom-kernel", "t1": "unknown"}


def test_core_dump_is_evidence() -> None:
    """A core dump's record is a crash's second witness."""
    unit = running("t1", concurrency=1)
    core = unit.journal.coredump(101, unit.name, 11)
    unit.dies(1, 0, 11)
    assert core.cursor in {one.cursor for one in only(audited(unit.journal)).evidence}


def test_segfault_is_evidence() -> None:
    """The kernel's line of a fault is a crash's second witness, with the host's pid."""
    unit = running("t1", concurrency=1)
    fault = unit.journal.kernel(
        "celery[70101]: segfault at 0 ip 00007f510da86219 sp 00007ffd3b3f9798 error 4 in libc.so.6"
    )
    unit.dies(1, 0, 11)
    kill = only(audited(unit.journal))
    assert (fault.cursor in {one.cursor for one in kill.evidence}, kill.host_pid) == (True, 70_101)


def test_unknown_says_what_was_looked_for() -> None:
    """Of a death that nobody owns up to, the reasons name what was looked for in vain."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0)
    reasons = " ".join(only(audited(unit.journal)).reasons)
    assert all(word in reasons for word in ("time limit", "sudo", "stopped", "OOM"))


def test_order_of_causes() -> None:
    """The causes are tried in the order in which they are documented."""
    names = [rule.__name__.strip("_").replace("_", "-") for rule in CAUSES]
    assert names == [cause.value for cause in Cause] == list(texts.load().causes)


def test_order_of_fates() -> None:
    """The fates are tried in the order in which they are documented."""
    names = [rule.__name__.removeprefix("fate_") for rule in FATES]
    assert names == [fate.value for fate in Fate] == list(texts.load().fates)


FIRST = {
    "watchdog before stop-timeout": (
        steps(lambda unit: unit.systemd.watchdog(), stop_that_times_out),
        Cause.WATCHDOG,
    ),
    "oom-kernel before hard-time-limit": (
        steps(lambda unit: unit.journal.oom(101, CGROUP), limit),
        Cause.OOM_KERNEL,
    ),
    "hard-time-limit before manual-signal": (steps(sudo("/usr/bin/kill -9 101"), limit), Cause.HARD_TIME_LIMIT),
    "manual-signal before unknown": (steps(sudo("/usr/bin/kill -9 101"), child_dies()), Cause.MANUAL_SIGNAL),
    "cold-shutdown before unit-stop": (cold_in_a_stop, Cause.COLD_SHUTDOWN),
    "host-reboot before cold-shutdown": (
        steps(lambda unit: unit.journal.goes_down(), cold_in_a_stop),
        Cause.HOST_REBOOT,
    ),
    "crash before unit-stop": (crash_of_the_stop, Cause.CRASH),
}


@pytest.mark.parametrize(("write", "cause"), FIRST.values(), ids=FIRST.keys())
def test_first_match_wins(write: Write, cause: Cause) -> None:
    """Where two causes have witnesses, the one earlier in the order is named."""
    unit = running("t1", concurrency=1)
    write(unit)
    assert only(audited(unit.journal)).cause == cause


# -- fates -----------------------------------------------------------------------------------------------------------


def fate_of(unit: Unit, settings: TaskSettings | None = None) -> str:
    """What became of the only killed run."""
    return only(audited(unit.journal, settings=None if settings is None else {TASK: settings})).fate


def test_redelivered() -> None:
    """The id is received again: by the same worker, or by one of another host."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0)
    unit.journal.at(60)
    unit.received("t1")
    assert fate_of(unit) == "redelivered"
    here, there = Journal("web1"), Journal("web2")
    worker, other = here.unit(concurrency=1), there.unit()
    worker.received("t1")
    here.at(10)
    worker.dies(1, 0)
    there.at(600)
    other.received("t1")
    other.succeeded("t1", 1)
    kill = only(audited(here, there))
    assert (kill.fate, kill.deliveries) == ("redelivered", 2)


def test_received_before() -> None:
    """An earlier delivery of the same id is no redelivery of this one."""
    unit = running("t1", concurrency=1)
    unit.retries("t1", 1, 1)
    unit.journal.at(12)
    unit.received("t1")
    unit.journal.at(20)
    unit.dies(1, 1)
    assert fate_of(unit) == "lost"


def test_requeued() -> None:
    """The stopping worker puts every unacknowledged message back, the killed run's among them."""
    unit = running("t1", concurrency=1)
    unit.cold()
    unit.restores(1)
    unit.systemd.succeeded()
    assert fate_of(unit) == "requeued"


def test_requeued_and_bounced() -> None:
    """A requeued message that came back to the stopping worker was put back: kombu says so from 5.3 on."""
    unit = running("t1", concurrency=1)
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, 0, 15)
    unit.says("Requeuing undeliverable message for queue 'celery': No consumers.", level="WARNING")
    unit.systemd.succeeded()
    unit.systemd.stopped()
    assert fate_of(unit) == "requeued"


def test_another_bounced() -> None:
    """One message bounced, and one of two killed runs was received again: that one's, so the other's is gone."""
    unit = running("t1", "t2")
    unit.systemd.stopping()
    unit.warm()
    unit.exited(1, 15)
    unit.exited(2, 15)
    unit.lost(0, 15)
    unit.lost(1, 15)
    unit.says("Requeuing undeliverable message for queue 'celery': No consumers.", level="WARNING")
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    unit.starts(500)
    unit.received("t2")
    fates = {kill.task.id: kill.fate for kill in audited(unit.journal).kills}
    assert fates == {"t1": "lost", "t2": "redelivered"}


def test_restored_others() -> None:
    """A worker that puts back fewer messages than it leaves unfinished does not show whose they are."""
    unit = running("t1", "t2", "t3", concurrency=1)
    unit.cold()
    unit.restores(2)
    unit.systemd.succeeded()
    assert fate_of(unit) == "unknown"


def test_retried() -> None:
    """Celery sends the task again itself (task_retry_on_worker_lost, 5.7)."""
    unit = running("t1", concurrency=1)
    unit.exited(1)
    unit.says(
        f"Task {TASK}[t1] retry: Retry in 180s: "
        "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 0.')"
    )
    assert fate_of(unit) == "retried"


def test_revoked() -> None:
    """A run revoked with terminate is acknowledged: nobody runs it again."""
    unit = running("t1", concurrency=1)
    revoked(unit)
    assert fate_of(unit) == "revoked"


def test_lost() -> None:
    """A loss reported by a living main process, and the id not received again: its message was acknowledged."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0)
    assert fate_of(unit) == "lost"


def test_lost_with_the_main_process() -> None:
    """With a dead main process the ack settings decide, where they are known: early means lost, late means pending."""
    unit = running("t1", concurrency=1)
    main_dies()(unit)
    fates = {late: fate_of(unit, TaskSettings(acks_late=late)) for late in (False, True)}
    assert fates == {False: "lost", True: "pending"}


def test_fate_unknown() -> None:
    """With a dead main process and unknown settings both ways are open, and the reasons say so."""
    unit = running("t1", concurrency=1)
    main_dies()(unit)
    kill = only(audited(unit.journal))
    assert kill.fate == "unknown"
    assert any("acks_late" in reason for reason in kill.reasons)


def test_fate_of_nobody() -> None:
    """A run that cannot be named cannot be followed."""
    unit = running("t1", "t2", version="4.1.1")
    unit.dies(1, None)
    assert only(audited(unit.journal)).fate == "unknown"


def test_lost_whatever_the_settings() -> None:
    """Requeued at once, it would have been received again: a loss with no later receipt is lost in every setting."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0)
    assert fate_of(unit, TaskSettings(acks_late=True, reject_on_worker_lost=True)) == "lost"


def test_killed_times() -> None:
    """A task that is killed again and again says on each kill how often it was."""
    unit = running("t1", concurrency=1)
    for job in range(3):
        unit.dies(job + 1, job)
        unit.journal.at(20 + 10 * job)
        unit.received("t1")
        unit.journal.at(25 + 10 * job)
    unit.succeeded("t1", 9, 1)
    document = audited(unit.journal)
    assert [(kill.killed_times, kill.deliveries, kill.fate) for kill in document.kills] == [(3, 4, "redelivered")] * 3


def test_settings_of_another_task() -> None:
    """Settings are a task's own."""
    unit = running("t1", concurrency=1)
    main_dies()(unit)
    kill = only(audited(unit.journal, settings={"shop.tasks.other": TaskSettings(acks_late=True)}))
    assert kill.fate == "unknown"


def test_renumbered() -> None:
    """A death with another id is judged alike."""
    first = running("t1", concurrency=1)
    first.dies(1, 0)
    second = running("zz", concurrency=1)
    second.dies(1, 0)
    one, other = only(audited(first.journal)), only(audited(second.journal))
    assert (one.cause, one.fate, one.task.how, one.child_pid) == (
        other.cause,
        other.fate,
        other.task.how,
        other.child_pid,
    )
