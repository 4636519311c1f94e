"""The ledger's tables, and how a ledger of an earlier version becomes one of this.

Rules of this file: a step, once released, is never changed; whatever the tables need to become is another step. What
`TABLES` says is what all steps together make, and a test compares the two. All names begin with `kill_audit_`, because
the URL may name the application's own database. Times are microseconds since the epoch, UTC.
"""

from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Connection

from kill_audit.ledger.failures import LedgerError

TABLES: Final = sa.MetaData()
_LONG: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

VERSION: Final = sa.Table("kill_audit_version", TABLES, sa.Column("version", sa.Integer, nullable=False))

BOOK: Final = sa.Table(
    "kill_audit_book",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("scope", sa.String(64), nullable=False, unique=True),
    sa.Column("sources", _LONG, nullable=False),
    sa.Column("units", _LONG, nullable=False),
    sa.Column("position", sa.BigInteger),
)
"""What is watched: `scope` is the hash of `sources` and `units`; `position` is until when it has been read."""

FINDING: Final = sa.Table(
    "kill_audit_finding",
    TABLES,
    sa.Column("book", sa.Integer, sa.ForeignKey(BOOK.c.id), primary_key=True),
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("judged_at", sa.BigInteger, nullable=False),
    sa.Column("reach", sa.BigInteger),
    sa.Column("host", _LONG),
    sa.Column("unit", _LONG),
    sa.Column("task_name", _LONG),
    sa.Column("task_id", _LONG),
    sa.Column("cause", _LONG),
    sa.Column("fate", _LONG),
    sa.Column("verdict", _LONG),
    sa.Column("body", _LONG, nullable=False),
    sa.Index("kill_audit_finding_at", "book", "at"),
)
"""Kills and whatever else a document finds: `body` is its part of the document as JSON, the columns are for SQL."""

SEEN: Final = sa.Table(
    "kill_audit_seen",
    TABLES,
    sa.Column("book", sa.Integer, sa.ForeignKey(BOOK.c.id), primary_key=True),
    sa.Column("since", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("until", sa.BigInteger, nullable=False),
)
"""The spans that evidence reached over when it was read; they neither overlap nor touch."""

PROBLEM: Final = sa.Table(
    "kill_audit_problem",
    TABLES,
    sa.Column("book", sa.Integer, sa.ForeignKey(BOOK.c.id), primary_key=True),
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
    sa.Column("body", _LONG, nullable=False),
    sa.Index("kill_audit_problem_since", "book", "since"),
)
"""What was wrong with the evidence where it was read, once each; `body` is the problem as the document has it."""


def _first(connection: Connection) -> None:
    TABLES.create_all(connection, tables=[BOOK, FINDING, SEEN, PROBLEM])


Step = Callable[[Connection], None]
STEPS: Final[Sequence[Step]] = (_first,)
"""The step at place N makes version N + 1 of version N; version 0 is an empty database."""


def version_of(connection: Connection) -> int:
    """Tell the version of the ledger in a database; 0 if there is none."""
    if not sa.inspect(connection).has_table(VERSION.name):
        return 0
    return connection.execute(sa.select(VERSION.c.version)).scalar_one_or_none() or 0


def migrate(connection: Connection, steps: Sequence[Step] = STEPS) -> None:
    """Bring the ledger to the version of this program, in the caller's transaction.

    SQLite and PostgreSQL undo a step that fails; MySQL commits at each CREATE and ALTER, so that a step there must be
    one that can be begun again (MySQL 8.4 manual, 15.3.3 "Statements That Cause an Implicit Commit").

    Raises:
        LedgerError: the ledger is of a later version than this program.
    """
    version = version_of(connection)
    refuse_later(version, steps)
    if version == len(steps):
        return
    VERSION.create(connection, checkfirst=True)
    for step in steps[version:]:
        step(connection)
    connection.execute(sa.delete(VERSION))
    connection.execute(sa.insert(VERSION).values(version=len(steps)))


def refuse_later(version: int, steps: Sequence[Step] = STEPS) -> None:
    """Refuse a ledger whose version this program does not know.

    Raises:
        LedgerError: it is of a later version.
    """
    if version > len(steps):
        raise LedgerError(
            f"the ledger is of version {version}, and this kill-audit knows none after {len(steps)}",
            hint="a newer kill-audit wrote it: upgrade this one, or name another place with --ledger",
        )
