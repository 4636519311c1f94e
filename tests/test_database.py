"""URLs, credentials and the SQLite file: what needs no server."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.database import Database, hidden, locate, parse_url, read_secret, sqlite_url
from kill_audit.errors import RunLogError

SECRET = "hunter2"  # noqa: S105 -- a password of nobody


def make(path: Path, *statements: str) -> Path:
    """Make a SQLite database."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in (*statements, "CREATE TABLE runs (task_id)", "INSERT INTO runs VALUES ('a')"):
            connection.execute(statement)
        connection.commit()
    return path


def count(database: Database) -> object:
    """How many rows there are in the table."""
    return database.run(lambda connection: connection.exec_driver_sql("SELECT count(*) FROM runs").scalar())


def secret_file(path: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    """Make a file with a secret."""
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("postgres://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql://u@h:5433/d?sslmode=require", "postgresql+psycopg://u@h:5433/d?sslmode=require"),
        ("postgresql+psycopg2://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgis://u@h/d", "postgresql+psycopg://u@h/d"),
        ("db+postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
        ("mysql://u@h/d", "mysql+pymysql://u@h/d"),
        ("mysql+mysqldb://u@h/d?charset=utf8mb4", "mysql+pymysql://u@h/d?charset=utf8mb4"),
        ("mariadb://u@h/d", "mariadb+pymysql://u@h/d"),
        ("db+sqlite:///x.db", "sqlite:///x.db"),
    ],
)
def test_urls_of_apps_are_understood(written: str, read: str) -> None:
    """A URL copied from an app is read with the driver of the extras, whichever driver the app uses."""
    assert str(parse_url(written)) == read


@pytest.mark.parametrize("url", ["oracle://u@h/d", "mongodb://h/d", "redis://h/0", "https://h/d"])
def test_other_databases_are_refused(url: str) -> None:
    """A kind of database that is not supported is refused by name, with the forms that are."""
    with pytest.raises(RunLogError, match=f"databases of the kind '{url.partition(':')[0]}' are not") as refusal:
        parse_url(url)
    assert "postgresql://USER@HOST/DATABASE" in refusal.value.hint


@pytest.mark.parametrize("url", ["", "nothing", f"://u:{SECRET}@h", f"postgresql://u:{SECRET}@h:port/d"])
def test_what_is_no_url_is_refused(url: str) -> None:
    """Text that is no URL is refused, without what may be a password in it."""
    with pytest.raises(RunLogError, match="this is no database URL") as refusal:
        parse_url(url)
    assert SECRET not in refusal.value.message


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://u:{SECRET}@h/d", "postgresql://u:***@h/d"),
        (f"mysql://h/d?user=u&password={SECRET}", "mysql://h/d?password=***&user=u"),
        (f"postgresql://h/d?sslpassword={SECRET}&sslmode=require", "postgresql://h/d?sslmode=require&sslpassword=***"),
        (f"postgresql://h/d?passfile=/etc/{SECRET}", "postgresql://h/d?passfile=***"),
        ("sqlite:////var/lib/app/db.sqlite3", "sqlite:////var/lib/app/db.sqlite3"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """The password of a URL and any secret among its options are shown as three stars."""
    assert hidden(parse_url(url)) == shown


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=4).map(lambda words: f"¡{words}!"))
def test_no_password_is_ever_shown(password: str) -> None:
    """Whatever characters a password has, it is not in the URL as shown, nor when the URL cannot be read."""
    url = sa.URL.create("postgresql+psycopg", "u", password, "h", 5432, "d")
    assert password not in hidden(url)
    assert password not in hidden(f"postgresql://u:{password}@h:port/d")


def test_the_password_in_the_url_wins() -> None:
    """A password in the URL is taken before one in the environment."""
    url = locate(f"postgresql://u:{SECRET}@h/d", purpose="run-log", environ={"KILL_AUDIT_RUN_LOG_PASSWORD": "other"})
    assert url.password == SECRET


def test_the_environment_may_hold_the_password() -> None:
    """The password comes from the variable named for what the database is for."""
    environ = {"KILL_AUDIT_RUN_LOG_PASSWORD": SECRET, "KILL_AUDIT_RESULTS_PASSWORD": "other"}
    assert locate("postgresql://u@h/d", purpose="run-log", environ=environ).password == SECRET
    assert locate("postgresql://u@h/d", purpose="results", environ=environ).password == "other"  # noqa: S105


def test_a_file_may_hold_the_password(tmp_path: Path) -> None:
    """The password is the first line of a file that only its owner can read."""
    file = secret_file(tmp_path / "password", f"{SECRET}\nand more\n")
    environ = {"KILL_AUDIT_RUN_LOG_PASSWORD_FILE": str(file)}
    assert locate("mysql://u@h/d", purpose="run-log", environ=environ).password == SECRET


def test_systemd_may_hold_the_password(tmp_path: Path) -> None:
    """The password is a systemd credential, whose file shows its access list as group rights."""
    secret_file(tmp_path / "run-log-password", mode=0o440)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert locate("postgresql://u@h/d", purpose="run-log", environ=environ).password == SECRET
    assert locate("postgresql://u@h/d", purpose="results", environ=environ).password is None


def test_mysql_has_a_variable_of_its_own() -> None:
    """MYSQL_PWD is taken for MySQL and MariaDB, and not for PostgreSQL, whose library has its own places."""
    environ = {"MYSQL_PWD": SECRET}
    assert locate("mariadb://u@h/d", purpose="run-log", environ=environ).password == SECRET
    assert locate("postgresql://u@h/d", purpose="run-log", environ=environ).password is None


def test_a_file_may_hold_the_whole_url(tmp_path: Path) -> None:
    """`@FILE` is a file that only its owner can read, with the URL in its first line."""
    file = secret_file(tmp_path / "url", f"postgresql://u:{SECRET}@h/d\n")
    assert str(locate(f"@{file}", purpose="run-log", environ={})) == "postgresql+psycopg://u:***@h/d"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A file with a secret on which anybody but its owner has a right is refused, with the remedy."""
    file = secret_file(tmp_path / "password", mode=mode)
    with pytest.raises(RunLogError, match=rf"not only its owner can read it \(mode {mode:04o}\)") as refusal:
        read_secret(file)
    assert refusal.value.hint == f"chmod 600 {file}"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_secret_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A file with a secret that is missing, or is no text, is refused by name."""
    with pytest.raises(RunLogError, match=r"cannot read the secret in .*: No such file"):
        read_secret(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "binary").chmod(0o600)
    with pytest.raises(RunLogError, match=r"cannot read the secret in .*: it is no UTF-8 text"):
        read_secret(tmp_path / "binary")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_an_unreachable_server_is_one_line(kind: str) -> None:
    """A server that does not answer gives one line and a hint; no traceback has the password, not even with locals."""
    database = Database(parse_url(f"{kind}://u:{SECRET}@127.0.0.1:1/d"), purpose="results")
    with pytest.raises(RunLogError, match=rf"^{kind}://u:\*\*\*@127\.0\.0\.1:1/d: .*[Rr]efused") as refusal:
        count(database)
    told = traceback.TracebackException.from_exception(refusal.value, capture_locals=True)
    assert SECRET not in "".join(told.format())
    assert refusal.value.__context__ is None
    assert "\n" not in refusal.value.message
    assert refusal.value.hint == f"try kill-audit doctor --results {kind}://u:***@127.0.0.1:1/d"


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_an_unknown_option_is_one_line(kind: str) -> None:
    """An option in the URL that the driver does not know gives one line that names it."""
    with pytest.raises(RunLogError, match="bogus"):
        count(Database(parse_url(f"{kind}://u@127.0.0.1:1/d?bogus=1"), purpose="run-log"))


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("psycopg", "postgresql://h/d", "postgres"), ("pymysql", "mysql://h/d", "mysql")]
)
def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch, module: str, url: str, extra: str) -> None:
    """Without the driver the error says which extra installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RunLogError, match=f"{url} needs {module}, which is not installed") as refusal:
        Database(parse_url(url), purpose="run-log")
    assert refusal.value.hint == f"pip install 'kill-audit[{extra}]'"


def test_a_missing_sqlite_file_is_not_made(tmp_path: Path) -> None:
    """A SQLite file that is not there is refused, and not created."""
    with pytest.raises(RunLogError, match="there is no file"):
        Database(sqlite_url(tmp_path / "missing.db"), purpose="run-log")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_sqlite_url_without_a_file_is_refused(url: str) -> None:
    """A SQLite URL that names no file is refused."""
    with pytest.raises(RunLogError, match="the SQLite URL names no file"):
        Database(parse_url(url), purpose="run-log")


def test_a_file_of_another_kind_is_no_database(tmp_path: Path) -> None:
    """A file that does not begin as a SQLite database is refused; a folder is no file."""
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    with pytest.raises(RunLogError, match="is not a SQLite database"):
        Database(sqlite_url(file), purpose="run-log")
    with pytest.raises(RunLogError, match="there is no file"):
        Database(sqlite_url(tmp_path), purpose="run-log")


def test_a_damaged_database_is_one_line(tmp_path: Path) -> None:
    """A SQLite file whose pages are damaged gives one line."""
    path = make(tmp_path / "app.db")
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)
    with pytest.raises(
        RunLogError, match=r"sqlite:///.*app\.db: (database disk image is malformed|file is not a database)"
    ):
        count(Database(sqlite_url(path), purpose="run-log"))


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "what?.db", "#1.db", "ä☃.db", "a%20b.db", "a&mode=rwc.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    """A SQLite file is found whatever characters its name has."""
    assert count(Database(sqlite_url(make(tmp_path / name)), purpose="run-log")) == 1


def test_a_file_url_will_do(tmp_path: Path) -> None:
    """A SQLite URL in the form `sqlite:///file:PATH?…` is read-only whatever it says itself."""
    path = make(tmp_path / "app.db")
    database = Database(parse_url(f"sqlite:///file:{path}?mode=rwc&uri=true"), purpose="run-log")
    assert count(database) == 1
    with pytest.raises(RunLogError, match="readonly"):
        database.run(lambda connection: connection.exec_driver_sql("DELETE FROM runs").rowcount)


def test_a_locked_database_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SQLite file that another program holds locked gives one line after a while."""
    monkeypatch.setattr("kill_audit.database.CONNECT_TIMEOUT_S", 0.01)
    path = make(tmp_path / "app.db")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunLogError, match="database is locked"):
            count(Database(sqlite_url(path), purpose="run-log"))


def test_what_a_writer_has_committed_is_seen(tmp_path: Path) -> None:
    """A database in WAL mode is read together with what its writer keeps beside it."""
    path = make(tmp_path / "app.db", "PRAGMA journal_mode = wal")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("INSERT INTO runs VALUES ('b')")
        writer.commit()
        assert count(Database(sqlite_url(path), purpose="run-log")) == 2


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can look into; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_wal_database_in_a_folder_that_cannot_be_written(tmp_path: Path, open_folder: Path) -> None:
    """A copied database in WAL mode is read from a folder where the reader may make no file."""
    path = make(open_folder / "app.db", "PRAGMA journal_mode = wal")
    path.chmod(0o444)
    other = make(tmp_path / "other.db")
    script = (  # all modules are loaded before this becomes another user, who may not be able to read them
        "import os, sys; from pathlib import Path; from kill_audit.database import Database, sqlite_url\n"
        "def count(name):\n"
        "    database = Database(sqlite_url(Path(name)), purpose='run-log')\n"
        "    return database.run(lambda c: c.exec_driver_sql('SELECT count(*) FROM runs').scalar())\n"
        "count(sys.argv[1]); os.setgroups([]); os.setgid(65534); os.setuid(65534); print(count(sys.argv[2]))"
    )
    words = [sys.executable, "-c", script, str(other), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
