"""Counts the runs of an id that finished in a span of time."""

from collections.abc import Iterator

from kill_audit.entry import Micros
from kill_audit.reconcile import Row, State


class DoneTwice:
    """Collects done rows, and gives the ids that have more than one.

    Args:
        since: the begin of the span, in it.
        until: its end, not in it; both in microseconds since the epoch, UTC.
        by_end: whether a row counts by its finish; else, where there is no such column, by its start.
    """

    def __init__(self, since: Micros, until: Micros, *, by_end: bool) -> None:
        self._since = since
        self._until = until
        self._by_end = by_end
        self._done: dict[str, tuple[str | None, int]] = {}

    def add(self, row: Row) -> None:
        """Count a row."""
        moment = row.finished_at if self._by_end else row.started_at
        if row.task_id is None or row.state is not State.DONE or moment is None:
            return
        if self._since <= moment < self._until:
            name, count = self._done.get(row.task_id, (None, 0))
            self._done[row.task_id] = name or row.task_name, count + 1

    def found(self) -> Iterator[tuple[str, str | None, int]]:
        """Give id, task name and number of done rows of each id that has more than one, in the order of the ids."""
        return ((task_id, *told) for task_id, told in sorted(self._done.items()) if told[1] > 1)
