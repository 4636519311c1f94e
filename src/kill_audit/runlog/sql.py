"""A run log in a database: a few narrow SELECTs, streamed.

Rules of this file: cells come raw from the driver, because the types of SQLAlchemy refuse what other programs wrote
(a DATETIME of SQLite may be any text); `cells` reads them. The database narrows, Python decides, because letter case,
collations and zones differ between servers.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa

from kill_audit.document import RunLogFacts
from kill_audit.entry import Micros
from kill_audit.errors import RunLogError
from kill_audit.reconcile import Row, State
from kill_audit.runlog.cells import CellReader, text
from kill_audit.runlog.columns import FIELDS, Columns
from kill_audit.runlog.conditions import has_word, within
from kill_audit.runlog.duplicates import DoneTwice
from kill_audit.runlog.ids import IdColumn
from kill_audit.runlog.presets import Preset
from kill_audit.runlog.results import SqlResults
from kill_audit.runlog.source import Source

LONGEST_RUN: Final = 7 * 86_400_000_000  # microseconds: what finished in a window began at most so long before it
WORDS_READ: Final = 1000  # a status column with more different words is none


class SqlRunLog:
    """The rows of one table (`reconcile.RunLog`).

    Args:
        source: the table.
        columns: which of its columns hold what.
        reader: reads the cells.
        preset: the preset in use.
        time_zone: the name of the zone of `reader`, where the user gave one.
    """

    def __init__(
        self,
        source: Source,
        *,
        columns: Columns,
        reader: CellReader,
        preset: Preset | None = None,
        time_zone: str | None = None,
    ) -> None:
        self._source = source
        self._columns = columns
        self._reader = reader
        self._preset = preset
        self._time_zone = time_zone

    @property
    def facts(self) -> RunLogFacts:
        """Kind, table, preset, number of rows (of a big table an estimate; None if the server died), time zone."""
        try:
            rows = self._source.rows
        except RunLogError:  # which the questions have told
            rows = None
        return RunLogFacts(
            kind=self._source.database.kind,
            table=self._source.table.shown,
            preset=None if self._preset is None else self._preset.name,
            rows=rows,
            time_zone=self._time_zone or "UTC",
            skew_s=None,
        )

    @property
    def one_row_per_id(self) -> bool:
        """Whether a unique constraint or index stands on the id alone."""
        return self._columns.task_id in self._source.table.unique

    @property
    def knows_its_zone(self) -> bool:
        """Whether all times read so far carry their zone, or the user gave it."""
        return self._time_zone is not None or not self.zoneless_times

    @property
    def results(self) -> SqlResults | None:
        """The same table as a source of stored results, where it is Celery's own."""
        if self._preset is None:
            return None
        reader = CellReader(words=self._reader.words, zone=self._reader.zone)
        given = self._time_zone is not None
        return SqlResults(self._source, preset=self._preset, reader=reader, zone_given=given)

    @property
    def unknown_states(self) -> tuple[str, ...]:
        """Status words that mean nothing here, and whose rows are OTHER; of a big table those met so far."""
        for word in self._words or ():
            self._reader.words.state(word, finished=False)
        return self._reader.words.unknown

    @property
    def states(self) -> tuple[tuple[str, State], ...]:
        """The status words of the table and what they mean; of a big table none."""
        words = self._reader.words
        return tuple((word, words.state(word, finished=True)) for word in sorted(self._words or ()))

    @property
    def unread_times(self) -> int:
        """How many times could not be read so far; they count as not there."""
        return self._reader.unread_times

    @property
    def zoneless_times(self) -> int:
        """How many of the times read so far carry no zone."""
        return self._reader.zoneless_times

    def rows_of(self, task_ids: Collection[str]) -> Iterator[Row]:
        """All rows of these ids.

        Raises:
            RunLogError: the table is big and has no index on the id, or the database fails; so for all that follow.
        """
        wanted, column = frozenset(task_ids), self._columns.task_id
        if column is None:
            return
        for condition in self._source.with_ids(column, wanted):
            self._source.refuse_scan(condition, what="the rows of a task id", index=column)
            break
        rows = self._rows(self._source.with_ids(column, wanted))
        yield from (row for row in rows if row.task_id in wanted)

    def rows_without_id(self, task_names: Collection[str], since: Micros, until: Micros) -> Iterator[Row]:
        """Rows that hold no id, of tasks of these names, from the days around [since, until)."""
        task_id, name, started = self._columns.task_id, self._columns.task_name, self._columns.started_at
        if name is None or started is None or task_id in self._source.table.never_null:
            return
        condition = sa.and_(
            self._source.column(name).in_(sorted(task_names)),
            *within(self._source.column(started), self._source.any_value(started), since, until),
        )
        if task_id is not None:
            condition = sa.and_(self._source.column(task_id).is_(None), condition)
        self._source.refuse_scan(condition, what="the rows without an id", index=task_id or started)
        yield from (row for row in self._rows([condition]) if row.task_id is None and row.task_name in task_names)

    def open_rows(self, since: Micros | None = None) -> Iterator[Row]:
        """All rows that are still open; of a big table those that an index gives.

        By an index on the status that is all of them; by one on the finish time, those that have none; by one on the
        start, those that started `since`.
        """
        column, narrower = self._narrowed(since)
        condition = sa.and_(self._has_state(State.OPEN), *narrower)
        self._source.refuse_scan(condition, what="the rows still open", index=column)
        rows = self._rows([condition])
        yield from (row for row in rows if row.state is State.OPEN)

    def finished_twice(self, since: Micros, until: Micros) -> Iterator[tuple[str, str | None, int]]:
        """Ids with more than one done row that finished in [since, until): id, task name, number of done rows."""
        if self.one_row_per_id:
            return
        done = DoneTwice(since, until, by_end=self._columns.finished_at is not None)
        for row in self.rows_of(self._often_done(since, until)):
            done.add(row)
        yield from done.found()

    def oldest(self) -> Micros | None:
        """The oldest moment any row tells of; None for an empty table."""
        times = [name for name in (self._columns.started_at, self._columns.finished_at) if name]
        if self._source.is_big and not self._source.table.leading.intersection(times):
            rows: Iterable[Row] = self._first_row(times)
            return min(_moments(rows), default=None)
        return min((moment for name in times if (moment := self._least(name)) is not None), default=None)

    def sample(self, count: int) -> tuple[Row, ...]:
        """Give a few rows, the latest where the primary key is a number, to show how they are read."""
        return tuple(self._read(cells) for cells in self._source.some(self._columns.named, count, latest=True))

    def _least(self, name: str) -> Micros | None:
        cell = self._source.least(name)
        moment = self._reader.moment(cell)
        if cell is not None and moment is None and not self._source.is_big:
            moment = min(_moments(self._rows([sa.true()])), default=None)  # the least text of the column is no time
        return moment

    def _first_row(self, times: Sequence[str]) -> Iterator[Row]:
        """Give the row that was inserted first, as far as a numbered key shows it."""
        if not self._source.is_numbered:
            self._source.refuse_scan(self._source.column(times[0]).is_not(None), what="the oldest row", index=times[0])
        return map(self._read, self._source.some(self._columns.named, 1, latest=False))

    def _rows(self, conditions: Iterable[sa.ColumnElement[bool]]) -> Iterator[Row]:
        return map(self._read, self._source.stream(self._columns.named, conditions))

    def _read(self, found: dict[str, Any]) -> Row:
        cells = {name: found[column] for name in FIELDS if (column := getattr(self._columns, name)) is not None}
        # Without a primary key a row is known by what it says.
        key = [found[name] for name in self._columns.key] or [*cells.values()]
        if "task_id" in cells:
            cells["task_id"] = self._ids.text(cells["task_id"])
        return self._reader.row(cells, key=",".join(map(str, key)))

    @cached_property
    def _ids(self) -> IdColumn:
        return IdColumn(self._source.table.types[self._columns.task_id or ""])

    def _has_state(self, state: State) -> sa.ColumnElement[bool]:
        """Narrow to the rows whose status means `state`; rows without a status may be open, or done."""
        if self._columns.status is None:
            ended = self._source.column(self._columns.finished_at or "").is_not(None)
            return ended if state is State.DONE else ~ended
        words = self._reader.words
        spelled = words.meaning(state) if self._words is None else words.which_mean(state, self._words)
        kind = self._source.table.types[self._columns.status]
        return has_word(self._source.column(self._columns.status), kind, spelled, or_none=True)

    def _narrowed(self, since: Micros | None) -> tuple[str, Iterable[sa.ColumnElement[bool]]]:
        """Give the column by whose index open rows of a big table are found, and what must be added for that.

        Where none serves, it is the column that an index is missing on: of the finish, which serves the other question
        too, unless open rows have one; else the status.
        """
        status, finished, started = self._columns.status, self._columns.finished_at, self._columns.started_at
        if self._preset is not None and self._preset.open_has_finish:
            finished = None
        indexed = self._source.table.leading
        wanted = finished or status or ""
        if not self._source.is_big:
            return wanted, ()
        if status in indexed:
            return status, ()
        if finished in indexed:
            return finished, (self._source.column(finished).is_(None),)
        if started in indexed and since is not None:
            return started, within(self._source.column(started), self._source.any_value(started), since)
        return wanted, ()

    @cached_property
    def _words(self) -> Sequence[str] | None:
        """The status words that the table has; None where it is too big to look."""
        if self._columns.status is None or self._source.is_big:
            return None
        status = sa.cast(self._source.column(self._columns.status), sa.String)
        statement = sa.select(status).distinct().where(status.is_not(None)).limit(WORDS_READ)
        cells = self._source.database.run(lambda connection: connection.execute(statement).scalars().all())
        return [word for cell in cells if (word := text(cell)) is not None]

    def _often_done(self, since: Micros, until: Micros) -> list[str]:
        """Ids with several done rows in a span at least as wide as asked for."""
        if self._columns.task_id is None:
            return []
        task_id = self._source.column(self._columns.task_id)
        time = self._columns.finished_at or self._columns.started_at or ""
        bounds = [*within(self._source.column(time), self._source.any_value(time), since, until)]
        started = self._columns.started_at
        if self._source.is_big and time not in self._source.table.leading and started in self._source.table.leading:
            begun = since - LONGEST_RUN
            bounds += within(self._source.column(started), self._source.any_value(started), begun, until)
            time = started
        condition = sa.and_(task_id.is_not(None), self._has_state(State.DONE), *bounds)
        self._source.refuse_scan(condition, what="the ids that finished more than once", index=time)
        if not self._source.is_big and self._columns.task_id in self._source.table.leading:
            # Its index alone tells the few ids that have several rows at all; without, each row is looked up.
            several = sa.select(task_id).group_by(task_id).having(sa.func.count() > 1)
            condition = sa.and_(task_id.in_(several), condition)
        often = sa.select(task_id).where(condition).group_by(task_id).having(sa.func.count() > 1)
        cells = self._source.database.run(lambda connection: connection.execute(often).scalars().all())
        return [found for cell in cells if (found := self._ids.text(cell)) is not None]


def _moments(rows: Iterable[Row]) -> Iterator[Micros]:
    for row in rows:
        yield from (moment for moment in (row.started_at, row.finished_at) if moment is not None)
