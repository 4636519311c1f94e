"""Killed runs against the run log: every verdict, the rows that nobody stands behind, and what finished twice."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import DAY, NOON, TASK, Journal, Table, Unit, audited, moment, row
from kill_audit import texts
from kill_audit.document import Document
from kill_audit.entry import Micros, Question
from kill_audit.errors import RunLogError, RunLogGoneError
from kill_audit.reconcile import Row, State, Verdict, matching


def killed_once(at: float = 60, received: float = 0) -> Unit:
    """A worker whose only task t1 is killed."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    journal.at(max(received, 1))
    unit.received("t1")
    journal.at(at)
    unit.dies(1, 0)
    return unit


def verdict_of(unit: Unit, *rows: Row, now: Micros = NOON + DAY, **table: Any) -> str | None:
    """The verdict of the only kill against these rows."""
    (kill,) = audited(unit.journal, run_log=Table(rows=rows, **table), now=now).kills
    return kill.verdict


def verdicts(document: Document) -> list[str | None]:
    """The verdicts of the kills, in order of time."""
    return [kill.verdict for kill in document.kills]


# -- without a run log -----------------------------------------------------------------------------------------------


def test_no_run_log() -> None:
    """Without a run log there is no verdict."""
    document = audited(killed_once().journal)
    assert (verdicts(document), document.run_log, document.totals.by_verdict) == ([None], None, {})


def test_nameless() -> None:
    """A run that could not be named has no verdict, and the reasons say why."""
    journal = Journal()
    unit = journal.unit(version="4.1.1")
    unit.received("t1", "t2")
    journal.at(60)
    unit.dies(1, None)
    (kill,) = audited(journal, run_log=Table()).kills
    assert kill.verdict is None
    assert any("row" in reason for reason in kill.reasons)


# -- the verdicts, in their order ------------------------------------------------------------------------------------


def test_order_of_verdicts() -> None:
    """The verdicts are documented in the order in which they are tried."""
    assert [verdict.value for verdict in Verdict] == list(texts.load().verdicts)


@pytest.mark.parametrize(
    ("age_s", "verdict"), [(0, "unsettled"), (119, "unsettled"), (121, "missing"), (-1, "missing")]
)
def test_unsettled(age_s: float, verdict: str) -> None:
    """A death aged 0 to 2 minutes when the run log is read is unsettled; one later than that moment has settled."""
    assert verdict_of(killed_once(60), now=moment(60 + age_s)) == verdict


def test_unsettled_against_the_reading() -> None:
    """Age is measured when the run log is read, never against the window's end."""
    assert verdict_of(killed_once(60), now=NOON + 2 * DAY) == "missing"


def test_unsettled_though_a_row_is_there() -> None:
    """An unsettled death is not judged by the row that it has so far."""
    assert verdict_of(killed_once(60), row("t1", State.OPEN, 1.1), now=moment(90)) == "unsettled"


def test_missing() -> None:
    """No row of its id at all: the headline."""
    assert verdict_of(killed_once(), row("t2", State.DONE, 1, 2)) == "missing"


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        (State.OPEN, "stuck"),
        (State.RETRY, "stuck"),
        (State.FAILED, "recorded"),
        (State.REVOKED, "recorded"),
        (State.DONE, "contradicted"),
    ],
)
def test_own_row(state: State, verdict: str) -> None:
    """The run's own row decides: open or waiting for a retry, failed or revoked, or a success."""
    finished = None if state is State.OPEN else 60.5
    assert verdict_of(killed_once(), row("t1", state, 1.2, finished)) == verdict


def test_retry_received_again() -> None:
    """A row that waits for a retry is in order when the retry was received."""
    unit = killed_once()
    unit.journal.at(300)
    unit.received("t1")
    unit.succeeded("t1", 2)
    assert verdict_of(unit, row("t1", State.RETRY, 1.2)) != "stuck"


@pytest.mark.parametrize("started", [0.0, 1.0, 30.0, 60.0, 70.0])
def test_own_row_by_its_start(started: float) -> None:
    """A row is a run's own if it started between the receipt and the death, 15 s apart at most."""
    assert verdict_of(killed_once(60), row("t1", State.OPEN, started)) == "stuck"


def test_row_of_another_day() -> None:
    """A row that started an hour before the receipt is another run's."""
    assert verdict_of(killed_once(60), row("t1", State.FAILED, -3600, -3590)) == "missing"


def test_recovered() -> None:
    """No row of its own, and a later run of the id finished."""
    unit = killed_once()
    unit.journal.at(300)
    unit.received("t1")
    unit.journal.at(360)
    unit.succeeded("t1", 2, 60)
    assert verdict_of(unit, row("t1", State.DONE, 301, 360)) == "recovered"


def test_recovered_elsewhere() -> None:
    """The later run may have been received where no journal was read."""
    assert verdict_of(killed_once(60), row("t1", State.DONE, 900, 960)) == "recovered"


def test_stuck_beside_a_later_success() -> None:
    """The run's own open row is stuck although a later run of the id finished."""
    unit = killed_once()
    unit.journal.at(300)
    unit.received("t1")
    unit.journal.at(360)
    unit.succeeded("t1", 2, 60)
    assert verdict_of(unit, row("t1", State.OPEN, 1), row("t1", State.DONE, 301, 360)) == "stuck"


def test_earlier_success_recovers_nothing() -> None:
    """A run of the id that finished before this one was received recovers nothing."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    unit.received("t1")
    journal.at(5)
    unit.succeeded("t1", 1, 5)
    journal.at(300)
    unit.received("t1")
    journal.at(360)
    unit.dies(1, 1)
    assert verdict_of(unit, row("t1", State.DONE, 0, 5)) == "missing"


def test_poison() -> None:
    """Several kills of one id may cite one later success."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job in range(3):
        journal.at(1 + 100 * job)
        unit.received("t1")
        journal.at(50 + 100 * job)
        unit.dies(job + 1, job)
    journal.at(400)
    unit.received("t1")
    journal.at(450)
    unit.succeeded("t1", 9, 50)
    document = audited(journal, run_log=Table(rows=[row("t1", State.DONE, 401, 450)]))
    assert verdicts(document) == ["recovered"] * 3


def test_one_row_serves_one_run() -> None:
    """Each of two kills of one id has its own row; one row is never given twice."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job in range(2):
        journal.at(1 + 100 * job)
        unit.received("t1")
        journal.at(50 + 100 * job)
        unit.dies(job + 1, job)
    first, second = row("t1", State.OPEN, 2), row("t1", State.FAILED, 102, 150)
    assert verdicts(audited(journal, run_log=Table(rows=[first]))) == ["stuck", "missing"]
    assert verdicts(audited(journal, run_log=Table(rows=[second]))) == ["missing", "recorded"]
    assert verdicts(audited(journal, run_log=Table(rows=[second, first]))) == ["stuck", "recorded"]


def test_nearest_receipt() -> None:
    """A row between two receipts of its id belongs to the one that it started soon after."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    unit.received("t1")
    journal.at(95)
    unit.dies(1, 0)
    journal.at(100)
    unit.received("t1")
    journal.at(200)
    unit.succeeded("t1", 2, 100)
    (kill,) = audited(journal, run_log=Table(rows=[row("t1", State.DONE, 101, 200)])).kills
    assert kill.verdict == "recovered"


def test_ambiguous() -> None:
    """Two rows that fit the run equally well and say different things: nothing is guessed."""
    rows = row("t1", State.OPEN, 2, key="1"), row("t1", State.FAILED, 2, 60, key="2")
    assert verdict_of(killed_once(), *rows) == "ambiguous"


def test_two_rows_that_agree() -> None:
    """Two rows that fit equally well and say the same are no riddle."""
    rows = row("t1", State.OPEN, 2, key="1"), row("t1", State.OPEN, 2, key="2")
    assert verdict_of(killed_once(), *rows) == "stuck"


@pytest.mark.parametrize(("younger_s", "verdict"), [(3500, "missing"), (3700, "uncovered")])
def test_uncovered(younger_s: float, verdict: str) -> None:
    """A table whose oldest row is more than an hour younger than the kill was not kept back then."""
    assert verdict_of(killed_once(60), oldest_at=moment(60 + younger_s)) == verdict


def test_empty_table() -> None:
    """An empty table reaches back."""
    assert verdict_of(killed_once(), oldest_at=None) == "missing"


# -- tables with one row an id ---------------------------------------------------------------------------------------


def test_one_row_per_id_overwritten() -> None:
    """Where an id has one row, a success after a later receipt is the later run's."""
    unit = killed_once()
    unit.journal.at(300)
    unit.received("t1")
    unit.journal.at(360)
    unit.succeeded("t1", 2, 60)
    overwritten = row("t1", State.DONE, 1, 360)
    assert verdict_of(unit, overwritten, one_row_per_id=True) == "recovered"


def test_one_row_per_id_contradicted() -> None:
    """Where an id has one row and it was received once, a success after the death contradicts it."""
    assert verdict_of(killed_once(60), row("t1", State.DONE, 1, 59.5), one_row_per_id=True) == "contradicted"


def test_one_row_per_id_without_a_start() -> None:
    """A row that tells no start is judged by its end."""
    assert verdict_of(killed_once(60), row("t1", State.FAILED, None, 60.4), one_row_per_id=True) == "recorded"


# -- rows ------------------------------------------------------------------------------------------------------------


def test_rows_are_shown() -> None:
    """All rows of the id are shown, the run's own first."""
    unit = killed_once()
    rows = row("t1", State.FAILED, -9000, -8990, key="old"), row("t1", State.OPEN, 2, key="own")
    (kill,) = audited(unit.journal, run_log=Table(rows=rows)).kills
    assert [one.key for one in kill.rows] == ["own", "old"]


def test_order_of_rows() -> None:
    """In which order the rows are read changes no verdict."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job in range(3):
        journal.at(1 + 100 * job)
        unit.received("t1")
        journal.at(50 + 100 * job)
        unit.dies(job + 1, job)
    rows = [row("t1", State.OPEN, 2), row("t1", State.FAILED, 103, 151), row("t1", State.DONE, 202, 250)]
    want = verdicts(audited(journal, run_log=Table(rows=rows)))
    assert want == ["stuck", "recorded", "contradicted"]
    for turned in (rows[::-1], [rows[1], rows[2], rows[0]]):
        assert verdicts(audited(journal, run_log=Table(rows=turned))) == want


@given(
    starts=st.lists(st.floats(min_value=-100, max_value=500), max_size=6),
    states=st.lists(st.sampled_from(State), min_size=6, max_size=6),
)
def test_verdict_is_one_of_them(starts: list[float], states: list[State]) -> None:
    """Whatever rows an id has, a named kill that has settled has one verdict, and `stuck` needs an open row."""
    rows = [row("t1", state, start, key=str(n)) for n, (start, state) in enumerate(zip(starts, states, strict=False))]
    verdict = verdict_of(killed_once(), *rows)
    assert verdict in {one.value for one in Verdict} - {"unsettled", "uncovered"}
    if verdict == "stuck":
        assert {State.OPEN, State.RETRY, State.OTHER} & {one.state for one in rows}


@given(
    starts=st.lists(st.integers(min_value=-100, max_value=500), max_size=6),
    states=st.lists(st.sampled_from(State), min_size=6, max_size=6),
)
def test_many_rows_are_matched_as_few_are(starts: list[int], states: list[State]) -> None:
    """Where there are many pairs pandas sorts them, and the verdict is the same."""
    rows = [row("t1", state, start, key=str(n)) for n, (start, state) in enumerate(zip(starts, states, strict=False))]
    few = verdict_of(killed_once(), *rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(matching, "_MANY", 0)
        assert verdict_of(killed_once(), *rows) == few


def test_a_row_without_times_comes_last() -> None:
    """A row that tells no time is the run's own only where no other row of the id fits."""
    timeless, own = row("t1", State.DONE, None), row("t1", State.OPEN, 70)
    assert verdict_of(killed_once(60), timeless, own) == "stuck"
    assert verdict_of(killed_once(60), timeless) == "contradicted"


# -- rows without an id ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row(None, State.OPEN, 2), "stuck"),
        (row(None, State.OPEN, 2, worker="a@web1"), "stuck"),
        (row(None, State.FAILED, 2, 61), "recorded"),
        (row(None, State.DONE, 2, 59), "contradicted"),
        (row(None, State.OPEN, 2, worker="b@web1"), "missing"),
        (row(None, State.OPEN, 30), "missing"),
        (row(None, State.DONE, 2, 20), "missing"),
        (replace(row(None, State.OPEN, 2), task_name="shop.tasks.other"), "missing"),
    ],
)
def test_a_row_without_an_id(found: Row, verdict: str) -> None:
    """A row that holds no id is the run's own by name, worker where it names one, and times that fit at both ends."""
    assert verdict_of(killed_once(60), found) == verdict


@pytest.mark.parametrize(("queue", "verdict"), [("mails", "stuck"), ("celery", "stuck"), ("video", "missing")])
def test_a_row_without_an_id_may_name_its_queue(queue: str, verdict: str) -> None:
    """Where a row names a queue and no worker, it is the run's own only if the banner lists that queue."""
    journal = Journal()
    unit = journal.unit(concurrency=1, starts=False)
    unit.starts()
    unit.bare("                .> celery           exchange=celery(direct) key=celery")
    unit.bare("                .> mails            exchange=mails(direct) key=mails")
    journal.at(1)
    unit.received("t1")
    journal.at(60)
    unit.dies(1, 0)
    assert verdict_of(unit, row(None, State.OPEN, 2, queue=queue)) == verdict


def test_a_queue_proves_nothing_without_a_banner() -> None:
    """A worker whose queues are not known may have consumed any."""
    assert verdict_of(killed_once(60), row(None, State.OPEN, 2, queue="video")) == "stuck"


def test_the_id_goes_before_the_name() -> None:
    """Where the id has a row, rows without one are not looked at."""
    assert verdict_of(killed_once(60), row("t1", State.FAILED, 2, 60), row(None, State.OPEN, 1)) == "recorded"


def test_a_row_without_an_id_says_so() -> None:
    """The reasons tell that the row was found without its id, and the row is no ghost besides."""
    document = audited(killed_once().journal, run_log=Table(rows=[row(None, State.OPEN, 1, worker="a@web1")]))
    (kill,) = document.kills
    assert any("holds no id" in reason for reason in kill.reasons)
    assert document.ghosts == ()


def test_rows_without_an_id_serve_one_run_each() -> None:
    """Of two runs of one name each has the row nearest to its start, and a third has none."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    for job, second in enumerate((1, 11, 21)):
        journal.at(second)
        unit.received(f"t{job}")
        journal.at(second + 5)
        unit.dies(job + 1, job)
    rows = [row(None, State.FAILED, 12, 17), row(None, State.OPEN, 2)]
    assert verdicts(audited(journal, run_log=Table(rows=rows))) == ["stuck", "recorded", "missing"]


def test_two_rows_without_an_id_that_fit_alike() -> None:
    """Two rows within a second of each other that say different things: nothing is guessed."""
    rows = row(None, State.OPEN, 2.2), row(None, State.FAILED, 2.6, 60)
    assert verdict_of(killed_once(), *rows) == "ambiguous"


# -- a run log that refuses ------------------------------------------------------------------------------------------


def refusing(*questions: str, rows: Sequence[Row] = ()) -> Table:
    """A run log that refuses these questions, the last row of each given first."""

    def refuse(*_asked: object) -> Iterator[Row]:
        yield from rows
        raise RunLogError("no index", hint="CREATE INDEX;")

    class Refusing(Table):
        """A table that is too big."""

    for question in questions:
        setattr(Refusing, question, refuse)
    return Refusing(rows=tuple(rows))


def test_what_was_answered_counts() -> None:
    """Open rows and duplicates that are refused take no verdict away, and are told in the coverage."""
    document = audited(killed_once().journal, run_log=refusing("open_rows", "finished_twice"))
    (kill,) = document.kills
    assert (kill.verdict, document.coverage.verdict) == ("missing", "partial")
    details = {problem.detail for source in document.coverage.sources for problem in source.problems}
    assert "no index (CREATE INDEX;)" in details


@pytest.mark.parametrize("rows", [(), (row("t1", State.FAILED, 1, 60),)])
def test_rows_that_break_off_give_no_verdict(rows: tuple[Row, ...]) -> None:
    """Where the rows of the ids are refused, or end in the midst, nothing is said of any kill."""
    (kill,) = audited(killed_once().journal, run_log=refusing("rows_of", rows=rows)).kills
    assert kill.verdict is None
    assert any("refused to be read" in reason for reason in kill.reasons)


def test_a_run_log_that_is_gone_is_asked_once() -> None:
    """A database that does not answer any more is not asked again, and the reason is told once."""
    asked = []

    class Gone(Table):
        """A table whose server died."""

        def rows_of(self, task_ids: Collection[str]) -> Iterable[Row]:
            """Break off."""
            asked.append(task_ids)
            raise RunLogGoneError("the server closed the connection")

        def oldest(self) -> Micros | None:
            """Never asked."""
            raise AssertionError

    document = audited(killed_once().journal, run_log=Gone())
    problems = [problem for source in document.coverage.sources for problem in source.problems]
    refused = [problem.detail for problem in problems if problem.code == "run-log-refused"]
    assert (refused, len(asked), verdicts(document)) == (["the server closed the connection"], 1, [None])


def test_a_reach_that_is_not_known_is_said() -> None:
    """Where the oldest row is refused a run is missing all the same, and its reasons say what is not known."""

    class Reachless(Table):
        """A table whose oldest row cannot be found."""

        def oldest(self) -> Micros | None:
            """Refuse."""
            raise RunLogError("no index")

    (kill,) = audited(killed_once().journal, run_log=Reachless()).kills
    assert kill.verdict == "missing"
    assert any("how far back" in reason for reason in kill.reasons)


# -- ghosts ----------------------------------------------------------------------------------------------------------


def ghosts(document: Document) -> list[str]:
    """The keys of the ghosts."""
    return [one.key for one in document.ghosts]


def test_claimed_row_is_no_ghost() -> None:
    """A killed run's own open row is `stuck`, and no ghost besides."""
    document = audited(killed_once().journal, run_log=Table(rows=[row("t1", State.OPEN, 1)]))
    assert (verdicts(document), ghosts(document)) == (["stuck"], [])


def test_running() -> None:
    """An open row whose worker still runs is no ghost."""
    journal = Journal()
    journal.unit().received("t1")
    assert ghosts(audited(journal, run_log=Table(rows=[row("t1", State.OPEN, 1)]))) == []


def test_ghost_of_an_ended_worker() -> None:
    """An open row whose worker has ended since, its task unfinished and not killed, is a ghost."""
    journal = Journal()
    unit = journal.unit(concurrency=1)
    unit.received("t1", "t2")
    journal.at(10)
    unit.systemd.stopping()
    unit.warm()
    unit.succeeded("t1", 1, 10)
    unit.restores(1)
    unit.systemd.succeeded()
    unit.systemd.stopped()
    document = audited(journal, run_log=Table(rows=[row("t2", State.OPEN, 1)]))
    assert document.kills == ()
    assert ghosts(document) == ["t2-1-None"]
    assert document.ghosts[0].reasons


def test_ghost_of_a_boot() -> None:
    """An open row whose boot is over is a ghost where no kill claims it."""
    first, second = Journal(boot=1), Journal(boot=2)
    unit = first.unit(concurrency=1)
    unit.received("t1", "t2")
    first.at(40)
    first.chatter()
    second.at(300).chatter()
    document = audited(first, second, run_log=Table(rows=[row("t2", State.OPEN, 2)]))
    assert [kill.task.id for kill in document.kills] == ["t1"]
    assert ghosts(document) == ["t2-2-None"]


def test_ghost_of_a_restarted_worker() -> None:
    """An open row that names its worker is a ghost when that worker was started anew since."""
    journal = Journal()
    unit = journal.unit()
    journal.at(600)
    unit.starts(300)
    before = row("t9", State.OPEN, 100, worker=unit.node)
    after = row("t8", State.OPEN, 700, worker=unit.node)
    other = row("t7", State.OPEN, 100, worker="z@web9")
    assert ghosts(audited(journal, run_log=Table(rows=[before, after, other]))) == [before.key]


def test_ghost_of_a_worker_that_ended() -> None:
    """An open row that names its worker is a ghost when that worker has ended since it began."""
    journal = Journal()
    unit = journal.unit()
    journal.at(200)
    unit.systemd.stopping()
    unit.warm()
    unit.systemd.succeeded()
    unit.systemd.stopped()
    left = row(None, State.OPEN, 100, worker=unit.node)
    later = row("t7", State.OPEN, 900, worker=unit.node)
    assert ghosts(audited(journal, run_log=Table(rows=[left, later]))) == [left.key]


def test_ghost_of_nobody() -> None:
    """An open row that the journal knows nothing of is not called a ghost."""
    journal = Journal()
    journal.unit()
    assert ghosts(audited(journal, run_log=Table(rows=[row("t9", State.OPEN, 100)]))) == []


def test_finished_rows_are_no_ghosts() -> None:
    """Only open rows can be ghosts."""
    unit = killed_once()
    rows = [row("t1", state, 2, 60) for state in (State.DONE, State.FAILED, State.REVOKED)]
    assert ghosts(audited(unit.journal, run_log=Table(rows=rows))) == []


# -- twice -----------------------------------------------------------------------------------------------------------


def twice(document: Document) -> dict[str | None, tuple[int, int]]:
    """The duplicates: deliveries and finished runs by id."""
    return {one.task.id: (one.deliveries, one.finished) for one in document.duplicates}


def delivered_twice() -> Unit:
    """A task that is delivered again while it runs, and finishes twice: the visibility time-out is too short."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1")
    journal.at(3600)
    unit.received("t1")
    journal.at(4000)
    unit.succeeded("t1", 1, 4000)
    journal.at(7600)
    unit.succeeded("t1", 2, 4000)
    return unit


def test_duplicate() -> None:
    """An id that finished twice without a retry is a duplicate, and no kill."""
    document = audited(delivered_twice().journal)
    assert (twice(document), document.kills) == ({"t1": (2, 2)}, ())


@pytest.mark.parametrize(("since", "until", "found"), [(0, 7000, 0), (7000, 8000, 1), (8000, 9000, 0)])
def test_a_duplicate_belongs_to_the_window_of_its_second_end(since: int, until: int, found: int) -> None:
    """What is read before and after the window does not tell the same duplicate in each weekly report anew."""
    question = Question(
        since=moment(since), until=moment(until), read_since=moment(0) - DAY, read_until=moment(0) + DAY
    )
    assert len(audited(delivered_twice().journal, question=question).duplicates) == found


def test_duplicate_across_hosts() -> None:
    """The two runs may be on different hosts."""
    one, other = Journal("web1"), Journal("web2")
    for journal, second in ((one, 0), (other, 3600)):
        unit = journal.at(second).unit()
        unit.received("t1")
        journal.at(second + 9)
        unit.succeeded("t1", 1, 9)
    assert twice(audited(one, other)) == {"t1": (2, 2)}


def test_retry_is_no_duplicate() -> None:
    """A task that is retried and then finishes finished once."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1")
    unit.retries("t1", 1, 5)
    unit.received("t1")
    journal.at(20)
    unit.succeeded("t1", 1, 1)
    assert twice(audited(journal)) == {}


def test_exception_is_no_duplicate() -> None:
    """A task that failed and was run again, and finished, finished once."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1")
    unit.raised("t1", 1)
    journal.at(20)
    unit.received("t1")
    unit.succeeded("t1", 1, 1)
    assert twice(audited(journal)) == {}


def test_deduplicated_delivery() -> None:
    """A redelivery that Celery answers from the result store (worker_deduplicate_successful_tasks) ran nothing."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1")
    unit.succeeded("t1", 1, 1)
    journal.at(20)
    unit.received("t1")
    unit.says(f"Task {TASK}[t1] Task already completed successfully.", child=1)
    assert twice(audited(journal)) == {}


def test_duplicate_in_the_run_log() -> None:
    """Two finished rows of one id are a duplicate, whether or not the journal shows it."""
    journal = Journal()
    journal.unit()
    rows = [row("t1", State.DONE, 10, 20), row("t1", State.DONE, 30, 40), row("t2", State.DONE, 10, 20)]
    document = audited(journal, run_log=Table(rows=rows))
    assert {key: finished for key, (_, finished) in twice(document).items()} == {"t1": 2}


def test_run_log_facts() -> None:
    """The report says which run log it was reconciled with."""
    document = audited(killed_once().journal, run_log=Table(rows=[row("t1", State.OPEN, 1)]))
    assert document.run_log is not None
    assert (document.run_log.kind, document.run_log.table, document.run_log.rows) == ("memory", "runs", 1)
    assert document.totals.by_verdict == {"stuck": 1}
    assert (document.totals.stuck, document.totals.missing) == (1, 0)
