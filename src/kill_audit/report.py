"""Fold findings into the report: the totals, and everything as the document wants it.

Rules of this file: nothing new is decided here; every number of `totals` is derived from the lists beside it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256

import msgspec

from kill_audit import __version__, document
from kill_audit.advice import advise
from kill_audit.classify import Kill, Scene, cause_of
from kill_audit.coverage import Judgement
from kill_audit.deploys import Deploy
from kill_audit.document import timestamp
from kill_audit.entry import Micros, Problem, Question
from kill_audit.errors import UsageError
from kill_audit.grammar.signals import signal_name
from kill_audit.incidents import Incident
from kill_audit.reconcile import Finding, Reconciled, Row
from kill_audit.timeline import Blind, Death, History, IdleExit, Name
from kill_audit.timeline.lives import SECOND

SPARED = {
    "success-before-death": "the task had finished when its process died",
    "exit-0-at-shutdown": "the process ended by itself while the worker stopped; its result was on its way",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that the report is made of."""

    question: Question
    history: History
    scene: Scene
    judgement: Judgement
    kills: tuple[Kill, ...]
    deploys: tuple[Deploy, ...]
    incidents: tuple[Incident, ...]
    reconciled: Reconciled
    now: Micros


def report(found: Findings) -> document.Document:
    """Make the document."""
    window = found.question
    inside = [one for one in found.reconciled.findings if window.since <= one.kill.at < window.until]
    ids = _ids([one.kill for one in inside])
    deploy_of = {id(kill): deploy.id for deploy in found.deploys for kill in deploy.kills}
    incident_of = {id(kill): one.id for one in found.incidents for kill in one.kills}
    kills = tuple(
        _kill(one, ids[id(one.kill)], deploy_of.get(id(one.kill)), incident_of.get(id(one.kill))) for one in inside
    )
    idle = tuple(_idle(one, found.scene) for one in found.history.idle if _within(one.exit.at, window))
    blind = tuple(_blind(one, found.scene) for one in found.history.blind if _within(one.at, window))
    spared = tuple(
        document.NotLoss(
            at=timestamp(one.mark.at),
            host=one.life.host or None,
            unit=one.life.group.unit or None,
            text=one.mark.text,
            why=SPARED[one.why],
        )
        for one in found.history.spared
        if _within(one.mark.at, window)
    )
    ghosts = tuple(
        document.Ghost(
            key=one.row.key,
            task=document.TaskReference(name=one.row.task_name, id=one.row.task_id),
            started_at=_time(one.row.started_at),
            reasons=one.reasons,
        )
        for one in found.reconciled.ghosts
    )
    return document.Document(
        format=document.FORMAT,
        version=document.VERSION,
        tool=document.Tool(name="kill-audit", version=__version__),
        generated_at=timestamp(found.now),
        window=document.Window(since=timestamp(window.since), until=timestamp(window.until)),
        coverage=_coverage(found.judgement, found.reconciled.refused),
        run_log=found.reconciled.facts,
        totals=totals(kills, ghosts=len(ghosts), idle=len(idle), blind=len(blind), not_losses=len(spared)),
        previous=None,
        deploys=tuple(_deploy(one, window) for one in found.deploys),
        incidents=tuple(_incident(one, ids) for one in found.incidents),
        kills=kills,
        idle_deaths=idle,
        blind_deaths=blind,
        ghosts=ghosts,
        duplicates=tuple(
            document.Duplicate(
                task=document.TaskReference(name=one.task_name, id=one.task_id),
                deliveries=one.deliveries,
                finished=one.finished,
            )
            for one in found.reconciled.twice
        ),
        offenders=_offenders(kills),
        not_losses=spared,
        acceptances=(),
        advice=advise([one.kill for one in inside], found.history),
    )


def kill_named(found: Findings, key: str) -> tuple[document.Kill, Kill]:
    """Find the one kill in the window whose id begins with `key`: as the document has it, and as it was found.

    Raises:
        UsageError: no kill in the window has it, or several have.
    """
    inside = [one.kill for one in found.reconciled.findings if _within(one.kill.at, found.question)]
    ids = _ids(inside)
    named = id_named(ids.values(), key)
    whole = report(found)
    kill = next(one for one in inside if ids[id(one)] == named)
    return next(one for one in whole.kills if one.id == named), kill


def id_named(ids: Iterable[str], key: str) -> str:
    """Find the one id that begins with `key`.

    Raises:
        UsageError: none does, or several do.
    """
    matching = [one for one in ids if one.startswith(key.lower())]
    if len(matching) == 1:
        return matching[0]
    raise UsageError(
        f"{key}: {'several kills begin so' if matching else 'no kill in this window has this id'}",
        hint=f"give more of it: {', '.join(matching[:5])}"
        if matching
        else "ids are in `kill-audit report`; widen it with --since",
    )


def _within(at: Micros, window: Question) -> bool:
    return window.since <= at < window.until


def _time(at: Micros | None) -> str | None:
    return None if at is None else timestamp(at)


def totals(kills: Sequence[document.Kill], *, ghosts: int, idle: int, blind: int, not_losses: int) -> document.Totals:
    """Count."""
    verdicts = Counter(kill.verdict for kill in kills if kill.verdict is not None)
    return document.Totals(
        kills=len(kills),
        missing=verdicts.get("missing", 0),
        stuck=verdicts.get("stuck", 0),
        accepted=sum(kill.accepted is not None for kill in kills),
        ghosts=ghosts,
        idle_deaths=idle,
        blind_deaths=blind,
        not_losses=not_losses,
        by_cause=_ranked(Counter(kill.cause for kill in kills)),
        by_verdict=_ranked(verdicts),
        by_unit=_ranked(Counter(kill.unit or "" for kill in kills)),
        by_task=_ranked(Counter(kill.task.name or "" for kill in kills)),
    )


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def narrowed(
    whole: document.Document,
    *,
    tasks: Sequence[str] = (),
    causes: Sequence[str] = (),
    verdicts: Sequence[str] = (),
    deploys: Sequence[str] = (),
) -> document.Document:
    """Keep the kills that every filter lets pass, and count anew; the evidence and the run log stay as they are.

    Of the deploy windows and incidents those stay that are named, or that kept a kill.

    Args:
        whole: the document.
        tasks: globs of task names.
        causes: globs of causes.
        verdicts: globs of verdicts; a kill without one passes only without this filter.
        deploys: ids of deploy windows, or `last`.

    Raises:
        UsageError: there is no such deploy window.
    """
    wanted = {_deploy_named(word, whole.deploys) for word in deploys}
    kills = tuple(
        kill
        for kill in whole.kills
        if _passes(kill.task.name, tasks)
        and _passes(kill.cause, causes)
        and _passes(kill.verdict, verdicts)
        and (not wanted or kill.deploy in wanted)
    )
    before = whole.totals
    windows, events = wanted | {kill.deploy for kill in kills}, {kill.incident for kill in kills}
    return msgspec.structs.replace(
        whole,
        kills=kills,
        deploys=tuple(one for one in whole.deploys if one.id in windows),
        incidents=tuple(one for one in whole.incidents if one.id in events),
        offenders=_offenders(kills),
        totals=totals(
            kills,
            ghosts=before.ghosts,
            idle=before.idle_deaths,
            blind=before.blind_deaths,
            not_losses=before.not_losses,
        ),
    )


def _passes(value: str | None, globs: Sequence[str]) -> bool:
    return not globs or (value is not None and any(fnmatchcase(value, glob) for glob in globs))


def _deploy_named(word: str, deploys: Sequence[document.Deploy]) -> str:
    if word == "last" and deploys:
        return deploys[-1].id
    if any(one.id == word for one in deploys):
        return word
    known = ", ".join(one.id for one in deploys[-5:]) or "there is none in this window"
    raise UsageError(f"--deploy {word}: no such deploy window", hint=f"the last ones: {known}")


# -- kills ----------------------------------------------------------------


def _ids(kills: Sequence[Kill]) -> dict[int, str]:
    """Give each kill its short hash, of what the records at the death show; a clash is told apart by the time."""
    by_text: dict[str, list[Kill]] = defaultdict(list)
    for kill in kills:
        by_text[_identity(kill.death)].append(kill)
    found: dict[int, str] = {}
    for text, same in by_text.items():
        for place, kill in enumerate(same):
            whole = text if place == 0 else f"{text}|{kill.at}|{place}"
            found[id(kill)] = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return found


def _identity(death: Death) -> str:
    group = death.life.group
    if death.exit is not None:
        last = f"child {death.exit.child_pid}"
    elif death.job is not None:
        last = f"job {death.job}"
    elif death.run is not None:
        last = f"task {death.run.task_id}"
    else:
        last = f"place {death.place} at {death.at}"
    if not death.life.main_pid:  # in a container and in a log file numbers come again with each start
        last += f" at {death.at}"
    return "|".join((group.machine, group.boot, group.unit, str(death.life.main_pid), last))


def _kill(found: Finding, key: str, deploy: str | None, incident: str | None) -> document.Kill:
    kill = found.kill
    death, run, life = kill.death, kill.death.run, kill.death.life
    received = run.received.at if run is not None and run.received is not None else None
    started = run.accepted.at if run is not None and run.accepted is not None else None
    began = started if started is not None else received
    return document.Kill(
        id=key,
        at=timestamp(kill.at),
        host=life.host or None,
        boot_id=life.group.boot or None,
        unit=life.group.unit or None,
        invocation_id=life.group.invocation or None,
        worker=life.node,
        main_pid=life.main_pid or None,
        child_pid=death.exit.child_pid if death.exit else _child_of(death),
        host_pid=kill.ruling.host_pid,
        pool_process=death.exit.child if death.exit else _process_of(death),
        signal=death.signal,
        signal_name=signal_name(death.signal),
        exit_code=death.exit_code,
        job=death.job,
        task=_task(death),
        received_at=_time(received),
        started_at=_time(started),
        ran_for_s=None if began is None else max(0.0, round((kill.at - began) / SECOND, 3)),
        cause=kill.ruling.cause,
        confidence=kill.ruling.confidence,
        reasons=(*kill.ruling.reasons, *death.name.reasons, kill.fate_reason, *found.reasons),
        fate=kill.fate,
        deliveries=kill.deliveries,
        killed_times=kill.killed_times,
        deploy=deploy,
        incident=incident,
        verdict=found.verdict,
        accepted=None,
        rows=tuple(_row(row) for row in found.rows),
        evidence=tuple(
            document.Evidence(cursor=one.cursor, at=timestamp(one.at), text=one.text) for one in kill.marks
        ),
    )


def _child_of(death: Death) -> int | None:
    """The pool process of a run that died with its main process, where a line of the run shows it."""
    run = death.run
    if run is None or death.exits:
        return None
    if run.accepted_pid is not None:
        return run.accepted_pid
    return run.spoke_pid if run.spoke_pid not in (None, 0, death.life.main_pid) else None


def _process_of(death: Death) -> str | None:
    return (death.run.spoke_process or None) if death.run is not None else None


def _task(death: Death) -> document.Task:
    name: Name = death.name
    run = death.run
    return document.Task(
        name=(run.task_name or None) if run else None,
        id=run.task_id if run else None,
        how=name.how,  # type: ignore[arg-type]
        confidence=name.confidence,  # type: ignore[arg-type]
        candidates=tuple(
            document.Candidate(name=one.task_name or None, id=one.task_id, how="elimination")
            for one in name.candidates[:50]
        ),
    )


def _row(row: Row) -> document.Row:
    return document.Row(
        key=row.key, status=row.status, started_at=_time(row.started_at), finished_at=_time(row.finished_at)
    )


def _idle(one: IdleExit, scene: Scene) -> document.IdleDeath:
    death = Death(
        life=one.life,
        at=one.exit.at,
        main=False,
        run=None,
        name=Name(run=None, how="none", confidence=None),
        exit=one.exit,
        signal=one.exit.signal,
        exit_code=one.exit.exit_code,
    )
    return document.IdleDeath(
        at=timestamp(one.exit.at),
        host=one.life.host or None,
        unit=one.life.group.unit or None,
        child_pid=one.exit.child_pid,
        signal=one.exit.signal,
        exit_code=one.exit.exit_code,
        cause=cause_of(death, scene).cause,
    )


def _blind(one: Blind, scene: Scene) -> document.BlindDeath:
    life = one.life
    death = Death(
        life=life,
        at=one.at,
        main=True,
        run=None,
        name=Name(run=None, how="none", confidence=None),
        signal=life.end.signal,
    )
    return document.BlindDeath(
        at=timestamp(one.at),
        host=life.host or None,
        unit=life.group.unit or None,
        main_pid=life.main_pid or None,
        signal=life.end.signal,
        cause=cause_of(death, scene).cause,
        max_tasks=one.max_tasks,
        why=one.why,
    )


# -- the rest -------------------------------------------------------------


def _coverage(judgement: Judgement, refused: Sequence[str]) -> document.Coverage:
    verdict = "partial" if refused and judgement.verdict == "complete" else judgement.verdict
    unread = document.SourceCoverage(
        host=None,
        boot_id=None,
        unit=None,
        source="run log",
        first=None,
        last=None,
        entries=0,
        problems=tuple(
            document.CoverageProblem(code="run-log-refused", detail=detail, since=None, until=None)
            for detail in refused
        ),
    )
    return document.Coverage(
        verdict=verdict,
        entries=judgement.entries,
        sources=(
            *(
                document.SourceCoverage(
                    host=(one.stretch.host or None) if one.stretch else None,
                    boot_id=(one.stretch.boot or None) if one.stretch else None,
                    unit=(one.stretch.unit or None) if one.stretch else None,
                    source=one.source,
                    first=timestamp(one.stretch.first) if one.stretch and one.stretch.entries else None,
                    last=timestamp(one.stretch.last) if one.stretch and one.stretch.entries else None,
                    entries=one.stretch.entries if one.stretch else 0,
                    problems=tuple(_problem(each) for each in one.problems),
                )
                for one in judgement.covered
            ),
            *([unread] if refused else []),
        ),
    )


def _problem(problem: Problem) -> document.CoverageProblem:
    return document.CoverageProblem(
        code=problem.code, detail=problem.detail, since=_time(problem.since), until=_time(problem.until)
    )


def _deploy(deploy: Deploy, window: Question) -> document.Deploy:
    return document.Deploy(
        id=deploy.id,
        label=deploy.label,
        since=timestamp(deploy.since),
        until=timestamp(deploy.until),
        units=deploy.units,
        kills=sum(1 for kill in deploy.kills if _within(kill.at, window)),
        drained=deploy.drained,
        requeued=deploy.requeued,
    )


def _incident(incident: Incident, ids: Mapping[int, str]) -> document.Incident:
    return document.Incident(
        id=incident.id,
        cause=incident.cause,
        since=timestamp(incident.since),
        until=timestamp(incident.until),
        units=incident.units,
        kills=len(incident.kills),
        culprit=ids.get(id(incident.culprit)) if incident.culprit is not None else None,
    )


def _offenders(kills: Sequence[document.Kill]) -> tuple[document.Offender, ...]:
    lost: dict[str, float] = defaultdict(float)
    count: Counter[str] = Counter()
    for kill in kills:
        if kill.task.name:
            count[kill.task.name] += 1
            lost[kill.task.name] += kill.ran_for_s or 0.0
    return tuple(
        document.Offender(task=name, kills=number, lost_s=round(lost[name], 3))
        for name, number in sorted(count.items(), key=lambda item: (-item[1], item[0]))
    )
