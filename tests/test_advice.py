"""What would have saved the killed runs, with numbers only where the evidence gives them."""

import pytest

from builders import Journal, Unit, audited
from kill_audit.document import Advice


def advice(unit: Unit) -> Advice:
    """The advice of a scene."""
    return audited(unit.journal).advice


def running(history: tuple[float, ...] = (), concurrency: int = 1) -> Unit:
    """A worker with a history of run times; t1 was received at 12:16:40, and it is 12:16:50 now."""
    unit = Journal().unit(concurrency=concurrency)
    for number, seconds in enumerate(history):
        unit.received(f"h{number}")
        unit.succeeded(f"h{number}", 1, seconds)
    unit.journal.at(1000)
    unit.received("t1")
    unit.journal.at(1010)
    return unit


def killed_by_stop(unit: Unit) -> Unit:
    """A restart with KillMode=control-group, which kills the task received last."""
    received = sum((entry.message or "").endswith("received") for entry in unit.journal.entries)
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, received - 1, 15)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    return unit


def test_nothing_to_say() -> None:
    """Without kills there is no advice."""
    unit = running()
    unit.succeeded("t1", 1, 10)
    assert advice(unit) == Advice(drain=(), units=())


@pytest.mark.parametrize(
    ("history", "timeout_s"), [((20.0,), 30), ((60.0, 2.0), 60), ((80.0,), 90), ((200.0,), 300), ((5000.0,), 7200)]
)
def test_drain(history: tuple[float, ...], timeout_s: int) -> None:
    """A run that had run 10 s needed the rest of its task's longest: the smallest common time-out is named."""
    unit = killed_by_stop(running(history))
    assert [(one.unit, one.timeout_s, one.saved, one.of) for one in advice(unit).drain] == [
        ("celery@a.service", timeout_s, 1, 1)
    ]


def test_no_history() -> None:
    """Without a finished run of the task no number is given."""
    assert [(one.saved, one.of) for one in advice(killed_by_stop(running())).drain] == [(None, 1)]


def test_longer_than_ever() -> None:
    """A run that had run longer than any before gives no number."""
    assert [one.saved for one in advice(killed_by_stop(running((3.0,)))).drain] == [None]


def test_history_of_another_unit() -> None:
    """Where the unit itself has no history of the task, another unit's is taken."""
    journal = Journal()
    other, unit = journal.unit("celery@b.service", main=300), journal.unit(concurrency=1)
    other.received("h1")
    other.succeeded("h1", 1, 20)
    journal.at(1000)
    unit.received("t1")
    journal.at(1010)
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, 0, 15)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    assert [(one.unit, one.saved) for one in advice(unit).drain] == [("celery@a.service", 1)]


def problems(unit: Unit) -> list[tuple[str, str]]:
    """The settings advised, by problem."""
    return [(one.problem, one.setting) for one in advice(unit).units]


def test_kill_mode() -> None:
    """Pool processes that die of the stop's SIGTERM: KillMode=mixed."""
    assert problems(killed_by_stop(running())) == [("stop-signals-pool-processes", "KillMode")]


def test_stop_timeout() -> None:
    """A stop that ran out of time: a longer TimeoutStopSec."""
    unit = running()
    unit.systemd.stopping()
    unit.warm()
    unit.journal.at(1100)
    unit.systemd.timed_out()
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("timeout")
    unit.systemd.stopped()
    assert problems(unit) == [("stop-timeout-too-short", "TimeoutStopSec")]


def test_oom_policy() -> None:
    """Bystanders of an OOM kill: OOMPolicy=continue."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.journal.at(60)
    unit.journal.oom(101, "/system.slice/celery@a.service")
    unit.systemd.out_of_memory()
    unit.dies(1, 0)
    unit.warm()
    unit.dies(2, 1, 15)
    unit.systemd.failed("oom-kill")
    assert problems(unit) == [("oom-stops-the-unit", "OOMPolicy")]


def test_crash() -> None:
    """No setting of the unit saves a task from its own fault."""
    unit = running()
    unit.dies(1, 0, 11)
    assert advice(unit) == Advice(drain=(), units=())
