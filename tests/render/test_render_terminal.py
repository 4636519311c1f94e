"""What the terminal report promises beyond its look."""

import datetime as dt
import html
import re
import unicodedata
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from sample_documents import DAY, HOUR, MONDAY, SAMPLES, document, kill, partial, task_id

from kill_audit import texts
from kill_audit.document import Accepted, Window, decode, encode, timestamp
from kill_audit.errors import UsageError
from kill_audit.render import FORMS, headline, render
from kill_audit.render.printable import printable, printable_document, printable_json

ACCEPTED = Accepted(reason="known", until=None, by="task *", where="accepted.toml:1")
SGR = re.compile(r"\x1b\[[0-9;]*m")


def table(sample: str, *, width: int | None = 80, color: bool = False) -> str:
    """The terminal form of a sample."""
    return render(SAMPLES[sample](), "table", width=width, color=color, zone=dt.UTC)


@pytest.mark.parametrize(
    ("kills", "sentence"),
    [
        (0, "0 kills found; the evidence covers the whole window (1,204,331 entries)."),
        (1, "1 task killed, 1 with no run row."),
        (1_200, "1,200 tasks killed, 1,200 with no run row."),
    ],
)
def test_the_headline_counts_in_good_grammar(kills: int, sentence: str) -> None:
    """The headline is right for none, one and many."""
    assert headline(document(kill(number, MONDAY) for number in range(kills))) == sentence


def test_the_headline_names_deploys_and_the_period_before() -> None:
    """The headline is the sentence that the product was made for."""
    expected = "119 tasks killed in 3 deploys (98 in the period before), 119 with no run row."
    assert headline(SAMPLES["deploys"]()) == expected


def test_the_headline_says_all_that_is_uncertain() -> None:
    """Blind deaths, stuck rows, ghosts and holes in the evidence stand in the headline."""
    assert headline(SAMPLES["mixture"]()) == (
        "11 tasks killed (3 of them in 1 deploy), 3 with no run row, 2 with a row stuck open; 1 accepted; "
        "1 blind worker death (its tasks cannot be known); 2 ghost rows; "
        "the evidence covers only a part of the window, so there may be more."
    )


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ("nothing-found", "covers the whole window"),
        ("nothing-found-partial", "covers only a part of the window, so there may be more"),
        ("nothing-found-none", "no evidence covers the window, so nothing can be said"),
    ],
)
def test_no_kills_is_said_only_with_coverage(sample: str, words: str) -> None:
    """The words "0 kills" stand in one sentence with how much the evidence reaches over."""
    assert table(sample, width=None).splitlines()[0].startswith("0 kills found; ")
    assert words in table(sample, width=None).splitlines()[0]


def test_a_headline_without_losses_says_so() -> None:
    """When every kill is accounted for, the headline says that none is missing or stuck."""
    recovered = document([kill(0, MONDAY, verdict="recovered")])
    assert headline(recovered) == "1 task killed, none without a run row, no row stuck open."


@pytest.mark.parametrize("sample", ["deploys", "mixture", "one-kill", "nothing-found-partial", "no-run-log"])
def test_lines_fit_80_columns(sample: str) -> None:
    """At 80 columns only a line that holds a longer id is longer than 80."""
    wide = [line for line in table(sample).splitlines() if cell_len(line) > 80 and "[" not in line]
    assert wide == []


@pytest.mark.parametrize("width", [20, 80, 200, None])
def test_ids_are_never_cut(width: int | None) -> None:
    """An id of 500 characters stands whole in one line, whatever the width."""
    long = "x" * 500
    shown = render(document([kill(0, MONDAY, task_id=long)]), "table", width=width, zone=dt.UTC)
    assert any(long in line for line in shown.splitlines())


def test_the_longest_unaccounted_runs_come_first() -> None:
    """The ten longest runs among missing and stuck stand first, whatever the order of death; accepted ones do not."""
    kills = [kill(number, MONDAY + number * HOUR, ran_for_s=float(number)) for number in range(30)]
    kills[29] = msgspec.structs.replace(kills[29], accepted=ACCEPTED)
    kills[28] = msgspec.structs.replace(kills[28], verdict="recovered")
    shown = render(document(kills), "table", width=None, zone=dt.UTC)
    order = re.findall(r"^([0-9a-f]{12})  ", shown, flags=re.MULTILINE)
    assert order[:10] == [kills[number].id for number in range(27, 17, -1)]
    assert order[10:] == [kills[number].id for number in (*range(18), 28, 29)]


@pytest.mark.parametrize("form", ["table", "md", "html"])
def test_every_word_of_a_report_is_explained(form: str) -> None:
    """With `-x` whatever the report says is explained once: what it means and what to do, also of what is no kill."""
    mixture = SAMPLES["mixture"]()
    blind = msgspec.structs.replace(mixture, kills=())
    words = {one.cause for one in mixture.blind_deaths} | {"blind-death", "ghost", "duplicate", "stale-acceptance"}
    known = texts.load()
    shown = " ".join(html.unescape(render(blind, form, width=None, zone=dt.UTC, explain=True)).split())
    for word in words:
        text = known.causes.get(word) or known.findings[word]
        assert text.title in shown
        first = text.fix.split("`")[0].split("(")[0].strip()
        assert shown.count(first) == 1


def test_a_pipe_gets_one_line_a_finding() -> None:
    """Without a terminal, whatever belongs to a kill stands in its line, so that grep finds it together."""
    lines = table("mixture", width=None).splitlines()
    accepted = [line for line in lines if "the operator's own test" in line]
    candidates = [line for line in lines if task_id(901) in line]
    assert [line.split()[0] for line in accepted + candidates] == ["fb19217a5759", "970a419f7856"]


def test_colours_carry_no_meaning_of_their_own() -> None:
    """With its colours taken out, the coloured report is the plain one."""
    coloured = table("mixture", color=True)
    assert SGR.search(coloured)
    assert [line.rstrip() for line in SGR.sub("", coloured).splitlines()] == table("mixture").splitlines()


def test_without_colour_there_is_no_escape_sequence() -> None:
    """A plain report holds no control character but the newline, whatever the task names hold."""
    for width in (80, 200, None):
        controls = {char for char in table("hostile", width=width) if not char.isprintable()}
        assert controls == {"\n"}


def test_a_name_cannot_forge_a_line() -> None:
    """A newline in a task name does not begin a line of the report."""
    assert [line for line in table("hostile", width=None).splitlines() if line.startswith("forged")] == []


def test_markup_of_the_terminal_library_stays_text() -> None:
    """`[red]` and `:bomb:` in a task name are printed as they are."""
    assert "[red]markup[/red] [link=http://example.org]x[/link] :bomb:" in table("hostile", width=None)


@settings(deadline=None)
@given(st.text())
def test_printable_text_has_a_glyph_for_each_character(text: str) -> None:
    """Whatever the text, no control, format, surrogate or private character is left, and printable text is kept."""
    shown = printable(text)
    assert {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} == set()
    assert (shown == text) == text.isprintable()


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_escaped_without_changing_its_value(text: str) -> None:
    """JSON on a terminal drives nothing, and still means the same."""
    shown = printable_json(msgspec.json.encode(text).decode())
    assert shown.isprintable()
    assert msgspec.json.decode(shown) == text


@pytest.mark.parametrize("sample", list(SAMPLES))
def test_json_is_the_document(sample: str) -> None:
    """`json` reads back as the same document, and printable_document changes nothing but texts without a glyph."""
    wanted = SAMPLES[sample]()
    assert decode(render(wanted, "json", width=None)) == wanted
    if sample != "hostile":
        assert encode(printable_document(wanted)) == encode(wanted)


def test_times_are_in_the_zone_named() -> None:
    """Times are shown in the zone asked for, and the zone is named."""
    shown = render(SAMPLES["one-kill"](), "table", width=200, zone=ZoneInfo("Europe/Berlin"))
    assert "2026-11-23 01:00:00 to 2026-11-30 01:00:00 Europe/Berlin (CET)" in shown
    assert "died at (CET)" in shown
    assert "2026-11-23 02:00:00" in shown


def test_a_window_over_the_end_of_summer_time_marks_each_time() -> None:
    """Where an hour comes twice, each time says which of the two it is."""
    start = 1_792_879_200_000_000  # 2026-10-25 00:00 in Berlin, the day on which summer time ends
    twice = document(
        [kill(0, start + 2 * HOUR + HOUR // 2), kill(1, start + 3 * HOUR + HOUR // 2)],
        window=Window(since=timestamp(start), until=timestamp(start + DAY)),
    )
    shown = render(twice, "table", width=200, zone=ZoneInfo("Europe/Berlin"))
    assert "Europe/Berlin (CEST, then CET)" in shown
    assert "2026-10-25 02:30:00 CEST" in shown
    assert "2026-10-25 02:30:00 CET" in shown


def test_an_unknown_form_is_refused_with_the_list() -> None:
    """A form that does not exist is an error that names those that do."""
    with pytest.raises(UsageError) as refused:
        render(document(), "pdf", width=None)
    assert refused.value.hint == f"use one of: {', '.join(FORMS)}"


def test_a_problem_of_a_later_version_is_shown() -> None:
    """A coverage problem whose code has no text here is shown by its code."""
    assert "code-of-a-later-version: something new" in render(document(coverage=partial()), "table", width=None)


def test_the_next_command_names_the_worst_kill() -> None:
    """The report ends with a command to type, with the id of the first kill in it."""
    assert "\nkill-audit show f924d5fd8bc1 " in table("mixture")
