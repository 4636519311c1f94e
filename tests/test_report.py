"""The report: every number is that of the lists beside it, and only what lies in the window is in it."""

from dataclasses import replace

import pytest

from builders import EVERYTHING, NOON, TASK, Journal, Table, Unit, audited, findings, moment, row
from kill_audit.document import micros
from kill_audit.reconcile import State


def scene() -> Unit:
    """Kills at 12:00:10 and 12:01:00, an idle death at 12:00:30, and a success before a death at 12:02:00."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.speaks("t1", 1)
    unit.speaks("t2", 2)
    unit.journal.at(10)
    unit.dies(1, 0)
    unit.journal.at(30)
    unit.exited(3, 15)
    unit.journal.at(60)
    unit.dies(2, 1, 11)
    unit.received("t3")
    unit.journal.at(115)
    unit.succeeded("t3", 4, 50)
    unit.journal.at(120)
    unit.dies(4, 2)
    return unit


def test_totals() -> None:
    """The totals count what is listed."""
    totals = audited(scene().journal).totals
    assert (totals.kills, totals.idle_deaths, totals.not_losses, totals.blind_deaths) == (2, 1, 1, 0)
    assert totals.by_cause == {"crash": 1, "unknown": 1}
    assert totals.by_unit == {"celery@a.service": 2}
    assert totals.by_task == {TASK: 2}


def test_ranked() -> None:
    """Counts are ranked: the most frequent first, then by name."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job, signal in enumerate((9, 11, 11, 6, 9, 11)):
        unit.received(f"t{job}")
        unit.dies(job + 1, job, signal)
        journal.at(60 * (job + 1))
    assert list(audited(journal).totals.by_cause.items()) == [("crash", 4), ("unknown", 2)]


WINDOWS = [
    (0, 200, 2, 1, 1),
    (10, 11, 1, 0, 0),
    (10.001, 200, 1, 1, 1),
    (0, 10, 0, 0, 0),
    (30, 60, 0, 1, 0),
    (61, 200, 0, 0, 1),
]


@pytest.mark.parametrize(("since", "until", "kills", "idle", "spared"), WINDOWS)
def test_window(since: float, until: float, kills: int, idle: int, spared: int) -> None:
    """The window bounds deaths, its start in it and its end not; the evidence before it is read all the same."""
    question = replace(EVERYTHING, since=moment(since), until=moment(until))
    document = audited(scene().journal, question=question)
    assert (len(document.kills), len(document.idle_deaths), len(document.not_losses)) == (kills, idle, spared)
    assert all(kill.task.id is not None and kill.received_at is not None for kill in document.kills)


def test_after_the_window() -> None:
    """What became of a run after the window's end is seen."""
    unit = scene()
    unit.journal.at(600)
    unit.received("t1")
    question = replace(EVERYTHING, since=NOON, until=moment(20))
    (kill,) = audited(unit.journal, question=question).kills
    assert kill.fate == "redelivered"


def test_ran_for() -> None:
    """A run's time is from its start where that is shown, else from its receipt, an upper bound."""
    unit = scene()
    first, second = audited(unit.journal).kills
    assert first.started_at is None
    assert first.ran_for_s == pytest.approx(9.985, abs=0.001)
    debug = Journal().unit(concurrency=1)
    debug.received("t1")
    debug.journal.at(7)
    debug.accepted("t1", 1)
    debug.journal.at(10)
    debug.dies(1, 0)
    (kill,) = audited(debug.journal).kills
    assert (micros(str(kill.started_at)), kill.ran_for_s) == (moment(7), 3.0)
    assert second.ran_for_s is not None


def test_signal_names() -> None:
    """Signals are named as kill(1) does, whatever alias billiard prints."""
    unit = Journal().unit(concurrency=1)
    unit.received("t1")
    unit.says("Process 'ForkPoolWorker-1' pid:101 exited with 'signal 6 (SIGIOT)'")
    unit.says("Task handler raised error: WorkerLostError('Worker exited prematurely: signal 6 (SIGIOT) Job: 0.')")
    (kill,) = audited(unit.journal).kills
    assert (kill.signal, kill.signal_name) == (6, "SIGABRT")


def test_offenders() -> None:
    """Tasks by how often they were killed, with the seconds of work that were lost."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job, name in enumerate(["shop.a", "shop.b", "shop.b"]):
        unit.received(f"t{job}", name=name)
        journal.at(60 * job + 30)
        unit.dies(job + 1, job)
        journal.at(60 * job + 60)
    offenders = audited(journal).offenders
    assert [(one.task, one.kills) for one in offenders] == [("shop.b", 2), ("shop.a", 1)]
    assert offenders[1].lost_s == pytest.approx(29.985, abs=0.001)


def test_candidates() -> None:
    """Of a kill that names nobody the tasks that it may have been are listed."""
    unit = Journal().unit(version="4.1.1")
    unit.received("t1", "t2")
    unit.journal.at(10)
    unit.dies(1, None)
    (kill,) = audited(unit.journal).kills
    assert [(one.name, one.id) for one in kill.task.candidates] == [(TASK, "t1"), (TASK, "t2")]


def test_by_task_of_nobody() -> None:
    """Kills without a name are counted under the empty name, so that the counts add up."""
    unit = Journal().unit(version="4.1.1")
    unit.received("t1", "t2")
    unit.journal.at(10)
    unit.dies(1, None)
    assert audited(unit.journal).totals.by_task == {"": 1}


def test_nothing_invented() -> None:
    """What no line shows is null."""
    unit = Journal(vouched=False).unit(starts=False)
    unit.lost(None)
    (kill,) = audited(unit.journal).kills
    assert (kill.child_pid, kill.job, kill.received_at, kill.started_at, kill.ran_for_s, kill.boot_id) == (None,) * 6
    assert (kill.task.name, kill.task.id, kill.verdict, kill.deploy) == (None,) * 4


def test_deterministic() -> None:
    """The same evidence gives the same document."""
    assert findings(audited(scene().journal)) == findings(audited(scene().journal))


def test_ids_differ() -> None:
    """Two deaths that are alike but for their time, or their host, have different ids."""
    kills = audited(scene().journal).kills
    other = Journal("web2")
    unit = other.unit()
    unit.received("t1")
    unit.speaks("t1", 1)
    other.at(10)
    unit.dies(1, 0)
    assert len({*(kill.id for kill in kills), *(kill.id for kill in audited(other).kills)}) == 3


def test_order() -> None:
    """Kills stand in order of time."""
    times = [kill.at for kill in audited(scene().journal).kills]
    assert times == sorted(times)


def test_verdicts_in_totals() -> None:
    """The headline counts missing and stuck runs."""
    totals = audited(scene().journal, run_log=Table(rows=[row("t1", State.OPEN, 1)])).totals
    assert (totals.stuck, totals.missing, totals.by_verdict) == (1, 1, {"missing": 1, "stuck": 1})
