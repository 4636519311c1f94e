"""`kill-audit deploys` on recorded journals."""

import sys

import pytest

from command_line import Command, run_log, scene


def test_a_deploy_is_listed_with_what_it_cost(kill_audit: Command) -> None:
    """Two units restarted together are one deploy, with its kills and what the run log lacks of them."""
    said = kill_audit("deploys", *scene("deploy"), *run_log("deploy"))
    lines = said.out.splitlines()
    assert lines[0].startswith("1 deploy from 2026-11-30 15:03:18 to ")
    assert lines[0].endswith(" UTC, 4 kills in them.")
    assert lines[2].split() == [
        *("deploy", "since", "(UTC)", "took", "kills", "drained", "requeued", "no", "row", "stuck", "units"),
    ]
    deploy = lines[3].split()
    assert (deploy[0][0], deploy[-3:]) == ("d", ["celery@a.service", "and", "celery@b.service"])
    assert lines[-1] == f"next: kill-audit report --deploy {deploy[0]}"


def test_the_json_names_the_kills_of_each_deploy(kill_audit: Command) -> None:
    """Each deploy is as in the report, with its missing and stuck rows and the ids of its kills."""
    whole = kill_audit("deploys", "-o", "json", *scene("deploy"), *run_log("deploy")).json
    report = kill_audit("report", "-o", "json", *scene("deploy"), *run_log("deploy")).json
    (deploy,) = whole["deploys"]
    (expected,) = report["deploys"]
    assert {name: deploy[name] for name in expected} == expected
    assert deploy["kill_ids"] == [kill["id"] for kill in report["kills"] if kill["deploy"] == deploy["id"]]
    verdicts = [kill["verdict"] for kill in report["kills"]]
    assert (deploy["missing"], deploy["stuck"]) == (verdicts.count("missing"), verdicts.count("stuck"))
    assert (whole["format"], whole["version"], whole["coverage"]) == (
        "kill-audit/deploys",
        1,
        report["coverage"]["verdict"],
    )


def test_without_a_run_log_no_row_is_counted(kill_audit: Command) -> None:
    """What was not looked for is null, and has no column."""
    (deploy,) = kill_audit("deploys", "-o", "json", *scene("deploy")).json["deploys"]
    assert (deploy["missing"], deploy["stuck"]) == (None, None)
    assert "stuck" not in kill_audit("deploys", *scene("deploy")).out


def test_a_deploy_that_drains_costs_nothing(kill_audit: Command) -> None:
    """KillMode=mixed with time enough: the deploy is listed with no kills, and what finished meanwhile."""
    (deploy,) = kill_audit("deploys", "-o", "json", *scene("drain")).json["deploys"]
    assert (deploy["kills"], deploy["units"]) == (0, ["celery@a.service"])
    assert deploy["drained"] > 0
    assert "next:" not in kill_audit("deploys", *scene("drain")).out


def test_the_status_is_that_of_the_evidence(kill_audit: Command) -> None:
    """A window that the journal does not reach over may hold more deploys: status 3, and the reason."""
    assert kill_audit("deploys", *scene("deploy")).status == 0
    early = kill_audit("deploys", *scene("deploy"), "--since", "2026-11-30 12:00")
    assert early.status == 3
    assert "The evidence is partial: " in early.out
    assert "kill-audit doctor says why." in early.out


def test_a_narrow_terminal_gets_three_lines_a_deploy(kill_audit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns a deploy is its id and time, then its numbers, then its units."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    said = kill_audit("deploys", "-q", "--color", "never", *scene("deploy"), *run_log("deploy"))
    head = next(place for place, line in enumerate(said.out.splitlines()) if line.startswith("d"))
    lines = said.out.splitlines()[head : head + 3]
    assert "took" in lines[0]
    assert lines[1].startswith("  4 kills, ")
    assert lines[2] == "  celery@a.service and celery@b.service"


def test_a_word_that_is_no_dash_is_refused(kill_audit: Command) -> None:
    """Files are named with --file."""
    said = kill_audit("deploys", "some.export")
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith("kill-audit: unexpected argument 'some.export'\nhint: name files with --file")
