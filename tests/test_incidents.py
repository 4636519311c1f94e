"""Incidents: kills of one event, folded into one thing to look at."""

from builders import Journal, Unit, audited, moment
from kill_audit.document import micros

CGROUP = "/system.slice/celery@a.service"


def running(*ids: str, concurrency: int = 2) -> Unit:
    """A worker at work; the clock stands at 12:01."""
    unit = Journal().unit(concurrency=concurrency)
    unit.received(*ids)
    for number, task_id in enumerate(ids, start=1):
        unit.speaks(task_id, number)
    unit.journal.at(60)
    return unit


def stop(unit: Unit, *jobs: int) -> None:
    """A restart that kills the tasks of these jobs."""
    unit.systemd.stopping()
    unit.warm()
    for job in jobs:
        unit.dies(job + 1, job, 15)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")


def test_restart() -> None:
    """The kills of one deploy with one cause are one incident."""
    unit = running("t1", "t2")
    stop(unit, 0, 1)
    document = audited(unit.journal)
    (incident,) = document.incidents
    assert (incident.cause, incident.kills, incident.units, incident.culprit) == (
        "unit-stop",
        2,
        ("celery@a.service",),
        None,
    )
    assert {kill.incident for kill in document.kills} == {incident.id}
    assert moment(60) <= micros(incident.since) <= micros(incident.until) <= moment(61)


def test_lone_kill() -> None:
    """A lone kill is no incident."""
    unit = running("t1")
    stop(unit, 0)
    document = audited(unit.journal)
    assert (document.incidents, document.kills[0].incident) == ((), None)


def test_deploy_of_two_units() -> None:
    """A deploy that kills in two units is one incident."""
    journal = Journal()
    a, b = journal.unit("celery@a.service", concurrency=1), journal.unit("celery@b.service", main=300, concurrency=1)
    a.received("t1")
    b.received("t2")
    journal.at(60)
    stop(a, 0)
    journal.at(100)
    stop(b, 0)
    (incident,) = audited(journal).incidents
    assert (incident.kills, incident.units) == (2, ("celery@a.service", "celery@b.service"))


def test_two_deploys() -> None:
    """Two deploys are two incidents."""
    unit = running("t1", "t2")
    stop(unit, 0, 1)
    unit.journal.at(1000)
    unit.starts(500)
    unit.received("t3", "t4")
    unit.speaks("t3", 1)
    unit.speaks("t4", 2)
    unit.journal.at(1060)
    stop(unit, 0, 1)
    assert [one.kills for one in audited(unit.journal).incidents] == [2, 2]


def test_main_process() -> None:
    """All that dies with one main process is one incident."""
    unit = running("t1", "t2")
    unit.systemd.main_exited("killed", 9)
    unit.systemd.failed("signal")
    (incident,) = audited(unit.journal).incidents
    assert (incident.cause, incident.kills) == ("unknown", 2)


def test_oom_with_bystanders() -> None:
    """The process that the OOM killer took is the culprit of the others that died with its unit."""
    unit = running("t1", "t2", "t3", concurrency=3)
    unit.journal.oom(102, CGROUP)
    unit.systemd.out_of_memory()
    unit.dies(2, 1)
    unit.warm()
    unit.dies(1, 0, 15)
    unit.dies(3, 2, 15)
    unit.systemd.failed("oom-kill")
    document = audited(unit.journal)
    (incident,) = document.incidents
    culprit = {kill.id: kill.task.id for kill in document.kills}
    assert (incident.kills, culprit[str(incident.culprit)]) == (3, "t2")


def test_two_victims() -> None:
    """Where the OOM killer took two processes, neither is the culprit."""
    unit = running("t1", "t2")
    unit.journal.oom(101, CGROUP)
    unit.journal.oom(102, CGROUP)
    unit.dies(2, 1)
    unit.dies(1, 0)
    (incident,) = audited(unit.journal).incidents
    assert (incident.cause, incident.kills, incident.culprit) == ("oom-kernel", 2, None)


def test_power_loss() -> None:
    """All that a host's end took, in whatever unit, is one incident."""
    first, second = Journal(boot=1), Journal(boot=2)
    a, b = first.unit("celery@a.service", concurrency=1), first.unit("celery@b.service", main=300, concurrency=1)
    a.received("t1")
    b.received("t2")
    first.at(60)
    first.chatter()
    second.at(300).chatter()
    (incident,) = audited(first, second).incidents
    assert (incident.cause, incident.kills, len(incident.units)) == ("host-reboot", 2, 2)


def test_crashes_far_apart() -> None:
    """Crashes minutes apart are separate events."""
    unit = running("t1", "t2")
    unit.dies(1, 0, 11)
    unit.journal.at(600)
    unit.dies(2, 1, 11)
    assert audited(unit.journal).incidents == ()


def test_hosts() -> None:
    """Deaths on two hosts at one moment are no common event unless a deploy joins them."""
    one, other = Journal("web1"), Journal("web2")
    for journal in (one, other):
        unit = journal.unit(concurrency=1)
        unit.received(f"{journal.host}-t1")
        journal.at(60)
        unit.dies(1, 0, 11)
    assert audited(one, other).incidents == ()
