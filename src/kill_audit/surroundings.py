"""The lines around a death, as they stand in the sources: what `show` prints.

Rules of this file: it picks entries by unit, process, time and the task's id, and recognises nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kill_audit.entry import Batch, Micros, Origin, Problem, Question, Source

MOST_LINES = 400  # of one source; a flood around a death tells no more than its first lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A death to look around: its unit's lines in [`since`, `until`), and its task's lines anywhere in the reading."""

    machine: str
    boot: str
    unit: str
    task_id: str | None
    since: Micros
    until: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """An entry near a death. `who`: the unit or program that wrote it."""

    at: Micros
    cursor: str
    who: str
    pid: int
    text: str


def lines_around(item: tuple[Source, Question, Place]) -> tuple[LogLine, ...]:
    """Read one source again for the lines around a death. Picklable, like a scan."""
    source, question, place = item
    found: list[LogLine] = []
    for batch in source.batches(question):
        if isinstance(batch, Problem):
            continue
        for line in _chosen(batch, place):
            found.append(line)
            if len(found) >= MOST_LINES:
                return tuple(found)
    return tuple(found)


def _chosen(batch: Batch, place: Place) -> Iterator[LogLine]:
    near = {code: _belongs(origin, place) for code, origin in enumerate(batch.origins)}
    for row, message in enumerate(batch.message):
        if message is None:
            continue
        origin = batch.origins[batch.origin[row]]
        at = batch.realtime[row]
        inside = place.since <= at < place.until
        about = batch.fields[row].get("UNIT") or batch.fields[row].get("USER_UNIT")
        by_time = inside and (near[batch.origin[row]] or about == place.unit)
        if not by_time and not (place.task_id and place.task_id in message):
            continue
        yield LogLine(
            at=at,
            cursor=batch.cursor[row],
            who=origin.unit or origin.identifier or origin.transport,
            pid=batch.pid[row],
            text=message,
        )


def _belongs(origin: Origin, place: Place) -> bool:
    """Whether an origin is the unit's own, the kernel's or a killer's, on the same machine in the same boot."""
    if (origin.machine_id or origin.host) != place.machine or (origin.boot_id or "") != place.boot:
        return False
    killers = ("/sudo", "/systemd-oomd", "/earlyoom", "/systemd-logind", "/systemd-coredump")
    return (origin.unit or "") == place.unit or origin.transport == "kernel" or (origin.exe or "").endswith(killers)
