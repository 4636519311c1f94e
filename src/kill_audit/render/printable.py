"""Text from journals and databases made safe to look at: whatever a reader would not see as a glyph is spelt out.

Any local user can write any MESSAGE, and task names and ids are whatever the app chose. An ESC in one of them would
drive the terminal (colours, titles, the clipboard), a newline would forge a line of the report, and a bidirectional
control would make the eye read another text than the one that is there (Unicode Technical Report 36, section 2.5;
CVE-2021-42574).
"""

import json
import re
from typing import Any

import msgspec

from kill_audit.document import Document


def printable(text: str) -> str:
    r"""Spell every character that has no glyph of its own as Python would: `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spelt(char) for char in text)


def printable_document(document: Document) -> Document:
    """Make every text of the document printable, so that no form can forget one."""
    return msgspec.convert(_walk(msgspec.to_builtins(document)), Document)


def printable_json(text: str) -> str:
    r"""Spell what has no glyph in JSON's own way (`\u202e`); the value of the JSON stays the same.

    Outside its strings JSON is ASCII, so every character that is touched here stands in a string.
    """
    return _NOT_ASCII_OR_DEL.sub(lambda found: _json_spelt(found[0]), text)


def json_text(value: Any) -> str:
    """Write plain values as indented JSON, printable, with a line feed at the end."""
    return printable_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


_NOT_ASCII_OR_DEL = re.compile(r"[^\x00-\x7e]")


def _spelt(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_spelt(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _walk(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(str(key)): _walk(item) for key, item in value.items()}
        case list() | tuple():
            return [_walk(item) for item in value]
        case _:
            return value
