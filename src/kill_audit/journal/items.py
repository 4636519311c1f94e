"""What the items of entries say: the fields of millions of entries, each distinct DATA object taken apart once.

Nearly all items of an entry are objects that many entries share (the unit, the host, the program); what is its own is
its message and perhaps a time stamp, which are written last and therefore lie last. So `Values.look_up` takes the last
few items of each entry apart from all before them, its head, and knows a head again by a hash of its offsets. It knows
single objects that are shared by their offsets, and looks at the rest as columns: which are messages, which wanted.

Rules of this file: it knows DATA objects and which fields are wanted, and nothing of batches.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kill_audit.journal.columns import ORIGIN_FIELDS, TELLING_FIELDS, WANTED_FIELDS, decode, number
from kill_audit.journal.layout import PACKED, JournalFile, Offsets
from kill_audit.journal.unpacking import PackedError, Unpacker

_SLOT_BITS: Final = 17
_MIX: Final = np.uint32(2_654_435_769)  # Knuth's multiplicative hashing: 2**32 over the golden ratio
_OWN: Final = 2  # items of an entry that are looked at by themselves
_HEAD_BITS: Final = 12
_HEAD: Final = np.dtype([
    ("hash", np.uint64), ("sign", np.uint64), ("tally", np.int64), ("message", np.int64),
    ("packed", np.bool_), ("damaged", np.bool_),
])  # fmt: skip
_MESSAGE: Final = int.from_bytes(b"MESSAGE=", "little")
_NAMES: Final = {name.encode(): name for name in WANTED_FIELDS if name != "MESSAGE"}
_SUMMED: Final = {name.encode(): name for name in ("_PID", *ORIGIN_FIELDS, *sorted(TELLING_FIELDS))}
_NOTHING: Final = 0
_A_MESSAGE: Final = -1
_MOST_PARSED: Final = 50_000
_MOST_UNPACKED: Final = 4096
# One number an item says all that is summed up over an entry: its pid, how many pids it has, what else it needs.
ONE_PID: Final = 1 << 40
ONE_TELLING: Final = 1 << 46
MOST_PID: Final = 1 << 22  # PID_MAX_LIMIT of 64-bit kernels


@dataclass(frozen=True, slots=True)
class Looked:
    """What a block of entries with equally many items says.

    `sign`: equal for entries whose origin's fields are equal. `tally`: the sum of pids, `ONE_PID` and so on. `row`,
    `offset`, `packed`: of each message, in the order of the items: its row in the block, its object, whether it is
    packed. `damaged`: rows with an item that is no sound object.
    """

    sign: npt.NDArray[np.uint64]
    tally: npt.NDArray[np.int64]
    row: npt.NDArray[np.intp]
    offset: Offsets
    packed: npt.NDArray[np.bool_]
    damaged: npt.NDArray[np.intp]


class Values:
    """The distinct values of wanted fields in one file, by the offsets of their objects."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._unpacker = Unpacker()
        self._dice = np.random.default_rng()  # nobody who writes entries can foresee which sums are equal
        self._known: dict[int, int] = {}  # offset -> value; only wanted fields, which have few values
        self._slots = np.zeros(1 << _SLOT_BITS, np.uint32)  # offset / 8
        self._slot_values = np.zeros(1 << _SLOT_BITS, np.int32)
        self._factors = self._dice.integers(1, 1 << 64, 1024, np.uint64) | np.uint64(1)
        self._heads = np.zeros(1 << _HEAD_BITS, _HEAD)
        self._heads["hash"][0] = ~np.uint64(0)  # no hash of this slot
        self._count = 1
        self._parsed: dict[int, tuple[str, str]] = {}
        self._unpacked: dict[int, bytes] = {}  # messages' heads, until they are asked for
        self._signs = np.zeros(1024, np.uint64)
        self._tallies = np.zeros(1024, np.int64)

    # -- blocks of entries -------------------------------------------------

    def look_up(self, cells: npt.NDArray[Any]) -> Looked:
        """Look at the items of a block of entries, an array of offsets of shape (entries, items)."""
        count = cells.shape[1] - _OWN
        if not 0 < count <= len(self._factors):
            return self._look(cells)
        heads = self._heads_of(cells[:, :count])
        last = self._look(cells[:, count:])
        row = np.flatnonzero(heads["message"])
        return Looked(
            sign=heads["sign"] + last.sign,
            tally=heads["tally"] + last.tally,
            row=np.concatenate([row, last.row]),
            offset=np.concatenate([heads["message"][row], last.offset]),
            packed=np.concatenate([heads["packed"][row], last.packed]),
            damaged=np.concatenate([np.flatnonzero(heads["damaged"]), last.damaged]),
        )

    def _heads_of(self, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Say what heads of entries say, each as a `_HEAD`."""
        hashes = cells.astype(np.uint64) @ self._factors[: cells.shape[1]]
        slots = (hashes >> np.uint64(64 - _HEAD_BITS)).astype(np.intp)
        heads = self._heads[slots]
        new = np.flatnonzero(heads["hash"] != hashes)
        if len(new):
            distinct, first, where = np.unique(hashes[new], return_index=True, return_inverse=True)
            looked = self._look(cells[new[first]])
            met = np.zeros(len(distinct), _HEAD)
            met["hash"], met["sign"], met["tally"] = distinct, looked.sign, looked.tally
            row = looked.row[::-1]  # of several messages the first counts: it is written last
            met["message"][row], met["packed"][row] = looked.offset[::-1], looked.packed[::-1]
            met["damaged"][looked.damaged] = True
            heads[new] = met[where]
            self._heads[slots[new[first]]] = met
        return heads

    def _look(self, cells: npt.NDArray[Any]) -> Looked:
        """Look at items one by one."""
        places = (cells >> cells.dtype.type(3)).astype(np.uint32, copy=False)
        slots = (places * _MIX) >> np.uint32(32 - _SLOT_BITS)
        values = self._slot_values[slots]
        new = np.flatnonzero(self._slots[slots] != places)
        offsets = cells.reshape(-1)[new].astype(np.int64)
        kinds = _Kinds(self._file, offsets)
        found = np.zeros(len(new), np.int32)
        asked = np.flatnonzero(kinds.wanted | kinds.packed)
        distinct, first, where = np.unique(offsets[asked], return_index=True, return_inverse=True)
        packed = kinds.packed[asked[first]].tolist()
        answers = np.array([self._value(*one) for one in zip(distinct.tolist(), packed, strict=True)], np.int32)
        found[asked] = np.maximum(answers, _NOTHING)[where]
        kinds.message[asked] |= (answers == _A_MESSAGE)[where]
        shared = np.flatnonzero(kinds.shared & ~kinds.message)
        where = slots.reshape(-1)[new[shared]]
        self._slots[where] = places.reshape(-1)[new[shared]]
        self._slot_values[where] = found[shared]
        values.reshape(-1)[new] = found
        rows = new // cells.shape[1]
        messages = np.flatnonzero(kinds.message)
        return Looked(
            sign=self._signs[values].sum(axis=1, dtype=np.uint64),
            tally=self._tallies[values].sum(axis=1, dtype=np.int64),
            row=rows[messages],
            offset=offsets[messages],
            packed=kinds.packed[messages],
            damaged=rows[~kinds.sound],
        )

    def _value(self, offset: int, packed: bool) -> int:
        """Give the number of a value; 0 where nothing of it is needed here, -1 if it is a message."""
        value = self._known.get(offset)
        if value is None:
            text = self.head(offset) if packed else self.payload(offset)
            if text is None:
                return _NOTHING
            name, equals, rest = text.partition(b"=")
            if name == b"MESSAGE" and equals:
                if packed and len(self._unpacked) < _MOST_UNPACKED:
                    self._unpacked[offset] = text
                return _A_MESSAGE
            value = self._known[offset] = self._add(_SUMMED[name], rest) if equals and name in _SUMMED else _NOTHING
        return value

    def _add(self, name: str, text: bytes) -> int:
        """Take in a new value: what an item that points at it adds to its entry's sums."""
        value = self._count
        self._count += 1
        if value == len(self._signs):
            self._signs = np.concatenate([self._signs, np.zeros_like(self._signs)])
            self._tallies = np.concatenate([self._tallies, np.zeros_like(self._tallies)])
        if name == "_PID":
            pid = number(decode(text)) or 0
            self._tallies[value] = ONE_PID + min(pid, MOST_PID)
        elif name in TELLING_FIELDS:
            self._tallies[value] = ONE_TELLING
        else:
            self._signs[value] = self._dice.integers(1, 1 << 64, dtype=np.uint64)
        return value

    # -- one object or entry --------------------------------------------------

    def fields(self, entry: int) -> dict[str, str]:
        """Give the wanted fields of one entry but its message, with the first value of each."""
        cells = self._file.items_of(entry)
        fields: dict[str, str] = {}
        for offset in cells:
            field = self._parsed.get(offset) or self._parse(offset)
            if field[0] and field[0] not in fields:
                fields[field[0]] = field[1]
        return fields

    def _parse(self, offset: int) -> tuple[str, str]:
        """Take an object apart: its field and value, empty where they are not wanted; remember one that is shared."""
        field = "", ""
        if self._file.is_data(offset):
            name, _, text = (self.payload(offset) or b"").partition(b"=")
            if name in _NAMES:
                field = _NAMES[name], decode(text)
            if self._file.word(offset + 8 * _N_ENTRIES) > 1 and len(self._parsed) < _MOST_PARSED:
                self._parsed[offset] = field
        return field

    def payload(self, offset: int) -> bytes | None:
        """Give the whole text of a sound object, `NAME=value`; None where it cannot be unpacked."""
        flags = self._file.map[offset + 1] & PACKED
        raw = self._raw(offset)
        if not flags:
            return raw
        try:
            return self._unpacker.whole(flags, raw)
        except PackedError:
            return None

    def head(self, offset: int) -> bytes | None:
        """Give at least the first 4,096 bytes of a packed object's text; None where it cannot be unpacked."""
        if offset in self._unpacked:
            return self._unpacked.pop(offset)
        try:
            return self._unpacker.head(self._file.map[offset + 1] & PACKED, self._raw(offset))
        except PackedError:
            return None

    def _raw(self, offset: int) -> bytes:
        return bytes(self._file.map[offset + self._file.payload : offset + self._file.word(offset + 8)])


class _Kinds:
    """What lies at each of some offsets, by its first bytes: a message, or a field that may be wanted, or neither."""

    def __init__(self, file: JournalFile, offsets: Offsets) -> None:
        self.sound = file.sound_data(offsets)
        at = np.where(self.sound, offsets, 0) // 8
        words, last = file.words, len(file.words) - 1
        begin = np.minimum(at + file.payload // 8, last)
        first = words[begin]
        self.packed = self.sound & ((words[at] >> _FLAGS_AT) & np.uint64(PACKED) != 0)
        plain = self.sound & ~self.packed
        room = words[at + 1] >= np.uint64(file.payload + 8)
        self.message = plain & (first == _MESSAGE) & room
        self.shared = self.sound & (words[at + _N_ENTRIES] > 1)
        self.wanted = np.zeros(len(offsets), np.bool_)
        maybe = np.flatnonzero(plain & ~self.message)
        maybe = maybe[_is_one_of(first[maybe], _FIRST_WORDS)]
        if len(maybe):
            second = words[np.minimum(begin[maybe] + 1, last)]
            self.wanted[maybe] = _is_named(first[maybe], second, _NAME_WORDS)


_FLAGS_AT: Final = np.uint64(8)
_N_ENTRIES: Final = 7  # words from the object's begin


def _words_of(name: bytes) -> tuple[int, int, int, int]:
    """Give the two words that a DATA object of a field begins with, and the masks of the bytes that are the name's."""
    text = (name + b"=")[:16]
    first, second = text[:8], text[8:]
    mask = (1 << 8 * len(first)) - 1, (1 << 8 * len(second)) - 1
    return int.from_bytes(first, "little"), mask[0], int.from_bytes(second, "little"), mask[1]


_NAME_WORDS: Final = tuple(_words_of(name) for name in _SUMMED)
_FIRST_WORDS: Final = tuple(sorted({(word, mask) for word, mask, _, _ in _NAME_WORDS}))


def _is_one_of(words: npt.NDArray[np.uint64], texts: Iterable[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(words), np.bool_)
    for text, mask in texts:
        found |= words & np.uint64(mask) == text
    return found


def _is_named(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64], names: Iterable[tuple[int, int, int, int]]
) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(first), np.bool_)
    for text, mask, more, more_mask in names:
        found |= (first & np.uint64(mask) == text) & (second & np.uint64(more_mask) == more)
    return found
