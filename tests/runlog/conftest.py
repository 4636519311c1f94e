"""Real database servers, started by the tests in temporary folders; and tables made on them."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from command_line import Command, Said
from kill_audit.cli import run

PASSWORD: Final = "s3cr3t/w@rd"  # noqa: S105 -- characters that a URL must escape
STARTUP_S: Final = 60

MakeDatabase = Callable[[], URL]


def missing(what: str, package: str) -> None:
    """A service that is not installed fails CI, and is skipped loudly elsewhere."""
    reason = f"{what} is not installed: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """A port of this host that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_as(user: str) -> list[str]:
    """The words that run a command as a user who is not root; servers refuse to run as root."""
    return ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[URL]:
    """The superuser's URL of a PostgreSQL server over TCP, with a password."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    if initdb is None:
        missing("PostgreSQL", "postgresql")
        return
    folder = Path(tempfile.mkdtemp(prefix="kill-audit-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        data, port = folder / "data", free_port()
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        control = [*run_as("postgres"), str(Path(initdb).with_name("pg_ctl")), "-D", str(data)]
        quick = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=16MB -c jit=off"
        begin = f"--no-sync --auth=scram-sha-256 --username=postgres --pwfile={secret} --encoding=UTF8 --locale=C"
        subprocess.run([*control, "init", "-s", "-o", begin], check=True, cwd="/", stdout=subprocess.DEVNULL)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 {quick}"
        subprocess.run([*control, "start", "-w", "-s", "-l", str(folder / "log"), "-o", options], check=True, cwd="/")
        try:
            yield URL.create("postgresql+psycopg", "postgres", PASSWORD, "127.0.0.1", port, "postgres")
        finally:
            subprocess.run([*control, "stop", "-s", "-m", "immediate"], check=True, cwd="/")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[URL]:
    """The superuser's URL of a MariaDB server over TCP, with a password."""
    install, server = (
        shutil.which("mariadb-install-db"),
        shutil.which("mariadbd") or shutil.which("/usr/sbin/mariadbd"),
    )
    if install is None or server is None:
        missing("MariaDB", "mariadb-server-core mariadb-client-core")
        return
    folder = Path(tempfile.mkdtemp(prefix="kill-audit-maria-"))
    try:
        data, port = folder / "data", free_port()
        user = ["--user=root"] if os.geteuid() == 0 else []
        common = [
            "--no-defaults",
            f"--datadir={data}",
            *user,
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=8M",
        ]
        auth = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        set_up([install, *common, *auth], data)
        init = folder / "init.sql"
        init.write_text(
            f"CREATE USER app@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO app@'%' WITH GRANT OPTION;\n"
        )
        own = [f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", f"--init-file={init}"]
        net = ["--bind-address=127.0.0.1", f"--port={port}", "--innodb-flush-method=nosync", "--sync-frm=0"]
        log = [f"--log-error={folder / 'log'}"]
        with subprocess.Popen([server, *common, *own, *net, *log]) as process:
            try:
                url = URL.create("mysql+pymysql", "app", PASSWORD, "127.0.0.1", port)
                wait_for(url, process, folder / "log.err")
                yield url
            finally:
                process.kill()
    finally:
        shutil.rmtree(folder)


def set_up(words: Sequence[str], data: Path) -> None:
    """Fill a data folder; its server has been seen to end at once on a busy machine, so it is tried twice."""
    for last in (False, True):
        data.mkdir()
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
        shutil.rmtree(data)
        assert not last, done.stdout + done.stderr


def wait_for(url: URL, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server lets us in."""
    engine = sa.create_engine(url, poolclass=NullPool)
    end = time.monotonic() + STARTUP_S
    while time.monotonic() < end and process.poll() is None:
        try:
            engine.connect().close()
        except sa.exc.OperationalError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the server did not start: {log.read_text()}")


@pytest.fixture(scope="session")
def postgres_names() -> Iterator[int]:
    """Numbers for the names of databases."""
    return count()


@pytest.fixture
def postgres(postgres_server: URL, postgres_names: Iterator[int]) -> URL:
    """The URL of an empty PostgreSQL database."""
    name = f"app_{next(postgres_names)}"
    engine = sa.create_engine(postgres_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return postgres_server.set(database=name)


@pytest.fixture(scope="session")
def mariadb_names() -> Iterator[int]:
    """Numbers for the names of databases."""
    return count()


@pytest.fixture
def mariadb(mariadb_server: URL, mariadb_names: Iterator[int]) -> URL:
    """The URL of an empty MariaDB database."""
    name = f"app_{next(mariadb_names)}"
    engine = sa.create_engine(mariadb_server, poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    return mariadb_server.set(database=name)


@pytest.fixture
def sqlite(tmp_path: Path) -> URL:
    """The URL of an empty SQLite database."""
    path = tmp_path / "app.sqlite3"
    path.touch()
    return URL.create("sqlite", database=str(path))


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> URL:
    """The URL of an empty database of each kind."""
    url: URL = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def kill_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command, run in this process, without any configuration of the machine's own; it knows the password."""
    for variable in [variable for variable in os.environ if variable.startswith("KILL_AUDIT_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-configuration"))
    for purpose in ("RUN_LOG", "RESULTS"):
        monkeypatch.setenv(f"KILL_AUDIT_{purpose}_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)

    def command(*words: str | Path) -> Said:
        status = run([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(status=status, out=out, err=err)

    return command


Fill = Callable[..., None]


@pytest.fixture
def fill() -> Fill:
    """Makes tables with SQLAlchemy's types and inserts rows; or runs plain statements."""

    def fill_in(url: URL, *work: sa.Table | str, rows: list[dict[str, object]] | None = None) -> None:
        engine = sa.create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            for step in work:
                if isinstance(step, str):
                    is_format = connection.dialect.paramstyle in {"format", "pyformat"}
                    connection.exec_driver_sql(step.replace("%", "%%") if is_format else step)
                    continue
                step.create(connection)
                if rows:
                    connection.execute(step.insert(), rows)

    return fill_in
