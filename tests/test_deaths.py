"""Ways to die: what a worker and its surroundings print, and how many runs that killed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import EVERYTHING, TASK, Journal, Memory, Unit, audited
from kill_audit.document import Document
from kill_audit.journal import open_sources

UNEXPECTED = "Traceback (most recent call last):"


def running(*ids: str, **known: Any) -> Unit:
    """A worker of a service that received tasks at noon; the clock stands at 12:00:10."""
    journal = Journal()
    unit = journal.unit(starts=False, **known)
    unit.runs = 1
    unit.systemd.started()
    unit.starts(anew=False)
    if str(known.get("version", "5.7.0")) < "5.1":
        for task_id in ids:
            unit.received_old(task_id)
    else:
        unit.received(*ids)
    journal.at(10)
    return unit


def killed(document: Document) -> set[str | None]:
    """The ids of the killed runs; each kill's own, so that none may come twice."""
    found = [kill.task.id for kill in document.kills]
    assert len(found) == len(set(found))
    return set(found)


def nothing(document: Document) -> bool:
    """Whether no death of any kind is reported."""
    return not (document.kills or document.idle_deaths or document.blind_deaths)


# -- pool processes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("signal", "code"), [(15, None), (9, None), (11, None), (6, None), (None, 70), (None, 3)])
def test_child(signal: int | None, code: int | None) -> None:
    """An exit and the loss after it are one death, with the process's pid and how it ended."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0, signal, code)
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.child_pid, kill.pool_process, kill.signal, kill.exit_code) == (
        "t1",
        101,
        "ForkPoolWorker-1",
        signal,
        code,
    )
    assert kill.at == "2026-11-30T12:00:10.000000Z"


def test_child_without_event_loop() -> None:
    """With brokers without an event loop the loss comes 10 s after the exit: still one death, at the exit."""
    unit = running("t1", concurrency=1)
    unit.exited(1)
    unit.journal.at(20)
    unit.lost(0)
    (kill,) = audited(unit.journal).kills
    assert (kill.child_pid, kill.at) == (101, "2026-11-30T12:00:10.000000Z")


def test_children_without_event_loop() -> None:
    """Without an event loop each loss comes 10 s after its own exit, also when another process died in between."""
    unit = running("t1", "t2")
    unit.exited(1)
    unit.journal.at(13)
    unit.exited(2)
    unit.journal.at(20)
    unit.lost(0)
    unit.journal.at(23)
    unit.lost(1)
    assert {(kill.task.id, kill.child_pid) for kill in audited(unit.journal).kills} == {("t1", 101), ("t2", 102)}


def test_tracebacks_are_no_deaths() -> None:
    """The traceback of a loss repeats its words on several lines: one kill."""
    unit = running("t1", concurrency=1)
    unit.dies(1, 0, 15)
    for line in (
        UNEXPECTED,
        '  File "/opt/billiard/pool.py", line 1367, in mark_as_worker_lost',
        "    raise WorkerLostError(f'Worker exited prematurely: {status}.')",
        "billiard.einfo.ExceptionWithTraceback:",
        '"""',
        UNEXPECTED,
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 15 (SIGTERM) Job: 0.",
        '"""',
    ):
        unit.bare(line)
    assert killed(audited(unit.journal)) == {"t1"}


def test_logging_error_dump() -> None:
    """Celery 5.2 on Python 3.11 cannot format its own loss record: logging's dump of it counts once."""
    unit = running("t1", concurrency=1, version="5.2.7")
    unit.exited(1)
    for line in (
        "--- Logging error ---",
        UNEXPECTED,
        "AttributeError: 'NoneType' object has no attribute 'co_positions'",
        "Message: 'Task handler raised error: %r'",
        "Arguments: (WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 0.'),)",
    ):
        unit.says(line, level="WARNING")
    assert killed(audited(unit.journal)) == {"t1"}


def test_exit_after_the_loss() -> None:
    """When a task raises SystemExit (5.7 with billiard 4.3), the loss comes first and the exit seconds later."""
    unit = running("t1", concurrency=1)
    unit.lost(None, code=3)
    unit.journal.at(13)
    unit.exited(1, code=3)
    document = audited(unit.journal)
    (kill,) = document.kills
    assert (kill.task.id, kill.child_pid, kill.exit_code, document.idle_deaths) == ("t1", 101, 3, ())


def test_exit_0() -> None:
    """A task that ends its process with status 0 leaves a loss and no exit line."""
    unit = running("t1", concurrency=1)
    unit.lost(0, code=0)
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.child_pid, kill.exit_code, kill.signal) == ("t1", None, 0, None)


def test_exit_0_at_shutdown() -> None:
    """A loss with status 0 while the worker stops is no loss: the process ended itself, its result was on the way."""
    unit = running("t1", concurrency=1)
    unit.warm()
    unit.lost(0, code=0)
    document = audited(unit.journal)
    assert (document.kills, [one.why for one in document.not_losses]) == (
        (),
        ["the process ended by itself while the worker stopped; its result was on its way"],
    )


def test_idle_child() -> None:
    """A pool process that dies with no task on it is an idle death."""
    unit = running()
    unit.received("t1")
    unit.succeeded("t1", 1)
    unit.journal.at(20)
    unit.exited(2, 9)
    document = audited(unit.journal)
    assert document.kills == ()
    assert [(one.child_pid, one.signal, one.unit) for one in document.idle_deaths] == [(102, 9, "celery@a.service")]


def test_idle_child_beside_a_busy_one() -> None:
    """Of two processes that die together only the one with a task is a kill; the other's exit is an idle death."""
    unit = running("t1")
    unit.speaks("t1", 1)
    unit.journal.at(20)
    unit.exited(2, 15)
    unit.exited(1, 15)
    unit.lost(0, 15)
    document = audited(unit.journal)
    assert [(kill.task.id, kill.child_pid) for kill in document.kills] == [("t1", 101)]
    assert [one.child_pid for one in document.idle_deaths] == [102]


def test_child_not_up() -> None:
    """A process that the pool kills because it did not come up had no task."""
    unit = running("t1", "t2")
    unit.says("Timed out waiting for UP message from <ForkProcess(ForkPoolWorker-8, started daemon)>", level="ERROR")
    unit.journal.at(12)
    unit.exited(8)
    document = audited(unit.journal)
    assert document.kills == ()
    assert len(document.idle_deaths) == 1


def test_soft_signals() -> None:
    """SIGINT to a pool process is ignored, and SIGUSR1 raises in the task: both are no kills."""
    unit = running("t1", "t2")
    unit.succeeded("t1", 1, 10)
    unit.raised("t2", 2, "SoftTimeLimitExceeded()")
    assert nothing(audited(unit.journal))


def test_recycled() -> None:
    """Processes replaced after so many tasks or so much memory print nothing, or that they retire: no death."""
    unit = running("t1", "t2")
    unit.succeeded("t1", 1, 10)
    unit.says("child process exiting after exceeding memory limit (109108KiB / 60000KiB)", child=1, level="ERROR")
    unit.says("worker exiting after 1 tasks", child=1)
    unit.succeeded("t2", 3, 10)
    assert nothing(audited(unit.journal))


def test_success_before_death() -> None:
    """A process that dies after its task's success, with nothing unfinished, took nothing with it (up to 5.6: T14)."""
    unit = running("t1", concurrency=1)
    unit.succeeded("t1", 1, 10)
    unit.journal.at(12)
    unit.dies(1, 0)
    document = audited(unit.journal)
    assert document.kills == ()
    assert [one.why for one in document.not_losses] == ["the task had finished when its process died"]


def test_success_before_death_told() -> None:
    """In 5.7 the main process says itself that the task had succeeded before its process was lost."""
    unit = running("t1", concurrency=1)
    unit.succeeded("t1", 1, 10)
    unit.exited(1)
    unit.says(
        f"Task {TASK}[t1] succeeded before the worker was lost: "
        "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 0.')",
        level="WARNING",
    )
    document = audited(unit.journal)
    assert nothing(document)
    assert len(document.not_losses) == 1


def test_kill_soon_after_a_success() -> None:
    """A process that finished one task and dies with the next one, whose line is its own, is a kill."""
    unit = Journal().unit()
    unit.received("waits", "t2")
    unit.journal.at(10)
    unit.succeeded("t2", 1, 10)
    unit.received("t3")
    unit.speaks("t3", 1)
    unit.journal.at(12)
    unit.dies(1, 1)
    assert killed(audited(unit.journal)) == {"t3"}


def test_orphans_that_finish() -> None:
    """Up to 5.1 pool processes outlive a killed main process and finish: nothing is lost."""
    unit = running("t1", concurrency=1, version="4.4.7")
    unit.systemd.main_exited("killed", 9)
    unit.journal.at(12)
    unit.succeeded("t1", 1, 12)
    unit.says("Pool process <celery.concurrency.asynpool.Worker object> error: BrokenPipeError(32)", child=1)
    unit.systemd.failed("signal")
    assert nothing(audited(unit.journal))


# -- limits, revocations, retries ------------------------------------------------------------------------------------


def limit(unit: Unit, task_id: str, seconds: int = 9) -> None:
    """Enforce a hard time limit: the nameless half and the line that names the task."""
    unit.says(f"Task handler raised error: TimeLimitExceeded({seconds})", level="ERROR")
    unit.bare(UNEXPECTED)
    unit.bare(f"billiard.exceptions.TimeLimitExceeded: TimeLimitExceeded({seconds},)")
    unit.says(f"Hard time limit ({seconds}s) exceeded for {TASK}[{task_id}]", level="ERROR")


@pytest.mark.parametrize("later_s", [0.3, 5.0])
@pytest.mark.parametrize("signal", [9, 15])
def test_hard_limit(later_s: float, signal: int) -> None:
    """A hard limit's lines and the exit after them, at once or at the pool's next maintenance, are one death."""
    unit = running("t1", "t2")
    limit(unit, "t1")
    unit.journal.at(10 + later_s)
    unit.exited(1, signal)
    document = audited(unit.journal)
    (kill,) = document.kills
    assert (kill.task.id, kill.task.how, kill.cause, kill.child_pid) == ("t1", "line", "hard-time-limit", 101)
    assert document.idle_deaths == ()


def test_hard_limit_and_another_death() -> None:
    """An exit long after a hard limit is another death."""
    unit = running("t1", "t2")
    limit(unit, "t1")
    unit.journal.at(10.3)
    unit.exited(1)
    unit.journal.at(30)
    unit.dies(2, 1)
    assert [(kill.task.id, kill.cause) for kill in audited(unit.journal).kills] == [
        ("t1", "hard-time-limit"),
        ("t2", "unknown"),
    ]


def test_two_hard_limits() -> None:
    """Two limits that fall together are two deaths, each with its own line."""
    unit = running("t1", "t2")
    limit(unit, "t1")
    limit(unit, "t2")
    unit.journal.at(11)
    unit.exited(2)
    unit.exited(1)
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert document.idle_deaths == ()


def test_soft_limit() -> None:
    """A soft limit raises in the task: no kill, whether it is caught or not."""
    unit = running("t1", "t2")
    unit.says(f"Soft time limit (9s) exceeded for {TASK}[t1]", level="WARNING")
    unit.raised("t1", 1, "SoftTimeLimitExceeded()")
    unit.says(f"Soft time limit (9s) exceeded for {TASK}[t2]", level="WARNING")
    unit.succeeded("t2", 2, 10)
    assert nothing(audited(unit.journal))


@pytest.mark.parametrize("form", ["15", "Signals.SIGTERM", "Signals.SIGKILL"])
def test_revoked_with_terminate(form: str) -> None:
    """A running task that is revoked with terminate is killed; its line gives only the id."""
    unit = running("t1", "t2")
    unit.says(f"Terminating t1 ({form})")
    unit.journal.at(30)
    unit.succeeded("t2", 2, 30)
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.task.name, kill.task.how, kill.cause) == ("t1", TASK, "line", "manual-signal")


def test_another_death_after_a_revocation() -> None:
    """A process stopped on purpose leaves no exit line: the next one that dies is another's."""
    unit = running("t1", "t2")
    unit.says("Terminating t1 (9)")
    unit.journal.at(12)
    unit.dies(2, 1)
    assert {(kill.task.id, kill.child_pid) for kill in audited(unit.journal).kills} == {("t1", None), ("t2", 102)}


def test_revoked_twice_told() -> None:
    """Up to 5.0 a second line tells of the same termination."""
    unit = running("t1", "t2", version="4.4.7")
    unit.says("Terminating t1 (Signals.SIGTERM)")
    unit.says("Task handler raised error: Terminated(15)", level="ERROR")
    assert killed(audited(unit.journal)) == {"t1"}


def test_terminate_before_the_start() -> None:
    """A task revoked with terminate before it began is discarded, and nothing is killed."""
    unit = running("t1")
    unit.says("Terminating t2 (15)")
    unit.says("Tasks flagged as revoked: t2")
    unit.received("t2")
    unit.says(f"Discarding revoked task: {TASK}[t2]")
    unit.succeeded("t1", 1, 10)
    assert nothing(audited(unit.journal))


def test_terminate_with_a_soft_signal() -> None:
    """Terminate with SIGUSR1 raises a soft limit in the task; SIGINT is ignored: no kills."""
    unit = running("t1", "t2")
    unit.says("Terminating t1 (Signals.SIGUSR1)")
    unit.raised("t1", 1, "SoftTimeLimitExceeded()")
    unit.says("Terminating t2 (2)")
    unit.succeeded("t2", 2, 10)
    assert nothing(audited(unit.journal))


def test_terminate_that_came_too_late() -> None:
    """A task that ends by itself after the revocation was not killed."""
    unit = running("t1")
    unit.says("Terminating t1 (15)")
    unit.succeeded("t1", 1, 10)
    assert nothing(audited(unit.journal))


def test_retried_by_celery() -> None:
    """With task_retry_on_worker_lost (5.7) the loss's only line names the task, and it is sent again."""
    unit = running("t1", "t2")
    unit.exited(1)
    unit.says(
        f"Task {TASK}[t1] retry: Retry in 180s: "
        "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 0.')"
    )
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.task.how, kill.child_pid, kill.fate) == ("t1", "line", 101, "retried")


def test_named_loss_of_3_1() -> None:
    """Up to 3.1 the loss's line names the task."""
    unit = running(version="3.1.25")
    unit.says(f"Received task: {TASK}[t1]")
    unit.says("Process 'Worker-2' pid:102 exited with 'signal 9 (SIGKILL)'", level="ERROR")
    unit.says(f"Task {TASK}[t1] raised unexpected: WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL).',)")
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.task.how, kill.child_pid) == ("t1", "line", 102)


def test_exceptions() -> None:
    """Exceptions, retries, rejections and ignored tasks are ends, also when they speak of kills."""
    unit = running("t1", "t2", "t3", "t4")
    words = "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 1.')"
    unit.raised("t1", 1, words)
    unit.says(f"Task {TASK}[t2] retry: Retry in 5s: {words}", child=2)
    unit.says(f"Task {TASK}[t3] reject requeue=True: {words}", child=1)
    unit.says(f"Task {TASK}[t4] ignored", child=2)
    assert nothing(audited(unit.journal))


def test_cancelled_on_connection_loss() -> None:
    """A late-acknowledged run that the worker ends itself because its broker is gone, was cut off: a kill."""
    unit = running("t1", "t2")
    unit.says("consumer: Connection to broker lost. Trying to re-establish the connection...", level="WARNING")
    unit.says(
        f"Task {TASK}[t1] cannot be acknowledged after a connection loss since late acknowledgement is enabled "
        "for it.",
        level="WARNING",
    )
    unit.bare("Terminating it instead.")
    unit.journal.at(30)
    unit.succeeded("t2", 2, 30)
    assert [(kill.task.id, kill.task.how) for kill in audited(unit.journal).kills] == [("t1", "line")]


def test_memory_error() -> None:
    """A task that raises MemoryError ends by itself, although the whole worker stops for it (billiard 4.3)."""
    unit = running("t1", concurrency=1)
    unit.raised("t1", 1, "MemoryError('no more')")
    unit.says("Unrecoverable error: MemoryError('Process got: no more')", level="CRITICAL")
    unit.systemd.main_exited("exited", 1)
    unit.systemd.failed("exit-code")
    assert nothing(audited(unit.journal))


# -- stops -----------------------------------------------------------------------------------------------------------


def stop(unit: Unit) -> None:
    """Let systemd stop the unit, and the main process hear of it."""
    unit.systemd.stopping()
    unit.warm()


def stopped(unit: Unit, job_type: str = "restart") -> None:
    """End the stop well."""
    unit.systemd.succeeded()
    unit.systemd.stopped(job_type)
    unit.systemd.started()


def test_drain() -> None:
    """A warm shutdown that waits for its tasks kills nothing; what was prefetched goes back."""
    unit = running("t1", "t2", "t3", "t4")
    stop(unit)
    unit.journal.at(30)
    unit.succeeded("t1", 1, 30)
    unit.raised("t2", 2)
    unit.restores(2)
    stopped(unit)
    document = audited(unit.journal)
    assert nothing(document)
    assert [(one.kills, one.drained, one.requeued) for one in document.deploys] == [(0, 2, 2)]


def test_drain_of_threads() -> None:
    """Pools of threads, and solo, write their ends as the main process."""
    unit = running("t1", "t2", pool="threads")
    stop(unit)
    unit.says(f"Task {TASK}[t1] succeeded in 10s: None")
    unit.says(f"Task {TASK}[t2] succeeded in 10s: None")
    stopped(unit)
    assert nothing(audited(unit.journal))


def test_stop_of_the_whole_cgroup() -> None:
    """KillMode=control-group kills the pool processes with the stop: running tasks are lost, the others go back."""
    unit = running("t1", "t2", "t3")
    stop(unit)
    unit.exited(2, 15)
    unit.lost(1, 15)
    unit.exited(1, 15)
    unit.lost(0, 15)
    unit.restores(1)
    stopped(unit)
    unit.journal.at(20)
    unit.starts(300)
    unit.received("t3")
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {kill.cause for kill in document.kills} == {"unit-stop"}


def test_stop_with_idle_children() -> None:
    """In a stop of the whole cgroup the idle processes die too; they are idle deaths."""
    unit = running("t1", concurrency=3)
    stop(unit)
    for child in (3, 2, 1):
        unit.exited(child, 15)
    unit.lost(0, 15)
    stopped(unit)
    document = audited(unit.journal)
    assert killed(document) == {"t1"}
    assert len(document.idle_deaths) == 2


def test_stop_without_loss_lines() -> None:
    """With brokers without an event loop no loss is printed during a stop: the exits alone tell of the kills."""
    unit = running("t1", "t2", "t3")
    stop(unit)
    unit.exited(2, 15)
    unit.exited(1, 15)
    unit.journal.at(20)
    unit.restores(1)
    stopped(unit)
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert document.idle_deaths == ()


def test_stop_that_crashes() -> None:
    """With billiard 3.5 a warm shutdown crashes and takes the running tasks with it."""
    unit = running("t1", "t2", "t3", version="4.1.1")
    stop(unit)
    unit.says("""Error on stopping Pool: TypeError("can't pickle _thread.lock objects",)""", level="ERROR")
    unit.restores(1)
    stopped(unit)
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {kill.cause for kill in document.kills} == {"unit-stop"}


def test_stop_timeout() -> None:
    """After TimeoutStopSec systemd kills everything, and the worker prints nothing more."""
    unit = running("t1", "t2", "t3")
    stop(unit)
    unit.journal.at(100)
    unit.systemd.timed_out()
    unit.systemd.killing(unit.main)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("timeout")
    unit.systemd.stopped()
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {(kill.cause, kill.signal) for kill in document.kills} == {("stop-timeout", 9)}
    assert {kill.at for kill in document.kills} == {"2026-11-30T12:01:40.000000Z"}


def test_second_sigterm() -> None:
    """Up to 5.2 a second SIGTERM kills what runs without a word; from 5.3 on it changes nothing."""
    old = running("t1", "t2", version="5.2.7")
    stop(old)
    old.journal.at(15)
    old.warm()
    stopped(old)
    assert killed(audited(old.journal)) == {"t1", "t2"}
    new = running("t1", "t2", version="5.3.6")
    stop(new)
    new.journal.at(15)
    new.warm()
    new.journal.at(25)
    new.succeeded("t1", 1, 25)
    new.succeeded("t2", 2, 25)
    stopped(new)
    assert nothing(audited(new.journal))


def test_second_sigterm_told_at_exit() -> None:
    """Up to 5.0.1 both shutdowns and the banner leave a buffer in one write, as the worker exits: no word is lost."""
    unit = Journal().unit(version="4.4.7", starts=False)
    unit.runs = 1
    unit.ready()
    unit.received_old("t1")
    unit.received_old("t2")
    unit.journal.at(30)
    warm = unit.warm()
    unit.journal.entries[-1:] = [replace(warm, cursor=f"s=1;i={n};t=661814;x=9b53e5ca787a8930") for n in (775, 776)]
    unit.restores(1)
    unit.bare(f" -------------- {unit.node} v4.4.7 (cliffs)")
    unit.bare("- *** --- * --- .> concurrency: 2 (prefork)")
    unit.systemd.succeeded()
    assert killed(audited(unit.journal)) == {"t1", "t2"}
    copy = [replace(entry, cursor=entry.cursor.replace("s=1;", "s=2;")) for entry in unit.journal.entries]
    assert killed(audited(unit.journal, Memory(name="copy", entries=copy))) == {"t1", "t2"}


@pytest.mark.parametrize("version", ["4.4.7", "5.2.7", "5.3.6", "5.5.3", "5.7.0"])
def test_cold_shutdown(version: str) -> None:
    """A cold shutdown is silent about the tasks that it kills: they are what was unfinished and had begun."""
    unit = running("t1", "t2", "t3", version=version)
    if version >= "5.5":
        unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.cold()
    unit.systemd.succeeded()
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {kill.cause for kill in document.kills} == {"cold-shutdown"}


def test_cold_shutdown_that_reports() -> None:
    """In 5.3 and 5.4 with billiard 4.2.3 a cold shutdown reports its losses, with WorkerTerminate in the traceback."""
    unit = running("t1", concurrency=1, version="5.4.0")
    unit.cold()
    unit.dies(1, 0, 15)
    unit.bare("celery.exceptions.WorkerTerminate: 1")
    unit.systemd.succeeded()
    document = audited(unit.journal)
    assert [(kill.task.id, kill.cause, kill.child_pid) for kill in document.kills] == [("t1", "cold-shutdown", 101)]


def test_soft_shutdown_in_time() -> None:
    """A soft shutdown lets tasks finish that need no longer than its time-out."""
    unit = running("t1", concurrency=1)
    unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.says("Initiating Soft Shutdown, terminating in 5.0 seconds", level="WARNING")
    unit.journal.at(13)
    unit.succeeded("t1", 1, 13)
    unit.journal.at(15)
    unit.cold()
    unit.systemd.succeeded()
    assert nothing(audited(unit.journal))


def test_soft_shutdown_too_late() -> None:
    """After its time-out a soft shutdown is a cold one: what still runs dies then."""
    unit = running("t1", "t2")
    unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.says("Initiating Soft Shutdown, terminating in 5.0 seconds", level="WARNING")
    unit.journal.at(13)
    unit.succeeded("t1", 1, 13)
    unit.journal.at(15)
    unit.cold()
    unit.systemd.succeeded()
    (kill,) = audited(unit.journal).kills
    assert (kill.task.id, kill.cause, kill.at) == ("t2", "cold-shutdown", "2026-11-30T12:00:15.000000Z")


@pytest.mark.parametrize("version", ["5.2.7", "5.7.0"])
def test_one_interrupt(version: str) -> None:
    """A first SIGINT is a warm shutdown, whatever it says of the next one."""
    unit = running("t1", "t2", "t3", version=version)
    unit.systemd.stopping()
    if version >= "5.5":
        unit.bare("worker: Hitting Ctrl+C again will initiate cold shutdown, terminating all running tasks!")
    else:
        unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.warm()
    unit.journal.at(20)
    unit.succeeded("t1", 1, 20)
    unit.succeeded("t2", 2, 20)
    unit.restores(1)
    stopped(unit)
    assert nothing(audited(unit.journal))


def test_two_interrupts() -> None:
    """A second SIGINT is a cold shutdown."""
    unit = running("t1", "t2")
    unit.bare("worker: Hitting Ctrl+C again will initiate cold shutdown, terminating all running tasks!")
    unit.warm()
    unit.journal.at(15)
    unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.systemd.main_exited("exited", 1)
    unit.systemd.failed("exit-code")
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {kill.cause for kill in document.kills} == {"cold-shutdown"}


def test_remote_shutdown() -> None:
    """A shutdown by remote control drains without the warm shutdown's line."""
    unit = running("t1", "t2")
    unit.says("Got shutdown from remote", level="WARNING")
    unit.journal.at(20)
    unit.succeeded("t1", 1, 20)
    unit.succeeded("t2", 2, 20)
    unit.systemd.succeeded()
    assert nothing(audited(unit.journal))


def test_reload() -> None:
    """SIGHUP lets the tasks finish and executes the worker anew under the same pid."""
    unit = running("t1", "t2")
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    unit.journal.at(20)
    unit.succeeded("t1", 1, 20)
    unit.succeeded("t2", 2, 20)
    unit.starts(anew=False)
    unit.received("t3")
    assert nothing(audited(unit.journal))


# -- main processes --------------------------------------------------------------------------------------------------


def test_main_killed() -> None:
    """A killed main process takes at most *concurrency* unfinished tasks with it, the oldest first."""
    unit = running("t1", "t2", "t3", "t4")
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {(kill.signal, kill.child_pid, kill.task.how) for kill in document.kills} == {(9, None, "elimination")}


def test_main_killed_of_unknown_concurrency() -> None:
    """Without the banner any unfinished task of a killed main process may still have waited: the names say so."""
    journal = Journal()
    unit = journal.unit(starts=False)
    unit.systemd.started()
    unit.ready()
    unit.received("t1", "t2", "t3")
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    kills = audited(unit.journal).kills
    assert {kill.task.id for kill in kills} == {"t1", "t2", "t3"}
    assert {kill.task.confidence for kill in kills} == {"low"}


def test_main_killed_with_lines() -> None:
    """Tasks with a line of their own had begun, before those without; their process's pid is known."""
    unit = running("t1", "t2", "t3")
    unit.speaks("t3", 2)
    unit.speaks("t2", 1)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    document = audited(unit.journal)
    assert {(kill.task.id, kill.child_pid, kill.task.how) for kill in document.kills} == {
        ("t2", 101, "process"),
        ("t3", 102, "process"),
    }


@pytest.mark.parametrize("pool", ["solo", "threads", "gevent"])
def test_main_killed_in_other_pools(pool: str) -> None:
    """Also in pools without processes at most *concurrency* tasks had begun; solo runs one."""
    concurrency = 1 if pool == "solo" else 2
    unit = running("t1", "t2", "t3", pool=pool, concurrency=concurrency)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    assert killed(audited(unit.journal)) == {"t1", "t2"} if concurrency == 2 else {"t1"}


def test_main_killed_while_tasks_wait() -> None:
    """Tasks whose lines show an ETA to come had not begun."""
    unit = running(version="4.4.7")
    unit.received_old("waits", eta=3000)
    unit.received_old("t2")
    unit.journal.at(20)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    assert killed(audited(unit.journal)) == {"t2"}


def test_main_killed_while_idle() -> None:
    """A main process without unfinished tasks takes none with it."""
    unit = running("t1")
    unit.succeeded("t1", 1, 10)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    assert nothing(audited(unit.journal))


def test_main_killed_at_warning() -> None:
    """A main process killed at log level WARNING is a blind death: at most *concurrency* runs, none of them named."""
    journal = Journal()
    unit = journal.unit(starts=False)
    unit.runs = 1
    unit.systemd.started()
    unit.bare(f" -------------- {unit.node} v5.7.0 (collider)")
    unit.bare("- *** --- * --- .> concurrency: 2 (prefork)")
    journal.at(10)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    document = audited(journal)
    assert document.kills == ()
    assert [(one.main_pid, one.signal, one.max_tasks) for one in document.blind_deaths] == [(100, 9, 2)]


def test_main_vanishes() -> None:
    """A worker that starts anew without a word of an end lost what it was running."""
    unit = running("t1", "t2")
    unit.journal.at(60)
    unit.starts(300)
    document = audited(unit.journal)
    assert killed(document) == {"t1", "t2"}
    assert {kill.signal for kill in document.kills} == {None}


def test_still_running() -> None:
    """Tasks of a worker that still runs when the journal ends are not dead."""
    unit = running("t1", "t2", "t3")
    assert nothing(audited(unit.journal))


def test_worker_that_gives_up() -> None:
    """A worker that stops by itself (5.7 when its broker is gone) waits for its tasks."""
    unit = running("t1", "t2")
    unit.says("""Unrecoverable error: AttributeError("'NoneType' object has no attribute 'hostname'")""")
    unit.journal.at(20)
    unit.succeeded("t1", 1, 20)
    unit.succeeded("t2", 2, 20)
    unit.systemd.main_exited("exited", 1)
    unit.systemd.failed("exit-code")
    assert nothing(audited(unit.journal))


def test_boot_over() -> None:
    """A boot that ends without a word and is followed by another took every running task."""
    first, second = Journal(boot=1), Journal(boot=2)
    unit = first.unit()
    unit.received("t1", "t2", "t3")
    first.at(40)
    first.chatter()
    second.at(300).chatter()
    document = audited(first, second)
    assert killed(document) == {"t1", "t2"}
    assert {(kill.cause, kill.at) for kill in document.kills} == {("host-reboot", "2026-11-30T12:00:40.000000Z")}


def test_nothing_across_boots() -> None:
    """The same pids and units in another boot are other processes."""
    first, second = Journal(boot=1), Journal(boot=2)
    unit = first.unit()
    unit.received("t1")
    unit.succeeded("t1", 1)
    first.at(20)
    first.journal_stops()
    second.at(300)
    later = second.unit()
    later.received("t2")
    second.at(310)
    later.dies(1, 0)
    assert killed(audited(first, second)) == {"t2"}


SUPERVISED = """\
2026-11-20 11:59:50,123 INFO spawned: 'celery' with pid 100
[2026-11-20 11:59:51,500: INFO/MainProcess] celery@w1 ready.
[2026-11-20 12:00:01,000: INFO/MainProcess] Task shop.tasks.a[t1] received
2026-11-20 12:00:05,123 INFO waiting for celery to stop
2026-11-20 12:00:15,123 WARN killing 'celery' (100) with SIGKILL
2026-11-20 12:00:16,123 INFO stopped: celery (terminated by SIGKILL)
2026-11-20 12:00:16,923 INFO stopped: nginx (exit status 0)
2026-11-20 12:00:17,123 INFO spawned: 'celery' with pid 200
[2026-11-20 12:00:18,500: INFO/MainProcess] celery@w1 ready.
[2026-11-20 12:00:21,000: INFO/MainProcess] Task shop.tasks.b[t2] received
2026-11-20 12:00:25,123 INFO waiting for celery to stop
2026-11-20 12:00:26,123 INFO stopped: celery (terminated by SIGTERM)
2026-11-20 12:00:27,123 INFO spawned: 'celery' with pid 300
[2026-11-20 12:00:28,500: INFO/MainProcess] celery@w1 ready.
[2026-11-20 12:00:31,000: INFO/MainProcess] Task shop.tasks.c[t3] received
2026-11-20 12:00:36,123 INFO exited: celery (terminated by SIGSEGV (core dumped); not expected)
2026-11-20 12:00:37,123 INFO spawned: 'celery' with pid 400
[2026-11-20 12:00:38,500: INFO/MainProcess] celery@w1 ready.
"""


def test_supervisord_in_text(tmp_path: Path) -> None:
    """Supervisord's records stand for a unit's: its stop timeout, its stop, and a crash, each with what it cut off."""
    file = tmp_path / "container.log"
    file.write_text(SUPERVISED)
    question = replace(EVERYTHING, since=0, read_since=0, assume_timezone="UTC")
    document = audited(*open_sources(files=[str(file)]), question=question)
    assert [(kill.task.id, kill.cause) for kill in document.kills] == [
        ("t1", "stop-timeout"),
        ("t2", "unit-stop"),
        ("t3", "crash"),
    ]


def test_a_silent_program_of_supervisord(tmp_path: Path) -> None:
    """A worker that supervisord says was killed, and of which no line was read, is a blind death; nginx is none."""
    file = tmp_path / "supervisord.log"
    file.write_text(
        "2026-11-20 12:00:36,123 INFO exited: celery-main (terminated by SIGKILL; not expected)\n"
        "2026-11-20 12:00:37,123 INFO exited: nginx (terminated by SIGKILL; not expected)\n"
    )
    question = replace(EVERYTHING, since=0, read_since=0, assume_timezone="UTC")
    document = audited(*open_sources(files=[str(file)]), question=question)
    assert [(death.unit, death.signal, death.cause) for death in document.blind_deaths] == [
        ("celery-main", 9, "unknown")
    ]


def test_a_program_of_supervisord() -> None:
    """Where a worker runs under supervisord in a unit, its new start shows that what it was running is lost."""
    journal = Journal()
    unit = journal.unit("supervisor.service")
    unit.received("t1", "t2", "t3")
    journal.at(10)
    unit.bare("2026-11-30 12:00:10,000 WARN exited: celery (terminated by SIGKILL; not expected)", pid=50)
    unit.bare("2026-11-30 12:00:11,000 INFO spawned: 'celery' with pid 200", pid=50)
    journal.at(12)
    unit.starts(200, anew=False)
    document = audited(journal)
    assert killed(document) == {"t1", "t2"}
