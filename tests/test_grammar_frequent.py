"""The shortcut for frequent lines: it says what the patterns say, or leaves a line to them."""

# ruff: noqa: E501 -- rows of samples

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kill_audit.events import Line
from kill_audit.grammar import celery, systemd
from kill_audit.grammar.celery import BARE, RECORDS
from kill_audit.grammar.frequent import sure_lines
from kill_audit.grammar.ids import ID_BYTES, are_uuids, hash_of, hashes_of
from kill_audit.grammar.pattern import Pattern
from kill_audit.grammar.silent import RECORD_BEGINNINGS
from kill_audit.grammar.windows import REACH

UUID = "7c2323fb-d456-4b6c-a2e1-e5e8dd676627"
REF = f"Task shop.tasks.ring[{UUID}]"
STAMP = "[2026-11-30 12:02:14,223: "
MAIN, CHILD = f"{STAMP}INFO/MainProcess] ", f"{STAMP}INFO/ForkPoolWorker-2] "


@dataclass(frozen=True, slots=True)
class Said:
    """What a task line says."""

    kind: Line
    task_id: str
    task_name: str
    process: str
    number: float


def shortcut(texts: Sequence[str]) -> list[Said | str]:
    """What the shortcut says of each text: `ask` or `silent`, where it is no task line."""
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    buffer = np.frombuffer(b"".join(raw) + bytes(REACH), np.uint8)
    length = np.array([len(one) for one in raw], np.int64)
    sure = sure_lines(buffer, np.cumsum(length) - length, length)
    found: list[Said | str] = ["ask"] * len(texts)
    for place in sure.silent.tolist():
        found[place] = "silent"
    for number, place in enumerate(sure.which.tolist()):
        assert found[place] == "ask"
        kind, at, name = Line(int(sure.kind[number])), int(sure.id_at[number]), int(sure.name[number])
        task_id = "" if kind is Line.HEARD else buffer[at : at + 36].tobytes().decode()
        assert int(sure.id_hash[number]) == (hash_of(task_id) if task_id else 0)
        found[place] = Said(
            kind,
            task_id,
            sure.names[name] if name >= 0 else "",
            sure.processes[int(sure.process[number])],
            float(sure.number[number]),
        )
    return found


def patterns(text: str) -> Said | str:
    """What the patterns say of a text: a task line, `silent`, or `other` (events)."""
    recognised = celery.recognise(text, lambda: None)  # type: ignore[arg-type, return-value]
    if recognised is None:
        return "other" if systemd._SUPERVISOR.match(text) else "silent"
    said, made = recognised
    if not made:
        return "silent"
    if len(made) == 1 and isinstance(made[0], celery.TaskLine):
        return Said(made[0].kind, made[0].task_id, made[0].task_name, said.process, made[0].number)
    return "other"


def agree(texts: Sequence[str]) -> None:
    """Compare what the shortcut is sure of with what the patterns say."""
    for text, said in zip(texts, shortcut(texts), strict=True):
        assert said in ("ask", patterns(text)), text


# -- what it must be sure of ---------------------------------------------------------------------------------------

FREQUENT = (
    (f"{MAIN}{REF} received", Said(Line.RECEIVED, UUID, "shop.tasks.ring", "MainProcess", 0.0)),
    (
        f"{CHILD}{REF} succeeded in 0.020076239999980316s: None",
        Said(Line.SUCCEEDED, UUID, "shop.tasks.ring", "ForkPoolWorker-2", 0.020076239999980316),
    ),
    (
        f"{CHILD}{REF} succeeded in 1234.5s",
        Said(Line.SUCCEEDED, UUID, "shop.tasks.ring", "ForkPoolWorker-2", 1234.5),
    ),
    (f"{CHILD}shop.tasks.ring[{UUID}]: half done", Said(Line.SPOKE, UUID, "shop.tasks.ring", "ForkPoolWorker-2", 0)),
    (f"{CHILD}reading the catalogue", Said(Line.HEARD, "", "", "ForkPoolWorker-2", 0)),
    (
        f"{STAMP}ERROR/ForkPoolWorker-2] {REF} raised unexpected: ValueError('no')",
        Said(Line.RAISED, UUID, "shop.tasks.ring", "ForkPoolWorker-2", 0),
    ),
    (
        f"{CHILD}{REF} retry: Retry in 30s: GatewayError(503)",
        Said(Line.RETRIED, UUID, "shop.tasks.ring", "ForkPoolWorker-2", 30.0),
    ),
    (f"{MAIN}Scheduler: Sending due task tick (shop.tasks.tick)", "silent"),
    ("Traceback (most recent call last):", "silent"),
    ('  File "/srv/shop/gateway.py", line 88, in call', "silent"),
    ("    raise GatewayError(answer.status)", "silent"),
    ("shop.gateway.GatewayError: 503", "silent"),
    ('10.0.3.7 - - [30/Nov/2026:12:02:14 +0000] "GET /cart HTTP/1.1" 200 512', "silent"),
    ("connection from 10.0.3.7 accepted", "silent"),
    ("", "silent"),
)


@pytest.mark.parametrize(("text", "said"), FREQUENT)
def test_sure(text: str, said: Said | str) -> None:
    """What nearly all lines of a host are is recognised without any pattern, alone and among others."""
    assert shortcut([text]) == [said]
    assert shortcut([one for one, _ in FREQUENT]) == [what for _, what in FREQUENT]
    assert patterns(text) == said


# -- what it may say ---------------------------------------------------------------------------------------------------

SAMPLES = tuple(
    text for pattern in (*RECORDS.patterns, *BARE.patterns) for text in (*pattern.samples, *pattern.near_misses)
)
HEADS = (
    "", MAIN, CHILD, f"{STAMP}ERROR/ForkPoolWorker-12] ", f"{STAMP}WARNING/MainProcess] ", "[2026-11-30 12:02:14: INFO/x] ",
    "INFO ", "ERROR 2026-11-30 12:02:14,223 app 12 34 ", "2026-11-30 12:02:14,223 INFO celery.worker: ", "\x1b[32m", " ",
    "web: INFO | ", "[INFO] - ", "{", '{"message": "', "é INFO: ", "2026-11-30 12:02:14,223 INFO exited: ", "- ", "<6> ",
)  # fmt: skip
TAILS = ("", " ", "\n", " ready.", "]", ": x", "s: 1", "\x1b[0m", "é", '"}', " [x]: y", " received")
WORDS = (
    "Task ", "received", " received", "succeeded in ", "1.5s", "0.020076239999980316s:", "[", "]", ": ", UUID, UUID.upper(),
    "shop.tasks.ring", "Process 'ForkPoolWorker-3' pid:27 exited with 'signal 9 (SIGKILL)'", "a@b ready.", "@", " ",
    "WorkerLostError('Worker exited prematurely.')", "Terminated(15)", "raised unexpected: ", "retry: Retry in 3s",
    "worker: Warm shutdown (MainProcess)", "INFO", "> ", "- ", "| ", "{", "\x1b[0m", "é", "\n", "exited: a (exit status 1;",
)  # fmt: skip
TEXTS = st.one_of(
    st.tuples(
        st.sampled_from(HEADS), st.sampled_from((*SAMPLES, *(one for one, _ in FREQUENT))), st.sampled_from(TAILS)
    ),
    st.lists(st.one_of(st.sampled_from((*HEADS, *WORDS)), st.text(max_size=3)), max_size=8),
).map("".join)


@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
def test_agrees(texts: list[str]) -> None:
    """Whatever a line is put together from, what the shortcut is sure of is what the patterns say."""
    agree(texts)


@given(
    text=st.sampled_from([one for one, _ in FREQUENT if one]),
    place=st.integers(0, 200),
    byte=st.characters(codec="utf-8"),
)
def test_one_changed_character(text: str, place: int, byte: str) -> None:
    """A frequent line in which one character is another, is missing or is too many, is not taken for what it was."""
    place %= len(text)
    agree(
        [text[:place] + byte + text[place + 1 :], text[:place] + text[place + 1 :], text[:place] + byte + text[place:]]
    )


@given(width=st.integers(0, 400), text=st.sampled_from(SAMPLES), space=st.sampled_from(("x", " ", "é", "INFO ", "1")))
def test_far_heads(width: int, text: str, space: str) -> None:
    """Windows are narrow; a record behind a long head is none the less found, or left to the patterns."""
    head = (space * 400)[:width]
    agree(
        [f"{head} {text}", f"{head}] {text}", f"INFO {head}: {text}", f"{CHILD}{head}{text}", f"{CHILD}{text}{head}"]
    )


@pytest.mark.parametrize("pattern", RECORDS.patterns, ids=lambda pattern: pattern.name)
@given(data=st.data())
def test_beginnings(pattern: Pattern, data: st.DataObject) -> None:
    """Every text that a record's pattern matches begins as the shortcut knows, or has an @ in its first word."""
    text = data.draw(st.from_regex(pattern.regex))
    if pattern.regex.match(text):
        first = text[:4].encode("utf-8", "surrogatepass")
        assert first in RECORD_BEGINNINGS or "@" in re.split(r"\s", text)[0]


# -- numbers and ids -----------------------------------------------------------------------------------------------------


@given(seconds=st.floats(min_value=0, max_value=1e9), places=st.integers(0, 17))
@example(seconds=5e-324, places=17)
def test_seconds(seconds: float, places: int) -> None:
    """A run time is the very number that Python reads."""
    texts = [f"{CHILD}{REF} succeeded in {one}s: 1" for one in (repr(seconds), f"{seconds:.{places}f}")]
    agree(texts)


def windows_of(texts: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Texts side by side, as the shortcut sees ids."""
    raw = b"".join(text.encode("utf-8", "surrogatepass")[:36].ljust(ID_BYTES, b"\xff") for text in texts)
    return np.frombuffer(raw, np.uint8).reshape(-1, ID_BYTES)


def one_off(text: str) -> st.SearchStrategy[str]:
    """Texts of which one character may be another."""
    places = st.integers(0, len(text) - 1)
    return st.builds(lambda at, other: text[:at] + other + text[at + 1 :], places, st.sampled_from("0a-gF/:`\xe9"))


@given(ids=st.lists(st.uuids(), min_size=1, max_size=20))
def test_hashes(ids: list[uuid.UUID]) -> None:
    """UUIDs side by side have the hashes that they have alone."""
    window = windows_of(str(one) for one in ids)
    assert are_uuids(window).all()
    assert hashes_of(window).tolist() == [hash_of(str(one)) for one in ids]


@given(text=st.one_of(st.text(min_size=36, max_size=36), st.just(UUID).flatmap(one_off)))
def test_uuids(text: str) -> None:
    """Only UUIDs in their usual form are taken for such."""
    usual = re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None
    assert are_uuids(windows_of([text])).tolist() == [usual]
