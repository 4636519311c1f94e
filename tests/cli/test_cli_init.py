"""`kill-audit init`: a configuration from what is found, that says what it says, and never overwrites."""

import shutil
import sqlite3
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_line import DATA, Command, Host, run_log, scene
from kill_audit.classify import TaskSettings
from kill_audit.cli.init.text import compose
from kill_audit.config import Settings, load, mistakes_of
from kill_audit.runlog import Explanation
from kill_audit.units import Found, SeenUnit

SHOP = """
from celery import Celery
print("noise")
app = Celery("shop", broker="memory://")

@app.task(acks_late=True, reject_on_worker_lost=True)
def charge(): ...

@app.task
def mail(): ...
"""


def loaded() -> Settings:
    """The configuration of the working directory."""
    return load(environ={}, folder=Path.cwd(), host=Path("nowhere"))


def words() -> list[str]:
    """The words that name the window of a recorded deploy; `init` reads hosts and folders alike."""
    return ["init", "-q", *scene("deploy"), *run_log("deploy")]


def test_what_is_found_becomes_a_configuration_without_mistakes(kill_audit: Command) -> None:
    """Units of one template by a pattern, the run log with its columns, each task's settings from the real app."""
    Path("shop.py").write_text(SHOP)
    said = kill_audit(*words(), "--app", "shop:app")
    assert (said.status, said.out) == (0, "")
    assert said.err == "kill-audit: wrote kill-audit.toml; look it over, then: kill-audit doctor\n"
    found = loaded()
    assert found.options["units"] == ["celery@*.service"]
    assert found.run_log.url == run_log("deploy")[1]
    assert found.run_log.table == "run_log_end"
    assert found.run_log.columns.task_id == "task_id"
    assert dict(found.tasks) == {
        "shop.charge": TaskSettings(acks_late=True, reject_on_worker_lost=True, acks_on_failure_or_timeout=True),
        "shop.mail": TaskSettings(acks_late=False, reject_on_worker_lost=False, acks_on_failure_or_timeout=True),
    }
    comments = [line for line in Path("kill-audit.toml").read_text().splitlines() if line.startswith("#   ")]
    assert comments == [
        "#   celery@a.service on web1: a@web1, Celery 5.7.0, prefork 2",
        "#   celery@b.service on web1: b@web1, Celery 5.7.0, prefork 2",
    ]


def test_every_line_that_is_commented_out_is_right_once_it_is_not(kill_audit: Command) -> None:
    """Whoever takes away a `# ` gets a key that exists, with a value of its type."""
    Path("shop.py").write_text(SHOP)
    kill_audit("init", "-q", *scene("deploy"))
    text = Path("kill-audit.toml").read_text()
    lines = (line.removeprefix("# ") for line in text.splitlines())
    bare = "\n".join(line for line in lines if line.startswith("[") or (" = " in line and not line.startswith("#")))
    raw = tomllib.loads("\n".join(line for line in bare.splitlines() if "|" not in line and "KILL_AUDIT" not in line))
    raw.pop("commands")
    assert {"since", "lead-in", "settle", "deploy-gap", "fail-on", "output", "run-log", "results", "tasks"} <= set(raw)
    assert {"deploy-marks", "mail", "schedule", "ledger"} <= set(raw)
    assert mistakes_of(raw) == ()


def test_a_file_that_is_there_is_never_touched(kill_audit: Command) -> None:
    """The difference is printed and the status is 1; with nothing to change it is 0; -w writes elsewhere."""
    Path("kill-audit.toml").write_text('units = ["mine"]\n')
    said = kill_audit("init", "-q", *scene("deploy"), "-u", "*")
    assert said.status == 1
    assert said.out.startswith("--- kill-audit.toml\n+++ what is found here\n")
    assert '-units = ["mine"]' in said.out.splitlines()
    assert '+units = ["celery@*.service"]' in said.out.splitlines()
    assert Path("kill-audit.toml").read_text() == 'units = ["mine"]\n'
    assert kill_audit("init", "-q", *scene("deploy"), "-u", "*", "-w", "other.toml").status == 0
    again = kill_audit("init", "-q", *scene("deploy"), "-u", "*", "-w", "other.toml")
    assert (again.status, again.out, again.err) == (0, "", "kill-audit: other.toml says just this already\n")
    assert kill_audit("init", "-q", *scene("deploy"), "-u", "*", "-w", "-").out == Path("other.toml").read_text()


def test_its_own_configuration_is_taken_over_when_it_runs_again(kill_audit: Command) -> None:
    """Units and run log that the file names are looked at again, so that a second run says the same."""
    assert kill_audit(*words()).status == 0
    again = kill_audit("init", "-q", *scene("deploy"), "-w", "-")
    assert tomllib.loads(again.out) == tomllib.loads(Path("kill-audit.toml").read_text())


def test_a_password_stays_out_of_the_file(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL with a password in the environment is written without it."""
    text = compose(
        seen=(),
        known=Found(),
        why_not=None,
        run_log="postgresql://app:hunter2@db:5432/app?sslmode=require&password=hunter2",
        explained=explained('[run-log]\ntable = "runs"\n'),
        tasks=None,
    )
    assert "hunter2" not in text
    assert tomllib.loads(text)["run-log"] == {"url": "postgresql://app@db:5432/app?sslmode=require", "table": "runs"}
    monkeypatch.setenv("KILL_AUDIT_RUN_LOG", "gone.csv")
    assert kill_audit("init", "-q", *scene("deploy")).err.startswith("kill-audit: there is no file gone.csv")


def explained(toml: str) -> Explanation:
    """How a run log is read."""
    return Explanation(
        kind="postgresql",
        place="postgresql://app:***@db/app",
        table="runs",
        preset=None,
        rows=1,
        columns=(),
        states=(),
        one_row_per_id=False,
        time_zone="UTC",
        sample=(),
        lacks=(),
        toml=toml,
    )


def test_a_relative_path_is_written_in_full_for_another_folder(kill_audit: Command) -> None:
    """Paths of a configuration are taken from its own folder."""
    Path("runs.csv").write_text("task_id,started_at,status\na,2026-11-30T15:03:20Z,success\n")
    Path("etc").mkdir()
    for target, expected in (("k.toml", "runs.csv"), ("etc/k.toml", str(Path.cwd() / "runs.csv"))):
        assert kill_audit("init", "-q", *scene("deploy"), "--run-log", "runs.csv", "-w", target).status == 0
        assert tomllib.loads(Path(target).read_text())["run-log"]["url"] == expected


def test_without_a_journal_there_is_still_a_configuration(kill_audit: Command) -> None:
    """What cannot be read is a comment, so that a first run on any host gives a file to begin with."""
    said = kill_audit("init", "-q", "--file", "gone.export")
    assert said.status == 0
    assert "# None was found: gone.export: no such file." in Path("kill-audit.toml").read_text().splitlines()
    assert loaded().options == {}


@pytest.mark.journal
def test_log_files_and_the_app_come_from_the_unit_files(host: Host, kill_audit: Command) -> None:
    """ExecStart shows the app, and where a worker writes to instead of the journal."""
    shutil.copytree(DATA / "systemctl" / "root", host.root, dirs_exist_ok=True)
    assert kill_audit("init", "-q", *host.words).status == 0
    lines = Path("kill-audit.toml").read_text().splitlines()
    assert '# files = ["/var/log/celery/*.log"]' in lines
    assert "# kill-audit init --app shop.celery:app    adds the settings of that app's tasks" in lines


def test_an_app_that_cannot_be_imported_writes_nothing(kill_audit: Command) -> None:
    """The error is one line with a hint, and no half of a configuration is left."""
    said = kill_audit("init", "-q", *scene("deploy"), "--app", "nosuch")
    assert said.status == 2
    assert said.err.splitlines()[0] == (
        "kill-audit: cannot import the Celery app nosuch: ModuleNotFoundError: No module named 'nosuch'"
    )
    assert not Path("kill-audit.toml").exists()
    assert kill_audit("init", "--python", "python3").err.startswith(
        "kill-audit: --python names the Python of an app\n"
    )


def test_a_place_that_cannot_be_written_is_named(kill_audit: Command) -> None:
    """One line, as for every output."""
    said = kill_audit("init", "-q", *scene("deploy"), "-w", "gone/k.toml")
    assert (said.status, said.err.splitlines()[0]) == (
        2,
        "kill-audit: cannot write gone/k.toml: No such file or directory",
    )


def test_two_tables_that_fit_are_left_to_the_user(kill_audit: Command, tmp_path: Path) -> None:
    """What `--run-log` names must be clear; the error lists the tables."""
    path = tmp_path / "two.sqlite3"
    with sqlite3.connect(path) as database:
        for name in ("runs", "jobs"):
            database.execute(f"CREATE TABLE {name} (task_id TEXT, started_at TEXT, status TEXT)")
    said = kill_audit("init", "-q", *scene("deploy"), "--run-log", str(path))
    assert said.status == 2
    assert "--run-log-table" in said.err


ANY = st.text(max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(units=st.lists(ANY, max_size=4), url=ANY, tasks=st.dictionaries(ANY, st.booleans() | st.none(), max_size=4))
def test_whatever_names_there_are_the_text_is_toml_that_says_them(
    units: list[str], url: str, tasks: dict[str, bool | None]
) -> None:
    """Names from a journal or an app may hold anything; each comes back from the TOML as it was."""
    text = compose(
        seen=[seen(unit) for unit in units],
        known=Found(),
        why_not=url,
        run_log=url,
        explained=explained("[run-log]\n"),
        tasks={name: TaskSettings(acks_late=late) for name, late in tasks.items()},
    )
    raw = tomllib.loads(text)
    assert {name: task.get("acks_late") for name, task in raw.get("tasks", {}).items()} == tasks
    if not any("@" in unit for unit in units):
        assert raw.get("units", []) == list(dict.fromkeys(units))
    if "@" not in url and "?" not in url and "&" not in url:
        assert raw["run-log"]["url"] == url


def seen(unit: str) -> SeenUnit:
    """A unit of that name on a host of that name."""
    return SeenUnit(
        host=unit,
        machine="m",
        unit=unit,
        nodes=(unit,),
        versions=(),
        pools=(),
        concurrency=None,
        lives=1,
        receipts=0,
        kills=0,
        task_lines="visible",
        log_file=False,
        first=None,
        last=None,
    )
