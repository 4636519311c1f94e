"""The table of django-celery-results, made by its own migrations and filled by its own backend."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import django
import pymysql
import pytest
import sqlalchemy as sa
from billiard.exceptions import WorkerLostError
from celery import Celery
from celery.app.task import Context
from django.conf import settings

from kill_audit.reconcile import State
from kill_audit.runlog import open_results, open_run_log

LOST = "Worker exited prematurely: signal 9 (SIGKILL) Job: 4."
EVER = (0, 2**52)
NAME = "django_celery_results_taskresult"

MakeBackend = Callable[..., Any]


@pytest.fixture
def backend(database: sa.URL) -> Iterator[MakeBackend]:
    """Makes a backend of django-celery-results on a database of each kind."""
    if not settings.configured:
        # Django asks for mysqlclient; PyMySQL stands in for it under its own older number.
        pymysql.version_info = (2, 2, 1, "final", 0)
        pymysql.install_as_MySQLdb()
        settings.configure(INSTALLED_APPS=["django_celery_results"], USE_TZ=True, DATABASES={})
        django.setup()
    from django.core.management import call_command
    from django.db import connections
    from django_celery_results.backends import DatabaseBackend

    engines = {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql"}
    alias = f"{database.get_backend_name()} {database.database}"
    connections.databases[alias] = connections.configure_settings(
        {
            "default": {},
            alias: {
                "ENGINE": f"django.db.backends.{engines[database.get_backend_name()]}",
                "NAME": str(database.database),
                "USER": database.username or "",
                "PASSWORD": database.password or "",
                "HOST": database.host or "",
                "PORT": str(database.port or ""),
            },
        }
    )[alias]

    def make(**conf: Any) -> Any:
        call_command("migrate", database=alias, verbosity=0)
        app = Celery(backend="rpc", set_as_current=False)
        app.conf.update(accept_content=["json", "pickle"], **conf)
        made = DatabaseBackend(app)

        def store(task_id: str, result: object, state: str) -> None:
            request = Context(id=task_id, task="shop.tasks.mail", hostname="a@web1", args=[1], kwargs={}, retries=0)
            made.store_result(task_id, result, state, request=request, using=alias)

        return store

    yield make
    connections[alias].close()


def shown(url: sa.URL) -> str:
    """A URL as a user would write it."""
    return url.render_as_string(hide_password=False)


def now() -> int:
    """Microseconds since the epoch."""
    return int(dt.datetime.now(dt.UTC).timestamp()) * 1_000_000


def test_the_table_of_django_celery_results_is_a_run_log(database: sa.URL, backend: MakeBackend) -> None:
    """Its table is found by looking; an open row began when it was stored, and every write sets date_done."""
    store = backend(result_extended=True)
    before = now()
    store("begun", {"pid": 4242, "hostname": "a@web1"}, "STARTED")
    store("fine", {"pid": 4242, "hostname": "a@web1"}, "STARTED")
    store("fine", None, "SUCCESS")
    store("lost", WorkerLostError(LOST), "FAILURE")
    run_log = open_run_log(shown(database))
    rows = {row.task_id: row for row in run_log.rows_of(["begun", "fine", "lost"])}
    assert (run_log.facts.preset, run_log.facts.table, run_log.one_row_per_id) == (NAME, NAME, True)
    assert {(key, row.state, row.started_at is None, row.finished_at is None) for key, row in rows.items()} == {
        ("begun", State.OPEN, False, True),
        ("fine", State.DONE, False, False),
        ("lost", State.FAILED, True, False),
    }
    moments = [rows["begun"].started_at, rows["fine"].started_at, rows["fine"].finished_at, rows["lost"].finished_at]
    assert all(before <= (moment or 0) <= now() + 1_000_000 for moment in moments)
    assert (rows["lost"].task_name, rows["lost"].worker) == ("shop.tasks.mail", "a@web1")
    assert [row.task_id for row in run_log.open_rows()] == ["begun"]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_losses_and_starts_are_read(database: sa.URL, backend: MakeBackend, serializer: str) -> None:
    """Losses and pids are found in results of any serializer, also those kept in base64."""
    store = backend(result_serializer=serializer)
    store("lost", WorkerLostError(LOST), "FAILURE")
    store("begun", {"pid": 4242, "hostname": "a@web1"}, "STARTED")
    results = open_results(shown(database))
    assert [(row.task_id, row.job, row.signal, row.task_name) for row in results.losses(*EVER)] == [
        ("lost", 4, 9, None)
    ]
    assert [(row.task_id, row.pid, row.hostname) for row in results.started()] == [("begun", 4242, "a@web1")]
    assert [row.task_id for row in results.rows_of(["lost", "x"])] == ["lost"]
