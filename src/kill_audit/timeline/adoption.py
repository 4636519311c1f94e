"""Log files adopted by their units: a worker's file names its node, and its unit's chatter names it too.

A unit that runs `celery multi` writes nothing of its workers to the journal but lines such as `> w1@host: OK`. A file
whose banner or "ready" line has that node is that unit's: its lines join PID 1's records of the unit.

Rules of this file: a file is adopted whole or not at all, and only where one unit of one machine names its only node.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from kill_audit import events
from kill_audit.entry import Micros
from kill_audit.events import Event, WorkerEvent
from kill_audit.timeline.lives import Boots, group_of
from kill_audit.timeline.partial import Group, Partial

_NODE = re.compile(r"> (?P<node>[^\s@]+@[^\s:]+):")


def adopted(partials: Sequence[Partial], boots: Boots) -> tuple[Partial, ...]:
    """Give each log file that a unit's chatter claims to that unit."""
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for partial in partials:
        for event in partial.events:
            if isinstance(event, events.LogsToFile):
                group = group_of(event)
                for match in _NODE.finditer(event.seen.text):
                    owners[match["node"]].add((group.machine, group.unit))
    nodes: dict[Group, set[str]] = defaultdict(set)
    for partial in partials:
        for segment in partial.segments:
            if segment.node and not partial.vouched:
                nodes[segment.group].add(segment.node)
    named = set().union(*nodes.values()) if len(nodes) == 1 else set()
    return tuple(_adopted(partial, named, owners, boots) for partial in partials) if owners else tuple(partials)


def _adopted(partial: Partial, nodes: set[str], owners: dict[str, set[tuple[str, str]]], boots: Boots) -> Partial:
    units = owners.get(next(iter(nodes)), set()) if len(nodes) == 1 else set()
    if partial.vouched or len(units) != 1:
        return partial
    machine, unit = next(iter(units))

    def home(moment: Micros) -> Group:
        for (owner, boot), (first, last) in boots.spans.items():
            if owner == machine and boot and first <= moment <= last:
                return Group(machine, boot, unit, "")
        return Group(machine, "", unit, "")

    return replace(
        partial,
        segments=tuple(replace(one, group=home(one.first_at)) for one in partial.segments),
        runs=tuple(replace(one, group=home(one.first_at)) for one in partial.runs),
        ends=tuple(replace(one, group=home(one.mark.at)) for one in partial.ends),
        events=tuple(_moved(one, home(one.at)) for one in partial.events),
    )


def _moved(event: Event, group: Group) -> Event:
    if not isinstance(event, WorkerEvent):
        return event
    origin = replace(
        event.seen.origin, machine_id=group.machine, boot_id=group.boot or None, unit=group.unit, invocation_id=None
    )
    return replace(event, seen=replace(event.seen, origin=origin))
