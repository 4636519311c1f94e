"""Runs really killed, with the rows that really came of them: one verdict, wherever and however a run log is kept."""

import csv
import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from command_line import Command
from runlog.live_workers import AGAIN, FINE, KINDS, LEFT, LOST, Live, play

pytestmark = pytest.mark.xdist_group("killed workers")

SERVERS = ("sqlite", "postgres", "mariadb")
Scenes = Mapping[tuple[str, str], Live]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How a run log is kept, and the verdicts that follow.

    `kind`: of the scene whose worker filled it. `lost`: of the run that was not delivered again; `again`: of the one
    that was, and whose second run finished; `left`: of the one that died with its worker.
    """

    kind: str = "plain"
    table: str
    query: str | None = None
    lost: str
    again: str
    left: str

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each kill, by the task's id."""
        return {LOST: self.lost, AGAIN: self.again, LEFT: self.left}


QUERY = (
    "SELECT task_id AS job_uuid, task_name AS job, started_at AS begun_at, finished_at AS ended_at"
    " FROM runs_updated WHERE task_name <> 'a:b'"
)
DESIGNS = {
    "one row a run, updated in place": Design(table="runs_updated", lost="stuck", again="stuck", left="stuck"),
    "one row a run, at its end": Design(table="runs_at_end", lost="missing", again="recovered", left="missing"),
    "one row an id, updated in place": Design(table="ids_updated", lost="stuck", again="recovered", left="stuck"),
    "one row an id, at its end": Design(table="ids_at_end", lost="missing", again="recovered", left="missing"),
    "an own query": Design(table="runs_updated", query=QUERY, lost="stuck", again="stuck", left="stuck"),
    "celery_taskmeta": Design(table="celery_taskmeta", lost="recorded", again="recovered", left="missing"),
    "celery_taskmeta, extended, pickled": Design(
        kind="extended", table="celery_taskmeta", lost="recorded", again="recovered", left="stuck"
    ),
    "django_celery_results": Design(
        kind="django", table="django_celery_results_taskresult", lost="recorded", again="recovered", left="stuck"
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
    """A killed run gets the verdict of the design, the same from three servers, CSV and Parquet."""
    live, run_log = kept(scenes, place, design, tmp_path)
    said = kill_audit("report", *journal(live.log), *run_log, "-o", "json")
    told = said.json
    assert (said.err, said.status) == ("", 1)
    assert {kill["task"]["id"]: kill["verdict"] for kill in told["kills"]} == design.verdicts
    assert (told["ghosts"], told["duplicates"]) == ([], [])
    assert abs(told["run_log"]["skew_s"] or 0) < 1


@pytest.mark.parametrize("place", [*SERVERS, "csv", "parquet"])
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_a_row_left_behind_is_a_ghost(
    scenes: Scenes, kill_audit: Command, tmp_path: Path, place: str, design: Design
) -> None:
    """Where no banner shows that the worker was killed, the open row that it left is a ghost all the same."""
    live, run_log = kept(scenes, place, design, tmp_path)
    log = copied(live.log, tmp_path, lambda line: line.startswith("["))
    told = kill_audit("report", *journal(log), *run_log, "-o", "json").json
    assert {kill["task"]["id"] for kill in told["kills"]} == {LOST, AGAIN}
    assert [ghost["task"]["id"] for ghost in told["ghosts"]] == ([LEFT] if design.left == "stuck" else [])


def copied(log: Path, folder: Path, keep: Callable[[str], bool]) -> Path:
    """Copy those lines of a worker's log."""
    path = folder / "copy.log"
    path.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if keep(line)))
    return path


def is_loud(line: str) -> bool:
    """Whether a line is written at the level WARNING too."""
    return ": INFO/" not in line


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", ["extended", "django"])
@pytest.mark.parametrize("given", ["beside the run log", "as the run log"])
def test_stored_results_name_a_task(
    scenes: Scenes, kill_audit: Command, tmp_path: Path, server: str, kind: str, given: str
) -> None:
    """Where the worker's log hides what it received, the loss that Celery stored with its worker names the task."""
    live = scenes[server, kind]
    table = next(one.table for one in DESIGNS.values() if one.kind == kind)
    run_log = ["--run-log", live.bare_url, "--run-log-table", table]
    if given == "beside the run log":
        run_log = ["--run-log", live.bare_url, "--run-log-table", "runs_updated", "--results", live.bare_url]
    kills = kill_audit("report", *journal(copied(live.log, tmp_path, is_loud)), *run_log, "-o", "json").json["kills"]
    verdict = "stuck" if given == "beside the run log" else "recorded"
    assert (LOST, "result", verdict) in {(kill["task"]["id"], kill["task"]["how"], kill["verdict"]) for kill in kills}


@pytest.mark.parametrize("server", SERVERS)
def test_a_loss_of_nobody_knows_which_worker_names_nothing(
    scenes: Scenes, kill_audit: Command, tmp_path: Path, server: str
) -> None:
    """A stored loss without its worker may be any worker's, unless this one received its id: a wrong name is worse."""
    live = scenes[server, "plain"]
    words = ["--run-log", live.bare_url, "--run-log-table", "celery_taskmeta"]
    kills = kill_audit("report", *journal(copied(live.log, tmp_path, is_loud)), *words, "-o", "json").json["kills"]
    assert LOST not in {kill["task"]["id"] for kill in kills}
    kills = kill_audit("report", *journal(live.log), *words, "-o", "json").json["kills"]
    (lost,) = (kill for kill in kills if kill["task"]["id"] == LOST)
    assert (lost["task"]["confidence"], "its stored result says so" in lost["reasons"]) == ("high", True)


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
