"""Scenarios in which received is not begun (prefetch, ETA, retries, rate limits), and of other pools than prefork."""

import signal

from .deploys import restart_busy
from .scenario import Scenario
from .stage import LONG, Stage, order


def prefetch_restart(stage: Stage) -> None:
    """Restart a worker with two running tasks and four that wait: those are handed back and run later."""
    stage.start("a")
    ids = stage.send(*[order("sleepy", LONG)] * 2, *[order("sleepy", 1)] * 4)
    running = stage.running(*ids[:2])
    stage.line("a", ids[-1])
    stage.restart("a")
    stage.gone(*running)
    stage.finished(*ids[2:])


def prefetch_child(stage: Stage) -> None:
    """Kill one child while others of the same name run and wait."""
    stage.start("a")
    ids = stage.send(order("sleepy", 8), order("sleepy", LONG), *[order("sleepy", 1)] * 3)
    killed = stage.running(*ids[:2])[1]
    stage.line("a", ids[-1])
    stage.kill(killed.process, signal.SIGKILL)
    stage.gone(killed)
    stage.loss("a")
    stage.finished(ids[0], *ids[2:])


def eta_restart(stage: Stage) -> None:
    """Restart while one task runs and two wait for their time."""
    stage.start("a")
    ids = stage.send(order("sleepy", 1, countdown=15), order("late", 1, countdown=16), order("sleepy", LONG))
    running = stage.running(ids[2])
    stage.restart("a")
    stage.gone(*running)
    stage.finished(*ids[:2])


def eta_child(stage: Stage) -> None:
    """Kill one child while older tasks wait for their time: they have no number in the pool yet."""
    stage.start("a")
    ids = stage.send(
        order("sleepy", 1, countdown=10), order("sleepy", 1, countdown=11), order("sleepy", LONG), order("sleepy", 5)
    )
    killed = stage.running(*ids[2:])[0]
    stage.kill(killed.process, signal.SIGKILL)
    stage.gone(killed)
    stage.loss("a")
    stage.finished(*ids[:2], ids[3])


def retries(stage: Stage) -> None:
    """Restart while the third try of a task runs."""
    stage.start("a")
    [task] = stage.send(order("retrying", LONG))
    third = stage.running(task, times=3)
    stage.restart("a")
    stage.gone(*third)


def rate_limit(stage: Stage) -> None:
    """Kill a child whose task began before an older one that its rate limit held back."""
    stage.start("a")
    ids = stage.send(order("limited", 6), order("limited", 2), order("sleepy", LONG))
    killed = stage.running(ids[2])[0]
    stage.kill(killed.process, signal.SIGKILL)
    stage.gone(killed)
    stage.loss("a")
    stage.finished(*ids[:2])


def autoscale(stage: Stage) -> None:
    """Let the pool grow and shrink, which kills nothing; then kill a busy child."""
    stage.start("a")
    stage.finished(*stage.send(*[order("sleepy", 4)] * 3))
    stage.line("a", "Scaling down")
    [run] = stage.running(*stage.send(order("sleepy", LONG)))
    stage.kill(run.process, signal.SIGKILL)
    stage.gone(run)
    stage.loss("a")


def single_process(stage: Stage) -> None:
    """Kill a worker without children, busy with one task, while another waits."""
    stage.start("a")
    ids = stage.send(order("sleepy", LONG), order("sleepy", LONG))
    running = stage.running(ids[0])
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGKILL)
    stage.gone(*running)


def several_in_one(stage: Stage) -> None:
    """Kill a worker whose tasks all run in its main process; one more waits."""
    stage.start("a")
    ids = stage.send(order("sleepy", LONG), order("late", LONG), order("sleepy", LONG))
    running = stage.running(*ids[:2])
    stage.line("a", ids[-1])
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGKILL)
    stage.gone(*running)


def visibility(stage: Stage) -> None:
    """Kill a worker with a late task: the broker delivers it again when its visibility timeout is over."""
    stage.start("a")
    [task] = stage.send(order("late", 8))
    first = stage.running(task)
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGKILL)
    stage.gone(*first)
    stage.running(task, times=2, timeout=240)
    stage.finished(task)


def twice(stage: Stage) -> None:
    """Let a late task outlive the visibility timeout while all is well: it runs twice and nobody dies."""
    stage.start("a")
    [task] = stage.send(order("late", 130))
    stage.running(task, times=2, timeout=240)
    stage.finished(task, timeout=240, times=2)


SCENARIOS = (
    Scenario(
        name="prefetch_restart",
        what="a restart with 2 running and 4 prefetched tasks: the prefetched ones are handed back, not killed",
        act=prefetch_restart,
        cause="unit-stop",
    ),
    Scenario(
        name="prefetch_child",
        what="SIGKILL of one child while others of the same name run and wait: only one was killed",
        act=prefetch_child,
    ),
    Scenario(
        name="eta_restart",
        what="a restart while one task runs and two wait for their countdown: only the running one is killed",
        act=eta_restart,
        cause="unit-stop",
        idle=1,
    ),
    Scenario(
        name="eta_child",
        what="SIGKILL of one child while two older tasks wait for their countdown: they shift the pool's numbers",
        act=eta_child,
    ),
    Scenario(
        name="retries", what="a restart cuts off the third try of a task", act=retries, cause="unit-stop", idle=1
    ),
    Scenario(
        name="rate_limit",
        what="SIGKILL of a child whose task began before an older one that a rate limit held back",
        act=rate_limit,
        options="-c 3 -l INFO",
    ),
    Scenario(
        name="autoscale",
        what="--autoscale grows and shrinks the pool, which kills nothing; later one busy child is killed",
        act=autoscale,
        options="--autoscale=3,1 -l INFO",
        environment="AUTOSCALE_KEEPALIVE=3",
    ),
    Scenario(
        name="solo_main",
        what="SIGKILL of a solo worker: the one running task dies, the waiting one had not begun",
        act=single_process,
        options="-P solo -l INFO",
        settings="Restart=always",
    ),
    Scenario(
        name="threads_main",
        what="SIGKILL of a threads worker with two threads busy: two tasks die, the waiting one had not begun",
        act=several_in_one,
        options="-P threads -c 2 -l INFO",
        settings="Restart=always",
    ),
    Scenario(
        name="threads_timeout",
        what="a restart of a threads worker that drains too slowly",
        act=restart_busy,
        cause="stop-timeout",
        options="-P threads -c 2 -l INFO",
        settings="TimeoutStopSec=3",
    ),
    Scenario(
        name="gevent_timeout",
        what="a restart of a gevent worker that drains too slowly",
        act=restart_busy,
        cause="stop-timeout",
        options="-P gevent -c 10 -l INFO",
        settings="TimeoutStopSec=3",
        celeries=("5.7",),
    ),
    Scenario(
        name="visibility",
        what="SIGKILL of the main process with a late task: delivered again when kombu's sweep (every 100 s) finds it",
        act=visibility,
        settings="Restart=always",
        environment="SHOP_VISIBILITY=10",
        celeries=("5.7",),
    ),
    Scenario(
        name="visibility_twice",
        what="a late task outlives the visibility timeout and is delivered again while healthy: no kill, a duplicate",
        act=twice,
        environment="SHOP_VISIBILITY=10",
        celeries=("5.7",),
    ),
)
