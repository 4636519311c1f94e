"""Big tables: read by an index or not at all, streamed, read-only, and in a bounded time."""
# ruff: noqa: S608 -- the tests write the statements that make their tables

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sqlalchemy as sa

from kill_audit.database import Database
from kill_audit.errors import RunLogError
from kill_audit.runlog import open_results, open_run_log
from kill_audit.runlog.sql import SqlRunLog

Fill = Callable[..., None]

NOON = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC
DAY = 86_400_000_000
ROWS = 3000
PLAIN = (
    "CREATE TABLE runs (id int PRIMARY KEY, task_id varchar(36), status varchar(9), started_at timestamp NULL,"
    " finished_at timestamp NULL)"
)


def shown(url: sa.URL) -> str:
    """A URL as a user would write it."""
    return url.render_as_string(hide_password=False)


def opened(url: sa.URL, **options: Any) -> SqlRunLog:
    """Open the run log at a URL; more than ten rows are a big table."""
    run_log = open_run_log(shown(url), scan_at_most=10, **options)
    assert isinstance(run_log, SqlRunLog)
    return run_log


def numbers(url: sa.URL, count: int) -> str:
    """A query of the numbers from 1 to `count`, column n."""
    if url.get_backend_name() == "postgresql":
        return f"SELECT generate_series(1, {count}) AS n"
    limit = "" if url.get_backend_name() == "sqlite" else " LIMIT 1000000"
    return (
        f"WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {count}) SELECT n FROM up{limit}"
    )


def fill_runs(fill: Fill, url: sa.URL, *indexes: str, table: str = PLAIN) -> None:
    """Make a table of 3000 done runs, of which ten are open and two share an id, and put indexes on it."""
    times = "'2026-11-30 12:00:00', CASE WHEN n % 300 = 0 THEN NULL ELSE '2026-11-30 12:30:00' END"
    if url.get_backend_name() == "postgresql":
        times = times.replace("'2026-11-30 12:00:00'", "timestamp '2026-11-30 12:00:00'").replace(
            "'2026-11-30 12:30:00'", "timestamp '2026-11-30 12:30:00'"
        )
    status = "CASE WHEN n % 300 = 0 THEN 'RUNNING' ELSE 'SUCCESS' END"
    task_id = f"CASE WHEN n IN (1, 2) THEN 'twice' ELSE {text_of(url, 'n')} END"
    fill(
        url,
        *(["SET SESSION max_recursive_iterations = 1000000"] if url.get_backend_name() == "mysql" else []),
        table,
        f"INSERT INTO runs SELECT n, {task_id}, {status}, {times} FROM ({numbers(url, ROWS)}) AS numbers",
        *indexes,
        {"postgresql": "ANALYZE runs", "mysql": "ANALYZE TABLE runs", "sqlite": "ANALYZE"}[url.get_backend_name()],
    )


def text_of(url: sa.URL, expression: str) -> str:
    """An expression cast to text."""
    return f"CAST({expression} AS {'char' if url.get_backend_name() == 'mysql' else 'varchar'}(36))"


def ids(rows: Any) -> list[str]:
    """The ids of rows, sorted as numbers."""
    return sorted((row.task_id for row in rows), key=lambda task_id: (len(task_id), task_id))


OPEN_IDS = [str(number) for number in range(300, ROWS + 1, 300)]


def test_with_indexes_a_big_table_answers_all_questions(database: sa.URL, fill: Fill) -> None:
    """A big table with an index on the id, on the status and on the finish time is read by them."""
    fill_runs(
        fill,
        database,
        "CREATE INDEX by_id ON runs (task_id)",
        "CREATE INDEX by_status ON runs (status)",
        "CREATE INDEX by_end ON runs (finished_at)",
    )
    run_log = opened(database)
    assert ids(run_log.rows_of(["300", "twice", "x"])) == ["300", "twice", "twice"]
    assert ids(run_log.open_rows()) == OPEN_IDS
    assert list(run_log.finished_twice(NOON, NOON + DAY)) == [("twice", None, 2)]
    assert run_log.oldest() == NOON + 1_800_000_000


def test_without_an_index_a_big_table_is_refused(database: sa.URL, fill: Fill) -> None:
    """A question that would read the whole of a big table is refused, with the statement that makes the index."""
    fill_runs(fill, database)
    run_log = opened(database)
    questions: dict[str, Callable[[], Iterable[object]]] = {
        "task_id": lambda: run_log.rows_of(["300"]),
        "finished_at": run_log.open_rows,
        "finished_at ": lambda: run_log.finished_twice(NOON, NOON + DAY),
    }
    concurrently = "CONCURRENTLY " if database.get_backend_name() == "postgresql" else ""
    for name, question in questions.items():
        column = name.strip()
        with pytest.raises(RunLogError, match=r"runs has about [0-9,]+ rows and no index to find .* by") as refusal:
            list(question())
        assert refusal.value.hint == f"CREATE INDEX {concurrently}runs_{column} ON runs ({column});"


def test_open_rows_by_the_index_on_the_finish(database: sa.URL, fill: Fill) -> None:
    """With an index on the finish time alone, the open rows of a big table are those without a finish time."""
    fill_runs(fill, database, "CREATE INDEX by_end ON runs (finished_at)")
    fill(database, "UPDATE runs SET finished_at = started_at WHERE id = 300")
    assert ids(opened(database).open_rows()) == OPEN_IDS[1:]
    assert ids(open_run_log(shown(database)).open_rows()) == OPEN_IDS


def test_without_a_time_index_the_first_row_is_the_oldest(database: sa.URL, fill: Fill) -> None:
    """A big table without an index on its times still has a numbered key, whose first row is the oldest."""
    fill_runs(fill, database)
    assert opened(database).oldest() == NOON


def test_without_any_order_the_oldest_row_is_not_looked_for(database: sa.URL, fill: Fill) -> None:
    """A big table with neither a time index nor a numbered key is not searched for its oldest row."""
    fill_runs(fill, database, table=PLAIN.replace(" PRIMARY KEY", ""))
    with pytest.raises(RunLogError, match="no index to find the oldest row by"):
        opened(database).oldest()


def test_open_rows_by_the_index_on_the_start(database: sa.URL, fill: Fill) -> None:
    """With an index on the start alone, the open rows of a big table come since a moment, and are refused without."""
    fill_runs(fill, database, "CREATE INDEX by_start ON runs (started_at)")
    run_log = opened(database)
    assert ids(run_log.open_rows(NOON)) == OPEN_IDS
    assert ids(run_log.open_rows(NOON + 3 * DAY)) == []
    with pytest.raises(RunLogError, match="no index to find the rows still open by"):
        list(run_log.open_rows())


def test_duplicates_by_the_index_on_the_start(database: sa.URL, fill: Fill) -> None:
    """With an index on the start alone, the ids that finished twice are those of runs of the week before."""
    fill_runs(fill, database, "CREATE INDEX by_start ON runs (started_at)", "CREATE INDEX by_id ON runs (task_id)")
    run_log = opened(database)
    assert list(run_log.finished_twice(NOON, NOON + DAY)) == [("twice", None, 2)]
    assert list(run_log.finished_twice(NOON + 9 * DAY, NOON + 10 * DAY)) == []


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_a_partial_index_serves(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """The server's own plan tells that a partial index serves, which the catalogue alone would not."""
    url: sa.URL = request.getfixturevalue(place)
    fill_runs(fill, url, "CREATE INDEX of_open ON runs (id) WHERE status IN ('RUNNING', 'PENDING')")
    query = "SELECT * FROM runs WHERE status IN ('RUNNING', 'PENDING')"
    assert ids(opened(url, query=query).open_rows()) == OPEN_IDS


def test_a_view_is_indexed_below(database: sa.URL, fill: Fill) -> None:
    """No index can be put on a view; the refusal says to put it below."""
    fill_runs(fill, database, "CREATE VIEW seen AS SELECT * FROM runs")
    with pytest.raises(RunLogError, match="seen has about") as refusal:
        list(opened(database, table="seen").rows_of(["300"]))
    assert refusal.value.hint == "put an index below seen, on what it shows as task_id"


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_a_small_table_in_a_view_may_be_read_whole(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """What is refused is reading many rows from begin to end, not a small table that a view joins."""
    url: sa.URL = request.getfixturevalue(place)
    fill_runs(
        fill,
        url,
        "CREATE INDEX by_id ON runs (task_id)",
        "CREATE TABLE names (task_name varchar(9))",
        "INSERT INTO names VALUES ('mail')",
        "CREATE VIEW seen AS SELECT * FROM runs CROSS JOIN names",
        "ANALYZE names" if place == "postgres" else "ANALYZE TABLE names",
    )
    assert ids(open_run_log(shown(url), table="seen", scan_at_most=2000).rows_of(["300", "x"])) == ["300"]


def test_status_types_keep_their_index(postgres: sa.URL, fill: Fill) -> None:
    """A number or a label of an enumerated type is compared as such, so that an index on it serves."""
    fill(
        postgres,
        "CREATE TYPE state AS ENUM ('open', 'running', 'success')",
        "CREATE TABLE runs (task_id text, status state, code int, started_at timestamp)",
        "INSERT INTO runs SELECT n::text, (CASE WHEN n = 7 THEN 'running' ELSE 'success' END)::state, n, now()"
        " FROM generate_series(1, 3000) AS n",
        "CREATE INDEX by_status ON runs (status)",
        "CREATE INDEX by_code ON runs (code)",
    )
    assert ids(opened(postgres).open_rows()) == ["7"]
    by_code = opened(postgres, columns={"status": "code"}, states={"open": ["8"]})
    assert ids(by_code.open_rows()) == ["8"]


def test_results_of_a_big_table_need_an_index(sqlite: sa.URL, fill: Fill) -> None:
    """Celery's table before 5.6.3 has no index on date_done; once big it is refused with the remedy."""
    twenty = numbers(sqlite, 20)
    fill(
        sqlite,
        "CREATE TABLE celery_taskmeta (id INTEGER PRIMARY KEY, task_id VARCHAR(155) UNIQUE, status VARCHAR(50),"
        " result BLOB, date_done DATETIME, traceback TEXT)",
        f"INSERT INTO celery_taskmeta SELECT n, n, 'FAILURE', NULL, '2026-11-30 12:00', NULL FROM ({twenty})",
    )
    results = open_results(shown(sqlite), scan_at_most=10)
    questions: list[Callable[[], Iterable[object]]] = [lambda: results.losses(NOON, NOON + DAY), results.started]
    for question in questions:
        with pytest.raises(RunLogError) as refusal:
            list(question())
        assert refusal.value.hint == "CREATE INDEX celery_taskmeta_date_done ON celery_taskmeta (date_done);"
    fill(
        sqlite,
        "CREATE INDEX by_time ON celery_taskmeta (date_done)",
        "UPDATE celery_taskmeta SET status = 'STARTED', date_done = NULL WHERE id = 7",
        "UPDATE celery_taskmeta SET result = 'Worker exited prematurely: exitcode 0 Job: 3.' WHERE id = 8",
    )
    results = open_results(shown(sqlite), scan_at_most=10)
    assert [(row.task_id, row.job) for row in (*results.losses(NOON, NOON + DAY), *results.started())] == [
        ("8", 3),
        ("7", None),
    ]


def test_a_count_of_a_big_table_is_an_estimate(database: sa.URL, fill: Fill) -> None:
    """The rows of a big table are not counted: the server's estimate is told, or that there are more than are read."""
    fill_runs(fill, database)
    rows = opened(database).facts.rows or 0
    assert rows == 11 if database.get_backend_name() == "sqlite" else 2000 < rows < 4000


@pytest.mark.parametrize("words", ["INSERT INTO runs (id) VALUES (1)", "DELETE FROM runs", "DROP TABLE runs"])
def test_nothing_can_be_written(database: sa.URL, fill: Fill, words: str) -> None:
    """A statement that would write is refused by the database itself."""
    fill(database, PLAIN)
    with pytest.raises(RunLogError, match=r"(?i)read.?only"):
        Database(database, purpose="run-log").run(lambda connection: connection.exec_driver_sql(words).rowcount)


@pytest.mark.parametrize(("place", "sleep"), [("postgres", "pg_sleep(60)"), ("mariadb", "sleep(60)")])
def test_a_statement_that_takes_too_long_is_given_up(request: pytest.FixtureRequest, place: str, sleep: str) -> None:
    """A server gives up a statement after the time limit, and the error says that an index may be missing."""
    url: sa.URL = request.getfixturevalue(place)
    database = Database(url, purpose="run-log", statement_timeout_s=1)
    with pytest.raises(RunLogError, match=r"statement timeout|max_statement_time") as refusal:
        database.run(lambda connection: connection.exec_driver_sql(f"SELECT {sleep}").scalar())
    assert refusal.value.hint.startswith("an index may be missing; see which with kill-audit doctor --run-log ")


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_a_server_that_dies_while_it_is_read(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """A connection that breaks in the midst of the rows ends them with one clear line."""
    url: sa.URL = request.getfixturevalue(place)
    fill_runs(fill, url)
    rows = open_run_log(shown(url), states={"open": ["success"]}).open_rows()
    first = next(iter(rows))
    if place == "postgres":
        others = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        fill(url, f"SELECT pg_terminate_backend(pid) FROM {others}")
    else:
        kill_others(url)
    with pytest.raises(
        RunLogError, match=r"^(postgresql|mysql)://\w+:\*\*\*@127\.0\.0\.1:\d+/app_\d+: \S.*"
    ) as broken:
        list(rows)
    assert (first.task_id is not None, "\n" in broken.value.message) == (True, False)


def kill_others(url: sa.URL) -> None:
    """End all other connections to a MariaDB database."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        seen = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        for (number,) in connection.exec_driver_sql(seen).all():
            connection.exec_driver_sql(f"KILL {number}")


def test_rows_of_postgresql_are_streamed(postgres: sa.URL) -> None:
    """The first rows come although a later row, which the server has not reached yet, cannot be made."""
    columns = "n::text AS task_id, 'running' AS status, (1 / (4000 - n))::text AS task_name, now() AS started_at"
    query = f"SELECT {columns} FROM generate_series(1, 5000) AS n"
    rows = iter(open_run_log(shown(postgres), query=query, scan_at_most=1).open_rows())
    assert next(rows).task_id == "1"
    with pytest.raises(RunLogError, match="division by zero"):
        list(rows)


def test_rows_of_mariadb_are_streamed(mariadb: sa.URL, fill: Fill) -> None:
    """The server is still sending when the first row has come."""
    fill(
        mariadb,
        "CREATE TABLE runs (task_id varchar(9), task_name text, status varchar(9), started_at datetime)",
        f"INSERT INTO runs SELECT n, repeat('x', 30000), 'running', now() FROM ({numbers(mariadb, 999)}) AS numbers",
    )
    rows = open_run_log(shown(mariadb)).open_rows()
    next(iter(rows))
    engine = sa.create_engine(mariadb, poolclass=sa.NullPool)
    with engine.connect() as connection:
        others = (
            "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND info LIKE 'SELECT runs.%%'"
        )
        assert connection.exec_driver_sql(others).scalar() == 1
