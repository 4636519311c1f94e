import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_entries import EVERYTHING, RECORDINGS, Entry, export_entry, sorted_out

from kill_audit.entry import BATCH_ENTRIES, Batch, Origin, Problem, Question
from kill_audit.journal import export
from kill_audit.journal.export import read_export

Field = tuple[bytes, bytes]

HEAD: tuple[Field, ...] = (
    (b"__CURSOR", b"s=1;i=1"),
    (b"__REALTIME_TIMESTAMP", b"1700000000000001"),
    (b"__MONOTONIC_TIMESTAMP", b"42"),
)


def read(data: bytes, question: Question = EVERYTHING) -> tuple[list[Entry], list[Problem]]:
    """Read a stream to its end."""
    return sorted_out(read_export(io.BytesIO(data), question))


def entry(*fields: Field, time: int = 1_700_000_000_000_001) -> bytes:
    """Write an entry with a cursor and times."""
    head = (HEAD[0], (b"__REALTIME_TIMESTAMP", b"%d" % time), HEAD[2])
    return export_entry((*head, *fields))


def said(*messages: str) -> bytes:
    """Write entries that differ in their messages only."""
    return b"".join(entry((b"_PID", b"7"), (b"MESSAGE", text.encode()), (b"_COMM", b"celery")) for text in messages)


def messages(data: bytes) -> list[str | None]:
    """Read the messages of a stream."""
    return [found.message for found in read(data)[0]]


def test_an_entry_becomes_a_row_with_its_origin_and_the_fields_that_a_grammar_may_ask_for() -> None:
    """Every part of an entry has its column, whatever order its fields come in."""
    data = entry(
        (b"JOB_ID", b"9"), (b"_SYSTEMD_UNIT", b"init.scope"), (b"UNIT", b"celery.service"), (b"MESSAGE", b"Stopped."),
        (b"_HOSTNAME", b"web1"), (b"_PID", b"1"), (b"_BOOT_ID", b"b0"), (b"SYSLOG_FACILITY", b"3"), (b"_UID", b"0"),
        (b"CODE_FUNC", b"job_finish"), (b"PRIORITY", b"6"), (b"TID", b"1"),
    )  # fmt: skip
    assert read(data) == (
        [
            Entry(
                realtime=1_700_000_000_000_001,
                monotonic=42,
                pid=1,
                origin=Origin(host="web1", boot_id="b0", unit="init.scope", facility=3, uid=0),
                message="Stopped.",
                cursor="s=1;i=1",
                fields={"CODE_FUNC": "job_finish", "JOB_ID": "9", "PRIORITY": "6", "UNIT": "celery.service"},
            )
        ],
        [],
    )


def test_a_binary_value_may_hold_anything_also_what_looks_like_the_next_entry() -> None:
    """The size of a binary field decides where it ends, not its content: text cannot forge an entry."""
    forged = b"line\n\n" + entry((b"_PID", b"1"), (b"_COMM", b"systemd"), (b"MESSAGE", b"Stopping."))
    assert messages(entry((b"MESSAGE", forged)) + said("after")) == [forged.decode(), "after"]


def test_a_known_shape_is_not_taken_for_granted_in_an_entry_that_only_resembles_it() -> None:
    """An entry like the one before it but for one line has that line's value."""
    other = entry((b"_PID", b"8"), (b"MESSAGE", b"c"), (b"_COMM", b"celery"))
    found, _ = read(said("a", "b") + other + said("d"))
    assert [(one.pid, one.message) for one in found] == [(7, "a"), (7, "b"), (8, "c"), (7, "d")]


def test_a_field_that_repeats_has_its_first_value() -> None:
    """Of several values of a field the first counts, for the message as for the origin."""
    data = entry((b"MESSAGE", b"one"), (b"MESSAGE", b"two"), (b"_COMM", b"first"), (b"_COMM", b"second"))
    found, _ = read(data)
    assert [(one.message, one.origin.comm) for one in found] == [("one", "first")]


def test_bytes_that_are_no_text_become_backslash_escapes() -> None:
    """A message that is not UTF-8 is kept, readable."""
    assert messages(entry((b"MESSAGE", b"caf\xe9 \xf0\x9f\x90\x8d"))) == ["caf\\xe9 \U0001f40d"]


def test_an_entry_without_a_message_has_none() -> None:
    """A row's message is None where the entry has no such field, and empty where the field is."""
    assert messages(entry((b"_PID", b"1")) + entry((b"MESSAGE", b""))) == [None, ""]


def test_entries_outside_the_span_that_is_read_are_left_out() -> None:
    """The span is half open, and masks every entry by its own time: clocks step back."""
    data = b"".join(entry((b"MESSAGE", b"%d" % time), time=time) for time in (30, 10, 29, 9, 20))
    question = Question(since=0, until=0, read_since=10, read_until=30)
    assert [found.message for found in read(data, question)[0]] == ["10", "29", "20"]


def test_an_entry_cut_off_at_the_end_is_a_problem_and_those_before_it_are_kept() -> None:
    """A stream that ends inside an entry says so, with the place and the time of the last whole entry."""
    whole = said("a")
    entries, problems = read(whole + said("b")[:-1])
    assert ([one.message for one in entries], problems) == (
        ["a"],
        [
            Problem(
                code="damaged",
                detail=f"the last entry is cut off at byte {len(whole) * 2 - 1:,}",
                since=1_700_000_000_000_001,
            )
        ],
    )


def test_reading_goes_on_behind_the_next_empty_line_after_garbage() -> None:
    """Garbage costs the entry that it is in, and no other."""
    entries, problems = read(said("a") + b"rubbish\n" + said("b") + said("c"))
    assert ([one.message for one in entries], [problem.code for problem in problems]) == (["a", "c"], ["damaged"])


def test_garbage_right_before_an_empty_line_costs_nothing_behind_that_line() -> None:
    """The empty line behind the damaged line itself is the one at which reading goes on."""
    assert messages(said("a") + b"rubbish\n\n" + said("b")) == ["a", "b"]


def test_an_entry_without_a_time_is_passed_over_and_told() -> None:
    """What has no time cannot be placed; the entry behind it is read."""
    entries, problems = read(export_entry([(b"MESSAGE", b"when?")]) + said("b"))
    assert ([one.message for one in entries], [problem.code for problem in problems]) == (["b"], ["damaged"])


def test_many_damaged_places_are_counted_and_not_told_one_by_one() -> None:
    """Ten places are told, the rest is one number."""
    _, problems = read(b"rubbish\n\n" * 25)
    assert (len(problems), problems[-1].detail) == (11, "and 15 more places like these")


def test_a_value_too_large_to_keep_is_passed_over_and_the_entry_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core dump inside an entry does not fill the memory, nor hide the entries behind it."""
    monkeypatch.setattr(export, "_LONGEST_VALUE", 100)
    monkeypatch.setattr(export, "_CHUNK", 64)
    data = entry((b"COREDUMP", b"\0" * 5000), (b"MESSAGE", b"dumped")) + entry((b"X", b"x" * 5000), (b"MESSAGE", b"b"))
    assert messages(data + said("c")) == ["dumped", "b", "c"]


@pytest.mark.parametrize("field", [(b"COREDUMP", b"\0" * 5000), (b"X", b"x" * 5000)])
def test_a_stream_cut_inside_a_value_too_large_to_keep_says_so(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large value that never ends is a cut like any other."""
    monkeypatch.setattr(export, "_LONGEST_VALUE", 100)
    monkeypatch.setattr(export, "_CHUNK", 64)
    entries, problems = read(said("a") + entry(field)[:-500])
    assert ([one.message for one in entries], [problem.code for problem in problems]) == (["a"], ["damaged"])


def test_a_binary_value_without_its_newline_is_damage() -> None:
    """A size that is wrong shows where the value ends."""
    wrong = entry((b"MESSAGE", b"a\nb")).replace((3).to_bytes(8, "little"), (2).to_bytes(8, "little"))
    entries, problems = read(wrong + said("b"))
    assert ([one.message for one in entries], [problem.code for problem in problems]) == (["b"], ["damaged"])


def test_garbage_that_never_ends_is_read_to_its_end() -> None:
    """Without another empty line there is nothing to go on at."""
    entries, problems = read(said("a") + b"rubbish\n" + said("b")[:-1])
    assert ([one.message for one in entries], [problem.code for problem in problems]) == (["a"], ["damaged"])


def test_what_is_remembered_of_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which no two entries are alike is read all the same."""
    monkeypatch.setattr(export, "_MOST_KNOWN", 2)
    data = b"".join(entry((b"MESSAGE", b"m"), (b"_COMM", b"%d" % (number % 5))) for number in range(50))
    assert [one.origin.comm for one in read(data)[0]] == [str(number % 5) for number in range(50)]


def test_the_stamp_of_the_sender_does_not_make_an_entry_a_new_one() -> None:
    """`_SOURCE_REALTIME_TIMESTAMP` differs in every entry of syslog and PID 1, and is not asked for."""
    data = b"".join(
        entry(
            (b"SYSLOG_TIMESTAMP", b"%d" % number), (b"MESSAGE", b"m"), (b"_SOURCE_REALTIME_TIMESTAMP", b"%d" % number)
        )
        for number in range(5)
    )
    assert len({(one.origin, one.message) for one in read(data)[0]}) == 1


def test_a_batch_never_holds_more_entries_than_its_limit() -> None:
    """A long stream comes in several batches, whose rows refer to their own origins."""
    batches = list(read_export(io.BytesIO(said("x") * (BATCH_ENTRIES + 10)), EVERYTHING))
    assert [len(batch) for batch in batches if isinstance(batch, Batch)] == [BATCH_ENTRIES, 10]
    assert {batch.origins for batch in batches if isinstance(batch, Batch)} == {(Origin(comm="celery"),)}


def test_a_batch_of_large_messages_is_handed_on_early() -> None:
    """Memory is bounded by bytes as well: 40 messages of a mebibyte do not wait for 65,536 entries."""
    batches = list(read_export(io.BytesIO(said("x" * (1 << 20)) * 40), EVERYTHING))
    assert [len(batch) for batch in batches if isinstance(batch, Batch)] == [32, 8]


def test_the_sequence_number_that_newer_journalctl_prints_is_passed_over() -> None:
    """`__SEQNUM` and `__SEQNUM_ID` (systemd 254) stand among an entry's own fields and change nothing."""
    data = export_entry([*HEAD, (b"__SEQNUM", b"5"), (b"__SEQNUM_ID", b"ab"), (b"_BOOT_ID", b"b"), (b"MESSAGE", b"m")])
    found, problems = read(data * 3)
    assert ([one.message for one in found], problems) == (["m"] * 3, [])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name)
def test_a_recording_is_read_without_a_problem(path: Path) -> None:
    """As many entries are read as the file has cursors."""
    data = path.read_bytes()
    entries, problems = read(data)
    assert (len(entries), problems) == (data.count(b"\n__CURSOR=") + 1, [])


NAMES = st.sampled_from([b"MESSAGE", b"_PID", b"_COMM", b"_SYSTEMD_UNIT", b"UNIT", b"MESSAGE_ID", b"X", b"PRIORITY"])
VALUES = st.one_of(
    st.sampled_from([b"", b"1", b"celery", b"a=b", b"\n\n", b"x\n\n__CURSOR=1\n", b"MESSAGE=\n", b"\xff", b"\x1b[0m"]),
    st.binary(max_size=30),
)
ENTRIES = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=6).map(tuple), max_size=12)
SHORT_AND_LONG = st.sampled_from([1, 2, 7, 64, 1 << 20])


def expected(entries: list[tuple[Field, ...]]) -> list[tuple[str | None, str | None, str | None, int]]:
    """What a reader must say of these entries, by another way."""
    said = []
    for fields in entries:
        first = {name: value.decode("utf-8", "backslashreplace") for name, value in reversed(fields)}
        pid = first.get(b"_PID", "")
        number = int(pid) if pid.isascii() and pid.isdigit() else 0
        said.append((first.get(b"MESSAGE"), first.get(b"_COMM"), first.get(b"UNIT"), number))
    return said


@given(entries=ENTRIES, again=st.integers(1, 3), chunk=SHORT_AND_LONG)
def test_any_entries_are_read_as_they_were_written(entries: list[tuple[Field, ...]], again: int, chunk: int) -> None:
    """Fields in any order, repeated, binary or empty; entries that repeat; chunks that end anywhere."""
    data = b"".join(entry(*fields) for fields in entries) * again
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_CHUNK", chunk)
        found, problems = read(data)
    rows = [(one.message, one.origin.comm, one.fields.get("UNIT"), one.pid) for one in found]
    assert (rows, problems) == (expected(entries * again), [])


@given(entries=ENTRIES.filter(bool), data=st.data())
def test_a_stream_cut_anywhere_gives_the_entries_before_the_cut(
    entries: list[tuple[Field, ...]], data: st.DataObject
) -> None:
    """Whatever byte a stream is cut at, all entries before it are read as in the whole, and the cut is told."""
    pieces = [entry(*fields) for fields in entries]
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, pieces[: count + 1])) for count in range(len(pieces))]
    complete = sum(end <= cut for end in ends)
    found, problems = read(whole[:cut])
    assert found == read(whole)[0][:complete]
    assert [problem.code for problem in problems] == ([] if cut in (0, *ends) else ["damaged"])


@given(garbage=st.binary(max_size=60), chunk=SHORT_AND_LONG)
def test_no_garbage_stops_the_reader_or_hides_a_later_entry(garbage: bytes, chunk: int) -> None:
    """Behind garbage that ends with an empty line, an entry of text fields is found again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_CHUNK", chunk)
        found, _ = read(said("before") + b"no field\n" + garbage.replace(b"\n", b"") + b"\n\n" + said("after"))
    assert [one.message for one in found] == ["before", "after"]
