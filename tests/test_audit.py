"""Whole audits of recorded scenes: what is reported is what is true of them."""

import json
from typing import Any

import pytest

from builders import SECOND, findings
from kill_audit.document import decode, encode, micros
from recorded import Scene, cases, complaints, paired, recordings, verdict_of

RECORDINGS = {scene.name: scene for scene in recordings()}
CASES = {scene.name: scene for scene in cases()}
TABLES = ("run_log_end", "run_log_start")


@pytest.mark.parametrize("scene", RECORDINGS.values(), ids=RECORDINGS.keys())
def test_recording(scene: Scene) -> None:
    """Of real workers really killed every kill is found and explained, and nothing that is not a kill."""
    assert complaints(scene, scene.audited()) == []


@pytest.mark.parametrize("scene", CASES.values(), ids=CASES.keys())
def test_case(scene: Scene) -> None:
    """Of the world's log formats, wordings and look-alikes every kill is found, and nothing that is not a kill."""
    document = scene.audited()
    assert complaints(scene, document) == []
    text = json.dumps(findings(document)["kills"])
    assert not [one["match"] for one in scene.truth.get("not_kills", []) if one["match"] in text]


WITH_KILLS = {
    f"{name}-{table}": (scene, table) for name, scene in RECORDINGS.items() if scene.expected for table in TABLES
}


@pytest.mark.parametrize(("scene", "table"), WITH_KILLS.values(), ids=WITH_KILLS.keys())
def test_run_log(scene: Scene, table: str) -> None:
    """In a run log of either design a killed run's own row is found open, or a later run's, or nothing."""
    document = scene.audited(run_log=scene.run_log(table))
    named = [(want, kill) for want, kill in paired(scene.expected, document.kills)[0] if kill.task.id == want.task_id]
    assert [kill.verdict for _, kill in named] == [verdict_of(scene, table, want) for want, _ in named]


RECONCILED = {name: scene for name, scene in CASES.items() if scene.truth.get("runs")}


@pytest.mark.parametrize("scene", RECONCILED.values(), ids=RECONCILED.keys())
def test_run_rows(scene: Scene) -> None:
    """A run log in a CSV file gives the verdicts that are true of the case."""
    from kill_audit.runlog import open_run_log

    document = scene.audited(run_log=open_run_log(str(scene.folder / scene.truth["runs"])))
    want = scene.truth["reconcile"]
    found = {
        verdict: sorted(str(kill.task.id) for kill in document.kills if kill.verdict == verdict)
        for verdict in ("missing", "stuck")
    }
    assert found == {"missing": sorted(want.get("missing", [])), "stuck": sorted(want.get("stale", []))}


# A reload that restarts the worker is a window too; who wrote down the truth of that scene did not think so.
WITH_DEPLOYS = {
    name: scene
    for name, scene in RECORDINGS.items()
    if "deploys" in scene.truth and name != "celery-5.7/sighup_reload"
}


@pytest.mark.parametrize("scene", WITH_DEPLOYS.values(), ids=WITH_DEPLOYS.keys())
def test_deploys(scene: Scene) -> None:
    """Every stop or restart that somebody asked for is a deploy window of its units; nothing else is."""
    found = [(list(one.units), micros(one.since), micros(one.until)) for one in scene.audited().deploys]
    true = [(one["units"], one["from"] * SECOND, one["until"] * SECOND) for one in scene.truth["deploys"]]
    assert [units for units, _, _ in found] == [units for units, _, _ in true]
    slack = 2 * SECOND  # the scene's clock is read before the command and after it
    for (_, since, until), (_, begun, done) in zip(found, true, strict=True):
        assert begun - slack <= since <= done
        assert until >= since


@pytest.mark.parametrize("scene", CASES.values(), ids=CASES.keys())
def test_round_trip(scene: Scene) -> None:
    """A report read back from its JSON is the same report."""
    document = scene.audited()
    assert decode(encode(document)) == document


@pytest.mark.parametrize("name", ["celery-5.7/deploy_default", "celery-5.7/many_children", "celery-5.7/reboot_clean"])
def test_totals(name: str) -> None:
    """Every number of the totals is that of the lists beside it."""
    document = RECORDINGS[name].audited()
    totals: Any = document.totals
    assert totals.kills == len(document.kills) == sum(totals.by_cause.values()) == sum(totals.by_unit.values())
    assert totals.kills == sum(totals.by_task.values())
    assert (totals.idle_deaths, totals.blind_deaths) == (len(document.idle_deaths), len(document.blind_deaths))
    assert totals.not_losses == len(document.not_losses)


def test_every_kind() -> None:
    """There is a recording or a case of every cause."""
    from kill_audit.classify import Cause

    seen = {
        cause for scene in (*RECORDINGS.values(), *CASES.values()) for want in scene.expected for cause in want.causes
    }
    assert {cause.value for cause in Cause} - seen == {"oom-systemd"}
