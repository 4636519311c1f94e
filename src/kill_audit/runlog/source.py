"""Reading a table: streamed, in few and narrow statements, and never the whole of a big one.

Rules of this file: a table of more rows than `SCAN_AT_MOST` is read only by an index. Whether one serves is asked of
the server's own plan (EXPLAIN), because only the server knows what a view, a query or a partial index is made of.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Connection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement, Executable
from sqlalchemy.sql.compiler import SQLCompiler

from kill_audit.database import Database
from kill_audit.errors import RunLogError
from kill_audit.runlog.ids import IdColumn
from kill_audit.runlog.tables import Table

SCAN_AT_MOST: Final = 2_000_000  # rows that any server reads in a few seconds
COST_OF_A_ROW: Final = 0.01  # PostgreSQL's cpu_tuple_cost, at least, for each row of a sequential scan
IDS_AT_ONCE: Final = 500  # SQLite takes 999 parameters up to 3.32 (https://www.sqlite.org/limits.html)


class Explain(Executable, ClauseElement):
    """A statement put before its plan."""

    inherit_cache = False

    def __init__(self, statement: sa.Select[Any]) -> None:
        self.statement = statement


@compiles(Explain)
def _explain(element: Explain, compiler: SQLCompiler, **options: Any) -> str:
    words = {"postgresql": "EXPLAIN (FORMAT JSON)", "sqlite": "EXPLAIN QUERY PLAN"}.get(
        compiler.dialect.name, "EXPLAIN"
    )
    return f"{words} {compiler.process(element.statement, **options)}"


class Source:
    """A table of a database, to be read.

    Args:
        database: where it is.
        table: what the catalogue says of it.
        scan_at_most: rows up to which a statement may read the whole table.
    """

    def __init__(self, database: Database, table: Table, *, scan_at_most: int = SCAN_AT_MOST) -> None:
        self.database = database
        self.table = table
        self.scan_at_most = scan_at_most
        self._from = table.from_clause()

    def column(self, name: str) -> sa.ColumnElement[Any]:
        """Give a column, without a type."""
        return self._from.c[name]

    @cached_property
    def rows(self) -> int:
        """How many rows there are: counted up to `scan_at_most`, beyond that the server's estimate."""
        return self.database.run(self._count)

    @property
    def is_big(self) -> bool:
        """Whether the table must not be read as a whole."""
        return self.rows > self.scan_at_most

    def stream(
        self,
        names: Sequence[str],
        conditions: Iterable[sa.ColumnElement[bool]],
        *,
        cut: Mapping[str, int] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Read these columns of the rows that meet a condition, one statement for each condition.

        Args:
            names: the columns.
            conditions: see above; no row may meet two of them.
            cut: of these columns only so many bytes or characters are read.
        """
        return self._stream(names, (self._select(names, cut).where(condition) for condition in conditions))

    def with_ids(self, name: str, ids: Collection[str]) -> Iterator[sa.ColumnElement[bool]]:
        """Give conditions that together select the rows whose column `name` holds one of these ids."""
        translate = IdColumn(self.table.types[name])
        forms = iter(sorted({form for task_id in ids for form in translate.forms(task_id)}, key=str))
        while batch := list(islice(forms, IDS_AT_ONCE)):
            yield self.column(name).in_(batch)

    def refuse_scan(self, condition: sa.ColumnElement[bool], *, what: str, index: str) -> None:
        """Make sure that rows can be read without reading the whole of a big table.

        Args:
            condition: of the rows wanted.
            what: the rows, in words.
            index: the column that an index should begin with.

        Raises:
            RunLogError: the table is big and no index serves; the hint makes one.
        """
        if not self.is_big or index in self.table.leading or not self._scans(condition):
            return
        raise RunLogError(
            f"{self.table.shown} has about {self.rows:,} rows and no index to find {what} by",
            hint=self.create_index(index),
        )

    def create_index(self, column: str) -> str:
        """Write the statement that makes an index on a column, without locking out writers where that can be done."""
        if self.table.is_view:
            return f"put an index below {self.table.shown}, on what it shows as {column}"
        concurrently = "CONCURRENTLY " if self.database.kind == "postgresql" else ""
        quoted = self.database.quoted
        place = ".".join(quoted(part) for part in (self.table.schema, self.table.name) if part)
        return f"CREATE INDEX {concurrently}{quoted(f'{self.table.name}_{column}')} ON {place} ({quoted(column)});"

    def least(self, name: str) -> object:
        """Give the least value of a column; None if there is none, or if a big table has no index that gives it."""
        column = self.column(name)
        if self.is_big and name not in self.table.leading:
            return None
        condition = sa.func.isfinite(column) if self._may_be_infinite(name) else column.is_not(None)
        cell = self.database.run(lambda c: c.execute(sa.select(sa.func.min(column)).where(condition)).scalar())
        return self._zoned(name, cell)

    def any_value(self, name: str) -> object:
        """Give a value of a column, to see of which kind it is; None if there is none."""
        statement = sa.select(self._cell(name)).where(self.column(name).is_not(None)).limit(1)
        return self.database.run(lambda connection: connection.execute(statement).scalar())

    @property
    def is_numbered(self) -> bool:
        """Whether the primary key is one whole number, which grows as rows are inserted."""
        return len(self.table.key) == 1 and self.table.numbers.issuperset(self.table.key)

    def some(self, names: Sequence[str], count: int, *, latest: bool) -> Iterator[dict[str, Any]]:
        """Read a few rows: the first or the latest by a numbered key, else any."""
        order = []
        if self.is_numbered:
            key = self.column(self.table.key[0])
            order = [key.desc() if latest else key]
        yield from self._stream(names, [self._select(names).order_by(*order).limit(count)])

    def _select(self, names: Sequence[str], cut: Mapping[str, int] | None = None) -> sa.Select[Any]:
        return sa.select(*(self._cell(name, (cut or {}).get(name)) for name in names))

    def _stream(self, names: Sequence[str], statements: Iterable[sa.Select[Any]]) -> Iterator[dict[str, Any]]:
        for found in self.database.stream(statements):
            yield {name: self._zoned(name, cell) for name, cell in zip(names, found, strict=True)}

    def _zoned(self, name: str, cell: Any) -> Any:
        """Add its zone to a TIMESTAMP of MySQL: a moment, which the session's zone lets come as UTC."""
        if isinstance(cell, dt.datetime) and isinstance(self.table.types[name], mysql.TIMESTAMP):
            return cell.replace(tzinfo=dt.UTC)
        return cell

    def _cell(self, name: str, cut: int | None = None) -> sa.ColumnElement[Any]:
        if cut is not None:
            return sa.func.substr(self.column(name), 1, cut)
        if self._may_be_infinite(name):
            return sa.case((sa.func.isfinite(self.column(name)), self.column(name)))
        return self.column(name)

    def _may_be_infinite(self, name: str) -> bool:
        """Whether a time may be `infinity`, which PostgreSQL knows and Python does not."""
        return self.database.kind == "postgresql" and isinstance(self.table.types[name], (sa.DateTime, sa.Date))

    def _count(self, connection: Connection) -> int:
        estimate = self._estimate(connection)
        if estimate > self.scan_at_most:
            return estimate
        some = sa.select(sa.literal(1)).select_from(self._from).limit(self.scan_at_most + 1).subquery()
        return connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()

    def _estimate(self, connection: Connection) -> int:
        """Ask the server how many rows it believes there are; 0 if it does not know."""
        if self.table.query is not None or self.database.kind == "sqlite":
            return 0
        if self.database.kind == "postgresql":
            statement = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(:place)"
        else:
            statement = (
                "SELECT table_rows FROM information_schema.tables"
                " WHERE table_schema = coalesce(:schema, database()) AND table_name = :name"
            )
        quoted = self.database.quoted
        place = ".".join(quoted(part) for part in (self.table.schema, self.table.name) if part)
        values = {"place": place, "schema": self.table.schema, "name": self.table.name}
        wanted = {name: value for name, value in values.items() if f":{name}" in statement}
        return int(connection.execute(sa.text(statement), wanted).scalar() or 0)

    def _scans(self, condition: sa.ColumnElement[bool]) -> bool:
        """Ask the server whether it would read more than `scan_at_most` rows from begin to end."""
        statement = Explain(sa.select(sa.literal(1)).select_from(self._from).where(condition))

        def read(connection: Connection) -> list[dict[str, Any]]:
            # The driver's own rows, for SQLAlchemy would take the plan's columns for those of the statement.
            cursor = connection.execute(statement).cursor
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, step, strict=True)) for step in cursor.fetchall()]

        plan = self.database.run(read)
        match self.database.kind:
            case "postgresql":
                return _cost_of_scans(plan[0]["QUERY PLAN"][0]["Plan"]) > COST_OF_A_ROW * self.scan_at_most
            case "sqlite":  # https://www.sqlite.org/eqp.html
                return any(step["detail"].startswith("SCAN") for step in plan)
            case _:  # https://mariadb.com/kb/en/explain/
                whole = [int(step["rows"] or 0) for step in plan if step["type"] in {"ALL", "index"}]
                return sum(whole) > self.scan_at_most


def _cost_of_scans(node: Mapping[str, Any]) -> float:
    """Add up what a plan of PostgreSQL spends on reading tables from begin to end."""
    own = node["Total Cost"] if node["Node Type"] == "Seq Scan" else 0.0
    return float(own) + sum(map(_cost_of_scans, node.get("Plans", ())))
