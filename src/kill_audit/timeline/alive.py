"""What the lines of a batch tell of processes by being there: who is alive, and whose stream is whose.

Rules of this file: of a process only its last line counts, so columns tell it; nothing is gone through.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Batch, Micros
from kill_audit.events import ENDINGS, Line, TaskLines
from kill_audit.grammar.celery import is_child
from kill_audit.timeline.partial import Group

Stream = tuple[str, int, str]  # a boot, a pid, and journald's number of what the process writes to
_ALIVE = (Line.HEARD, Line.SPOKE)
_TELLING = np.array([kind in (*_ALIVE, *ENDINGS) for kind in range(max(Line) + 1)], np.bool_)  # by the line's kind


class SignsOfLife:
    """The task lines of a batch whose origins name their unit's run."""

    def __init__(self, batch: Batch, lines: TaskLines, groups: Sequence[Group | None]) -> None:
        self._batch = batch
        self._lines = lines
        self._groups = groups
        known: dict[Group, int] = {}
        numbers = np.array([-1 if one is None else known.setdefault(one, len(known)) for one in groups], np.int64)
        self._numbers = known
        self._names = list(known)
        self._origin = np.asarray(batch.origin, np.int64)[lines.row]
        self._group = numbers[self._origin]
        self._pid = np.asarray(batch.pid, np.int64)[lines.row]
        self._taken: dict[tuple[Group, str], int] = {}  # row at which a process was last asked for

    # -- streams ---------------------------------------------------------------

    @cached_property
    def streams(self) -> Mapping[Stream, tuple[int, Group]]:
        """Whose process each stream is, and in which row that is first seen."""
        known = np.flatnonzero(self._group >= 0)
        pairs, first = np.unique(self._origin[known] << 32 | self._pid[known], return_index=True)
        found: dict[Stream, tuple[int, Group]] = {}
        for pair, place in zip(pairs.tolist(), first.tolist(), strict=True):
            origin, group = self._batch.origins[pair >> 32], self._groups[pair >> 32]
            if origin.stream_id is not None and origin.unit is not None and group is not None:
                stream = group.boot, pair & 0xFFFF_FFFF, origin.stream_id
                found.setdefault(stream, (int(self._lines.row[known[place]]), group))
        return found

    # -- pool processes ----------------------------------------------------------

    def child_pids(self) -> Mapping[tuple[Group, int], Micros]:
        """Tell when each pid last wrote as a pool process."""
        of_child = np.array([is_child(name) for name in self._lines.process.words] + [False], np.bool_)
        lines = np.flatnonzero((self._group >= 0) & of_child[self._lines.process.codes])[::-1]
        keys, last = np.unique(self._group[lines] << 32 | self._pid[lines], return_index=True)
        times = np.asarray(self._batch.realtime, np.int64)[self._lines.row[lines[last]]]
        return {
            (self._names[key >> 32], key & 0xFFFF_FFFF): at
            for key, at in zip(keys.tolist(), times.tolist(), strict=True)
        }

    def settle(self, busy: dict[tuple[Group, str], Micros]) -> None:
        """Bring up to date which pool processes were heard of after their last task's end."""
        codes = self._lines.process.codes
        telling = np.flatnonzero(self._at_work)
        last = np.full(len(self._names) * len(self._lines.process.words), -1, np.int64)
        last[self._group[telling] * len(self._lines.process.words) + codes[telling]] = telling
        for key in np.flatnonzero(last >= 0).tolist():
            number, code = divmod(key, len(self._lines.process.words))
            process, line = self._lines.process.words[code], int(last[key])
            whose = self._names[number], process
            row = int(self._lines.row[line])
            if not process or row < self._taken.get(whose, -1):
                continue
            if self._lines.kind[line] in _ALIVE:
                busy[whose] = self._batch.realtime[row]
            else:
                busy.pop(whose, None)

    def take_heard(self, busy: dict[tuple[Group, str], Micros], group: Group, process: str, row: int) -> Micros | None:
        """Tell, for the last time, when a pool process was heard of after its last task's end and before a row."""
        before = busy.pop((group, process), None)
        asked, self._taken[group, process] = self._taken.get((group, process), -1), row
        told = self._telling.get((group, process), ())
        place = bisect_left(told, row, key=lambda line: int(self._lines.row[line])) - 1
        if place < 0 or self._lines.row[told[place]] < asked:
            return before
        line = told[place]
        return self._batch.realtime[int(self._lines.row[line])] if self._lines.kind[line] in _ALIVE else None

    @cached_property
    def _telling(self) -> Mapping[tuple[Group, str], Sequence[int]]:
        """The lines that tell of each pool process whether it is at work, by the unit's run and its name."""
        lines, names = self._lines, self._lines.process.words
        telling = np.flatnonzero(self._at_work)
        keys = self._group[telling] * len(names) + lines.process.codes[telling]
        telling = telling[np.argsort(keys, kind="stable")]
        keys.sort()
        if not len(keys):
            return {}
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        return {
            (self._names[key // len(names)], names[key % len(names)]): places.tolist()
            for key, places in zip(keys[first].tolist(), np.split(telling, first[1:]), strict=True)
        }

    @cached_property
    def _at_work(self) -> npt.NDArray[np.bool_]:
        """Which lines tell of their process that it is, or is not, at work."""
        telling: npt.NDArray[np.bool_] = (self._group >= 0) & (self._lines.process.codes >= 0)
        return telling & _TELLING[self._lines.kind]
