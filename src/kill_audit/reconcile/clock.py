"""The clock by which the run log's rows were written, against the journal's: its zone, and its skew.

Rules of this file: a zone is derived only where the rows carry none and nobody gave one, from ids that have exactly
one run and one row. What lies off by a whole number of quarters of an hour is a zone; what lies off by less is the
time a row takes, or a clock that is wrong. One pair alone derives nothing: the user is asked for the zone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kill_audit.entry import Micros
from kill_audit.reconcile.matching import Attempt
from kill_audit.reconcile.rows import SECOND, TOLERANCE, Row, State

QUARTER = 15 * 60 * SECOND  # every zone's offset is a multiple of a quarter of an hour
FARTHEST = 14 * 3600 * SECOND  # the offset of Kiritimati; no clock on land is set farther from UTC
HOUR = 3600 * SECOND  # by no more is a clock put forward or back in summer
_SLOW = 120 * SECOND  # a run may have waited so long for a free process when its receipt is all that shows its start


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A moment that both tell of: as the run log writes it, and how far that lies from the journal's."""

    at: Micros
    apart: Micros

    @property
    def offset(self) -> Micros:
        """The nearest offset of a zone."""
        return round(self.apart / QUARTER) * QUARTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What a row's times must be corrected by; nothing by default. `zone`: the offsets in words."""

    shown: tuple[Shown, ...] = ()
    zone: str | None = None

    def right(self, row: Row) -> Row:
        """Correct a row's times."""
        if not self.shown:
            return row
        return replace(row, started_at=self.moment(row.started_at), finished_at=self.moment(row.finished_at))

    def moment(self, at: Micros | None) -> Micros | None:
        """Correct a moment by the offset that held nearest to it."""
        if at is None or not self.shown:
            return at
        return at - min(self.shown, key=lambda one: abs(one.at - at)).offset


def clock_of(attempts: Mapping[str, Sequence[Attempt]], rows_of: Mapping[str, Sequence[Row]]) -> Clock:
    """Derive the zone of times that carry none.

    All pairs must lie off by the same offset; or by two that differ by an hour at most, with a change from one to the
    other where the clocks were changed, not to and fro.
    """
    shown = sorted(_shown(attempts, rows_of), key=lambda one: one.at)
    offsets = [one.offset for one in shown]
    if len(shown) < 2 or not any(offsets) or any(not _is_plausible(one) for one in shown):
        return Clock()
    spans = [offset for place, offset in enumerate(offsets) if place == 0 or offset != offsets[place - 1]]
    if len(spans) > 3 or len(shown) <= len(spans) or any(abs(one - next_) > HOUR for one, next_ in pairwise(spans)):
        return Clock()
    zones = ", then ".join(_in_words(offset) for offset in spans)
    return Clock(shown=tuple(shown), zone=f"{zones} (derived from {len(shown)} rows)")


def offset_of_one(attempts: Sequence[Attempt], rows: Sequence[Row]) -> str | None:
    """Say by which zone's offset an id's only row lies off its only run, if by one; it may be this run's then."""
    one = next(_shown({"": attempts}, {"": rows}), None)
    if one is None or not one.offset or not _is_plausible(one) or abs(one.apart - one.offset) > TOLERANCE:
        return None
    return _in_words(one.offset)


def skew_s(attempts: Mapping[str, Sequence[Attempt]], matches: Mapping[int, Row]) -> float | None:
    """How far the run log's clock is ahead of the journal's, in seconds: the median over runs whose start is shown.

    A receipt is a start only where the worker had a process free; the smallest distances are the honest ones.
    """
    apart = sorted(
        matches[id(one.run)].started_at - one.start  # type: ignore[operator]
        for found in attempts.values()
        for one in found
        if id(one.run) in matches and matches[id(one.run)].started_at is not None
    )
    if not apart:
        return None
    low = apart[: max(1, len(apart) // 2)]
    return round(low[len(low) // 2] / SECOND, 3)


def _shown(attempts: Mapping[str, Sequence[Attempt]], rows_of: Mapping[str, Sequence[Row]]) -> Iterator[Shown]:
    """Compare the start of each id's only row with that of its only run; without a start, its failure with the end."""
    for task_id, rows in rows_of.items():
        runs = attempts.get(task_id, ())
        if len(rows) != 1 or len(runs) != 1:
            continue
        row, run = rows[0], runs[0]
        if row.started_at is not None:
            yield Shown(at=row.started_at, apart=row.started_at - run.start)
        elif row.finished_at is not None and row.state is State.FAILED and run.died:
            yield Shown(at=row.finished_at, apart=row.finished_at - run.until)


def _is_plausible(one: Shown) -> bool:
    return abs(one.offset) <= FARTHEST and abs(one.apart - one.offset) <= _SLOW


def _in_words(offset: Micros) -> str:
    hours, minutes = divmod(abs(offset) // (60 * SECOND), 60)
    return f"UTC{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"
