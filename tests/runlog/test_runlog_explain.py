"""How a run log is read, told to the user: the mapping, sample rows, what is missing, and the TOML that pins it."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from kill_audit.reconcile import State
from kill_audit.runlog import explain, open_run_log

Fill = Callable[..., None]

DATA = Path(__file__).parent / "data"
NOON = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC


def shown(url: sa.URL) -> str:
    """A URL as a user would write it."""
    return url.render_as_string(hide_password=False)


def test_the_mapping_is_told(database: sa.URL, fill: Fill) -> None:
    """The columns, the latest rows, the words and the missing indexes are told, and the URL without its password."""
    fill(
        database,
        "CREATE TABLE runs (id int PRIMARY KEY, task_id varchar(36), state varchar(9), started timestamp NULL)",
        "INSERT INTO runs VALUES (1, 'a', 'ok', NULL), (2, 'b', 'Busy', NULL), (3, 'c', 'running', NULL),"
        " (4, 'd', 'running', '2026-11-30 12:00:00')",
    )
    told = explain(shown(database))
    assert told.columns == (
        ("task_id", "task_id"),
        ("task_name", None),
        ("status", "state"),
        ("started_at", "started"),
        ("finished_at", None),
        ("worker", None),
        ("queue", None),
    )
    assert told.states == (("Busy", State.OTHER), ("ok", State.DONE), ("running", State.OPEN))
    assert [(row.key, row.task_id, row.started_at) for row in told.sample] == [
        ("4", "d", NOON),
        ("3", "c", None),
        ("2", "b", None),
    ]
    assert (told.table, told.preset, told.rows, told.one_row_per_id, told.time_zone) == ("runs", None, 4, False, "UTC")
    lacks = [(lack.code, lack.hint.replace("CONCURRENTLY ", "")) for lack in told.lacks if lack.code != "time_zone"]
    assert lacks == [
        ("index", "CREATE INDEX runs_task_id ON runs (task_id);"),
        ("index", "CREATE INDEX runs_started ON runs (started);"),
        ("states", "name them in the configuration, table [run-log.states]"),
    ]
    assert str(database.password or "\0") not in repr(told)


def test_the_toml_pins_the_mapping(sqlite: sa.URL, fill: Fill) -> None:
    """The TOML, read back, opens the same run log in the same way, whatever characters the names have."""
    fill(
        sqlite,
        'CREATE TABLE "my ""runs""" ("Task-ID" text, "état" text, began text, ended text)',
        """INSERT INTO "my ""runs\""" VALUES ('a', 'ok\\', '2026-11-30 13:00', '2026-11-30 13:01')""",
    )
    options = {"columns": {"status": "état", "started_at": "began"}, "states": {"done": ["ok\\"]}}
    told = explain(shown(sqlite), table='my "runs"', time_zone="Europe/Berlin", **options)  # type: ignore[arg-type]
    pinned = tomllib.loads(told.toml)["run-log"]
    assert pinned == {
        "table": 'my "runs"',
        "time-zone": "Europe/Berlin",
        "columns": {"task_id": "Task-ID", "status": "état", "started_at": "began", "finished_at": "ended"},
        "states": {"done": ["ok\\"]},
    }
    again = open_run_log(
        shown(sqlite),
        table=pinned["table"],
        time_zone=pinned["time-zone"],
        columns=pinned["columns"],
        states=pinned["states"],
    )
    assert list(again.rows_of(["a"])) == list(told.sample)


def test_a_query_is_pinned_as_a_query(sqlite: sa.URL) -> None:
    """Of a run log in the user's own words the query is pinned, and no index is asked for."""
    query = "SELECT 'a' AS task_id, 'ok' AS status, 1796040000 AS started_at"
    told = explain(shown(sqlite), query=query)
    assert tomllib.loads(told.toml)["run-log"]["query"] == query
    assert (told.table, told.lacks) == ("the query", ())


def test_what_celerys_table_lacks_is_told() -> None:
    """A table filled without task_track_started shows no start; its zone is not known from the table alone."""
    told = explain(str(DATA / "results-celery-4.4.sqlite3"))
    assert {lack.code for lack in told.lacks} == {"track_started", "index", "time_zone"}
    assert tomllib.loads(told.toml) == {
        "run-log": {"table": "celery_taskmeta", "preset": "celery_taskmeta"}
    }  # a zone that is only assumed is not pinned, so that it can still be derived
    given = explain(str(DATA / "results-celery-5.7.sqlite3"), time_zone="UTC")
    assert {lack.code for lack in given.lacks} == {"track_started"}


def test_without_result_extended_names_are_missing(sqlite: sa.URL, fill: Fill) -> None:
    """A Celery table with the columns for names, all of them empty, was filled without result_extended."""
    fill(
        sqlite,
        "CREATE TABLE celery_taskmeta (id INTEGER PRIMARY KEY, task_id TEXT UNIQUE, status TEXT, result BLOB,"
        " date_done DATETIME, traceback TEXT, children BLOB, name TEXT, worker TEXT, queue TEXT)",
        "CREATE INDEX by_time ON celery_taskmeta (date_done)",
        "INSERT INTO celery_taskmeta (task_id, status) VALUES ('a', 'STARTED')",
    )
    lacks = {lack.code: lack for lack in explain(shown(sqlite)).lacks}
    assert set(lacks) == {"result_extended", "time_zone"}
    assert "5.6.3 or later" in lacks["time_zone"].detail


@pytest.mark.parametrize("rows", ["", "a,ok,2026-11-30T12:00:00Z\nb,On Hold,yesterday\n"])
def test_a_file_is_told(tmp_path: Path, rows: str) -> None:
    """Of a file the columns, the first rows, unknown words and unread times are told."""
    path = tmp_path / "runs.csv"
    path.write_text(f"task_id,status,started_at\n{rows}")
    told = explain(str(path))
    assert (told.kind, told.place, told.table, told.rows) == ("csv", str(path), None, rows.count("\n"))
    assert [row.task_id for row in told.sample] == (["a", "b"] if rows else [])
    assert [lack.code for lack in told.lacks] == (["states", "times"] if rows else [])
    assert [lack.code for lack in explain(str(path), time_zone="UTC").lacks] == (["states", "times"] if rows else [])
    assert tomllib.loads(told.toml)["run-log"]["columns"] == {
        "task_id": "task_id",
        "status": "status",
        "started_at": "started_at",
    }


def test_times_without_a_zone_are_told(database: sa.URL, fill: Fill, tmp_path: Path) -> None:
    """Where times carry no zone and none was given, UTC is assumed, and that is said."""
    kind = {"postgresql": "timestamp", "mysql": "datetime", "sqlite": "text"}[database.get_backend_name()]
    fill(
        database,
        f"CREATE TABLE runs (task_id varchar(9) PRIMARY KEY, status varchar(9), started_at {kind})",
        "CREATE INDEX by_time ON runs (started_at)",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 12:00:00')",
    )
    (tmp_path / "runs.csv").write_text("task_id,status,started_at\na,ok,2026-11-30 12:00:00\n")
    for place in (shown(database), str(tmp_path / "runs.csv")):
        assert [(lack.code, lack.detail) for lack in explain(place).lacks] == [
            ("time_zone", "the times carry no zone; UTC is assumed")
        ]
        assert explain(place, time_zone="UTC").lacks == ()


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_times_with_a_zone_are_not_asked_for(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """Of times that are moments by their type no zone is asked for."""
    url: sa.URL = request.getfixturevalue(place)
    kind = "timestamptz" if place == "postgres" else "timestamp"
    fill(
        url,
        f"CREATE TABLE runs (task_id varchar(9) PRIMARY KEY, status varchar(9), started_at {kind})",
        "CREATE INDEX by_time ON runs (started_at)",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 12:00:00')",
    )
    assert explain(shown(url)).lacks == ()
