"""Which kills are accepted as known, by which entry, and which entries are stale.

Rules of this file: it knows entries and the document, no file and no clock. An accepted kill stays in every list and
number; it only says by what it is accepted. An entry that names the kill goes before one that fits it, and among those
that fit the first one counts. An entry that has expired accepts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from kill_audit import document
from kill_audit.document import Document, Kill, micros, timestamp
from kill_audit.entry import Micros

WEEK: Micros = (7 * 24 - 1) * 3_600 * 1_000_000
"""A shorter window says nothing about an entry that it has no kill for: what it is meant for may happen weekly.
An hour is missing, as it is missing in the week that changes to summer time."""

Stale = Literal["expired", "unmatched", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Where and when the kill that an entry names was seen, so that it can be missed."""

    at: Micros
    host: str | None
    unit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An entry: a kill by its id, or globs of which every given kind must fit; and why.

    `where`: its file and line, for people. `until`: from then on it accepts nothing. `seen`: only of one with an id.
    """

    where: str
    reason: str
    id: str | None = None
    causes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    until: Micros | None = None
    seen: Seen | None = None

    @property
    def by(self) -> str:
        """What it accepts, in words: `id 6190967735`, `cause unit-stop, task shop.*`."""
        if self.id is not None:
            return f"id {self.id}"
        kinds = (("cause", self.causes), ("task", self.tasks), ("unit", self.units))
        return ", ".join(f"{kind} {' or '.join(globs)}" for kind, globs in kinds if globs)

    def is_about(self, kill: Kill) -> bool:
        """Whether it names the kill, or everything that it asks for fits; a kill without a task name fits no glob."""
        if self.id is not None:
            return kill.id == self.id
        asked = ((kill.cause, self.causes), (kill.task.name, self.tasks), (kill.unit, self.units))
        return all(not globs or (value is not None and _fits(value, globs)) for value, globs in asked)

    def has_expired(self, now: Micros) -> bool:
        """Whether it accepts nothing any more."""
        return self.until is not None and self.until <= now


def _fits(value: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)


def accepted(whole: Document, acceptances: Sequence[Acceptance], *, every_unit: bool = True) -> Document:
    """Mark the kills that are accepted at the moment the report was made, and list the entries with what is stale.

    Args:
        whole: the report, with all kills of its window.
        acceptances: the entries, in the order of their file.
        every_unit: no unit and no boot was left out, so that an entry for any unit would have found its kills.
    """
    now = micros(whole.generated_at)
    kills = tuple(
        msgspec.structs.replace(kill, accepted=accepted_by(kill, acceptances, now=now)) for kill in whole.kills
    )
    listed = tuple(_listed(one, whole, now=now, every_unit=every_unit) for one in acceptances)
    totals = msgspec.structs.replace(whole.totals, accepted=sum(kill.accepted is not None for kill in kills))
    return msgspec.structs.replace(whole, kills=kills, totals=totals, acceptances=listed)


def accepted_by(kill: Kill, acceptances: Sequence[Acceptance], *, now: Micros) -> document.Accepted | None:
    """Tell what accepts a kill at a moment; None if nothing does."""
    fitting = [one for one in acceptances if not one.has_expired(now) and one.is_about(kill)]
    if not fitting:
        return None
    best = next((one for one in fitting if one.id is not None), fitting[0])
    return document.Accepted(reason=best.reason, until=_time(best.until), by=best.by, where=best.where)


def _listed(one: Acceptance, whole: Document, *, now: Micros, every_unit: bool) -> document.Acceptance:
    kills = sum(map(one.is_about, whole.kills))
    return document.Acceptance(
        where=one.where,
        by=one.by,
        reason=one.reason,
        until=_time(one.until),
        kills=kills,
        stale="expired" if one.has_expired(now) else None if kills else _missed(one, whole, every_unit=every_unit),
    )


def _missed(one: Acceptance, whole: Document, *, every_unit: bool) -> Stale | None:
    """Tell whether an entry without kills should have found some: only whole evidence can say so."""
    since, until = micros(whole.window.since), micros(whole.window.until)
    if whole.coverage.verdict != "complete":
        return None
    if one.id is not None:
        was_read = one.seen is not None and since <= one.seen.at < until and _reaches(whole, one.seen)
        return "gone" if was_read else None
    units = {source.unit for source in whole.coverage.sources if source.unit is not None}
    in_reach = every_unit or any(_fits(unit, one.units) for unit in units)
    return "unmatched" if until - since >= WEEK and in_reach else None


def _reaches(whole: Document, seen: Seen) -> bool:
    """Whether the evidence holds the place and the moment where a kill was seen."""
    return any(
        (source.host, source.unit) == (seen.host, seen.unit)
        and source.first is not None
        and source.last is not None
        and micros(source.first) <= seen.at <= micros(source.last)
        for source in whole.coverage.sources
    )


def _time(at: Micros | None) -> str | None:
    return None if at is None else timestamp(at)
