"""The audit: the order of things, and the only place that knows it.

`scan` runs once for each source, in a child process where the source asks for it; `audit` joins what the scans say
and does the rest once. How scans are run is handed in (`each`): `map` will do, and so will a process pool.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kill_audit import classify, coverage, deploys, grammar, incidents, reconcile, report, timeline
from kill_audit.classify import TaskSettings
from kill_audit.document import Document
from kill_audit.entry import Micros, Problem, Question, Source
from kill_audit.events import Event
from kill_audit.grammar.marks import marks_in
from kill_audit.reconcile import Results, RunLog
from kill_audit.timeline import Follower, Partial
from kill_audit.together import Together

Scan = tuple[Source, Question]
Each = Callable[[Callable[[Scan], Partial], Sequence[Scan]], Sequence[Partial]]


def scan(item: Scan) -> Partial:
    """Read one source and follow its tasks. Picklable, and pure after the read."""
    source, question = item
    follower = Follower(question)
    for batch in source.batches(question):
        if isinstance(batch, Problem):
            follower.problem(batch)
        else:
            lines, found = grammar.recognise(batch, question)
            follower.feed(batch, lines, merged(found, marks_in(batch, question)) if question.marks else found)
    return follower.partial(source.name)


def merged(found: tuple[tuple[int, Event], ...], marks: Iterable[tuple[int, Event]]) -> tuple[tuple[int, Event], ...]:
    """Put marks among the events of a batch, in the order of its rows."""
    return tuple(sorted((*found, *marks), key=lambda item: item[0]))


def audit(
    sources: Sequence[Source],
    run_log: RunLog | None,
    question: Question,
    each: Each,
    *,
    now: Micros,
    settings: Mapping[str, TaskSettings] | None = None,
    settle: Micros = reconcile.SETTLE,
) -> Document:
    """Find every killed run in the sources, reconcile it with the run log, and write the report's document.

    Args:
        sources: read once each, and those that must be looked at again a second time.
        run_log: the app's run log, or None.
        question: the window and the units.
        each: runs `scan` over (source, question) pairs and returns the results in their order.
        now: see `examine`, as for the others.
        settings: acknowledgement settings by task name, where the user states them.
        settle: how old a death must be before a missing row is called missing, microseconds.
    """
    partials = partials_of(sources, question, each)
    return report.report(examine(partials, run_log, question, now=now, settings=settings, settle=settle))


def examine(
    partials: Sequence[Partial],
    run_log: RunLog | None,
    question: Question,
    *,
    now: Micros,
    settings: Mapping[str, TaskSettings] | None = None,
    results: Results | None = None,
    settle: Micros = reconcile.SETTLE,
    tolerance: Micros = reconcile.TOLERANCE,
    deploy_gap: Micros = deploys.JOINED_WITHIN,
    marks: Sequence[deploys.Marked] = (),
) -> report.Findings:
    """Find every killed run in what the sources say, and reconcile it with the run log.

    Args:
        partials: what `partials_of` gives.
        run_log: the app's run log, or None.
        question: the window and the units.
        now: the moment at which the run log is read, microseconds since the epoch.
        settings: acknowledgement settings by task name, where the user states them.
        results: Celery's own result table, or None.
        settle: how old a death must be before a missing row is called missing, microseconds.
        tolerance: how far outside a run's time its row may lie, microseconds.
        deploy_gap: how far apart two stops may lie and still belong to one deploy, microseconds.
        marks: deploys that a file of marks tells of.
    """
    history = timeline.join(partials)
    unread: tuple[str, ...] = ()
    if results is not None:
        history, unread = reconcile.named_by_results(history, results, question)
    scene = classify.scene_of(history, settings)
    kills = classify.judge(history.deaths, scene)
    windows = deploys.deploys_of(history, kills, question, deploy_gap, marks)
    inside = [kill for kill in kills if question.since <= kill.at < question.until]
    reconciled = reconcile.reconcile(inside, history, run_log, question, now, settle=settle, tolerance=tolerance)
    return report.Findings(
        question=question,
        history=history,
        scene=scene,
        judgement=coverage.judge(history, question, now),
        kills=kills,
        deploys=windows,
        incidents=incidents.incidents_of(inside, windows),
        reconciled=replace(reconciled, refused=tuple(dict.fromkeys((*unread, *reconciled.refused)))),
        now=now,
    )


def partials_of(sources: Sequence[Source], question: Question, each: Each) -> tuple[Partial, ...]:
    """Scan every source: those that overlap together, and those again in which something cancelled matters."""
    partials = list(each(scan, [(source, question) for source in sources]))
    sources, partials = _apart(list(sources), partials, question, each)
    again = timeline.second_look(partials)
    places = sorted(again)
    looked = each(scan, [(sources[place], replace(question, keep=again[place])) for place in places])
    for place, partial in zip(places, looked, strict=True):
        partials[place] = partial
    return tuple(partials)


def _apart(
    sources: list[Source], partials: list[Partial], question: Question, each: Each
) -> tuple[list[Source], list[Partial]]:
    """Read together, as one, the sources that tell of the same main process at the same time."""
    clusters = timeline.overlapping(partials)
    if not clusters:
        return sources, partials
    joined = [Together(sources=tuple(sources[place] for place in cluster)) for cluster in clusters]
    merged = each(scan, [(source, question) for source in joined])
    gone = {place for cluster in clusters for place in cluster}
    kept = [place for place in range(len(sources)) if place not in gone]
    return [*(sources[place] for place in kept), *joined], [*(partials[place] for place in kept), *merged]
