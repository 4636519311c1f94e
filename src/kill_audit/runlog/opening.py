"""From what the user wrote to a table or a file with a known layout: the choices that `open_run_log` makes.

Rules of this file: what the user named is taken; the rest is found by looking; nothing is guessed between two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kill_audit.database import Database, hidden, is_sqlite_file, locate, sqlite_url
from kill_audit.errors import RunLogError
from kill_audit.runlog import columns as names
from kill_audit.runlog import presets
from kill_audit.runlog.columns import Columns
from kill_audit.runlog.csv_file import CsvFile
from kill_audit.runlog.files import Records
from kill_audit.runlog.parquet_file import PARQUET_MAGIC, ParquetFile
from kill_audit.runlog.presets import Preset, Zone
from kill_audit.runlog.tables import Table, find_table, read_query, read_table

_PLACES = "give a database URL such as sqlite:///FILE or postgresql://USER@HOST/DATABASE, or a CSV or Parquet file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table and what its columns hold. `zone`: what is known of its times; None for an own table of the app."""

    table: Table
    columns: Columns
    preset: Preset | None
    zone: Zone | None


def open_place(place: str, *, purpose: str, environ: Mapping[str, str]) -> Database | Records:
    """Open a database by its URL, or a file by its path; what a file is, its content tells.

    Args:
        place: a URL, `@FILE` (see `database.locate`), or a path.
        purpose: `run-log` or `results`; it names where the password is looked for.
        environ: the environment.

    Raises:
        RunLogError: there is no such file, it cannot be read, or it is no URL of a supported database.
    """
    if "://" in place or place.startswith("@"):
        return Database(locate(place, purpose=purpose, environ=environ), purpose=purpose)
    path = Path(place).expanduser()
    if not path.is_file():
        raise RunLogError(f"there is no file {hidden(place)}", hint=_PLACES)
    try:
        if is_sqlite_file(path):
            return Database(sqlite_url(path), purpose=purpose)
        with path.open("rb") as file:
            magic = file.read(len(PARQUET_MAGIC))
    except OSError as error:
        reason = error.strerror
    else:
        return ParquetFile(path) if magic == PARQUET_MAGIC else CsvFile(path)
    raise RunLogError(f"cannot read {path}: {reason}", hint=f"see who may: ls -l {path}")


def choose_table(
    database: Database,
    *,
    table: str | None = None,
    query: str | None = None,
    preset: str | None = None,
    given: Mapping[str, str] | None = None,
) -> Layout:
    """Choose the table, its preset and its columns.

    Raises:
        RunLogError: the table or a column is not there, or no table or several look like a run log.
    """
    wanted = presets.by_name(preset) if preset else None
    if query is not None:
        found = read_query(database, query)
    elif table or wanted:
        found = read_table(database, table or (wanted.name if wanted else ""))
    else:
        found = find_table(database, given)
    layout = wanted or presets.by_columns(found.types)
    if layout is not None and not layout.needs.issubset(found.types):
        raise RunLogError(
            f"{found.shown} is no {layout.name}: it has no {', '.join(sorted(layout.needs.difference(found.types)))}",
            hint="leave --run-log-preset out, so that the layout is found by looking",
        )
    return Layout(table=found, columns=_columns(found, layout, given), preset=layout, zone=_zone(found, layout))


def choose_results(database: Database, *, table: str | None = None) -> tuple[Table, Preset]:
    """Choose the table of Celery's results.

    Raises:
        RunLogError: it is not there, there are several, or the one that was named is no result table of Celery.
    """
    found = read_table(database, table) if table else find_table(database, results=True)
    preset = presets.by_columns(found.types)
    if preset is None:
        raise RunLogError(
            f"{found.shown} is no result table of Celery; its columns are: {', '.join(found.types)}",
            hint="name another one with --results-table",
        )
    return found, preset


def _columns(table: Table, preset: Preset | None, given: Mapping[str, str] | None) -> Columns:
    available = tuple(table.types)
    if preset is None:
        found = names.find(available, given=given, numbers=table.numbers)
    else:
        found = {**preset.fields(available), **names.checked(available, given)}
    if lack := names.lacking(found):
        raise RunLogError(
            f"{table.shown} lacks {lack}; its columns are: {', '.join(available)}",
            hint="name the columns in the configuration, table [run-log.columns]",
        )
    return Columns(**found, key=table.key)


def _zone(table: Table, preset: Preset | None) -> Zone | None:
    if preset is presets.CELERY:
        return presets.celery_zone(table.types, table.leading)
    return None if preset is None else preset.zone
