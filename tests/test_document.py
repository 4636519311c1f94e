"""The report as a document: one versioned shape, both ways, and a schema that says so."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import DAY, NOON, Journal, Table, audited, row
from kill_audit import document
from kill_audit.acceptance import Acceptance, accepted
from kill_audit.classify import Cause, Fate
from kill_audit.document import Document, decode, encode, micros, schema, timestamp
from kill_audit.errors import UsageError
from kill_audit.reconcile import State, Verdict
from recorded import Scene, cases, recordings

SCENES = {scene.name: scene for scene in (*recordings(), *cases())}
VALIDATOR = jsonschema.Draft202012Validator(schema(), format_checker=jsonschema.FormatChecker())


@cache
def rich() -> Document:
    """A report in which every list holds something."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1", "t2", "twice")
    unit.succeeded("t2", 2)
    journal.at(5)
    unit.succeeded("twice", 2, 5)
    unit.received("twice")
    journal.at(9)
    unit.succeeded("twice", 2, 4)
    unit.exited(7, 15)
    unit.received("t3")
    journal.at(30)
    unit.systemd.stopping()
    unit.warm()
    unit.dies(1, 0, 15)
    unit.dies(2, 4, 15)
    unit.lost(9, code=0)
    unit.systemd.succeeded()
    unit.systemd.stopped("restart")
    journal.at(60)
    quiet = journal.unit("celery@q.service", main=900, starts=False)
    quiet.runs = 1
    quiet.bare(f" -------------- {quiet.node} v5.7.0 (collider)")
    quiet.systemd.main_exited("killed", 9)
    quiet.systemd.failed("signal")
    rows = [row("t1", State.OPEN, 1), row("gone", State.OPEN, 2, worker=quiet.node)]
    journal.at(90)
    quiet.starts(950)
    known = Acceptance(where="accepted.toml:3", reason="known", tasks=("*",), until=NOON + 365 * DAY)
    return accepted(audited(journal, run_log=Table(rows=rows)), (known,))


def test_rich() -> None:
    """The scene that the other tests use fills every list of the document."""
    plain = msgspec.to_builtins(rich())
    lists = {key: value for key, value in plain.items() if isinstance(value, list | tuple)}
    assert {key for key, value in lists.items() if not value} == set()
    assert all(plain["advice"].values())


# -- the schema ------------------------------------------------------------------------------------------------------


def test_schema_file() -> None:
    """The schema that the package ships is the document's own."""
    shipped = resources.files("kill_audit").joinpath("schema/report-1.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == schema()
    assert shipped == json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def test_schema_is_one() -> None:
    """The schema is a JSON Schema of draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_valid(scene: Scene) -> None:
    """The report of every recorded scene is valid by the schema."""
    VALIDATOR.validate(json.loads(encode(scene.audited())))


def test_valid_in_full() -> None:
    """A report with something in every list is valid by the schema."""
    VALIDATOR.validate(json.loads(encode(rich())))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all keys of objects in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value[:1]):
            yield from leaves(inner, (*path, place))


def test_every_key_is_required() -> None:
    """Every key is always there: what is not known is null, and no key is left out."""
    whole = json.loads(encode(rich()))
    by_name = {"by_cause", "by_verdict", "by_unit", "by_task"}
    kept = []
    for path in leaves(whole):
        if by_name & set(path[:-1]):
            continue
        cut = deepcopy(whole)
        inner = cut
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        if VALIDATOR.is_valid(cut):
            kept.append(path)
    assert kept == []


def test_keys_in_order() -> None:
    """The keys stand in the order of the documentation."""
    assert list(json.loads(encode(rich()))) == [
        "format",
        "version",
        "tool",
        "generated_at",
        "window",
        "coverage",
        "run_log",
        "totals",
        "previous",
        "deploys",
        "incidents",
        "kills",
        "idle_deaths",
        "blind_deaths",
        "ghosts",
        "duplicates",
        "offenders",
        "not_losses",
        "acceptances",
        "advice",
    ]
    assert list(json.loads(encode(rich()))["kills"][0]) == [
        "id",
        "at",
        "host",
        "boot_id",
        "unit",
        "invocation_id",
        "worker",
        "main_pid",
        "child_pid",
        "host_pid",
        "pool_process",
        "signal",
        "signal_name",
        "exit_code",
        "job",
        "task",
        "received_at",
        "started_at",
        "ran_for_s",
        "cause",
        "confidence",
        "reasons",
        "fate",
        "deliveries",
        "killed_times",
        "deploy",
        "incident",
        "verdict",
        "accepted",
        "rows",
        "evidence",
    ]


def test_words() -> None:
    """Causes, fates and verdicts are kebab-case words."""
    words = [one.value for kind in (Cause, Fate, Verdict) for one in kind]
    assert all(word == word.lower().replace("_", "-").replace(" ", "-") for word in words)


# -- both ways -------------------------------------------------------------------------------------------------------


def test_round_trip() -> None:
    """What is read back is what was written, and is written alike again."""
    whole = rich()
    assert decode(encode(whole)) == whole
    assert encode(decode(encode(whole))) == encode(whole)


def test_later_versions() -> None:
    """Keys that a later version adds are passed over."""
    plain = json.loads(encode(rich()))
    plain["weather"] = "fair"
    plain["kills"][0]["mood"] = {"of": "the day"}
    assert decode(json.dumps(plain)) == rich()
    VALIDATOR.validate(plain)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"format": "kill-audit/report", "version": 2}',
        '{"format": "junit", "version": 1}',
        b"\xff\xfe",
        "{" * 10_000,
    ],
    ids=range(8),
)
def test_other_files(data: bytes | str) -> None:
    """Anything else is refused with one line and the next command."""
    with pytest.raises(UsageError) as caught:
        decode(data)
    assert "\n" not in caught.value.message
    assert "kill-audit report" in caught.value.hint


def test_indented() -> None:
    """The JSON is indented and ends with a newline, so that it can be read and compared line by line."""
    text = encode(rich()).decode()
    assert text.startswith('{\n  "format": "kill-audit/report",\n  "version": 1,\n')
    assert text.endswith("}\n")


# -- times -----------------------------------------------------------------------------------------------------------


@given(moment=st.integers(min_value=-(10**15), max_value=4 * 10**15))
def test_times(moment: int) -> None:
    """A moment is written as RFC 3339 in UTC with six digits and read back exactly."""
    text = timestamp(moment)
    assert micros(text) == moment
    assert len(text) == len("2026-11-30T12:00:00.000000Z")
    assert text.endswith("Z")


def test_time() -> None:
    """2026-11-30 12:00:00.000001 UTC is written so."""
    assert timestamp(NOON + 1) == "2026-11-30T12:00:00.000001Z"


def test_every_part_is_frozen() -> None:
    """No part of a document can be changed."""
    whole = rich()
    with pytest.raises(AttributeError):
        whole.kills = ()  # type: ignore[misc]
    parts = [one for one in vars(document).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    assert all(part.__struct_config__.frozen for part in parts)
