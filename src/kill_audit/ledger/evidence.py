"""What the evidence behind a document reaches over, read out of its coverage.

Rules of this file: a span that the journal no longer (or not yet) has is told apart from everything else that is wrong
with the evidence. The first is a matter of when one looks: whoever looked earlier saw it. The rest is a matter of what
was written, and nobody ever saw it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kill_audit.coverage import INFORMATIONAL
from kill_audit.document import CoverageProblem, Document, Kill, SourceCoverage, micros
from kill_audit.entry import Micros
from kill_audit.ledger.spans import Span, Spans, holds, joined, less, within

FROM_LEDGER = "from-ledger"
GONE = "journal-starts-later"
OUT_OF_REACH = frozenset({GONE, "journal-ends-earlier"})
UNREAD = frozenset({"damaged", "truncated", "reader-failed", "no-permission", "unsupported", "null-message", "empty"})
"""Problems after which the absence of a record proves nothing: it may stand in what could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A problem that keeps evidence from being whole, and the span that it is known to touch, inside the window."""

    span: Span
    problem: CoverageProblem
    source: SourceCoverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a document's sources hold.

    `since`, `until`: the window as far as it was past when the document was made. `by_unit`: first and last entry of
    each boot and unit, and of each boot under the unit None. `gone`: by host the spans before the journal's first
    entry; None is for all hosts. `sound`: everything that was there could be read.
    """

    since: Micros
    until: Micros
    judged_at: Micros
    by_unit: Mapping[tuple[str | None, str | None], Span]
    gone: Mapping[str | None, Spans]
    sound: bool

    def first(self, kill: Kill) -> Micros | None:
        """The first entry that was read of the kill's unit in its boot: how far back its judgement could look."""
        span = self.by_unit.get((kill.boot_id, kill.unit))
        return None if span is None else span[0]

    def lacks(self, at: Micros, host: str | None) -> bool:
        """Whether a moment of a host (of any host, where None) lies before what its journal holds now."""
        if host is None:
            return any(holds(spans, at) for spans in self.gone.values())
        return holds((*self.gone.get(host, ()), *self.gone.get(None, ())), at)

    def reaches_back(self, boot: str, at: Micros) -> bool:
        """Whether entries of a boot that were read are as old as a moment in it."""
        span = self.by_unit.get((boot, None))
        return span is not None and span[0] <= at

    def still_holds(self, at: Micros, host: str | None, boot: str | None, unit: str | None) -> bool:
        """Whether the records of a death at a moment are certainly among what was read."""
        if not self.sound or not self.since <= at < self.until or self.lacks(at, host):
            return False
        if boot is None:
            return True
        own, whole = self.by_unit.get((boot, unit)), self.by_unit.get((boot, None))
        return own is not None and whole is not None and own[0] <= at <= whole[1]


def evidence_of(document: Document) -> Evidence:
    """Read the evidence out of a document's coverage."""
    since, until = reach(document)
    by_unit: dict[tuple[str | None, str | None], Span] = {}
    for source in document.coverage.sources:
        if source.first is not None and source.last is not None:
            span = (micros(source.first), micros(source.last))
            for key in {(source.boot_id, source.unit), (source.boot_id, None)}:
                known = by_unit.get(key, span)
                by_unit[key] = (min(known[0], span[0]), max(known[1], span[1]))
    codes = {problem.code for source in document.coverage.sources for problem in source.problems}
    return Evidence(
        since=since,
        until=until,
        judged_at=micros(document.generated_at),
        by_unit=by_unit,
        gone=_gone(document),
        sound=not codes & UNREAD,
    )


def reach(document: Document) -> Span:
    """The window, less what was still to come when the document was made."""
    since = micros(document.window.since)
    return since, max(since, min(micros(document.window.until), micros(document.generated_at)))


def seen(document: Document) -> Spans:
    """The spans of the window over which the evidence reached, whatever else is wrong with it."""
    if document.coverage.verdict == "none":
        return ()
    out = (hole.span for hole in holes(document) if hole.problem.code in OUT_OF_REACH)
    return less((reach(document),), out)


def covered(document: Document) -> Spans:
    """The spans of the window that nothing at all is wrong with."""
    if document.coverage.verdict == "none":
        return ()
    return less((reach(document),), (hole.span for hole in holes(document)))


def holes(document: Document) -> Iterator[Hole]:
    """Give the problems that count against the evidence, each with its span within the window.

    A problem without any time touches the whole window. One that knows only its start or only its end is held against
    that moment alone (as the second it falls in), because how far it reaches is not known.
    """
    window = reach(document)
    for source in document.coverage.sources:
        for problem in source.problems:
            if problem.code in INFORMATIONAL or problem.code == FROM_LEDGER:
                continue
            for span in within((span_of(problem, window),), *window):
                yield Hole(span=span, problem=problem, source=source)


def span_of(problem: CoverageProblem, window: Span) -> Span:
    """The span that a problem is known to touch."""
    since, until = problem.since and micros(problem.since), problem.until and micros(problem.until)
    if since and until:
        return since, until
    if not since and not until:
        return window
    moment = since or until or 0
    return moment - 500_000, moment + 500_000


def _gone(document: Document) -> Mapping[str | None, Spans]:
    """By host, what its journal does not reach back to; under None what no host's does."""
    if document.coverage.verdict == "none":
        return {None: (reach(document),)}
    hosts = {source.host for source in document.coverage.sources if source.entries}
    found: dict[str | None, list[Span]] = defaultdict(list)
    for hole in holes(document):
        if hole.problem.code == GONE:
            found[hole.source.host if hole.source.host in hosts else None].append(hole.span)
    return {host: joined(spans) for host, spans in found.items()}
