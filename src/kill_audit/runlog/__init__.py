"""The app's run log, wherever it is kept: a table of a database, a query, or a file.

`open_run_log` gives a `reconcile.RunLog`; `open_results` gives Celery's own result table as evidence; `explain` says
how a run log is read.
"""

import os
from collections.abc import Mapping, Sequence

from kill_audit.database import Database
from kill_audit.errors import RunLogError
from kill_audit.reconcile import RunLog
from kill_audit.runlog.cells import CellReader, open_zone
from kill_audit.runlog.explain import Explanation, Lack, explain_file, explain_table
from kill_audit.runlog.files import FileRunLog
from kill_audit.runlog.opening import Layout, choose_results, choose_table, open_place
from kill_audit.runlog.results import ResultRow, Results, SqlResults
from kill_audit.runlog.source import SCAN_AT_MOST, Source
from kill_audit.runlog.sql import SqlRunLog
from kill_audit.runlog.states import StatusWords

__all__ = ["Explanation", "Lack", "ResultRow", "Results", "explain", "open_results", "open_run_log", "results_in"]


def open_run_log(
    url_or_path: str,
    *,
    table: str | None = None,
    query: str | None = None,
    preset: str | None = None,
    columns: Mapping[str, str] | None = None,
    states: Mapping[str, Sequence[str]] | None = None,
    time_zone: str | None = None,
    scan_at_most: int = SCAN_AT_MOST,
    environ: Mapping[str, str] = os.environ,
) -> SqlRunLog | FileRunLog:
    """Open a run log for reading.

    Args:
        url_or_path: a database URL, `@FILE` with one in its first line, or the path of a CSV, Parquet or SQLite file.
        table: the table; needed only where the database has several that look like a run log.
        query: a SELECT in the user's own words, instead of a table.
        preset: the name of a known layout (see `presets`), where it shall not be found by looking.
        columns: field (see `columns.FIELDS`) -> column, where the names are not the usual ones.
        states: state -> status words, besides the usual words.
        time_zone: IANA name of the zone of times that carry none; UTC if not given.
        scan_at_most: rows up to which a table may be read as a whole; a bigger one needs indexes.
        environ: the environment, where passwords may be.

    Raises:
        RunLogError: it cannot be opened, or lacks a table or a column.
    """
    place = open_place(url_or_path, purpose="run-log", environ=environ)
    words, zone = StatusWords(states), open_zone(time_zone)
    if not isinstance(place, Database):
        return FileRunLog(place, given=columns, reader=CellReader(words=words, zone=zone), time_zone=time_zone)
    layout = choose_table(place, table=table, query=query, preset=preset, given=columns)
    source = Source(place, layout.table, scan_at_most=scan_at_most)
    return _sql_run_log(source, layout, words=words, time_zone=time_zone)


def open_results(
    url: str,
    *,
    table: str | None = None,
    time_zone: str | None = None,
    scan_at_most: int = SCAN_AT_MOST,
    environ: Mapping[str, str] = os.environ,
) -> SqlResults:
    """Open Celery's result table, of its SQLAlchemy backend or of django-celery-results.

    Args:
        url: a database URL, `@FILE` with one in its first line, or the path of a SQLite file.
        table: its name, where it is not the usual one.
        time_zone: IANA name of the zone of times that carry none; UTC if not given.
        scan_at_most: rows up to which a table may be read as a whole.
        environ: the environment, where passwords may be.

    Raises:
        RunLogError: it cannot be opened, or is no such table.
    """
    place = open_place(url, purpose="results", environ=environ)
    if not isinstance(place, Database):
        raise RunLogError(f"{place.path} is no database", hint="give --results the URL of Celery's result backend")
    found, known = choose_results(place, table=table)
    reader = CellReader(words=StatusWords(), zone=open_zone(time_zone))
    source = Source(place, found, scan_at_most=scan_at_most)
    return SqlResults(source, preset=known, reader=reader, zone_given=time_zone is not None)


def results_in(run_log: RunLog | None) -> SqlResults | None:
    """Give the stored results that a run log holds, which it does where it is Celery's own table."""
    return run_log.results if isinstance(run_log, SqlRunLog) else None


def explain(
    url_or_path: str,
    *,
    table: str | None = None,
    query: str | None = None,
    preset: str | None = None,
    columns: Mapping[str, str] | None = None,
    states: Mapping[str, Sequence[str]] | None = None,
    time_zone: str | None = None,
    scan_at_most: int = SCAN_AT_MOST,
    environ: Mapping[str, str] = os.environ,
) -> Explanation:
    """Say how a run log is read: the columns chosen, a few rows, what is missing, and the TOML that pins it.

    Args and errors are those of `open_run_log`.
    """
    place = open_place(url_or_path, purpose="run-log", environ=environ)
    words, zone = StatusWords(states), open_zone(time_zone)
    if not isinstance(place, Database):
        reader = CellReader(words=words, zone=zone)
        run_log = FileRunLog(place, given=columns, reader=reader, time_zone=time_zone)
        return explain_file(run_log, url_or_path, zone_given=time_zone is not None)
    layout = choose_table(place, table=table, query=query, preset=preset, given=columns)
    source = Source(place, layout.table, scan_at_most=scan_at_most)
    return explain_table(
        _sql_run_log(source, layout, words=words, time_zone=time_zone),
        source,
        layout,
        zone_given=time_zone is not None,
    )


def _sql_run_log(source: Source, layout: Layout, *, words: StatusWords, time_zone: str | None) -> SqlRunLog:
    preset = layout.preset
    return SqlRunLog(
        source,
        columns=layout.columns,
        reader=CellReader(
            words=words,
            zone=open_zone(time_zone),
            done_is_last_write=preset is not None,
        ),
        preset=preset,
        time_zone=time_zone,
    )
