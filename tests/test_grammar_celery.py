"""Log lines of Celery, billiard and kombu, 3.1 to 5.7: each kind is recognised as what it is, or left alone.

A row is a kind of line, by the place that writes it: T the tasks' lives, P the pool, S shutdown and restart, B the
broker, U start-up and the cluster.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import Journal, Said, audited, recognised
from kill_audit import events
from kill_audit.events import Event, Line

ID = "7c2323fb-d456-4b6c-a2e1-e5e8dd676627"
MAIN = "MainProcess"
CHILD = "ForkPoolWorker-3"
STAMP = "[2026-11-30 13:00:12,249: "


@dataclass(frozen=True, slots=True, kw_only=True)
class What:
    """What a line must be recognised as: an event of a kind, with some of its values."""

    kind: type[Event]
    values: Mapping[str, Any] = field(default_factory=dict)


def task(kind: Line, number: float = 0.0, process: str = CHILD, name: str = "kapp.ok", task_id: str = ID) -> Said:
    """A task line."""
    return Said(kind=kind, task_id=task_id, task_name=name, process=process, number=number)


def event(kind: type[Event], /, **values: Any) -> What:
    """An event."""
    return What(kind=kind, values=values)


HEARD = Said(kind=Line.HEARD, task_id="", task_name="", process=CHILD)
NOTHING = None


def main(text: str, level: str = "INFO") -> str:
    """A record of the main process."""
    return f"{STAMP}{level}/{MAIN}] {text}"


def child(text: str, level: str = "INFO") -> str:
    """A record of a pool process."""
    return f"{STAMP}{level}/{CHILD}] {text}"


SIGKILL = "Worker exited prematurely: signal 9 (SIGKILL)"

ROWS: dict[str, tuple[tuple[str, Said | What], ...]] = {
    "T1": (
        (main(f"Received task: kapp.ok[{ID}]"), task(Line.RECEIVED, process=MAIN)),
        (main(f"Received task: kapp.ok[{ID}]  "), task(Line.RECEIVED, process=MAIN)),
        (
            main(f"Received task: kapp.ok[{ID}]  ETA:[2026-11-30 12:20:52.240674+00:00]"),
            task(Line.WAITING, 1796041252.240674, process=MAIN),
        ),
        (
            main(f"Received task: kapp.ok[{ID}]   expires:[2026-11-30 12:38:37.906639+00:00]"),
            task(Line.RECEIVED, process=MAIN),
        ),
        (
            main(
                f"Received task: kapp.ok[{ID}]  ETA:[2026-11-30 12:20:52+00:00]  expires:[2026-11-30 13:00:00+00:00]"
            ),
            task(Line.WAITING, 1796041252, process=MAIN),
        ),
    ),
    "T2": (
        (main(f"Task kapp.ok[{ID}] received"), task(Line.RECEIVED, process=MAIN)),
        (
            '{"level": "INFO", "logger": "celery.worker.strategy", "msg": "Task kapp.ok[' + ID + '] received", '
            '"proc": "MainProcess", "data": {"id": "' + ID + '", "name": "kapp.ok", "eta": null}}',
            task(Line.RECEIVED, process=MAIN),
        ),
        (
            '{"level": "INFO", "msg": "Task kapp.ok[' + ID + '] received", "proc": "MainProcess", '
            '"data": {"id": "' + ID + '", "name": "kapp.ok", "eta": "2026-11-30T12:20:52+00:00"}}',
            task(Line.WAITING, 1796041252, process=MAIN),
        ),
    ),
    "T3": ((main(f"Task accepted: kapp.ok[{ID}] pid:16225", "DEBUG"), task(Line.ACCEPTED, 16225, process=MAIN)),),
    "T5": (
        (
            child(f"Task kapp.ok[{ID}] succeeded in 0.020076239999980316s: 1"),
            task(Line.SUCCEEDED, 0.020076239999980316),
        ),
        (child(f"Task kapp.ok[{ID}] succeeded in 1.2e-05s: None"), task(Line.SUCCEEDED, 1.2e-05)),
        (child(f"Task kapp.ok[{ID}] succeeded in 61.5s: 'it succeeded in 3s: no'"), task(Line.SUCCEEDED, 61.5)),
        (child(f"Task kapp.ok[{ID}] succeeded in 3s: "), task(Line.SUCCEEDED, 3)),
        (
            main(f"Task kapp.ok[{ID}] succeeded in 3s: None"),  # threads, solo, gevent
            task(Line.SUCCEEDED, 3, process=MAIN),
        ),
    ),
    "T6": (
        (child(f"Task kapp.ok[{ID}] raised unexpected: ValueError('boom\\nsecond line')", "ERROR"), task(Line.RAISED)),
        (child(f"Task kapp.ok[{ID}] raised unexpected: SoftTimeLimitExceeded()", "ERROR"), task(Line.RAISED)),
        (child(f"Task kapp.ok[{ID}] raised unexpected: WorkerLostError('{SIGKILL} Job: 3.')"), task(Line.RAISED)),
    ),
    "T7": ((child(f"Task kapp.ok[{ID}] raised expected: KeyError('fine')"), task(Line.RAISED)),),
    "T8": ((child(f"Task kapp.ok[{ID}] INTERNAL ERROR: KeyError('trace')", "CRITICAL"), task(Line.RAISED)),),
    "T9": (
        (child(f"Task kapp.ok[{ID}] retry: Retry in 1s: ValueError('again')"), task(Line.RETRIED, 1)),
        (child(f"Task kapp.ok[{ID}] retry: Retry in 3s"), task(Line.RETRIED, 3)),
        (child(f"Task kapp.ok[{ID}] retry: come again"), task(Line.RETRIED)),
    ),
    "T10": ((child(f"Task kapp.ok[{ID}] ignored"), task(Line.IGNORED)),),
    "T11": ((child(f"Task kapp.ok[{ID}] reject requeue=False: no thanks", "WARNING"), task(Line.REJECTED)),),
    "T13": (
        (main(f"Discarding revoked task: kapp.ok[{ID}]"), task(Line.DISCARDED, process=MAIN)),
        (
            main(f"Discarding revoked task: kapp.ok[{ID}] (revoked by header: {{'tenant': ['7']}})"),
            task(Line.DISCARDED, process=MAIN),
        ),
    ),
    "T14": (
        (
            main(f"Task handler raised error: WorkerLostError('{SIGKILL} Job: 1.')", "ERROR"),
            event(events.TaskLost, signal=9, exit_code=None, job=1, task_id=None, outcome="failed"),
        ),
        (
            main(f"Task handler raised error: WorkerLostError('{SIGKILL}.',)", "ERROR"),  # Python 3.6
            event(events.TaskLost, signal=9, exit_code=None, job=None),
        ),
        (
            main(
                'Task handler raised error: WorkerLostError("Worker exited prematurely: signal 9 (SIGKILL) Job: 1.")'
            ),
            event(events.TaskLost, signal=9, job=1),
        ),
        (
            "Arguments: (WorkerLostError('Worker exited prematurely: signal 11 (SIGSEGV) Job: 1.'),)",
            event(events.TaskLost, signal=11, job=1),
        ),
        (
            main("Task handler raised error: TimeLimitExceeded(2)"),
            event(events.HardTimeLimit, limit_s=2, task_id=None),
        ),
        (
            main("Task handler raised error: TimeLimitExceeded(2,)"),
            event(events.HardTimeLimit, limit_s=2, task_id=None),
        ),
        (main("Task handler raised error: TimeLimitExceeded(2.5)"), event(events.HardTimeLimit, limit_s=2.5)),
        (main("Task handler raised error: Terminated(15)", "ERROR"), event(events.Terminated, task_id=None)),
        (main("Task handler raised error: Terminated(15,)", "ERROR"), event(events.Terminated, task_id=None)),
    ),
    "T15": (
        (
            main(f"Task kapp.ok[{ID}] succeeded before the worker was lost: WorkerLostError('{SIGKILL} Job: 0.')"),
            event(events.TaskLost, outcome="succeeded", signal=9, job=0, task_id=ID, task_name="kapp.ok"),
        ),
    ),
    "T16": (
        (
            main(f"Task kapp.ok[{ID}] retry: Retry in 180s: WorkerLostError('{SIGKILL} Job: 0.')"),
            event(events.TaskLost, outcome="retried", signal=9, job=0, task_id=ID, task_name="kapp.ok"),
        ),
    ),
    "T18": ((main(f"Soft time limit (120s) exceeded for kapp.ok[{ID}]", "WARNING"), task(Line.SPOKE, process=MAIN)),),
    "T19": (
        (
            main(f"Hard time limit (2s) exceeded for kapp.ok[{ID}]", "ERROR"),
            event(events.HardTimeLimit, limit_s=2, task_id=ID, task_name="kapp.ok"),
        ),
        (
            main(f"Hard time limit (0.5s) exceeded for kapp.ok[{ID}]", "ERROR"),
            event(events.HardTimeLimit, limit_s=0.5, task_id=ID),
        ),
    ),
    "T26": (
        (child(f"kapp.ok[{ID}]: inside task 1"), task(Line.SPOKE)),
        (child("???[???]: outside of any task"), HEARD),
    ),
    "T27": ((child("printed by task", "WARNING"), HEARD), (f"{STAMP}WARNING/{CHILD}]", HEARD)),
    "P1": (
        (
            main("Process 'ForkPoolWorker-2' pid:17 exited with 'signal 9 (SIGKILL)'", "ERROR"),
            event(events.ChildExited, child="ForkPoolWorker-2", child_pid=17, signal=9, exit_code=None),
        ),
        (
            main("Process 'ForkPoolWorker-1' pid:16874 exited with 'exitcode 70'", "ERROR"),
            event(events.ChildExited, child_pid=16874, signal=None, exit_code=70),
        ),
        (
            "Process 'ForkPoolWorker-1' pid:32473 exited with 'signal 9 (SIGKILL)'",  # an app that owns logging
            event(events.ChildExited, child="ForkPoolWorker-1", child_pid=32473, signal=9, process=""),
        ),
        (
            main("Process 'Worker-5' pid:1712 exited with exitcode -9", "ERROR"),  # billiard before 3.3
            event(events.ChildExited, child="Worker-5", child_pid=1712, signal=9, exit_code=None),
        ),
        (
            main("Process 'SpawnPoolWorker-4' pid:9 exited with 'signal 2 (SIG_SETMASK)'", "ERROR"),
            event(events.ChildExited, child="SpawnPoolWorker-4", signal=2),
        ),
        (
            main("Process 'PoolWorker-4' pid:9 exited with 'signal 35'", "ERROR"),
            event(events.ChildExited, child="PoolWorker-4", signal=35),
        ),
    ),
    "P2": ((main(f"Task handler raised error: WorkerLostError('{SIGKILL}.',)"), event(events.TaskLost, job=None)),),
    "P3": (
        (
            main("Task handler raised error: WorkerLostError('Worker exited prematurely: exitcode 70 Job: 8204.')"),
            event(events.TaskLost, signal=None, exit_code=70, job=8204),
        ),
        (
            main("Task handler raised error: WorkerLostError('Worker exited prematurely: signal 34 Job: 0.')"),
            event(events.TaskLost, signal=34, job=0),
        ),
    ),
    "P4": (
        (
            main("Task handler raised error: WorkerLostError('Worker exited prematurely: exitcode 3.')", "ERROR"),
            event(events.TaskLost, signal=None, exit_code=3, job=None),
        ),
        (
            main(
                "Task handler raised error: WorkerLostError('Worker exited prematurely: KeyboardInterrupt.')", "ERROR"
            ),
            event(events.TaskLost, signal=None, exit_code=None, job=None),
        ),
    ),
    "P6": (
        (
            main("Unrecoverable error: WorkerLostError('Could not start worker processes')", "CRITICAL"),
            event(events.WorkerCrash),
        ),
    ),
    "P7": (
        (
            main("Timed out waiting for UP message from <ForkProcess(ForkPoolWorker-8, started daemon)>", "ERROR"),
            event(events.ChildNotUp, child="ForkPoolWorker-8"),
        ),
    ),
    "P13": (
        (
            child("child process exiting after exceeding memory limit (109108KiB / 60000KiB)", "ERROR"),
            event(events.Recycled),
        ),
    ),
    "P20": (
        (
            main("""Error on stopping Pool: TypeError("can't pickle _thread.lock objects",)""", "ERROR"),
            event(events.ShutdownCrash),
        ),
        (
            main("""Error on stopping Pool: TypeError("cannot pickle '_thread.lock' object")""", "ERROR"),
            event(events.ShutdownCrash),
        ),
    ),
    "S1": (("worker: Warm shutdown (MainProcess)", event(events.Shutdown, kind="warm")),),
    "S2": (("worker: Cold shutdown (MainProcess)", event(events.Shutdown, kind="cold")),),
    "S3": (("worker: Hitting Ctrl+C again will terminate all running tasks!", event(events.Shutdown, kind="again")),),
    "S6": (
        (
            main("Initiating Soft Shutdown, terminating in 3.0 seconds", "WARNING"),
            event(events.Shutdown, kind="soft"),
        ),
    ),
    "S7": (
        (
            "Restarting celery worker (/opt/app/bin/celery -A kapp worker -l INFO -c 1 -P prefork)",
            event(events.Reexec),
        ),
    ),
    "S8": ((main("Got shutdown from remote", "WARNING"), event(events.Shutdown, kind="remote")),),
    "S9": ((main("Unrecoverable error: MemoryError('Process got: no more')", "CRITICAL"), event(events.WorkerCrash)),),
    "S10": (
        (main("Restoring 1 unacknowledged message(s)"), event(events.Restoring, count=1)),
        (main("Restoring 12 unacknowledged message(s)", "WARNING"), event(events.Restoring, count=12)),
        ("Restoring 2 unacknowledged message(s)", event(events.Restoring, count=2)),
    ),
    "S12": (
        (
            main("Requeuing undeliverable message for queue 'celery': No consumers.", "WARNING"),
            event(events.RequeueBounced),
        ),
    ),
    "B1": (
        (
            main("consumer: Connection to broker lost. Trying to re-establish the connection...", "WARNING"),
            event(events.ConnectionLost),
        ),
    ),
    "B2": (
        (
            main(
                "consumer: Connection to broker lost. Trying to re-establish the connection... "
                "(network:ConnectionError)"
            ),
            event(events.ConnectionLost),
        ),
    ),
    "B6": (
        (
            main(
                f"Task kapp.ok[{ID}] cannot be acknowledged after a connection loss since late acknowledgement is "
                "enabled for it."
            ),
            event(events.CancelledOnConnectionLoss, task_id=ID, task_name="kapp.ok"),
        ),
    ),
    "B14": (
        (
            main(
                "Unrecoverable error: PreconditionFailed(406, 'PRECONDITION_FAILED - delivery acknowledgement on "
                "channel 1 timed out.', (0, 0), '')",
                "CRITICAL",
            ),
            event(events.WorkerCrash),
        ),
    ),
    "B15": (
        (
            main(
                """Unrecoverable error: AttributeError("'NoneType' object has no attribute 'hostname'")""", "CRITICAL"
            ),
            event(events.WorkerCrash),
        ),
    ),
    "U1": (
        (" -------------- celery@vm v5.7.0 (collider)", event(events.WorkerBanner, node="celery@vm", version="5.7.0")),
        (
            "-------------- w1@scan1 v4.2.1 (windowlicker)",
            event(events.WorkerBanner, node="w1@scan1", version="4.2.1"),
        ),
        ("- *** --- * --- .> concurrency: 2 (prefork)", event(events.WorkerPool, concurrency=2, pool="prefork")),
        (
            "- *** --- * --- .> concurrency: {min=1, max=4} (prefork)",
            event(events.WorkerPool, concurrency=4, pool="prefork"),
        ),
        ("- *** --- * --- .> concurrency: 1 (solo)", event(events.WorkerPool, concurrency=1, pool="solo")),
    ),
    "U2": ((main("celery@vm ready."), event(events.WorkerReady, node="celery@vm")),),
    "U7": (
        (main(f"Terminating {ID} (15)"), event(events.Terminating, task_id=ID, signal=15)),
        (main(f"Terminating {ID} (Signals.SIGTERM)"), event(events.Terminating, task_id=ID, signal=15)),
        (main(f"Terminating {ID} (Signals.SIGKILL)"), event(events.Terminating, task_id=ID, signal=9)),
    ),
}
"""The rows that are read, with lines and what they must be recognised as."""

DEDUPLICATED = "Task kapp.ok[{}] Task already completed successfully."
BAD_ETA = (
    "Couldn't convert ETA 'soon' to timestamp: ValueError('soon'). Task: "
    "{{'id': '{}', 'name': 'kapp.ok', 'args': '()'}}"
)

NOT_READ: dict[str, tuple[str, tuple[str, ...]]] = {
    "T4": (
        "its arguments name the task, but only what a pool process accepts has begun (T3 follows at the same level)",
        (main(f"TaskPool: Apply <function fast_trace_task at 0x7f> (args:('kapp.ok', '{ID}') kwargs:{{}})", "DEBUG"),),
    ),
    "T17": (
        "the failed retry falls through to the ordinary report of the loss, T14, which is read",
        (main(f"Failed to retry task kapp.ok[{ID}] after worker was lost: OperationalError('no broker')", "ERROR"),),
    ),
    "T21": (
        "the message is dropped before it is received: no run begins",
        (main("Received unregistered task of type 'kapp.nope'.", "ERROR"),),
    ),
    "T22": (
        "the message is dropped before it is received: no run begins",
        (
            main("Received invalid task message: 'no body'", "ERROR"),
            main("Received and deleted unknown message.  Wrong destination?!?", "WARNING"),
            main("Can't decode message body: ContentDisallowed() [type:'x' encoding:'y' headers:{}]", "CRITICAL"),
        ),
    ),
    "T23": (
        "a warning about a run whose end is logged besides",
        ("/opt/celery/app/trace.py:680: RuntimeWarning: Exception raised outside body: KeyError('x'):",),
    ),
    "P5": (
        "in pools of threads and greenlets, which have no processes; none of the versions run wrote it",
        (main("Task handler raised error: WorkerLostError('SystemExit(3)')", "ERROR"),),
    ),
    "P8": ("tells nothing of a task", (main("process with pid=17 already exited", "WARNING"),)),
    "P9": (
        "the job is put back and runs on another process: no run is lost",
        (main("Process inqueue damaged: <Worker 1> 7: OSError()", "ERROR"),),
    ),
    "P10": (
        "about pipes, not about a task",
        (
            main("Encountered OSError when accessing fd 17 ", "WARNING"),
            main("<Worker 3> did not finish writing a result within 2s, dropping it", "WARNING"),
        ),
    ),
    "P12": (
        "the task had ended; what becomes of its message is not said",
        (main("Pool callback raised exception: MemoryError('Process got: no more')", "ERROR"),),
    ),
    "P17": (
        "the main process ends itself; its exit is read instead",
        (main("Thread 'ResultHandler' crashed: EOFError()", "ERROR"),),
    ),
    "P18": (
        "processes retired by the autoscaler had nothing to do, and their exits are not printed",
        (main("Scaling down 2 processes."), main("Autoscaler: scale_down: ValueError()", "ERROR")),
    ),
    "P19": (
        "clean-up after the last task",
        (main("Timer thread in prefork on_stop() did not terminate cleanly", "WARNING"),),
    ),
    "S5": (
        "a second request during a cold shutdown, which began with S3 and is judged from there",
        ("Waiting gracefully for cold shutdown to complete...",),
    ),
    "S11": (
        "messages were written to a file instead of the queue; it does not say whose",
        (main("UNABLE TO RESTORE 2 MESSAGES: OSError()"), main("EMERGENCY DUMP STATE TO FILE -> /tmp/x <-")),
    ),
    "S13": (
        "what the life before left behind shows in that life's own lines and in the service manager's",
        ("Stale pidfile exists - Removing it.", "ERROR: Pidfile (/run/celery.pid) already exists."),
    ),
    "S14": ("steps of a shutdown that S1, S2 or S8 begins", (main("| Worker: Stopping Pool...", "DEBUG"),)),
    "B3": (
        "B1 told of the loss already",
        (main("consumer: Cannot connect to redis://:**@localhost:6379/0: Error 111.", "ERROR"),),
    ),
    "B4": (
        "the main process stops; S9 or its exit tells of that",
        (main("Too many open files. Aborting...", "CRITICAL"),),
    ),
    "B5": ("follows B1", (main("Frequent restarts detected: KeyError()", "CRITICAL"),)),
    "B7": (
        "a warning about a setting, after B1",
        ("In Celery 5.1 we introduced an optional breaking change which",),
    ),
    "B8": (
        "a count without names; what runs is followed by its own lines",
        (
            main(
                "Temporarily reducing the prefetch count to 4 to avoid over-fetching since 2 tasks are currently "
                "being processed."
            ),
        ),
    ),
    "B9": ("tells nothing of a task", (main("Connected to redis://:**@localhost:26399/0"),)),
    "B10": (
        "names a delivery tag, which nothing ties to a task",
        (main("Couldn't ack 17, reason:RecoverableConnectionError(None, 'connection already closed')", "CRITICAL"),),
    ),
    "B11": ("about the transport", (main("Cannot process event on channel 'x': KeyError()", "WARNING"),)),
    "B12": ("about the result backend", (main("Connection to Redis lost: Retry (1/20) in 1.00 second.", "ERROR"),)),
    "B13": (
        "about the result backend",
        (main("Failed operation _store_result.  Retrying 2 more times.", "WARNING"),),
    ),
    "B16": ("about the event loop", (main("Timer error: KeyError()", "ERROR"),)),
    "U3": ("tells nothing of a task", (main("mingle: searching for neighbors"), main("mingle: all alone"))),
    "U4": (
        "another node's silence; its own journal tells what happened",
        (main("missed heartbeat from celery@other"),),
    ),
    "U5": (
        "clocks of events, not of the journal",
        (main("Substantial drift from celery@b may mean clocks are out of sync.  Current drift is 17 seconds."),),
    ),
    "U6": ("a revocation ends nothing by itself; T13 or U7 follows", (main(f"Tasks flagged as revoked: {ID}"),)),
    "U8": (
        "about the result backend",
        (main(f"Failed to mark task {ID} as revoked in backend: KeyError()", "WARNING"),),
    ),
    "U9": ("tells nothing of a task", (main("No such control command: nope", "ERROR"),)),
    "U10": (
        "beat sends tasks and runs none",
        (f"{STAMP}INFO/Beat] beat: Starting...", main("beat: Shutting down...")),
    ),
    "U11": ("beat sends tasks and runs none", (main("beat raised exception KeyError: KeyError('x')", "CRITICAL"),)),
    "U12": (
        "a warning at the start",
        ("SecurityWarning: You're running the worker with superuser privileges: this is",),
    ),
}
"""The rows that are left alone, why, and lines that nothing must be made of."""

HEARD_ONLY: dict[str, tuple[str, ...]] = {
    "T24": (child("Process cleanup failed: KeyError('x')", "ERROR"),),
    "T25": (child(f"Task kapp.ok[{ID}] on_success handler raised: KeyError('x')", "ERROR"),),
    "P11": (
        child("Pool process <celery.concurrency.asynpool.Worker object at 0x7f> error: BrokenPipeError(32)", "ERROR"),
    ),
    "P14": (child("worker unable to determine memory usage", "ERROR"),),
    "P15": (child("could not ensure all messages were consumed prior to exiting", "WARNING"),),
    "P16": (child("!!!WAIT FOR ACK TIMEOUT: job:3 fd:7!!!", "ERROR"),),
}
"""Lines of a pool process that end no task: they only show that it was alive."""

OWN_TESTS = {"T12", "T20", "S4"}
"""Rows with a test of their own below."""


def rows(**counts: int) -> list[str]:
    """All rows, by how many there are of each letter."""
    return [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]


def test_every_row() -> None:
    """Every kind of line is either read, or left alone for a reason that is given."""
    known = [*ROWS, *NOT_READ, *HEARD_ONLY, *OWN_TESTS]
    assert sorted(known) == sorted(rows(T=27, P=20, S=14, B=16, U=12))
    assert all(reason for reason, _ in NOT_READ.values())


def matches(said: Said | Event, what: Said | What) -> bool:
    """Whether a thing said is what it should be."""
    if isinstance(what, Said):
        return said == what
    return type(said) is what.kind and {name: getattr(said, name) for name in what.values} == what.values


@pytest.mark.parametrize(
    ("line", "what"),
    [
        pytest.param(line, what, id=f"{row}-{place}")
        for row, lines in ROWS.items()
        for place, (line, what) in enumerate(lines)
    ],
)
def test_read(line: str, what: Said | What) -> None:
    """A line is recognised as what it is, and as nothing besides."""
    unit = Journal().unit(starts=False)
    spoken = recognised(unit.bare(line))
    assert len(spoken) == 1
    assert matches(spoken[0], what), spoken[0]


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, id=f"{row}-{i}") for row, (_, lines) in NOT_READ.items() for i, line in enumerate(lines)],
)
def test_not_read(line: str) -> None:
    """Nothing is made of a line that is left alone."""
    unit = Journal().unit(starts=False)
    assert recognised(unit.bare(line)) == ()


@pytest.mark.parametrize("line", [pytest.param(line, id=row) for row, lines in HEARD_ONLY.items() for line in lines])
def test_heard_only(line: str) -> None:
    """A pool process's line that ends no task shows that the process was alive, and no more."""
    unit = Journal().unit(starts=False)
    assert recognised(unit.bare(line)) == (HEARD,)


def test_deduplicated() -> None:
    """A deduplicated delivery (T12) ends its run, and is no success: the task was not run again."""
    unit = Journal().unit(starts=False)
    (said,) = recognised(unit.bare(child(DEDUPLICATED.format(ID))))
    assert isinstance(said, Said)
    assert said.task_id == ID
    assert said.kind in {Line.IGNORED, Line.DISCARDED, Line.REJECTED}


def test_retry_for_a_quoted_loss() -> None:
    """A task may retry itself with the very words of a kill (T9): it is a retry, due after its countdown."""
    unit = Journal().unit(starts=False)
    spoken = recognised(
        unit.bare(child(f"Task kapp.ok[{ID}] retry: Retry in 180s: WorkerLostError('{SIGKILL} Job: 0.')"))
    )
    assert spoken == (task(Line.RETRIED, 180),)


def test_unreadable_eta() -> None:
    """A task whose ETA cannot be converted (T20) is rejected by the main process: its run ends there."""
    unit = Journal().unit(starts=False)
    (said,) = recognised(unit.bare(main(BAD_ETA.format(ID), "ERROR")))
    assert isinstance(said, Said)
    assert said.kind in {Line.DISCARDED, Line.REJECTED}
    assert said.task_id == ID


def test_first_interrupt() -> None:
    """The line of a first SIGINT (S4, 5.5 and later) is not that of a cold shutdown (S3)."""
    unit = Journal().unit(starts=False)
    first = recognised(
        unit.bare("worker: Hitting Ctrl+C again will initiate cold shutdown, terminating all running tasks!")
    )
    cold = recognised(unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!"))
    assert [getattr(one, "kind", None) for one in first] != [getattr(one, "kind", None) for one in cold]


# -- the same record in other dress ----------------------------------------------------------------------------------

LOSS = "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 1.')"
DRESSES = {
    "default": f"[2026-11-30 12:00:00,000: ERROR/MainProcess] {LOSS}",
    "no-milliseconds": f"[2026-11-30 12:00:00: ERROR/MainProcess] {LOSS}",
    "colour": f"[2026-11-30 12:00:00,000: ERROR/MainProcess] \x1b[1;31m{LOSS}\x1b[0m",
    "plain": LOSS,
    "level-first": f"ERROR 2026-11-30 12:00:00,000 request <140001> {LOSS}",
    "dashes": f"2026-11-30 12:00:00,000 - celery.worker.request - ERROR - {LOSS}",
    "pipes": f"2026-11-30 12:00:00.000 | ERROR    | celery.worker.request:on_failure:300 - {LOSS}",
    "brackets": f"[30/Nov/2026 12:00:00] [ERROR] [celery.worker.request:300] {LOSS}",
    "json-msg": '{"level": "ERROR", "logger": "celery.worker.request", "proc": "MainProcess", "msg": "' + LOSS + '"}',
    "json-event": '{"event": "' + LOSS + '", "level": "error", "logger": "celery.worker.request"}',
    "loguru": '{"text": "x", "record": {"message": "' + LOSS + '", "name": "celery.worker.request", '
    '"process": {"id": 1, "name": "MainProcess"}}}',
    "json-in-default": '[2026-11-30 12:00:00,000: ERROR/MainProcess] {"event": "' + LOSS + '"}',
}


@pytest.mark.parametrize("line", DRESSES.values(), ids=DRESSES.keys())
def test_dresses(line: str) -> None:
    """A loss is recognised in every format that logging is commonly set up with."""
    unit = Journal().unit(starts=False)
    spoken = recognised(unit.bare(line))
    assert [type(one) for one in spoken] == [events.TaskLost]
    assert [(one.signal, one.job) for one in spoken if isinstance(one, events.TaskLost)] == [(9, 1)]


DJANGO = {  # https://docs.djangoproject.com/en/stable/topics/logging/, the formatters of its example
    "verbose": "{level} 2026-11-30 12:00:00,000 {module} 17 140001 {text}",
    "simple": "{level} {text}",
}


@pytest.mark.parametrize("form", DJANGO.values(), ids=DJANGO.keys())
def test_django_examples(form: str) -> None:
    """Records in the two formats of Django's own logging example are recognised."""
    unit = Journal().unit(starts=False)
    spoken = recognised(
        unit.bare(form.format(level="INFO", module="strategy", text=f"Task kapp.ok[{ID}] received")),
        unit.bare(form.format(level="ERROR", module="request", text=LOSS)),
    )
    assert [one.kind if isinstance(one, Said) else type(one) for one in spoken] == [Line.RECEIVED, events.TaskLost]


QUOTES = {
    "prose": "yesterday's log said: " + LOSS + " and then nothing",
    "argument": f"Task shop.tasks.note[{ID}] received the words {LOSS}",
    "traceback": "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 1.",
    "traceback-source": "    raise WorkerLostError(f'Worker exited prematurely: {status}.')",
    "own-line": child(f"I read: {LOSS}"),
    "own-named-line": child(f"kapp.ok[{ID}]: {LOSS}"),
    "result": child(f'Task kapp.ok[{ID}] succeeded in 1s: "{LOSS}"'),
    "raised": child(f'Task kapp.ok[{ID}] raised unexpected: ValueError("{LOSS}")'),
    "json-data": '{"level": "INFO", "msg": "mail sent", "proc": "ForkPoolWorker-1", "text": "' + LOSS + '"}',
}


@pytest.mark.parametrize("line", QUOTES.values(), ids=QUOTES.keys())
def test_quotes(line: str) -> None:
    """Text that quotes a kill's words is no kill."""
    unit = Journal().unit(starts=False)
    assert not [one for one in recognised(unit.bare(line)) if isinstance(one, Event)]


@pytest.mark.parametrize("name", ["kapp.ok", "kapp.tasks[0].ok", "app: run", "Ünïcode.tåsk", "a b c"])
@pytest.mark.parametrize("task_id", [ID, "run-0c5d81f", "7", "order:2026/11/30", "ü"])
def test_names_and_ids(name: str, task_id: str) -> None:
    """Names may hold dots, blanks and brackets, and ids may be any text without brackets."""
    unit = Journal().unit(starts=False)
    spoken = recognised(
        unit.says(f"Task {name}[{task_id}] received"),
        unit.says(f"Task {name}[{task_id}] succeeded in 1.5s: 3", child=3),
    )
    assert spoken == (
        task(Line.RECEIVED, process=MAIN, name=name, task_id=task_id),
        task(Line.SUCCEEDED, 1.5, name=name, task_id=task_id),
    )


def test_signal_by_number() -> None:
    """A signal is read by its number: billiard prints 2 as SIG_SETMASK and 17 as SIGCLD."""
    unit = Journal().unit(starts=False)
    texts = ["signal 2 (SIG_SETMASK)", "signal 17 (SIGCLD)", "signal 29 (SIGPOLL)", "signal 34 (SIGRTMIN)"]
    spoken = recognised(*[unit.says(f"Process 'ForkPoolWorker-1' pid:7 exited with '{text}'") for text in texts])
    assert [one.signal for one in spoken if isinstance(one, events.ChildExited)] == [2, 17, 29, 34]


def test_shutdown_traceback() -> None:
    """Of a loss's traceback only the shutdown's own exception is read: WorkerShutdown, or WorkerTerminate if cold."""
    unit = Journal().unit(starts=False)
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/billiard/pool.py", line 1367, in mark_as_worker_lost',
        "celery.exceptions.WorkerShutdown: 0",
        "During handling of the above exception, another exception occurred:",
        "celery.exceptions.WorkerTerminate: 1",
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 15 (SIGTERM) Job: 5.",
        '"""',
    ]
    spoken = recognised(*[unit.bare(line) for line in lines])
    assert [one.cold for one in spoken if isinstance(one, events.ShutdownTraceback)] == [False, True]
    assert len(spoken) == 2


def test_whole_record_in_one_line() -> None:
    """Where one entry holds a loss with its traceback (JSON), the shutdown's marker in it is read too."""
    unit = Journal().unit(starts=False)
    line = (
        '{"msg": "' + LOSS + '", "proc": "MainProcess", '
        '"exc_info": "Traceback...\\ncelery.exceptions.WorkerShutdown: 0\\nDuring handling"}'
    )
    spoken = recognised(unit.bare(line))
    assert [type(one) for one in spoken] == [events.TaskLost, events.ShutdownTraceback]


def test_evidence_is_bounded() -> None:
    """An event keeps at most 500 characters of its line: a result may be megabytes."""
    unit = Journal().unit(starts=False)
    line = '{"msg": "' + LOSS + '", "proc": "MainProcess", "exc_info": "' + "x" * 100_000 + '"}'
    (lost,) = recognised(unit.bare(line))
    assert isinstance(lost, events.TaskLost)
    assert len(lost.seen.text) == 500


def test_long_line() -> None:
    """A message of a megabyte is read in a time that grows with its length: no pattern goes back over it."""
    unit = Journal().unit(starts=False)
    spoken = recognised(
        unit.says(f"Task kapp.ok[{ID}] succeeded in 1s: '" + "Task a[" * 150_000 + "'", child=3),
        unit.bare("Task " * 200_000),
        unit.bare("Process '" * 100_000),
        unit.bare("[" * 1_000_000),
    )
    assert spoken == (task(Line.SUCCEEDED, 1),)


def test_multi() -> None:
    """The chatter of `celery multi` shows that the worker's own lines go to files."""
    unit = Journal().unit(starts=False)
    lines = ["celery multi v5.7.0 (collider)", "> Starting nodes...", "\t> w1@host: OK", "\t> w1@host: TERM -> 1234"]
    assert {type(one) for line in lines for one in recognised(unit.bare(line))} == {events.LogsToFile}


def test_names_of_pool_processes() -> None:
    """Pool processes are Worker-N up to 3.1, PoolWorker-N in 4.0, ForkPoolWorker-N or SpawnPoolWorker-N later."""
    unit = Journal().unit(starts=False)
    names = ["Worker-1", "PoolWorker-2", "ForkPoolWorker-3", "SpawnPoolWorker-4"]
    spoken = recognised(*[unit.bare(f"{STAMP}INFO/{name}] hello") for name in names])
    assert [one.process for one in spoken if isinstance(one, Said)] == names
    assert all(re.fullmatch(r"\w+-\d", name) for name in names)


@pytest.mark.parametrize(
    "text",
    [
        "Task shop.mail[t1] succeeded in 1.2.3s: None",
        "Task shop.mail[t1] succeeded in 9e999s: None",
        f"Task shop.mail[t1] succeeded in {'9' * 400}s: None",
        f"Task shop.mail[t1] retry: Retry in {'9' * 400}s: OSError()",
        f"Soft time limit ({'9' * 400}s) exceeded for shop.mail[t1]",
    ],
)
def test_numbers_that_are_none(text: str) -> None:
    """A number that no worker prints makes a line of nothing, and never an error."""
    unit = Journal().unit()
    unit.received("t1")
    unit.says(text, child=1)
    assert audited(unit.journal).kills == ()
