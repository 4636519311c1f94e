"""Echoes: a worker's lines that another unit prints again, as a log shipper does.

Rules of this file: a line is an echo only if its whole text, with the worker's own time stamp in it, stands in
another unit's lines of the same machine within seconds. One echo unmasks the unit: nothing of it counts. Of two units
the echo is the one that is no Python program, else the later one.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from kill_audit.entry import Micros, Origin
from kill_audit.events import Event, WorkerEvent
from kill_audit.timeline.lives import SECOND, group_of
from kill_audit.timeline.partial import Group, Partial

SPAN = 30 * SECOND


def without_echoes(partials: Sequence[Partial]) -> tuple[Partial, ...]:
    """Leave out everything of units that print another unit's lines again."""
    first: dict[tuple[str, str, str], list[tuple[Micros, Group, Origin]]] = defaultdict(list)
    for partial in partials:
        for event in partial.events:
            if isinstance(event, WorkerEvent) and event.seen.text.startswith(("[2", "{")):
                group = group_of(event)
                first[group.machine, group.boot, event.seen.text].append((event.at, group, event.seen.origin))
    echoes: set[Group] = set()
    for found in first.values():
        if len({group.unit for _, group, _ in found}) > 1:
            echoes |= _echoes(found)
    if not echoes:
        return tuple(partials)
    return tuple(_less(partial, echoes) for partial in partials)


def _echoes(found: Sequence[tuple[Micros, Group, Origin]]) -> set[Group]:
    ordered = sorted(found, key=lambda one: (_is_shipper(one[2]), one[0]))
    _, source, _ = ordered[0]
    at = ordered[0][0]
    return {group for moment, group, _ in ordered[1:] if group.unit != source.unit and abs(moment - at) <= SPAN}


def _is_shipper(origin: Origin) -> bool:
    return origin.exe is not None and "python" not in origin.exe


def _less(partial: Partial, echoes: set[Group]) -> Partial:
    return replace(
        partial,
        segments=tuple(one for one in partial.segments if one.group not in echoes),
        runs=tuple(one for one in partial.runs if one.group not in echoes),
        ends=tuple(one for one in partial.ends if one.group not in echoes),
        events=tuple(one for one in partial.events if not _of(one, echoes)),
    )


def _of(event: Event, echoes: set[Group]) -> bool:
    return isinstance(event, WorkerEvent) and group_of(event) in echoes
