"""Workers whose processes the journal does not number: in containers, and in text files."""

from collections.abc import Callable

import pytest

from builders import CONTAINER, ContainerUnit, Entry, Journal, Unit, audited

CGROUPS = {
    "docker, systemd": f"/system.slice/docker-{CONTAINER}.scope",
    "docker, cgroupfs": f"/docker/{CONTAINER}",
    "podman": f"/machine.slice/libpod-{CONTAINER}.scope",
    "kubernetes": f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{CONTAINER}.scope",
}


class TextUnit(Unit):
    """A worker's log file, whose lines have no pids."""

    def bare(self, text: str, pid: int | None = None) -> Entry:
        """Print a line as it is."""
        del pid
        return super().bare(text, 0)


WORKERS: dict[str, Callable[[], Unit]] = {
    "container": lambda: ContainerUnit(Journal(), concurrency=1),
    "text": lambda: TextUnit(Journal(vouched=False), concurrency=1),
}


def test_child() -> None:
    """The container's name stands for the unit, and pids are the container's own."""
    unit = ContainerUnit(Journal(), concurrency=1)
    unit.received("t1")
    unit.journal.at(10)
    unit.dies(6, 0)
    (kill,) = audited(unit.journal).kills
    assert (kill.unit, kill.main_pid, kill.child_pid, kill.task.id) == ("shop_worker_1", None, 7, "t1")


def test_cause_without_witness() -> None:
    """Without a witness the cause is unknown, as everywhere."""
    unit = ContainerUnit(Journal(), concurrency=1)
    unit.received("t1")
    unit.journal.at(10)
    unit.dies(6, 0)
    assert audited(unit.journal).kills[0].cause == "unknown"


@pytest.mark.parametrize("cgroup", CGROUPS.values(), ids=CGROUPS.keys())
def test_oom(cgroup: str) -> None:
    """The OOM killer's line is joined by the container's id in the cgroup's path, and gives the host's pid."""
    unit = ContainerUnit(Journal(), concurrency=1)
    unit.received("t1")
    unit.journal.at(10)
    unit.journal.oom(70_017, cgroup)
    unit.dies(6, 0)
    (kill,) = audited(unit.journal).kills
    assert (kill.cause, kill.child_pid, kill.host_pid) == ("oom-kernel", 7, 70_017)


def test_oom_of_another_container() -> None:
    """What the OOM killer took in another container, or on the host under the same number, is no witness."""
    unit = ContainerUnit(Journal(), concurrency=1)
    unit.received("t1")
    unit.journal.at(10)
    unit.journal.oom(70_017, f"/system.slice/docker-{'a' * 64}.scope")
    unit.journal.oom(7, "/system.slice/mysql.service", "mysqld")
    unit.dies(6, 0)
    assert audited(unit.journal).kills[0].cause == "unknown"


@pytest.mark.parametrize("make", WORKERS.values(), ids=WORKERS.keys())
def test_started_anew(make: Callable[[], Unit]) -> None:
    """A worker that starts anew without a word of an end was killed, with what it was running."""
    worker = make()
    worker.received("t1")
    worker.journal.at(60)
    worker.starts(anew=False)
    assert [kill.task.id for kill in audited(worker.journal).kills] == ["t1"]


@pytest.mark.parametrize("make", WORKERS.values(), ids=WORKERS.keys())
def test_started_anew_after_a_shutdown(make: Callable[[], Unit]) -> None:
    """A worker that said that it shuts down, drained, and starts anew lost nothing."""
    worker = make()
    worker.received("t1", "t2")
    worker.journal.at(10)
    worker.warm()
    worker.succeeded("t1", 1, 10)
    worker.restores(1)
    worker.journal.at(60)
    worker.starts(anew=False)
    worker.received("t2")
    document = audited(worker.journal)
    assert (document.kills, document.blind_deaths) == ((), ())


def test_equal_pids() -> None:
    """Two containers' processes have the same numbers, and are told apart by the containers' names."""
    journal = Journal()
    one, other = ContainerUnit(journal, "shop_worker_1"), ContainerUnit(journal, "shop_worker_2")
    one.received("t1")
    other.received("t2")
    journal.at(10)
    one.dies(6, 0)
    journal.at(20)
    other.succeeded("t2", 6, 20)
    assert [(kill.unit, kill.task.id) for kill in audited(journal).kills] == [("shop_worker_1", "t1")]
