"""Cells, status words, ids and names of columns: what needs no place."""
# ruff: noqa: DTZ001 -- times without a zone are the point

import datetime as dt
import decimal
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from kill_audit.reconcile import State
from kill_audit.runlog import columns
from kill_audit.runlog.cells import CellReader, open_zone, text
from kill_audit.runlog.ids import IdColumn
from kill_audit.runlog.presets import CELERY, DJANGO, PRESETS, Zone, by_columns, celery_zone
from kill_audit.runlog.states import USUAL_WORDS, StatusWords

NOON = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC


def reader(zone: str | None = None) -> CellReader:
    """A reader of cells in a zone."""
    return CellReader(words=StatusWords(), zone=open_zone(zone))


@pytest.mark.parametrize(
    "cell",
    [
        dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC),
        dt.datetime(2026, 11, 30, 7, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
        dt.datetime(2026, 11, 30, 12),
        "2026-11-30T12:00:00Z",
        "2026-11-30 12:00:00.000000",
        "2026-11-30 12:00:00+00",
        " 2026-11-30 12:00 UTC ",
        b"2026-11-30 12:00:00",
        1_796_040_000,
        1_796_040_000.0,
        "1796040000",
        "1796040000.000",
        1_796_040_000_000,
        1_796_040_000_000_000,
        1_796_040_000_000_000_000,
        decimal.Decimal(1_796_040_000),
    ],
)
def test_a_time_is_read_in_every_form(cell: object) -> None:
    """A time may be a datetime, ISO 8601, or a number of seconds, milli-, micro- or nanoseconds since the epoch."""
    assert reader().moment(cell) == NOON


@pytest.mark.parametrize(
    "cell", ["soon", "30/11/2026", "2026-13-01", True, float("nan"), float("inf"), b"\xff", object()]
)
def test_what_is_no_time_is_counted(cell: object) -> None:
    """A cell that is no time counts as not there, and is counted."""
    cells = reader()
    assert (cells.moment(cell), cells.unread_times) == (None, 1)


@pytest.mark.parametrize("cell", [None, ""])
def test_an_empty_cell_is_no_time(cell: object) -> None:
    """An empty cell is no time, and is not counted as one that could not be read."""
    cells = reader()
    assert (cells.moment(cell), cells.unread_times) == (None, 0)


def test_a_day_is_its_midnight() -> None:
    """A date without a time is the begin of that day in the zone."""
    assert reader("Asia/Tokyo").moment(dt.date(2026, 11, 30)) == NOON - 21 * 3_600_000_000


@given(
    st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2100, 1, 1)),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
)
def test_a_time_without_a_zone_is_what_a_clock_showed(shown: dt.datetime, zone: str) -> None:
    """A time without a zone is read so that a clock in the zone showed it, unless the clock skipped it."""
    read = reader(zone).moment(shown) or 0
    clock = dt.datetime.fromtimestamp(read // 1_000_000, ZoneInfo(zone)).replace(
        tzinfo=None, microsecond=read % 1_000_000
    )
    skipped = shown.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert clock == skipped


@given(st.datetimes(), st.timezones())
def test_any_time_is_read_or_counted(moment: dt.datetime, zone: Any) -> None:
    """Every datetime from the year 1 to 9999 gives a moment in any zone, or is counted as unread."""
    cells = CellReader(words=StatusWords(), zone=zone)
    assert (cells.moment(moment) is None) == (cells.unread_times == 1)


@given(st.text() | st.binary() | st.floats() | st.integers() | st.decimals() | st.dates())
def test_no_cell_ends_the_report(cell: object) -> None:
    """Whatever is in a cell, reading it as a time or as text never fails."""
    assert isinstance(reader().moment(cell), int | None)
    assert isinstance(text(cell), str | None)


@pytest.mark.parametrize(("words", "state"), [(word, state) for state, words in USUAL_WORDS.items() for word in words])
def test_usual_words_in_any_case(words: str, state: State) -> None:
    """The usual words mean their state in any case, and with blanks or hyphens for underscores."""
    spelled = (words, words.upper(), words.title(), f" {words} ", words.replace("_", "-"), words.replace("_", " "))
    assert {StatusWords().state(word, finished=True) for word in spelled} == {state}


@pytest.mark.parametrize("word", ["on hold", "0", "runnin", "STARTED?"])
def test_unknown_words_are_other(word: str) -> None:
    """A word that nobody explained is OTHER even without a finish time, and is remembered as written."""
    words = StatusWords()
    assert (words.state(word, finished=False), words.unknown) == (State.OTHER, (word,))


@pytest.mark.parametrize("word", [None, "", "  ", "_"])
def test_without_a_word_the_finish_time_decides(word: str | None) -> None:
    """Without a status word a run is open until it has a finish time."""
    words = StatusWords()
    states = (words.state(word, finished=False), words.state(word, finished=True))
    assert (states, words.unknown) == ((State.OPEN, State.DONE), ())


def test_the_users_words_go_before_the_usual() -> None:
    """A word that the user explains means that, also where it has a usual meaning."""
    words = StatusWords({"failed": ["Aborted by OPS", "ok"], "other": ["pending"]})
    assert [words.state(word, finished=True) for word in ("aborted-by-ops", "OK", "Pending", "done")] == [
        State.FAILED,
        State.FAILED,
        State.OTHER,
        State.DONE,
    ]


@given(st.sampled_from(list(State)), st.data())
def test_every_spelling_for_a_search_means_its_state(state: State, data: st.DataObject) -> None:
    """The spellings with which a big table is searched mean the state that is searched for, and no other."""
    words = StatusWords()
    spelled = words.meaning(state)
    word = data.draw(st.sampled_from(spelled)) if spelled else None
    finished = state is not State.OPEN
    assert word is None or words.state(word, finished=finished) in {state, State.OTHER}
    assert set(words.which_mean(state, ["running", "", "ok", "Error", "x"])) <= {"running", "", "ok", "Error"}


@given(st.uuids())
def test_an_id_survives_every_column(task_id: uuid.UUID) -> None:
    """An id is looked for in the form in which each type of column holds it, and read back as the same text."""
    kinds: list[sa.types.TypeEngine[Any]] = [
        sa.Uuid(),
        sa.String(36),
        sa.CHAR(32),
        sa.BINARY(16),
        sa.Text(),
        sa.types.NullType(),
    ]
    for kind in kinds:
        column = IdColumn(kind)
        assert {column.text(form) for form in column.forms(str(task_id))} == {str(task_id)}


@given(st.text())
def test_any_id_may_be_looked_for(task_id: str) -> None:
    """Any text may be looked for as an id; what a column cannot hold is not handed to the server."""
    for kind in (sa.Uuid(), sa.BigInteger(), sa.CHAR(32), sa.BINARY(16)):
        assert all(isinstance(form, (str, int, uuid.UUID, bytes)) for form in IdColumn(kind).forms(task_id))
    assert all(
        "\0" not in form and form.encode()
        for form in IdColumn(sa.Text()).forms(task_id)
        if isinstance(form, str) and form
    )


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (
            ["id", "task_id", "task_name", "queue", "started_at", "finished_at", "status"],
            {
                "task_id": "task_id",
                "task_name": "task_name",
                "status": "status",
                "started_at": "started_at",
                "finished_at": "finished_at",
                "queue": "queue",
            },
        ),
        (
            ["ID", "Name", "State", "createdAt", "endTime", "Hostname"],
            {
                "task_id": "ID",
                "task_name": "Name",
                "status": "State",
                "started_at": "createdAt",
                "finished_at": "endTime",
                "worker": "Hostname",
            },
        ),
        (["uuid", "id", "created_at", "started_at"], {"task_id": "uuid", "started_at": "started_at"}),
        (["celery_id", "job_id", "date_done"], {"task_id": "celery_id", "finished_at": "date_done"}),
        (["price", "sku"], {}),
    ],
)
def test_usual_names_of_columns(names: list[str], found: dict[str, str]) -> None:
    """Columns are found by their usual names in any case and spelling, the more telling name first."""
    assert columns.find(names) == found


def test_what_the_user_names_is_taken() -> None:
    """A column that the user named goes before one found by its name."""
    assert columns.find(["task_id", "job", "status"], given={"task_id": "job"}) == {
        "task_id": "job",
        "task_name": "job",
        "status": "status",
    }


def test_presets_are_known_by_columns() -> None:
    """The table of django-celery-results has all that Celery's own has, and is not taken for it."""
    django = {*DJANGO.needs, "id", "traceback", "task_name", "worker", "date_created"}
    assert [by_columns(django), by_columns(CELERY.needs), by_columns({"task_id", "status"})] == [DJANGO, CELERY, None]
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)


def test_the_zone_of_celerys_table_by_version() -> None:
    """A table made by 5.6.3 or later shows it, so its times are in the app's zone; an older one may be either."""
    old = {"task_id", "status", "result", "date_done", "traceback"}
    assert celery_zone(old, {"task_id"}) is Zone.UTC_OR_APP
    assert celery_zone(old, {"task_id", "date_done"}) is Zone.APP
    assert celery_zone({*old, "children"}, {"task_id"}) is Zone.APP
