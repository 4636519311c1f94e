"""Many texts in one buffer of bytes, looked at side by side.

A window is an array of shape (texts, bytes): what lies from some offsets on. Windows are looked at as words of eight
bytes, little-endian, so that one operation compares eight bytes of thousands of texts.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WINDOW: Final = 64  # bytes of the usual window
LONGEST: Final = 208
REACH: Final = 256  # how far behind a text's begin or end windows may look


class Buffer:
    """Bytes, and windows onto them."""

    def __init__(self, data: Bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def window(self, at: Ints, width: int) -> Bytes:
        """Give the `width` bytes from each offset on, as an array of shape (offsets, width)."""
        rows = np.ndarray((max(0, len(self.data) - width + 1),), f"V{width}", self.data, strides=(1,))
        taken: Bytes = rows[at].view(np.uint8).reshape(-1, width)
        return taken

    def words(self, at: Ints) -> Words:
        """Give the eight bytes from each offset on, as one little-endian number."""
        return self.window(at, 8).view(np.uint64).reshape(-1)


def word(text: bytes) -> int:
    """Give the first bytes of a word as a number."""
    return int.from_bytes(text, "little")


def _masks(size: int, words: int) -> Words:
    """Give for each length up to `size` bytes the masks that keep so many bytes of `words` words."""
    kept = [[(1 << 8 * min(max(length - 8 * word, 0), 8)) - 1 for word in range(words)] for length in range(size + 1)]
    return np.array(kept, np.uint64)


KEEP: Final = _masks(LONGEST, LONGEST // 8)  # [length, word]
KEEP_8: Final = KEEP[:9, 0]


def kept(window: Bytes, length: Ints) -> Words:
    """Give the words of a window, with all bytes behind the first `length` of each row set to 0."""
    words: Words = window.view(np.uint64) & KEEP[length, : window.shape[1] // 8]
    return words


def begin_with(words: Words, beginnings: Iterable[bytes]) -> Flags:
    """Tell which words begin with one of some texts of four bytes."""
    first = words & KEEP_8[4]
    found = np.zeros(len(words), np.bool_)
    for beginning in beginnings:
        found |= first == word(beginning)
    return found


class Distinct:
    """Pieces of text of which few are distinct, numbered as they are met; `make` gives the text, None if not sure."""

    _SLOT_BITS: Final = 12
    _NEW: Final = -2
    UNSURE: Final = -1

    def __init__(self, text: Buffer, make: Callable[[bytes], str | None]) -> None:
        self._text = text
        self._make = make
        self._known: dict[bytes, int] = {}
        self._hashes = np.zeros(1 << self._SLOT_BITS, np.uint64)
        self._codes = np.full(1 << self._SLOT_BITS, self._NEW, np.int32)
        self.words: list[str] = []

    def codes(self, hashes: Words, at: Ints, length: Ints) -> npt.NDArray[np.int32]:
        """Give the number of each word, -1 where it is not sure; a word lies at `at` and has this hash."""
        slots = (hashes >> np.uint64(64 - self._SLOT_BITS)).astype(np.intp)
        codes = self._codes[slots]
        new = np.flatnonzero((self._hashes[slots] != hashes) | (codes == self._NEW))
        if len(new):
            _, first, where = np.unique(hashes[new], return_index=True, return_inverse=True)
            found = [self._code(int(at[place]), int(length[place])) for place in new[first].tolist()]
            codes[new] = np.array(found, np.int32)[where]
            self._hashes[slots[new]] = hashes[new]
            self._codes[slots[new]] = codes[new]
        return codes

    def _code(self, at: int, length: int) -> int:
        raw = self._text.data[at : at + length].tobytes()
        code = self._known.get(raw)
        if code is None:
            made = self._make(raw)
            code = self.UNSURE if made is None else len(self.words)
            if made is not None:
                self.words.append(made)
            self._known[raw] = code
        return code


# Random odd factors: a hash is the sum of a text's words, each times its factor, modulo 2**64. A word is folded first,
# as what differs in its last bytes only would change only the last bits of the product.
_FACTORS: Final = np.random.default_rng().integers(1, 1 << 63, WINDOW // 8, np.uint64) * np.uint64(2) + np.uint64(1)


def hashed(window: Bytes, length: Ints) -> Words:
    """Hash the first `length` bytes of each row of a window."""
    words = kept(window, length)
    hashes: Words = (words ^ words >> np.uint64(32)) @ _FACTORS[: words.shape[1]]
    return hashes
