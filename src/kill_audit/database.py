"""From a URL to a database that is only read: credentials, drivers, read-only transactions, and errors of one line.

Rules of this file: no table and no column is known here. Every question is asked in a short read-only transaction of
its own, because a snapshot held for the length of a report would keep a busy server from cleaning up (PostgreSQL
manual, "Routine Vacuuming"). An exception of a driver never leaves this file: its frames hold the password.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import NullPool

from kill_audit.errors import RunLogError, RunLogGoneError

STATEMENT_TIMEOUT_S: Final = 60
CONNECT_TIMEOUT_S: Final = 10
STREAM_ROWS: Final = 1000  # rows held at a time by a streaming read

SQLITE_MAGIC: Final = b"SQLite format 3\x00"  # https://www.sqlite.org/fileformat.html, section 1.3
_WAL_FORMAT: Final = b"\x02"  # the read version of a database in WAL mode, byte 19 (same page, section 1.3.3)

# The dialect's name as apps write it (Heroku writes `postgres`) -> the dialect and driver used here. A driver named in
# a URL that was copied from an app is replaced: only these are in the extras.
_DRIVERS: Final = {
    "sqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgis": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_EXTRAS: Final = {"psycopg": "postgres", "pymysql": "mysql"}
_URL_FORMS: Final = "sqlite:///FILE, postgresql://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE"
_SECRET_WORDS: Final = ("password", "passwd", "passfile", "secret", "token")

# What SQLAlchemy lets through as it is: of connecting, options in the URL that the driver does not know; of reading,
# bytes that are no text in the encoding of the database, and a socket that breaks.
_CONNECT_ERRORS: Final = (exc.SQLAlchemyError, OSError, TypeError, ValueError)
_READ_ERRORS: Final = (exc.SQLAlchemyError, OSError, UnicodeError)

T = TypeVar("T")


def is_sqlite_file(path: Path) -> bool:
    """Whether the file begins as every SQLite database does."""
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def sqlite_url(path: Path) -> URL:
    """Write the URL of a SQLite file, whatever characters its path holds."""
    return URL.create("sqlite", database=str(path))


def parse_url(text: str) -> URL:
    """Read a database URL as apps write it (also Celery's `db+…`), and put in the driver that the extras install.

    Raises:
        RunLogError: it is no URL, or of a kind of database that is not supported.
    """
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):
        url = None
    if url is None:
        raise RunLogError(f"this is no database URL: {hidden(text)}", hint=f"write it as one of {_URL_FORMS}")
    kind = url.drivername.removeprefix("db+").partition("+")[0]
    driver = _DRIVERS.get(kind)
    if driver is None:
        raise RunLogError(f"databases of the kind {kind!r} are not supported", hint=f"write one of {_URL_FORMS}")
    return url.set(drivername=driver)


def hidden(url: URL | str) -> str:
    """Write a URL for people: its secrets as `***`. Text that is no URL keeps nothing between its `//` and `@`."""
    if isinstance(url, URL):
        query = {
            name: "***" if any(word in name.lower() for word in _SECRET_WORDS) else value
            for name, value in url.query.items()
        }
        plain = url.set(drivername=url.get_backend_name(), query=query)
        return plain.render_as_string(hide_password=True).replace("%2A%2A%2A", "***")
    scheme, mark, rest = url.partition("://")
    if not mark:
        return "***" if ":" in url.rpartition("@")[0] else url
    _, at, place = rest.rpartition("@")
    return f"{scheme}://{'***@' if at else ''}{place}"


def read_secret(path: Path, *, by_manager: bool = False) -> str:
    """Read the first line of a file that holds a secret.

    Args:
        path: the file; nobody but its owner may have any right to it.
        by_manager: it is in systemd's $CREDENTIALS_DIRECTORY, which systemd itself closes to others, by an access list
            that shows in the mode as if a group could read (systemd.exec(5), "Credentials").

    Raises:
        RunLogError: it cannot be read, or others can read it.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            if mode & 0o077 and not by_manager:
                raise RunLogError(
                    f"{path} holds a secret, but not only its owner can read it (mode {mode:04o})",
                    hint=f"chmod 600 {path}",
                )
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
    raise RunLogError(f"cannot read the secret in {path}: {reason}", hint=f"look at it: ls -l {path}")


def locate(text: str, *, purpose: str, environ: Mapping[str, str]) -> URL:
    """Make the whole URL of what the user wrote, with the password from wherever it is kept.

    Args:
        text: a URL, or `@FILE` for a file only its owner can read with the URL in its first line.
        purpose: what the database is for, as in `run-log`. It names the places where the password is looked for: the
            variable `KILL_AUDIT_RUN_LOG_PASSWORD`, a file named by `KILL_AUDIT_RUN_LOG_PASSWORD_FILE`, and the systemd
            credential `run-log-password`.
        environ: the environment. What is not found there the driver finds itself: libpq reads `PGPASSWORD` and
            `.pgpass` (PostgreSQL manual, "The Password File"); for MySQL `MYSQL_PWD` is looked at.

    Raises:
        RunLogError: it is no URL, or a file with a secret cannot be read or can be read by others.
    """
    if text.startswith("@"):
        text = read_secret(Path(text[1:]).expanduser())
    url = parse_url(text)
    if url.password is not None or url.get_backend_name() == "sqlite":
        return url
    password = _password(purpose, environ)
    if password is None and url.get_backend_name() != "postgresql":
        password = environ.get("MYSQL_PWD")
    return url if password is None else url.set(password=password)


def _variable(purpose: str) -> str:
    return f"KILL_AUDIT_{purpose.upper().replace('-', '_')}_PASSWORD"


def _password(purpose: str, environ: Mapping[str, str]) -> str | None:
    variable = _variable(purpose)
    if variable in environ:
        return environ[variable]
    if file := environ.get(f"{variable}_FILE"):
        return read_secret(Path(file).expanduser())
    if folder := environ.get("CREDENTIALS_DIRECTORY"):
        credential = Path(folder, f"{purpose}-password")
        if credential.is_file():
            return read_secret(credential, by_manager=True)
    return None


class Database:
    """A database that is only read, in short transactions with a time limit for each statement.

    SQLite has no time limit: it runs in this process, where no server suffers and Ctrl-C ends it.

    Args:
        url: what `locate` or `parse_url` made.
        purpose: what it is for, as in `locate`; errors name the options and variables of that name.
        statement_timeout_s: seconds after which the server gives up a statement.

    Raises:
        RunLogError: there is no such SQLite file, or the driver is not installed.
        RunLogGoneError: in all that is asked of it, if it cannot be reached, or not any more.
    """

    def __init__(self, url: URL, *, purpose: str, statement_timeout_s: int = STATEMENT_TIMEOUT_S) -> None:
        self.shown = hidden(url)
        self._purpose = purpose
        self._password = url.password
        self._engine = _make_engine(url, statement_timeout_s)

    @property
    def kind(self) -> str:
        """`sqlite`, `postgresql`, `mysql` or `mariadb`."""
        return self._engine.dialect.name

    def quoted(self, name: str) -> str:
        """Write a name of a table or column as this database wants it in a statement."""
        return self._engine.dialect.identifier_preparer.quote(name)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do some reading in one transaction.

        Raises:
            RunLogError: the database cannot be reached, refuses, or breaks off.
        """
        try:
            with self._connect() as connection:
                return work(connection)
        except _READ_ERRORS as error:
            failure = self._failure(error)
        raise failure  # outside the except block, so that no frame of the driver hangs on to it

    def stream(self, statements: Iterable[sa.Select[Any]]) -> Iterator[sa.Row[Any]]:
        """Read the rows of some statements in one transaction, at most `STREAM_ROWS` of them held at a time.

        Raises:
            RunLogError: as `run`; also in the midst of the rows.
        """
        try:
            with self._connect() as connection:
                options = connection.execution_options(yield_per=STREAM_ROWS)
                for statement in statements:
                    with options.execute(statement) as rows:
                        yield from rows
        except _READ_ERRORS as error:
            failure = self._failure(error)
        else:
            return
        raise failure

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except _CONNECT_ERRORS as error:
            failure = self._failure(error, gone=True)
        raise failure

    def _failure(self, error: Exception, *, gone: bool = False) -> RunLogError:
        gone = gone or isinstance(error, OSError) or getattr(error, "connection_invalidated", False)
        words = _first_line(error)
        if self._password:
            words = words.replace(self._password, "***")
        advice = _advice(words, variable=_variable(self._purpose))
        kind = RunLogGoneError if gone else RunLogError
        return kind(f"{self.shown}: {words}", hint=f"{advice}kill-audit doctor --{self._purpose} {self.shown}")


def _make_engine(url: URL, timeout_s: int) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    postgres = url.get_backend_name() == "postgresql"
    try:
        return _postgres_engine(url, timeout_s) if postgres else _mysql_engine(url, timeout_s)
    except ModuleNotFoundError as error:
        module = error.name or "its driver"
    raise RunLogError(
        f"{hidden(url)} needs {module}, which is not installed",
        hint=f"pip install 'kill-audit[{_EXTRAS.get(module.lower(), 'postgres,mysql')}]'",
    )


def _postgres_engine(url: URL, timeout_s: int) -> Engine:
    usual = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "kill-audit",
        # A host that vanishes in the midst of an answer is noticed after a minute instead of two hours.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        # Statements prepared by name do not survive a pooler between us and the server.
        connect_args={name: value for name, value in usual.items() if name not in url.query}
        | {"prepare_threshold": None},
    )

    def only_read(connection: Any, _record: object) -> None:
        connection.read_only = True  # before SQLAlchemy itself asks anything, and without a word to a pooler

    def limit(connection: Connection) -> None:
        # LOCAL, because behind a pooler the session is somebody else's afterwards. Not by SQLAlchemy, because that
        # would try to stream what a SET gives.
        cursor = connection.connection.cursor()
        cursor.execute(f"SET LOCAL statement_timeout = '{timeout_s}s'")
        cursor.close()

    sa.event.listen(engine, "connect", only_read, insert=True)
    sa.event.listen(engine, "begin", limit)
    return engine


def _mysql_engine(url: URL, timeout_s: int) -> Engine:
    usual = {"connect_timeout": CONNECT_TIMEOUT_S, "read_timeout": 2 * timeout_s}
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        connect_args={name: value for name, value in usual.items() if name not in url.query},
    )

    def prepare(connection: DBAPIConnection, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT VERSION()")
        (version,) = cursor.fetchone() or ("",)
        # https://mariadb.com/kb/en/aborting-statements/ in seconds, for MySQL max_execution_time in milliseconds.
        limit = f"max_statement_time = {timeout_s}"
        if "mariadb" not in str(version).lower():
            limit = f"max_execution_time = {timeout_s * 1000}"
        cursor.execute(f"SET SESSION {limit}")
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
        cursor.execute("SET SESSION time_zone = '+00:00'")  # so that a TIMESTAMP is read as UTC
        cursor.close()

    sa.event.listen(engine, "connect", prepare, insert=True)
    return engine


def _sqlite_engine(url: URL) -> Engine:
    path = _sqlite_path(url)
    # mode=ro also keeps SQLite from making the file (https://www.sqlite.org/uri.html).
    query = {"mode": "ro", "uri": "true"}
    if _is_idle_wal(path) and not os.access(path.parent, os.W_OK):
        # Even a reader wants to make the -shm file; without writers the file may be read as it lies
        # (https://www.sqlite.org/wal.html#readonly).
        query["immutable"] = "1"
    engine = sa.create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query=query),
        poolclass=NullPool,
        connect_args={"timeout": CONNECT_TIMEOUT_S},
    )

    def tolerate(connection: sqlite3.Connection, _record: object) -> None:
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")

    sa.event.listen(engine, "connect", tolerate)
    return engine


def _sqlite_path(url: URL) -> Path:
    name = (url.database or "").removeprefix("file:")
    if not name or name == ":memory:":
        raise RunLogError("the SQLite URL names no file", hint="write sqlite:///FILE, or sqlite:////ABSOLUTE/FILE")
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise RunLogError(f"there is no file {path}", hint=f"look what is there: ls -l {path.parent}")
    if not os.access(path, os.R_OK):
        raise RunLogError(f"no permission to read {path}", hint=f"see who may: ls -l {path}")
    if path.stat().st_size and not is_sqlite_file(path):
        raise RunLogError(f"{path} is not a SQLite database", hint=f"look what it is: file {path}")
    return path


def _is_idle_wal(path: Path) -> bool:
    """Whether a database is in WAL mode and nobody has it open, for then the files beside it are gone."""
    with path.open("rb") as file:
        head = file.read(20)
    return head[19:] == _WAL_FORMAT and not any(Path(f"{path}{end}").exists() for end in ("-wal", "-shm"))


def _first_line(error: Exception) -> str:
    """Take the driver's own words, without the statement and its parameters, which SQLAlchemy adds."""
    cause: BaseException = getattr(error, "orig", None) or error
    words = cause.args[-1] if cause.args else cause
    return str(words).strip().partition("\n")[0] or type(cause).__name__


def _advice(words: str, *, variable: str) -> str:
    """Say what usually helps against an error, by the driver's words."""
    lower = words.lower()
    if "password" in lower or "access denied" in lower:
        return f"the password is read from {variable}, {variable}_FILE or .pgpass; then try "
    if "timeout" in lower or "max_statement_time" in lower or "execution time" in lower:
        return "an index may be missing; see which with "
    return "try "
