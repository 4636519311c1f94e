"""A `.journal` file as it lies on the disk: header, entry arrays and objects, mapped and seen through numpy.

Format: https://systemd.io/JOURNAL_FILE_FORMAT/ and src/libsystemd/sd-journal/journal-def.h. Objects begin at multiples
of eight bytes; all numbers are little-endian. There are two layouts, regular and compact (systemd 252 and later).

Rules of this file: every offset is checked before it is followed. Nothing behind the last object, as the header knew
it at opening, is looked at: journald cuts a file behind it when it archives the file, and to look there then ends the
process (SIGBUS).
"""

import mmap
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Micros

Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MAGIC: Final = b"LPKSHHRH"
XZ, LZ4, KEYED_HASH, ZSTD, COMPACT = 1, 2, 4, 8, 16  # the header's incompatible flags
KNOWN_FLAGS: Final = XZ | LZ4 | KEYED_HASH | ZSTD | COMPACT
ONLINE: Final = 1
ARCHIVED: Final = 2
DATA, ENTRY, ENTRY_ARRAY = 1, 3, 6  # types of objects
PACKED: Final = 7  # an object's flags for XZ, LZ4 and ZSTD
ITEMS: Final = 64  # where an entry's items begin in it
_WORD: Final = struct.Struct("<Q")
_HALVES, _PAIRS = struct.Struct("<I"), struct.Struct("<QQ")  # an entry's items, compact and regular
_HEADER_BYTES: Final = 208  # what every version has
_ARRAY_ITEMS: Final = 24
_OBJECT_HEADER: Final = 16


class UnmappableError(Exception):
    """The file cannot be read by columns; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What is needed of a file's header; times in microseconds since the epoch, numbers of entries in their log."""

    flags: int
    state: int
    file_id: bytes
    seqnum_id: bytes
    size: int
    arena: int
    tail: int
    entries: int
    array: int
    first: Micros
    last: Micros
    first_number: int
    last_number: int

    @classmethod
    def read(cls, descriptor: int) -> "Header":
        """Read the header of an open file.

        Raises:
            UnmappableError: there is none.
        """
        raw = os.pread(descriptor, _HEADER_BYTES, 0)
        if len(raw) < _HEADER_BYTES or not raw.startswith(MAGIC):
            raise UnmappableError("it has no journal file's header")

        def number(offset: int, size: int = 8) -> int:
            return int.from_bytes(raw[offset : offset + size], "little")

        return cls(
            flags=number(12, 4),
            state=raw[16],
            file_id=raw[24:40],
            seqnum_id=raw[72:88],
            size=number(88),
            arena=number(96),
            tail=number(136),
            entries=number(152),
            array=number(176),
            first=number(184),
            last=number(192),
            first_number=number(168),
            last_number=number(160),
        )


class JournalFile:
    """A mapped journal file.

    `bytes`, `halves`, `words` are the file as unsigned numbers of 1, 4 and 8 bytes; index them by an offset divided by
    their size. `end` is the first offset that may not be looked at. `payload` is where a DATA object's text begins.
    """

    def __init__(self, path: str) -> None:
        """Map a file.

        Raises:
            OSError: it cannot be opened.
            UnmappableError: it is damaged, or has a feature that is not known here.
        """
        if sys.byteorder != "little":
            raise UnmappableError("this machine is big-endian")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # An entry counts as soon as all of it is written. What is counted first lies before what is the tail then.
            self.header = Header.read(descriptor)
            self.end = self._end(descriptor, Header.read(descriptor))
            self.map = mmap.mmap(descriptor, self.end, access=mmap.ACCESS_READ) if self.end else b""
        finally:
            os.close(descriptor)
        whole = self.end // 8 * 8
        self.bytes = np.frombuffer(self.map, np.uint8, self.end)
        self.halves = np.frombuffer(self.map, np.uint32, whole // 4)
        self.words = np.frombuffer(self.map, np.uint64, whole // 8)
        self.compact = bool(self.header.flags & COMPACT)
        self.payload = 72 if self.compact else 64
        self.item_size = 4 if self.compact else 16

    def _end(self, descriptor: int, header: Header) -> int:
        unknown = header.flags & ~KNOWN_FLAGS
        if unknown:
            raise UnmappableError(f"it has a feature that is not known here (incompatible flags {unknown:#x})")
        size = os.fstat(descriptor).st_size
        if header.size < _HEADER_BYTES or header.size % 8 or header.size + header.arena > size:
            raise UnmappableError("it ends before its own header says")
        if header.tail == 0:
            return 0
        if header.tail % 8 or not header.size <= header.tail <= size - _OBJECT_HEADER:
            raise UnmappableError("its last object lies outside of it")
        tail = int.from_bytes(os.pread(descriptor, 8, header.tail + 8), "little")
        if tail < _OBJECT_HEADER or header.tail + tail > size:
            if header.state == ONLINE:  # the machine went down while the object was written
                return header.tail
            raise UnmappableError("its last object reaches beyond its end")
        return header.tail + tail

    # -- entries -----------------------------------------------------------

    def entries(self) -> Offsets:
        """Give the offsets of all entries, in the order of the file.

        Raises:
            UnmappableError: the chain of entry arrays is broken.
        """
        found: list[Offsets] = []
        left, array = self.header.entries, self.header.array
        while array and left > 0:
            items, following = self._array(array, left)
            if self.header.state == ONLINE:
                items = items[: _count_before(items, self.end)]
            elif not items.all():
                raise UnmappableError("an entry is missing in its list of entries")
            found.append(items)
            left -= len(items)
            if following and following <= array:
                raise UnmappableError("its list of entries goes round in a circle")
            array = following
        if left > 0 and self.header.state != ONLINE:
            raise UnmappableError("its list of entries is shorter than its header says")
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _array(self, offset: int, most: int) -> tuple[Offsets, int]:
        """Give the items of an ENTRY_ARRAY object, and the next such object's offset."""
        if offset % 8 or not self.header.size <= offset <= self.end - _ARRAY_ITEMS:
            if self.header.state == ONLINE:  # it was made after the file was opened
                return np.empty(0, np.int64), 0
            raise UnmappableError("its list of entries goes on outside of it")
        size = int(self.words[offset // 8 + 1])
        if self.bytes[offset] != ENTRY_ARRAY or size < _ARRAY_ITEMS or offset + size > self.end:
            raise UnmappableError("its list of entries goes on where there is none")
        begin = offset + _ARRAY_ITEMS
        number = min((size - _ARRAY_ITEMS) // (4 if self.compact else 8), most)
        view = self.halves[begin // 4 :] if self.compact else self.words[begin // 8 :]
        return view[:number].astype(np.int64), int(self.words[offset // 8 + 2])

    def sound_entries(self, offsets: Offsets) -> Flags:
        """Tell of each offset whether an entry of a possible size lies there."""
        sound: Flags = (offsets % 8 == 0) & (offsets >= self.header.size) & (offsets <= self.end - ITEMS)
        at = np.where(sound, offsets, 0)
        size = self.words[at // 8 + 1].astype(np.int64)
        sound &= self.bytes[at] == ENTRY
        sound &= (size >= ITEMS) & (size <= self.end - at) & ((size - ITEMS) % self.item_size == 0)
        return sound

    def item_counts(self, entries: Offsets) -> Offsets:
        """Give the number of items of each (sound) entry."""
        return (self.words[entries // 8 + 1].astype(np.int64) - ITEMS) // self.item_size

    def items(self, entries: Offsets, count: int) -> npt.NDArray[Any]:
        """Give the items of entries that have `count` of them: the offsets of DATA objects, in the entry's order.

        Returns:
            An array of shape (entries, count).
        """
        wide = count * self.item_size
        rows = np.ndarray(((self.end - wide) // 8 + 1,), f"V{wide}", self.map, strides=(8,))[(entries + ITEMS) // 8]
        if self.compact:
            return rows.view(np.uint32).reshape(-1, count)
        return rows.view(np.uint64).reshape(-1, count, 2)[:, :, 0]

    def items_of(self, entry: int) -> list[int]:
        """Give the items of one (sound) entry."""
        count = (self.word(entry + 8) - ITEMS) // self.item_size
        numbers = _HALVES if self.compact else _PAIRS
        return [
            item[0] for item in numbers.iter_unpack(self.map[entry + ITEMS : entry + ITEMS + count * self.item_size])
        ]

    # -- data ---------------------------------------------------------------

    def word(self, offset: int) -> int:
        """Give the number of eight bytes at an offset."""
        (number,) = _WORD.unpack_from(self.map, offset)
        return int(number)

    def is_data(self, offset: int) -> bool:
        """Tell whether a DATA object of a possible size lies at an offset."""
        if offset % 8 or not self.header.size <= offset <= self.end - self.payload or self.map[offset] != DATA:
            return False
        return self.payload <= self.word(offset + 8) <= self.end - offset

    def sound_data(self, offsets: Offsets) -> Flags:
        """Tell of each offset whether a DATA object of a possible size lies there."""
        sound: Flags = (offsets % 8 == 0) & (offsets >= self.header.size) & (offsets <= self.end - self.payload)
        at = np.where(sound, offsets, 0)
        size = self.words[at // 8 + 1].astype(np.int64)
        sound &= self.bytes[at] == DATA
        sound &= (size >= self.payload) & (size <= self.end - at)
        return sound


def _count_before(items: Offsets, end: int) -> int:
    """Count the items up to the first that is not written yet (0), or was written after the file was opened."""
    late = (items == 0) | (items >= end)
    return int(late.argmax()) if late.any() else len(items)
