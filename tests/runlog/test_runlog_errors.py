"""Bad input: one clear line each, with a hint; never a traceback, never a password."""

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from kill_audit.errors import RunLogError
from kill_audit.reconcile import State
from kill_audit.runlog import explain, open_run_log

Fill = Callable[..., None]

WRONG = "hunter2"  # a password of nobody
GOOD = "task_id,task_name,status,started_at,finished_at,worker\n"


def shown(url: sa.URL) -> str:
    """A URL as a user would write it."""
    return url.render_as_string(hide_password=False)


def csv_file(folder: Path, text: str | bytes) -> str:
    """Write a CSV file."""
    path = folder / "runs.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_a_refused_login_is_one_line(request: pytest.FixtureRequest, place: str) -> None:
    """A wrong password gives one line that names neither password, and says where the password is looked for."""
    url: sa.URL = request.getfixturevalue(place)
    with pytest.raises(RunLogError, match=r"(?i)(password authentication failed|access denied)") as refusal:
        open_run_log(shown(url.set(password=WRONG)))
    told = "".join(traceback.format_exception(refusal.value))
    assert ("\n" in refusal.value.message, WRONG in told, refusal.value.__context__) == (False, False, None)
    assert "KILL_AUDIT_RUN_LOG_PASSWORD" in refusal.value.hint


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_a_missing_database_is_one_line(request: pytest.FixtureRequest, place: str) -> None:
    """A database that the server does not have gives one line that names it."""
    url: sa.URL = request.getfixturevalue(place)
    with pytest.raises(RunLogError, match=r"(?i)(database \"nowhere\" does not exist|unknown database 'nowhere')"):
        open_run_log(shown(url.set(database="nowhere")))


@pytest.mark.parametrize("place", ["postgres", "mariadb"])
def test_the_password_may_come_from_the_environment(request: pytest.FixtureRequest, fill: Fill, place: str) -> None:
    """A URL without a password logs in with the one from the environment."""
    url: sa.URL = request.getfixturevalue(place)
    fill(url, "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at timestamp NULL)")
    bare = shown(url._replace(password=None))
    assert url.password is not None
    assert open_run_log(bare, environ={"KILL_AUDIT_RUN_LOG_PASSWORD": str(url.password)}).facts.rows == 0


def test_pgpass_is_read(postgres: sa.URL, fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password file of libpq is used for PostgreSQL."""
    fill(postgres, "CREATE TABLE runs (task_id text, status text, started_at timestamp)")
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{postgres.port}:*:postgres:{postgres.password}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert open_run_log(shown(postgres._replace(password=None)), environ={}).facts.rows == 0


def test_a_missing_table_lists_those_there(database: sa.URL, fill: Fill) -> None:
    """A table that is not there is refused with the tables and views that are."""
    fill(database, "CREATE TABLE one (a int)", "CREATE VIEW two AS SELECT a FROM one")
    with pytest.raises(RunLogError, match=r"has no table 'runs'; it has one, two$") as refusal:
        open_run_log(shown(database), table="runs")
    assert refusal.value.hint == "name one with --run-log-table"


def test_an_empty_database_has_no_tables(database: sa.URL) -> None:
    """A database without tables is refused as such."""
    with pytest.raises(RunLogError, match=r"no table of .* looks like a run log; it has no tables at all"):
        open_run_log(shown(database))


def test_tables_that_are_no_run_log_are_listed(database: sa.URL, fill: Fill) -> None:
    """A database none of whose tables looks like a run log is refused with their names."""
    fill(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name varchar(9), created_at timestamp NULL)",
        "CREATE TABLE orders (uuid varchar(36), status varchar(9), created_at timestamp NULL)",
    )
    with pytest.raises(RunLogError, match="looks like a run log; it has orders, users"):
        open_run_log(shown(database))


def test_two_run_logs_are_not_chosen_between(database: sa.URL, fill: Fill) -> None:
    """Of two tables that look like a run log none is guessed; both are listed with the columns that fit."""
    columns = "(id int PRIMARY KEY, task_id varchar(36), state varchar(9), start_time timestamp NULL)"
    fill(database, f"CREATE TABLE runs_a {columns}", f"CREATE TABLE runs_b {columns}")
    with pytest.raises(RunLogError) as refusal:
        open_run_log(shown(database))
    listed = "runs_a (task_id, state, start_time); runs_b (task_id, state, start_time)"
    assert refusal.value.message.endswith(f"2 tables of {hidden_of(database)} look like a run log: {listed}")
    assert refusal.value.hint == "name one: --run-log-table runs_a"


def hidden_of(url: sa.URL) -> str:
    """A URL as errors show it."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def test_an_own_table_goes_before_celerys(database: sa.URL, fill: Fill) -> None:
    """Where an app has its own run log beside Celery's result table, its own is taken."""
    fill(
        database,
        "CREATE TABLE celery_taskmeta (task_id int, status varchar(9), result text, date_done date, traceback text)",
        "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at timestamp NULL)",
    )
    assert open_run_log(shown(database)).facts.table == "runs"


@pytest.mark.parametrize(
    ("columns", "lack"),
    [
        ("task_id varchar(9), status varchar(9)", "a column with the time a run started or finished"),
        ("status varchar(9), started_at timestamp NULL", "a column of task ids"),
        ("task_id varchar(9), started_at timestamp NULL", "a column with the status or the finish time of a run"),
        ("id int, status varchar(9), started_at timestamp NULL", "a column of task ids"),
    ],
)
def test_a_missing_column_lists_those_there(database: sa.URL, fill: Fill, columns: str, lack: str) -> None:
    """A table without ids, without any time, or without anything that tells open from finished, is refused."""
    fill(database, f"CREATE TABLE runs ({columns})")
    with pytest.raises(RunLogError, match=f"runs lacks {lack}; its columns are: ") as refusal:
        open_run_log(shown(database), table="runs")
    assert refusal.value.hint == "name the columns in the configuration, table [run-log.columns]"


def test_columns_that_the_user_names_must_be_there(sqlite: sa.URL, fill: Fill) -> None:
    """A column or a field that does not exist is refused with those that do."""
    fill(sqlite, "CREATE TABLE runs (task_id text, status text, started_at text)")
    with pytest.raises(RunLogError, match="there is no column 'ended'") as refusal:
        open_run_log(shown(sqlite), table="runs", columns={"finished_at": "ended"})
    assert refusal.value.hint == "there are: task_id, status, started_at"
    with pytest.raises(RunLogError, match="a run has no field 'end'") as refusal:
        open_run_log(shown(sqlite), table="runs", columns={"end": "started_at"})
    assert "finished_at" in refusal.value.hint


def test_unknown_states_zones_and_presets_are_refused(sqlite: sa.URL, fill: Fill) -> None:
    """A state, a time zone or a preset that does not exist is refused with what there is, or where to look."""
    fill(sqlite, "CREATE TABLE runs (task_id text, status text, started_at text)")
    with pytest.raises(RunLogError, match="'finished' is no state of a run") as refusal:
        open_run_log(shown(sqlite), states={"finished": ["ok"]})
    assert "done, failed, open" in refusal.value.hint
    for zone in ("Mars/Base", "Europe", "../etc/passwd", ""):
        with pytest.raises(RunLogError, match=f"there is no time zone '{zone}'"):
            open_run_log(shown(sqlite), time_zone=zone)
    with pytest.raises(RunLogError, match="there is no preset 'django'") as refusal:
        open_run_log(shown(sqlite), preset="django")
    assert "django_celery_results_taskresult, celery_taskmeta" in refusal.value.hint


def test_a_preset_must_fit(sqlite: sa.URL, fill: Fill) -> None:
    """A table that lacks what a preset is known by is refused with what it lacks."""
    fill(sqlite, "CREATE TABLE celery_taskmeta (task_id text, status text, date_done text)")
    with pytest.raises(RunLogError, match="celery_taskmeta is no celery_taskmeta: it has no result, traceback"):
        open_run_log(shown(sqlite), preset="celery_taskmeta")


@pytest.mark.parametrize("query", ["SELEC 1", "DROP TABLE runs", "SELECT 1 AS a; DROP TABLE runs", ""])
def test_a_query_that_is_none_is_one_line(database: sa.URL, fill: Fill, query: str) -> None:
    """What is not one SELECT is refused by the database, which keeps its tables."""
    fill(database, "CREATE TABLE runs (task_id varchar(9), status varchar(9), started_at timestamp NULL)")
    with pytest.raises(RunLogError, match=r"(?i)syntax") as refusal:
        open_run_log(shown(database), query=query)
    assert "\n" not in refusal.value.message
    assert open_run_log(shown(database)).facts.rows == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (
            "7c2323fb,2026-11-30 12:00,ok\n",
            "the first line of .* names no column that is known: 7c2323fb, 2026-11-30 12:00",
        ),
        (
            "task_id,worker\n",
            "lacks a column with the time a run started or finished; its columns are: task_id, worker",
        ),
        (b"task_id,status,started_at\n\xff\xfe,ok,\n", "cannot read .*: 'utf-8' codec can't decode byte 0xff"),
        (b"PAR1 but no more", "cannot read .*"),
        (b"SQLite format 3\x00 but no more", "(file is not a database|malformed)"),
    ],
)
def test_a_file_that_is_no_run_log_is_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    """An empty file, one without a header or a column, and one that is damaged, are refused with one line."""
    with pytest.raises(RunLogError, match=message) as refusal:
        open_run_log(csv_file(tmp_path, text))
    assert ("\n" in refusal.value.message, bool(refusal.value.hint)) == (False, True)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """A file that is not there, and a folder, are refused with the forms of what could be given."""
    for name in ("runs.csv", "."):
        with pytest.raises(RunLogError, match="there is no file") as refusal:
            open_run_log(str(tmp_path / name))
        assert "sqlite:///FILE" in refusal.value.hint


def test_what_may_be_a_url_is_not_shown() -> None:
    """A URL without its `//` is not shown, for it may hold a password."""
    with pytest.raises(RunLogError, match=r"there is no file \*\*\*$"):
        open_run_log("postgresql:u:hunter2@h/d")


def test_a_header_alone_is_an_empty_run_log(tmp_path: Path) -> None:
    """A CSV file of a header line alone is a run log without rows."""
    assert open_run_log(csv_file(tmp_path, GOOD)).facts.rows == 0


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "a,mail,running,2026-11-30T12:00:00Z,,w\n",
        "\ufeff" + GOOD + "\na,mail,running,2026-11-30T12:00:00Z,,w\n\n",
        (GOOD + "a,mail,running,2026-11-30T12:00:00Z,,w\n").replace(",", ";").replace("\n", "\r\n"),
        (GOOD + 'a,mail,running,"2026-11-30T12:00:00Z",\n').replace(",", "\t"),
        "Status,Task ID,startedAt,Task-Name\nRUNNING,a,2026-11-30 12:00:00,mail\n",
        'status,task_id,started_at,task_name,traceback\nRUNNING,a,1796040000,mail,"' + "x\n" * 200_000 + '"\n',
    ],
    ids=["plain", "BOM and blank lines", "semicolons", "tabs and a short row", "other names", "a very long cell"],
)
def test_csv_as_programs_write_it(tmp_path: Path, text: str) -> None:
    """A CSV file is read with any usual separator, line end, byte order mark and order of columns."""
    (row,) = open_run_log(csv_file(tmp_path, text)).open_rows()
    assert (row.key, row.task_id, row.task_name, row.state) == ("1", "a", "mail", State.OPEN)
    assert row.started_at == 1_796_040_000_000_000


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    """A file that is gone when it is read again gives one line."""
    name = csv_file(tmp_path, GOOD)
    run_log = open_run_log(name)
    Path(name).unlink()
    with pytest.raises(RunLogError, match=r"cannot read .*: No such file or directory"):
        list(run_log.open_rows())


def test_a_file_that_cannot_be_read_is_one_line() -> None:
    """A file whose reading fails gives one line with the system's reason."""
    with pytest.raises(RunLogError, match=r"^cannot read /proc/self/mem: Input/output error$"):
        open_run_log("/proc/self/mem")


def test_parquet_of_every_type(tmp_path: Path) -> None:
    """Times of a Parquet file are read in each of its units, with and without a zone; a row keeps its number."""
    at = 1_796_040_000
    table = pa.table(
        {
            "task_id": pa.array(["a", "a", None]).dictionary_encode(),
            "status": ["ok", "ok", "running"],
            "started_at": pa.array([at * 10**9 + 7, None, at * 10**9], pa.timestamp("ns")),
            "finished_at": pa.array([at + 1, at + 2, None], pa.timestamp("s", tz="Asia/Tokyo")),
        }
    )
    pq.write_table(table, tmp_path / "runs.parquet")
    run_log = open_run_log(str(tmp_path / "runs.parquet"), time_zone="Europe/Berlin")
    rows = list(run_log.rows_of(["a"]))
    assert [(row.key, row.started_at, row.finished_at) for row in rows] == [
        ("1", (at - 3600) * 10**6, (at + 1) * 10**6),
        ("2", None, (at + 2) * 10**6),
    ]
    assert (run_log.facts.kind, run_log.facts.rows, run_log.one_row_per_id) == ("parquet", 3, False)
    assert list(run_log.finished_twice(0, at * 10**7)) == [("a", None, 2)]


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow a Parquet file is refused with the extra that reads it."""
    pq.write_table(pa.table({"task_id": ["a"]}), tmp_path / "runs.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RunLogError, match="needs pyarrow, which is not installed") as refusal:
        open_run_log(str(tmp_path / "runs.parquet"))
    assert refusal.value.hint == "pip install 'kill-audit[parquet]'"


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    """A Parquet file whose data are damaged gives one line, though its schema can be read."""
    path = tmp_path / "runs.parquet"
    columns = {name: [f"{name} {number}" for number in range(500)] for name in ("task_id", "status", "started_at")}
    pq.write_table(pa.table(columns), path)
    data = bytearray(path.read_bytes())
    data[4:200] = b"\xff" * 196
    path.write_bytes(data)
    with pytest.raises(RunLogError, match=r"^cannot read ") as refusal:
        open_run_log(str(path))
    assert "\n" not in refusal.value.message


def test_reading_a_run_log_does_not_load_pandas(tmp_path: Path, sqlite: sa.URL, fill: Fill) -> None:
    """No run log needs pandas, which takes as long to load as a small report takes to make."""
    fill(sqlite, "CREATE TABLE runs (task_id text, status text, started_at text)")
    pq.write_table(
        pa.table({"task_id": ["a"], "status": ["ok"], "started_at": [1796040000]}), tmp_path / "runs.parquet"
    )
    script = (
        "import sys; from kill_audit.runlog import open_run_log\n"
        "for place in sys.argv[1:]: list(open_run_log(place).open_rows())\n"
        "print('pandas' in sys.modules)"
    )
    places = [csv_file(tmp_path, GOOD), str(tmp_path / "runs.parquet"), shown(sqlite)]
    done = subprocess.run([sys.executable, "-c", script, *places], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_explaining_a_bad_run_log_is_the_same_line(tmp_path: Path) -> None:
    """What cannot be opened cannot be explained either, with the same words."""
    with pytest.raises(RunLogError, match="is empty"):
        explain(csv_file(tmp_path, ""))
