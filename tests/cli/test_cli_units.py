"""`kill-audit units` on recorded journals."""

import shutil
import sys

import pytest

from command_line import DATA, Command, Host, scene


def test_worker_units_are_listed_with_what_they_did(kill_audit: Command) -> None:
    """Both units of a deploy are found by their own lines, with node, version, pool, lives, receipts and kills."""
    said = kill_audit("units", *scene("deploy"))
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("2 worker units from 2026-11-30 15:03:18 UTC to ")
    assert [line.split() for line in lines[2:5]] == [
        ["unit", "host", "node", "celery", "pool", "lives", "received", "kills", "task", "lines"],
        ["celery@a.service", "web1", "a@web1", "5.7.0", "prefork", "2", "2", "2", "2", "visible"],
        ["celery@b.service", "web1", "b@web1", "5.7.0", "prefork", "2", "2", "3", "2", "visible"],
    ]
    assert "systemd's settings: this is not the host that wrote this journal" in lines


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["celery@b"], ["celery@b.service"]),
        (["celery@*"], ["celery@a.service", "celery@b.service"]),
        (["celery@a.service", "celery@[bc].service"], ["celery@a.service", "celery@b.service"]),
    ],
)
def test_units_may_be_named_by_globs_over_what_the_window_holds(
    asked: list[str], expected: list[str], kill_audit: Command
) -> None:
    """-u takes names as systemctl completes them, and patterns."""
    said = kill_audit("units", "-o", "json", *scene("deploy"), *(word for unit in asked for word in ("-u", unit)))
    assert [unit["unit"] for unit in said.json["units"]] == expected


def test_no_unit_is_inconclusive_and_says_what_to_do(kill_audit: Command) -> None:
    """A name that no worker has gives status 3, the names looked for, and the next command."""
    said = kill_audit("units", *scene("deploy"), "-u", "nginx")
    assert said.status == 3
    assert said.out.startswith("0 worker units among nginx.service from ")
    assert said.out.splitlines()[-1] == "next: kill-audit doctor (permissions, coverage, log files)"


def test_a_log_level_that_hides_receipts_is_told_with_the_fix(kill_audit: Command) -> None:
    """A worker at level WARNING is listed, and the note says what to change."""
    said = kill_audit("units", *scene("quiet_logs"))
    assert "hidden" in said.out.splitlines()[3]
    assert "celery@a.service: its log level hides which tasks it receives; start the worker with -l INFO" in said.out


def test_a_unit_of_celery_multi_is_told_to_log_to_files(kill_audit: Command) -> None:
    """Its workers' lines are not in the journal; the note names the option that reads them."""
    said = kill_audit("units", *scene("multi_timeout"))
    assert "in files" in said.out.splitlines()[3]
    assert "celery@a.service: its lines are in log files, not in the journal; give them with --file" in said.out


def test_a_narrow_terminal_gets_a_few_lines_a_unit(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 60 columns nothing is cut: each unit is a head with lines below it."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    said = kill_audit("units", "-q", "--color", "never", *scene("deploy"))
    head = said.out.splitlines().index("celery@a.service on web1")
    assert said.out.splitlines()[head + 1 : head + 3] == [
        "  node a@web1, Celery 5.7.0, pool prefork 2",
        "  2 lives, 2 received, 2 kills, task lines visible",
    ]
    assert max(map(len, said.out.splitlines())) <= 60


@pytest.mark.journal
def test_settings_come_from_the_unit_files_of_a_root(host: Host, kill_audit: Command) -> None:
    """With --root the files of that file system are read; the JSON has all that is known, but no environment."""
    shutil.copytree(DATA / "systemctl" / "root", host.root, dirs_exist_ok=True)
    said = kill_audit("units", "-o", "json", *host.words)
    units = {unit["unit"]: unit["settings"] for unit in said.json["units"]}
    assert {name: (one["kill_mode"], one["timeout_stop"]) for name, one in units.items()} == {
        "celery@a.service": ("mixed", "1h 30min"),
        "celery@b.service": ("control-group", "infinity"),
    }
    assert units["celery@a.service"]["commands"][0]["app"] == "shop.celery:app"
    assert "redis" not in said.out
    line = kill_audit("units", *host.words).out.splitlines()[3]
    assert line.split()[-4:] == ["mixed", "1h", "30min", "stop"]


@pytest.mark.journal
def test_without_unit_files_the_reason_is_told(host: Host, kill_audit: Command) -> None:
    """Units that have no file are listed all the same."""
    said = kill_audit("units", *host.words)
    assert said.status == 0
    assert said.out.splitlines()[-1] == "systemd's settings: no unit file: celery@a.service, celery@b.service"
