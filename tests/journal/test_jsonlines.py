import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_entries import EVERYTHING, Entry, sorted_out

from kill_audit.entry import Origin, Problem, Question
from kill_audit.journal.jsonlines import read_json

TIME = "1700000000000001"


def read(data: bytes, question: Question = EVERYTHING) -> tuple[list[Entry], list[Problem]]:
    """Read a stream to its end."""
    return sorted_out(read_json(io.BytesIO(data), question))


def line(**fields: Any) -> bytes:
    """Write an entry."""
    return json.dumps({"__REALTIME_TIMESTAMP": TIME, **fields}).encode() + b"\n"


def messages(data: bytes) -> list[str | None]:
    """Read the messages of a stream."""
    return [found.message for found in read(data)[0]]


def test_an_object_becomes_a_row_with_its_origin_and_the_fields_that_a_grammar_may_ask_for() -> None:
    """Every part of an entry has its column."""
    data = line(
        __CURSOR="s=1", __MONOTONIC_TIMESTAMP="42", MESSAGE="Stopped.", _PID="1", _HOSTNAME="web1", UNIT="c.service",
        JOB_ID="9", TID="1",
    )  # fmt: skip
    assert read(data) == (
        [
            Entry(
                realtime=int(TIME), monotonic=42, pid=1, origin=Origin(host="web1"), message="Stopped.", cursor="s=1",
                fields={"JOB_ID": "9", "UNIT": "c.service"},
            )
        ],
        [],
    )  # fmt: skip


def test_an_array_of_numbers_is_the_bytes_of_a_value_that_is_no_printable_text() -> None:
    """So journalctl prints a message with an escape character, or one that is no UTF-8, as an array."""
    assert messages(line(MESSAGE=[*b"\x1b[0m caf\xe9"])) == ["\x1b[0m caf\\xe9"]


@pytest.mark.parametrize(
    ("value", "text"), [(["one", "two"], "one"), ([[111, 110, 101], "two"], "one"), ([None, "two"], None)]
)
def test_an_array_of_values_is_a_field_that_repeats_and_its_first_value_counts(value: Any, text: str | None) -> None:
    """A field that repeats comes as an array of strings, of arrays of numbers, or of null."""
    assert messages(line(MESSAGE=value)) == [text]


def test_messages_left_out_for_their_size_are_none_and_counted_in_one_problem() -> None:
    """Without --all, journalctl prints null for a message of 4096 bytes or more."""
    entries, problems = read(line(MESSAGE="a") + line(MESSAGE=None) * 3 + line(_COMM="no message at all"))
    assert [one.message for one in entries] == ["a", None, None, None, None]
    assert [(problem.code, problem.detail.split()[0], problem.since) for problem in problems] == [
        ("null-message", "3", int(TIME))
    ]


def test_a_null_in_another_field_is_no_field() -> None:
    """A command line left out for its size is simply not there."""
    (found,), problems = read(line(MESSAGE="a", MESSAGE_ID="b", _CMDLINE=None))
    assert (found.fields, problems) == ({"MESSAGE_ID": "b"}, [])


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"__REALTIME_TIMESTAMP": "17',
        b"rubbish",
        b"[1]",
        b'{"MESSAGE": "no time"}',
        line(MESSAGE=[999])[:-1],
        b"\xff",
    ],
)
def test_a_line_that_is_no_entry_is_told_and_passed_over(damaged: bytes) -> None:
    """One damaged line costs itself only, and its number is named."""
    entries, problems = read(line(MESSAGE="a") + damaged + b"\n" + line(MESSAGE="b"))
    assert [one.message for one in entries] == ["a", "b"]
    assert [(problem.code, problem.detail, problem.since) for problem in problems] == [
        ("damaged", "line 2 is no journal entry; passed over", int(TIME))
    ]


@pytest.mark.parametrize(
    "written",
    [
        b"\x1e" + line(MESSAGE="a") + b"\x1e" + line(MESSAGE="b"),
        b"data: " + line(MESSAGE="a") + b"\ndata: " + line(MESSAGE="b") + b"\n",
        (
            b'{\n\t"__REALTIME_TIMESTAMP" : "1",\n\t"MESSAGE" : "a"\n}\n'
            b'{\n\t"__REALTIME_TIMESTAMP" : "2",\n\t"MESSAGE" : "b"\n}\n'
        ),
        line(MESSAGE="a").replace(b"\n", b"\r\n") + b"\n\n" + line(MESSAGE="b").rstrip(),
    ],
    ids=["json-seq", "json-sse", "json-pretty", "carriage returns, empty lines, no newline at the end"],
)
def test_the_other_json_forms_of_journalctl_are_read_as_well(written: bytes) -> None:
    """`-o json-seq`, `json-sse` and `json-pretty` frame the same objects differently."""
    entries, problems = read(written)
    assert ([one.message for one in entries], problems) == (["a", "b"], [])


def test_an_object_that_never_ends_is_damage() -> None:
    """`json-pretty` output that is cut off says so."""
    entries, problems = read(b'{\n\t"__REALTIME_TIMESTAMP" : "1",\n')
    assert (entries, [problem.code for problem in problems]) == ([], ["damaged"])


def test_entries_outside_the_span_that_is_read_are_left_out() -> None:
    """The span is half open, and masks every entry by its own time."""
    data = b"".join(line(MESSAGE=time).replace(TIME.encode(), time.encode()) for time in ("30", "10", "29", "9"))
    question = Question(since=0, until=0, read_since=10, read_until=30)
    assert [found.message for found in read(data, question)[0]] == ["10", "29"]


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (True, "True"), ([], None), ([[]], None)])
def test_other_values_are_taken_as_text(value: Any, text: str | None) -> None:
    """A program between journalctl and here may have made numbers of what looked like some."""
    assert messages(line(MESSAGE=value)) == [text]


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_text_is_read_as_it_was_written(texts: list[str]) -> None:
    """Whatever characters a message is made of."""
    assert messages(b"".join(line(MESSAGE=text) for text in texts)) == texts
