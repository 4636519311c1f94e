"""Deploy windows: stops and restarts that belong together, and what happened in them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import DAY, EVERYTHING, NOON, SECOND, Journal, Manager, Unit, audited, moment, one_by_one
from kill_audit.audit import examine, partials_of
from kill_audit.deploys import Marked
from kill_audit.document import Deploy, micros
from kill_audit.entry import MarkRule


def restart(unit: Unit, *, kills: bool = False, job_type: str = "restart", main: int = 500) -> None:
    """Stop the unit and start it again; with `kills` one process dies in it."""
    unit.systemd.stopping()
    unit.warm()
    if kills:
        unit.dies(1, 0, 15)
    unit.systemd.succeeded()
    unit.systemd.stopped(job_type)
    unit.starts(main)
    unit.systemd.started()


def deploys(*journals: Journal) -> tuple[Deploy, ...]:
    """The deploy windows."""
    return audited(*journals).deploys


def test_restart() -> None:
    """A restart is a window from its "Stopping" to its "Stopped", labelled with its time."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    restart(unit)
    (deploy,) = deploys(journal)
    assert (micros(deploy.since), deploy.units, deploy.kills) == (moment(60), ("celery@a.service",), 0)
    assert moment(60) <= micros(deploy.until) <= moment(61)
    assert deploy.label == "2026-11-30 12:01 UTC"


def test_restart_of_a_silent_worker() -> None:
    """What a quiet worker of Celery 4.4 says first comes some time after it was told to stop, and its banner last."""
    journal = Journal()
    unit = journal.unit(starts=False, version="4.4.7")
    unit.runs = 1
    unit.systemd.started()
    journal.at(60)
    unit.systemd.stopping()
    journal.at(61)
    unit.warm()
    unit.dies(1, 0, 15)
    unit.bare(f" -------------- {unit.node} v4.4.7 (cliffs)")
    unit.systemd.stopped("restart")
    (deploy,) = deploys(journal)
    assert (micros(deploy.since), deploy.kills) == (moment(60), 1)


def test_stop_and_start() -> None:
    """A stop without a start is a window too: a deploy in two commands begins with it."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    restart(unit, job_type="stop")
    assert len(deploys(journal)) == 1


@pytest.mark.parametrize(("apart_s", "windows"), [(0, 1), (100, 1), (119, 1), (125, 2), (600, 2)])
def test_two_minutes(apart_s: float, windows: int) -> None:
    """Stops of different units that lie within two minutes belong to one deploy."""
    journal = Journal()
    a, b = journal.unit("celery@a.service"), journal.unit("celery@b.service", main=300)
    journal.at(60)
    restart(a)
    journal.at(60 + max(apart_s, 0.2))
    restart(b, main=700)
    assert len(deploys(journal)) == windows


def test_chain() -> None:
    """Each further stop within two minutes of the one before it prolongs the window: one deploy of ten workers."""
    journal = Journal()
    units = [journal.unit(f"celery@{n}.service", main=100 * n) for n in range(1, 6)]
    for number, unit in enumerate(units):
        journal.at(100 * (number + 1))
        restart(unit, main=10_000 + number)
    (deploy,) = deploys(journal)
    assert len(deploy.units) == 5


def test_hosts_together() -> None:
    """Two hosts restarted within two minutes are one deploy."""
    one, other = Journal("web1"), Journal("web2")
    first, second = one.unit(), other.unit()
    one.at(60)
    restart(first)
    other.at(90)
    restart(second)
    assert len(deploys(one, other)) == 1


def test_kills_in_it() -> None:
    """Kills within the window of their own unit are counted, and know their deploy."""
    journal = Journal()
    a, b = journal.unit("celery@a.service", concurrency=1), journal.unit("celery@b.service", main=300, concurrency=1)
    a.received("t1")
    b.received("t2")
    journal.at(60)
    restart(a, kills=True)
    b.dies(1, 0)
    document = audited(journal)
    (deploy,) = document.deploys
    assert deploy.kills == 1
    assert {kill.task.id: kill.deploy for kill in document.kills} == {"t1": deploy.id, "t2": None}


def test_context_not_cause() -> None:
    """A deploy window is context: a process killed by the OOM killer in it was killed by the OOM killer."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    unit.received("t1")
    journal.at(60)
    unit.systemd.stopping()
    unit.warm()
    journal.oom(101, "/system.slice/celery@a.service")
    unit.dies(1, 0)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    (kill,) = audited(journal).kills
    assert (kill.cause, kill.deploy is not None) == ("oom-kernel", True)


def test_drained_and_requeued() -> None:
    """Of tasks that ran when the stop began those that finished are counted, and messages that went back."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1", "t2", "t3")
    journal.at(60)
    unit.systemd.stopping()
    unit.warm()
    journal.at(65)
    unit.succeeded("t1", 1, 64)
    unit.raised("t2", 2)
    unit.restores(1)
    unit.systemd.succeeded()
    unit.systemd.stopped()
    (deploy,) = deploys(journal)
    assert (deploy.drained, deploy.requeued, deploy.kills) == (2, 1, 0)


def test_power_off_is_none() -> None:
    """A machine's shutdown stops its units, and is no deploy."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    journal.goes_down("power-off")
    unit.systemd.stopping()
    unit.warm()
    unit.systemd.succeeded()
    unit.systemd.stopped()
    assert deploys(journal) == ()


def test_automatic_restart_is_none() -> None:
    """Restart= after a crash writes a "Stopped" with JOB_TYPE=restart and no "Stopping": no deploy."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    unit.systemd.main_exited("killed", 11)
    unit.systemd.failed("signal")
    unit.systemd.restart_scheduled()
    unit.systemd.stopped("restart")
    unit.starts(500)
    unit.systemd.started()
    assert deploys(journal) == ()


def test_runtime_limit_is_none() -> None:
    """RuntimeMaxSec stops a unit without a job: no deploy."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    unit.systemd.runtime_over()
    unit.warm()
    unit.systemd.failed("timeout")
    assert deploys(journal) == ()


def test_other_services_are_none() -> None:
    """Stops of units that run no worker are no deploys of workers."""
    journal = Journal()
    journal.unit()
    nginx = Unit(journal, "nginx.service", starts=False)
    journal.at(60)
    nginx.systemd.stopping()
    nginx.systemd.stopped("restart")
    nginx.systemd.started()
    assert deploys(journal) == ()


def test_old_systemd() -> None:
    """Before v223 a restart has no "Stopped": it ends with "Started"; before v235 no record tells a restart."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    unit.systemd.says("Stopping Celery...", "de5b426a63be47a7b6ac3eaac82e2f6f")
    unit.warm()
    unit.systemd.says("Started Celery.", "39f53479d3a045ac8e11786248231fbf")
    unit.starts(500)
    assert len(deploys(journal)) == 1


def test_reload_that_restarts() -> None:
    """A reload that lets the worker execute itself anew (ExecReload=kill -HUP) is a window."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    unit.systemd.says("Reloading celery@a.service...", "d34d037fff1847e6ae669a370e694725")
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    journal.at(65)
    unit.starts(anew=False)
    (deploy,) = deploys(journal)
    assert micros(deploy.since) // SECOND == moment(60) // SECOND


@pytest.mark.parametrize("reloaded", [True, False])
def test_reload_without_a_word(reloaded: bool) -> None:
    """Up to 5.0.1 a worker's word of its restart never leaves a buffer: the reload before its new life tells of it."""
    journal = Journal()
    unit = journal.unit(version="4.4.7", starts=False)
    unit.runs = 1
    unit.ready()
    journal.at(60)
    if reloaded:
        unit.systemd.says("Reloading celery@a.service...", "d34d037fff1847e6ae669a370e694725")
    journal.at(75)
    unit.ready()
    windows = [(micros(one.since) // SECOND, micros(one.until) // SECOND) for one in deploys(journal)]
    assert windows == ([(moment(60) // SECOND, moment(75) // SECOND)] if reloaded else [])


def test_reload_alone() -> None:
    """A reload after which the worker goes on as it was is no deploy."""
    journal = Journal()
    unit = journal.unit(version="4.4.7")
    journal.at(60)
    unit.systemd.says("Reloading celery@a.service...", "d34d037fff1847e6ae669a370e694725")
    journal.at(75)
    unit.received_old("t1")
    unit.succeeded("t1", 1)
    assert deploys(journal) == ()


def test_lone_hangup_is_none() -> None:
    """A SIGHUP that no reload of the unit sent is no deploy."""
    journal = Journal()
    unit = journal.unit()
    journal.at(60)
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    journal.at(65)
    unit.starts(anew=False)
    assert deploys(journal) == ()


def test_ids() -> None:
    """Each deploy has an id of its own, which does not depend on what else is in the window."""
    journal, both = Journal(), Journal()
    for one in (journal, both):
        unit = one.unit()
        one.at(60)
        restart(unit)
    again = both.unit("celery@b.service", main=800)
    both.at(900)
    restart(again, main=900)
    (alone,) = deploys(journal)
    assert deploys(both)[0].id == alone.id
    assert len({deploy.id for deploy in deploys(both)}) == 2


# -- marks -----------------------------------------------------------------------------------------------------------


def restarted(*rules: MarkRule, given: Sequence[Marked] = (), mark: str | None = None, first: float = 60) -> list[str]:
    """Restart two workers ten minutes apart, with an entry `mark` at second 50; give the windows' labels."""
    journal = Journal()
    a, b = journal.unit("celery@a.service"), journal.unit("celery@b.service", main=300)
    if mark is not None:
        journal.at(50)
        journal.write(mark, replace(a.origin, unit=None, identifier="deploy", comm="deploy.sh", transport="syslog"))
    for unit, at, main in ((a, first, 600), (b, first + 600, 700)):
        journal.at(at)
        restart(unit, main=main)
    question = replace(EVERYTHING, marks=rules)
    found = examine(partials_of([journal.source()], question, one_by_one), None, question, now=NOON + DAY, marks=given)
    return [deploy.label for deploy in found.deploys]


TIMES = ["2026-11-30 12:01 UTC", "2026-11-30 12:11 UTC"]
BY_TAG = MarkRule(fields=(("SYSLOG_IDENTIFIER", "deploy"),))


def test_mark_labels() -> None:
    """An entry that the configuration calls a deploy's mark labels the window near it, with its own message."""
    assert restarted(BY_TAG, mark="release 41 to production") == ["release 41 to production", TIMES[1]]
    assert restarted(replace(BY_TAG, label="shop"), mark="release 41") == ["shop", TIMES[1]]


def test_mark_of_every_field() -> None:
    """Every field of a mark must hold."""
    assert restarted(MarkRule(fields=(*BY_TAG.fields, ("_COMM", "other"))), mark="release 41") == TIMES
    assert restarted(MarkRule(fields=(*BY_TAG.fields, ("MESSAGE", "release 41"))), mark="release 42") == TIMES


def test_mark_far_away() -> None:
    """A mark without a stop near it labels nothing, and makes no window."""
    assert restarted(BY_TAG, mark="release 41", first=360) == ["2026-11-30 12:06 UTC", "2026-11-30 12:16 UTC"]


def test_mark_with_a_span() -> None:
    """Stops within the span of one mark belong to one deploy, however far apart they lie."""
    rolling = Marked(label="rolling", since=moment(30), until=moment(700))
    assert restarted(given=[rolling]) == ["rolling"]


def test_unit_that_deploys() -> None:
    """What the manager says of the unit that runs the deploy is one mark, from its first record to its last."""
    journal = Journal()
    a, b = journal.unit("celery@a.service"), journal.unit("celery@b.service", main=300)
    tool = Manager(Unit(journal, "release.service", main=400, starts=False))
    journal.at(50)
    tool.started()
    for unit, at, main in ((a, 60, 600), (b, 660, 700)):
        journal.at(at)
        restart(unit, main=main)
    journal.at(690)
    tool.succeeded()
    question = replace(EVERYTHING, marks=(MarkRule(unit="release.service"),))
    found = examine(partials_of([journal.source()], question, one_by_one), None, question, now=NOON + DAY)
    assert [deploy.label for deploy in found.deploys] == ["release.service"]
