"""Celery's own result tables, made and filled by Celery's and django-celery-results' own code."""
# ruff: noqa: S608 -- the tests write the statements that make their tables

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from billiard.exceptions import WorkerLostError
from celery import Celery
from celery.app.task import Context
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.errors import RunLogError
from kill_audit.reconcile import State
from kill_audit.runlog import ResultRow, open_results, open_run_log
from kill_audit.runlog.results import read_loss, read_started

Fill = Callable[..., None]

HOUR = 3_600_000_000
LOST = "Worker exited prematurely: signal 9 (SIGKILL) Job: 4."
EVER = (0, 2**52)
DATA = Path(__file__).parent / "data"


def request_of(task_id: str) -> Context:
    """A task's request, as a worker has it when it stores a result."""
    return Context(
        id=task_id,
        task="shop.tasks.mail",
        hostname="a@web1",
        args=[1],
        kwargs={},
        argsrepr="(1,)",
        kwargsrepr="{}",
        retries=0,
        delivery_info={"routing_key": "a"},
    )


def store_all(backend: Any, **options: Any) -> None:
    """Store a result of every kind."""
    results = [
        ("lost", WorkerLostError(LOST), "FAILURE"),
        ("begun", {"pid": 4242, "hostname": "a@web1"}, "STARTED"),
        ("fine", {"loss": 1}, "SUCCESS"),
        ("again", WorkerLostError(LOST), "RETRY"),
        ("quit", WorkerLostError("Worker exited prematurely: exitcode 3."), "FAILURE"),
        ("wrong", ValueError("no"), "FAILURE"),
    ]
    for task_id, result, state in results:
        backend.store_result(task_id, result, state, request=request_of(task_id), **options)


def shown(url: sa.URL) -> str:
    """A URL as a user would write it."""
    return url.render_as_string(hide_password=False)


def now() -> int:
    """Microseconds since the epoch."""
    return int(dt.datetime.now(dt.UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_losses_are_read_from_celery_taskmeta(database: sa.URL, serializer: str) -> None:
    """The text of a loss is found in a result of any serializer; a result that only talks of one is none."""
    app = Celery(backend=f"db+{shown(database)}", set_as_current=False)
    app.conf.update(result_extended=True, result_serializer=serializer, accept_content=["json", "pickle"])
    store_all(app.backend)
    app.backend.ResultSession().get_bind().dispose()
    results = open_results(shown(database))
    found = {row.task_id: row for row in results.losses(*EVER)}
    assert {(key, row.loss, row.job, row.signal, row.exit_code, row.state) for key, row in found.items()} == {
        ("lost", LOST, 4, 9, None, State.FAILED),
        ("again", LOST, 4, 9, None, State.RETRY),
        ("quit", "Worker exited prematurely: exitcode 3.", None, None, 3, State.FAILED),
    }
    assert (found["lost"].task_name, found["lost"].worker, found["lost"].queue) == ("shop.tasks.mail", "a@web1", "a")


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_starts_are_read_from_celery_taskmeta(database: sa.URL, serializer: str) -> None:
    """The pid of the process that began a task is found in a result of any serializer."""
    app = Celery(backend=f"db+{shown(database)}", set_as_current=False)
    app.conf.update(result_serializer=serializer, accept_content=["json", "pickle"])
    store_all(app.backend)
    app.backend.ResultSession().get_bind().dispose()
    assert list(open_results(shown(database)).started()) == [
        ResultRow(
            task_id="begun",
            task_name=None,
            status="STARTED",
            state=State.OPEN,
            worker=None,
            queue=None,
            stored_at=None,
            pid=4242,
            hostname="a@web1",
        )
    ]


def test_celery_taskmeta_is_a_run_log(database: sa.URL) -> None:
    """Celery's own table is found by looking, has one row per id, and keeps no start."""
    app = Celery(backend=f"db+{shown(database)}", set_as_current=False)
    app.conf.update(result_extended=True)
    before = now()
    store_all(app.backend)
    app.backend.ResultSession().get_bind().dispose()
    run_log = open_run_log(shown(database))
    rows = {row.task_id: row for row in run_log.rows_of(["lost", "begun", "fine", "again"])}
    assert (run_log.facts.preset, run_log.facts.table, run_log.one_row_per_id) == (*["celery_taskmeta"] * 2, True)
    assert {(key, row.state, row.started_at, row.finished_at is not None) for key, row in rows.items()} == {
        ("lost", State.FAILED, None, True),
        ("begun", State.OPEN, None, False),
        ("fine", State.DONE, None, True),
        ("again", State.RETRY, None, False),
    }
    assert [row.task_id for row in run_log.open_rows()] == ["begun"]
    assert before <= (run_log.oldest() or 0) <= now() + 1_000_000
    assert list(run_log.finished_twice(*EVER)) == []


def test_date_done_is_in_the_apps_zone(sqlite: sa.URL) -> None:
    """Since 5.5 Celery writes date_done in the app's own zone; given that zone the time is right, else it is not."""
    app = Celery(backend=f"db+{shown(sqlite)}", set_as_current=False)
    app.conf.update(timezone="Asia/Tokyo")
    before = now()
    store_all(app.backend)
    app.backend.ResultSession().get_bind().dispose()
    (right,) = open_run_log(shown(sqlite), time_zone="Asia/Tokyo").rows_of(["fine"])
    (wrong,) = open_run_log(shown(sqlite)).rows_of(["fine"])
    assert before <= (right.finished_at or 0) <= now() + 1_000_000
    assert (wrong.finished_at or 0) - (right.finished_at or 0) == 9 * HOUR


def test_a_renamed_table_is_known_by_its_columns(sqlite: sa.URL, fill: Fill) -> None:
    """Celery's table is known under any name (`database_table_names`)."""
    app = Celery(backend=f"db+{shown(sqlite)}", set_as_current=False)
    store_all(app.backend)
    app.backend.ResultSession().get_bind().dispose()
    fill(sqlite, "ALTER TABLE celery_taskmeta RENAME TO outcomes")
    assert open_run_log(shown(sqlite)).facts.preset == "celery_taskmeta"
    assert len(list(open_results(shown(sqlite), table="outcomes").losses(*EVER))) == 3


@pytest.mark.parametrize(
    ("version", "job", "signal", "ids"),
    [
        ("4.4", 0, 15, ["b3aeb446", "e2b82cf9", "6e7784b3"]),
        ("5.2", 1, 11, ["c97ec2f9"]),
        ("5.7", 0, 15, ["7c2323fb", "00fabe84", "460dfdec"]),
    ],
)
def test_results_of_workers_really_killed(version: str, job: int, signal: int, ids: list[str]) -> None:
    """The table of each version, as it was after workers of that version were killed, tells which tasks were lost."""
    rows = list(open_results(str(DATA / f"results-celery-{version}.sqlite3")).losses(*EVER))
    assert ([row.task_id[:8] for row in rows], rows[0].job, rows[0].signal) == (ids, job, signal)
    assert (rows[0].worker, rows[0].queue) == ("a@web1", "a")


def test_losses_outside_the_span_do_not_come() -> None:
    """A loss counts by the time it was stored; the span includes its begin and not its end."""
    results = open_results(str(DATA / "results-celery-5.2.sqlite3"), time_zone="UTC")
    (loss,) = results.losses(*EVER)
    at = loss.stored_at or 0
    assert at == 1_796_042_281_459_775
    assert [len(list(results.losses(*span))) for span in ((at, at + 1), (at - 1, at), (at + 1, at + 2))] == [1, 0, 0]


def test_losses_in_a_zone_that_is_not_known() -> None:
    """Where nobody gave the zone of times without one, losses of a day more come at both ends."""
    results = open_results(str(DATA / "results-celery-5.2.sqlite3"))
    at, day = 1_796_042_281_459_775, 24 * HOUR
    spans = ((at + day - 1, at + 2 * day), (at + day + 1, at + 2 * day), (at - 2 * day, at - day + 1))
    assert [len(list(results.losses(*span))) for span in spans] == [1, 0, 1]


def test_before_4_3_a_started_row_has_the_time_of_its_start(sqlite: sa.URL, fill: Fill) -> None:
    """Up to 4.2 every write set date_done, so that in a STARTED row it is the start, and in a RETRY row the end."""
    fill(
        sqlite,
        "CREATE TABLE celery_taskmeta (id INTEGER PRIMARY KEY, task_id VARCHAR(155) UNIQUE, status VARCHAR(50),"
        " result BLOB, date_done DATETIME, traceback TEXT)",
        "INSERT INTO celery_taskmeta VALUES (1, 'a', 'STARTED', NULL, '2026-11-30 12:00:00.000000', NULL),"
        " (2, 'b', 'RETRY', NULL, '2026-11-30 12:00:00.000000', NULL)",
    )
    noon = 1_796_040_000_000_000
    rows = open_run_log(shown(sqlite)).rows_of(["a", "b"])
    assert [(row.started_at, row.finished_at) for row in rows] == [(noon, None), (None, noon)]


@given(st.binary() | st.binary().map(lambda tail: b"\x80\x04\x95" + tail) | st.text().map(str.encode))
def test_no_result_ends_the_report(result: bytes) -> None:
    """Whatever bytes stand in a result, reading them never fails."""
    assert set(read_loss(result)) <= {"loss", "job", "signal", "exit_code"}
    pid, hostname = read_started(result)
    assert (pid is None or isinstance(pid, int), hostname is None or isinstance(hostname, str)) == (True, True)


@pytest.mark.parametrize(
    "result",
    [
        b'{"pid": "4242", "hostname": 1}',
        b'{"a":' * 20_000,
        b"cos\nsystem\n(S'touch /tmp/pwned'\ntR.",
        b"",
        b"[1]",
    ],
)
def test_a_result_that_is_no_start_has_no_pid(result: bytes) -> None:
    """A result of another shape gives neither pid nor hostname; a pickle is never carried out."""
    assert read_started(result) == (None, None)


def test_another_table_is_no_result_table(sqlite: sa.URL, fill: Fill) -> None:
    """A table that Celery did not make is refused as a result table, with its columns."""
    fill(sqlite, "CREATE TABLE runs (task_id text, status text, started_at text)")
    with pytest.raises(
        RunLogError, match="runs is no result table of Celery; its columns are: task_id, status, start"
    ):
        open_results(shown(sqlite), table="runs")
    with pytest.raises(RunLogError, match=r"no table of .* looks like a result table of Celery; it has runs"):
        open_results(shown(sqlite))


def test_a_file_is_no_result_table(tmp_path: Path) -> None:
    """Celery's results are in a database; a CSV file is refused."""
    path = tmp_path / "runs.csv"
    path.write_text("task_id,status,started_at\n")
    with pytest.raises(RunLogError, match=r"runs\.csv is no database"):
        open_results(str(path))


def test_results_without_an_id_or_a_result_are_no_evidence(sqlite: sa.URL, fill: Fill) -> None:
    """A row without an id, without a result, or whose base64 is none, is read and tells of no loss."""
    fill(
        sqlite,
        "CREATE TABLE django_celery_results_taskresult (task_id TEXT, status TEXT, result TEXT, date_done TEXT,"
        " content_type TEXT, content_encoding TEXT, meta TEXT)",
        *(
            "INSERT INTO django_celery_results_taskresult (task_id, status, result, content_encoding)"
            f" VALUES ({task_id}, 'FAILURE', {result}, 'binary')"
            for task_id, result in (("NULL", "'x'"), ("'a'", "NULL"), ("'b'", "'é not base64'"), ("'c'", "'x'"))
        ),
    )
    results = open_results(shown(sqlite))
    assert [(row.task_id, row.loss, row.stored_at) for row in results.rows_of(["a", "b", "c", "d"])] == [
        ("a", None, None),
        ("b", None, None),
        ("c", None, None),
    ]
    assert list(results.losses(*EVER)) == []
