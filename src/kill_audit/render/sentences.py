"""The report's sentences: the headline, what the evidence reaches over, the run log, and what to type next."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kill_audit import texts
from kill_audit.document import (
    Acceptance,
    Accepted,
    Candidate,
    Document,
    Drain,
    Kill,
    RunLogFacts,
    Task,
    TaskReference,
    UnitAdvice,
)
from kill_audit.render.figures import NO_NAME, deploys_with_kills, holes, worst_first
from kill_audit.render.view import Clock, count, listed, span
from kill_audit.texts import Text

UNITS_NAMED = 8  # of each host; `kill-audit units` lists them all
SKEW_TOLD_S = 1.0  # a smaller difference between two clocks changes no verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command to type next, and why."""

    command: str
    why: str


def headline(document: Document) -> str:
    """Say the whole report in one sentence; "0 kills" never stands without how much the evidence reaches over."""
    parts = [_killed(document), *_besides(document)]
    if not document.kills or document.coverage.verdict != "complete":
        parts.append(_reach(document))
    return "; ".join(parts) + "."


def _killed(document: Document) -> str:
    kills = len(document.kills)
    inside, deploys = deploys_with_kills(document)
    said = f"{count(kills, 'task')} killed" if kills else "0 kills found"
    if inside:
        where = f"in {count(deploys, 'deploy')}"
        said += f" {where}" if inside == kills else f" ({inside:,} of them {where})"
    if document.previous is not None:
        said += f" ({document.previous.kills:,} in the period before)"
    return ", ".join([said, *_rows(document)])


def _rows(document: Document) -> list[str]:
    if document.run_log is None or not document.kills:
        return []
    verdicts = [kill.verdict for kill in document.kills]
    missing, stuck, unasked = (verdicts.count(verdict) for verdict in ("missing", "stuck", None))
    said = [f"{missing:,} with no run row"] if missing else []
    if stuck:
        said.append(f"{stuck:,} with a row stuck open")
    if unasked == len(verdicts):
        return ["none of which could be looked up in the run log"]
    said = said or ["none without a run row, no row stuck open"]
    return [*said, f"{unasked:,} not looked up in the run log"] if unasked else said


def _besides(document: Document) -> list[str]:
    said = []
    if accepted := sum(kill.accepted is not None for kill in document.kills):
        said.append(f"{accepted:,} accepted")
    if blind := len(document.blind_deaths):
        tasks = "its tasks cannot be known" if blind == 1 else "their tasks cannot be known"
        said.append(f"{count(blind, 'blind worker death')} ({tasks})")
    if ghosts := len(document.ghosts):
        said.append(count(ghosts, "ghost row"))
    return said


def _reach(document: Document) -> str:
    match document.coverage.verdict:
        case "complete":
            return f"the evidence covers the whole window ({count(document.coverage.entries, 'entry', 'entries')})"
        case "partial":
            return "the evidence covers only a part of the window, so there may be more"
        case "none":
            return "no evidence covers the window, so nothing can be said"


def coverage(document: Document) -> str:
    """Say how much was read and how whole it is: `partial: 1,204 entries from 3 sources, 2 problems`."""
    parts = [count(document.coverage.entries, "entry", "entries")]
    sources = len({source.source for source in document.coverage.sources})
    parts[0] += f" from {count(sources, 'source')}"
    if problems := len(holes(document)):
        parts.append(count(problems, "problem"))
    return f"{document.coverage.verdict}: {', '.join(parts)}"


def units(document: Document) -> str:
    """Name the worker units of the window by their hosts: `celery@a.service and celery@b.service on web1`."""
    hosts: dict[str, dict[str, None]] = {}
    for source in document.coverage.sources:
        if source.unit is not None:
            hosts.setdefault(source.host or "an unnamed host", {})[source.unit] = None
    if not hosts and document.coverage.verdict == "none":
        return "none: no line in the window is a Celery worker's"
    if not hosts:
        return "not named by the evidence"
    return "; ".join(f"{a_few(sorted(names), UNITS_NAMED)} on {host}" for host, names in sorted(hosts.items()))


def run_log(facts: RunLogFacts | None) -> str:
    """Say which run log the kills were reconciled with."""
    if facts is None:
        return "none given, so whether the application knows of these runs was not looked at (--run-log)"
    parts = [facts.kind]
    if facts.table is not None:
        parts[0] += f" table {facts.table}"
    if facts.preset is not None:
        parts.append(f"preset {facts.preset}")
    if facts.rows is not None:
        parts.append(count(facts.rows, "row") if facts.rows else "the table is empty")
    if facts.time_zone is not None:
        parts.append(f"times in {facts.time_zone}")
    if facts.skew_s is not None and abs(facts.skew_s) >= SKEW_TOLD_S:
        parts.append(
            f"its clock {abs(facts.skew_s):.1f}s {'ahead of' if facts.skew_s > 0 else 'behind'} the journal's"
        )
    return ", ".join(parts)


def besides(document: Document) -> tuple[str, ...]:
    """Say what was seen and not counted: idle children's deaths, and lines that look like kills."""
    said = []
    if idle := len(document.idle_deaths):
        said.append(f"{count(idle, 'idle pool process', 'idle pool processes')} died with no task on "
                    f"{'it' if idle == 1 else 'them'}.")  # fmt: skip
    if lines := len(document.not_losses):
        verb = "line looks like a kill and is" if lines == 1 else "lines look like kills and are"
        said.append(f"{lines:,} {verb} none (-o json says why).")
    return tuple(said)


def drain(advice: Drain) -> str:
    """Say what a longer stop timeout would have saved."""
    what = f"{advice.unit}: KillMode=mixed with TimeoutStopSec={advice.timeout_s}"
    runs = count(advice.of, "killed run")
    if advice.saved is None:
        return f"{what}; how many of {runs} it would have saved cannot be said without their usual run times"
    return f"{what} would have saved {advice.saved:,} of {runs}"


def unit_advice(advices: Iterable[UnitAdvice]) -> tuple[str, ...]:
    """Say which settings to change, once for all units that need the same.

    `celery@a.service and celery@b.service: KillMode=mixed instead of control-group (why)`.
    """
    units: dict[str, list[str]] = {}
    for advice in advices:
        instead = "" if advice.now is None else f" instead of {advice.now}"
        units.setdefault(f"{advice.setting}={advice.better}{instead} ({advice.why})", []).append(advice.unit)
    return tuple(f"{a_few(names)}: {what}" for what, names in units.items())


def next_steps(document: Document, *, explained: bool) -> tuple[Step, ...]:
    """The commands that a person would type next, most urgent first; `explained`: `-x` was given already."""
    steps = []
    longest, rest = worst_first(document)
    if longest or rest:
        kill = (*longest, *rest)[0]
        steps.append(
            Step(command=f"kill-audit show {shlex.quote(kill.id)}", why="the evidence for the first kill above")
        )
        if not explained:
            steps.append(Step(command="kill-audit report -x", why="what each finding means, and how to fix it"))
    if deploys_with_kills(document)[0]:
        steps.append(Step(command="kill-audit deploys", why="every deploy, and what it cost"))
    if document.coverage.verdict != "complete" or document.blind_deaths:
        steps.append(Step(command="kill-audit doctor", why="why the evidence is not whole, and how to keep more"))
    if document.run_log is None and document.kills:
        steps.append(Step(command="kill-audit report --run-log URL", why="which of these the application knows of"))
    return tuple(steps)


def a_few(names: Sequence[str], limit: int = 3) -> str:
    """Name a few of many: `a, b, c and 4 more`."""
    more = [f"{len(names) - limit:,} more"] if len(names) > limit else []
    return listed([*names[:limit], *more])


def reference(task: Task | TaskReference | Candidate) -> str:
    """Write a task as Celery does: `NAME[ID]`."""
    name = task.name or NO_NAME
    return name if task.id is None else f"{name}[{task.id}]"


def named_by(task: Task) -> str:
    """Say how the task was named and how sure that is: `job, high`."""
    return task.how if task.confidence is None else f"{task.how}, {task.confidence}"


def ran_for(kill: Kill) -> str:
    """Say how long the run had lasted; `≤` where it is counted from receipt, which is an upper bound."""
    bound = "≤" if kill.ran_for_s is not None and kill.started_at is None else ""
    return bound + span(kill.ran_for_s)


def accepted(by: Accepted, clock: Clock) -> str:
    """Say why a kill is accepted: `accepted: REASON (id 6190967735, until 2027-01-31; kill-audit.accepted.toml:5)`."""
    until = "" if by.until is None else f", until {clock.until(by.until)}"
    return f"accepted: {by.reason} ({by.by}{until}; {by.where})"


def stale(document: Document, clock: Clock) -> tuple[str, ...]:
    """Say of each entry for accepted findings that is out of date what is wrong with it, and what to do."""
    return tuple(
        f"{one.where}: {one.by}: {_stale(one, clock)} (reason: {one.reason})"
        for one in document.acceptances
        if one.stale is not None
    )


def _stale(one: Acceptance, clock: Clock) -> str:
    match one.stale:
        case "expired":
            fails = f"; {count(one.kills, 'kill')} of it in this window" if one.kills else ""
            until = "" if one.until is None else f" on {clock.until(one.until)}"
            return f"expired{until}, and accepts nothing{fails}: renew it or remove it"
        case "gone":
            return "no such kill is found any more where and when it was seen: remove it"
        case _:
            return "fits no kill of this window: remove it if what it was for is over"


def explained(document: Document) -> tuple[tuple[str, tuple[Text, ...]], ...]:
    """The texts of whatever a report says, with a title for each kind."""
    known = texts.load()
    kinds = (
        ("Causes", known.causes, _causes(document)),
        ("Fates", known.fates, {kill.fate for kill in document.kills}),
        ("Verdicts", known.verdicts, {kill.verdict for kill in document.kills}),
        ("Other findings", known.findings, _other_findings(document)),
        ("Ways of naming a task", known.naming, {kill.task.how for kill in document.kills}),
        ("Coverage", known.coverage, {hole.problem.code for hole in holes(document)}),
    )
    present = ((title, tuple(text for key, text in of.items() if key in keys)) for title, of, keys in kinds)
    return tuple((title, found) for title, found in present if found)


def _causes(document: Document) -> set[str]:
    return {kill.cause for kill in document.kills} | {death.cause for death in document.blind_deaths}


def _other_findings(document: Document) -> set[str]:
    present = {
        "blind-death": document.blind_deaths,
        "ghost": document.ghosts,
        "duplicate": document.duplicates,
        "stale-acceptance": [one for one in document.acceptances if one.stale is not None],
    }
    return {key for key, found in present.items() if found}
