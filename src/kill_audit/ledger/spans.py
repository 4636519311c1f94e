"""Spans of time as sorted tuples of [since, until) in microseconds, and what can be done with them.

Rules of this file: numbers only. Every function gives spans that are sorted, not empty, and neither overlap nor touch.
"""

from collections.abc import Iterable

from kill_audit.entry import Micros

Span = tuple[Micros, Micros]
Spans = tuple[Span, ...]


def joined(spans: Iterable[Span]) -> Spans:
    """Put spans together: those that overlap or touch become one."""
    found: list[Span] = []
    for since, until in sorted(span for span in spans if span[0] < span[1]):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return tuple(found)


def within(spans: Iterable[Span], since: Micros, until: Micros) -> Spans:
    """Cut spans to [since, until)."""
    return joined((max(first, since), min(last, until)) for first, last in spans)


def less(spans: Iterable[Span], holes: Iterable[Span]) -> Spans:
    """Take holes out of spans."""
    left = list(joined(spans))
    for since, until in joined(holes):
        pieces = ((span, (max(span[0], since), min(span[1], until))) for span in left)
        left = [
            piece
            for (first, last), (start, end) in pieces
            for piece in (((first, start), (end, last)) if start < end else ((first, last),))
            if piece[0] < piece[1]
        ]
    return tuple(left)


def length(spans: Iterable[Span]) -> Micros:
    """Add up how long the spans are together."""
    return sum(until - since for since, until in spans)


def holds(spans: Iterable[Span], moment: Micros) -> bool:
    """Whether a moment lies in one of the spans."""
    return any(since <= moment < until for since, until in spans)
