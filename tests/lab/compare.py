"""Compare a report of kill-audit with the truth.

Kills, names, causes, fates, verdicts, deploy windows, idle deaths and duplicates.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from .stage import Deploy
from .truth import Kill, Truth

# What a report may say of a run, by what the broker says became of it: "lost" of a message that still waits is a lie.
FATES = {
    "redelivered": {"redelivered"},
    "waiting": {"pending", "requeued", "unknown", "redelivered"},  # received again, but not begun
    "gone": {"lost", "revoked", "unknown"},
}
MISSED = "missed-kernel-messages"


def differences(report: dict[str, Any], truth: Truth, table: str) -> list[str]:
    """Return a line for everything that the report says wrongly; none if it tells the truth.

    `table`: the run log's table that the report was reconciled with.
    """
    return [
        *_kills(report, truth, table),
        *_deploys(report, truth),
        *_duplicates(report, truth),
        *_idle_deaths(report, truth),
        *_coverage(report, truth),
    ]


def _kills(report: dict[str, Any], truth: Truth, table: str) -> Iterator[str]:
    found: list[dict[str, Any]] = list(report["kills"])
    for kill in truth.kills:
        same = _same_kill(kill, found, nameable=truth.scenario.nameable)
        if same is None:
            yield f"missed: {_words(kill)}"
            continue
        found.remove(same)
        if truth.scenario.nameable and (same["task"]["name"], same["task"]["id"]) != (kill.run.task, kill.run.id):
            yield f"named {same['task']['name']}[{same['task']['id']}]: {_words(kill)}"
        if same["cause"] != kill.cause:
            yield f"cause {same['cause']} for {kill.cause}: {_words(kill)}"
        if same["fate"] not in FATES[kill.fate]:
            yield f"fate {same['fate']} for {kill.fate}: {_words(kill)}"
        at = moment(same["at"])
        if not kill.run.started <= at <= truth.until:
            yield f"at {same['at']}, which is outside of the run's life: {_words(kill)}"
        expected = verdict(kill, truth, table)
        if same["task"]["id"] and same["verdict"] != expected:
            yield f"verdict {same['verdict']} for {expected}: {_words(kill)}"
    for extra in found:
        if not _may_not_have_begun(extra):
            task = extra["task"]
            yield f"extra: {extra['at']} {extra['unit']} {task['name']}[{task['id']}] {extra['cause']}"


def _same_kill(kill: Kill, found: list[dict[str, Any]], *, nameable: bool) -> dict[str, Any] | None:
    """Find the reported kill that is this one: by child, else by id, else (if none can be named) an unnamed one."""
    of_unit = [one for one in found if one["unit"] == kill.run.unit]
    by_child = [one for one in of_unit if one["child_pid"] == kill.run.process.pid]
    by_id = [one for one in of_unit if one["task"]["id"] == kill.run.id and one["child_pid"] is None]
    unnamed = [one for one in of_unit if one["task"]["id"] is None and not nameable]
    return next(iter([*by_child, *by_id, *unnamed]), None)


def _may_not_have_begun(extra: dict[str, Any]) -> bool:
    """Tell whether the report itself doubts that the task had begun.

    Celery 4.4 leaves its banner in a buffer, so when the main process is killed nothing shows the pool's size.
    """
    return extra["task"]["confidence"] == "low" and any("concurrency is not known" in why for why in extra["reasons"])


def verdict(kill: Kill, truth: Truth, table: str) -> str:
    """Return what the run log must say of a killed run.

    Its row in `run_log_start` stays open. `run_log_end` has no row of it, at most one of a later run of the same id.
    """
    if table == "run_log_start":
        return "stuck"
    later = any(run.id == kill.run.id and run.started > kill.run.started and run.end == "end" for run in truth.runs)
    return "recovered" if later else "missing"


def _deploys(report: dict[str, Any], truth: Truth) -> Iterator[str]:
    reported = [(tuple(sorted(one["units"])), moment(one["since"]), moment(one["until"])) for one in report["deploys"]]
    for window in _windows(truth.deploys):
        if all(deploy.since < truth.since for deploy in window):
            continue
        units = tuple(sorted({unit for deploy in window for unit in deploy.units}))
        same = [one for one in reported if one[0] == units and one[1] < window[-1].until and one[2] > window[0].since]
        if len(same) != 1:
            yield f"{len(same)} deploys for one of {units}"
        reported = [one for one in reported if one not in same]
    for units, since, until in reported:
        # One of a scenario before, whose last death was just before this one's window, may be told of too.
        if since >= truth.since:
            yield f"no such deploy: {units} from {since} to {until}"


def _windows(deploys: Sequence[Deploy]) -> Iterator[list[Deploy]]:
    """Put together what a report calls one deploy: deploys that lie closer than two minutes."""
    window: list[Deploy] = []
    for deploy in sorted(deploys, key=lambda deploy: deploy.since):
        if window and deploy.since > window[-1].until + 120:
            yield window
            window = []
        window.append(deploy)
    if window:
        yield window


def moment(text: str) -> float:
    """Return an RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def _duplicates(report: dict[str, Any], truth: Truth) -> Iterator[str]:
    finished = Counter(run.id for run in truth.runs if run.end == "end")
    twice = {task for task, times in finished.items() if times > 1}
    reported = {one["task"]["id"] for one in report["duplicates"]}
    for task in sorted(twice ^ reported):
        yield f"duplicate {'missed' if task in twice else 'that is none'}: {task}"


def _idle_deaths(report: dict[str, Any], truth: Truth) -> Iterator[str]:
    if truth.scenario.idle is not None and len(report["idle_deaths"]) != truth.scenario.idle:
        yield f"{len(report['idle_deaths'])} idle deaths for {truth.scenario.idle}"


def _coverage(report: dict[str, Any], truth: Truth) -> Iterator[str]:
    if report["coverage"]["verdict"] != truth.scenario.coverage:
        problems = sorted({one["code"] for source in report["coverage"]["sources"] for one in source["problems"]})
        if truth.scenario.coverage == "complete" and MISSED in problems:
            # Journald in a container that boots misses what this host's kernel no longer remembers.
            return
        yield f"coverage {report['coverage']['verdict']} for {truth.scenario.coverage}: {problems}"


def _words(kill: Kill) -> str:
    return f"{kill.run.unit} {kill.run.task}[{kill.run.id}] of process {kill.run.process.pid}"
