"""A set of hashes that grows by the thousands: eight bytes each."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Hashed = npt.NDArray[np.uint64]


class Hashes:
    """Hashes of ids, most of them in one ascending array."""

    def __init__(self) -> None:
        self._many = np.empty(0, np.uint64)
        self._few: set[int] = set()
        self._expected: frozenset[int] = frozenset()

    def expect(self, hashes: Hashed) -> None:
        """Look up at once all hashes that `in` will ask for before more are added."""
        self._expected = frozenset(hashes[among(hashes, self._many)].tolist())

    def __contains__(self, one: int) -> bool:
        """Whether a hash is among them; it must have been expected, or added by itself."""
        return one in self._few or one in self._expected

    def add(self, one: int) -> None:
        """Add a hash."""
        self._few.add(one)

    def add_all(self, many: Hashed) -> None:
        """Add hashes, distinct and none of them among those that are here."""
        self._many = np.sort(np.concatenate([self._many, many]), kind="stable")  # which merges what is ascending

    def joined(self, more: Iterable[int]) -> Hashed:
        """Give all hashes and some more, each once, ascending."""
        few = np.array(sorted(self._few.union(more)), np.uint64)
        few = few[~among(few, self._many)]
        return np.insert(self._many, np.searchsorted(self._many, few), few) if len(few) else self._many


def among(hashes: Hashed, known: Hashed) -> npt.NDArray[np.bool_]:
    """Tell which hashes are among some that are ascending."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[place] == hashes
    return found
