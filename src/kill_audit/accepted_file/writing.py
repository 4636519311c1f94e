"""Write entries: a new one at the end, or new values over those of the entry that accepts the same.

tomlkit keeps what people wrote in an entry; what stands around it is not even read.
"""

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import tomlkit

from kill_audit.acceptance import Acceptance
from kill_audit.accepted_file.blocks import Block, blocks
from kill_audit.accepted_file.failures import AcceptedFileError
from kill_audit.accepted_file.reading import TABLE, Entry, entries, text_of
from kill_audit.document import timestamp
from kill_audit.entry import Micros
from kill_audit.whole_file import replace_file

HEAD: Final = """\
# Killed task runs that are accepted as known: each stays counted and is shown with its reason, and fails no report.
# Review changes like code. `kill-audit accept` writes here, and so may you: an entry has a reason and either the id of
# a kill, or any of cause, task and unit (globs, or lists of them). From the day of `until` on it accepts nothing.
"""


class Change(StrEnum):
    """What became of an entry."""

    NEW = "accepted"
    CHANGED = "changed"
    SAME = "accepted already"


def put(path: Path, acceptance: Acceptance, comments: Sequence[str], *, shown: str, zone: dt.tzinfo) -> Change:
    """Write an acceptance into the file, which is made if it is not there.

    An entry that accepts the same gets the new reason and `until`; whatever else people wrote there stays.

    Args:
        path: the file.
        acceptance: what to write.
        comments: lines that a new entry begins with, without control characters.
        shown: the file's name, for people.
        zone: the zone in which a day begins.

    Raises:
        AcceptedFileError: the file has mistakes, or cannot be read or written.
    """
    text = text_of(path, shown) if path.exists() else HEAD
    known = {one.acceptance.by: one for one in entries(text, shown=shown, zone=zone)}
    old = known.get(acceptance.by)
    if old is None:
        _write(path, f"{text}{_gap(text)}{_entry(acceptance, comments, zone)}", shown)
        return Change.NEW
    if (old.acceptance.reason, old.acceptance.until) == (acceptance.reason, acceptance.until):
        return Change.SAME
    _write(path, _with(text, old.block, _changed(old, acceptance, zone)), shown)
    return Change.CHANGED


def remove(path: Path, acceptance: Acceptance, *, shown: str, zone: dt.tzinfo) -> bool:
    """Take the entry that accepts just this out of the file; False if there is none.

    Comments above the next entry stay.

    Raises:
        AcceptedFileError: the file has mistakes, or cannot be read or written.
    """
    text = text_of(path, shown)
    known = {one.acceptance.by: one for one in entries(text, shown=shown, zone=zone)}
    old = known.get(acceptance.by)
    if old is None:
        return False
    _, after = old.block.parts()
    _write(path, _with(text, old.block, after.removeprefix("\n")), shown)
    return True


def _with(text: str, old: Block, new: str) -> str:
    return "".join(new if block.line == old.line else block.text for block in blocks(text))


def _gap(text: str) -> str:
    """What belongs between a text and an entry: an end of its last line, and a blank line."""
    return "" if not text else "\n" if text.endswith("\n") else "\n\n"


def _entry(acceptance: Acceptance, comments: Sequence[str], zone: dt.tzinfo) -> str:
    table = tomlkit.table()
    for comment in comments:
        table.add(tomlkit.comment(comment))
    if acceptance.id is not None:
        table.add("id", acceptance.id)
    for key, globs in (("cause", acceptance.causes), ("task", acceptance.tasks), ("unit", acceptance.units)):
        if globs:
            table.add(key, globs[0] if len(globs) == 1 else list(globs))
    table.add("reason", acceptance.reason)
    if acceptance.until is not None:
        table.add("until", _day(acceptance.until, zone))
    if acceptance.seen is not None:
        seen = tomlkit.inline_table()
        seen.append("at", tomlkit.datetime(timestamp(acceptance.seen.at)))
        seen.update({key: value for key in ("host", "unit") if (value := getattr(acceptance.seen, key)) is not None})
        table.add("seen", seen)
    whole = tomlkit.document()
    listed = tomlkit.aot()
    listed.append(table)
    whole.append(TABLE, listed)
    return tomlkit.dumps(whole)


def _changed(old: Entry, new: Acceptance, zone: dt.tzinfo) -> str:
    """The text of an entry with other values, its comments and its order as they were."""
    own, after = old.block.parts()
    whole: Any = tomlkit.parse(own)
    (table,) = whole[TABLE]
    if old.acceptance.reason != new.reason:
        table["reason"] = new.reason
    if new.until is None:
        table.pop("until", None)
    elif old.acceptance.until != new.until:
        table["until"] = _day(new.until, zone)
    return f"{tomlkit.dumps(whole)}{after}"


def _day(at: Micros, zone: dt.tzinfo) -> Any:
    """A moment as TOML's date where a day of the zone begins with it, else in UTC."""
    local = dt.datetime.fromisoformat(timestamp(at)).astimezone(zone)
    if local.time() == dt.time():
        return tomlkit.date(local.date().isoformat())
    return tomlkit.datetime(timestamp(at).replace(".000000Z", "Z"))


def _write(path: Path, text: str, shown: str) -> None:
    """Write the file, or say which one to name instead."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise AcceptedFileError(
            f"cannot write {shown}: {error.strerror}", hint="name a file that you may write with --accepted FILE"
        ) from error
