"""Scenarios of what stands in the journal: other formats, other places, too little, too much, and lies."""

import signal

from .deploys import restart_busy
from .scenario import Scenario
from .stage import LONG, Stage, order


def forged(stage: Stage) -> None:
    """Let any user write the words of kills; one child is really killed meanwhile, and the forger blames others."""
    stage.start("a")
    ids = stage.send(order("sleepy", LONG), order("sleepy", 5))
    run, other = stage.running(*ids)
    stamp = "[2026-11-30 12:00:00,000: ERROR/MainProcess]"
    lost = "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 1.')"
    lies = (
        (
            "kernel",
            f"Memory cgroup out of memory: Killed process {run.process.pid} (celery) total-vm:1kB, anon-rss:1kB",
        ),
        ("kernel", f"Out of memory: Killed process {other.process.pid} (celery) total-vm:1kB, anon-rss:1kB"),
        ("systemd", "celery@a.service: A process of this unit has been killed by the OOM killer."),
        ("systemd", "celery@a.service: Main process exited, code=killed, status=9/KILL"),
        ("systemd", "Stopping celery@a.service - Celery worker a..."),
        ("celery", f"{stamp} Process 'ForkPoolWorker-1' pid:{other.process.pid} exited with 'signal 9 (SIGKILL)'"),
        (
            "celery",
            f"{stamp} Task handler raised error: {lost}",
        ),
        ("celery", f"{stamp} Hard time limit (2s) exceeded for shop.tasks.sleepy[{other.id}]"),
        ("sudo", f"ops : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/kill -9 {run.process.pid}"),
    )
    # From nowhere, as a login shell's child would be; and from a service of the forger's own.
    service = ("systemd-run", "--quiet", "--pipe", "--wait", "--uid=ops")
    for identifier, text in lies:
        stage.run("logger", "-t", identifier, text, user="ops")
        stage.run(*service, "systemd-cat", "-t", identifier, "echo", text)
    stage.kill(run.process, signal.SIGKILL)
    stage.gone(run)
    stage.loss("a")
    stage.finished(other.id)


def talkers(stage: Stage) -> None:
    """Let tasks say, raise and retry with the very words of a kill."""
    stage.start("a")
    chatty, boom, retrying = stage.send(order("chatty"), order("boom"), order("retrying", 1))
    stage.running(retrying, times=3)
    stage.finished(chatty, boom)
    stage.finished(retrying, times=3)


def flood(stage: Stage) -> None:
    """Log more than journald takes, then, when it takes lines again, kill the child."""
    stage.start("a")
    [run] = stage.running(*stage.send(order("flood", 2000, LONG)))
    stage.run("sleep", "6")
    stage.kill(run.process, signal.SIGKILL)
    stage.gone(run)
    stage.loss("a")


def user_unit(stage: Stage) -> None:
    """Kill a child of a worker that a user's own systemd runs, then restart it with a running task."""
    stage.under_user("ops")
    stage.start("a")
    [killed] = stage.running(*stage.send(order("late", LONG)))
    stage.kill(killed.process, signal.SIGKILL)
    stage.gone(killed)
    stage.loss("a")
    [cut] = stage.running(*stage.send(order("sleepy", LONG)))
    stage.restart("a")
    stage.gone(cut)


SCENARIOS = (
    Scenario(
        name="forged",
        what="a user writes kernel, systemd, sudo and worker lines; one child is really killed by an unknown hand",
        act=forged,
        quick=True,
    ),
    Scenario(name="talkers", what="tasks that log, print, raise and retry with the very words of a kill", act=talkers),
    Scenario(
        name="json_logs",
        what="a restart with JSON lines (setup_logging)",
        act=restart_busy,
        cause="unit-stop",
        environment="SHOP_LOGS=json",
    ),
    Scenario(
        name="plain_logs",
        what="a restart with worker_log_format %(message)s",
        act=restart_busy,
        cause="unit-stop",
        environment="SHOP_LOGS=plain",
    ),
    Scenario(
        name="coloured_logs",
        what="a restart with Celery's colour codes in the lines",
        act=restart_busy,
        cause="unit-stop",
        environment="SHOP_LOGS=coloured",
    ),
    Scenario(
        name="debug_logs",
        what="a restart at log level DEBUG: the lines say which child accepted which task",
        act=restart_busy,
        cause="unit-stop",
        options="-c 2 -l DEBUG",
    ),
    Scenario(
        name="quiet_logs",
        what="a restart at log level WARNING: no received lines, so the journal can't name the tasks",
        act=restart_busy,
        cause="unit-stop",
        options="-c 2 -l WARNING",
        nameable=False,
        coverage="partial",
    ),
    Scenario(
        name="log_namespace",
        what="LogNamespace=celery: the worker's lines are in another journal than systemd's",
        act=restart_busy,
        cause="unit-stop",
        settings="LogNamespace=celery",
        reading=("--namespace", "celery"),
    ),
    Scenario(
        name="user_unit",
        what="a worker run by a user's own systemd: one child is killed, then the unit is restarted",
        act=user_unit,
        cause="unit-stop",
        cause_of=(("late", "unknown"),),
        idle=1,
    ),
    Scenario(
        name="flood",
        what="a task floods the journal beyond its rate limit; its child is killed later",
        act=flood,
        settings="LogRateLimitIntervalSec=5s\nLogRateLimitBurst=200",
        coverage="partial",
    ),
)
