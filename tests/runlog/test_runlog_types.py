"""Columns of every type in which apps keep ids, states and times."""
# ruff: noqa: S608 -- the tests write the statements that make their tables

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from kill_audit.errors import RunLogError
from kill_audit.reconcile import State
from kill_audit.runlog import explain, open_run_log
from kill_audit.runlog.sql import SqlRunLog

Fill = Callable[..., None]

ID = "7c2323fb-d456-4b6c-a2e1-e5e8dd676627"
NOON = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC


def opened(url: sa.URL, **options: Any) -> SqlRunLog:
    """Open the run log at a URL."""
    run_log = open_run_log(url.render_as_string(hide_password=False), **options)
    assert isinstance(run_log, SqlRunLog)
    return run_log


def test_a_table_without_ids(database: sa.URL, fill: Fill) -> None:
    """A table that keeps no id but names and starts is read when it is named, and is not chosen unasked."""
    fill(
        database,
        "CREATE TABLE runs (id int PRIMARY KEY, task_name varchar(20), status varchar(20), started_at timestamp NULL)",
        "INSERT INTO runs VALUES (1, 'mail', 'running', '2026-11-30 12:00:00'), (2, 'mail', 'ok', NULL)",
        "INSERT INTO runs VALUES (3, 'other', 'ok', '2026-11-30 12:00:00')",
    )
    run_log = opened(database, table="runs")
    assert [(row.key, row.task_id) for row in run_log.rows_without_id({"mail"}, NOON, NOON + 1)] == [("1", None)]
    assert [row.key for row in run_log.open_rows()] == ["1"]
    assert [*run_log.rows_of({"1"}), *run_log.finished_twice(NOON, NOON * 2)] == []
    assert (run_log.one_row_per_id, run_log.oldest()) == (False, NOON)
    lacks = {lack.code for lack in explain(database.render_as_string(hide_password=False), table="runs").lacks}
    assert "task_id" in lacks
    with pytest.raises(RunLogError, match="looks like a run log; it has runs"):
        opened(database)


def test_ids_that_are_never_null_are_not_asked_for(database: sa.URL, fill: Fill) -> None:
    """Where the id cannot be missing no row without one is looked for."""
    fill(
        database,
        "CREATE TABLE runs (task_id varchar(36) NOT NULL, task_name varchar(9), status varchar(9), started_at"
        " timestamp NULL)",
        "INSERT INTO runs VALUES ('', 'mail', 'running', '2026-11-30 12:00:00')",
    )
    assert list(opened(database).rows_without_id({"mail"}, NOON, NOON + 1)) == []


def test_uuid_columns_hold_ids(database: sa.URL, fill: Fill) -> None:
    """An id is found in a UUID column, of the server's own type where it has one, and comes out with its hyphens."""
    types = {"postgresql": "uuid", "mysql": "uuid", "sqlite": "char(32)"}
    value = ID.replace("-", "") if database.get_backend_name() == "sqlite" else ID
    kind = types[database.get_backend_name()]
    fill(
        database,
        f"CREATE TABLE runs (task_id {kind} PRIMARY KEY, status varchar(20), started_at timestamp NULL)",
        f"INSERT INTO runs VALUES ('{value}', 'running', NULL)",
    )
    assert [row.task_id for row in opened(database).rows_of({ID, "no uuid", "x" * 500})] == [ID]


def test_hexadecimal_ids_are_found(database: sa.URL, fill: Fill) -> None:
    """Django keeps a UUID as 32 hexadecimal digits on servers without the type; such an id is found."""
    fill(
        database,
        "CREATE TABLE runs (task_id char(32) PRIMARY KEY, status varchar(20), started_at timestamp NULL)",
        f"INSERT INTO runs VALUES ('{uuid.UUID(ID).hex}', 'running', NULL)",
    )
    assert [row.task_id for row in opened(database).rows_of({ID})] == [ID]


def test_binary_ids_are_found(mariadb: sa.URL, fill: Fill) -> None:
    """A UUID kept as 16 bytes is found and comes out as text."""
    fill(
        mariadb,
        "CREATE TABLE runs (task_id binary(16) PRIMARY KEY, status varchar(20), started_at datetime)",
        f"INSERT INTO runs VALUES (x'{uuid.UUID(ID).hex}', 'running', NULL)",
    )
    assert [row.task_id for row in opened(mariadb).rows_of({ID, "other"})] == [ID]


def test_numbers_may_be_ids(database: sa.URL, fill: Fill) -> None:
    """An app that numbers its runs hands the number to Celery as the id; ids that are no number are not looked for."""
    fill(
        database,
        "CREATE TABLE runs (task_id bigint PRIMARY KEY, status varchar(20), started_at timestamp NULL)",
        "INSERT INTO runs VALUES (42, 'running', NULL)",
    )
    assert [row.task_id for row in opened(database).rows_of({"42", ID, "٤٢", "9" * 30, "-1"})] == ["42"]


def test_a_counting_id_is_no_task_id(database: sa.URL, fill: Fill) -> None:
    """A column `id` of whole numbers counts rows; it is the key, and the task's id is looked for elsewhere."""
    fill(
        database,
        "CREATE TABLE runs (id int PRIMARY KEY, uuid varchar(36), task text, state varchar(9), start timestamp NULL)",
        f"INSERT INTO runs VALUES (7, '{ID}', 'mail', 'running', NULL)",
    )
    assert [(row.key, row.task_id) for row in opened(database).open_rows()] == [("7", ID)]


def test_keys_of_several_columns(database: sa.URL, fill: Fill) -> None:
    """The key of a row is its whole primary key."""
    fill(
        database,
        "CREATE TABLE runs (task_id varchar(36), attempt int, status varchar(9), started_at timestamp NULL,"
        " PRIMARY KEY (task_id, attempt))",
        "INSERT INTO runs VALUES ('a', 1, 'failed', NULL), ('a', 2, 'running', NULL)",
    )
    run_log = opened(database)
    assert sorted(row.key for row in run_log.rows_of({"a"})) == ["a,1", "a,2"]
    assert not run_log.one_row_per_id


@pytest.mark.parametrize("unique", ["PRIMARY KEY", "UNIQUE", "index"])
def test_unique_ids_show_in_the_catalogue(database: sa.URL, fill: Fill, unique: str) -> None:
    """A primary key, a unique constraint or a unique index on the id alone means one row per id."""
    constraint = "" if unique == "index" else unique
    steps = [
        f"CREATE TABLE runs (task_id varchar(36) NOT NULL {constraint}, status varchar(9), started_at timestamp NULL)"
    ]
    if unique == "index":
        steps.append("CREATE UNIQUE INDEX one ON runs (task_id)")
    fill(database, *steps)
    assert opened(database).one_row_per_id


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_a_partial_unique_index_does_not_make_ids_unique(
    request: pytest.FixtureRequest, fill: Fill, place: str
) -> None:
    """An id that is unique only among some rows may have several rows."""
    url: sa.URL = request.getfixturevalue(place)
    fill(
        url,
        "CREATE TABLE runs (task_id varchar(36), status varchar(9), started_at timestamp NULL)",
        "CREATE UNIQUE INDEX one ON runs (task_id) WHERE status = 'running'",
    )
    assert not opened(url).one_row_per_id


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_enum_states(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """A status of an enumerated type is read like text, and only its own labels are asked for."""
    url: sa.URL = request.getfixturevalue(place)
    kind = "ENUM ('Running', 'Done', 'on hold')"
    create_type, column = ([f"CREATE TYPE run_status AS {kind}"], "run_status") if place == "postgres" else ([], kind)
    fill(
        url,
        *create_type,
        f"CREATE TABLE runs (id int PRIMARY KEY, task_id varchar(36), status {column}, started_at timestamp NULL)",
        "INSERT INTO runs VALUES (1, 'a', 'Running', NULL), (2, 'b', 'Done', NULL), (3, 'c', 'on hold', NULL)",
    )
    run_log = opened(url)
    assert [(row.task_id, row.status) for row in run_log.open_rows()] == [("a", "Running")]
    assert run_log.unknown_states == ("on hold",)


@pytest.mark.parametrize("kind", ["int", "boolean"])
def test_states_may_be_numbers_or_booleans(database: sa.URL, fill: Fill, kind: str) -> None:
    """A status that is a number or a boolean has the meaning that the user gives it."""
    zero, one = ("false", "true") if kind == "boolean" else ("0", "1")
    fill(
        database,
        f"CREATE TABLE runs (id int PRIMARY KEY, task_id varchar(36), status {kind}, started_at timestamp NULL)",
        f"INSERT INTO runs VALUES (1, 'a', {zero}, NULL), (2, 'b', {one}, NULL), (3, 'b', {one}, NULL)",
    )
    run_log = opened(database, states={"open": ["0", "false"], "done": ["1", "true"]})
    assert [row.task_id for row in run_log.open_rows()] == ["a"]
    assert [row.state for row in run_log.rows_of({"b"})] == [State.DONE, State.DONE]


def test_without_a_status_the_finish_time_decides(database: sa.URL, fill: Fill) -> None:
    """In a table without a status a run is open until it has a finish time."""
    fill(
        database,
        "CREATE TABLE runs (task_id varchar(36), started_at timestamp NULL, ended_at timestamp NULL)",
        "INSERT INTO runs VALUES ('a', '2026-11-30 12:00:00', NULL)",
        "INSERT INTO runs VALUES ('b', '2026-11-30 12:00:00', '2026-11-30 12:00:01')",
        "INSERT INTO runs VALUES ('b', '2026-11-30 12:00:00', '2026-11-30 12:00:02')",
    )
    run_log = opened(database)
    assert [(row.task_id, row.state) for row in run_log.open_rows()] == [("a", State.OPEN)]
    assert list(run_log.finished_twice(NOON, NOON * 2)) == [("b", None, 2)]


def test_without_a_finish_time_the_start_counts(database: sa.URL, fill: Fill) -> None:
    """In a table without a finish time a done run counts by its start."""
    fill(
        database,
        "CREATE TABLE runs (task_id varchar(36), status varchar(9), started_at timestamp NULL)",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 12:00:00'), ('a', 'ok', '2026-11-30 12:00:01')",
    )
    assert list(opened(database).finished_twice(NOON, NOON + 2_000_000)) == [("a", None, 2)]


def test_times_with_a_zone_are_that_moment(postgres: sa.URL, fill: Fill) -> None:
    """A timestamptz is a moment, whatever zone is given for times that carry none."""
    fill(
        postgres,
        "CREATE TABLE runs (task_id text, status text, started_at timestamptz, finished_at timestamp)",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 13:00+01', '2026-11-30 13:00:01'),"
        " ('a', 'ok', '2026-11-30 12:00+00', '2026-11-30 13:00:02')",
    )
    run_log = opened(postgres, time_zone="Europe/Berlin")
    assert {(row.started_at, row.finished_at) for row in run_log.rows_of({"a"})} == {
        (NOON, NOON + 1_000_000),
        (NOON, NOON + 2_000_000),
    }
    assert list(run_log.finished_twice(NOON + 1_000_000, NOON + 2_000_001)) == [("a", None, 2)]
    assert (run_log.oldest(), run_log.facts.time_zone) == (NOON, "Europe/Berlin")


def test_infinite_times_are_none(postgres: sa.URL, fill: Fill) -> None:
    """PostgreSQL's `infinity`, with which apps mark an open end, is no finish time."""
    fill(
        postgres,
        "CREATE TABLE runs (task_id text, status text, started_at timestamptz, finished_at timestamp)",
        "INSERT INTO runs VALUES ('a', 'running', '-infinity', 'infinity')",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 12:00+00', 'infinity')",
    )
    run_log = opened(postgres)
    assert {(row.started_at, row.finished_at) for row in run_log.rows_of({"a"})} == {(None, None), (NOON, None)}
    assert run_log.oldest() == NOON


def test_mysql_timestamps_are_moments(mariadb: sa.URL, fill: Fill) -> None:
    """A TIMESTAMP of MySQL is a moment whatever the zone of the server; a DATETIME is what a clock showed."""
    fill(
        mariadb,
        "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at timestamp(6), ended_at datetime(6))",
        "SET time_zone = '+05:00'",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-11-30 17:00:00.5', '2026-11-30 13:00:01.25')",
    )
    run_log = opened(mariadb, time_zone="Europe/Berlin")
    (row,) = run_log.rows_of({"a"})
    assert (row.started_at, row.finished_at) == (NOON + 500_000, NOON + 1_250_000)
    assert run_log.oldest() == NOON + 500_000


def test_mysql_zero_dates_are_none(mariadb: sa.URL, fill: Fill) -> None:
    """The zero date of MySQL is no time, and does not hide the oldest row."""
    fill(
        mariadb,
        "SET sql_mode = ''",
        "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at datetime, finished_at datetime)",
        "INSERT INTO runs VALUES ('a', 'ok', '0000-00-00', '2026-11-30 12:00')",
        "INSERT INTO runs VALUES ('b', 'ok', '2026-11-30 12:00', '0000-00-00')",
    )
    run_log = opened(mariadb)
    assert {(row.started_at, row.finished_at) for row in run_log.rows_of({"a", "b"})} == {(None, NOON), (NOON, None)}
    assert (run_log.oldest(), run_log.unread_times > 0) == (NOON, True)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (
            "text",
            (
                "'2026-11-30 12:00:01'",
                "'2026-11-30T12:00:02Z'",
                "'2026-11-30 13:00:03+01:00'",
                "'2026-11-30 12:00:04 UTC'",
            ),
        ),
        ("datetime", ("'2026-11-30T12:00:01'", "'2026-11-30 12:00:02.000000'", "'2026-11-30 12:00:03'", "1796040004")),
        ("bigint", ("1796040001", "1796040002000", "1796040003000000", "1796040004000000000")),
        ("double", ("1796040001.0", "1796040002.0", "1796040003000.0", "1796040004.0")),
    ],
)
def test_sqlite_times_are_what_their_text_says(sqlite: sa.URL, fill: Fill, kind: str, times: tuple[str, ...]) -> None:
    """SQLite has no type for times: text in ISO 8601, or a number of seconds, milli-, micro- or nanoseconds."""
    fill(
        sqlite,
        f"CREATE TABLE runs (task_id text, status text, finished_at {kind})",
        *(f"INSERT INTO runs VALUES ('a', 'ok', {time})" for time in times),
    )
    run_log = opened(sqlite)
    expected = [NOON + second * 1_000_000 for second in (1, 2, 3, 4)]
    assert sorted(row.finished_at or 0 for row in run_log.rows_of({"a"})) == expected
    assert list(run_log.finished_twice(NOON + 1_000_000, NOON + 5_000_000)) == [("a", None, 4)]
    assert list(run_log.finished_twice(NOON + 3_000_000, NOON + 4_000_000)) == []


def test_text_that_is_no_time_hides_nothing(sqlite: sa.URL, fill: Fill) -> None:
    """Text that is no time counts as not there, is counted, and does not hide the oldest row."""
    fill(
        sqlite,
        "CREATE TABLE runs (task_id text, status text, finished_at text)",
        "INSERT INTO runs VALUES ('a', 'ok', '--'), ('b', 'ok', '2026-11-30 12:00'), ('c', 'ok', '')",
    )
    run_log = opened(sqlite)
    assert (run_log.oldest(), run_log.unread_times > 0) == (NOON, True)


def test_bytes_that_are_no_text_are_shown(sqlite: sa.URL, fill: Fill) -> None:
    """Bytes in a text column that are no UTF-8 come as escapes instead of ending the report."""
    fill(
        sqlite,
        "CREATE TABLE runs (task_id text, task_name text, status text, started_at text)",
        "INSERT INTO runs VALUES ('a', CAST(x'ff41' AS text), 'running', NULL)",
    )
    assert [row.task_name for row in opened(sqlite).open_rows()] == ["\\xffA"]


def test_times_in_summer_and_winter(database: sa.URL, fill: Fill) -> None:
    """The hour that the clock showed twice is the first one, unless the run would have ended before it began."""
    fill(
        database,
        "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at varchar(30), finished_at varchar(30))",
        "INSERT INTO runs VALUES ('a', 'ok', '2026-10-25 02:50:00', '2026-10-25 02:10:00')",
    )
    (row,) = opened(database, time_zone="Europe/Berlin").rows_of({"a"})
    at_midnight = int(dt.datetime(2026, 10, 25, tzinfo=dt.UTC).timestamp())
    assert (row.started_at, row.finished_at) == ((at_midnight + 50 * 60) * 10**6, (at_midnight + 70 * 60) * 10**6)


def test_views_and_schemas(postgres: sa.URL, fill: Fill) -> None:
    """A view is read like a table, and `SCHEMA.TABLE` names one of another schema."""
    fill(
        postgres,
        "CREATE SCHEMA jobs",
        "CREATE TABLE jobs.runs (id serial PRIMARY KEY, task_id text UNIQUE, status text, started_at timestamptz)",
        "CREATE VIEW recent AS SELECT task_id, status, started_at FROM jobs.runs",
        "INSERT INTO jobs.runs (task_id, status) VALUES ('a', 'running')",
    )
    table, view = opened(postgres, table="jobs.runs"), opened(postgres, table="recent")
    assert (table.facts.table, [row.key for row in table.open_rows()]) == ("jobs.runs", ["1"])
    assert (view.facts.table, [row.task_id for row in view.rows_of({"a"})]) == ("recent", ["a"])
    assert (table.one_row_per_id, view.one_row_per_id) == (True, False)


def test_odd_names_are_quoted(database: sa.URL, fill: Fill) -> None:
    """Names that are words of SQL, or hold capitals and blanks, are quoted."""
    quote = sa.create_engine(database).dialect.identifier_preparer.quote
    names = {name: quote(name) for name in ("select", "Task Id", "from", "startedAt")}
    fill(
        database,
        f"CREATE TABLE {names['select']} ({names['Task Id']} varchar(9), {names['from']} varchar(9),"
        f" {names['startedAt']} timestamp NULL)",
        f"INSERT INTO {names['select']} VALUES ('a', 'running', NULL)",
    )
    run_log = opened(database, table="select", columns={"status": "from"})
    assert [row.task_id for row in run_log.open_rows()] == ["a"]


@pytest.mark.parametrize("end", ["", " ; \n", "\n-- by finance"])
def test_a_query_in_the_users_own_words(database: sa.URL, fill: Fill, end: str) -> None:
    """A query stands for a table: colons, per cents, a semicolon and a comment at its end do no harm."""
    fill(
        database,
        "CREATE TABLE jobs (job varchar(36), kind varchar(36), ok int, at timestamp NULL)",
        f"INSERT INTO jobs VALUES ('{ID}', '10:30 sharp', NULL, '2026-11-30 12:00:00')",
        "INSERT INTO jobs VALUES ('b', 'x', 1, '2026-11-30 12:00:00')",
    )
    status = "CASE WHEN ok = 1 THEN 'done' ELSE 'running' END AS status"
    columns = f"job AS task_id, kind AS task_name, at AS started_at, {status}"
    run_log = opened(database, query=f"SELECT {columns} FROM jobs WHERE kind LIKE '%:%'{end}")
    assert [(row.task_id, row.task_name, row.started_at) for row in run_log.open_rows()] == [(ID, "10:30 sharp", NOON)]
    assert [row.state for row in run_log.rows_of({ID, "b"})] == [State.OPEN]
    assert (run_log.facts.table, run_log.facts.rows, run_log.oldest()) == ("the query", 1, NOON)


def test_a_query_may_give_other_types(postgres: sa.URL, fill: Fill) -> None:
    """Of a query the types of the id and the status are seen from a row."""
    fill(
        postgres,
        "CREATE TABLE jobs (id uuid, number bigint, ok boolean, at timestamptz)",
        f"INSERT INTO jobs VALUES ('{ID}', 7, false, now())",
    )
    states = {"open": ["false"]}
    by_uuid = opened(postgres, query="SELECT id, ok AS status, at AS started_at FROM jobs", states=states)
    by_number = opened(
        postgres, query="SELECT number AS task_id, ok AS status, at AS ended_at FROM jobs", states=states
    )
    assert [row.task_id for row in (*by_uuid.rows_of({ID, "x"}), *by_number.rows_of({"7", ID}))] == [ID, "7"]
    assert [row.state for row in (*by_uuid.open_rows(), *by_number.open_rows())] == [State.OPEN, State.OPEN]
