"""Journal entries as JSON objects, as `journalctl -o json` writes them; also `json-seq`, `json-sse` and `json-pretty`.

Format: journalctl(1) and https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-json-format. A value is a string; null if
it is too large (4096 bytes with its name, without `--all`); an array of numbers, the bytes of a value that is no
printable text; an array of these for a field that repeats.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from kill_audit.entry import Batch, Micros, Problem, Question
from kill_audit.journal.columns import Columns, Damage, decode, number

# No entry is longer: journalctl prints a byte of binary data as up to four characters, and journald's own limit for
# what reaches it by a socket is 32 MiB (ENTRY_SIZE_MAX in src/journal/journald-native.c).
_LONGEST_LINE: Final = 128 << 20
_ALL_TEXT: Final = {str}


def read_json(file: BinaryIO, question: Question) -> Iterator[Batch | Problem]:
    """Yield the entries of a stream of JSON objects, and a problem for each damaged line.

    Lines that are no journal entry are passed over. Messages that `journalctl` left out for their size are None; they
    are counted in one problem `null-message`.
    """
    columns, damage = Columns(question), Damage()
    decoder = msgspec.json.Decoder(dict[str, Any])
    unread, first_unread, last = 0, None, None
    for place, text in _objects(file):
        try:
            time, fields = _entry(decoder.decode(text))
        except (msgspec.DecodeError, ValueError, RecursionError):
            yield from damage.met(f"line {place:,} is no journal entry; passed over", since=last)
            continue
        last = time
        if not columns.asked_for(time):
            continue
        monotonic = number(fields.pop("__MONOTONIC_TIMESTAMP", None)) or 0
        columns.add_entry(time, monotonic, fields.pop("__CURSOR", ""), fields)
        if "MESSAGE" not in fields and fields.get(_NULL):
            unread += 1
            first_unread = time if first_unread is None else first_unread
        if columns.full:
            yield columns.take()
    if len(columns):
        yield columns.take()
    yield from damage.rest()
    if unread:
        yield Problem(
            code="null-message",
            detail=f"{unread:,} messages are null: too long for `journalctl -o json` without --all",
            since=first_unread,
            until=last,
        )


_NULL: Final = "MESSAGE is null"  # no field's name: these have no spaces


def _entry(found: dict[str, Any]) -> tuple[Micros, dict[str, str]]:
    """Give an entry's time and its fields as text.

    Raises:
        ValueError: it has no time, or an array is no array of bytes.
    """
    fields = found if set(map(type, found.values())) == _ALL_TEXT else _as_text(found)
    time = number(fields.get("__REALTIME_TIMESTAMP"))
    if time is None:
        raise ValueError
    return time, fields


def _as_text(found: dict[str, Any]) -> dict[str, str]:
    fields = {name: text for name, value in found.items() if (text := _text(value)) is not None}
    if "MESSAGE" in found and "MESSAGE" not in fields:
        fields[_NULL] = "yes"
    return fields


def _text(value: Any) -> str | None:
    match value:
        case str():
            return value
        case None | []:
            return None
        case [int(), *_]:
            return decode(bytes(value))
        case [first, *_]:
            return _text(first)
        case _:
            return str(value)


def _objects(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each object's text with the number of its first line; `json-pretty` spreads one over many."""
    begun: list[bytes] = []
    size = 0
    for place, line in enumerate(_lines(file), start=1):
        text = line.removeprefix(b"\x1e").removeprefix(b"data: ").rstrip(b"\r\n")  # RFC 7464; server-sent events
        if begun or text == b"{":
            begun.append(text)
            size += len(text)
            if text == b"}" or size > _LONGEST_LINE:
                yield place - len(begun) + 1, b"\n".join(begun)
                begun, size = [], 0
        elif text and not text.isspace():
            yield place, text
    if begun:
        yield place, b"\n".join(begun)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines; one beyond all bounds comes in pieces, so that memory is bounded."""
    while line := file.readline(_LONGEST_LINE):
        yield line
