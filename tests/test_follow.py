"""Following tasks through one source: what began and ended is cancelled; what is open, or died, is kept."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import EVERYTHING, NOON, TASK, Journal, Memory, Unit, moment
from kill_audit import events
from kill_audit.entry import Batch, Origin, Question
from kill_audit.events import Line
from kill_audit.grammar import recognise
from kill_audit.timeline import Follower, Partial, Run, hash_of, second_look
from kill_audit.timeline.partial import bucket_top_s


def followed(journal: Journal, *, question: Question = EVERYTHING, at_once: int = 65_536) -> Partial:
    """Follow a journal in batches of so many entries."""
    source = Memory(name="journal", entries=tuple(journal.entries), at_once=at_once)
    follower = Follower(question)
    for batch in source.batches(question):
        assert isinstance(batch, Batch)
        follower.feed(batch, *recognise(batch, question))
    return follower.partial(source.name)


def run_of(partial: Partial, task_id: str) -> Run:
    """The only run of an id."""
    (run,) = [run for run in partial.runs if run.task_id == task_id]
    return run


def numbers(partial: Partial) -> dict[str, int | None]:
    """Which job each kept run is."""
    return {run.task_id: run.number for run in partial.runs}


@pytest.mark.parametrize("end", ["succeeded", "raised", "ignored", "rejected"])
def test_cancelled(end: str) -> None:
    """A run that begins and ends in one source leaves an 8-byte hash of its id at most, and no object."""
    unit = Journal().unit()
    unit.received("t1")
    match end:
        case "succeeded":
            unit.succeeded("t1", 1)
        case "raised":
            unit.raised("t1", 1)
        case "ignored":
            unit.says(f"Task {TASK}[t1] ignored", child=1)
        case _:
            unit.says(f"Task {TASK}[t1] reject requeue=False: no", child=1)
    partial = followed(unit.journal)
    assert (partial.runs, partial.ends) == ((), ())
    assert partial.finished.tolist() == ([hash_of("t1")] if end in {"succeeded", "raised"} else [])
    assert partial.finished.dtype.itemsize == 8


def test_grows_with_what_is_open() -> None:
    """A partial holds as many runs, ends and events after two thousand finished tasks as after two."""

    def kept(finished: int) -> tuple[int, int, int, int]:
        unit = Journal().unit()
        unit.received("open")
        for number in range(finished):
            unit.received(f"t{number}")
            unit.succeeded(f"t{number}", 1, 0.001)
        partial = followed(unit.journal)
        return len(partial.runs), len(partial.ends), len(partial.events), len(partial.segments)

    assert kept(2000) == kept(2) == (1, 0, 3, 1)


def test_open() -> None:
    """A task without an end is kept, with its receipt's entry and its place among the receipts."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.succeeded("t1", 1, 0.001)
    run = run_of(followed(unit.journal), "t2")
    assert run.received is not None
    assert (run.task_name, run.order, run.number) == (TASK, 1, 1)
    assert run.received.text.endswith(f"Task {TASK}[t2] received")
    assert (run.main_pid, run.end) == (unit.main, None)


def test_discarded() -> None:
    """A revoked task that is discarded takes no number: those after it move up."""
    unit = Journal().unit()
    unit.received("t1", "t2", "t3")
    unit.says(f"Discarding revoked task: {TASK}[t2]")
    assert numbers(followed(unit.journal)) == {"t1": 0, "t3": 1}


def test_eta_in_the_text() -> None:
    """A task with an ETA in its line (up to 5.0) takes its number only when it is due."""
    unit = Journal().unit(version="4.4.7")
    unit.received_old("t1")
    unit.received_old("waits", eta=60)
    unit.received_old("t2")
    waiting = followed(unit.journal)
    assert (numbers(waiting), run_of(waiting, "waits").waits) == ({"t1": 0, "waits": None, "t2": 1}, True)
    unit.journal.at(61)
    unit.received_old("t3")
    due = followed(unit.journal)
    assert numbers(due) == {"t1": 0, "t2": 1, "waits": 2, "t3": 3}


def test_etas_by_their_time() -> None:
    """Tasks whose ETAs have passed take their numbers in the order of the ETAs, not of their receipts."""
    unit = Journal().unit(version="4.4.7")
    unit.received_old("later", eta=60)
    unit.received_old("sooner", eta=30)
    unit.journal.at(90)
    unit.received_old("t3")
    assert numbers(followed(unit.journal)) == {"sooner": 0, "later": 1, "t3": 2}


def test_past_eta() -> None:
    """A task whose ETA has passed when it is received does not wait."""
    unit = Journal().unit(version="4.4.7")
    unit.journal.at(100)
    unit.received_old("t1", eta=60)
    assert numbers(followed(unit.journal)) == {"t1": 0}


@pytest.mark.parametrize("received_first", [False, True], ids=["retry line first", "receipt first"])
def test_retry(received_first: bool) -> None:
    """A retried message waits for its countdown, whether it is received after or before its own "retry:" line."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.journal.at(5)
    if received_first:
        unit.received("t1")
        unit.retries("t1", 1, 60)
    else:
        unit.retries("t1", 1, 60)
        unit.received("t1")
    unit.received("t3")
    partial = followed(unit.journal)
    assert numbers(partial) == {"t1": None, "t2": 1, "t3": 2}
    assert run_of(partial, "t1").waits
    assert partial.retried == {hash_of("t1"): 1}


def test_retry_that_finishes() -> None:
    """A task that is retried and then finishes leaves only its hash and the number of its retries."""
    unit = Journal().unit()
    unit.received("t1")
    unit.retries("t1", 1, 1)
    unit.received("t1")
    unit.journal.at(3)
    unit.succeeded("t1", 2, 0.5)
    partial = followed(unit.journal)
    assert (partial.runs, partial.ends, partial.finished.tolist()) == ((), (), [hash_of("t1")])


def test_two_deliveries() -> None:
    """Two receipts of one id without an end between them are two runs, and neither is cancelled."""
    unit = Journal().unit()
    unit.received("t1")
    unit.journal.at(5)
    unit.received("t1")
    unit.journal.at(9)
    unit.succeeded("t1", 1, 3)
    partial = followed(unit.journal)
    assert [run.task_id for run in partial.runs] == ["t1", "t1"]
    assert [end.task_id for end in partial.ends] == ["t1"]


def test_received_after_it_finished() -> None:
    """An id received again after it finished is asked for in a second look, which keeps what was cancelled."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.succeeded("t1", 1)
    unit.succeeded("t2", 1)
    unit.journal.at(5)
    unit.received("t1")
    first = followed(unit.journal)
    again = second_look([first])
    assert again == {0: frozenset({hash_of("t1")})}
    second = followed(unit.journal, question=replace(EVERYTHING, keep=again[0]))
    assert [(run.task_id, run.end is not None) for run in second.runs] == [("t1", True), ("t1", False)]
    assert second_look([second]) in ({}, again)


def test_open_elsewhere() -> None:
    """An id that one source leaves open and another finished is looked for again in the one that cancelled it."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    one = followed(unit.journal)
    other = Journal("web2").unit()
    other.received("t1", "t3")
    other.succeeded("t1", 1)
    other.succeeded("t3", 1)
    assert second_look([one, followed(other.journal)]) == {1: frozenset({hash_of("t1")})}


def test_retried_and_received_again() -> None:
    """Of an id that is open where it was retried before, the first run is looked for again if another source tells."""
    unit = Journal().unit()
    unit.received("t1")
    unit.journal.at(5)
    unit.received("t1")  # a message may be received again before the "retry:" line of its first try
    unit.retries("t1", 1)
    one = followed(unit.journal)
    assert [run.received and run.received.at for run in one.runs] == [moment(5)]
    assert second_look([one]) == {}
    unit.journal.entries[:-1] = []
    again = second_look([one, followed(unit.journal)])
    assert again == {0: frozenset({hash_of("t1")})}


def test_end_without_beginning() -> None:
    """An end whose receipt lies in another source is kept."""
    unit = Journal().unit()
    unit.succeeded("t1", 1, 3)
    partial = followed(unit.journal)
    assert [(end.task_id, end.kind, end.pid, end.process, end.runtime_s) for end in partial.ends] == [
        ("t1", Line.SUCCEEDED, 101, "ForkPoolWorker-1", 3.0)
    ]


def test_open_at_a_death() -> None:
    """Runs that were open when a pool process died are kept though they end later: they tell who cannot have died."""
    unit = Journal().unit()
    unit.received("before")
    unit.succeeded("before", 1, 0.001)
    unit.journal.at(30)
    unit.received("t1", "t2")
    unit.dies(1, 1)
    unit.succeeded("t2", 2, 0.001)
    unit.received("after")
    unit.succeeded("after", 2, 0.001)
    partial = followed(unit.journal)
    assert {run.task_id: run.end is not None for run in partial.runs} == {"t1": False, "t2": True}


def test_ended_just_before_a_death() -> None:
    """Runs that ended within 15 s before a death are kept: the process may have died after its task's success."""
    unit = Journal().unit()
    unit.received("long ago", "just now")
    unit.succeeded("long ago", 1, 0.001)
    unit.journal.at(20)
    unit.succeeded("just now", 1, 20)
    unit.journal.at(25)
    unit.dies(1, 1)
    partial = followed(unit.journal)
    assert [run.task_id for run in partial.runs] == ["just now"]


def test_own_line() -> None:
    """A task's first line of its own is kept with the process that wrote it."""
    unit = Journal().unit()
    unit.received("t1")
    unit.journal.at(3)
    unit.speaks("t1", 2)
    unit.speaks("t1", 2, "still there")
    run = run_of(followed(unit.journal), "t1")
    assert run.spoke is not None
    assert (run.spoke.at, run.spoke_pid, run.spoke_process) == (moment(3), 102, "ForkPoolWorker-2")


def test_own_line_without_receipt() -> None:
    """A task known only by a line of its own is kept as a run without a receipt."""
    unit = Journal().unit()
    unit.speaks("t1", 2)
    run = run_of(followed(unit.journal), "t1")
    assert (run.received, run.number, run.spoke_process) == (None, None, "ForkPoolWorker-2")


def test_line_after_the_end() -> None:
    """A line that a finished task writes late does not open it again."""
    unit = Journal().unit()
    unit.received("t1")
    unit.succeeded("t1", 1)
    unit.speaks("t1", 1, "in a signal handler")
    assert followed(unit.journal).runs == ()


def test_accepted() -> None:
    """A DEBUG line tells which process took a task, and when."""
    unit = Journal().unit()
    unit.received("t1")
    unit.journal.at(2)
    unit.accepted("t1", 2)
    run = run_of(followed(unit.journal), "t1")
    assert run.accepted is not None
    assert (run.accepted.at, run.accepted_pid) == (moment(2), 102)


def test_life_starts_anew() -> None:
    """A second banner is a new life, also under the same pid: its jobs are counted from 0 again."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.journal.at(5)
    unit.bare("Restarting celery worker (/opt/app/bin/celery -A shop worker)")
    unit.journal.at(6)
    unit.starts(anew=False)
    unit.received("t3")
    partial = followed(unit.journal)
    assert numbers(partial) == {"t1": 0, "t2": 1, "t3": 0}
    assert [(one.main_pid, one.receipts, one.concurrency) for one in partial.segments] == [(100, 2, 2), (100, 1, 2)]


def test_late_banner() -> None:
    """Up to 5.0.1 the banner may come after "ready", even at exit: it begins no second life."""
    unit = Journal().unit(starts=False, version="4.4.7")
    unit.runs = 1
    unit.ready()
    unit.received_old("t1")
    unit.bare(f" -------------- {unit.node} v4.4.7 (cliffs)")
    unit.bare("- *** --- * --- .> concurrency: 3 (prefork)")
    (segment,) = followed(unit.journal).segments
    assert (segment.version, segment.concurrency, segment.receipts) == ("4.4.7", 3, 1)


def test_numbers_that_do_not_hold() -> None:
    """A task that starts after one received later shows that some waited unseen: the numbers are not relied upon."""
    unit = Journal().unit()
    unit.received("waits", "t2")
    unit.journal.at(5)
    unit.succeeded("t2", 1, 4.9)
    unit.journal.at(70)
    unit.succeeded("waits", 1, 10)
    (segment,) = followed(unit.journal).segments
    assert segment.reordered


def test_run_times() -> None:
    """Run times are counted by unit and task in buckets that grow by the fourth root of two."""
    unit = Journal().unit()
    for number, seconds in enumerate([1.05, 1.06, 30.0]):
        unit.received(f"t{number}")
        unit.succeeded(f"t{number}", 1, seconds)
    counts = followed(unit.journal).runtimes["celery@a.service", TASK]
    assert [count for _, count in counts] == [2, 1]
    tops = [bucket_top_s(bucket) for bucket, _ in counts]
    assert all(seconds <= top < seconds * 2**0.25 for seconds, top in zip([1.06, 30.0], tops, strict=True))


def test_stretches() -> None:
    """Entries are counted by unit, with the first and the last moment of each."""
    journal = Journal()
    unit = journal.unit()
    journal.at(10)
    journal.chatter()
    journal.at(20)
    journal.chatter()
    counted = {one.unit: (one.first, one.last, one.entries) for one in followed(journal).stretches}
    assert counted == {
        "celery@a.service": (NOON, NOON + 10_000, 3),
        "nginx.service": (moment(10), moment(20), 2),
    }
    assert unit.name in counted


def test_lost_unit() -> None:
    """A line that lost its unit belongs to that of earlier lines with the same boot, process and stream."""
    journal = Journal()
    unit = journal.unit(stream_id="5ca1e")
    unit.received("t1")
    nobody = Origin(transport="stdout", stream_id="5ca1e", comm="celery", uid=33)
    journal.write(f"[2026-11-30 12:00:00,000: INFO/MainProcess] Task {TASK}[t2] received", nobody, pid=unit.main)
    partial = followed(journal)
    assert {run.task_id: run.group.unit for run in partial.runs} == {"t1": unit.name, "t2": unit.name}
    stranger = replace(nobody, stream_id="07e4")
    journal.write(f"[2026-11-30 12:00:00,000: INFO/MainProcess] Task {TASK}[t3] received", stranger, pid=unit.main)
    assert [run.task_id for run in followed(journal).runs if run.group.unit == unit.name] == ["t1", "t2"]


def test_services_that_come_and_go() -> None:
    """Only the first of what services without a worker say of their starts and ends is kept: timers run for years."""
    journal = Journal()
    journal.unit()
    before = len(followed(journal).events)
    clean_up = Unit(journal, "clean-up.service", starts=False)
    for _ in range(50):
        clean_up.systemd.started()
        clean_up.systemd.succeeded()
    assert len(followed(journal).events) == before + 3


def test_drained() -> None:
    """Runs that end after a shutdown began are counted as drained."""
    unit = Journal().unit()
    unit.received("t1", "t2", "t3")
    unit.succeeded("t1", 1)
    unit.warm()
    unit.succeeded("t2", 1)
    unit.raised("t3", 2)
    (segment,) = followed(unit.journal).segments
    assert segment.drained == 2


def test_picklable() -> None:
    """A partial goes from one process to another, and is the same there."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.succeeded("t2", 1)
    unit.dies(1, 0)
    partial = followed(unit.journal)
    copy = pickle.loads(pickle.dumps(partial))  # noqa: S301 -- our own
    assert (copy.runs, copy.events, copy.segments) == (partial.runs, partial.events, partial.segments)
    assert copy.finished.tolist() == partial.finished.tolist()


def test_hash() -> None:
    """A task id's hash is the same in every process and on every machine; any text has one."""
    assert hash_of("7c2323fb-d456-4b6c-a2e1-e5e8dd676627") == 4_086_399_433_803_755_665
    assert hash_of("a") != hash_of("b")
    assert 0 <= hash_of("\udc80") < 2**64


@given(at_once=st.integers(min_value=1, max_value=40))
def test_batches(at_once: int) -> None:
    """Where a batch ends changes nothing."""
    unit = Journal().unit()
    unit.received("t1", "t2", "t3")
    unit.speaks("t1", 1)
    unit.succeeded("t2", 2, 0.01)
    unit.retries("t3", 2, 5)
    unit.received("t3")
    unit.dies(1, 0)
    unit.starts(300)
    unit.received("t1")
    whole, parts = followed(unit.journal), followed(unit.journal, at_once=at_once)
    assert (parts.runs, parts.ends, parts.events, parts.segments) == (
        whole.runs,
        whole.ends,
        whole.events,
        whole.segments,
    )
    assert parts.stretches == whole.stretches


def test_speech_of_a_process() -> None:
    """An exit keeps when its process was last heard of after its last task's end: that tells busy from idle."""
    unit = Journal().unit()
    unit.received("t1", "t2")
    unit.journal.at(3)
    unit.says("printed", child=1)
    unit.says("printed", child=2)
    unit.succeeded("t2", 2, 1)
    unit.journal.at(9)
    unit.exited(1)
    unit.exited(2)
    exits = [event for event in followed(unit.journal).events if isinstance(event, events.ChildExited)]
    assert [exit_.heard_at for exit_ in exits] == [moment(3), None]


def test_a_run_received_in_an_earlier_source_is_kept() -> None:
    """A task that speaks and ends after its journal was rotated: no source has to be read again for it."""
    unit = Journal().unit()
    unit.received("t1")
    first = followed(unit.journal)
    unit.journal.entries.clear()
    unit.speaks("t1", 1)
    unit.succeeded("t1", 1)
    second = followed(unit.journal)
    assert [run.task_id for run in second.runs] == ["t1"]
    assert second_look([first, second]) == {}


def test_looking_again_takes_one_sorting_of_all_sources() -> None:
    """An id that two of many sources finished is asked of both, and of no other."""
    partials = []
    for place in range(20):
        unit = Journal().unit()
        unit.received(f"own{place}")
        unit.succeeded(f"own{place}", 1)
        if place in {3, 11}:
            unit.received("both")
            unit.succeeded("both", 1)
        partials.append(followed(unit.journal))
    both = frozenset({hash_of("both")})
    assert second_look(partials) == {3: both, 11: both}
