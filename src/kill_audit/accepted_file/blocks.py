"""The text of the file cut into its entries, each with the line where it begins.

TOML's readers tell no lines, and stop at the first mistake. Entry by entry, each mistake is found, with its line; and
an entry can be changed or taken out while everything else stays as it was written.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

_PLACE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A header with what stands below it; the first has no header. `line`: of its first line, from 1."""

    line: int
    text: str

    def parsed(self) -> dict[str, Any]:
        """Read it alone.

        Raises:
            tomllib.TOMLDecodeError: it is no TOML; `line_of_error` tells where.
        """
        return tomllib.loads(self.text.replace("\r\n", "\n"))

    def line_of(self, key: str) -> int:
        """The line on which a key of it is given, as far as that can be seen; else its first line."""
        given = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
        lines = self.text.split("\n")
        return self.line + next((place for place, line in enumerate(lines) if given.match(line)), 0)

    def parts(self) -> tuple[str, str]:
        """Split off what belongs to the next one: comments and blanks at its end, from the first blank line on."""
        lines = re.findall(r"[^\n]*\n|[^\n]+", self.text)
        end = list(takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), reversed(lines)))[::-1]
        blank = next((place for place, line in enumerate(end) if not line.strip()), len(end))
        split = len(lines) - len(end) + blank
        return "".join(lines[:split]), "".join(lines[split:])


def blocks(text: str) -> Iterator[Block]:
    """Cut a text before each line that begins a table; together the blocks are the text."""
    lines = text.split("\n")
    start = 0
    for place, line in enumerate(lines):
        if place > start and line.lstrip().startswith("[") and not _goes_on("\n".join(lines[start:place]) + "\n"):
            yield Block(line=start + 1, text="\n".join(lines[start:place]) + "\n")
            start = place
    yield Block(line=start + 1, text="\n".join(lines[start:]))


def line_of_error(block: Block, error: tomllib.TOMLDecodeError) -> tuple[int, str]:
    """The line of the file on which a block stops to be TOML, and why."""
    found = _PLACE.search(str(error))
    within = found["line"] if found else None
    last = block.text.rstrip("\n").count("\n") + 1
    return block.line + (int(within) if within else last) - 1, _PLACE.sub("", str(error))


def _goes_on(text: str) -> bool:
    """Whether a string or a list is still open at the end of a text, so that the next line belongs to it."""
    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        return found is not None and found["line"] is None
    return False
