"""Runs really killed, with the rows that really came of them: one verdict, wherever and however a run log is kept."""

import csv
import datetime as dt
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from command_line import Command, Said
from kill_audit.cli import run
from runlog.live_workers import AGAIN, FINE, KINDS, LEFT, LOST, Live, play

pytestmark = pytest.mark.xdist_group("killed workers")

SERVERS = ("sqlite", "postgres", "mariadb")
Scenes = Mapping[tuple[str, str], Live]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How a run log is kept, and what it must be said to tell.

    `kind`: of the scene whose worker filled it. `lost`: the verdict of the run that was not delivered again; `again`:
    of the one that was, and whose second run finished. `left_open`: whether the row of the run that the worker left
    behind is there to be found open.
    """

    kind: str = "plain"
    table: str
    query: str | None = None
    lost: str
    again: str
    left_open: bool


DESIGNS = {
    "one row a run, updated in place": Design(table="runs_updated", lost="stuck", again="stuck", left_open=True),
    "one row a run, at its end": Design(table="runs_at_end", lost="missing", again="recovered", left_open=False),
    "one row an id, updated in place": Design(table="ids_updated", lost="stuck", again="recovered", left_open=True),
    "one row an id, at its end": Design(table="ids_at_end", lost="missing", again="recovered", left_open=False),
    "an own query": Design(
        table="runs_updated",
        query="SELECT task_id AS job_uuid, task_name AS job, started_at AS begun_at, finished_at AS ended_at"
        " FROM runs_updated WHERE task_name <> 'a:b'",
        lost="stuck",
        again="stuck",
        left_open=True,
    ),
    "celery_taskmeta": Design(table="celery_taskmeta", lost="recorded", again="recovered", left_open=False),
    "celery_taskmeta, extended, pickled": Design(
        kind="extended", table="celery_taskmeta", lost="recorded", again="recovered", left_open=True
    ),
    "django_celery_results": Design(
        kind="django",
        table="django_celery_results_taskresult",
        lost="recorded",
        again="recovered",
        left_open=True,
    ),
}


@pytest.fixture(scope="session")
def scenes(postgres_server: sa.URL, mariadb_server: sa.URL) -> Iterator[Scenes]:
    """Play a scene for each server and each kind of Celery's result table."""
    with tempfile.TemporaryDirectory() as name:
        found = {}
        for server in SERVERS:
            for kind in KINDS:
                folder = Path(name) / f"{server}-{kind}"
                folder.mkdir()
                url = sa.URL.create("sqlite", database=str(folder / "app.sqlite3"))
                if server != "sqlite":
                    url = made({"postgres": postgres_server, "mariadb": mariadb_server}[server], f"live_{kind}")
                found[server, kind] = Live(database=url, kind=kind, folder=folder)
        play(list(found.values()))
        yield found


def made(server: sa.URL, name: str) -> sa.URL:
    """Make a database on a server."""
    with sa.create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return server.set(database=name)


@pytest.fixture
def kill_audit(
    postgres_server: sa.URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Give the command, run in this process, without any configuration of the machine's own; it knows the password."""
    for variable in [variable for variable in os.environ if variable.startswith("KILL_AUDIT_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-configuration"))
    for purpose in ("RUN_LOG", "RESULTS"):
        monkeypatch.setenv(f"KILL_AUDIT_{purpose}_PASSWORD", str(postgres_server.password))
    monkeypatch.chdir(tmp_path)

    def command(*words: str | Path) -> Said:
        status = run([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(status=status, out=out, err=err)

    return command


def journal(log: Path) -> list[str]:
    """The words that name a worker's log, and a window around it."""
    return ["--utc", "--no-ledger", "-S", "-1h", "--settle", "0s", "--file", str(log), "--assume-timezone", "UTC"]


def rows_of(live: Live, design: Design) -> tuple[list[str], list[dict[str, Any]]]:
    """The names and the rows of a design, as its driver gives them."""
    with sa.create_engine(live.database, poolclass=NullPool).connect() as connection:
        result = connection.exec_driver_sql(design.query or f"SELECT * FROM {design.table}")  # noqa: S608
        return list(result.keys()), [dict(row) for row in result.mappings()]


def kept(scenes: Scenes, place: str, design: Design, folder: Path) -> tuple[Live, list[str]]:
    """The scene of a design, and the words that name its run log in a place; a file holds what a server's table does.

    A CSV file has the cells of SQLite, all of them text; a Parquet file those of PostgreSQL, with their types.
    """
    server = {"csv": "sqlite", "parquet": "postgres"}.get(place, place)
    live = scenes[server, design.kind]
    if place in SERVERS:
        if design.query is None:
            return live, ["--run-log", live.bare_url, "--run-log-table", design.table]
        (folder / "own.toml").write_text(f'[run-log]\nquery = "{design.query}"\n')
        return live, ["--run-log", live.bare_url, "--config", str(folder / "own.toml")]
    names, rows = rows_of(live, design)
    path = folder / f"runs.{place}"
    if place == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    return live, ["--run-log", str(path)]


@pytest.mark.parametrize("place", [*SERVERS, "csv", "parquet"])
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_a_killed_run_has_one_verdict(
    scenes: Scenes, kill_audit: Command, tmp_path: Path, place: str, design: Design
) -> None:
    """A killed run gets the verdict of the design, the same from three servers, CSV and Parquet; ghosts likewise."""
    live, run_log = kept(scenes, place, design, tmp_path)
    said = kill_audit("report", *journal(live.log), *run_log, "-o", "json")
    assert said.err == ""
    told = said.json
    assert {kill["task"]["id"]: kill["verdict"] for kill in told["kills"]} == {LOST: design.lost, AGAIN: design.again}
    assert [ghost["task"]["id"] for ghost in told["ghosts"]] == ([LEFT] if design.left_open else [])
    assert told["duplicates"] == []
    assert abs(told["run_log"]["skew_s"] or 0) < 1


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_without_names_is_read_with_the_results(
    scenes: Scenes, kill_audit: Command, tmp_path: Path, server: str, kind: str
) -> None:
    """Where the level WARNING hides what was received, the loss that Celery stored names the task."""
    live = scenes[server, kind]
    quiet = tmp_path / "quiet.log"
    lines = live.log.read_text().splitlines(keepends=True)
    quiet.write_text("".join(line for line in lines if ": INFO/" not in line))
    run_log = ["--run-log", live.bare_url, "--run-log-table", "runs_updated", "--results", live.bare_url]
    kills = kill_audit("report", *journal(quiet), *run_log, "-o", "json").json["kills"]
    named = {(kill["task"]["id"], kill["task"]["how"], kill["verdict"]) for kill in kills}
    assert (LOST, "result", "stuck") in named
    assert {task_id for task_id, _, _ in named} <= {LOST, AGAIN, None}


@pytest.mark.parametrize("server", SERVERS)
def test_the_doctor_says_how_it_is_read(scenes: Scenes, kill_audit: Command, server: str) -> None:
    """The doctor shows preset, mapping, three rows, what is missing, and the TOML that pins it."""
    live = scenes[server, "plain"]
    words = ["--run-log", live.bare_url, "--run-log-table", "celery_taskmeta"]
    out = kill_audit("doctor", "--utc", "--file", live.log, *words).out
    assert "preset celery_taskmeta" in out
    assert out.count("row: ") == 3
    for told in ("(result_extended)", "(track_started)", "[run-log]", 'preset = "celery_taskmeta"'):
        assert told in out
    assert f"SUCCESS (done), - to {dt.datetime.now(dt.UTC):%Y-%m-%d}" in out
    assert FINE in out or LOST in out
