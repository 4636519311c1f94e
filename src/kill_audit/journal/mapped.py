"""One `.journal` file by columns: its entries and items as numpy arrays over the mapped file, without libsystemd.

Numbers become columns at once. Texts stay where they lie: a batch's messages, cursors and other fields are sequences
that make a text when it is asked for, and `Texts` shows the messages' bytes to whoever can do without a text. Every
entry is read and masked by its own time; nothing is sought, as clocks step back (systemd issue 43805).

What is damaged in a way that leaves the entries' order unknown, or has a feature that is not known here, is for
libsystemd to read; a damaged entry is a problem, and the others are read.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt

from kill_audit.entry import BATCH_ENTRIES, Batch, Micros, Origin, Problem, Question
from kill_audit.journal.columns import (
    NO_FIELDS,
    ORIGIN_FIELDS,
    Damage,
    OriginKey,
    decode,
    details_of,
    number,
    origin_of,
)
from kill_audit.journal.items import ONE_ODD, ONE_PID, ONE_TELLING, Values
from kill_audit.journal.layout import ENTRY, ITEMS, JournalFile, Offsets

_BLOCK: Final = 8192  # entries looked at together, so that their items stay in the processor's cache
_MOST_UNPACKED: Final = 32 << 20  # a batch is handed on early when its packed texts are large
_PREFIX: Final = len(b"MESSAGE=")
_ENTRY: Final = struct.Struct("<QQQ16sQ")  # seqnum, realtime, monotonic, boot_id, xor_hash; behind the object's header
_ORIGIN_BITS: Final = 12

Made = TypeVar("Made", covariant=True)


class _Lazy(Sequence[Made]):
    """A sequence whose items are made when they are asked for."""

    def __init__(self, size: int, make: Callable[[int], Made]) -> None:
        self._size = size
        self._make = make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> Made: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Made]: ...

    def __getitem__(self, place: int | slice) -> Made | Sequence[Made]:
        if isinstance(place, slice):
            return tuple(map(self._make, range(*place.indices(self._size))))
        return self._make(range(self._size)[place])

    def __iter__(self) -> Iterator[Made]:
        return map(self._make, range(self._size))


@dataclass(frozen=True, slots=True)
class Part:
    """Messages of a batch as bytes: those of `rows` (ascending) begin in `buffer` at `start` and have `length` bytes."""

    rows: npt.NDArray[np.intp]
    buffer: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


class Texts(_Lazy[str | None]):
    """The messages of a batch. `parts` shows nearly all of them as bytes; a row that is in none has to be asked for."""

    def __init__(self, size: int, make: Callable[[int], str | None], parts: tuple[Part, ...]) -> None:
        super().__init__(size, make)
        self.parts = parts


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
        self._contained = np.zeros(0, np.bool_)
        self._codes: dict[int, int] = {}  # sign -> place in `_origins`
        self._slots = np.zeros(1 << _ORIGIN_BITS, np.uint64)
        self._slot_codes = np.zeros(1 << _ORIGIN_BITS, np.int32)

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the entries of the span that `question` reads, and a problem for each that is damaged."""
        file, damage = self._file, Damage()
        if self._is_outside(question):
            return
        sound = file.sound_entries(self._entries)
        for place in np.flatnonzero(~sound).tolist():
            yield from damage.met(f"entry {place + 1:,} is damaged")
        entries = self._entries[sound]
        times = file.words[entries // 8 + 3].astype(np.int64)
        entries = entries[(times >= question.read_since) & (times < question.read_until)]
        rows = _Rows(self)
        for begin in range(0, len(entries), _BLOCK):
            rows.add(entries[begin : begin + _BLOCK])
            if rows.full:
                yield rows.take()
        if len(rows):
            yield rows.take()
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

    # -- what rows need ------------------------------------------------------

    def origin_codes(self, signs: npt.NDArray[np.uint64], entries: Offsets) -> npt.NDArray[np.int32]:
        """Give the place of each entry's origin among `origins`, by the entry's sign."""
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
            self._contained = np.array([origin.container is not None for origin in self._origins])
        return code
