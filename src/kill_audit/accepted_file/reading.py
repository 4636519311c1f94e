"""Read the file of accepted findings: its entries, or every mistake of it with its line."""

import datetime as dt
import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kill_audit import when
from kill_audit.acceptance import Acceptance, Seen
from kill_audit.accepted_file.blocks import Block, blocks, line_of_error
from kill_audit.accepted_file.failures import AcceptedFileError
from kill_audit.classify import Cause
from kill_audit.entry import Micros
from kill_audit.errors import UsageError

TABLE: Final = "accepted"
GLOBS: Final = ("cause", "task", "unit")
_LATE: Final = 4_000_000_000_000_000  # a moment after every date; only relative forms look at it, and none is written
_ID: Final = re.compile(r"[0-9a-f]{10,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the file, and the block that holds it; `acceptance.where` has its line."""

    acceptance: Acceptance
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    line: int
    what: str


def read(path: Path, *, shown: str, zone: dt.tzinfo) -> tuple[Acceptance, ...]:
    """Read the entries in their order.

    Args:
        path: the file.
        shown: its name, for people; it stands before the lines of entries and mistakes.
        zone: the zone of dates that carry none.

    Raises:
        AcceptedFileError: it cannot be read, or has mistakes; the message has a line for each of them.
    """
    return tuple(one.acceptance for one in entries(text_of(path, shown), shown=shown, zone=zone))


def text_of(path: Path, shown: str) -> str:
    """Read the text, with its line ends as they are.

    Raises:
        AcceptedFileError: it cannot be read, or is no UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise AcceptedFileError(
            f"{shown}: {error.strerror}",
            hint="`kill-audit accept` writes the file of accepted findings; --accepted FILE names another one",
        ) from error
    except UnicodeDecodeError as error:
        raise AcceptedFileError(f"{shown}: this is no text in UTF-8", hint="save it as UTF-8") from error


def entries(text: str, *, shown: str, zone: dt.tzinfo) -> tuple[Entry, ...]:
    """Find the entries of a text; see `read`."""
    found: list[Entry] = []
    wrong: list[_Mistake] = []
    lines: dict[str, int] = {}
    for block in blocks(text):
        raw = _raw_entry(block)
        if isinstance(raw, _Mistake):
            wrong.append(raw)
        elif raw is not None:
            mistakes = list(_mistakes(raw, block, zone))
            wrong += mistakes
            if not mistakes:
                entry = Entry(acceptance=_acceptance(raw, f"{shown}:{block.line}", zone), block=block)
                first = lines.setdefault(entry.acceptance.by, block.line)
                if first != block.line:
                    wrong.append(
                        _Mistake(line=block.line, what=f"{entry.acceptance.by}: accepted in line {first} already")
                    )
                found.append(entry)
    if wrong:
        count = "a mistake" if len(wrong) == 1 else f"{len(wrong)} mistakes"
        told = "\n".join(f"  {shown}:{one.line}: {one.what}" for one in sorted(wrong, key=attrgetter("line")))
        raise AcceptedFileError(
            f"{shown} has {count}\n{told}",
            hint="an entry is [[accepted]] with a reason and either id, or any of cause, task and unit; "
            "`kill-audit accept` writes one",
        )
    return tuple(found)


# -- the shape ----------------------------------------------------------------


def _raw_entry(block: Block) -> Mapping[str, Any] | _Mistake | None:
    """The values of the entry that a block holds; None where it holds comments alone."""
    try:
        raw = block.parsed()
    except tomllib.TOMLDecodeError as error:
        line, why = line_of_error(block, error)
        return _Mistake(line=line, what=f"this is no TOML: {why}")
    match raw:
        case {"accepted": [dict(entry)]} if len(raw) == 1:
            return entry
        case {}:
            if not raw:
                return None
    key = next(iter(raw))
    if not block.text.lstrip().startswith("["):
        return _Mistake(line=block.line_of(key), what=f"{key} stands before the first [[{TABLE}]]")
    return _Mistake(line=block.line, what=f"there is no such table; an entry begins with [[{TABLE}]], and has none")


def _mistakes(raw: Mapping[str, Any], block: Block, zone: dt.tzinfo) -> Iterator[_Mistake]:
    for key, value in raw.items():
        if key not in _CHECKS:
            yield _Mistake(line=block.line_of(key), what=f"{key}: there is no such key{_nearest(key, _CHECKS)}")
        elif what := _CHECKS[key](value, zone):
            yield _Mistake(line=block.line_of(key), what=f"{key}: {what}")
    globs = [key for key in GLOBS if key in raw]
    if "id" in raw and globs:
        yield _Mistake(
            line=block.line_of(globs[0]), what=f"{globs[0]}: an id names one kill, and nothing stands beside"
        )
    if "id" not in raw and not globs:
        yield _Mistake(line=block.line, what="the entry says nothing that it accepts: id, or cause, task or unit")
    if "seen" in raw and "id" not in raw:
        yield _Mistake(
            line=block.line_of("seen"), what="seen: is where the kill of an id was seen, and there is no id"
        )
    if "reason" not in raw:
        yield _Mistake(line=block.line, what="the entry has no reason")


def _acceptance(raw: Mapping[str, Any], where: str, zone: dt.tzinfo) -> Acceptance:
    seen = raw.get("seen")
    return Acceptance(
        where=where,
        reason=raw["reason"].strip(),
        id=raw.get("id"),
        causes=_several(raw.get("cause", ())),
        tasks=_several(raw.get("task", ())),
        units=_several(raw.get("unit", ())),
        until=_moment(raw["until"], zone) if "until" in raw else None,
        seen=Seen(at=_moment(seen["at"], zone), host=seen.get("host"), unit=seen.get("unit")) if seen else None,
    )


def _several(words: Any) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


def _moment(value: Any, zone: dt.tzinfo) -> Micros:
    """A date, a date with a time, or either as text; a date is the beginning of that day.

    Raises:
        UsageError: it is another time than of 1970 to 9999.
        ValueError, TypeError: it is none of them.
    """
    whole = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(whole, dt.date):
        raise TypeError(type(whole).__name__)
    return when.moment(whole.isoformat(), now=_LATE, zone=zone)


# -- single values ------------------------------------------------------------


def _wrong_id(value: Any, _zone: dt.tzinfo) -> str | None:
    if isinstance(value, str) and _ID.fullmatch(value):
        return None
    return "must be the whole id of a kill, in quotes, as `kill-audit report` shows it"


def _wrong_globs(value: Any, _zone: dt.tzinfo) -> str | None:
    words = value if isinstance(value, list) else [value]
    if words and all(isinstance(word, str) and word for word in words):
        return None
    return "must be text in quotes, or a list of texts"


def _wrong_causes(value: Any, zone: dt.tzinfo) -> str | None:
    return _wrong_globs(value, zone) or next(filter(None, map(wrong_cause, _several(value))), None)


def wrong_cause(glob: str) -> str | None:
    """Say what is wrong with a glob that no cause fits."""
    if any(fnmatchcase(cause, glob) for cause in Cause):
        return None
    return f"there is no cause {glob!r}{_nearest(glob, Cause) or '; docs/causes.md lists them'}"


def _wrong_reason(value: Any, _zone: dt.tzinfo) -> str | None:
    return None if isinstance(value, str) and value.strip() else "must be text in quotes, and say something"


def _wrong_moment(value: Any, zone: dt.tzinfo) -> str | None:
    try:
        _moment(value, zone)
    except (TypeError, ValueError, UsageError):
        return "must be a date, as in 2027-01-31, or a date with a time"
    return None


def _wrong_seen(value: Any, zone: dt.tzinfo) -> str | None:
    if not isinstance(value, dict) or "at" not in value:
        return 'must be as in { at = 2026-11-30T12:04:38Z, host = "web1", unit = "celery@a.service" }'
    for key, one in value.items():
        if key not in ("at", "host", "unit"):
            return f"there is no such key as {key}{_nearest(key, ('at', 'host', 'unit'))}"
        if key == "at" and (what := _wrong_moment(one, zone)):
            return f"at {what}"
        if key != "at" and not isinstance(one, str):
            return f"{key} must be text in quotes"
    return None


_CHECKS: Mapping[str, Callable[[Any, dt.tzinfo], str | None]] = MappingProxyType(
    {
        "id": _wrong_id,
        "cause": _wrong_causes,
        "task": _wrong_globs,
        "unit": _wrong_globs,
        "reason": _wrong_reason,
        "until": _wrong_moment,
        "seen": _wrong_seen,
    }
)


def _nearest(word: str, known: Any) -> str:
    found = difflib.get_close_matches(word.lower().replace("_", "-"), [str(one) for one in known], n=1)
    return f"; did you mean {found[0]}?" if found else ""
