"""Scenarios in which processes die of signals, limits, crashes and memory."""

import signal
from pathlib import Path

from . import cgroups
from .scenario import Scenario
from .stage import LONG, Stage, order

UNIT = "celery@a.service"


def child_sigkill(stage: Stage) -> None:
    """Kill a busy pool child, then an idle one."""
    _kill_busy_then_idle(stage, signal.SIGKILL)


def child_sigterm(stage: Stage) -> None:
    """Send SIGTERM to a busy pool child, then to an idle one."""
    _kill_busy_then_idle(stage, signal.SIGTERM)


def child_sigquit(stage: Stage) -> None:
    """Send SIGQUIT to a busy pool child, which exits with 70, then to an idle one."""
    _kill_busy_then_idle(stage, signal.SIGQUIT)


def _kill_busy_then_idle(stage: Stage, number: signal.Signals) -> None:
    stage.start("a")
    [run] = stage.running(*stage.send(order("sleepy", LONG)))
    stage.kill(run.process, number)
    stage.gone(run)
    stage.loss("a")
    idle = stage.idle("a")
    stage.kill(idle, number)
    stage.line("a", f"pid:{idle.pid} exited with")


def child_ignores(stage: Stage) -> None:
    """Send SIGINT to a busy pool child, which ignores it."""
    stage.start("a")
    [run] = stage.running(*stage.send(order("sleepy", 4)))
    stage.kill(run.process, signal.SIGINT)
    stage.finished(run.id)


def sudo_kill(stage: Stage) -> None:
    """Let the operator kill a child with sudo."""
    stage.start("a")
    run, other = stage.running(*stage.send(order("late", LONG), order("sleepy", 5)))
    stage.kill(run.process, signal.SIGKILL, openly=True)
    stage.gone(run)
    stage.loss("a")
    stage.finished(other.id)


def main_dies(number: signal.Signals) -> Scenario:
    """Make the row of a signal to the main process."""

    def act(stage: Stage) -> None:
        stage.start("a")
        running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
        stage.send(order("sleepy", LONG))
        with stage.again("a"):
            stage.kill(stage.main("a"), number)
        stage.gone(*running)

    return Scenario(
        name=f"main_{number.name.lower()}",
        what=f"{number.name} to the main process: the children die with it, unnamed; one task had not begun",
        act=act,
        cause="crash" if number is signal.SIGSEGV else "unknown",
        settings="Restart=always",
    )


def revoke(stage: Stage) -> None:
    """Revoke a running task with terminate."""
    stage.start("a")
    run, other = stage.running(*stage.send(order("sleepy", LONG), order("sleepy", 6)))
    stage.shop("revoke", run.id)
    stage.gone(run)
    stage.line("a", f"Terminating {run.id}")
    stage.finished(other.id)


def time_limits(stage: Stage) -> None:
    """Let one task outlive its hard limit, another its soft one."""
    stage.start("a")
    hard, soft = stage.running(*stage.send(order("hard"), order("soft")))
    stage.gone(hard)
    stage.finished(soft.id)
    stage.line("a", f"pid:{hard.process.pid} exited with")


def crashes(stage: Stage) -> None:
    """Let two children crash."""
    stage.start("a")
    stage.gone(*stage.running(*stage.send(order("segv"), order("abort"))))
    stage.loss("a", times=2)


def exits(stage: Stage) -> None:
    """Let tasks end their processes, each in its way."""
    stage.start("a")
    for number, task in enumerate(
        (order("leave", 3), order("vanish", 0), order("vanish", 155), order("vanish", 7)), 1
    ):
        stage.gone(*stage.running(*stage.send(task)))
        stage.loss("a", times=number)


def oom(stage: Stage) -> None:
    """Let the kernel's OOM killer take one child of a worker; its neighbour lives."""
    stage.start("a")
    with cgroups.memory_limit(stage.container.name, UNIT, 150):
        ids = stage.send(order("sleepy", 6), order("hog", 2000))
        _, hog = stage.running(*ids)
        stage.gone(hog)
        stage.loss("a")
        stage.finished(ids[0])


def oom_stop(stage: Stage) -> None:
    """Let a task reach the unit's own limit of memory: systemd stops the unit, and the neighbour dies too."""
    stage.start("a")
    with stage.again("a"):
        running = stage.running(*stage.send(order("sleepy", LONG), order("hog", 2000)))
        stage.gone(*running)


def oom_main(stage: Stage) -> None:
    """Let the kernel's OOM killer take the main process, which an operator has made its favourite."""
    stage.start("a")
    for pid in cgroups.pids(stage.container.name, UNIT):
        inside = Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n")[0].split()[-1]
        if int(inside) == stage.main("a").pid:
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    with stage.again("a"), cgroups.memory_limit(stage.container.name, UNIT, 150):
        running = stage.running(*stage.send(order("sleepy", LONG), order("hog", 2000)))
        stage.gone(*running)


def oomd(stage: Stage) -> None:
    """Let systemd-oomd's deed be done to the whole unit."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    with stage.again("a"):
        cgroups.kill_as_oomd(stage.container.name, UNIT)
    stage.gone(*running)


def poison_loop(stage: Stage) -> None:
    """Let a task kill its child each time it is handed back."""
    stage.start("a")
    [poison] = stage.send(order("poison"))
    for times in range(1, 5):
        stage.gone(*stage.running(poison, times=times))
    [fifth] = stage.running(poison, times=5)
    stage.restart("a")
    stage.gone(fifth)
    if stage.handed_back(fifth):
        stage.gone(*stage.running(poison, times=6))
    stage.stop("a")
    stage.gone(*(run for run in stage.runs() if run.id == poison))


def recycle(stage: Stage) -> None:
    """Let children be replaced after each task: nothing is killed."""
    stage.start("a")
    stage.finished(*stage.send(*[order("sleepy", 0.5)] * 5))


def watchdog(stage: Stage) -> None:
    """Let systemd's watchdog bite a worker that never pats it."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    with stage.again("a"):
        stage.gone(*running)


def runtime_max(stage: Stage) -> None:
    """Let the unit reach its longest runtime."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    with stage.again("a"):
        stage.gone(*running)


SCENARIOS = (
    Scenario(
        name="child_sigkill",
        what="an unknown hand sends SIGKILL to one busy pool child, later to an idle one",
        act=child_sigkill,
        idle=1,
        quick=True,
    ),
    Scenario(
        name="child_sigterm",
        what="an unknown hand sends SIGTERM to one busy pool child, later to an idle one",
        act=child_sigterm,
        idle=1,
    ),
    Scenario(
        name="child_sigquit",
        what="an unknown hand sends SIGQUIT to one busy pool child, later to an idle one: they exit with 70",
        act=child_sigquit,
        idle=1,
    ),
    Scenario(name="child_sigint", what="SIGINT to a busy child: ignored", act=child_ignores),
    Scenario(
        name="sudo_kill",
        what="an operator kills a busy child with sudo kill -9; its neighbour finishes",
        act=sudo_kill,
        cause="manual-signal",
    ),
    main_dies(signal.SIGKILL),
    main_dies(signal.SIGSEGV),
    Scenario(
        name="revoke_terminate",
        what="a running task is revoked with terminate=True; its neighbour finishes",
        act=revoke,
        cause="manual-signal",
    ),
    Scenario(
        name="time_limits",
        what="a hard limit kills one task, a soft limit raises in another",
        act=time_limits,
        cause="hard-time-limit",
    ),
    Scenario(name="crashes", what="one task segfaults, one aborts", act=crashes, cause="crash", kernel_speaks=True),
    Scenario(
        name="exits",
        what="tasks end their processes with sys.exit(3), os._exit(0), 155 and 7",
        act=exits,
        cause="exit",
    ),
    Scenario(
        name="oom",
        what="the kernel's OOM killer takes a busy child, with OOMPolicy=continue: its neighbour finishes",
        act=oom,
        cause="oom-kernel",
        settings="OOMPolicy=continue",
        kernel_speaks=True,
        quick=True,
    ),
    Scenario(
        name="oom_stop",
        what="MemoryMax= is reached and OOMPolicy=stop: the kernel takes one child, then systemd stops its neighbour",
        act=oom_stop,
        cause="oom-kernel",
        settings="MemoryMax=250M\nMemorySwapMax=0\nOOMPolicy=stop\nRestart=always",
        kernel_speaks=True,
        needs_memory_controller=True,
    ),
    Scenario(
        name="oom_main",
        what="the kernel's OOM killer takes the main process, and its children die with it",
        act=oom_main,
        cause="oom-kernel",
        kernel_speaks=True,
        settings="Restart=always",
    ),
    Scenario(
        name="oomd",
        what="all processes of the unit are killed as systemd-oomd does it; systemd tells of it",
        act=oomd,
        cause="oom-systemd",
        settings="Restart=always",
    ),
    Scenario(
        name="poison_loop",
        what="reject_on_worker_lost on a task that always dies: killed again and again, over a restart that drains",
        act=poison_loop,
        settings="KillMode=mixed\nTimeoutStopSec=60",
    ),
    Scenario(
        name="recycle",
        what="--max-tasks-per-child=1: children come and go, no task is killed",
        act=recycle,
        options="-c 2 -l INFO --max-tasks-per-child=1",
    ),
    Scenario(
        name="watchdog",
        what="WatchdogSec on a worker that never notifies: systemd aborts it",
        act=watchdog,
        cause="watchdog",
        settings="WatchdogSec=8\nRestart=always",
    ),
    Scenario(
        name="runtime_max",
        what="RuntimeMaxSec: systemd stops the unit without a job",
        act=runtime_max,
        cause="unit-stop",
        settings="RuntimeMaxSec=8\nRestart=always",
    ),
)
