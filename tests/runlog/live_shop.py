"""A shop whose worker is really killed: run logs of its own in four designs, and a result table of Celery's.

The worker of `live_workers` runs it, on the database that SHOP_DATABASE names; results go to SHOP_RESULTS.
"""

import datetime as dt
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from celery import Celery, Task
from celery.signals import worker_init
from sqlalchemy.dialects import mysql
from sqlalchemy.pool import NullPool

FOLDER: Final = Path(os.environ["SHOP_FOLDER"])
RESULTS: Final = os.environ["SHOP_RESULTS"]
DATABASE: Final = sa.make_url(os.environ["SHOP_DATABASE"])

app = Celery("shop", broker="filesystem://", backend=RESULTS)
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "queue"),
        "data_folder_out": str(FOLDER / "queue"),
        "control_folder": str(FOLDER / "control"),
    },
    broker_connection_retry_on_startup=True,
    worker_lost_wait=0.5,  # seconds until a dead child's task is given up; ten by default
    task_track_started="SHOP_TRACK_STARTED" in os.environ,
    result_extended="SHOP_EXTENDED" in os.environ,
    result_serializer=os.environ.get("SHOP_SERIALIZER", "json"),
    result_accept_content=["json", "pickle"],
)

_MICROS: Final = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_METADATA: Final = sa.MetaData()


def _table(name: str, *, one_row_per_id: bool) -> sa.Table:
    return sa.Table(
        name,
        _METADATA,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("task_id", sa.String(64), unique=one_row_per_id, index=not one_row_per_id),
        sa.Column("task_name", sa.String(100)),
        sa.Column("status", sa.String(20)),
        sa.Column("started_at", _MICROS),
        sa.Column("finished_at", _MICROS),
        sa.Column("worker", sa.String(100)),
    )


UPDATED: Final = (_table("runs_updated", one_row_per_id=False), _table("ids_updated", one_row_per_id=True))
AT_END: Final = (_table("runs_at_end", one_row_per_id=False), _table("ids_at_end", one_row_per_id=True))
_ENGINE: Final = sa.create_engine(DATABASE, poolclass=NullPool)


@worker_init.connect  # type: ignore[untyped-decorator]
def make_tables(**_about: object) -> None:
    """Make the tables before any child is forked: the shop's own, and those of django-celery-results."""
    _METADATA.create_all(_ENGINE)
    if RESULTS == "django-db":
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        connections.close_all()


class Logged(Task):  # type: ignore[misc]
    """A task that keeps a row of each run, and leaves a file that says which process began it."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the task between the row of its start and that of its end."""
        begun, about = _now(), self._about()
        _write(UPDATED, {**about, "status": "running", "started_at": begun})
        _say_begun(about["task_id"])
        told = super().__call__(*args, **kwargs)
        done = {**about, "status": "success", "finished_at": _now()}
        _write(UPDATED, {**done, "started_at": begun}, same_run=True)
        _write(AT_END, {**done, "started_at": begun})
        return told

    def _about(self) -> dict[str, Any]:
        return {"task_id": self.request.id, "task_name": self.name, "worker": self.request.hostname}


def _write(tables: Sequence[sa.Table], row: dict[str, Any], *, same_run: bool = False) -> None:
    """Insert a row, or overwrite that of the same run, and where an id has one row that of the same id."""
    with _ENGINE.begin() as connection:
        for table in tables:
            same = table.c.task_id == row["task_id"]
            if not table.c.task_id.unique:
                same = sa.and_(same, table.c.started_at == row["started_at"])
            overwrite = table.update().where(same).values(**{"finished_at": None, **row})
            if (same_run or table.c.task_id.unique) and connection.execute(overwrite).rowcount:
                continue
            connection.execute(table.insert().values(**row))


def _now() -> dt.datetime:
    """Give the time as the column keeps it: a moment in PostgreSQL, UTC that does not say so elsewhere."""
    now = dt.datetime.now(dt.UTC)
    return now if DATABASE.get_backend_name() == "postgresql" else now.replace(tzinfo=None)


def _say_begun(task_id: str) -> None:
    """Leave a file, which appears whole, with the pid of this process; the first run of an id, and the second."""
    path = FOLDER / f"begun-{task_id}-{2 if _has_begun_before(task_id) else 1}"
    path.with_suffix(".part").write_text(str(os.getpid()))
    path.with_suffix(".part").rename(path)


def _has_begun_before(task_id: str) -> bool:
    return (FOLDER / f"begun-{task_id}-1").exists()


@app.task(base=Logged, name="shop.tasks.fine")  # type: ignore[untyped-decorator]
def fine() -> str:
    """Do nothing, at once."""
    return "done"


@app.task(base=Logged, name="shop.tasks.slow")  # type: ignore[untyped-decorator]
def slow() -> None:
    """Last until killed; acknowledged when it began, so that nobody runs it again."""
    time.sleep(600)


@app.task(base=Logged, name="shop.tasks.late", bind=True, acks_late=True, reject_on_worker_lost=True)  # type: ignore[untyped-decorator]
def late(self: Any) -> str:
    """Last until killed; delivered again then, and done at once."""
    if not (FOLDER / f"begun-{self.request.id}-2").exists():
        time.sleep(600)
    return "done the second time"


if RESULTS == "django-db":
    import django
    import pymysql
    from django.conf import settings

    pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for mysqlclient, and for a release of its own numbers
    pymysql.install_as_MySQLdb()
    settings.configure(
        INSTALLED_APPS=["django_celery_results"],
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends."
                + {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql"}[DATABASE.get_backend_name()],
                "NAME": str(DATABASE.database),
                "USER": DATABASE.username or "",
                "PASSWORD": DATABASE.password or "",
                "HOST": DATABASE.host or "",
                "PORT": str(DATABASE.port or ""),
            }
        },
    )
    django.setup()
