"""`kill-audit report` on recorded journals: what it says besides its formats, and every exit status."""

import io
import json
import sys
from pathlib import Path

import pytest

from command_line import Command, run_log, scene

DEPLOY = [*scene("deploy"), *run_log("deploy")]
"""Four kills, all `unit-stop`, of which three have no row."""


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [
        ("missing,stuck", 1),
        ("missing", 1),
        ("recovered", 1),
        ("stuck", 0),
        ("contradicted,ambiguous", 0),
        ("any", 1),
        ("cause=unit-stop", 1),
        ("cause=oom-*", 0),
        ("stuck,cause=unit-*", 1),
        (">3", 1),
        (">4", 0),
        ("missing,>2", 1),
        ("missing,>3", 0),
    ],
)
def test_what_fails_is_chosen(fail_on: str, status: int, kill_audit: Command) -> None:
    """--fail-on takes verdicts, any, causes by glob, and a number of kills that are still no failure."""
    assert kill_audit("report", *DEPLOY, "--fail-on", fail_on).status == status


@pytest.mark.parametrize("fail_on", ["mising", "cause", "> many", ",", "missing,,lost"])
def test_a_condition_that_is_none_is_refused(fail_on: str, kill_audit: Command) -> None:
    """A mistyped --fail-on is a usage error, never a condition that nothing meets."""
    said = kill_audit("report", *DEPLOY, "--fail-on", fail_on)
    assert (said.status, said.out) == (2, "")
    assert "--fail-on" in said.err
    assert "hint:" in said.err


def test_without_a_run_log_any_kill_fails(kill_audit: Command) -> None:
    """Where rows are not looked at, each kill counts as missing; other verdicts are nobody's."""
    assert kill_audit("report", *scene("deploy")).status == 1
    assert kill_audit("report", *scene("deploy"), "--fail-on", "recovered").status == 0


@pytest.mark.parametrize(
    ("name", "status"),
    [
        pytest.param("drain", 0, id="no kill, whole evidence"),
        pytest.param("multi_stopwait", 3, id="no kill, lines elsewhere"),
        pytest.param("quiet_logs", 1, id="kills on evidence with holes"),
    ],
)
def test_each_status_has_its_reason(name: str, status: int, kill_audit: Command) -> None:
    """0: nothing found on whole evidence; 3: nothing found, which proves nothing; 1 wins over 3."""
    assert kill_audit("report", *scene(name)).status == status


def test_kills_without_a_name_are_inconclusive(kill_audit: Command) -> None:
    """A run log cannot be asked for a task that nothing names: status 3, and the headline says it."""
    said = kill_audit("report", *scene("quiet_logs"), *run_log("quiet_logs"))
    assert said.status == 3
    assert said.out.startswith("2 tasks killed in 1 deploy, none of which could be looked up in the run log; ")


@pytest.mark.parametrize("name", ["deploy", "multi_stopwait"])
def test_findings_may_be_no_failure(name: str, kill_audit: Command) -> None:
    """--exit-zero turns 1 and 3 into 0."""
    assert kill_audit("report", *scene(name), "--exit-zero").status == 0


def test_an_error_is_one_even_with_exit_zero(kill_audit: Command) -> None:
    """--exit-zero never hides that nothing could be read."""
    assert kill_audit("report", "--file", "nowhere.journal", "--exit-zero").status == 2


def test_a_failing_run_leaves_the_file_as_it_was(tmp_path: Path, kill_audit: Command) -> None:
    """The file of -w is replaced only by a whole report."""
    target = tmp_path / "report.html"
    target.write_text("yesterday's")
    assert kill_audit("report", *DEPLOY, "--fail-on", "mising", "-w", target).status == 2
    assert target.read_text() == "yesterday's"
    assert kill_audit("report", *DEPLOY, "-o", "html", "-w", target).status == 1
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_told(kill_audit: Command) -> None:
    """-w into a folder that is not there: exit 2 and the reason, with the next thing to try."""
    said = kill_audit("report", *DEPLOY, "-w", "no/such/folder/report.txt")
    assert said.status == 2
    assert said.err.splitlines() == [
        "kill-audit: cannot write no/such/folder/report.txt: No such file or directory",
        "hint: choose another place with -w FILE",
    ]


def test_the_units_found_are_printed(kill_audit: Command) -> None:
    """Without -u the report names the worker units of the window, by host."""
    said = kill_audit("report", *scene("deploy"))
    assert "\nUnits     celery@a.service and celery@b.service on web1\n" in said.out
    said = kill_audit("report", *scene("deploy"), "-u", "nginx")
    assert "\nUnits     none: no line in the window is a Celery worker's\n" in said.out
    assert said.status == 3


@pytest.mark.parametrize(
    ("words", "kills"),
    [
        (["--task", "*.sleepy"], 2),
        (["--task", "shop.tasks.late", "--task", "shop.tasks.requeue"], 2),
        (["--cause", "unit-*"], 4),
        (["--cause", "oom-*"], 0),
        (["--verdict", "missing"], 3),
        (["--verdict", "missing", "--task", "*.sleepy"], 2),
        (["--deploy", "last"], 4),
    ],
)
def test_filters_narrow_what_is_shown(words: list[str], kills: int, kill_audit: Command) -> None:
    """--task, --cause, --verdict and --deploy, each by glob and repeatable, must all hold."""
    document = kill_audit("report", "-o", "json", *DEPLOY, *words).json
    assert len(document["kills"]) == document["totals"]["kills"] == kills


def test_a_deploy_that_is_none_is_refused_with_those_there_are(kill_audit: Command) -> None:
    """A mistyped deploy is an error that names the deploys, and no empty report."""
    said = kill_audit("report", *DEPLOY, "--deploy", "d0000000")
    assert said.status == 2
    assert "d6e1100f" in said.err


def test_a_filter_hides_no_failure(kill_audit: Command) -> None:
    """What is shown is narrowed, and the exit status is still that of the whole window."""
    assert kill_audit("report", *DEPLOY, "--verdict", "recovered").status == 1


def test_verbose_tells_what_is_read_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill_audit: Command
) -> None:
    """-v names on stderr the configuration, each value's origin, the window, and each source with what reads it."""
    (tmp_path / "here" / "kill-audit.toml").write_text('lead-in = "2d"\n[commands.report]\nexit-zero = true\n')
    monkeypatch.setenv("KILL_AUDIT_FAIL_ON", "any")
    said = kill_audit("report", "-v", *scene("deploy"))
    file = tmp_path / "here" / "kill-audit.toml"
    assert said.status == 0
    *lines, window, units, source = said.err.splitlines()
    assert lines == [
        f"kill-audit: configuration: {file}",
        f"kill-audit: --lead-in 2d (from {file})",
        "kill-audit: --fail-on any (from KILL_AUDIT_FAIL_ON)",
        f"kill-audit: --exit-zero (from {file})",
    ]
    assert window.startswith("kill-audit: deaths from 2026-11-30 15:03:18")
    assert window.endswith(" UTC on (--lead-in 2d)")
    assert units == "kill-audit: units: those whose own lines are a Celery worker's"
    assert source == f"kill-audit: reads {scene('deploy')[-1]}: journal export"


def test_verbose_keeps_a_password(monkeypatch: pytest.MonkeyPatch, kill_audit: Command) -> None:
    """A run log's URL with a password is named and not shown."""
    monkeypatch.setenv("KILL_AUDIT_RUN_LOG", "postgresql://shop:hunter2@127.0.0.1:1/shop")
    said = kill_audit("report", "-v", *scene("deploy"))
    assert "--run-log (not shown, as it holds a password) (from KILL_AUDIT_RUN_LOG)" in said.err
    assert "hunter2" not in said.err + said.out


def test_a_stream_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch, kill_audit: Command) -> None:
    """`-` reads packed or plain entries from standard input."""
    *window, _, journal = scene("deploy")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(journal).read_bytes())))
    document = kill_audit("report", "-o", "json", *window, "-").json
    assert document["totals"]["kills"] == 4
    assert {source["source"] for source in document["coverage"]["sources"]} == {"-"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--since", "yestreday"], "yestreday"),
        (["--since", "now", "--until", "1h ago"], "since"),
        (["-o", "xml"], "-o xml: no such format"),
        (["journal"], "unexpected argument 'journal'"),
        (["--root", "/", "--file", "x"], "--root names this host's journal"),
        (["--lead-in", "much"], "much"),
    ],
)
def test_what_cannot_be_understood_is_one_line_with_a_hint(words: list[str], error: str, kill_audit: Command) -> None:
    """Words that make no sense: exit 2, nothing on stdout, what is wrong and what to type instead."""
    said = kill_audit("report", *words)
    assert (said.status, said.out) == (2, "")
    first, *more = said.err.splitlines()
    assert first.startswith("kill-audit: ")
    assert error in first
    assert any(line.startswith("hint: ") for line in more)


def test_json_goes_alone_to_stdout(kill_audit: Command) -> None:
    """What is said besides a result goes to stderr, so that stdout can be piped."""
    said = kill_audit("report", "-v", "-o", "json", *scene("deploy"))
    assert json.loads(said.out)["format"] == "kill-audit/report"
    assert said.err
