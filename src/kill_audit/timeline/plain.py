"""Plain runs: received once and ended once within one batch, with nothing between that makes them more than a number.

Nearly all runs are plain. They are found by columns and only counted; `follow` goes through all other lines one by
one, and has each main process catch up with its plain runs before it looks at a line of the same unit's run.

Rules of this file: what `follow` would say if it went through plain runs one by one as well is the definition. A run
is plain only if no line of its unit's run between its receipt and its end changes numbers that were given, and no
event of a worker lies between. Its id must not have been met before, nor be asked for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from kill_audit.entry import Batch
from kill_audit.events import Line, TaskLines
from kill_audit.grammar.windows import Flags, Ints
from kill_audit.timeline.hashes import among
from kill_audit.timeline.partial import Group, bucket_top_s, runtime_bucket

_ALL_GROUPS: Final = -1
_BUCKETS: Final = 160  # the last one ends after 34 years
_ROW_BITS: Final = 32
_RENUMBERING: Final = (Line.WAITING, Line.RETRIED, Line.DISCARDED)
_PLAIN_ENDS: Final = (Line.SUCCEEDED, Line.RAISED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The plain runs of one main process in a batch: places in the batch's task lines, by receipt.

    `received_rows` and `ended_rows` are each ascending; `by_end` gives the run of each end. `received_at`: when.
    """

    group: Group
    main_pid: int
    received: Ints
    ended: Ints
    received_at: Ints
    received_rows: Sequence[int]
    ended_rows: Sequence[int]
    by_end: Ints

    def received_before(self, row: int) -> int:
        """Count the runs received before a row."""
        return bisect_left(self.received_rows, row)

    def ended_before(self, row: int) -> int:
        """Count the runs that ended before a row."""
        return bisect_left(self.ended_rows, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """A batch's task lines, sorted out: the tracks of plain runs, and the places of the lines to go through."""

    tracks: tuple[Track, ...]
    others: Ints
    hashes: npt.NDArray[np.uint64]


def sort_out(
    batch: Batch,
    lines: TaskLines,
    groups: Sequence[Group | None],
    events: Iterable[int],
    met: npt.NDArray[np.uint64],
) -> Sorted:
    """Find the plain runs of a batch.

    Args:
        batch: the entries.
        lines: their task lines.
        groups: the unit's run of each of the batch's origins; None where the origin alone does not tell.
        events: the rows of a worker's events.
        met: hashes of ids that were met before or are asked for, ascending.
    """
    numbers = _numbers(groups)
    group = numbers[np.asarray(batch.origin, np.int64)[lines.row]]
    received, ended = _pairs(lines, group)
    new = ~among(lines.id_hash[received], met)
    received, ended = received[new], ended[new]
    quiet = ~_divided(lines, group, received, ended, batch, numbers, events)
    received, ended = received[quiet], ended[quiet]
    plain = np.sort(lines.id_hash[received])
    counted = among(lines.id_hash, plain) | ((lines.kind == Line.HEARD) & (group >= 0))
    return Sorted(
        tracks=tuple(_tracks(batch, lines, group, groups, numbers, received, ended)),
        others=np.flatnonzero(~counted),
        hashes=plain,
    )


def _numbers(groups: Sequence[Group | None]) -> Ints:
    """Number the groups of origins, equal ones alike; -1 for an origin without."""
    known: dict[Group, int] = {}
    return np.array([_ALL_GROUPS if one is None else known.setdefault(one, len(known)) for one in groups], np.int64)


def _pairs(lines: TaskLines, group: Ints) -> tuple[Ints, Ints]:
    """Find the ids with one receipt first, one end last, and at most own lines between; give both lines' places."""
    named = np.flatnonzero(lines.id_hash)
    named = named[np.argsort(lines.id_hash[named], kind="stable")]
    hashes, kind, of = lines.id_hash[named], lines.kind[named], group[named]
    first = np.flatnonzero(np.r_[True, hashes[1:] != hashes[:-1]][: len(hashes)])
    if not len(first):
        return first, first
    last = np.r_[first, len(named)][1:] - 1
    between = (last - first - 1) == np.add.reduceat((kind == Line.SPOKE).astype(np.int64), first)
    alike = np.minimum.reduceat(of, first) == np.maximum.reduceat(of, first)
    good = between & alike & (of[first] >= 0) & (kind[first] == Line.RECEIVED) & np.isin(kind[last], _PLAIN_ENDS)
    return named[first[good]], named[last[good]]


def _divided(
    lines: TaskLines,
    group: Ints,
    received: Ints,
    ended: Ints,
    batch: Batch,
    numbers: Ints,
    events: Iterable[int],
) -> Flags:
    """Tell of pairs of lines whether anything that matters to open runs lies between them."""
    rows = np.fromiter(events, np.int64)
    renumbering = np.flatnonzero(np.isin(lines.kind, _RENUMBERING))
    row = np.r_[rows, lines.row[renumbering]]
    of = np.r_[numbers[np.asarray(batch.origin, np.int64)[rows]], group[renumbering]]
    divided = np.zeros(len(received), np.bool_)
    for places, whose in ((row[of < 0], np.zeros(len(received), np.int64)), (None, group[received])):
        keys = np.sort(of[of >= 0] << _ROW_BITS | row[of >= 0]) if places is None else np.sort(places)
        begin, end = (np.searchsorted(keys, whose << _ROW_BITS | lines.row[place]) for place in (received, ended))
        divided |= begin != end
    return divided


def _tracks(
    batch: Batch,
    lines: TaskLines,
    group: Ints,
    groups: Sequence[Group | None],
    numbers: Ints,
    received: Ints,
    ended: Ints,
) -> Iterable[Track]:
    by_number = {int(number): one for number, one in zip(numbers, groups, strict=True) if one is not None}
    at = np.asarray(batch.realtime, np.int64)[lines.row]
    pid = np.asarray(batch.pid, np.int64)[lines.row[received]]
    of = group[received]
    order = np.lexsort((received, pid, of))
    received, ended, pid, of = received[order], ended[order], pid[order], of[order]
    first = np.flatnonzero(np.r_[True, (pid[1:] != pid[:-1]) | (of[1:] != of[:-1])][: len(pid)])
    for begin, end in zip(first, np.r_[first, len(pid)][1:], strict=True):
        by_end = np.argsort(ended[begin:end])
        yield Track(
            group=by_number[int(of[begin])],
            main_pid=int(pid[begin]),
            received=received[begin:end],
            ended=ended[begin:end],
            received_at=at[received[begin:end]],
            received_rows=lines.row[received[begin:end]].tolist(),
            ended_rows=lines.row[ended[begin:end][by_end]].tolist(),
            by_end=by_end,
        )


# -- what all lines of a batch say of processes, plain runs or not ------------------


def runtimes(lines: TaskLines, tracks: Iterable[Track]) -> Mapping[tuple[str, str], Sequence[tuple[int, int]]]:
    """Count the run times of plain runs: by unit and task name, pairs of histogram bucket and count."""
    counts: dict[tuple[str, str], list[tuple[int, int]]] = {}
    by_unit: dict[str, list[Ints]] = {}
    for track in tracks:
        by_unit.setdefault(track.group.unit, []).append(track.ended)
    for unit, ended in by_unit.items():
        place = np.concatenate(ended)
        place = place[lines.number[place] > 0]
        bucket = bucket_of(lines.number[place])
        keys, sizes = np.unique(lines.task_name.codes[place].astype(np.int64) << 16 | bucket, return_counts=True)
        for key, size in zip(keys.tolist(), sizes.tolist(), strict=True):
            name = lines.task_name.words[key >> 16]
            counts.setdefault((unit, name), []).append((key & 0xFFFF, size))
    return counts


def bucket_of(seconds: npt.ArrayLike) -> Ints:
    """Place run times in a histogram, as `runtime_bucket` does."""
    return np.searchsorted(_bucket_tops(), seconds).astype(np.int64)


@cache
def _bucket_tops() -> npt.NDArray[np.float64]:
    """Give for each bucket of run times the longest that it holds, in seconds (see `runtime_bucket`)."""
    tops = []
    for bucket in range(_BUCKETS):
        low, high = bucket_top_s(bucket) * (1 - 1e-9), bucket_top_s(bucket) * (1 + 1e-9)
        while (middle := (low + high) / 2) not in (low, high):  # until no number is between
            low, high = (middle, high) if runtime_bucket(middle) <= bucket else (low, middle)
        tops.append(low)
    return np.array(tops)
