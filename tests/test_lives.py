"""Worker lives: where they begin, whose lines they are, and how they ended."""

import pytest

from builders import EVERYTHING, Journal, Memory, Unit, moment
from kill_audit.audit import partials_of
from kill_audit.timeline import Ending, History, Life, join


def history(*sources: Journal | Memory) -> History:
    """Put together what the sources say."""
    opened = [source.source() if isinstance(source, Journal) else source for source in sources]
    return join(partials_of(opened, EVERYTHING, lambda scan, items: [scan(item) for item in items]))


def endings(*sources: Journal | Memory) -> list[Ending]:
    """How each life ended, in order of their first lines."""
    return [life.end.ending for life in history(*sources).lives]


def only(*sources: Journal | Memory) -> Life:
    """The only life."""
    (life,) = history(*sources).lives
    return life


def working() -> Unit:
    """A worker with a task; the clock stands at 12:00:10."""
    unit = Journal().unit()
    unit.received("t1")
    unit.journal.at(10)
    return unit


# -- beginnings ------------------------------------------------------------------------------------------------------


def test_banner() -> None:
    """A life knows what its banner says."""
    unit = Journal().unit("celery@a.service", version="5.2.7", concurrency=4, pool="threads")
    life = only(unit.journal)
    assert (life.node, life.version, life.concurrency, life.pool, life.main_pid) == (
        unit.node,
        (5, 2, 7),
        4,
        "threads",
        100,
    )
    assert life.host == "web1"


def test_restart() -> None:
    """Each run of a unit is a life."""
    unit = working()
    unit.succeeded("t1", 1)
    unit.warm()
    unit.systemd.succeeded()
    unit.starts(500)
    assert [(life.main_pid, life.end.ending) for life in history(unit.journal).lives] == [
        (100, Ending.ORDERLY),
        (500, Ending.RUNNING),
    ]


def test_reexec() -> None:
    """A SIGHUP re-exec is a new life under the same pid and the same run of the unit."""
    unit = working()
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    unit.succeeded("t1", 1)
    unit.journal.at(15)
    unit.starts(anew=False)
    lives = history(unit.journal).lives
    assert [(life.main_pid, life.end.ending) for life in lives] == [(100, Ending.ORDERLY), (100, Ending.RUNNING)]
    assert lives[0].group == lives[1].group


def test_pid_that_comes_again() -> None:
    """The same pid in another run of the unit is another process."""
    unit = working()
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    unit.journal.at(20)
    unit.starts(100)
    assert endings(unit.journal) == [Ending.KILLED, Ending.RUNNING]


def test_two_files() -> None:
    """A life goes on from one file to the next, wherever that begins."""
    unit = working()
    unit.received("t2")
    entries = unit.journal.source().entries
    life = only(Memory(name="old", entries=entries[:4]), Memory(name="new", entries=entries[4:]))
    assert [run.task_id for run in life.runs] == ["t1", "t2"]
    assert life.node == unit.node


def test_several_nodes_in_one_unit() -> None:
    """`celery multi` runs several workers in one unit: each is a life of its own."""
    journal = Journal()
    unit = journal.unit("celery.service", main=100)
    other = Unit(journal, "celery.service", main=200, starts=False)
    other.runs, other.node = 1, "w2@web1"
    other.starts(anew=False)
    unit.received("t1")
    other.received("t2")
    runs = {life.node: [run.task_id for run in life.runs] for life in history(journal).lives}
    assert runs == {unit.node: ["t1"], "w2@web1": ["t2"]}


def test_children_are_no_lives() -> None:
    """A pool process that writes as if it were the main process begins no life."""
    unit = working()
    unit.bare("[2026-11-30 12:00:00,000: INFO/MainProcess] evil@web1 ready.", unit.pid(1))
    unit.says("printed", child=1)
    unit.exited(1)
    unit.lost(0)
    assert [life.main_pid for life in history(unit.journal).lives] == [100]


def test_old_journald() -> None:
    """Before v244 journald names the main process for its children's lines: one life, all the same."""
    unit = working()
    unit.says("printed", child=1, pid=unit.main)
    unit.says("Task shop.tasks.ring[t1] succeeded in 1.0s: None", child=1, pid=unit.main)
    life = only(unit.journal)
    assert [run.end is not None for run in life.runs] in ([], [True])


def test_quiet() -> None:
    """A life of which lines were read, and none that INFO prints, hides its receipts."""
    journal = Journal()
    unit = journal.unit(starts=False)
    unit.runs = 1
    unit.bare(f" -------------- {unit.node} v5.7.0 (collider)")
    assert only(journal).quiet
    unit.ready()
    assert not only(journal).quiet


# -- ends ------------------------------------------------------------------------------------------------------------


def test_running() -> None:
    """A life of whose end nothing is known may still run."""
    life = only(working().journal)
    assert (life.end.ending, life.end.at) == (Ending.RUNNING, None)


@pytest.mark.parametrize("told", ["main exited", "failed"])
def test_killed(told: str) -> None:
    """The service manager tells that the main process was killed, by its exit or by the unit's result."""
    unit = working()
    if told == "main exited":
        unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    end = only(unit.journal).end
    assert (end.ending, end.at) == (Ending.KILLED, moment(10))
    assert end.signal == (9 if told == "main exited" else None)


def test_killed_by_a_stop() -> None:
    """A stop's SIGKILL is the first sign of the end, before the unit's result."""
    unit = working()
    unit.systemd.stopping()
    unit.warm()
    unit.journal.at(100)
    unit.systemd.timed_out()
    unit.systemd.killing(unit.main)
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("timeout")
    end = only(unit.journal).end
    assert (end.ending, end.at, end.signal) == (Ending.KILLED, moment(100), 9)


def test_warm_shutdown() -> None:
    """A warm shutdown that ends with status 0 is orderly."""
    unit = working()
    unit.systemd.stopping()
    unit.warm()
    unit.succeeded("t1", 1)
    unit.systemd.succeeded()
    unit.systemd.stopped()
    assert endings(unit.journal) == [Ending.ORDERLY]


def test_clean_signal_without_a_word() -> None:
    """SIGTERM counts as clean; a worker that printed nothing and left tasks open was killed all the same."""
    unit = working()
    unit.systemd.succeeded()
    assert endings(unit.journal) == [Ending.KILLED]


def test_exit() -> None:
    """A main process that exits by itself is no victim."""
    unit = working()
    unit.says("Unrecoverable error: KeyError('x')", level="CRITICAL")
    unit.succeeded("t1", 1)
    unit.systemd.main_exited("exited", 1)
    unit.systemd.failed("exit-code")
    end = only(unit.journal).end
    assert (end.ending, end.exit_code) == (Ending.ORDERLY, 1)


def test_cold_shutdown() -> None:
    """A cold shutdown ends with its own last line, whatever the service manager says."""
    unit = working()
    unit.bare("worker: Hitting Ctrl+C again will terminate all running tasks!")
    unit.cold()
    unit.systemd.succeeded()
    assert endings(unit.journal) == [Ending.COLD]


def test_end_in_the_next_file() -> None:
    """The service manager's word of a worker's end may stand in a file that holds no line of the worker."""
    unit = working()
    before = len(unit.journal.entries)
    unit.systemd.succeeded()
    entries = unit.journal.source().entries
    cut = Memory(name="old", entries=entries[:before]), Memory(name="new", entries=entries[before:])
    assert endings(*cut) == endings(unit.journal) == [Ending.KILLED]


def test_successor() -> None:
    """A worker of the same node that starts shows that the one before it is gone."""
    unit = working()
    unit.journal.at(60)
    unit.starts(500)
    end = history(unit.journal).lives[0].end
    assert (end.ending, end.at) == (Ending.VANISHED, moment(60))


def test_successor_of_another_node() -> None:
    """A second worker of the unit with a node name of its own is no successor."""
    journal = Journal()
    journal.unit("celery.service", main=100)
    other = Unit(journal, "celery.service", main=200, starts=False)
    other.runs, other.node = 1, "w2@web1"
    journal.at(60)
    other.starts(anew=False)
    assert endings(journal) == [Ending.RUNNING, Ending.RUNNING]


def test_boot_over() -> None:
    """A boot that another follows is over, with everything that ran in it."""
    first, second = Journal(boot=1), Journal(boot=2)
    unit = first.unit()
    unit.received("t1")
    first.at(40)
    first.chatter()
    second.at(300).chatter()
    life = only(first, second)
    assert (life.end.ending, life.end.at) == (Ending.BOOT_OVER, moment(40))


def test_another_host_s_boot() -> None:
    """Another host's boot ends nothing here."""
    here, there = Journal("web1"), Journal("web2", boot=2)
    here.unit().received("t1")
    there.at(300).chatter()
    assert endings(here, there) == [Ending.RUNNING]


def test_records_of_another_run() -> None:
    """The service manager's records of another run of the unit end nothing."""
    unit = working()
    other = Unit(unit.journal, unit.name, starts=False)
    other.runs = 7
    other.systemd.failed("signal")
    assert endings(unit.journal) == [Ending.RUNNING]


def test_boots() -> None:
    """A boot lasts from its first entry to its last, in whatever source, and is over when another follows."""
    first, second = Journal(boot=1), Journal(boot=2)
    first.chatter()
    first.at(40)
    first.chatter()
    second.at(300).chatter()
    boots = history(first, second).boots
    assert boots.over("machine-web1", "boot-web1-1") == moment(40)
    assert boots.over("machine-web1", "boot-web1-2") is None
