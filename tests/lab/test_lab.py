"""Real workers are killed, and kill-audit must tell the truth about it.

The environment's `KILL_AUDIT_LAB` chooses the scenarios: `quick` (default), `all`, or names with commas between.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .compare import differences
from .errors import MissingError
from .root import AUDIT_VENV, CELERIES, Celery, available
from .runner import play
from .scenario import Scenario
from .scenarios import SCENARIOS
from .stage import Stage
from .truth import Truth

pytestmark = pytest.mark.lab

FAILED = Path(".lab/failed")
WANTED = os.environ.get("KILL_AUDIT_LAB", "quick")


def chosen() -> list[object]:
    """Return the scenarios to play, each with a Celery; the quick ones in one boot, others on a machine a worker."""
    marks = [pytest.mark.xdist_group("lab")] if WANTED == "quick" else []
    return [
        pytest.param(celery, scenario, id=f"{scenario.name}-{celery.version}", marks=marks)
        for celery in CELERIES
        for scenario in SCENARIOS
        if celery.version in scenario.celeries
        if WANTED == "all"
        or scenario.name in WANTED.split(",")
        or (WANTED == "quick" and scenario.quick and celery is CELERIES[0])
    ]


@pytest.mark.parametrize(("celery", "scenario"), chosen())
def test_report_tells_the_truth(stage: Stage, celery: Celery, scenario: Scenario) -> None:
    """A report equals the truth: on the live journal as an unprivileged user, and on the files from outside."""
    if celery not in available():
        pytest.skip(f"no Python {celery.python} here for Celery {celery.version}")
    try:
        with play(stage, celery, scenario) as truth:
            wrong = said_wrongly(stage, truth)
            if any(wrong.values()):
                keep_journal(stage, FAILED / f"{scenario.name}-{celery.version}")
    except MissingError as missing:
        pytest.skip(str(missing))
    assert wrong == {question: [] for question in wrong}


def keep_journal(stage: Stage, place: Path) -> None:
    """Copy the machine's journal, which goes with the machine, to where a failure can be looked into."""
    stage.run("journalctl", "--sync")
    shutil.copytree(stage.container.root / "var/log/journal", place, dirs_exist_ok=True)


def said_wrongly(stage: Stage, truth: Truth) -> dict[str, list[str]]:
    """Return what is wrong in each report, by where it was made and with which run log."""
    asked = [
        (f"{place}, {log}", table, ask, options)
        for place, ask in (("inside", inside), ("outside", outside))
        for log, table, options in run_logs(stage, place)
    ]
    with ThreadPoolExecutor(len(asked)) as reporters:
        reports = [reporters.submit(ask, stage, truth, options) for _, _, ask, options in asked]
    return {
        name: differences(report.result(), truth, table)
        for (name, table, _, _), report in zip(asked, reports, strict=True)
    }


def run_logs(stage: Stage, place: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Return the run logs to reconcile with: both designs, in SQLite and PostgreSQL, the other way round outside."""
    if place == "inside":
        shop, sockets, tables = Path("/srv/shop"), "/run/postgresql", ("run_log_end", "run_log_start")
    else:
        shop = stage.container.root / "srv/shop"
        sockets = f"/proc/{stage.container.leader}/root/run/postgresql"
        tables = ("run_log_start", "run_log_end")
    urls = (f"sqlite:///{shop}/runlog.sqlite3", f"postgresql+psycopg:///shop?host={sockets}")
    for url, table in zip(urls, tables, strict=True):
        # --settle: the lab asks within seconds of the deaths, and the shop's rows are written at once.
        options = ("--run-log", url, "--run-log-table", table, "--settle", "0")
        yield f"{table} in {url.partition(':')[0]}", table, options


def inside(stage: Stage, truth: Truth, options: tuple[str, ...]) -> dict[str, object]:
    """Report on the live journal, as a user who may only read it."""
    # A worker's own log files stand beside the journal's files, not beside the live journal.
    sources = files(truth, Path("/var/log"), machine_id(stage)) if truth.scenario.evidence else ()
    command = [f"{AUDIT_VENV}/bin/kill-audit", *arguments(truth), *options, *sources]
    return parsed(stage.container.run(*command, user="auditor", check=False))


def outside(stage: Stage, truth: Truth, options: tuple[str, ...]) -> dict[str, object]:
    """Report on the machine's files, from outside it."""
    stage.run("journalctl", "--sync")
    root = stage.container.root
    sources = files(truth, root / "var/log", machine_id(stage)) if truth.scenario.evidence else (f"--root={root}",)
    command = [sys.executable, "-m", "kill_audit", *arguments(truth), *options, *sources]
    return parsed(subprocess.run(command, check=False, capture_output=True, text=True))


def files(truth: Truth, log: Path, machine: str) -> tuple[str, ...]:
    """Return the options that name the journal's files and the worker's own."""
    return (
        f"--directory={log}/journal/{machine}",
        *(f"--file={log}/celery/{name}" for name in truth.scenario.evidence),
    )


def machine_id(stage: Stage) -> str:
    """Return what the machine's journal is filed under."""
    return stage.run("cat", "/etc/machine-id").strip()


def arguments(truth: Truth) -> list[str]:
    """Return what every report is asked with."""
    window = ["--since", f"@{truth.since:.6f}", "--until", f"@{truth.until:.6f}"]
    return ["report", "--output", "json", "--exit-zero", "--unit", "celery@*", *window, *truth.scenario.reading]


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Return the report that was printed."""
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report
