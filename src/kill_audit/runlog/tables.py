"""The tables of a database: what there is, which one is a run log, and what its columns are.

Rules of this file: only the catalogue is read here, never a row; but a query in the user's own words gives one,
because no catalogue knows its columns.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection
from sqlalchemy.engine.reflection import Inspector, ObjectKind
from sqlalchemy.types import TypeEngine

from kill_audit.database import Database
from kill_audit.errors import RunLogError
from kill_audit.runlog import columns, presets
from kill_audit.runlog.ids import kind_of

LISTED: Final = 30  # names printed in one error


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or view, or a query in the user's own words.

    `types`: the type of each column, in the table's order. `key`: the primary key. `unique`: the columns that have a
    unique constraint or index of their own. `never_null`: those that always hold a value. `leading`: the columns that
    an index of all rows begins with. `is_view`: no index can be put on it.
    """

    name: str
    schema: str | None = None
    query: str | None = None
    types: Mapping[str, TypeEngine[Any]]
    key: tuple[str, ...] = ()
    unique: frozenset[str] = frozenset()
    never_null: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()
    is_view: bool = False

    @property
    def shown(self) -> str:
        """Its name as the user writes it."""
        if self.query is not None:
            return "the query"
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @property
    def numbers(self) -> frozenset[str]:
        """The columns of whole numbers."""
        return _numbers(self.types)

    def from_clause(self) -> sa.FromClause:
        """Give what to select from; its columns have no type, so that the driver's values come as they are."""
        names: list[sa.ColumnClause[Any]] = [sa.column(name) for name in self.types]
        if self.query is not None:
            return _text(self.query).columns(*names).subquery("runs")
        return sa.table(self.name, *names, schema=self.schema)


def read_table(database: Database, name: str) -> Table:
    """Read what the catalogue says of one table or view; `SCHEMA.TABLE` names one outside the search path.

    Raises:
        RunLogError: it is not there; the tables there are listed.
    """
    schema, _, bare = name.rpartition(".")
    places = ((None, name), (schema, bare)) if schema else ((None, name),)

    def read(connection: Connection) -> Table | Sequence[str]:
        inspector = sa.inspect(connection)
        for place, table in places:
            if inspector.has_table(table, schema=place):
                return _describe(inspector, table, place)
        return sorted((*inspector.get_table_names(), *inspector.get_view_names()))

    found = database.run(read)
    if isinstance(found, Table):
        return found
    raise RunLogError(
        f"{database.shown} has no table {name!r}; it has {_listed(found)}", hint="name one with --run-log-table"
    )


def read_query(database: Database, query: str) -> Table:
    """Look what columns a query in the user's own words gives.

    Raises:
        RunLogError: the database does not accept it.
    """
    body = query.strip().rstrip(";").rstrip()
    first = sa.select(sa.text("*")).select_from(_text(body).columns().subquery("runs")).limit(1)

    def read(connection: Connection) -> tuple[list[str], Sequence[object]]:
        result = connection.execute(first)
        return list(result.keys()), tuple(result.first() or ())

    names, cells = database.run(read)
    values = [*cells, *[None] * (len(names) - len(cells))]
    types = {name: kind_of(value) for name, value in zip(names, values, strict=True)}
    return Table(name="runs", query=body, types=types, is_view=True)


def find_table(database: Database, given: Mapping[str, str] | None = None, *, results: bool = False) -> Table:
    """Find the one table whose columns say by their names that it is a run log.

    An app's own table goes before a table of Celery's results: the app's is the one that people look at.

    Args:
        database: where to look.
        given: the columns that the user named, field -> column.
        results: only a table of Celery's results will do.

    Raises:
        RunLogError: there is none, or there are several; they are listed with the columns that fit.
    """
    tables = database.run(lambda connection: _columns_of_all(sa.inspect(connection)))
    fits = {
        name: columns.find(tuple(types), given=_there(given, types), numbers=_numbers(types))
        for name, types in tables.items()
    }
    known = [name for name, types in tables.items() if presets.by_columns(types)]
    own = [name for name, found in fits.items() if columns.is_sure(found) and name not in known]
    candidates = known if results else own or known
    what, option = ("result table of Celery", "--results-table") if results else ("run log", "--run-log-table")
    if len(candidates) == 1:
        return read_table(database, candidates[0])
    if not candidates:
        raise RunLogError(
            f"no table of {database.shown} looks like a {what}; it has {_listed(sorted(tables))}",
            hint=f"name it with {option}, and its columns in the configuration",
        )
    listed = "; ".join(f"{name} ({', '.join(fits[name].values())})" for name in candidates[:LISTED])
    raise RunLogError(
        f"{len(candidates)} tables of {database.shown} look like a {what}: {listed}",
        hint=f"name one: {option} {candidates[0]}",
    )


def _describe(inspector: Inspector, name: str, schema: str | None) -> Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exc.SAWarning)  # a type that SQLAlchemy does not know is read all the same
        described = inspector.get_columns(name, schema=schema)
        key = tuple(inspector.get_pk_constraint(name, schema=schema)["constrained_columns"])
        # SQLite makes an index for each UNIQUE of a column; SQLAlchemy's own reading of the DDL misses some of these.
        automatic = {"include_auto_indexes": True} if inspector.dialect.name == "sqlite" else {}
        found = inspector.get_indexes(name, schema=schema, **automatic)
        indexes = [index for index in found if not _is_partial(index)]
        constraints = inspector.get_unique_constraints(name, schema=schema)
    uniques: list[tuple[str | None, ...]] = [key, *(tuple(constraint["column_names"]) for constraint in constraints)]
    uniques += [tuple(index["column_names"]) for index in indexes if index["unique"]]
    ordered = [*uniques, *(tuple(index["column_names"]) for index in indexes)]
    return Table(
        name=name,
        schema=schema,
        types={column["name"]: column["type"] for column in described},
        key=key,
        never_null=frozenset(column["name"] for column in described if not column["nullable"]),
        # An index on an expression has None in the place of a column.
        unique=frozenset(names[0] for names in uniques if len(names) == 1 and names[0] is not None),
        leading=frozenset(names[0] for names in ordered if names and names[0] is not None),
        is_view=name in inspector.get_view_names(schema=schema),
    )


def _is_partial(index: Mapping[str, Any]) -> bool:
    """Whether an index covers only the rows of a WHERE clause."""
    return any(str(option).endswith("_where") for option in index.get("dialect_options", {}))


def _columns_of_all(inspector: Inspector) -> dict[str, dict[str, TypeEngine[Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exc.SAWarning)
        found = inspector.get_multi_columns(kind=ObjectKind.ANY)
    return {
        name: {column["name"]: column["type"] for column in described}
        for (_schema, name), described in sorted(found.items())
    }


def _numbers(types: Mapping[str, TypeEngine[Any]]) -> frozenset[str]:
    return frozenset(name for name, kind in types.items() if isinstance(kind, sa.Integer))


def _there(given: Mapping[str, str] | None, names: Collection[str]) -> dict[str, str]:
    return {name: column for name, column in (given or {}).items() if column in names}


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no tables at all"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _text(query: str) -> sa.TextClause:
    r"""Take a query as it stands: `\:` keeps SQLAlchemy from seeing parameters, the line end closes a `--` comment."""
    return sa.text(query.replace(":", "\\:") + "\n")
