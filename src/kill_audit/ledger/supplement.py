"""A report completed by what the ledger kept of the time that the journal has lost.

Rules of this file: the journal wins wherever it still reaches; only what lies before its first entry is added, and the
report says so: in the coverage, and with each kill that was added.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from kill_audit.document import (
    BlindDeath,
    Coverage,
    CoverageProblem,
    Deploy,
    Document,
    IdleDeath,
    Incident,
    Kill,
    NotLoss,
    SourceCoverage,
    micros,
    timestamp,
)
from kill_audit.ledger.evidence import FROM_LEDGER, GONE, Evidence, evidence_of, holes
from kill_audit.ledger.kept import Kept, Key, Kind, found_in
from kill_audit.ledger.merge import judged_again
from kill_audit.ledger.spans import Spans, joined, less, within
from kill_audit.report import narrowed, totals

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a ledger holds of a time: where it lies (for people), the spans that were read, problems, findings."""

    shown: str
    seen: Spans
    problems: tuple[CoverageProblem, ...]
    findings: tuple[Kept, ...]


def supplemented(document: Document, held: Held) -> Document:
    """Add to a report what the ledger has of the time before the journal's first entry."""
    evidence = evidence_of(document)
    known = {one.key: one for one in held.findings}
    found = tuple(found_in(document, evidence))
    kills = tuple(kill for one in found for kill in _as_known(one, known))
    gone = joined(span for spans in evidence.gone.values() for span in spans)
    bridged = tuple(span for part in gone for span in within(held.seen, *part))
    present = {one.key for one in found}
    added = [one for one in held.findings if _is_lost(one, present, evidence)]
    if not bridged and not added:
        return document if kills == document.kills else _counted(msgspec.structs.replace(document, kills=kills))
    told = bridged or ((min(one.at for one in added), max(one.at for one in added) + 1),)
    more = [_marked(one.body, one) for one in added if isinstance(one.body, Kill)]
    whole = msgspec.structs.replace(
        document,
        coverage=_coverage(document, held, told, gone, _from_here(len(more), len(more) + len(kills))),
        kills=_sorted((*kills, *more), "at"),
        deploys=_sorted((*document.deploys, *_bodies(added, Deploy)), "since"),
        incidents=_sorted((*document.incidents, *_bodies(added, Incident)), "since"),
        blind_deaths=_sorted((*document.blind_deaths, *_bodies(added, BlindDeath)), "at"),
        idle_deaths=_sorted((*document.idle_deaths, *_bodies(added, IdleDeath)), "at"),
        not_losses=_sorted((*document.not_losses, *_bodies(added, NotLoss)), "at"),
    )
    return _counted(whole)


def _counted(document: Document) -> Document:
    """Count the lists anew."""
    counted = totals(
        document.kills,
        ghosts=len(document.ghosts),
        idle=len(document.idle_deaths),
        blind=len(document.blind_deaths),
        not_losses=len(document.not_losses),
    )
    return msgspec.structs.replace(document, totals=counted, offenders=narrowed(document).offenders)


def _as_known(one: Kept, known: Mapping[Key, Kept]) -> Iterator[Kill]:
    """Give a kill as the report has it, or as it was known before the journal lost what named it."""
    kept = judged_again(known[one.key], one) if one.key in known else one
    if isinstance(kept.body, Kill):
        yield kept.body if kept.body == one.body else _marked(kept.body, known[one.key])


def _is_lost(one: Kept, present: Collection[Key], evidence: Evidence) -> bool:
    if one.key in present or one.kind is Kind.GHOST or not evidence.since <= one.at < evidence.until:
        return False
    boot = one.body.boot_id if isinstance(one.body, Kill) else None
    return evidence.lacks(one.at, one.host) or (boot is not None and not evidence.reaches_back(boot, one.at))


def _marked(kill: Kill, kept: Kept) -> Kill:
    told = f"the journal has lost entries about it; the ledger kept what they said ({timestamp(kept.judged_at)})"
    return msgspec.structs.replace(kill, reasons=(*kill.reasons, told))


def _bodies(kept: Iterable[Kept], kind: type[T]) -> tuple[T, ...]:
    return tuple(one.body for one in kept if isinstance(one.body, kind))


def _sorted(items: Sequence[T], by: str) -> tuple[T, ...]:
    return tuple(sorted(items, key=lambda item: str(getattr(item, by))))


# -- coverage -----------------------------------------------------------------


def _coverage(document: Document, held: Held, told: Spans, gone: Spans, said: str) -> Coverage:
    note = CoverageProblem(
        code=FROM_LEDGER,
        detail=said,
        since=timestamp(told[0][0]),
        until=timestamp(told[-1][1]),
    )
    wrong = tuple(problem for problem in held.problems if _touches(problem, told))
    unsaid = _remaining(gone, held.seen, None) if document.coverage.verdict == "none" else ()
    ledger = SourceCoverage(
        host=None,
        boot_id=None,
        unit=None,
        source=held.shown,
        first=timestamp(told[0][0]),
        last=timestamp(told[-1][1]),
        entries=0,
        problems=(note, *wrong, *unsaid),
    )
    sources = tuple(_less_gone(source, held.seen) for source in document.coverage.sources)
    coverage = msgspec.structs.replace(document.coverage, verdict="partial", sources=(*sources, ledger))
    verdict: Literal["complete", "partial"] = "partial"
    if not any(holes(msgspec.structs.replace(document, coverage=coverage))):
        verdict = "complete"
    return msgspec.structs.replace(coverage, verdict=verdict)


def _less_gone(source: SourceCoverage, seen: Spans) -> SourceCoverage:
    """Leave of what the journal does not reach back to only what the ledger does not have either."""
    problems: list[CoverageProblem] = []
    for problem in source.problems:
        if problem.code == GONE and problem.since and problem.until:
            problems += _remaining(((micros(problem.since), micros(problem.until)),), seen, problem)
        else:
            problems.append(problem)
    return msgspec.structs.replace(source, problems=tuple(problems))


def _from_here(kills: int, of: int) -> str:
    """Say how many of all kills the journal has lost and the ledger kept."""
    if not kills:
        return "the ledger knows what the journal no longer reaches back to, and has no kill of that time"
    are = "is" if kills == 1 else "are"
    return f"{kills:,} of {of:,} kills {are} from the ledger, because the journal no longer reaches back so far"


def _remaining(gone: Spans, seen: Spans, problem: CoverageProblem | None) -> tuple[CoverageProblem, ...]:
    detail = problem.detail if problem is not None else "no entry of the journal reaches back to it"
    return tuple(
        CoverageProblem(
            code=GONE,
            detail=f"{detail}; nor does the ledger" if (since, until) not in gone or problem is None else detail,
            since=timestamp(since),
            until=timestamp(until),
        )
        for since, until in less(gone, seen)
    )


def _touches(problem: CoverageProblem, spans: Spans) -> bool:
    since = micros(problem.since) if problem.since else None
    until = micros(problem.until) if problem.until else None
    return any((since is None or since < last) and (until is None or until > first) for first, last in spans)
