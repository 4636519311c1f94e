"""The truth about a scenario, from the tasks' own diary, the processes and the broker; never from the journal.

A run that began and did not end, and whose process is dead, was killed. What became of it is what the broker says: the
same id has started again (`redelivered`), its message is still there (`waiting`), or it is not (`gone`).
"""

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from .scenario import Scenario
from .stage import Deploy, Run, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A run that was killed: why, and its fate by the broker."""

    run: Run
    cause: str
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """All that is known of one scenario. `open`: runs that were still going on at its end.

    `deploys`: of the whole boot, also of scenarios before.
    """

    scenario: Scenario
    celery: str
    since: float
    until: float
    runs: tuple[Run, ...]
    open: tuple[Run, ...]
    kills: tuple[Kill, ...]
    deploys: tuple[Deploy, ...]

    def document(self) -> dict[str, object]:
        """Return the truth as `truth.json` holds it; times are seconds since the epoch."""
        starts: dict[str, int] = {}
        for run in self.runs:
            starts[run.id] = starts.get(run.id, 0) + 1
        return {
            "scenario": self.scenario.name,
            "what": self.scenario.what,
            "celery": self.celery,
            "from": self.since,
            "until": self.until,
            "kills": [
                {
                    "unit": kill.run.unit,
                    "task": kill.run.task,
                    "task_id": kill.run.id,
                    "child_pid": kill.run.process.pid,
                    "started": kill.run.started,
                    "cause": kill.cause,
                    "fate": kill.fate,
                }
                for kill in self.kills
            ],
            "ran_more_than_once": {task: times for task, times in starts.items() if times > 1},
            "runs": [
                {
                    "id": run.id,
                    "task": run.task,
                    "unit": run.unit,
                    "pid": run.process.pid,
                    "t": run.started,
                    "end": "open" if run in self.open else run.end,
                    "end_t": run.ended,
                    "redelivered": run.redelivered,
                    "retries": run.retries,
                }
                for run in self.runs
            ],
            "nameable": self.scenario.nameable,
            **({} if self.scenario.idle is None else {"idle": self.scenario.idle}),
            "deploys": [
                {"units": list(deploy.units), "from": deploy.since, "until": deploy.until}
                for deploy in self.deploys
                if deploy.since >= self.since
            ],
        }


def collect(stage: Stage, scenario: Scenario) -> Truth:
    """Gather the truth at the end of a scenario, while its workers are as it left them."""
    until = time.time()
    runs = tuple(stage.runs())
    alive = tuple(run for run in runs if run.end is None and stage.alive(run.process))
    waiting = stage.waiting()
    killed = [run for run in runs if run.end is None and run not in alive]
    return Truth(
        scenario=scenario,
        celery=stage.run(f"{stage.celery.venv}/bin/celery", "--version").strip(),
        since=stage.since,
        until=until,
        runs=runs,
        open=alive,
        kills=tuple(Kill(run=run, cause=scenario.cause_for(run), fate=_fate(run, runs, waiting)) for run in killed),
        deploys=tuple(stage.deploys),
    )


def _fate(killed: Run, runs: tuple[Run, ...], waiting: list[str]) -> str:
    if any(run.id == killed.id and run.started > killed.started for run in runs):
        return "redelivered"
    return "waiting" if killed.id in waiting else "gone"


def record(stage: Stage, truth: Truth, folder: Path) -> None:
    """Write a recording: the journal, the run log, Celery's result table, and the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    # A second before: the job that started the workers.
    stage.container.export_journal(folder / "journal.export", since=truth.since - 1, until=truth.until + 1)
    for name in ("runlog.sqlite3", "results.sqlite3"):
        source = stage.container.root / "srv/shop" / name
        (folder / name).unlink(missing_ok=True)
        if source.exists():
            # Not a copy of the file: a killed writer may have left its journal beside it.
            with (
                closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
                closing(sqlite3.connect(folder / name)) as copy,
            ):
                live.backup(copy)
    (folder / "truth.json").write_text(json.dumps(truth.document(), indent=1) + "\n")
    for name in truth.scenario.evidence:
        (folder / name).write_bytes((stage.container.root / "var/log/celery" / name).read_bytes())


def summary(truth: Truth) -> Mapping[str, object]:
    """Return the few figures that a person wants to see of a recording."""
    return {
        "kills": [f"{kill.run.unit} {kill.run.task} {kill.cause} {kill.fate}" for kill in truth.kills],
        "runs": len(truth.runs),
        "seconds": round(truth.until - truth.since, 1),
    }
