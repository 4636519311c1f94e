"""The shop's tasks. Each writes its start and end into the diary, whatever the logs say, and a run-log row."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import signal
import sys
import time
from typing import Any, Callable, TypeVar

from celery import current_task, signals
from celery.exceptions import Retry
from celery.utils.log import get_task_logger

from . import app, diary, run_log

Body = TypeVar("Body", bound=Callable[..., object])

logger = get_task_logger(__name__)


def task(**options: Any) -> Callable[[Body], Any]:
    """Make a task of a function: known to Celery with these options, and recorded from start to end."""

    def register(body: Body) -> Any:
        @functools.wraps(body)
        def recorded(*args: Any, **kwargs: Any) -> object:
            request = current_task.request
            delivery = request.delivery_info or {}
            name = current_task.name
            run = run_log.Run(request.id, name, delivery.get("routing_key") or "")
            facts = {"id": request.id, "task": name, "started": run.started.timestamp()}
            diary.write("start", redelivered=bool(delivery.get("redelivered")), retries=request.retries, **facts)
            run.begin()
            # From here on nothing stands between a signal and the death. Before, the SystemExit of a SIGTERM may be
            # raised in a database driver's clean-up, where Python drops it.
            diary.write("work", **facts)
            try:
                result = body(*args, **kwargs)
            except Exception as error:
                # Not BaseException: a child that is told to die raises SystemExit in the task, and that is no end.
                diary.write("exc", **facts)
                run.finish("retry" if isinstance(error, Retry) else "failure")
                raise
            diary.write("end", **facts)
            run.finish("success")
            return result

        return app.task(name=f"shop.tasks.{body.__name__}", **options)(recorded)

    return register


def _ready(**_: object) -> None:
    diary.write("ready")


def _child(**_: object) -> None:
    diary.write("child", parent=os.getppid())


signals.worker_ready.connect(_ready)
signals.worker_process_init.connect(_child)


@task()
def sleepy(seconds: float) -> None:
    """Take a while, acknowledged early (Celery's default): a killed run is lost."""
    time.sleep(seconds)


@task(acks_late=True)
def late(seconds: float) -> None:
    """Take a while, acknowledged late."""
    time.sleep(seconds)


@task(acks_late=True, reject_on_worker_lost=True)
def requeue(seconds: float) -> None:
    """Take a while, acknowledged late and handed back when the child dies."""
    time.sleep(seconds)


@task(acks_late=True, reject_on_worker_lost=True)
def poison() -> None:
    """Kill its own child, every time."""
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


@task()
def hog(megabytes: int, seconds: float = 0.0) -> None:
    """Take memory, 10 MB at a time, and hold it for a while."""
    held = []
    for _ in range(0, megabytes, 10):
        held.append(b"x" * 10_000_000)
        time.sleep(0.02)
    time.sleep(seconds)


@task(time_limit=3)
def hard() -> None:
    """Outlive its hard time limit."""
    time.sleep(60)


@task(soft_time_limit=2)
def soft() -> None:
    """Outlive its soft time limit, which is an exception and no kill."""
    time.sleep(60)


@task()
def segv() -> None:
    """Read from address 0."""
    time.sleep(0.5)
    ctypes.string_at(0)


@task()
def abort() -> None:
    """Abort as the C library does."""
    time.sleep(0.5)
    os.abort()


@task()
def leave(status: int) -> None:
    """Raise SystemExit: `sys.exit` in a task."""
    time.sleep(0.5)
    sys.exit(status)


@task()
def vanish(status: int) -> None:
    """End the process without a word: `os._exit` in a task."""
    time.sleep(0.5)
    os._exit(status)


@task()
def boom() -> None:
    """Fail with the words of a kill."""
    raise RuntimeError("Worker exited prematurely: signal 9 (SIGKILL) Job: 3.")


@task()
def chatty() -> None:
    """Log and print the words of kills."""
    logger.error("Process 'ForkPoolWorker-1' pid:%s exited with 'signal 9 (SIGKILL)'", os.getpid())
    logging.getLogger("shop").error(
        "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 9.')"
    )
    print("Out of memory: Killed process", os.getpid(), "(celery)")
    print("celery@a.service: State 'stop-sigterm' timed out. Killing.")
    time.sleep(1)


@task(bind=True, max_retries=2)
def retrying(self: Any, last: float = 0.0) -> None:
    """Fail twice, and work for `last` seconds in the third try."""
    if self.request.retries < self.max_retries:
        raise self.retry(countdown=1, exc=RuntimeError("not yet"))
    time.sleep(last)


@task(rate_limit="30/m")
def limited(seconds: float) -> None:
    """Take a while, at most one every two seconds."""
    time.sleep(seconds)


@task()
def flood(lines: int, seconds: float) -> None:
    """Log more than journald takes, then go on for a while."""
    for number in range(lines):
        logger.info("order %d of %d", number, lines)
    time.sleep(seconds)
