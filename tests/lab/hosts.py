"""Scenarios around the workers: the machine goes down, the broker goes away."""

import signal

from .scenario import Scenario
from .stage import LONG, Stage, order


def reboot(stage: Stage) -> None:
    """Shut the machine down in good order with running tasks, and boot it again."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.container.power_off()
    stage.container.boot()
    stage.start("a")
    stage.gone(*running)


def power_loss(stage: Stage) -> None:
    """Cut the power with running tasks, and boot again."""
    stage.start("a")
    running = stage.running(*stage.send(order("sleepy", LONG), order("late", LONG)))
    stage.run("journalctl", "--sync")
    stage.container.pull_the_plug()
    stage.container.boot()
    stage.start("a")
    stage.gone(*running)


def broker_restart(stage: Stage) -> None:
    """Restart the broker under running tasks, which go on."""
    stage.start("a")
    ids = stage.send(order("sleepy", 8), order("late", 8))
    stage.running(*ids)
    stage.sudo("systemctl", "restart", "redis-server")
    stage.finished(*ids)


def rabbitmq(stage: Stage) -> None:
    """Kill a worker whose broker is RabbitMQ, which hands out again at once what was not acknowledged."""
    stage.run("systemctl", "start", "rabbitmq-server")
    stage.start("a")
    ids = stage.send(order("sleepy", LONG), order("late", 6), order("sleepy", 1))
    running = stage.running(*ids[:2])
    stage.line("a", ids[-1])
    with stage.again("a"):
        stage.kill(stage.main("a"), signal.SIGKILL)
    stage.gone(*running)
    stage.running(ids[1], times=2)
    stage.finished(*ids[1:])


SCENARIOS = (
    Scenario(
        name="reboot",
        what="a clean power-off with running tasks, then the next boot",
        act=reboot,
        cause="host-reboot",
    ),
    Scenario(
        name="power_loss",
        what="the power goes with running tasks; then the next boot",
        act=power_loss,
        coverage="partial",
        cause="host-reboot",
    ),
    Scenario(
        name="broker_restart",
        what="Redis is restarted under running tasks: they finish, whatever becomes of the worker",
        act=broker_restart,
        settings="Restart=always\nRestartSec=1",
    ),
    Scenario(
        name="rabbitmq",
        what="SIGKILL of a worker on RabbitMQ: the late task and the prefetched one are delivered again at once",
        act=rabbitmq,
        settings="Restart=always",
        environment="SHOP_BROKER=amqp://guest:guest@127.0.0.1:5672//",
    ),
)
