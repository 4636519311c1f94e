"""Configuration files: found, layered, typed, and every mistake told at once."""

import os
import string
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SECOND
from kill_audit.classify import TaskSettings
from kill_audit.config import Mistake, Settings, TaskRules, load, mistakes_of, refuse_secrets
from kill_audit.config.shape import Configuration, RunColumns, RunStates, Task
from kill_audit.errors import UsageError
from kill_audit.reconcile import State
from kill_audit.render import FORMS
from kill_audit.runlog.columns import FIELDS


class Home:
    """A working directory, a user's and a host's configuration, all of the test's own."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here, self.user, self.host = top / "here", top / "xdg/kill-audit/config.toml", top / "etc/config.toml"
        for folder in (self.here, self.user.parent, self.host.parent):
            folder.mkdir(parents=True)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(top / "xdg"))

    def load(self, named: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Load what is there, with the options of two commands."""
        return load(named, environ=environ or {}, folder=self.here, host=self.host, options=option)

    def write(self, text: str, name: str = "kill-audit.toml") -> Path:
        """Write a file in the working directory."""
        (self.here / name).write_text(text)
        return self.here / name


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Make an empty home."""
    return Home(tmp_path, monkeypatch)


def option(name: str) -> Mapping[str, Any] | None:
    """The options of two commands: one takes anything, one nothing."""
    checks = {"write": lambda _value: None, "fail": lambda _value: "is wrong"}
    return checks if name in ("report", "mail") else None


# -- where they are -----------------------------------------------------------


def test_without_any_file_nothing_is_set(home: Home) -> None:
    """No configuration is a configuration: everything has its default."""
    assert home.load() == Settings(tasks=home.load().tasks)
    assert (dict(home.load().tasks), home.load().files) == ({}, ())


def test_the_places_are_read_in_the_order_of_their_strength(home: Home) -> None:
    """--config, then ./kill-audit.toml, [tool.kill-audit] of ./pyproject.toml, the user's, the host's: key by key."""
    files = (
        home.host,
        home.user,
        home.here / "pyproject.toml",
        home.here / "kill-audit.toml",
        home.here / "named.toml",
    )
    for place, path in enumerate(files):
        prefix = "tool.kill-audit." if path.name == "pyproject.toml" else ""
        head = "[tool.kill-audit]\n" if prefix else ""
        path.write_text(f'{head}boot = "{place}"\n[{prefix}tasks.task-{place}]\nacks_late = true\n')
        found = home.load("named.toml" if path.name == "named.toml" else None)
        assert found.options["boot"] == str(place)
        assert list(found.tasks) == [f"task-{number}" for number in range(place + 1)]
        assert found.files == tuple(reversed(files[: place + 1]))


def test_the_environment_names_a_file_and_the_flag_goes_before_it(home: Home) -> None:
    """KILL_AUDIT_CONFIG is --config's value where that is not given; empty, it names none."""
    home.write('boot = "a"', "a.toml")
    home.write('boot = "b"', "b.toml")
    environ = {"KILL_AUDIT_CONFIG": "a.toml"}
    assert home.load(environ=environ).options["boot"] == "a"
    assert home.load("b.toml", environ).options["boot"] == "b"
    assert home.load(environ={"KILL_AUDIT_CONFIG": ""}).files == ()


def test_a_file_that_is_named_twice_is_read_once(home: Home) -> None:
    """`--config ./kill-audit.toml` is the file that would be read anyway."""
    path = home.write('boot = "x"')
    assert home.load(str(path)).files == (path,)


def test_a_named_file_must_be_there(home: Home) -> None:
    """What the user names is not passed over silently."""
    with pytest.raises(UsageError, match=r"gone\.toml: No such file or directory"):
        home.load("gone.toml")


def test_a_project_without_our_table_is_nobody_s_business(home: Home) -> None:
    """A pyproject.toml without [tool.kill-audit] is not used, even one that is no TOML."""
    home.write("this is no TOML", "pyproject.toml")
    assert home.load().files == ()
    home.write('[project]\nname = "kill-audit-user"', "pyproject.toml")
    assert home.load().files == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_this_user_may_not_read_is_noted() -> None:
    """A host's file that only root can read is left out with a note, and one in a closed folder silently."""
    program = (
        "import pathlib, sys; from kill_audit.config import load\n"
        "found = load(environ={}, folder=pathlib.Path('/'), host=pathlib.Path(sys.argv[1]))\n"
        "print(found.files, found.notes)"
    )
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", program]
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        host, closed = Path(name, "config.toml"), Path(name, "closed")
        host.write_text('boot = "x"')
        host.chmod(0o600)
        closed.mkdir(mode=0o700)
        environ = {**os.environ, "HOME": "/", "XDG_CONFIG_HOME": str(closed)}
        done = subprocess.run([*become, str(host)], check=True, capture_output=True, text=True, env=environ)
    assert done.stdout == f"() ('{host}: Permission denied; the configuration there is not used',)\n"


# -- what they say ------------------------------------------------------------


def test_every_key_has_its_place_and_its_type(home: Home) -> None:
    """One file with all tables comes out typed: spans as microseconds, tables as structs, options by their names."""
    home.write("""
units = "celery@*"
lead-in = "14d"
settle = "3min"
tolerance = "20s"
deploy-gap = "5min"
utc = true
run-log = "postgresql://app@db/app"

[results]
url = "sqlite:////srv/results.db"
time-zone = "Europe/Berlin"

[[deploy-marks]]
match = ["SYSLOG_IDENTIFIER=deploy", "_UID=0"]

[[deploy-marks]]
unit = "deploy.service"
label = "release"

[tasks."shop.*"]
acks_late = true

[mail]
to = ["a@example.org", "b@example.org"]
from = "kill-audit@example.org"
when = "change"

[schedule]
weekly = "Mon 08:00"
""")
    found = home.load()
    assert (found.settle, found.tolerance, found.deploy_gap) == (180 * SECOND, 20 * SECOND, 300 * SECOND)
    assert (found.run_log.url, found.results.time_zone) == ("postgresql://app@db/app", "Europe/Berlin")
    assert [(mark.matches, mark.unit, mark.label) for mark in found.deploy_marks] == [
        (("SYSLOG_IDENTIFIER=deploy", "_UID=0"), None, None),
        ((), "deploy.service", "release"),
    ]
    assert (found.mail.to, found.mail.sender, found.mail.when, found.schedule.weekly) == (
        ("a@example.org", "b@example.org"),
        "kill-audit@example.org",
        "change",
        "Mon 08:00",
    )
    assert found.defaults("report")["units"] == "celery@*"
    assert found.defaults("report")["run-log"] == "postgresql://app@db/app"
    assert found.defaults("mail")["to"] == ["a@example.org", "b@example.org"]


def test_a_command_s_own_table_goes_before_what_all_commands_share(home: Home) -> None:
    """`[commands.NAME]` is for that command, `[mail]` for mail; `output` at the top is report's alone."""
    home.write(
        'output = "html"\nsince = "7d"\n[mail]\nwrite = "a"\nwhen = "always"\n'
        '[commands.mail]\nwrite = "b"\n[commands.report]\nwrite = "c"\n'
    )
    found, there = home.load(), home.here
    assert found.defaults("report") == {"output": "html", "since": "7d", "write": f"{there}/c"}
    assert found.defaults("mail") == {"when": "always", "write": f"{there}/b"}
    assert found.defaults("units") == {"since": "7d"}


def test_the_window_of_all_commands_is_not_that_of_the_week(home: Home) -> None:
    """`since` at the top leaves mail its last whole week, and collect where it ended."""
    home.write('since = "3d"\n')
    found = home.load()
    assert found.defaults("units") == {"since": "3d"}
    assert found.defaults("mail") == {}
    assert found.defaults("collect") == {}


def test_relative_paths_are_taken_from_the_file_s_own_folder(home: Home) -> None:
    """A path in /etc/kill-audit/config.toml does not depend on where the command runs; URLs and - stay as they are."""
    home.host.write_text(
        'files = ["logs/*.log", "/abs", "-"]\nroot = "mnt"\n[run-log]\nurl = "runs.csv"\n'
        '[results]\nurl = "@secret"\n[ledger]\nurl = "sqlite:///x.db"\n[[deploy-marks]]\nfile = "marks.csv"\n'
    )
    found, there = home.load(), home.host.parent
    assert found.options["files"] == [f"{there}/logs/*.log", "/abs", "-"]
    assert (found.options["root"], found.run_log.url, found.results.url, found.ledger.url) == (
        f"{there}/mnt",
        f"{there}/runs.csv",
        f"@{there}/secret",
        "sqlite:///x.db",
    )
    assert found.deploy_marks[0].file == f"{there}/marks.csv"


def test_a_table_that_names_another_database_starts_afresh(home: Home) -> None:
    """Columns of the host's run log do not hold for the one that the user's configuration names."""
    home.host.write_text('[run-log]\nurl = "sqlite:///a"\ntable = "runs"\n[run-log.columns]\ntask_id = "job"\n')
    home.user.write_text('[run-log]\nurl = "sqlite:///b"\n')
    assert (home.load().run_log.table, home.load().run_log.columns) == (None, RunColumns())
    home.user.write_text('[run-log]\ntime-zone = "UTC"\n')
    assert (home.load().run_log.table, home.load().run_log.time_zone) == ("runs", "UTC")


# -- the run log's arguments --------------------------------------------------


def test_the_run_log_s_settings_are_about_the_one_they_name(home: Home) -> None:
    """Tables, columns and words go with the configured run log, and not with another one of the command line."""
    home.write(
        '[run-log]\nurl = "sqlite:////a"\ntable = "runs"\ntime-zone = "UTC"\n'
        '[run-log.columns]\ntask_id = "job"\n[run-log.states]\nopen = "busy"\ndone = ["fine", "good"]\n'
    )
    known = {
        "table": "runs",
        "query": None,
        "preset": None,
        "columns": {"task_id": "job"},
        "states": {"open": ("busy",), "done": ("fine", "good")},
        "time_zone": "UTC",
    }
    found = home.load()
    assert found.for_run_log("sqlite:////a") == known
    assert found.for_run_log("sqlite:////a", table="more") == {**known, "table": "more"}
    assert found.for_run_log("sqlite:////b", preset="celery_taskmeta") == {
        **dict.fromkeys(known),
        "preset": "celery_taskmeta",
    }


def test_settings_without_a_url_are_about_the_run_log_of_the_environment(home: Home) -> None:
    """A URL with a password may stand in KILL_AUDIT_RUN_LOG, and all else in the file."""
    home.write('[run-log]\nquery = "select 1"\n[results]\ntable = "t"\n')
    assert home.load().for_run_log("sqlite:////x")["query"] == "select 1"
    assert home.load().for_run_log("sqlite:////x", table="runs")["query"] is None
    assert home.load().for_results("sqlite:////x") == {"table": "t", "time_zone": None}


def test_fields_and_states_are_those_of_the_run_log() -> None:
    """The names of [run-log.columns] and [run-log.states] are the run log's, and the formats are the renderer's."""
    assert tuple(field.name for field in msgspec.structs.fields(RunColumns)) == FIELDS
    assert {field.name for field in msgspec.structs.fields(RunStates)} == {str(state) for state in State}
    assert [one for one in FORMS if mistakes_of({"output": one})] == []


# -- tasks --------------------------------------------------------------------


def test_a_task_s_own_settings_go_before_those_of_patterns() -> None:
    """What a name leaves open the patterns that fit say, in their order; a name that nothing fits is not there."""
    rules = TaskRules(
        {
            "*": Task(acks_late=False),
            "shop.*": Task(acks_late=True, reject_on_worker_lost=True),
            "shop.charge": Task(safe_to_rerun=False),
        }
    )
    assert rules["shop.charge"] == TaskSettings(acks_late=False, reject_on_worker_lost=True, safe_to_rerun=False)
    assert rules["other"] == TaskSettings(acks_late=False)
    assert TaskRules({"a.b": Task()}).get("a.c") is None
    assert (len(rules), list(rules)) == (3, ["*", "shop.*", "shop.charge"])


# -- mistakes -----------------------------------------------------------------


def test_every_mistake_of_every_file_is_told_at_once(home: Home) -> None:
    """One run names all mistakes with their file and key, an unknown key with the nearest one that there is."""
    home.host.write_text("units = 1\n")
    home.user.write_text("= nonsense")
    path = home.write("""
unit = "celery@*"
lead-in = "soon"
[run-log]
tabel = "runs"
table = "runs"
query = "select 1"
[tasks."a.b"]
ack_late = true
[[deploy-marks]]
label = "x"
""")
    with pytest.raises(UsageError) as caught:
        home.load()
    assert caught.value.message.splitlines() == [
        "the configuration has 8 mistakes",
        f"  {path}: unit: there is no such key; did you mean units?",
        f"  {path}: lead-in: 'soon' is not a time span: 'soon' is not a number with a unit",
        f"  {path}: run-log.tabel: there is no such key; did you mean table?",
        f"  {path}: run-log: has both table and query; a query names its tables itself",
        f'  {path}: tasks."a.b".ack_late: there is no such key; did you mean acks_late?',
        f"  {path}: deploy-marks[1]: needs exactly one of match, unit and file, and has none",
        f"  {home.user}: this is no TOML: Invalid statement (at line 1, column 1)",
        f"  {home.host}: units: must be text in quotes, and is a number",
    ]


@pytest.mark.parametrize(
    ("raw", "key", "what"),
    [
        ({"utc": "yes"}, "utc", "must be true or false, and is text"),
        ({"assume-year": 30}, "assume-year", "must be from 1970 to 9999"),
        ({"assume-year": True}, "assume-year", "must be a whole number, and is true or false"),
        (
            {"assume-timezone": "Berlin"},
            "assume-timezone",
            "there is no time zone 'Berlin'; timedatectl list-timezones",
        ),
        (
            {"assume-timezone": "../etc"},
            "assume-timezone",
            "there is no time zone '../etc'; timedatectl list-timezones",
        ),
        ({"units": ["a", 1]}, "units[2]", "must be text in quotes, and is a number"),
        ({"files": ""}, "files", "is empty"),
        ({"output": "tabel"}, "output", None),
        ({"fail-on": "stuck, mising"}, "fail-on", None),
        ({"since": "never"}, "since", None),
        ({"run-log": "x", "tasks": []}, "run-log", "must be a table, [run-log], and is text"),
        ({"deploy-marks": {}}, "deploy-marks", "must be a list, and is a table"),
        ({"deploy-marks": [1]}, "deploy-marks[1]", "must be a table, [deploy-marks[1]], and is a number"),
        ({"tasks": {"a.b": 1}}, 'tasks."a.b"', 'must be a table, [tasks."a.b"], and is a number'),
        ({"tasks": 1}, "tasks", "must be a table, [tasks], and is a number"),
        ({"url": "x"}, "url", "there is no such key; did you mean run-log.url?"),
        ({"zebra": 1}, "zebra", "there is no such key"),
        ({"Lead_In": "1d"}, "Lead_In", "there is no such key; did you mean lead-in?"),
        ({"commands": 1}, "commands", "must hold tables, as in [commands.report]"),
        ({"commands": {"repot": {}}}, "commands.repot", "there is no command 'repot'; `kill-audit --help` lists them"),
        ({"commands": {"report": 1}}, "commands.report", "must be a table, [commands.report], and is a number"),
        ({"commands": {"report": {"fail": 1}}}, "commands.report.fail", "is wrong"),
        ({"commands": {"report": {"wirte": 1}}}, "commands.report.wirte", "there is no such key; did you mean write?"),
        ({"mail": {"fail": 1}}, "mail.fail", "is wrong"),
    ],
)
def test_each_kind_of_mistake_has_its_words(raw: Mapping[str, Any], key: str, what: str | None) -> None:
    """Wrong types, texts of a wrong form, unknown keys and commands: the first mistake is at that key."""
    found = mistakes_of(raw, option)[0]
    assert found == Mistake(key=key, what=found.what if what is None else what)


def test_options_of_a_command_may_stand_in_the_table_of_its_name() -> None:
    """`[mail]` takes what the command `mail` takes; `[commands.NAME]` any command's."""
    assert mistakes_of({"mail": {"write": "x"}, "commands": {"report": {"write": "x"}}}, option) == ()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["7d", "UTC", "table", "A=b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(string.ascii_lowercase, max_size=8), inner),
    max_leaves=6,
)
KEYS = st.sampled_from([*(field.encode_name for field in msgspec.structs.fields(Configuration)), "url", "table", "x"])


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=5))
def test_what_has_no_mistakes_is_what_the_types_take(raw: dict[str, Any]) -> None:
    """Any content without a mistake converts to the typed configuration, so that no later error is left."""
    if mistakes_of(raw) == ():
        assert isinstance(msgspec.convert(raw, Configuration), Configuration)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_what_the_types_refuse_has_a_mistake(raw: dict[str, Any]) -> None:
    """Whatever msgspec's types refuse is told as a mistake, so that nothing slips through the walk."""
    try:
        msgspec.convert(raw, Configuration)
    except msgspec.ValidationError:
        assert mistakes_of(raw) != ()


# -- secrets ------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--run-log", "postgresql://app:secret@db/app"],
        ["--run-log=postgresql://app:secret@db/app"],
        ["--results", "mysql://app@db/app?password=secret"],
        ["--run-log", "postgresql://app:secret/1@db:5432/app"],
        ["smtps://user:secret@mail"],
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(words: list[str]) -> None:
    """Everybody on a host sees a command line; the error names the option and never the secret."""
    with pytest.raises(UsageError) as caught:
        refuse_secrets(["report", *words])
    assert "secret" not in caught.value.message + caught.value.hint
    expected = words[0].partition("=")[0] if words[0].startswith("--") else "report"
    assert expected in caught.value.message or caught.value.message.startswith("the command line")


def test_a_url_without_a_password_may_stand_on_the_command_line() -> None:
    """A user's name alone, a file, and an @FILE are no secrets."""
    refuse_secrets(
        [
            "--run-log",
            "postgresql://app@db:5432/app",
            "--run-log",
            "sqlite:///a:b@c",
            "-u",
            "x://h:80/a@b",
            "--run-log",
            "@file",
        ]
    )


@pytest.mark.parametrize(("mode", "noted"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_password_in_a_file_that_everybody_can_read_is_noted(mode: int, noted: bool, home: Home) -> None:
    """The configuration is used all the same; the note names the command that closes it, not the secret."""
    path = home.write('[run-log]\nurl = "postgresql://app:secret@db/app"\n')
    path.chmod(mode)
    expected = f"{path} holds a password, and everybody on this host can read it: chmod o-r {path}"
    assert home.load().notes == ((expected,) if noted else ())
    assert home.load().run_log.url == "postgresql://app:secret@db/app"
