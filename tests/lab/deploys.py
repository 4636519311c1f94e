"""Scenarios of the operator's making: restarts, stops, reloads, shutdowns of every kind."""

import signal

from .scenario import Scenario
from .stage import LONG, Stage, order

DRAINS = "KillMode=mixed\nTimeoutStopSec=60"


def deploy(stage: Stage) -> None:
    """Restart two busy workers at once."""
    stage.start("a", "b")
    orders = order("sleepy", LONG), order("late", LONG), order("sleepy", LONG, to="b"), order("requeue", 8, to="b")
    running = stage.running(*stage.send(*orders))
    stage.restart("a", "b")
    stage.gone(*running)
    stage.rerun(running[3])


def drain(stage: Stage) -> None:
    """Restart a busy worker that may finish first."""
    stage.start("a")
    ids = stage.send(order("sleepy", 6), order("late", 7), order("sleepy", 1))
    stage.running(*ids[:2])
    stage.restart("a")
    stage.finished(*ids)


def restart_busy(stage: Stage) -> None:
    """Restart a worker with two running tasks, which die."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.restart("a")
    stage.gone(*running)


def stop_then_start(stage: Stage) -> None:
    """Deploy in two commands, with something done in between."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("requeue", 5)))
    with stage.deploy("a"):
        stage.sudo("systemctl", "stop", "celery@a")
        stage.run("sleep", "2")
        stage.sudo("systemctl", "start", "celery@a")
    stage.gone(*running)
    stage.rerun(running[1])


def restart_eight(stage: Stage) -> None:
    """Restart a worker with eight running tasks of one name."""
    stage.start("a")
    running = stage.running(*stage.send(*[order("sleepy", LONG)] * 8))
    stage.restart("a")
    stage.gone(*running)


def soft_shutdown(stage: Stage) -> None:
    """Restart with a grace time that is enough for one task and too short for the other."""
    stage.start("a")
    short, long = stage.running(*stage.send(order("sleepy", 3), order("sleepy", LONG)))
    stage.restart("a")
    stage.gone(long)
    stage.finished(short.id)


def cold_shutdown(stage: Stage) -> None:
    """Let an unknown hand send SIGQUIT to the main process."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", 20)))
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGQUIT)
    stage.gone(*running)
    stage.running(running[1].id, times=2)


def second_sigterm_kills(stage: Stage) -> None:
    """Send SIGTERM twice to the main process, as an impatient operator does: up to Celery 5.2 that kills."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.sudo("systemctl", "kill", "--kill-who=main", "--signal=TERM", "celery@a")
    stage.run("sleep", "1")  # Celery 4.4 does not say at once that it is shutting down: it leaves its line in a buffer
    stage.sudo("systemctl", "kill", "--kill-who=main", "--signal=TERM", "celery@a")
    stage.gone(*running)
    stage.inactive("a")


def second_sigterm_drains(stage: Stage) -> None:
    """Send SIGTERM twice to the main process: from Celery 5.3 on it only says so again."""
    stage.start("a")
    ids = stage.send(order("sleepy", 6), order("late", 6))
    stage.running(*ids)
    for times in (1, 2):
        stage.sudo("systemctl", "kill", "--kill-who=main", "--signal=TERM", "celery@a")
        stage.line("a", "worker: Warm shutdown (MainProcess)", times)
    stage.finished(*ids)
    stage.inactive("a")


def main_sigterm(stage: Stage) -> None:
    """Let an unknown hand send SIGTERM to the main process alone: it drains, and the unit comes back by itself."""
    stage.start("a")
    ids = stage.send(order("sleepy", 5), order("late", 5))
    stage.running(*ids)
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGTERM)
    stage.finished(*ids)


def remote_shutdown(stage: Stage) -> None:
    """Ask the worker over the broker to shut down: it drains."""
    stage.start("a")
    ids = stage.send(order("sleepy", 5), order("late", 5))
    stage.running(*ids)
    stage.shop("shutdown")
    stage.finished(*ids)
    stage.inactive("a")


def sighup_reload(stage: Stage) -> None:
    """Reload a busy worker: it drains and starts again under the same number; then kill a child of its new life."""
    stage.start("a")
    [before] = stage.send(order("sleepy", 4))
    stage.running(before)
    with stage.deploy("a"):
        stage.sudo("systemctl", "reload", "celery@a")
    stage.finished(before)
    _, killed = stage.running(*stage.send(order("sleepy", 6), order("sleepy", LONG)))
    stage.kill(killed.process, signal.SIGKILL)
    stage.gone(killed)
    stage.loss("a")


def sighup_to_all(stage: Stage) -> None:
    """Send SIGHUP to every process of the unit: the children die with their tasks, the main process starts again."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    with stage.again("a"):  # no deploy: nothing asks for a reload of the unit
        stage.sudo("systemctl", "kill", "--signal=HUP", "celery@a")
    stage.gone(*running)


def systemctl_kill(stage: Stage) -> None:
    """Send SIGKILL to every process of the unit."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.sudo("systemctl", "kill", "--signal=KILL", "celery@a")
    stage.gone(*running)
    stage.inactive("a")


def stopwait(stage: Stage) -> None:
    """Stop a worker of `celery multi`, whose lines go into a file."""
    stage.start("a")
    ids = stage.send(order("sleepy", 5), order("late", 5))
    stage.running(*ids)
    stage.restart("a")
    stage.finished(*ids)


def stopwait_timeout(stage: Stage) -> None:
    """Stop a worker of `celery multi` that waits for its tasks longer than systemd does."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.restart("a")
    stage.gone(*running)


def dependency_restart(stage: Stage) -> None:
    """Restart the broker, and with it the worker that is part of it."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    with stage.deploy("a"):
        stage.sudo("systemctl", "restart", "redis-server")
    stage.gone(*running)


# CELERY_APP: multi of Celery 4.4.7 keeps -A to itself (celery/celery#6285).
MULTI = """\
Type=forking
Environment=CELERY_APP=shop
RuntimeDirectory=celery-%i
LogsDirectory=celery
ExecStart=
Environment=PIDS=--pidfile=/run/celery-%i/%%n.pid LOGS=--logfile=/var/log/celery/%%n.log
ExecStart={venv}/bin/celery multi start %i@%H -A shop -Q %i -c 2 -l INFO $PIDS $LOGS
ExecStop={venv}/bin/celery multi stopwait %i@%H $PIDS
"""

SCENARIOS = (
    Scenario(
        name="deploy",
        what="systemctl restart of two units with systemd's default KillMode: every running task dies by signal 15",
        act=deploy,
        cause="unit-stop",
        quick=True,
    ),
    Scenario(
        name="drain",
        what="KillMode=mixed and time enough: the running tasks finish, the waiting one is handed back",
        act=drain,
        settings=DRAINS,
        quick=True,
    ),
    Scenario(
        name="stop_timeout",
        what="KillMode=mixed but TimeoutStopSec shorter than the task: systemd SIGKILLs main and children",
        act=restart_busy,
        cause="stop-timeout",
        settings="KillMode=mixed\nTimeoutStopSec=3",
        quick=True,
    ),
    Scenario(
        name="stop_then_start",
        what="a deploy in two commands: stop, then start",
        act=stop_then_start,
        cause="unit-stop",
    ),
    Scenario(
        name="restart_eight",
        what="eight running tasks of one name on eight children, all cut by a restart",
        act=restart_eight,
        cause="unit-stop",
        options="-c 8 -l INFO",
    ),
    Scenario(
        name="soft_shutdown",
        what="KillSignal=SIGQUIT with a soft shutdown of 5 s: the short task finishes, the long one is cut off",
        act=soft_shutdown,
        cause="cold-shutdown",
        settings="KillMode=mixed\nKillSignal=SIGQUIT",
        environment="SHOP_SOFT_SHUTDOWN=5",
        celeries=("5.7",),
    ),
    Scenario(
        name="cold_shutdown",
        what="an unknown hand sends SIGQUIT to the busy main process",
        act=cold_shutdown,
        cause="cold-shutdown",
        settings="Restart=always",
    ),
    Scenario(
        name="cold_deploy",
        what="a restart with KillMode=mixed and KillSignal=SIGQUIT",
        act=restart_busy,
        cause="cold-shutdown",
        settings="KillMode=mixed\nKillSignal=SIGQUIT",
    ),
    Scenario(
        name="remap_sigterm",
        what="REMAP_SIGTERM=SIGQUIT and systemd's default KillMode: a restart is a cold shutdown",
        act=restart_busy,
        cause="cold-shutdown",
        environment="REMAP_SIGTERM=SIGQUIT",
    ),
    Scenario(
        name="second_sigterm",
        what="a second SIGTERM to the main process, by systemctl kill, ends the warm shutdown and the tasks with it",
        act=second_sigterm_kills,
        cause="manual-signal",
        celeries=("5.2", "4.4"),
    ),
    Scenario(
        name="second_sigterm_drains",
        what="a second SIGTERM to the main process changes nothing: the tasks finish",
        act=second_sigterm_drains,
        celeries=("5.7",),
    ),
    Scenario(
        name="main_sigterm",
        what="an unknown hand sends SIGTERM to the main process alone: it drains",
        act=main_sigterm,
        settings="Restart=always",
    ),
    Scenario(name="remote_shutdown", what="app.control.shutdown(): the worker drains", act=remote_shutdown),
    Scenario(
        name="sighup_reload",
        what="systemctl reload sends SIGHUP: the worker drains and starts again in place; then a child is killed",
        act=sighup_reload,
        settings="ExecReload=/bin/kill -HUP $MAINPID",
    ),
    Scenario(
        name="sighup_to_all",
        what="systemctl kill -s HUP of the whole unit: the children die with their tasks",
        act=sighup_to_all,
        cause="manual-signal",
    ),
    Scenario(
        name="systemctl_kill",
        what="systemctl kill -s KILL of the whole unit",
        act=systemctl_kill,
        cause="manual-signal",
    ),
    Scenario(
        name="multi_stopwait",
        what="Type=forking with celery multi and ExecStop=stopwait: it drains; the worker's lines are in a file",
        act=stopwait,
        settings=MULTI,
        evidence=("a.log",),
    ),
    Scenario(
        name="multi_timeout",
        what="celery multi stopwait outlasts TimeoutStopSec: systemd kills; the worker's lines are in a file",
        act=stopwait_timeout,
        cause="stop-timeout",
        settings=f"{MULTI}TimeoutStopSec=4",
        evidence=("a.log",),
    ),
    Scenario(
        name="dependency_restart",
        what="PartOf=redis-server.service: restarting the broker's unit restarts the worker with its tasks",
        act=dependency_restart,
        cause="unit-stop",
        settings="[Unit]\nPartOf=redis-server.service",
    ),
)
