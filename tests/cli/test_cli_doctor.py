"""`kill-audit doctor`: each check in good order, and out of it, on recorded and real journals."""

import datetime as dt
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import DAY, NOON, SECOND, Journal, Memory
from command_line import Command, Host, Said, run_log, scene
from kill_audit import timeline
from kill_audit.cli.doctor import host as host_checks
from kill_audit.cli.doctor.evidence import clock_check, retention_checks, unit_checks
from kill_audit.cli.doctor.look import LINES_LOOKED_AT, Look, look, lost
from kill_audit.entry import Origin, Question
from kill_audit.timeline import Partial
from kill_audit.units import Found, UnitSettings, WorkerCommand, seen_units

ALL = Question(since=NOON, until=NOON + DAY, read_since=NOON - DAY, read_until=NOON + 2 * DAY)


def checks(said: Said) -> dict[str, list[dict[str, Any]]]:
    """The checks by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for check in said.json["checks"]:
        found.setdefault(check["name"], []).append(check)
    return found


def one(said: Said, name: str) -> tuple[str, str, str | None]:
    """State, detail and fix of the only check of a name."""
    (check,) = checks(said)[name]
    return check["state"], check["detail"], check["fix"]


# -- the whole ----------------------------------------------------------------


def test_a_healthy_recording_is_all_ok(kill_audit: Command) -> None:
    """Everything in order: status 0, and each check says what it found."""
    said = kill_audit("doctor", *scene("deploy"))
    assert said.status == 0
    assert said.out.startswith("All 12 checks are ok.\n")
    units = [line for line in said.out.splitlines() if " unit " in line]
    assert ["task lines are visible; 100% of its" in line for line in units] == [True, True]


def test_warnings_are_status_1_and_failures_2(kill_audit: Command) -> None:
    """The worst check decides; the JSON says so too."""
    warned = kill_audit("doctor", "-o", "json", *scene("flood"))
    assert (warned.status, warned.json["state"]) == (1, "warn")
    failed = kill_audit("doctor", "-o", "json", *scene("quiet_logs"))
    assert (failed.status, failed.json["state"]) == (2, "fail")
    assert failed.json["format"] == "kill-audit/doctor"


def test_a_terminal_gets_wrapped_words_and_whole_commands(
    kill_audit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences are wrapped under themselves at 80 columns; a command to copy stays in one line."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    said = kill_audit("doctor", "-q", "--color", "never", *scene("flood"))
    lines = said.out.splitlines()
    assert all(len(line) <= 80 or line.startswith("      fix: ") for line in lines)
    place = next(place for place, line in enumerate(lines) if line.startswith("warn  rate limit"))
    assert lines[place + 1].startswith(" " * lines[place].index("celery@a.service"))


# -- the journal --------------------------------------------------------------


def test_lines_that_the_rate_limit_dropped_are_a_warning(kill_audit: Command) -> None:
    """Journald's own record of a real flood, with the unit and the way to raise the limit."""
    state, detail, fix = one(kill_audit("doctor", "-o", "json", *scene("flood")), "rate limit")
    assert state == "warn"
    assert detail.startswith("celery@a.service on web1: journald's rate limit dropped ")
    assert fix == "sudo systemctl edit celery@a.service    ([Service] LogRateLimitIntervalSec=0, then restart it)"


def test_a_log_level_that_hides_receipts_fails(kill_audit: Command) -> None:
    """A real worker at level WARNING."""
    state, detail, fix = one(kill_audit("doctor", "-o", "json", *scene("quiet_logs")), "unit")
    assert state == "fail"
    assert detail.startswith("celery@a.service on vm: its log level hides which tasks it receives; ")
    assert fix is not None
    assert fix.startswith("sudo systemctl edit --full celery@a.service")


def test_a_unit_that_logs_to_files_fails(kill_audit: Command) -> None:
    """A real unit of `celery multi`."""
    state, detail, fix = one(kill_audit("doctor", "-o", "json", *scene("multi_timeout")), "unit")
    assert (state, detail, fix) == (
        "fail",
        "celery@a.service on web1: its workers write to log files, not to the journal",
        "kill-audit report --file LOGFILE",
    )


def test_no_worker_at_all_fails(kill_audit: Command) -> None:
    """A window or a name without any worker's line."""
    state, detail, _ = one(kill_audit("doctor", "-o", "json", *scene("deploy"), "-u", "nginx"), "units")
    assert state == "fail"
    assert detail.startswith("no unit among nginx.service has a Celery worker's lines in the window: ")


def test_how_far_the_entries_reach_is_measured_against_window_and_lead_in(kill_audit: Command) -> None:
    """Over the workers' starts: ok. Not over the window: a warning that says how much of it lacks."""
    whole = one(kill_audit("doctor", "-o", "json", *scene("deploy")), "retention")
    assert whole[0] == "ok"
    assert whole[1].endswith("over the window and each of its workers' starts")
    short = one(kill_audit("doctor", "-o", "json", *scene("deploy"), "--since", "2026-11-30 12:03:18"), "retention")
    assert short[0] == "warn"
    assert "the first 3h of the window are not there" in short[1]


def reach(journal: Journal, since: float, lead_in: float) -> tuple[str, str]:
    """State and detail of the check of how far a journal's entries reach, for a window that begins after noon."""
    begun = NOON + round(since * SECOND)
    question = replace(ALL, since=begun, until=begun + SECOND, read_since=begun - round(lead_in * SECOND))
    looks = [look((journal.source(), question))]
    lives = timeline.join([one.partial for one in looks]).lives
    check, *_ = retention_checks(looks, lives, question, NOON + DAY, dt.UTC, live=True)
    return check.state, check.detail


def test_a_worker_whose_start_was_not_read_makes_a_short_lead_in_a_warning() -> None:
    """Its tasks received before have no name; with its start, or the whole lead-in, there is nothing to warn of."""
    for starts in (False, True):
        journal = Journal()
        unit = journal.unit("celery@a.service", starts=starts)
        unit.received("t1")
        journal.at(7200)
        unit.received("t2")
        whole, short = reach(journal, since=3600, lead_in=3600), reach(journal, since=3600, lead_in=36000)
        assert whole == ("ok", "web1: entries reach back to 2026-11-30 12:00:00 UTC, over the window and its lead-in")
        said = "web1: entries reach back to 2026-11-30 12:00:00 UTC"
        assert short == (
            ("ok", f"{said}, over the window and each of its workers' starts")
            if starts
            else ("warn", f"{said}: over the window, but 1h of its 10h lead-in; a task received before has no name")
        )


def units(known: Found, *journals: Journal) -> list[tuple[str, str, str | None]]:
    """State, detail and fix of the checks of the units in journals."""
    looks = [look((journal.source(), ALL)) for journal in journals]
    history = timeline.join([one.partial for one in looks])
    found = unit_checks(seen_units(history, (), ALL), looks, known, ALL)
    return [(check.state, check.detail, check.fix) for check in found]


def test_a_unit_that_starts_a_worker_of_which_no_line_is_there_fails() -> None:
    """PID 1 told of it and its ExecStart starts a worker: its lines go to a file, or nobody knows where."""
    to_file = UnitSettings(unit="a.service", commands=(WorkerCommand(log_file="/l/%n.log"),))
    nowhere = UnitSettings(unit="b.service", commands=(WorkerCommand(),))
    other = UnitSettings(unit="nginx.service")
    found = units(Found(settings={one.unit: one for one in (to_file, nowhere, other)}), Journal())
    assert found == [
        (
            "fail",
            "a.service: its workers write to /l/*.log, not to the journal",
            "kill-audit report --file '/l/*.log'",
        ),
        (
            "fail",
            "b.service: ExecStart starts a Celery worker, and no line of it is in the journal",
            "systemctl status b.service; journalctl -u b.service -n 20",
        ),
    ]


def test_the_level_that_exec_start_names_is_told() -> None:
    """A quiet worker whose command line says why."""
    journal = Journal()
    unit = journal.unit("celery@a.service", starts=False)
    unit.bare(" -------------- a@web1 v5.7.0 (codename)")
    known = UnitSettings(unit="celery@a.service", commands=(WorkerCommand(log_level="WARNING"),))
    ((state, detail, _),) = units(Found(settings={known.unit: known}), journal)
    assert state == "fail"
    assert "its log level hides which tasks it receives (ExecStart says WARNING); " in detail


def test_a_window_without_entries_fails(kill_audit: Command) -> None:
    """Nothing was read: nothing can be said."""
    state, detail, _ = one(
        kill_audit("doctor", "-o", "json", *scene("deploy"), "--since", "2020-01-01", "--until", "2020-01-02"),
        "retention",
    )
    assert (state, detail) == ("fail", "no entry at all from the window's start, less the lead-in, to its end")


def test_a_source_that_is_missing_is_a_check_and_no_end(kill_audit: Command) -> None:
    """What is wrong with the journal is told beside the rest."""
    said = kill_audit("doctor", "-o", "json", "--file", "gone.journal")
    assert said.status == 2
    assert one(said, "journal")[:2] == ("fail", "gone.journal: no such file")
    assert "unpackers" in checks(said)


# -- a host's own journal -----------------------------------------------------


@pytest.mark.journal
def test_a_host_s_journal_is_checked_with_its_configuration(host: Host, kill_audit: Command) -> None:
    """The journal of a root: reader, permission, storage, journald.conf."""
    said = kill_audit("doctor", "-o", "json", *host.words)
    assert said.status == 0
    found = checks(said)
    assert {name: found[name][0]["state"] for name in ("reader", "permission", "storage", "journald.conf")} == {
        "reader": "ok",
        "permission": "ok",
        "storage": "ok",
        "journald.conf": "ok",
    }
    assert one(said, "journald.conf")[1] == "systemd's defaults"


@pytest.mark.journal
@pytest.mark.parametrize(
    ("line", "state", "detail"),
    [
        (
            "MaxLevelStore=notice",
            "fail",
            "MaxLevelStore=notice: the workers' lines, which are of level info, are not kept",
        ),
        ("Storage=none", "fail", "Storage=none: the journal keeps nothing"),
        ("Storage=volatile", "warn", "Storage=volatile: the journal is lost at each reboot"),
        ("MaxRetentionSec=1h", "warn", "MaxRetentionSec=1h: less than the "),
        ("SystemMaxUse=1G", "ok", "SystemMaxUse=1G"),
    ],
)
def test_what_journald_conf_does_not_keep_is_told(
    line: str, state: str, detail: str, host: Host, kill_audit: Command
) -> None:
    """Each setting that loses a worker's lines, with the commands that change it."""
    folder = host.root / "etc/systemd/journald.conf.d"
    folder.mkdir(parents=True)
    (folder / "x.conf").write_text(f"[Journal]\n{line}\n")
    found = one(kill_audit("doctor", "-o", "json", *host.words), "journald.conf")
    assert found[0] == state
    assert found[1].startswith(detail)
    assert (found[2] is None) == (state == "ok")


@pytest.mark.journal
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_what_is_hidden_and_how_to_see_it(host: Host) -> None:
    """A user outside the group systemd-journal: all files closed is a failure, some a failure that counts them."""
    words = ["doctor", "-o", "json", *host.words]
    host.journal.chmod(0o640)
    closed = as_nobody(words)
    assert (closed.status, one(closed, "journal")[:2]) == (
        2,
        ("fail", "this user may not read any file of this host's journal"),
    )
    assert one(closed, "user")[0] == "warn"
    open_one = host.journal.with_name("user-1000.journal")
    open_one.write_bytes(host.journal.read_bytes())
    open_one.chmod(0o644)
    partly = as_nobody(words)
    state, detail, fix = one(partly, "permission")
    assert (partly.status, state) == (2, "fail")
    assert "1 of its 2 journal files may not be read by this user" in detail
    assert fix == "sudo usermod -aG systemd-journal $(id -un)    (and log in again)"


def as_nobody(words: list[str]) -> Said:
    """Run the command as an ordinary user without groups, by a Python that such a user may run."""
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    own = ["sh", "-c", '"$0" -c "import kill_audit.audit"']
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([*become, *own, python], check=False, capture_output=True, env=environ, cwd="/").returncode:
            continue
        whole = [*become, python, "-m", "kill_audit", *words]
        done = subprocess.run(whole, check=False, capture_output=True, text=True, env=environ, cwd="/")
        return Said(status=done.returncode, out=done.stdout, err=done.stderr)
    pytest.skip("no Python here that an ordinary user may run has what kill-audit needs")


# -- the run log --------------------------------------------------------------


def test_the_run_log_is_shown_as_it_is_read(kill_audit: Command) -> None:
    """Its columns, three rows, and the TOML that pins it."""
    found = checks(kill_audit("doctor", "-o", "json", *scene("deploy"), *run_log("deploy")))["run log"]
    assert found[0]["state"] == "ok"
    assert found[0]["detail"].startswith("sqlite sqlite:///")
    more = found[0]["more"]
    assert more[0].startswith("columns: task_id = task_id, task_name = task_name, status = status, ")
    (rows,) = re.findall(r"(\d+) rows?,", found[0]["detail"])
    assert sum(line.startswith("row: ") for line in more) == min(3, int(rows))
    assert "    [run-log]" in more
    assert all(check["fix"] for check in found[1:])


def test_an_index_that_a_small_table_lacks_is_no_warning(kill_audit: Command) -> None:
    """A table of a few rows is read in a moment: its missing index is told with the SQL, and the check is ok."""
    found = checks(kill_audit("doctor", "-o", "json", *scene("deploy"), *run_log("deploy")))["run log"]
    states = {check["state"] for check in found if check["detail"].endswith("(index)")}
    assert states == {"ok"}


def test_a_run_log_that_cannot_be_read_fails_with_its_hint(kill_audit: Command) -> None:
    """The same words as `report` would end with, and the other checks beside them."""
    said = kill_audit("doctor", "-o", "json", *scene("deploy"), "--run-log", "gone.csv")
    state, detail, fix = one(said, "run log")
    assert (said.status, state, detail) == (2, "fail", "there is no file gone.csv")
    assert fix is not None
    assert "unit" in checks(said)


def test_settings_of_the_file_are_used_for_the_run_log(kill_audit: Command, tmp_path: Path) -> None:
    """`[run-log.columns]` names what is not found by looking."""
    (tmp_path / "runs.csv").write_text("job,began,how\nabc,2026-11-30T15:03:20Z,fine\n")
    words = ["doctor", "-o", "json", *scene("deploy"), "--run-log", str(tmp_path / "runs.csv")]
    assert one(kill_audit(*words), "run log")[0] == "fail"
    Path("kill-audit.toml").write_text(
        '[run-log.columns]\ntask_id = "job"\nstarted_at = "began"\nstatus = "how"\n[run-log.states]\ndone = "fine"\n'
    )
    found = checks(kill_audit(*words))["run log"]
    assert found[0]["state"] == "ok"
    assert any(line.startswith("row: ") and "fine (done)" in line for line in found[0]["more"])


# -- the configuration --------------------------------------------------------


def test_the_configuration_that_is_used_is_named(kill_audit: Command) -> None:
    """Which files were read, and what is wrong with one that is used all the same."""
    path = Path.cwd() / "kill-audit.toml"
    path.write_text("utc = true\n")
    assert one(kill_audit("doctor", "-o", "json", *scene("deploy")), "configuration")[:2] == (
        "ok",
        f"read from {path}",
    )
    path.write_text('[results]\nurl = "mysql://a:b@c/d"\n')
    path.chmod(0o644)
    state, detail, _ = one(kill_audit("doctor", "-o", "json", *scene("deploy")), "configuration")
    assert (state, detail.endswith(f"chmod o-r {path}")) == ("warn", True)


def test_a_variable_that_is_no_option_s_is_told_with_the_nearest(
    kill_audit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip in a unit's Environment= would else go unnoticed; passwords' variables are known."""
    for name in ("KILL_AUDIT_RUNLOG_TABLE", "KILL_AUDIT_RUN_LOG_PASSWORD", "KILL_AUDIT_UTC"):
        monkeypatch.setenv(name, "1")
    assert one(kill_audit("doctor", "-o", "json", *scene("deploy")), "configuration")[:2] == (
        "warn",
        "the variable KILL_AUDIT_RUNLOG_TABLE is no option's; did you mean KILL_AUDIT_RUN_LOG_TABLE?",
    )


# -- the clock, the reader, the user ------------------------------------------


def clock(newest: int, skew_s: float | None) -> tuple[str, str]:
    """State and detail of the clock's check at noon."""
    check = clock_check([Look(partial=Partial(source="x"), newest=newest)], NOON, skew_s, dt.UTC)
    return check.state, check.detail


def test_clocks_that_differ_are_a_warning() -> None:
    """Entries of the future, or a database whose clock is more than a second off."""
    assert clock(NOON, None) == ("ok", "no entry is later than now")
    assert clock(NOON, 0.2) == ("ok", "no entry is later than now; the database's clock differs by 0.2 s")
    assert clock(NOON + DAY, 0.0) == ("warn", "there are entries of 2026-12-01 12:00:00 UTC, 1d from now")
    assert clock(NOON, -3.0) == ("warn", "the database's clock is 3.0 s behind this host's")
    assert clock(NOON, 1.5) == ("warn", "the database's clock is 1.5 s ahead of this host's")


def test_entries_of_the_future_are_told(kill_audit: Command, tmp_path: Path) -> None:
    """A host whose clock runs ahead writes entries that are not yet."""
    ahead = time.time_ns() // 1000 + 3600 * SECOND
    (tmp_path / "ahead.export").write_text(
        f"__REALTIME_TIMESTAMP={ahead}\n__MONOTONIC_TIMESTAMP=1\n_BOOT_ID={'a' * 32}\n_HOSTNAME=h\nMESSAGE=m\n\n"
    )
    said = kill_audit("doctor", "-o", "json", "--until", "+1d", "--file", tmp_path / "ahead.export")
    assert one(said, "clock")[0] == "warn"


def test_without_systemd_python_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journalctl stands in for it, if it is there; else nothing reads a journal file."""
    monkeypatch.setitem(sys.modules, "systemd._reader", None)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/journalctl")
    assert host_checks.reader_check(needed=True).state == "warn"
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert host_checks.reader_check(needed=True).state == "fail"
    assert "pip install systemd-python" in (host_checks.reader_check(needed=True).fix or "")


def test_libsystemd_is_not_needed_where_columns_read_all() -> None:
    """Nothing is missed on a host without systemd-python whose journal files can all be read by columns."""
    assert host_checks.reader_check(needed=False).state == "ok"


def test_what_cannot_be_unpacked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without bz2, a systemd without ZSTD."""
    monkeypatch.setattr(host_checks, "_features", lambda: frozenset({"+LZ4", "+XZ", "-ZSTD"}))
    monkeypatch.setitem(sys.modules, "bz2", None)
    check = host_checks.unpackers_check()
    assert (check.state, check.detail) == (
        "warn",
        "files ending in .bz2 cannot be unpacked; systemd here is built without ZSTD",
    )


# -- what is counted ----------------------------------------------------------


def test_log_lines_are_counted_by_unit_without_banners_and_tracebacks() -> None:
    """Lines that stand for themselves, and those of them that are Celery's; up to a limit for each unit."""
    journal = Journal()
    unit = journal.unit("celery@a.service")
    unit.received("t1")
    unit.bare("Traceback (most recent call last):")
    unit.bare('  File "x.py", line 1, in f')
    unit.bare("ValueError: no")
    unit.bare("printed by a task")
    journal.chatter()
    seen = look((journal.source(), ALL))
    key = ("machine-web1", "celery@a.service")
    assert (seen.lines[key], seen.known[key]) == (5, 4)
    assert seen.newest == journal.entries[-1].realtime
    assert seen.partial.entries == len(journal.entries)


def test_a_long_source_is_counted_up_to_a_limit() -> None:
    """A share needs no more than some thousands of lines."""
    journal = Journal()
    unit = journal.unit("celery@a.service")
    line = unit.says("Task shop.ring[x] received")
    many = Memory(name="many", entries=[line] * (LINES_LOOKED_AT + 5))
    assert look((many, ALL)).lines["machine-web1", "celery@a.service"] == LINES_LOOKED_AT


def test_the_space_that_journald_takes_is_read_from_its_own_words() -> None:
    """SD_MESSAGE_JOURNAL_USAGE by journald; the same text by anybody else is nothing."""
    journal = Journal()
    text = "System Journal (/var/log/journal/x) is 3.2G, max 4.0G, 819.2M free."
    about = {"MESSAGE_ID": "ec387f577b844b8fa948f33cad9a75e6"}
    journal.write(text, host_of("driver"), pid=300, **about)
    journal.write(text, host_of("syslog"), pid=900, **about)
    (usage,) = look((journal.source(), ALL)).usages
    assert (usage.machine, usage.path, usage.use, usage.most) == ("machine-web1", "/var/log/journal/x", "3.2G", "4.0G")


def host_of(transport: str) -> Origin:
    """The origin of an entry by journald, or by somebody's own program."""
    if transport == "driver":
        return Origin(transport="driver", identifier="systemd-journald", comm="systemd-journal", uid=0)
    return Origin(transport="syslog", identifier="systemd-journald", comm="logger", uid=1000, unit="x.service")


def test_a_source_whose_process_died_is_a_problem() -> None:
    """Nothing of it counts, and the reason is kept."""
    (problem,) = lost("x.journal", "signal 6 (SIGABRT)").partial.problems
    assert (problem.code, problem.detail) == (
        "reader-failed",
        "the process that read it ended (signal 6 (SIGABRT)): nothing of it counts",
    )
