"""Naming the task of a nameless loss: the ladder of ways, and when nobody is named."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, SECOND, TASK, Journal, Unit, audited, recognised
from kill_audit.document import Kill
from kill_audit.events import Line, TaskLost
from kill_audit.timeline.lives import Life
from kill_audit.timeline.naming import Loss, Surroundings, name_losses
from kill_audit.timeline.partial import End, Group, Mark, Run


def kills(unit: Unit) -> tuple[Kill, ...]:
    """The kills of a scene, in order of time."""
    return audited(unit.journal).kills


def names(unit: Unit) -> list[tuple[str | None, str]]:
    """Each kill's task and how it was named, in order of time."""
    return [(kill.task.id, kill.task.how) for kill in kills(unit)]


def running(*ids: str, concurrency: int = 2, version: str = "5.7.0") -> Unit:
    """A worker that received tasks at noon; the clock stands at 12:00:10."""
    unit = Journal().unit(concurrency=concurrency, version=version)
    unit.received(*ids)
    unit.journal.at(10)
    return unit


# -- the ladder ------------------------------------------------------------------------------------------------------


def test_line() -> None:
    """A hard time limit's line names its task, whatever the numbers say."""
    unit = running("t1", "t2")
    unit.says("Task handler raised error: TimeLimitExceeded(9)", level="ERROR")
    unit.says(f"Hard time limit (9s) exceeded for {TASK}[t2]", level="ERROR")
    unit.journal.at(12)
    unit.exited(1)
    assert names(unit) == [("t2", "line")]
    assert kills(unit)[0].child_pid == 101


def test_accepted() -> None:
    """Where DEBUG lines tell which process took which task, the dead process's task is named by that."""
    unit = running()
    unit.received("t1", "t2")
    unit.accepted("t1", 2)
    unit.accepted("t2", 1)
    unit.journal.at(20)
    unit.dies(2, 0)
    assert names(unit) == [("t1", "accepted")]
    assert kills(unit)[0].started_at is not None


def test_accepted_before_job() -> None:
    """What a process was seen to take holds against the numbers."""
    unit = running("t1", "t2")
    unit.accepted("t1", 1)
    unit.accepted("t2", 2)
    unit.dies(2, 0)
    assert names(unit) == [("t2", "accepted")]


def test_process() -> None:
    """The task whose last unfinished line is the dead process's own is the one."""
    unit = running("t1", "t2")
    unit.speaks("t2", 1)
    unit.speaks("t1", 2)
    unit.dies(2, 0)
    assert names(unit) == [("t1", "process")]
    assert kills(unit)[0].task.confidence == "high"


def test_process_finished_before() -> None:
    """A task that the dead process had finished is not the one, though it wrote the last line that names a task."""
    unit = running("t1", "t2", "t3")
    unit.speaks("t1", 1)
    unit.succeeded("t1", 1, 10)
    unit.journal.at(30)
    unit.succeeded("t2", 2, 30)
    unit.dies(1, 2)
    assert names(unit) == [("t3", "job")]


def test_job() -> None:
    """`Job: N` is the N-th task received, counted from 0, where only that one can be meant."""
    unit = running("t1", "t2", "t3")
    unit.succeeded("t1", 1, 10)
    unit.journal.at(20)
    unit.succeeded("t2", 2, 20)
    unit.dies(1, 2)
    assert names(unit) == [("t3", "job")]
    assert (kills(unit)[0].job, kills(unit)[0].task.confidence) == (2, "high")


def test_job_counts_from_the_life_s_start() -> None:
    """The numbers begin anew with each life of the worker."""
    unit = running("t1", "t2", "t3")
    for task_id in ("t1", "t2", "t3"):
        unit.succeeded(task_id, 1, 1)
    unit.warm()
    unit.journal.at(20)
    unit.systemd.succeeded()
    unit.starts(300)
    unit.received("t4", "t5")
    unit.journal.at(30)
    unit.succeeded("t4", 1, 9)
    unit.dies(2, 1)
    assert names(unit) == [("t5", "job")]


def test_elimination() -> None:
    """Without numbers, the only task received and not ended is the one."""
    unit = running("t1", "t2", version="4.1.1")
    unit.succeeded("t1", 1, 10)
    unit.dies(2, None)
    assert names(unit) == [("t2", "elimination")]


def test_none() -> None:
    """Where two tasks may be meant and nothing tells them apart, nobody is named and both are listed."""
    unit = running("t1", "t2", version="4.1.1")
    unit.dies(2, None)
    (kill,) = kills(unit)
    assert (kill.task.id, kill.task.name, kill.task.how, kill.task.confidence) == (None, None, "none", None)
    assert sorted(one.id or "" for one in kill.task.candidates) == ["t1", "t2"]
    assert kill.child_pid == 102


def test_no_receipts() -> None:
    """At log level WARNING no receipt is printed: a loss is a kill that names nobody, and says why."""
    unit = Journal().unit(starts=False)
    unit.runs = 1
    unit.bare(f" -------------- {unit.node} v5.7.0 (collider)")
    unit.bare("- *** --- * --- .> concurrency: 2 (prefork)")
    unit.journal.at(10)
    unit.dies(2, 4)
    (kill,) = kills(unit)
    assert (kill.task.how, kill.task.candidates) == ("none", ())
    assert any("log level" in reason for reason in kill.reasons)


# -- numbers that may be shifted -------------------------------------------------------------------------------------


def test_two_numberings() -> None:
    """Two numberings that fit and differ name nobody: the older task may be waiting for an ETA that is not shown."""
    unit = running("t1", "t2", "t3")
    unit.succeeded("t1", 1, 10)
    unit.dies(1, 1)
    (kill,) = kills(unit)
    assert kill.task.id is None
    assert {one.id for one in kill.task.candidates} == {"t2", "t3"}


def test_later_line_settles_it() -> None:
    """A line after the death can settle it: the other task ends, so it was not the one."""
    unit = running("t1", "t2", "t3")
    unit.succeeded("t1", 1, 10)
    unit.dies(1, 1)
    unit.journal.at(60)
    unit.succeeded("t3", 2, 50)
    assert names(unit) == [("t2", "job")]


def test_hidden_eta() -> None:
    """A task that waits unseen for its ETA (5.1 and later) shifts the numbers of those behind it, and is not named."""
    unit = running("waits", "t2", "t3")
    unit.succeeded("t2", 1, 10)
    unit.dies(2, 1)
    assert names(unit) == [("t3", "job")]
    unit.journal.at(600)
    unit.succeeded("waits", 1, 5)
    assert [kill.task.id for kill in kills(unit)] == ["t3"]


def test_number_below_every_task() -> None:
    """A number that no unfinished task can have had names nobody: that task had its end where lines are missing."""
    unit = running("t1", "t2", "t3")
    unit.succeeded("t1", 1, 10)
    unit.succeeded("t2", 2, 10)
    unit.dies(2, 0)
    assert names(unit) in ([(None, "none")], [("t3", "elimination")])


def test_eta_shown() -> None:
    """A task whose line shows an ETA to come cannot be the one."""
    unit = Journal().unit(version="4.4.7")
    unit.received_old("waits", eta=600)
    unit.received_old("t2")
    unit.journal.at(10)
    unit.dies(1, 0)
    assert names(unit) == [("t2", "job")]


def test_eta_due() -> None:
    """A task whose shown ETA has come takes its number then."""
    unit = Journal().unit(version="4.4.7", concurrency=1)
    unit.received_old("waits", eta=60)
    unit.received_old("t2")
    unit.journal.at(30)
    unit.succeeded("t2", 1, 29)
    unit.journal.at(61)
    unit.received_old("t3")
    unit.journal.at(90)
    unit.succeeded("waits", 1, 30)
    unit.dies(1, 2)
    assert names(unit) == [("t3", "job")]


def test_retry_due() -> None:
    """A retried message takes a new number when its countdown is over."""
    unit = running("t1", "t2", concurrency=1)
    unit.retries("t1", 1, 30)
    unit.received("t1")
    unit.journal.at(20)
    unit.succeeded("t2", 1, 10)
    unit.journal.at(50)
    unit.dies(1, 2)
    assert names(unit) == [("t1", "job")]
    assert kills(unit)[0].deliveries == 2


def test_discarded() -> None:
    """A discarded task takes no number."""
    unit = running("t1", "t2", "t3", "t4")
    unit.succeeded("t1", 1, 10)
    unit.says(f"Discarding revoked task: {TASK}[t2]")
    unit.journal.at(20)
    unit.succeeded("t3", 1, 10)
    unit.dies(2, 2)
    assert names(unit) == [("t4", "job")]


def test_suppressed_lines() -> None:
    """Where lines of the worker are missing, numbers and elimination name nobody."""
    unit = running("t1", "t2")
    unit.succeeded("t1", 1, 10)
    unit.journal.at(40)
    unit.journal.suppressed(unit.name)
    unit.dies(2, 1)
    (kill,) = kills(unit)
    assert (kill.task.id, kill.task.how) == (None, "none")
    assert [one.id for one in kill.task.candidates] == ["t2"]
    assert any("missing" in reason for reason in kill.reasons)


def test_process_holds_with_lines_missing() -> None:
    """A process's own line names its task also where other lines are missing."""
    unit = running("t1", "t2")
    unit.speaks("t2", 2)
    unit.journal.at(40)
    unit.journal.suppressed(unit.name)
    unit.dies(2, 1)
    assert names(unit) == [("t2", "process")]


def test_start_not_read() -> None:
    """Where the life's start was not read, its numbers are not known: `job` names nobody."""
    unit = Journal().unit(starts=False)
    unit.runs = 1
    unit.received("t1", "t2")
    unit.journal.at(10)
    unit.dies(1, 1)
    (kill,) = kills(unit)
    assert kill.task.how == "none"


# -- several losses of one event -------------------------------------------------------------------------------------


def test_exits_of_one_pass() -> None:
    """Exits of one maintenance pass are not paired with losses by their order: pid and task are settled, or null."""
    unit = running("t1", "t2")
    unit.exited(2)
    unit.exited(1)
    unit.lost(0)
    unit.lost(1)
    found = kills(unit)
    assert [(kill.task.id, kill.task.how) for kill in found] == [("t1", "job"), ("t2", "job")]
    assert [kill.child_pid for kill in found] == [None, None]


def test_exits_of_one_pass_that_spoke() -> None:
    """Lines of the processes settle which of the exits is whose."""
    unit = running("t1", "t2")
    unit.speaks("t1", 1)
    unit.speaks("t2", 2)
    unit.journal.at(20)
    unit.exited(2)
    unit.exited(1)
    unit.lost(0)
    unit.lost(1)
    assert {(kill.task.id, kill.child_pid) for kill in kills(unit)} == {("t1", 101), ("t2", 102)}


def test_exits_at_different_times() -> None:
    """An exit and the loss that follows it at once are one death, though another death comes seconds later."""
    unit = running("t1", "t2")
    unit.dies(2, 1)
    unit.journal.at(20)
    unit.dies(1, 0)
    assert [(kill.task.id, kill.child_pid) for kill in kills(unit)] == [("t2", 102), ("t1", 101)]


def test_prefetched_are_not_named() -> None:
    """When all processes die, the tasks that waited in the worker are handed back and not named."""
    unit = running("t1", "t2", "t3", "t4")
    unit.systemd.stopping()
    unit.warm()
    unit.exited(1, 15)
    unit.lost(0, 15)
    unit.exited(2, 15)
    unit.lost(1, 15)
    unit.restores(2)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    unit.journal.at(20)
    unit.starts(300)
    unit.received("t3", "t4")
    assert [kill.task.id for kill in kills(unit)] == ["t1", "t2"]


def test_hand_backs_choose_a_numbering() -> None:
    """Of two numberings the one that leaves only tasks handed back is taken."""
    unit = running("t1", "t2", "t3")
    unit.succeeded("t1", 1, 10)
    unit.systemd.stopping()
    unit.warm()
    unit.exited(1, 15)
    unit.exited(2, 15)
    unit.lost(1, 15)
    unit.restores(1)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    unit.journal.at(20)
    unit.starts(300)
    unit.received("t3")
    assert [kill.task.id for kill in kills(unit)] == ["t2"]


def test_idle_exits_forbid_a_shift() -> None:
    """Where idle processes died in the same stop no task waited for a free one: whoever is older waits for an ETA."""
    unit = running("waits", "t2", concurrency=3)
    unit.systemd.stopping()
    unit.warm()
    for child in (1, 2, 3):
        unit.exited(child, 15)
    unit.lost(0, 15)
    unit.restores(1)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    document = audited(unit.journal)
    assert [kill.task.id for kill in document.kills] in (["t2"], [None])
    assert len(document.idle_deaths) == 2


def test_same_name_many_times() -> None:
    """Eight tasks of one name on eight processes that die together: each id is named once."""
    ids = [f"t{number}" for number in range(8)]
    unit = running(*ids, concurrency=8)
    for child in range(8, 0, -1):
        unit.exited(child, 15)
    for job in range(8):
        unit.lost(job, 15)
    assert [kill.task.id for kill in kills(unit)] == ids


def wide(processes: int) -> Unit:
    """A restart that kills all of many processes, while as many tasks wait in the worker."""
    ids = [f"t{number}" for number in range(2 * processes)]
    unit = running(*ids, concurrency=processes)
    unit.systemd.stopping()
    unit.warm()
    for child in range(processes, 0, -1):
        unit.exited(child, 15)
    for job in range(processes):
        unit.lost(job, 15)
    unit.restores(processes)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    return unit


def calls(function: Callable[[], object]) -> int:
    """How many functions are called while one runs."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_work_of_naming() -> None:
    """With eight times as many processes and tasks an audit calls at most 40 times as many functions."""
    few, many = wide(4), wide(32)
    assert calls(lambda: audited(many.journal)) < 40 * calls(lambda: audited(few.journal))


def test_wide_deploy_hands_back() -> None:
    """Of 200 processes that die with 800 tasks waiting each task is named, if all that waited was handed back."""
    ids = [f"t{number}" for number in range(1000)]
    unit = running(*ids, concurrency=200)
    unit.systemd.stopping()
    unit.warm()
    for child in range(200, 0, -1):
        unit.exited(child, 15)
    for job in range(200):
        unit.lost(job, 15)
    unit.restores(800)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    assert {kill.task.id for kill in kills(unit)} == {None}
    unit.journal.at(20)
    unit.starts(5000)
    unit.received(*ids[200:])
    assert [kill.task.id for kill in kills(unit)] == ids[:200]


# -- every numbering, spelled out ------------------------------------------------------------------------------------

GROUP = Group("m", "b", "celery@a.service", "i")


def run_at(number: int | None, order: int, state: str) -> Run:
    """A run that is open, spoke on a process, ended after the losses, or was handed back."""
    mark, late = Mark(NOON + order, "", ""), Mark(NOON + 60 * SECOND, "", "")
    end = End(
        group=GROUP,
        task_id=str(order),
        task_name=TASK,
        kind=Line.SUCCEEDED,
        mark=late,
        pid=1,
        process="",
        runtime_s=None,
    )
    return Run(
        group=GROUP,
        main_pid=1,
        task_id=str(order),
        task_name=TASK,
        received=mark,
        number=number,
        order=order,
        spoke=mark if state == "spoke" else None,
        end=end if state == "ended" else None,
    )


def life_of(runs: Sequence[Run], version: tuple[int, ...]) -> Life:
    """A numbered life with these runs."""
    return Life(
        group=GROUP,
        main_pid=1,
        host="web1",
        started=None,
        ready_at=None,
        node=None,
        version=version,
        concurrency=None,
        pool=None,
        first_at=NOON,
        last=Mark(NOON + 60 * SECOND, "", ""),
        receipts=len(runs),
        drained=0,
        recycled=0,
        informed=True,
        numbered=True,
        vouched=True,
        runs=tuple(runs),
    )


def numberings(jobs: Sequence[int], around: Surroundings) -> Iterator[tuple[Run, ...]]:
    """Every assignment of ascending jobs to runs that some set of unseen waits explains, one by one."""
    numbered = [run for run in around.life.runs if run.number is not None]
    for way in permutations([run for run in numbered if run.end is None], len(jobs)):
        highest = [run.number or 0 for run in way]
        shifts = [number - job for number, job in zip(highest, jobs, strict=True)]
        waits = [run.number or 0 for run in numbered if run.spoke is None and run not in way]
        held = [sum(other < number for other in waits) for number in highest]
        rises = zip(zip([0, *shifts], shifts, strict=False), zip([0, *held], held, strict=False), strict=True)
        if (
            highest == sorted(highest)
            and (not around.idle_exits or shifts == held)
            and (not around.life.version < (5, 1) or not any(shifts))
            and all(0 <= after - before <= now - then for (before, after), (then, now) in rises)
        ):
            yield way


@given(data=st.data())
def test_numberings(data: st.DataObject) -> None:
    """`job` names exactly where one numbering fits, or one of those that leave only what was handed back."""
    numbers = sorted(data.draw(st.sets(st.integers(0, 9), min_size=1, max_size=7)))
    states = [data.draw(st.sampled_from(["open", "open", "spoke", "ended", "back"])) for _ in numbers]
    waiting = data.draw(st.booleans())
    runs = [run_at(number, order, state) for order, (number, state) in enumerate(zip(numbers, states, strict=True))]
    runs += [run_at(None, len(runs), "open")] if waiting else []
    jobs = sorted(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=min(3, len(numbers)))))
    around = Surroundings(
        life=life_of(runs, data.draw(st.sampled_from([(5, 7, 0), (5, 7, 0), (4, 4, 7)]))),
        claimed=(),
        handed_back=frozenset(id(run) for run, state in zip(runs, states, strict=False) if state == "back"),
        restored=data.draw(st.sampled_from([None, 1])),
        idle_exits=data.draw(st.booleans()),
        gaps=False,
    )
    ways = list(numberings(jobs, around))
    still = [run for run in runs if run.end is None]
    back = [
        way
        for way in ways
        if around.restored
        and len(still) > len(way)
        and all(id(run) in around.handed_back for run in still if run not in way)
    ]
    ways = back or ways
    unit = Journal().unit()
    unit.journal.at(10)
    order = data.draw(st.permutations(range(len(jobs))))
    lost = [event for place in order for event in recognised(unit.lost(jobs[place])) if isinstance(event, TaskLost)]
    found = name_losses([Loss(event=event) for event in lost], around)
    assert [one.how == "job" for one in found] == [len(ways) == 1] * len(jobs)
    if len(ways) == 1 and len(set(jobs)) == len(jobs):
        assert [one.run for one in found] == [ways[0][place] for place in order]


# -- what a loss may not take ----------------------------------------------------------------------------------------


def test_task_on_another_process() -> None:
    """A task seen at work on a process that lives is not the one."""
    unit = running("t1", "t2", version="4.1.1")
    unit.speaks("t1", 1)
    unit.dies(2, None)
    assert [kill.task.id for kill in kills(unit)] == ["t2"]


def test_received_after_the_death() -> None:
    """A task received after the death is not the one."""
    unit = running("t1", version="4.1.1")
    unit.dies(1, None)
    unit.journal.at(30)
    unit.received("t2")
    assert [kill.task.id for kill in kills(unit)] == ["t1"]


def test_other_units() -> None:
    """Tasks of another unit, or of another host's unit of the same name, are never named."""
    journal, other = Journal("web1"), Journal("web2")
    a, b, c = journal.unit(), journal.unit("celery@b.service", main=300), other.unit()
    b.received("b1")
    c.received("c1")
    a.received("a1")
    journal.at(10)
    a.dies(1, 0)
    assert [kill.task.id for kill in audited(journal, other).kills] == ["a1"]


@pytest.mark.parametrize("version", ["4.1.1", "4.4.7", "5.7.0"])
def test_one_of_one(version: str) -> None:
    """With one task unfinished, a loss is its, in every version."""
    unit = running("t1", concurrency=1, version=version)
    unit.dies(1, 0 if version >= "4.4" else None)
    assert [kill.task.id for kill in kills(unit)] == ["t1"]
