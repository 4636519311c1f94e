"""The recordings of sample_journals/: a report says of them what happened, and what their READMEs say."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kill_audit.cli import run
from samples import FOLDER, RUN_LOG, Recording, combined_run_log, recordings, report_words

each_recording = pytest.mark.parametrize(
    "recording", [pytest.param(recording, id=recording.name) for recording in recordings()]
)


def report(target: Path, *words: str) -> dict[str, Any]:
    """The JSON report that these words of the command line make."""
    assert run(["report", "--quiet", "--exit-zero", "-o", "json", "-w", str(target), *words]) == 0
    document: dict[str, Any] = json.loads(target.read_bytes())
    return document


def told(document: dict[str, Any], verdict: str | None) -> list[tuple[str, ...]]:
    """The kills of a report in short, each with its verdict where `verdict` names one."""
    return sorted(
        (kill["unit"], kill["task"]["name"], kill["task"]["id"], kill["cause"], kill["fate"])
        + ((kill["verdict"],) if verdict else ())
        for kill in document["kills"]
    )


def wanted(expected: dict[str, Any], verdict: str | None) -> list[tuple[str, ...]]:
    """The kills that a recording expects, as `told` puts them."""
    names = ("unit", "task", "id", "cause", "fate", *([verdict] if verdict else []))
    return sorted(tuple(kill[name] for name in names) for kill in expected["kills"])


@each_recording
def test_a_recording_alone_is_reported_as_expected(recording: Recording, tmp_path: Path) -> None:
    """Each recording by itself shows its kills, their causes and fates, and its idle deaths, on whole evidence."""
    expected = recording.expected
    window = ("--since", expected["since"], "--until", expected["until"])
    document = report(tmp_path / "report.json", *window, "--file", str(recording.journal))
    assert told(document, None) == wanted(expected, None)
    pids = Counter((kill["task"]["id"], kill["child_pid"]) for kill in document["kills"] if kill["child_pid"])
    assert pids <= Counter((kill["id"], kill["child_pid"]) for kill in expected["kills"])
    assert document["totals"]["idle_deaths"] == expected["idle_deaths"]
    assert document["coverage"]["verdict"] == "complete"


@each_recording
@pytest.mark.parametrize(
    ("table", "verdict"), [("run_log_end", "written_at_the_end"), ("run_log_start", "written_at_the_start")]
)
def test_both_designs_of_a_run_log_are_told_apart(
    recording: Recording, table: str, verdict: str, tmp_path: Path
) -> None:
    """A log written when a run ends has no row of a killed run; one written at its start has a row stuck open."""
    expected = recording.expected
    words = ("--since", expected["since"], "--until", expected["until"], "--file", str(recording.journal))
    log = ("--run-log", f"sqlite:///{recording.run_log}", "--run-log-table", table)
    assert told(report(tmp_path / "report.json", *words, *log), verdict) == wanted(expected, verdict)


def test_all_recordings_together_are_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make report` reads, all recordings and one run log over all, is the sum of what each expects."""
    monkeypatch.chdir(FOLDER.parent)
    document = report(tmp_path / "report.json", *report_words()[1:])
    expected = [recording.expected for recording in recordings()]
    kills = [kill for one in expected for kill in one["kills"]]
    verdicts = Counter(kill["written_at_the_end"] for kill in kills)
    assert told(document, "verdict") == sorted(kill for one in expected for kill in wanted(one, "written_at_the_end"))
    assert document["coverage"]["verdict"] == "complete"
    totals = document["totals"]
    assert (totals["kills"], totals["missing"]) == (len(kills), verdicts["missing"])
    assert totals["idle_deaths"] == sum(one["idle_deaths"] for one in expected)
    assert totals["by_cause"] == Counter(kill["cause"] for kill in kills)


@each_recording
def test_what_is_expected_agrees_with_what_the_tasks_wrote(recording: Recording) -> None:
    """Every run that the tasks themselves show as cut off is expected, with its unit, process and cause."""
    truth = recording.truth
    cut_short = [
        (kill["unit"], kill["task"], kill["task_id"], kill["child_pid"], kill["cause"]) for kill in truth["kills"]
    ]
    kills = [
        (kill["unit"], kill["task"], kill["id"], kill["child_pid"], kill["cause"])
        for kill in recording.expected["kills"]
    ]
    assert kills == cut_short
    cut_off = Counter(entry["id"] for entry in truth["runs"] if entry["end"] is None)
    assert Counter(kill["id"] for kill in recording.expected["kills"]) == cut_off


def test_the_run_log_is_made_of_its_parts() -> None:
    """run_log.csv holds what `make samples` makes of the recordings' run logs."""
    assert RUN_LOG.read_text(encoding="utf-8") == combined_run_log()


@each_recording
def test_every_recording_tells_its_story_in_five_lines(recording: Recording) -> None:
    """A recording's README is a heading and a story of five lines, and the folder's README links to it."""
    lines = (FOLDER / recording.name / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert len([line for line in lines[1:] if line]) == 5
    links = re.findall(r"\]\(([a-z_]+)/README\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert links.count(recording.name) == 1
