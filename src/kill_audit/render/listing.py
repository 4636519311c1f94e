"""A list of things as text: one line each where that fits, else a few lines each. Without a terminal always one line.

What came from journals is made printable here, so that no command can forget it. No colour carries a meaning that no
word carries.
"""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kill_audit.render.printable import printable

UNWRAPPED = 1_000_000  # columns of an output that is no terminal
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A thing of a list. `cells`: for the table; `more`: the lines below its head where the table is too wide.

    `state`: `ok`, `warn` or `fail`, which colours the first cell; None for a thing without a state.
    """

    cells: tuple[str, ...]
    head: str
    more: tuple[str, ...] = ()
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list with a sentence before it and notes after it. `numbers`: the columns that stand to the right."""

    title: str
    columns: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    numbers: frozenset[str] = frozenset()


def render_listing(listing: Listing, *, width: int | None, color: bool) -> str:
    """Write a list; the text ends with a newline.

    Args:
        listing: what to write.
        width: columns of the terminal; None where there is none.
        color: whether ANSI colours may be used.
    """
    buffer = io.StringIO()
    console = _console(buffer, width, color=color)
    console.print(Text(printable(listing.title), style="bold" if color else ""))
    if listing.items:
        console.print()
        _items(console, listing, width)
    if listing.notes:
        console.print()
    for note in listing.notes:
        console.print(printable(note), soft_wrap=width is None)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A thing that was looked at, how it stands, and what to type.

    `more`: lines that belong to it; one that begins with a blank is for copying, and is never wrapped.
    """

    state: str
    name: str
    detail: str
    fix: str | None = None
    more: tuple[str, ...] = ()


def render_findings(title: str, findings: Sequence[Finding], *, width: int | None, color: bool) -> str:
    """Write what was looked at, in its order; commands are never broken, so that they can be copied.

    Args:
        title: a sentence for all of it.
        findings: without a terminal each is one line, and those below it that belong to it.
        width: columns of the terminal; None where there is none.
        color: whether ANSI colours may be used.
    """
    lines = [Text(printable(title), style="bold"), Text("")]
    widths = [max(map(cell_len, column)) for column in zip(*((one.state, one.name) for one in findings), strict=True)]
    for one in findings:
        lead = f"{one.state:<{widths[0]}}  {one.name:<{widths[1]}}  "
        detail = printable(one.detail)
        room = (width or UNWRAPPED) - len(lead)
        parts = textwrap.wrap(detail, room, break_long_words=False, break_on_hyphens=False) if room > 20 else [detail]
        head = Text(lead + parts[0])
        head.stylize(STYLES.get(one.state, ""), 0, len(one.state))
        lines += [head, *(Text(" " * len(lead) + part) for part in parts[1:])]
        if one.fix is not None:
            lines.append(Text(f"      {'next' if one.state == 'ok' else 'fix'}: {printable(one.fix)}"))
        lines += [Text(line, style="dim") for more in one.more for line in _below(printable(more), width)]
    buffer = io.StringIO()
    console = _console(buffer, width, color=color)
    for line in lines:
        console.print(line, soft_wrap=True)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _below(text: str, width: int | None) -> list[str]:
    """Indent a line that belongs to a finding, and wrap it; one that is indented already is for copying."""
    if width is None or text.startswith(" "):
        return [f"      {text}"]
    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=" " * 6,
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _console(buffer: io.StringIO, width: int | None, *, color: bool) -> Console:
    return Console(
        file=buffer,
        width=width or UNWRAPPED,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )


def _items(console: Console, listing: Listing, width: int | None) -> None:
    rows = [tuple(map(printable, item.cells)) for item in listing.items]
    widths = [max(map(cell_len, column)) for column in zip(listing.columns, *rows, strict=True)]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        _stacked(console, listing)
        return
    right = [name in listing.numbers for name in listing.columns]
    console.print(Text(_aligned(listing.columns, widths, right), style="dim"), soft_wrap=True)
    for item, row in zip(listing.items, rows, strict=True):
        line = Text(_aligned(row, widths, right))
        line.stylize(STYLES.get(item.state or "", ""), 0, len(row[0]))
        console.print(line, soft_wrap=True)


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_number in zip(cells, widths, right, strict=True):
        blanks = " " * (width - cell_len(cell))
        padded.append(blanks + cell if is_number else cell + blanks)
    return "  ".join(padded).rstrip()


def _stacked(console: Console, listing: Listing) -> None:
    for item in listing.items:
        head = Text(printable(item.head))
        if item.state is not None:
            head.stylize(STYLES[item.state], 0, len(item.cells[0]))
        console.print(head, soft_wrap=True)
        for line in item.more:
            text = Text(printable(line))
            longest = max(map(cell_len, text.plain.split()), default=0)
            if longest + 2 > console.width:  # an id or a command is never broken
                console.print(Text("  ").append_text(text), soft_wrap=True)
            else:
                console.print(Padding(text, (0, 0, 0, 2), expand=False))
