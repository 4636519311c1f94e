"""Where the ledger lies, and an engine to read or write it.

Rules of this file: no table is known here. A SQLite ledger is one file that only its owner may read, made before
SQLite opens it, so that it is never open to others for a moment.

SQLite keeps its usual rollback journal here and not a write-ahead log. A transaction of the ledger takes milliseconds
once an hour, so that readers and the writer hardly meet, and then wait for each other (`BUSY_S`). In return there is
nothing beside the file while it is at rest, it may lie on any file system that has locks, and whoever may only read it
can read it (https://www.sqlite.org/wal.html, "Overview").
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import NullPool

from kill_audit import database, places
from kill_audit.errors import RunLogError
from kill_audit.ledger.failures import LedgerError

BUSY_S: Final = 30
CONNECT_S: Final = 10


def state_directory(environ: Mapping[str, str], *, root: bool | None = None) -> Path:
    """Name the folder of what is kept between runs (see `places`).

    Args:
        environ: the environment.
        root: whether the user is root; None looks.

    Raises:
        LedgerError: the user has no home.
    """
    found = places.state_directory(environ, root=root)
    if found is None:
        raise LedgerError(
            "this user has no home directory to keep the ledger in",
            hint="set STATE_DIRECTORY, or name a place with --ledger",
        )
    return found


def usual_place(environ: Mapping[str, str]) -> Path:
    """Name the SQLite file that is the ledger when none is named."""
    return state_directory(environ) / places.LEDGER


def locate(text: str | None, environ: Mapping[str, str]) -> URL:
    """Make the URL of what the user wrote: a URL, `@FILE` with a URL in it, a path, or None for the usual place.

    Raises:
        LedgerError: it is no URL, or a file with a secret cannot be read.
    """
    if text is None:
        return database.sqlite_url(usual_place(environ))
    if "://" not in text and not text.startswith("@"):
        return database.sqlite_url(Path(text).expanduser().absolute())
    try:
        return database.locate(text, purpose="ledger", environ=environ)
    except RunLogError as error:
        raise LedgerError(error.message, hint=error.hint) from None


def file_of(url: URL) -> Path | None:
    """Name the file of a SQLite ledger; None for a server."""
    if url.get_backend_name() != "sqlite":
        return None
    name = (url.database or "").removeprefix("file:")
    if not name or name == ":memory:":
        raise LedgerError("a ledger in memory keeps nothing", hint="write --ledger FILE, or a URL of a database")
    return Path(name).expanduser().absolute()


def is_there(path: Path) -> bool:
    """Whether there is a file to read.

    Raises:
        LedgerError: it lies in a folder that this user may not look into, as that of a service is.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise LedgerError(
            f"cannot read the ledger {path}: {error.strerror}",
            hint="read it as the user who collects (or as root), or go without by --no-ledger",
        ) from None


def engine_for(url: URL, *, writing: bool) -> Engine:
    """Make an engine whose transactions read, or read and write.

    Raises:
        LedgerError: the file cannot be made, or the driver is not installed.
    """
    path = file_of(url)
    if path is not None:
        return _sqlite(path, writing=writing)
    try:
        return sa.create_engine(
            url,
            poolclass=NullPool,
            connect_args={} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_S},
        )
    except ModuleNotFoundError as error:
        extra = "postgres" if url.get_backend_name() == "postgresql" else "mysql"
        raise LedgerError(
            f"{database.hidden(url)} needs {error.name}, which is not installed",
            hint=f"pip install 'kill-audit[{extra}]'",
        ) from None


def _sqlite(path: Path, *, writing: bool) -> Engine:
    if writing:
        _make_file(path)
    # What a writer left behind when it was killed is undone by whoever opens the file next, and that takes the right
    # to write; so only those who lack it open the file for reading alone.
    mode = "rw" if writing or os.access(path, os.W_OK) else "ro"
    engine = sa.create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": mode, "uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_S},
    )

    def plain(connection: DBAPIConnection, _record: object) -> None:
        # So that the driver begins no transaction by itself, and only before the first statement that writes.
        connection.isolation_level = None

    def begin(connection: Connection) -> None:
        # IMMEDIATE: what is read at the beginning must still hold when it is written at the end.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    sa.event.listen(engine, "connect", plain)
    sa.event.listen(engine, "begin", begin)
    return engine


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LedgerError(
            f"cannot write the ledger {path}: {error.strerror}",
            hint="name a place that you may write to: --ledger FILE",
        ) from None
    if os.geteuid() == 0:
        # Root's hand in the folder of a service must not take the file away from it.
        owner = path.parent.stat()
        if path.stat().st_uid != owner.st_uid and path.stat().st_size == 0:
            os.chown(path, owner.st_uid, owner.st_gid)
