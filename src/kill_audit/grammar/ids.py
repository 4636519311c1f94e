"""Hashes of task ids: eight bytes for each, the same in every process and on every machine.

Nearly all ids are UUIDs, and there are millions of them; their hash is a sum that numpy makes of thousands at once.
Any other id is hashed by BLAKE2b.
"""

import re
import struct
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PIECES: Final = struct.Struct("<4QI")
# Odd, and of random bits (those of pi, e, the golden ratio, and the square roots of 2 and 3).
_FACTORS: Final = (
    0x243F6A8885A308D3,
    0xB7E151628AED2A6B,
    0x9E3779B97F4A7C15,
    0x6A09E667F3BCC909,
    0xBB67AE8584CAA73B,
)
_ALL: Final = (1 << 64) - 1


def hash_of(task_id: str) -> int:
    """Hash a task id to 64 bits."""
    if _UUID.fullmatch(task_id):
        pieces: tuple[int, ...] = _PIECES.unpack(task_id.encode("ascii"))
        return sum(piece * factor for piece, factor in zip(pieces, _FACTORS, strict=True)) & _ALL
    return int.from_bytes(blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


ID_BYTES: Final = 40  # of a window onto an id: its 36, and four more, which do not matter
_LAST: Final = np.uint64(0xFFFF_FFFF)


def hashes_of(window: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Hash UUIDs, given as the first bytes of each row of an array of shape (ids, 40)."""
    words = window.view(np.uint64)
    sums = words[:, :4] @ np.array(_FACTORS[:4], np.uint64)
    hashes: npt.NDArray[np.uint64] = sums + (words[:, 4] & _LAST) * np.uint64(_FACTORS[4])
    return hashes


def _each(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101_0101_0101_0101)


def _at(places: range | tuple[int, ...], byte: int) -> list[int]:
    """Give the five words of a window that hold `byte` at these places, and 0 elsewhere."""
    raw = bytearray(ID_BYTES)
    for place in places:
        raw[place] = byte
    return [int.from_bytes(raw[begin : begin + 8], "little") for begin in range(0, ID_BYTES, 8)]


_DASHES: Final = (8, 13, 18, 23)
_DIGITS: Final = tuple(place for place in range(36) if place not in _DASHES)
_DASH_MASK: Final = np.array(_at(_DASHES, 0xFF), np.uint64)
_DASH_VALUE: Final = np.array(_at(_DASHES, ord("-")), np.uint64)
_DIGIT_TOPS: Final = np.array(_at(_DIGITS, 0x80), np.uint64)


def are_uuids(window: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Tell of each row of an array of shape (ids, 40) whether its first 36 bytes are a UUID in its usual form.

    Each byte of a word is tested at once: what is added carries a byte into its top bit if it is large enough.
    """
    words = window.view(np.uint64)
    low = words & _each(0x7F)
    digit = (low + _each(0x80 - ord("0"))) & ~(low + _each(0x80 - ord("9") - 1))
    letter = (low + _each(0x80 - ord("a"))) & ~(low + _each(0x80 - ord("f") - 1))
    hexadecimal = (digit | letter) & ~words & _DIGIT_TOPS
    good: npt.NDArray[np.bool_] = ((hexadecimal == _DIGIT_TOPS) & (words & _DASH_MASK == _DASH_VALUE)).all(axis=1)
    return good
