"""Lets main processes catch up with their plain runs, which are counted and not gone through (see `plain`).

Rules of this file: whatever a line that is gone through may look at is as if the plain runs before it had been gone
through too. A plain run becomes an object only where a death may turn out to be about it.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Final, NamedTuple

import numpy as np

from kill_audit import events
from kill_audit.entry import Batch, Micros
from kill_audit.events import Line, TaskLines
from kill_audit.grammar.celery import is_child
from kill_audit.timeline.opened import RECENT_RUNS, OpenRun, OpenSegment
from kill_audit.timeline.partial import End, Group, Mark
from kill_audit.timeline.plain import Track

SECOND: Final = 1_000_000
RECENT_SPAN: Final = 15 * SECOND
_AT_LAST: Final = 1 << 32  # behind every row


class _Piece(NamedTuple):
    """Runs of a track that were counted together: from which place on, in which segment, what to add to a place."""

    begin: int
    segment: OpenSegment
    number: int
    order: int


@dataclass(slots=True)
class _Progress:
    """How far a track was counted: so many runs were received, so many ended, so many ends are not recent any more."""

    track: Track
    received: int = 0
    ended: int = 0
    forgotten: int = 0
    pieces: list[_Piece] = field(default_factory=list)

    def add(self, segment: OpenSegment, received: int) -> None:
        """Count the runs up to `received` as jobs of a segment."""
        piece = _Piece(self.received, segment, segment.dispatched - self.received, segment.receipts - self.received)
        if not self.pieces or self.pieces[-1][1:] != piece[1:]:
            self.pieces.append(piece)
        segment.dispatched += received - self.received
        segment.receipts += received - self.received
        self.received = received

    def piece_of(self, place: int) -> _Piece:
        """Give the piece that holds a run."""
        return self.pieces[bisect_right(self.pieces, place, key=lambda piece: piece.begin) - 1]

    def segments(self) -> Iterator[tuple[OpenSegment, int, int]]:
        """Give the segments that runs were counted for, with the places of their first and behind their last run."""
        ends = [*(piece.begin for piece in self.pieces[1:]), self.received]
        for segment, group in groupby(zip(self.pieces, ends, strict=True), key=lambda one: one[0].segment):
            parts = list(group)
            yield segment, parts[0][0].begin, parts[-1][1]


class CatchUp:
    """The plain runs of one batch, and how far they were counted."""

    def __init__(
        self,
        batch: Batch,
        lines: TaskLines,
        tracks: Iterable[Track],
        segment_of: Callable[[Group, int, Micros], OpenSegment],
    ) -> None:
        self._batch = batch
        self._lines = lines
        self._segment_of = segment_of
        self._progress: dict[Group, list[_Progress]] = {}
        for track in tracks:
            self._progress.setdefault(track.group, []).append(_Progress(track))
        self._due: list[tuple[int, int, _Progress]] = []
        self._ticket = count()

    # -- counting -----------------------------------------------------------

    def to(self, group: Group, row: int) -> None:
        """Count the plain runs of a unit's run up to a row."""
        found = self._progress.get(group)
        if found is None:
            return
        if len(found) > 1:
            found = sorted(found, key=lambda one: one.track.received_rows[one.track.received_before(row) - 1])
        for progress in found:
            self._count(progress, row)

    def _count(self, progress: _Progress, row: int) -> None:
        track, begin = progress.track, progress.received
        received, ended = track.received_before(row), track.ended_before(row)
        if received > begin:
            segment = self._segment_of(track.group, track.main_pid, self._batch.realtime[track.received_rows[begin]])
            progress.add(segment, received)
            segment.informed = True
            segment.later_row = track.received_rows[received - 1]
        if ended > progress.ended:
            segment = progress.pieces[-1].segment
            segment.finished += ended - progress.ended
            segment.drained += segment.stopping * (ended - progress.ended)
            progress.ended = ended

    def watch(self, segment: OpenSegment, dues: Iterable[Micros]) -> None:
        """Remember at which plain receipts runs that wait are due: they come before it in the order of jobs."""
        for progress in self._of(segment):
            times = progress.track.received_at[progress.received :]
            for due in dues:
                late = times >= due
                if late.any():
                    row = progress.track.received_rows[progress.received + int(late.argmax())]
                    heapq.heappush(self._due, (row, next(self._ticket), progress))

    def hand_out_due(self, row: int) -> None:
        """Hand out, at the plain receipts before a row, the runs that were due then."""
        while self._due and self._due[0][0] < row:
            at, _, progress = heapq.heappop(self._due)
            self.to(progress.track.group, at)
            time = self._batch.realtime[at]
            self._segment_of(progress.track.group, progress.track.main_pid, time).hand_out_due(time)

    def finish(self) -> None:
        """Count all that is left; then let each segment learn what it has to know of its plain runs."""
        self.hand_out_due(_AT_LAST)
        until = self._batch.realtime[len(self._batch) - 1] if len(self._batch) else 0
        for group, found in self._progress.items():
            self.to(group, _AT_LAST)
            for progress in found:
                self._compare_starts(progress)
                for segment, _, _ in progress.segments():
                    if segment.later_row is not None:
                        segment.say(self._mark(segment.later_row))
                    kept = self.recent(segment, _AT_LAST, until - RECENT_SPAN)
                    segment.recent.clear()
                    segment.recent.extend((-1, run) for run in kept)

    def _compare_starts(self, progress: _Progress) -> None:
        lines, batch, track = self._lines, self._batch, progress.track
        begins = np.array([piece.begin for piece in progress.pieces], np.int64)
        bases = np.array([piece.number for piece in progress.pieces], np.int64)
        number = np.arange(len(track.received)) + np.repeat(bases, np.diff(begins, append=len(track.received)))
        run_time = lines.number[track.ended]
        at = np.asarray(batch.realtime, np.int64)[lines.row[track.ended]]
        timed = (lines.kind[track.ended] == Line.SUCCEEDED) & (run_time > 0)
        start = at - run_time * SECOND
        for segment, begin, end in progress.segments():
            chosen = np.flatnonzero(timed[begin:end]) + begin
            segment.compare_starts(lines.row[track.ended[chosen]], number[chosen], start[chosen])

    # -- runs that may matter after all -----------------------------------------

    def recent(self, segment: OpenSegment, row: int, since: Micros) -> Sequence[OpenRun]:
        """Give the last runs of a segment that ended before a row, those that ended since a moment."""
        found: list[tuple[int, OpenRun | tuple[_Progress, int]]] = list(segment.recent)
        for progress in self._of(segment):
            if progress.pieces and progress.pieces[-1].segment is segment:
                track = progress.track
                end = track.ended_before(row)
                for place in range(max(progress.forgotten, end - RECENT_RUNS), end):
                    run = int(track.by_end[place])
                    if progress.piece_of(run).segment is segment:
                        found.append((track.ended_rows[place], (progress, run)))
        found.sort(key=lambda one: one[0])
        late = [one for _, one in found[-RECENT_RUNS:] if self._ended_at(one) >= since]
        return [self._opened(*one) if isinstance(one, tuple) else one for one in late]

    def _of(self, segment: OpenSegment) -> Iterator[_Progress]:
        found = self._progress.get(segment.group, ())
        return (progress for progress in found if progress.track.main_pid == segment.main_pid)

    def forget(self, segment: OpenSegment, row: int) -> None:
        """Let the runs of a segment that ended before a row be no longer recent."""
        segment.recent.clear()
        for progress in self._of(segment):
            progress.forgotten = progress.track.ended_before(row)

    def _ended_at(self, one: "OpenRun | tuple[_Progress, int]") -> Micros:
        if isinstance(one, tuple):
            progress, place = one
            return self._batch.realtime[int(self._lines.row[progress.track.ended[place]])]
        return one.end.mark.at if one.end is not None else 0

    def _opened(self, progress: _Progress, place: int) -> OpenRun:
        """Make a plain run an object, as if it had been gone through."""
        lines, track = self._lines, progress.track
        piece = progress.piece_of(place)
        received, ended = int(track.received[place]), int(track.ended[place])
        facts = {
            "group": track.group,
            "main_pid": track.main_pid,
            "task_id": lines.task_id[received],
            "task_name": lines.task_name[received],
            "received": self._mark(int(lines.row[received])),
            "order": piece.order + place,
        }
        spoke = np.flatnonzero((lines.id_hash == lines.id_hash[received]) & (lines.kind == Line.SPOKE))
        if len(spoke):
            facts |= self._spoke(int(spoke[0]))
        run = OpenRun(piece.segment, int(lines.id_hash[received]), facts)
        run.number = piece.number + place
        kind = Line(int(lines.kind[ended]))
        run.end = End(
            group=track.group,
            task_id=lines.task_id[ended],
            task_name=lines.task_name[ended],
            kind=kind,
            mark=self._mark(int(lines.row[ended])),
            pid=self._batch.pid[int(lines.row[ended])],
            process=lines.process[ended],
            runtime_s=float(lines.number[ended]) or None if kind is Line.SUCCEEDED else None,
        )
        return run

    def _spoke(self, line: int) -> Mapping[str, object]:
        row, process = int(self._lines.row[line]), self._lines.process[line]
        own = is_child(process) or not process
        return {
            "spoke": self._mark(row),
            "spoke_pid": (self._batch.pid[row] or None) if own else None,
            "spoke_process": process if own else "",
        }

    def _mark(self, row: int) -> Mark:
        return mark_of(self._batch, row)


def mark_of(batch: Batch, row: int) -> Mark:
    """Point at an entry of a batch."""
    return Mark(batch.realtime[row], batch.cursor[row], (batch.message[row] or "")[: events.MAX_TEXT])
