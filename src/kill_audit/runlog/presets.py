"""Tables whose makers are known: which column holds what, and what it really says.

Rules of this file: data only. A preset is known by columns, not by the table's name, which apps may change
(`database_table_names` of Celery).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kill_audit.errors import RunLogError


class Zone(StrEnum):
    """What is known of the zone of a preset's times where they carry none."""

    UTC = "utc"
    APP = "app"
    UTC_OR_APP = "utc or app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A known layout.

    `name`: the usual name of the table. `needs`: the columns by which it is known. `columns`: field -> the
    columns that may hold it, by version; the first that is there counts. `open_has_finish`: the finish
    column is set in open rows too. `result`: the column of the serialised
    result. `queue`: the column of the queue. `zone`: see `Zone`.
    """

    name: str
    needs: frozenset[str]
    columns: Mapping[str, tuple[str, ...]]
    open_has_finish: bool
    result: str
    queue: str | None
    zone: Zone

    def fields(self, available: Collection[str]) -> dict[str, str]:
        """Give the columns that are there, by field."""
        found = {name: next((c for c in names if c in available), None) for name, names in self.columns.items()}
        return {name: column for name, column in found.items() if column is not None}


# django_celery_results/models.py: date_done is auto_now (set by every save), date_started came with 2.6, worker with
# 1.2. With USE_TZ the times are UTC, which is the default since Django 5.0; PostgreSQL then keeps the zone itself.
DJANGO: Final = Preset(
    name="django_celery_results_taskresult",
    needs=frozenset({"task_id", "status", "result", "date_done", "content_type", "content_encoding", "meta"}),
    columns={
        "task_id": ("task_id",),
        "task_name": ("task_name",),
        "status": ("status",),
        "started_at": ("date_started",),
        "finished_at": ("date_done",),
        "worker": ("worker",),
    },
    open_has_finish=True,
    result="result",
    queue=None,
    zone=Zone.UTC,
)

# celery/backends/database/models.py: name, worker and queue only with result_extended (4.4 and later). date_done is
# set by any write up to 4.2, since 4.3 by final states only; it is UTC up to 5.4, since 5.5 in the app's `timezone`
# (celery/backends/base.py, _get_result_meta). All that a table shows of its age is whether 5.6.3 or later made it (an
# index on date_done), or 5.7 (the column children).
CELERY: Final = Preset(
    name="celery_taskmeta",
    needs=frozenset({"task_id", "status", "result", "date_done", "traceback"}),
    columns={
        "task_id": ("task_id",),
        "task_name": ("name",),
        "status": ("status",),
        "finished_at": ("date_done",),
        "worker": ("worker",),
    },
    open_has_finish=False,
    result="result",
    queue="queue",
    zone=Zone.UTC_OR_APP,
)

PRESETS: Final = (DJANGO, CELERY)  # the more special one first: a table of the first has all that the second needs


def by_name(name: str) -> Preset:
    """Give the preset of that name.

    Raises:
        RunLogError: there is none.
    """
    for preset in PRESETS:
        if preset.name == name:
            return preset
    names = ", ".join(preset.name for preset in PRESETS)
    raise RunLogError(
        f"there is no preset {name!r}", hint=f"there are: {names}; `kill-audit doctor` finds the right one"
    )


def by_columns(available: Collection[str]) -> Preset | None:
    """Give the preset that a table with these columns belongs to."""
    return next((preset for preset in PRESETS if preset.needs.issubset(available)), None)


def celery_zone(available: Collection[str], indexed: Collection[str]) -> Zone:
    """Say in which zone Celery wrote `date_done`, as far as the columns and indexes of its table show."""
    return Zone.APP if "children" in available or "date_done" in indexed else Zone.UTC_OR_APP
