"""One contract for every place and every design of a run log: the same runs come out as the same rows."""

import csv
import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from kill_audit.reconcile import Row, RunLog, State
from kill_audit.runlog import open_run_log

SECOND = 1_000_000
NOON = 1_796_040_000 * SECOND  # 2026-11-30 12:00:00 UTC
LONG_ID = "x" * 500
NAME = "shop.tasks.mail"


def run(task_id: str | None, status: str | None, *times: int | None, name: str | None = NAME) -> dict[str, object]:
    """A run with its start and finish in seconds after noon."""
    return {
        "task_id": task_id,
        "task_name": name,
        "status": status,
        "started_at": moment(times[0]),
        "finished_at": moment(times[1]),
        "worker": "a@web1",
    }


def moment(seconds: int | None) -> dt.datetime | None:
    """So many seconds after noon as a time without a zone."""
    if seconds is None:
        return None
    return dt.datetime.fromtimestamp(NOON // SECOND + seconds, dt.UTC).replace(tzinfo=None, microsecond=366920)


def row(task_id: str | None, status: str | None, state: State, *times: int | None, name: str | None = NAME) -> Row:
    """What that run must come out as."""
    return Row(
        key="",
        task_id=task_id,
        task_name=name,
        status=status,
        state=state,
        started_at=None if times[0] is None else NOON + times[0] * SECOND + 366920,
        finished_at=None if times[1] is None else NOON + times[1] * SECOND + 366920,
        worker="a@web1",
    )


# One row a run, inserted at its start and updated at its end.
ONE_ROW_A_RUN = [
    run("killed", "running", 0, None),
    run("fine", "success", 10, 20),
    run("twice", "Success", 30, 40),
    run("twice", "SUCCESS", 50, 60, name=None),
    run("later", "running", 70, None),
    run("later", "success", 80, 90),
    run("broken", "Failure", 100, 110),
    run("stopped", "REVOKED", 120, 130),
    run("again", "retry", 140, 150),
    run("odd", "on hold", 160, None),
    run(LONG_ID, "In Progress", 170, None),
    run("blank", None, 180, None),
    run("blank, done", None, 190, 200),
    run(None, "running", 210, None),
    run("from the future", "running", 10**8, None),
    run("no times", "queued", None, None),
]

Keep = Callable[[list[dict[str, object]]], RunLog]


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "csv", "parquet"])
def keep(request: pytest.FixtureRequest, tmp_path: Path, fill: Callable[..., None]) -> Keep:
    """Keeps runs in a database or a file of each kind, and opens it as a run log."""
    place: str = request.param
    if place in {"csv", "parquet"}:
        return lambda runs: open_run_log(write(runs, tmp_path / f"runs.{place}"))
    url: sa.URL = request.getfixturevalue(place)

    def in_table(runs: list[dict[str, object]]) -> RunLog:
        micros = sa.DateTime().with_variant(sa.dialects.mysql.DATETIME(fsp=6), "mysql", "mariadb")
        table = sa.Table(
            "runs",
            sa.MetaData(),
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("task_id", sa.String(500), index=True),
            sa.Column("task_name", sa.String(255)),
            sa.Column("status", sa.String(20)),
            sa.Column("started_at", micros),
            sa.Column("finished_at", micros),
            sa.Column("worker", sa.String(100)),
        )
        fill(url, table, rows=runs)
        return open_run_log(url.render_as_string(hide_password=False))

    return in_table


def write(runs: list[dict[str, object]], path: Path) -> str:
    """Write runs to a CSV or Parquet file."""
    if path.suffix == ".parquet":
        names = list(ONE_ROW_A_RUN[0])
        types = {name: pa.timestamp("us") if name.endswith("_at") else pa.string() for name in names}
        pq.write_table(pa.Table.from_pylist(runs, schema=pa.schema(list(types.items()))), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(ONE_ROW_A_RUN[0]))
            writer.writeheader()
            writer.writerows(runs)
    return str(path)


def told(rows: Iterable[Row]) -> list[Row]:
    """What rows tell, beside their keys, in an order of its own."""
    return sorted((replace(row, key="") for row in rows), key=repr)


def test_every_status_and_time_is_read(keep: Keep) -> None:
    """A row has the state of its status word in any case; without a word it is open until it has a finish time."""
    ids = {str(run["task_id"]) for run in ONE_ROW_A_RUN if run["task_id"]}
    assert told(keep(ONE_ROW_A_RUN).rows_of(ids)) == told(
        [
            row("killed", "running", State.OPEN, 0, None),
            row("fine", "success", State.DONE, 10, 20),
            row("twice", "Success", State.DONE, 30, 40),
            row("twice", "SUCCESS", State.DONE, 50, 60, name=None),
            row("later", "running", State.OPEN, 70, None),
            row("later", "success", State.DONE, 80, 90),
            row("broken", "Failure", State.FAILED, 100, 110),
            row("stopped", "REVOKED", State.REVOKED, 120, 130),
            row("again", "retry", State.RETRY, 140, 150),
            row("odd", "on hold", State.OTHER, 160, None),
            row(LONG_ID, "In Progress", State.OPEN, 170, None),
            row("blank", None, State.OPEN, 180, None),
            row("blank, done", None, State.DONE, 190, 200),
            row("from the future", "running", State.OPEN, 10**8, None),
            row("no times", "queued", State.OPEN, None, None),
        ]
    )


def test_only_the_ids_asked_for_come(keep: Keep) -> None:
    """Rows of other ids do not come, nor of ids that differ in case or in a trailing blank."""
    run_log = keep(ONE_ROW_A_RUN)
    assert told(run_log.rows_of({"fine", "unheard of", "Killed", "killed ", "", "a\0b", "\ud800"})) == [
        row("fine", "success", State.DONE, 10, 20)
    ]


def test_no_ids_no_rows(keep: Keep) -> None:
    """Asked for no ids, a run log gives no rows."""
    assert list(keep(ONE_ROW_A_RUN).rows_of(())) == []


def test_more_ids_than_one_statement_takes(keep: Keep) -> None:
    """Thousands of ids are asked for in batches, and each row comes once."""
    runs = [run(f"id-{number}", "success", number, number) for number in range(1203)]
    assert sorted(found.task_id or "" for found in keep(runs).rows_of([f"id-{n}" for n in range(3000)])) == sorted(
        str(run["task_id"]) for run in runs
    )


def test_rows_without_an_id_come_by_name_and_time(keep: Keep) -> None:
    """Rows that hold no id come by the task's name, from a day around the span where the zone is not known."""
    run_log = keep([*ONE_ROW_A_RUN, run(None, "success", 300, 310, name="other"), run(None, None, None, None)])
    day = 86_400 * SECOND
    assert told(run_log.rows_without_id({NAME}, NOON, NOON + SECOND)) == [row(None, "running", State.OPEN, 210, None)]
    assert told(run_log.rows_without_id({"unheard of"}, NOON, NOON + SECOND)) == []
    assert told(run_log.rows_without_id({NAME}, NOON + 3 * day, NOON + 4 * day)) == []


def test_times_without_a_zone_are_known_as_such(keep: Keep) -> None:
    """Times without a zone leave it open in which zone they are."""
    run_log = keep(ONE_ROW_A_RUN)
    list(run_log.rows_of({"fine"}))
    assert not run_log.knows_its_zone


def test_a_run_log_without_times_is_in_any_zone(keep: Keep) -> None:
    """Where no row tells a time there is no zone to know."""
    run_log = keep([run("a", "queued", None, None)])
    list(run_log.rows_of({"a"}))
    assert run_log.knows_its_zone


def test_open_rows_are_all_that_may_still_run(keep: Keep) -> None:
    """Open are the rows whose word says so, with or without an id, and those with neither word nor finish."""
    assert told(keep(ONE_ROW_A_RUN).open_rows()) == told(
        [
            row("killed", "running", State.OPEN, 0, None),
            row("later", "running", State.OPEN, 70, None),
            row(LONG_ID, "In Progress", State.OPEN, 170, None),
            row("blank", None, State.OPEN, 180, None),
            row(None, "running", State.OPEN, 210, None),
            row("from the future", "running", State.OPEN, 10**8, None),
            row("no times", "queued", State.OPEN, None, None),
        ]
    )


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (0, 100, [("twice", "shop.tasks.mail", 2)]),
        (40, 61, [("twice", "shop.tasks.mail", 2)]),
        (41, 100, []),
        (0, 60, []),
        (-(10**12), 10**12, [("twice", "shop.tasks.mail", 2)]),
    ],
)
def test_finished_twice_counts_finishes_in_the_window(
    keep: Keep, since: int, until: int, expected: list[tuple[str, str, int]]
) -> None:
    """An id finished twice has more than one done row whose finish lies in the window, ends counted like a range."""
    found = keep(ONE_ROW_A_RUN).finished_twice(NOON + since * SECOND, NOON + until * SECOND)
    assert list(found) == expected


def test_oldest_is_the_first_moment_of_any_row(keep: Keep) -> None:
    """The oldest moment is the least start or finish of all rows."""
    assert keep(ONE_ROW_A_RUN[1:]).oldest() == NOON + 10 * SECOND + 366920


def test_an_empty_run_log_reaches_back_for_ever(keep: Keep) -> None:
    """A run log without rows has no oldest moment, and answers every question with nothing."""
    run_log = keep([])
    assert (run_log.oldest(), run_log.facts.rows) == (None, 0)
    assert [*run_log.rows_of({"x"}), *run_log.open_rows(), *run_log.finished_twice(0, NOON * 2)] == []


def test_facts_count_the_rows(keep: Keep) -> None:
    """The facts say how many rows there are, and in which zone times without one are read."""
    facts = keep(ONE_ROW_A_RUN).facts
    assert (facts.rows, facts.time_zone, facts.preset, facts.skew_s) == (16, "UTC", None, None)


def test_keys_tell_rows_apart(keep: Keep) -> None:
    """Every row has a key of its own, the same whichever question it answers."""
    run_log = keep(ONE_ROW_A_RUN)
    by_id = {found.key: found for found in run_log.rows_of({"killed", "later", "twice"})}
    still_open = {found.key: found for found in run_log.open_rows()}
    assert len(by_id) == 5
    assert {key: found for key, found in by_id.items() if found.state is State.OPEN} == {
        key: found for key, found in still_open.items() if found.task_id in {"killed", "later"}
    }


def test_unknown_words_are_named(keep: Keep) -> None:
    """A status word that nobody explained is named, so that the user can explain it."""
    run_log: Any = keep(ONE_ROW_A_RUN)
    assert run_log.unknown_states == ("on hold",)


def test_several_rows_of_an_id_show(keep: Keep) -> None:
    """Where an id has two rows, the run log is not one of one row per id."""
    assert not keep(ONE_ROW_A_RUN).one_row_per_id
