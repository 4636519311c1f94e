"""What an operator sees of a run log that is not as it should be: one clear line, or a report that is whole."""

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from sqlite3 import connect

import pytest
import sqlalchemy as sa

from command_line import DATA, Command, Said, scene

Fill = Callable[..., None]

SCENE = "restart_eight"
PASSWORD = "s3cr3t/w@rd"  # noqa: S105 -- the servers'
COLUMNS = "task_id, task_name, started_at, finished_at, status"
JUNE = "2026-06-01 12:00:00"


def bare(url: sa.URL) -> str:
    """A URL as a person writes it on a command line: without the password."""
    return url._replace(password=None).render_as_string()


def rows() -> list[dict[str, object]]:
    """The rows that the shop of the scene kept, one a run, inserted at its start."""
    folder = DATA / "recordings" / "celery-5.7" / SCENE
    with connect(folder / "runlog.sqlite3") as database:
        found = database.execute(f"SELECT {COLUMNS} FROM run_log_start ORDER BY id").fetchall()  # noqa: S608
    names = COLUMNS.split(", ")
    return [dict(zip(names, row, strict=True)) for row in found]


def table(*, id_length: int = 600) -> sa.Table:
    """A table of the shop's, with times as text."""
    return sa.Table(
        "runs",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("task_id", sa.String(id_length)),
        *(sa.Column(name, sa.String(100)) for name in COLUMNS.split(", ")[1:]),
    )


def line(said: Said) -> str:
    """The one line of an error, below which a hint stands; without a password, and with no report."""
    first, hint = said.err.splitlines()
    assert (said.status, said.out, first[:12], hint[:6]) == (2, "", "kill-audit: ", "hint: ")
    assert PASSWORD not in said.err
    return first


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql:/db/shop", "there is no file postgresql:/db/shop"),
        ("oracle://db/shop", "databases of the kind 'oracle' are not supported"),
        ("postgresql://audit@127.0.0.1:1/shop", "postgresql://audit:***@127.0.0.1:1/shop: "),
        ("mysql://audit@127.0.0.1:1/shop", "mysql://audit:***@127.0.0.1:1/shop: "),
        ("postgresql://audit@no.such.host.invalid/shop", "no.such.host.invalid"),
        ("sqlite:///nowhere.db", "there is no file "),
    ],
)
def test_a_wrong_url_is_one_line(kill_audit: Command, url: str, words: str) -> None:
    """A URL that is none, of another kind, or that nobody answers at, ends the command with one line and a hint."""
    assert words in line(kill_audit("report", *scene(SCENE), "--run-log", url))


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_a_refused_login_is_one_line(
    request: pytest.FixtureRequest, kill_audit: Command, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A wrong password ends the command with the server's reason, and the hint says where it is looked for."""
    monkeypatch.setenv("KILL_AUDIT_RUN_LOG_PASSWORD", "hunter2")
    said = kill_audit("report", *scene(SCENE), "--run-log", bare(request.getfixturevalue(place)))
    assert "KILL_AUDIT_RUN_LOG_PASSWORD" in said.err
    assert "hunter2" not in said.err
    assert line(said)


@pytest.mark.parametrize(("module", "kind"), [("psycopg", "postgresql"), ("pymysql", "mysql")])
def test_a_missing_driver_names_its_extra(
    kill_audit: Command, monkeypatch: pytest.MonkeyPatch, module: str, kind: str
) -> None:
    """Without the driver the hint is the line that installs it."""
    monkeypatch.setitem(sys.modules, module, None)
    said = kill_audit("report", *scene(SCENE), "--run-log", f"{kind}://audit@127.0.0.1:1/shop")
    assert f"needs {module}, which is not installed" in line(said)
    assert f"pip install 'kill-audit[{ {'psycopg': 'postgres', 'pymysql': 'mysql'}[module] }]'" in said.err


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("task_id varchar(9), status varchar(9)", "runs lacks a column with the time a run started or finished"),
        ("status varchar(9), started_at varchar(30)", "runs lacks a column of task ids"),
        ("task_id varchar(9), started_at varchar(30)", "runs lacks a column with the status or the finish time"),
    ],
)
def test_a_table_that_cannot_serve_is_one_line(
    database: sa.URL, kill_audit: Command, fill: Fill, columns: str, words: str
) -> None:
    """A table without a time, an id or anything that tells open from finished is refused with its columns."""
    fill(database, f"CREATE TABLE runs ({columns})")
    told = line(kill_audit("report", *scene(SCENE), "--run-log", bare(database), "--run-log-table", "runs"))
    assert words in told
    assert "its columns are: " in told


def test_a_missing_table_is_one_line(database: sa.URL, kill_audit: Command, fill: Fill) -> None:
    """A table that is not there is refused with those that are."""
    fill(database, "CREATE TABLE one (a int)")
    told = line(kill_audit("report", *scene(SCENE), "--run-log", bare(database), "--run-log-table", "runs"))
    assert told.endswith("has no table 'runs'; it has one")


def test_a_missing_column_is_one_line(database: sa.URL, kill_audit: Command, fill: Fill, tmp_path: Path) -> None:
    """A column that the configuration names and the table lacks is refused with those that are there."""
    fill(database, table(), rows=rows())
    config = tmp_path / "own.toml"
    config.write_text('[run-log.columns]\nfinished_at = "ended"\n')
    said = kill_audit("report", *scene(SCENE), "--run-log", bare(database), "--config", config)
    assert "there is no column 'ended'" in line(said)
    assert "hint: there are: id, task_id, " in said.err


def test_a_table_that_may_not_be_read(postgres: sa.URL, kill_audit: Command, fill: Fill) -> None:
    """A role without the right to read the table still gets the kills, and the report says what was refused."""
    fill(
        postgres,
        table(),
        f"CREATE ROLE audit_{postgres.database} LOGIN PASSWORD '{PASSWORD}'",
        rows=rows(),
    )
    url = bare(postgres.set(username=f"audit_{postgres.database}"))
    said = kill_audit("report", *scene(SCENE), "--no-ledger", "-o", "json", "--run-log", url)
    assert (said.status, {kill["verdict"] for kill in said.json["kills"]}) == (3, {None})
    assert any("permission denied for table runs" in detail for detail in refused(said))


def refused(said: Said) -> list[str]:
    """What the run log did not answer."""
    problems = [problem for source in said.json["coverage"]["sources"] for problem in source["problems"]]
    return [problem["detail"] for problem in problems if problem["code"] == "run-log-refused"]


def verdicts(said: Said) -> dict[str, str]:
    """The verdicts by id."""
    return {kill["task"]["id"]: kill["verdict"] for kill in said.json["kills"]}


def test_what_is_in_a_real_table_is_handled(database: sa.URL, kill_audit: Command, fill: Fill) -> None:
    """NULLs, ids twice, ids of 500 characters and rows from the future change no verdict; a view is read likewise."""
    own = rows()
    none = dict.fromkeys(own[0])
    odd = [
        none,
        {**none, "task_id": "x" * 500, "status": "running"},
        {**none, "task_id": own[0]["task_id"], "status": "success", "started_at": JUNE, "finished_at": JUNE},
        {**none, "task_id": own[1]["task_id"]},
        {**none, "task_id": "future", "status": "running", "started_at": "2099-01-01 00:00:00"},
        {**none, "status": "running", "started_at": "soon", "task_name": own[0]["task_name"]},
    ]
    fill(database, table(), "CREATE VIEW seen AS SELECT * FROM runs", rows=own + odd)
    words = [*scene(SCENE), "--no-ledger", "-o", "json", "--run-log", bare(database), "--run-log-table"]
    for name in ("runs", "seen"):
        said = kill_audit("report", *words, name)
        assert (said.err, said.status, refused(said)) == ("", 1, [])
        assert set(verdicts(said).values()) == {"stuck"}
        assert len(verdicts(said)) == 8
        assert [ghost["task"]["id"] for ghost in said.json["ghosts"]] == [own[1]["task_id"]]  # a second, blank row


def test_a_server_that_dies_while_it_is_read(
    postgres: sa.URL, kill_audit: Command, fill: Fill, tmp_path: Path
) -> None:
    """Where the server ends the connection in the midst the kills are reported, without a verdict, and the reason."""
    fill(postgres, table(), rows=rows())
    dies = "CASE WHEN id > 3 THEN pg_terminate_backend(pg_backend_pid())::text ELSE task_name END AS task_name"
    config = tmp_path / "own.toml"
    config.write_text(f'[run-log]\nquery = "SELECT task_id, {dies}, started_at, status FROM runs"\n')  # noqa: S608
    words = ["--no-ledger", "-o", "json", "--run-log", bare(postgres), "--config", config]
    said = kill_audit("report", *scene(SCENE), *words)
    assert (said.status, [kill["verdict"] for kill in said.json["kills"]]) == (3, [None] * 8)
    assert any("terminating connection" in detail for detail in refused(said))
    assert not any("\n" in detail or PASSWORD in detail for detail in refused(said))
    words[2] = "table"
    headline = kill_audit("report", *scene(SCENE), *words).out.partition("\n")[0]
    assert headline.startswith("8 tasks killed in 1 deploy, none of which could be looked up in the run log")


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
@pytest.mark.parametrize("where", ["variable", "file", "credential", "whole URL", "driver's own"])
def test_the_password_is_found_and_never_printed(
    request: pytest.FixtureRequest,
    kill_audit: Command,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    where: str,
) -> None:
    """The password may be in the environment, a file, a systemd credential, or where the driver looks."""
    url: sa.URL = request.getfixturevalue(place)
    fill(url, table(), rows=rows())
    environ, run_log = kept_password(url, tmp_path, where)
    monkeypatch.delenv("KILL_AUDIT_RUN_LOG_PASSWORD")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for form in ("json", "table"):
        said = kill_audit("report", *scene(SCENE), "--no-ledger", "-o", form, "--run-log", run_log)
        assert (said.status, said.err) == (1, "")
        assert PASSWORD not in said.out
        assert "stuck" in said.out
    assert PASSWORD not in kill_audit("doctor", *scene(SCENE), "--run-log", run_log).out


def kept_password(url: sa.URL, folder: Path, where: str) -> tuple[dict[str, str], str]:
    """Keep the password somewhere; give the variables that lead to it, and what to name as the run log."""
    secret = folder / "run-log-password"
    whole = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
    secret.write_text(whole if where == "whole URL" else PASSWORD)
    secret.chmod(0o600)
    if where == "whole URL":
        return {}, f"@{secret}"
    if where == "driver's own" and url.get_backend_name() == "postgresql":
        secret.write_text(f"127.0.0.1:{url.port}:*:{url.username}:{PASSWORD}\n")
        return {"PGPASSFILE": str(secret)}, bare(url)
    variables = {
        "variable": {"KILL_AUDIT_RUN_LOG_PASSWORD": PASSWORD},
        "file": {"KILL_AUDIT_RUN_LOG_PASSWORD_FILE": str(secret)},
        "credential": {"CREDENTIALS_DIRECTORY": str(folder)},
        "driver's own": {"MYSQL_PWD": PASSWORD},
    }
    return variables[where], bare(url)


def test_a_password_that_others_can_read_is_refused(kill_audit: Command, tmp_path: Path) -> None:
    """A file with the URL that others can read is refused with the command that closes it."""
    secret = tmp_path / "url"
    secret.write_text(f"postgresql://audit:{PASSWORD}@127.0.0.1/shop\n")
    secret.chmod(0o640)
    said = kill_audit("report", *scene(SCENE), "--run-log", f"@{secret}")
    assert "not only its owner can read it (mode 0640)" in line(said)
    assert f"hint: chmod 600 {secret}" in said.err


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_traceback_holds_no_password(tmp_path: Path, kind: str) -> None:
    """Asked for by --debug, the traceback of a failed connection holds neither the password nor a driver's frame."""
    words = ["--debug", "report", *scene(SCENE), "--run-log", f"{kind}://audit@127.0.0.1:1/shop"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KILL_AUDIT_")}
    environ |= {"KILL_AUDIT_RUN_LOG_PASSWORD": PASSWORD, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kill_audit", *words],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" in done.stderr
    assert not {PASSWORD, "psycopg", "pymysql"} & set(done.stderr.replace("/", " / ").split())
    assert PASSWORD not in done.stderr


def test_now_is_after_the_scene() -> None:
    """The scene has settled, whenever the tests run."""
    latest = max(str(row["started_at"]) for row in rows())
    assert dt.datetime.fromisoformat(latest) < dt.datetime(2026, 12, 31)  # noqa: DTZ001 -- as the shop keeps it
