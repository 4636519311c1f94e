"""One `.journal` file by columns: its entries and items as numpy arrays over the mapped file, without libsystemd.

Numbers become columns at once. Texts stay where they lie: a batch's messages, cursors and other fields are sequences
that make a text when it is asked for, and `raw` shows the messages' bytes to whoever can do without a text; what is
packed is unpacked only then. Every
entry is read and masked by its own time; nothing is sought, as clocks step back (systemd issue 43805).

What is damaged in a way that leaves the entries' order unknown, or has a feature that is not known here, is for
libsystemd to read; a damaged entry is a problem, and the others are read.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt

from kill_audit.entry import BATCH_ENTRIES, Batch, Origin, Problem, Question, RawMessages
from kill_audit.journal.columns import (
    NO_FIELDS,
    ORIGIN_FIELDS,
    Damage,
    decode,
    details_of,
    number,
    origin_of,
)
from kill_audit.journal.items import MOST_PID, ONE_PID, ONE_TELLING, Values
from kill_audit.journal.layout import ONLINE, JournalFile, Offsets
from kill_audit.journal.unpacking import UNPACKED_AT_ONCE

_BLOCK: Final = 8192  # entries looked at together, so that their items stay in the processor's cache
_MOST_UNPACKED: Final = 8 << 20  # bytes of packed texts that are shown at once
_MARGIN_BYTES: Final = 256  # behind unpacked texts, so that whoever looks at the last may look behind it as well
_PREFIX: Final = len(b"MESSAGE=")
_ENTRY: Final = struct.Struct("<QQQ16sQ")  # seqnum, realtime, monotonic, boot_id, xor_hash; behind the object's header
_ORIGIN_BITS: Final = 12
_MARGIN: Final = 86_400_000_000  # microseconds

Made_co = TypeVar("Made_co", covariant=True)


class _Lazy(Sequence[Made_co]):
    """A sequence whose items are made when they are asked for."""

    def __init__(self, size: int, make: Callable[[int], Made_co]) -> None:
        self._size = size
        self._make = make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> Made_co: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Made_co]: ...

    def __getitem__(self, place: int | slice) -> Made_co | Sequence[Made_co]:
        if isinstance(place, slice):
            return tuple(map(self._make, range(*place.indices(self._size))))
        return self._make(range(self._size)[place])

    def __iter__(self) -> Iterator[Made_co]:
        return map(self._make, range(self._size))


class MappedJournal:
    """A journal file to be read by columns."""

    def __init__(self, path: str) -> None:
        """Open a file.

        Raises:
            OSError: it cannot be opened.
            UnmappableError: it has to be read by libsystemd.
        """
        self._file = JournalFile(path)
        self._entries = self._file.entries()
        self._values = Values(self._file)
        self._origins: list[Origin] = []
        self._codes: dict[int, int] = {}  # sign -> place in `_origins`
        self._slots = np.full(1 << _ORIGIN_BITS, ~np.uint64(0))
        self._slot_codes = np.zeros(1 << _ORIGIN_BITS, np.int32)

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the entries of the span that `question` reads, and a problem for each that is damaged."""
        file, damage = self._file, Damage()
        if self._is_outside(question):
            return
        sound = file.sound_entries(self._entries)
        written = len(sound)
        if file.header.state == ONLINE:  # entries that the machine did not live to write are no damage
            written = int(np.flatnonzero(sound)[-1]) + 1 if sound.any() else 0
        for place in np.flatnonzero(~sound[:written]).tolist():
            yield from damage.met(f"entry {place + 1:,} is damaged")
        entries = self._entries[sound]
        times = file.words[entries // 8 + 3].astype(np.int64)
        entries = entries[(times >= question.read_since) & (times < question.read_until)]
        rows = _Rows(file, self._values, self._origin_codes)
        begin = 0
        while begin < len(entries):
            end = begin + min(_BLOCK, BATCH_ENTRIES - len(rows))
            rows.add(entries[begin:end])
            begin = end
            if rows.full:
                yield rows.take(tuple(self._origins))
        if len(rows):
            yield rows.take(tuple(self._origins))
        if rows.damaged:
            yield from damage.met(f"{rows.damaged:,} entries cannot be read whole")
        yield from damage.rest()

    def _is_outside(self, question: Question) -> bool:
        """Whether the file is of quite another time, by its header; clocks step, hence a margin."""
        header = self._file.header
        if header.state == ONLINE or not header.first or not header.last:
            return False
        earliest, latest = min(header.first, header.last), max(header.first, header.last)
        return latest < question.read_since - _MARGIN or earliest >= question.read_until + _MARGIN

    def _origin_codes(self, signs: npt.NDArray[np.uint64], entries: Offsets) -> npt.NDArray[np.int32]:
        """Give the place of each entry's origin among `_origins`, by the entry's sign."""
        slots = (signs >> np.uint64(64 - _ORIGIN_BITS)).astype(np.intp)
        codes = self._slot_codes[slots]
        new = np.flatnonzero(self._slots[slots] != signs)
        if len(new):
            found, first, where = np.unique(signs[new], return_index=True, return_inverse=True)
            places = [
                self._code_of(sign, int(entries[new[place]]))
                for sign, place in zip(found.tolist(), first.tolist(), strict=True)
            ]
            codes[new] = np.array(places, np.int32)[where]
            self._slots[slots[new]] = signs[new]
            self._slot_codes[slots[new]] = codes[new]
        return codes

    def _code_of(self, sign: int, entry: int) -> int:
        code = self._codes.get(sign)
        if code is None:
            code = self._codes[sign] = len(self._origins)
            self._origins.append(origin_of(tuple(map(self._values.fields(entry).get, ORIGIN_FIELDS))))
        return code


class _Rows:
    """The batch that is being filled, block by block."""

    def __init__(
        self,
        file: JournalFile,
        values: Values,
        origin_codes: Callable[[npt.NDArray[np.uint64], Offsets], npt.NDArray[np.int32]],
    ) -> None:
        self._file = file
        self._values = values
        self._origin_codes = origin_codes
        self.damaged = 0
        self._reset()

    def _reset(self) -> None:
        self._blocks: list[_Block] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """Whether the batch has to be taken before more is added."""
        return self._size >= BATCH_ENTRIES

    def add(self, entries: Offsets) -> None:
        """Add a block of entries."""
        block = _Block(entries)
        counts = self._file.item_counts(entries)
        for count in np.unique(counts).tolist():
            rows = np.flatnonzero(counts == count)
            if count:
                self._look(block, rows, count)
        block.code = self._origin_codes(block.sign, entries)
        self.damaged += int(block.damaged.sum())
        self._blocks.append(block)
        self._size += len(entries)

    def _look(self, block: "_Block", rows: npt.NDArray[np.intp], count: int) -> None:
        looked = self._values.look_up(self._file.items(block.entries[rows], count))
        block.sign[rows] = looked.sign
        block.tally[rows] = looked.tally
        block.damaged[rows[looked.damaged]] = True
        first = rows[looked.row][::-1]  # of several messages the first counts: it is written last
        block.message[first] = looked.offset[::-1]
        block.packed[first] = looked.packed[::-1]

    def take(self, origins: tuple[Origin, ...]) -> Batch:
        """Hand over the rows as a batch, and begin the next."""
        entries, tally, code, message, packed = (
            np.concatenate([getattr(block, name) for block in self._blocks])
            for name in ("entries", "tally", "code", "message", "packed")
        )
        values, words = self._values, self._file.words
        details = _Details(values, entries, tally >= ONE_TELLING)
        pid = tally & (ONE_PID - 1)
        for row in np.flatnonzero((tally % ONE_TELLING) // ONE_PID > 1).tolist():
            pid[row] = min(number(values.fields(int(entries[row])).get("_PID")) or 0, MOST_PID)
        contained = np.array([origin.container is not None for origin in origins], np.bool_)
        pid[contained[code]] = 0
        batch = Batch(
            realtime=_ints(words[entries // 8 + 3]),
            monotonic=_ints(words[entries // 8 + 4]),
            pid=_ints(pid),
            origin=_ints(code),
            origins=origins,
            message=_Lazy(len(entries), _Messages(values, message)),
            cursor=_Lazy(len(entries), _Cursors(self._file, entries)),
            fields=_Lazy(len(entries), details),
            raw=partial(_raw, self._file, values, message, packed),
        )
        self._reset()
        return batch


def _raw(
    file: JournalFile,
    values: Values,
    message: Offsets,
    packed: npt.NDArray[np.bool_],
    rows: npt.NDArray[np.int64],
) -> Iterator[RawMessages]:
    """Show the messages of some rows as bytes: plain ones where they lie, packed ones some megabytes at a time."""
    plain = rows[(message[rows] > 0) & ~packed[rows]]
    begin = message[plain] + file.payload + _PREFIX
    end = message[plain] + file.words[message[plain] // 8 + 1].astype(np.int64)
    yield RawMessages(buffer=file.bytes, rows=plain, start=begin, length=end - begin)
    waiting = deque(rows[packed[rows]].tolist())
    while waiting:
        unpacked, found = bytearray(), []
        while waiting and len(unpacked) < _MOST_UNPACKED:
            row = waiting.popleft()
            head = values.head(int(message[row]))
            if head is not None and len(head) < UNPACKED_AT_ONCE:  # else there may be more of it
                found.append((row, len(unpacked), len(head) - _PREFIX))
                unpacked += head[_PREFIX:]
        places = np.array(found, np.int64).reshape(-1, 3).T
        unpacked += bytes(_MARGIN_BYTES)
        yield RawMessages(
            buffer=np.frombuffer(bytes(unpacked), np.uint8), rows=places[0], start=places[1], length=places[2]
        )


class _Block:
    """The columns of some entries, before they are a batch's."""

    def __init__(self, entries: Offsets) -> None:
        size = len(entries)
        self.entries = entries
        self.sign = np.zeros(size, np.uint64)
        self.tally = np.zeros(size, np.int64)
        self.code = np.zeros(size, np.int32)
        self.message = np.zeros(size, np.int64)
        self.packed = np.zeros(size, np.bool_)
        self.damaged = np.zeros(size, np.bool_)


class _Messages:
    """Makes the text of a row's message."""

    def __init__(self, values: Values, offsets: Offsets) -> None:
        self._values = values
        self._offsets = offsets

    def __call__(self, row: int) -> str | None:
        offset = int(self._offsets[row])
        text = self._values.payload(offset) if offset else None
        return None if text is None else decode(text[_PREFIX:])


class _Cursors:
    """Makes a row's cursor, as sd_journal_get_cursor(3) writes it."""

    def __init__(self, file: JournalFile, entries: Offsets) -> None:
        self._file = file
        self._entries = entries

    def __call__(self, row: int) -> str:
        seqnum, realtime, monotonic, boot, xor = _ENTRY.unpack_from(self._file.map, int(self._entries[row]) + 16)
        log = self._file.header.seqnum_id.hex()
        return f"s={log};i={seqnum:x};b={boot.hex()};m={monotonic:x};t={realtime:x};x={xor:x}"


class _Details:
    """Makes a row's other fields (see `DETAIL_FIELDS`); remembers the last, as one row is asked for several times."""

    def __init__(self, values: Values, entries: Offsets, telling: npt.NDArray[np.bool_]) -> None:
        self._values = values
        self._entries = entries
        self._telling = telling
        self._last: tuple[int, Mapping[str, str]] = (-1, NO_FIELDS)

    def __call__(self, row: int) -> Mapping[str, str]:
        if not self._telling[row]:
            return NO_FIELDS
        if self._last[0] != row:
            self._last = row, details_of(self._values.fields(int(self._entries[row])))
        return self._last[1]


def _ints(column: npt.NDArray[Any]) -> Sequence[int]:
    """Show an array as a sequence of Python's own integers, which numpy can have back at no cost."""
    return column.astype(np.int64, copy=False).data
