"""Losses named by what Celery itself stored of them: the `Job: N` text of a failure, the pid of a start."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from builders import EVERYTHING, NOON, Journal, Table, Unit, moment, one_by_one
from kill_audit.audit import examine, partials_of
from kill_audit.document import Document
from kill_audit.entry import Micros
from kill_audit.errors import RunLogError
from kill_audit.report import report

HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A row of Celery's result table."""

    task_id: str
    task_name: str | None = None
    worker: str | None = None
    stored_at: Micros | None = None
    job: int | None = None
    signal: int | None = None
    exit_code: int | None = None
    pid: int | None = None
    hostname: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Celery's result table in memory."""

    lost: Sequence[Result] = ()
    begun: Sequence[Result] = ()
    knows_its_zone: bool = True

    def losses(self, _since: Micros, _until: Micros) -> Iterable[Result]:
        """Give the losses."""
        return self.lost

    def started(self) -> Iterable[Result]:
        """Give the starts."""
        return self.begun


class Refusing(Stored):
    """A result table without an index."""

    def losses(self, _since: Micros, _until: Micros) -> Iterable[Result]:
        """Refuse."""
        raise RunLogError("the table is too big", hint="CREATE INDEX;")


def lost(task_id: str = "t1", at: float = 61, worker: str | None = "a@web1", job: int = 4, signal: int = 9) -> Result:
    """A stored loss; its time in seconds after noon."""
    return Result(task_id=task_id, task_name="x.y", worker=worker, stored_at=moment(at), job=job, signal=signal)


def quiet(*, received: Sequence[str] = ()) -> Unit:
    """A worker of which a child is lost with job 4 a minute after noon; what it received is hidden, but for these."""
    journal = Journal()
    unit = journal.unit()
    if received:
        unit.received(*received)
    journal.at(60)
    unit.dies(1, 4)
    return unit


def audited(unit: Unit, results: Stored) -> Document:
    """Audit with stored results and an empty run log."""
    found = examine(
        partials_of([unit.journal.source()], EVERYTHING, one_by_one),
        Table(oldest_at=None),
        EVERYTHING,
        now=NOON + 86_400_000_000,
        results=results,
    )
    return report(found)


def named(document: Document) -> tuple[str | None, str]:
    """The id of the only kill, and how it was found."""
    (kill,) = document.kills
    return kill.task.id, kill.task.how


def test_the_node_on_web1_is_a() -> None:
    """The scenes' worker is the one that the stored results name."""
    assert quiet().node == "a@web1"


@pytest.mark.parametrize(
    ("result", "how"),
    [
        (lost(), ("t1", "result")),
        (lost(at=59.5), ("t1", "result")),
        (lost(at=74), ("t1", "result")),
        (lost(at=77), (None, "none")),
        (lost(at=40), (None, "none")),
        (lost(job=5), (None, "none")),
        (lost(signal=15), (None, "none")),
        (lost(worker="b@web1"), (None, "none")),
        (lost(worker=None), (None, "none")),
    ],
)
def test_a_stored_loss_names_the_task(result: Result, how: tuple[str | None, str]) -> None:
    """A stored loss names the task if job, signal and worker are the death's, and it was stored within 15 s."""
    assert named(audited(quiet(), Stored(lost=[result]))) == how


def test_a_loss_of_an_id_that_was_received() -> None:
    """Without the worker's name in the result, that this worker received the id tells that it is its own."""
    unit = quiet(received=["t1", "t2"])
    document = audited(unit, Stored(lost=[lost("t2", worker=None), lost("t9", worker=None)]))
    assert named(document) == ("t2", "result")


def test_two_losses_that_fit_name_nothing() -> None:
    """Two stored losses of one job number are no proof of either."""
    assert named(audited(quiet(), Stored(lost=[lost("t1"), lost("t2", at=62)]))) == (None, "none")


def test_a_loss_that_disagrees_wins() -> None:
    """Where the journal names another task the result wins, with low confidence, and both are shown."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1")
    journal.at(60)
    unit.dies(1, 0)
    (kill,) = audited(unit, Stored(lost=[lost("t2", job=0)])).kills
    assert (kill.task.id, kill.task.how, kill.task.confidence) == ("t2", "result", "low")
    assert any("[t1] by " in reason for reason in kill.reasons)


def test_a_stored_start_names_the_task() -> None:
    """The STARTED row with the pid of the process that died names the task that was on it."""
    unit = quiet()
    begun = Result(task_id="t1", pid=unit.pid(1), hostname="a@web1")
    assert named(audited(unit, Stored(begun=[begun]))) == ("t1", "accepted")
    elsewhere = Result(task_id="t1", pid=unit.pid(1), hostname="a@web2")
    assert named(audited(unit, Stored(begun=[elsewhere]))) == (None, "none")


@pytest.mark.parametrize(("knows", "how"), [(False, ("t1", "result")), (True, (None, "none"))])
def test_the_zone_of_results_is_derived(knows: bool, how: tuple[str | None, str]) -> None:
    """Since 5.5 Celery stores local times; unless the zone is known, whole quarters of an hour do not count."""
    results = Stored(lost=[lost(at=61 + 9 * HOUR)], knows_its_zone=knows)
    assert named(audited(quiet(), results)) == how


def test_the_zone_of_results_is_not_guessed() -> None:
    """Losses that fit by two different offsets show neither."""
    results = Stored(lost=[lost("t1", at=61 + 9 * HOUR), lost("t2", at=61 + 2 * HOUR)], knows_its_zone=False)
    assert named(audited(quiet(), results)) == (None, "none")


def test_results_that_cannot_be_read_leave_the_rest() -> None:
    """A result table that refuses is told in the coverage; kills and verdicts are those without it."""
    document = audited(quiet(received=["t1"]), Refusing())
    (kill,) = document.kills
    assert (kill.task.id, kill.verdict, document.coverage.verdict) == ("t1", "missing", "partial")
    problems = [problem for source in document.coverage.sources for problem in source.problems]
    assert [(one.code, one.detail) for one in problems if one.code.startswith("run-log")] == [
        ("run-log-refused", "the table is too big (CREATE INDEX;)")
    ]
