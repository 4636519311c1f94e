"""What short, ndjson, csv, md and prometheus promise beyond their look."""

import csv
import datetime as dt
import io
import json
import re
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from prometheus_client.parser import text_string_to_metric_families
from sample_documents import HOUR, MONDAY, SAMPLES, crowd, document, kill

from kill_audit import texts
from kill_audit.document import Document, decode
from kill_audit.render import FORMS, render
from kill_audit.render.markdown import code, prose
from kill_audit.render.printable import printable_document
from kill_audit.render.records import LISTS

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def shown(what: Document, form: str, *, explain: bool = False) -> str:
    """A form of a document, as a file gets it."""
    return render(what, form, width=None, zone=dt.UTC, explain=explain)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_form_of_every_sample_is_printable_text(sample: str, form: str) -> None:
    """No form holds a control character but the newline, or lacks a newline at its end."""
    text = shown(SAMPLES[sample](), form)
    assert {char for char in text if not char.isprintable()} == {"\n"}
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


# short


def test_short_has_one_line_a_kill() -> None:
    """Where the evidence is whole, `short` has one line for each kill and nothing else, in the order of death."""
    lines = shown(crowd(200), "short").splitlines()
    assert [line.split()[3] for line in lines] == [one.id for one in crowd(200).kills]


@settings(deadline=None)
@given(NAMES)
def test_short_keeps_its_fields_apart(name: str) -> None:
    """Whatever the names, the first eleven words of a line are its fields, and the task is the rest."""
    line = shown(document([kill(0, MONDAY, host=name, unit=name, deploy=name, name=name)]), "short").rstrip("\n")
    words = line.split(" ", 11)
    assert words[0] == "2026-11-23T00:00:00+00:00"
    assert [word.partition("=")[0] for word in words[4:]] == [
        "cause", "confidence", "fate", "verdict", "deploy", "ran", "named", "task",
    ]  # fmt: skip


@pytest.mark.parametrize("sample", ["mixture", "nothing-found", "nothing-found-partial", "nothing-found-none"])
def test_short_says_when_its_lines_alone_would_mislead(sample: str) -> None:
    """No kills, holes in the evidence and blind deaths are said in a last line between dashes."""
    last = shown(SAMPLES[sample](), "short").splitlines()[-1]
    assert re.fullmatch(r"-- .*(evidence).* --", last)


def test_short_explains_below_each_line() -> None:
    """With `-x` each kill's cause, fate and verdict are explained below its line, and why it was judged so."""
    lines = shown(SAMPLES["one-kill"](), "short", explain=True).splitlines()
    unit_stop = texts.load().causes["unit-stop"]
    assert lines[1] == f"    unit-stop: {unit_stop.means} Fix: {unit_stop.fix}"
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["unit-stop", "lost", "missing"]
    assert lines[4] == "    because the unit was being restarted"


# ndjson


@pytest.mark.parametrize("sample", SAMPLES)
def test_ndjson_holds_the_whole_document(sample: str) -> None:
    """The document can be put together again from the lines of `ndjson`: nothing is lost or changed."""
    wanted = SAMPLES[sample]()
    head, *rest = map(json.loads, shown(wanted, "ndjson").splitlines())
    again = {key: value for key, value in head.items() if key != "record"}
    for key, record in LISTS.items():
        again[key] = [
            {name: value for name, value in line.items() if name != "record"}
            for line in rest
            if line["record"] == record
        ]
    assert head["record"] == "report"
    assert decode(json.dumps(again)) == wanted


# csv


def test_csv_has_a_row_a_kill() -> None:
    """`csv` has a header and one row for each kill, with nothing rounded and what is unknown empty."""
    rows = list(csv.DictReader(io.StringIO(shown(SAMPLES["mixture"](), "csv"))))
    kills = sorted(SAMPLES["mixture"]().kills, key=lambda one: one.at)
    assert [row["id"] for row in rows] == [one.id for one in kills]
    assert [row["ran_for_s"] for row in rows] == ["" if one.ran_for_s is None else str(one.ran_for_s) for one in kills]
    assert [row["task_id"] for row in rows] == [one.task.id or "" for one in kills]


@settings(deadline=None)
@given(NAMES)
def test_csv_cells_are_no_formulas(name: str) -> None:
    """A cell never begins with a character that makes a spreadsheet compute it; other text is kept."""
    killed = document([kill(0, MONDAY, name=name, unit=name, reasons=(name,))])
    (row,) = csv.DictReader(io.StringIO(shown(killed, "csv")))
    assert {value[0] for value in row.values() if value} & set("=+-@\t\r\n＝＋－＠") == set()  # noqa: RUF001
    assert row["task_name"].removeprefix("'") == (printable_document(killed).kills[0].task.name or "").removeprefix(
        "'"
    )


# md


def _inline(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown):
        yield token
        yield from token.children or ()


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"], include_characters=" "), min_size=1))
def test_a_code_span_keeps_its_text(text: str) -> None:
    """Whatever the text, it is one code span, and reads back as it was."""
    (paragraph,) = [token for token in _inline(f"x {code(text)} y") if token.type == "inline"]
    kinds = [child.type for child in paragraph.children or ()]
    assert kinds == ["text", "code_inline", "text"]
    assert (paragraph.children or [])[1].content == text


@pytest.mark.parametrize("explain", [False, True])
def test_markdown_holds_no_markup_of_others(explain: bool) -> None:
    """Hostile names make no HTML, link, image, emphasis or block of code."""
    kinds = {token.type for token in _inline(shown(SAMPLES["hostile"](), "md", explain=explain))}
    forbidden = {"html_inline", "html_block", "link_open", "image", "em_open", "s_open", "fence", "code_block"}
    assert kinds & forbidden == set()


def test_markdown_tables_have_as_many_cells_as_columns() -> None:
    """Every row of every table has the number of cells of its header, so that no name shifts the others."""
    lines = shown(SAMPLES["hostile"](), "md").splitlines()
    tables = "\n".join(line if line.startswith("|") else "" for line in lines).split("\n\n")
    pipes = [{row.count("|") for row in table.strip().splitlines()} for table in tables if table.strip()]
    assert [len(counts) for counts in pipes] == [1] * len(pipes)
    assert len(pipes) == 6


def test_our_own_texts_are_plain_markdown() -> None:
    """The package's texts become paragraphs of text and code: nothing in them is taken for markup."""
    known = texts.load()
    for of in (known.causes, known.fates, known.verdicts, known.findings, known.coverage, known.naming):
        for one in of.values():
            for text in (one.means, one.shown_by, one.fix):
                kinds = {token.type for token in _inline(prose(text))}
                assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}


# prometheus


def _samples(what: Document) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    families = text_string_to_metric_families(shown(what, "prometheus"))
    return {
        family.name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        for family in families
    }


@pytest.mark.parametrize("sample", SAMPLES)
def test_prometheus_is_what_its_parser_takes(sample: str) -> None:
    """The official parser reads every family with help and type, and each sample once."""
    text = shown(SAMPLES[sample](), "prometheus")
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"}
    assert [family.name for family in families if not family.documentation] == []
    assert [family.name for family in families if not re.fullmatch("kill_audit_[a-z_]+[a-z]", family.name)] == []
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


def test_prometheus_tells_the_documents_numbers() -> None:
    """The gauges are the numbers of the headline, and the breakdown adds up to them."""
    samples = _samples(SAMPLES["mixture"]())
    single = {name: values[()] for name, values in samples.items() if () in values}
    assert {name: single[f"kill_audit_{name}"] for name in ("kills", "kills_missing", "kills_stuck", "ghosts")} == {
        "kills": 11, "kills_missing": 3, "kills_stuck": 2, "ghosts": 2,
    }  # fmt: skip
    assert sum(samples["kill_audit_unit_kills"].values()) == 11
    assert sum(samples["kill_audit_task_kills"].values()) == 11
    assert samples["kill_audit_coverage"] == {
        (("verdict", "complete"),): 0.0, (("verdict", "partial"),): 1.0, (("verdict", "none"),): 0.0,
    }  # fmt: skip
    assert single["kill_audit_window_until_timestamp_seconds"] == MONDAY / 1_000_000 + 7 * 86_400


def test_prometheus_does_not_say_what_was_not_looked_for() -> None:
    """Without a run log there is no gauge of missing rows, rather than one that says 0."""
    assert "kill_audit_kills_missing" not in _samples(SAMPLES["no-run-log"]())


@settings(deadline=None)
@given(NAMES)
def test_prometheus_labels_read_back(name: str) -> None:
    """Whatever the name, its label reads back as the printable name."""
    killed = document([kill(0, MONDAY + HOUR, name=name)])
    printable_name = printable_document(killed).kills[0].task.name
    assert _samples(killed)["kill_audit_task_kills"] == {(("task", printable_name),): 1.0}


# every form


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=3))
def test_no_name_breaks_a_form(names: list[str]) -> None:
    """Any text as name and id is taken by every form without an error."""
    killed = document(kill(at, MONDAY, name=name, task_id=name) for at, name in enumerate(names))
    assert all(shown(killed, form) for form in FORMS)


def test_machine_forms_ignore_the_view() -> None:
    """For programs a form is the same whatever the zone, the width and `-x`."""
    mixture = SAMPLES["mixture"]()
    for form in ("json", "ndjson", "csv", "prometheus"):
        zone = dt.timezone(dt.timedelta(hours=5))
        assert render(mixture, form, width=80, zone=zone, color=True, explain=True) == shown(mixture, form)


def test_the_document_is_not_changed() -> None:
    """Rendering leaves the document as it was."""
    wanted, used = SAMPLES["hostile"](), SAMPLES["hostile"]()
    for form in FORMS:
        shown(used, form)
    assert msgspec.structs.asdict(used) == msgspec.structs.asdict(wanted)
