"""Journal Export Format, as `journalctl -o export` and systemd-journal-gatewayd write it.

Format: https://systemd.io/JOURNAL_EXPORT_FORMATS/. Entries end with an empty line. A field is `NAME=value`, or, where
the value is no plain text, `NAME`, a 64-bit little-endian size, the value and a newline. Fields repeat and come in any
order; `__CURSOR`, `__REALTIME_TIMESTAMP` and `__MONOTONIC_TIMESTAMP` are the entry's own.

`_Stream.entry` is the definition: it reads one entry field by field. `_Entries` is its shortcut: the entries of one
process differ in few lines, so that nearly all of them need not be taken apart again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from kill_audit.entry import Batch, Problem, Question
from kill_audit.journal.columns import WANTED_FIELDS, Columns, Damage, decode, number

_CHUNK: Final = 1 << 20
# A value or line longer than this is passed over unread. journald takes values of up to 768 MiB (DATA_SIZE_MAX in
# src/libsystemd/sd-journal/journal-def.h, meant for core dumps); nothing that is asked for here comes near.
_LONGEST_VALUE: Final = 16 << 20
_VALID_NAME: Final = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_NAMES: Final[Mapping[bytes, str]] = {
    name.encode(): name for name in WANTED_FIELDS | {"__CURSOR", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP"}
}
_HEAD: Final = re.compile(
    rb"__CURSOR=([^\n]*)\n__REALTIME_TIMESTAMP=([0-9]+)\n__MONOTONIC_TIMESTAMP=([0-9]+)\n(?:__SEQNUM=[0-9]+\n)?"
)
_VARYING: Final = re.compile(rb"\n(?:_SOURCE_REALTIME_TIMESTAMP|SYSLOG_TIMESTAMP)=[^\n]*")
_MOST_KNOWN: Final = 20_000


class _DamagedError(Exception):
    """The stream does not go on as the format says."""


class _TimelessError(Exception):
    """A whole entry that lacks its time."""


class _CutError(Exception):
    """The stream ends inside an entry."""


class _Stream:
    """A window onto the stream: it grows at its end and is cut at its start, and `at` moves through it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.data = b""
        self.at = 0
        self._base = 0

    @property
    def offset(self) -> int:
        """Where `at` is in the whole stream, in bytes (of the unpacked stream, if it is compressed)."""
        return self._base + self.at

    def fill(self) -> bool:
        """Read more; False at the end of the stream. A long line makes the steps longer, so that none is quadratic."""
        chunk = self._file.read(max(_CHUNK, len(self.data) - self.at))
        self._base += self.at
        self.data = self.data[self.at :] + chunk
        self.at = 0
        return bool(chunk)

    def pass_newlines(self) -> bool:
        """Move behind empty lines; False at the end of the stream."""
        while True:
            while self.data.startswith(b"\n", self.at):
                self.at += 1
            if self.at < len(self.data):
                return True
            if not self.fill():
                return False

    def _line(self) -> bytes | None:
        """Take the next line without its newline; None for a line that is too long to be kept."""
        searched = 0
        while (end := self.data.find(b"\n", self.at + searched)) < 0:
            searched = len(self.data) - self.at
            if searched > _LONGEST_VALUE:
                self._pass_line()
                return None
            if not self.fill():
                raise _CutError
        line = self.data[self.at : end]
        self.at = end + 1
        return line

    def _pass_line(self) -> None:
        while (end := self.data.find(b"\n", self.at)) < 0:
            self.at = len(self.data)
            if not self.fill():
                raise _CutError
        self.at = end + 1

    def _value(self) -> bytes | None:
        """Take a binary value with its size and newline; None for one that is too long to be kept."""
        self._need(8)
        size = int.from_bytes(self.data[self.at : self.at + 8], "little")
        self.at += 8
        value = None
        if size <= _LONGEST_VALUE:
            self._need(size + 1)
            value = self.data[self.at : self.at + size]
            self.at += size
        else:
            self._pass(size)
            self._need(1)
        if self.data[self.at] != 0x0A:
            raise _DamagedError
        self.at += 1
        return value

    def _need(self, size: int) -> None:
        while len(self.data) - self.at < size:
            if not self.fill():
                raise _CutError

    def _pass(self, size: int) -> None:
        while size > (held := len(self.data) - self.at):
            size -= held
            self.at = len(self.data)
            if not self.fill():
                raise _CutError
        self.at += size

    def entry(self) -> dict[str, str]:
        """Take the next entry: the wanted fields as text, with the first value of each.

        Raises:
            _DamagedError: a line is no field.
            _CutError: the stream ends before the entry does.
        """
        fields: dict[str, str] = {}
        while (line := self._line()) != b"":
            if line is None:
                continue
            raw_name, equals, value = line.partition(b"=")
            name = _NAMES.get(raw_name)
            if name is None and not _VALID_NAME.fullmatch(raw_name):
                self.at -= 1  # back onto its newline: the line behind it may be the empty one to go on at
                raise _DamagedError
            taken = value if equals else self._value()
            if name is not None and taken is not None:
                fields.setdefault(name, decode(taken))
        return fields

    def next_blank_line(self) -> None:
        """Move behind the next empty line, or to the end of the stream."""
        while (end := self.data.find(b"\n\n", self.at)) < 0:
            self.at = max(self.at, len(self.data) - 1)  # the line may become empty with the next chunk
            if not self.fill():
                self.at = len(self.data)
                return
        self.at = end + 2


class _Entries:
    """Takes entries from a stream into columns, one a call.

    What lies around an entry's message is nearly always the same bytes as in an earlier entry; `_known` remembers them
    with what they said. Its keys are of plain text fields only, so that the same bytes always mean the same.
    """

    def __init__(self, stream: _Stream, columns: Columns) -> None:
        self._stream = stream
        self._columns = columns
        self._known: dict[tuple[bytes, bytes], tuple[int, int, Mapping[str, str]]] = {}

    def take_batch(self) -> Batch:
        """Hand over the rows so far; what was remembered goes with them, as its origins are the batch's."""
        self._known.clear()
        return self._columns.take()

    def next(self) -> int | None:
        """Add the next entry, if it is asked for, and give its time; None at the end of the stream.

        Raises:
            _DamagedError: here is no entry.
            _TimelessError: here is one without a time, which is passed over.
            _CutError: the stream ends inside the entry.
        """
        stream = self._stream
        data = stream.data
        head = _HEAD.match(data, stream.at)
        if head is None:
            return self._long_way() if stream.pass_newlines() else None
        begin = head.end() - 1
        message = data.find(b"\nMESSAGE=", begin)
        line_end = data.find(b"\n", message + 1)
        end = data.find(b"\n\n", line_end)
        if message < 0 or end < 0:
            return self._long_way()
        key = (data[begin:message], data[line_end:end])
        known = self._known.get(key)
        if known is None:
            key = (_VARYING.sub(b"", key[0]), _VARYING.sub(b"", key[1]))
            known = self._known.get(key)
            if known is None:
                fields = _plain_fields(data[stream.at : end])
                if fields is None:
                    return self._long_way()
                stream.at = end + 2
                return self._add(fields, key)
        stream.at = end + 2
        cursor, realtime, monotonic = head.groups()
        time = int(realtime)
        if self._columns.asked_for(time):
            pid, origin, details = known
            text = decode(data[message + 9 : line_end])
            self._columns.add(time, int(monotonic), pid, origin, text, decode(cursor), details)
        return time

    def _long_way(self) -> int:
        return self._add(self._stream.entry(), None)

    def _add(self, fields: dict[str, str], key: tuple[bytes, bytes] | None) -> int:
        """Add an entry to the columns, and remember it by `key`."""
        time = number(fields.pop("__REALTIME_TIMESTAMP", None))
        if time is None:
            raise _TimelessError
        monotonic = number(fields.pop("__MONOTONIC_TIMESTAMP", None)) or 0
        cursor = fields.pop("__CURSOR", "")
        if self._columns.asked_for(time):
            known = self._columns.add_entry(time, monotonic, cursor, fields)
            if key is not None:
                if len(self._known) > _MOST_KNOWN:
                    self._known.clear()
                self._known[key] = known
        return time


def _plain_fields(entry: bytes) -> dict[str, str] | None:
    """Give the wanted fields of an entry of text fields only; None if it is not one."""
    fields: dict[str, str] = {}
    for line in entry.split(b"\n"):
        raw_name, equals, value = line.partition(b"=")
        name = _NAMES.get(raw_name)
        if not equals or (name is None and not _VALID_NAME.fullmatch(raw_name)):
            return None
        if name is not None and name not in fields:
            fields[name] = decode(value)
    return fields


def read_export(file: BinaryIO, question: Question) -> Iterator[Batch | Problem]:
    """Yield the entries of a stream in Journal Export Format, and a problem for each damaged place.

    Reading goes on behind the next empty line after damage; the entry that it is in is left out. Memory is bounded by
    one batch, one value and one chunk.
    """
    stream, columns, damage = _Stream(file), Columns(question), Damage()
    entries = _Entries(stream, columns)
    last: int | None = None
    while True:
        try:
            time = entries.next()
        except _DamagedError:
            yield from damage.met(f"no journal entry at byte {stream.offset:,}; passed over", since=last)
            stream.next_blank_line()
            continue
        except _TimelessError:
            yield from damage.met(f"the entry before byte {stream.offset:,} has no time; passed over", since=last)
            continue
        except _CutError:
            yield from damage.met(f"the last entry is cut off at byte {stream.offset:,}", since=last)
            break
        if time is None:
            break
        last = time
        if columns.full:
            yield entries.take_batch()
    if len(columns):
        yield entries.take_batch()
    yield from damage.rest()
