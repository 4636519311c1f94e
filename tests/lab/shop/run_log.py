"""The shop's run log in two designs, as real apps have them, each in SQLite and (if asked for) in PostgreSQL.

`run_log_start`: one row a run, inserted as `running` when the task begins, updated when it ends.
`run_log_end`: one row a run, inserted when it ends; a killed run leaves no row at all.
SQLite holds naive UTC text, PostgreSQL `timestamptz`.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime, timezone
from typing import Any, Sequence

SQLITE = os.environ.get("SHOP_SQLITE", "/srv/shop/runlog.sqlite3")
POSTGRES = os.environ.get("SHOP_POSTGRES", "")

COLUMNS = "task_id text, task_name text, queue text, started_at {time}, finished_at {time}, status text"
TABLES = ("run_log_end", "run_log_start")


class Store:
    """One database that holds both tables. Connections are short: children must not share one over a fork."""

    def __init__(self, kind: str, target: str) -> None:
        self.kind = kind
        self.target = target

    def execute(self, sql: str, values: Sequence[object] = (), *, fetch: bool = False) -> int | None:
        """Run one statement with `?` for values, commit it, and return the first value of the first row if `fetch`."""
        connection = self._connect()
        try:
            cursor = connection.cursor()
            cursor.execute(sql if self.kind == "sqlite" else sql.replace("?", "%s"), tuple(values))
            found = cursor.fetchone()[0] if fetch else None
            connection.commit()
        finally:
            connection.close()
        return found

    def create(self) -> None:
        """Create both tables where they are missing."""
        key, time = ("integer primary key", "text") if self.kind == "sqlite" else ("serial primary key", "timestamptz")
        for table in TABLES:
            columns = COLUMNS.format(time=time)
            self.execute(f"create table if not exists {table} (id {key}, {columns})")

    def moment(self, when: datetime) -> object:
        """Return the time as this database keeps it."""
        return when.replace(tzinfo=None).isoformat(" ") if self.kind == "sqlite" else when

    def _connect(self) -> Any:
        if self.kind == "sqlite":
            return sqlite3.connect(self.target, timeout=30)
        import psycopg

        return psycopg.connect(self.target)


STORES = (Store("sqlite", SQLITE),) + ((Store("postgres", POSTGRES),) if POSTGRES else ())


class Run:
    """The rows of one run of a task."""

    def __init__(self, task_id: str, task_name: str, queue: str) -> None:
        self.facts = (task_id, task_name, queue)
        self.started = datetime.now(timezone.utc)
        self.keys: dict[str, int | None] = {}

    def begin(self) -> None:
        """Insert the row of the design that knows of a run from its start."""
        insert = (
            "insert into run_log_start (task_id, task_name, queue, started_at, status) "
            "values (?, ?, ?, ?, 'running') returning id"
        )
        for store in STORES:
            self.keys[store.kind] = store.execute(insert, (*self.facts, store.moment(self.started)), fetch=True)

    def finish(self, status: str) -> None:
        """Write the end in both designs."""
        insert = (
            "insert into run_log_end (task_id, task_name, queue, started_at, finished_at, status) "
            "values (?, ?, ?, ?, ?, ?)"
        )
        update = "update run_log_start set finished_at = ?, status = ? where id = ?"
        finished = datetime.now(timezone.utc)
        statements: list[tuple[Store, str, tuple[object, ...]]] = []
        for store in STORES:
            start, end = store.moment(self.started), store.moment(finished)
            statements.append((store, insert, (*self.facts, start, end, status)))
            statements.append((store, update, (end, status, self.keys[store.kind])))
        for store, sql, values in statements:
            store.execute(sql, values)


def create() -> None:
    """Create the tables in every store."""
    for store in STORES:
        store.create()
