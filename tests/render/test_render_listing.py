"""Lists and findings as text, for a wide terminal, a narrow one, and a pipe."""

import re

from kill_audit.render.listing import Finding, Item, Listing, render_findings, render_listing

LISTING = Listing(
    title="2 things.",
    columns=("name", "kills", "where"),
    items=(
        Item(cells=("alpha", "1,204", "web1"), head="alpha on web1", more=("1,204 kills, and some words",)),
        Item(cells=("b", "7", "web2"), head="b on web2", more=("7 kills",), state="warn"),
    ),
    notes=("next: something",),
    numbers=frozenset({"kills"}),
)
FINDINGS = (
    Finding(state="ok", name="reader", detail="all is well", fix="look again", more=("a row",)),
    Finding(state="fail", name="a long name", detail="words " * 20 + "end", fix="sudo do something --with words " * 4),
)


def test_a_list_that_fits_is_a_table_with_numbers_to_the_right() -> None:
    """One line each, columns aligned; no blanks at a line's end."""
    assert render_listing(LISTING, width=40, color=False).splitlines() == [
        "2 things.",
        "",
        "name   kills  where",
        "alpha  1,204  web1",
        "b          7  web2",
        "",
        "next: something",
    ]


def test_a_list_that_does_not_fit_is_a_few_lines_each() -> None:
    """Words are wrapped below their head."""
    assert render_listing(LISTING, width=16, color=False).splitlines() == [
        "2 things.",
        "",
        "alpha on web1",
        "  1,204 kills,",
        "  and some words",
        "b on web2",
        "  7 kills",
        "",
        "next: something",
    ]


def test_a_pipe_gets_one_line_each_however_long() -> None:
    """Without a terminal nothing is wrapped or cut."""
    long = Listing(title="t", columns=("a", "b"), items=(Item(cells=("x" * 300, "y" * 300), head="", more=()),))
    assert render_listing(long, width=None, color=False).splitlines()[3] == "x" * 300 + "  " + "y" * 300


def test_an_empty_list_is_its_title_and_notes() -> None:
    """Nothing found is said by the sentence before the list."""
    assert render_listing(Listing(title="0 things.", notes=("n",)), width=80, color=False) == "0 things.\n\nn\n"


def test_what_has_no_glyph_is_spelt_out() -> None:
    """A unit's name from a journal cannot drive the terminal."""
    hostile = Listing(
        title="\x1b[2J", columns=("a",), items=(Item(cells=("\x1b]0;x\a",), head="h\x1b"),), notes=("\n",)
    )
    text = render_listing(hostile, width=None, color=False) + render_listing(hostile, width=2, color=False)
    text += render_findings(
        "\x1b", [Finding(state="ok", name="n", detail="\x1b", fix="\x1b", more=("\x1b",))], width=9, color=False
    )
    assert "\x1b" not in text
    assert r"\x1b]0;x\x07" in text


def test_findings_are_wrapped_under_themselves_and_commands_are_not() -> None:
    """A sentence keeps its column; a command stays one line, so that it can be copied whole."""
    lines = render_findings("Title.", FINDINGS, width=60, color=False).splitlines()
    assert lines[:5] == ["Title.", "", "ok    reader       all is well", "      next: look again", "      a row"]
    assert lines[5] == "fail  a long name  " + "words " * 6 + "words"
    assert all(line.startswith(" " * 19) for line in lines[6:8])
    assert lines[-1] == "      fix: " + ("sudo do something --with words " * 4).rstrip()


def test_lines_below_a_finding_are_wrapped_unless_they_are_for_copying() -> None:
    """A long sentence goes on below itself; a line of a configuration stays whole."""
    finding = Finding(state="ok", name="n", detail="d", more=("word " * 12, "    key = " + '"value" ' * 9))
    assert render_findings("t", [finding], width=40, color=False).splitlines()[3:] == [
        "      word word word word word word word",
        "          word word word word word",
        "          key = " + '"value" ' * 8 + '"value"',
    ]


def test_findings_without_a_terminal_are_one_line_each_and_what_belongs_to_them() -> None:
    """Grep finds a whole sentence."""
    lines = render_findings("Title.", FINDINGS, width=None, color=False).splitlines()
    assert lines[5] == "fail  a long name  " + "words " * 20 + "end"


def test_colour_adds_nothing_but_colour() -> None:
    """Without its escapes a coloured text is the plain one."""
    for width in (None, 40, 16):
        coloured, plain = (
            render_listing(LISTING, width=width, color=color)
            + render_findings("t", FINDINGS, width=width, color=color)
            for color in (True, False)
        )
        assert "\x1b[" in coloured
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()
