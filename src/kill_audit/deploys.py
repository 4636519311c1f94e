"""Deploy windows: stop and restart jobs of audited units that belong together, and reloads that restart workers.

Rules of this file: a machine's shutdown is no deploy, and neither is an automatic restart after a crash (it has no
"Stopping" record). A deploy window is context, never a cause. Formats are not known here.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from kill_audit import events
from kill_audit.classify import SHUTDOWN_SPAN, Kill
from kill_audit.entry import Micros, Question
from kill_audit.timeline import History, Life, stops_of
from kill_audit.timeline.lives import CLOSE, SECOND

JOINED_WITHIN = 120 * SECOND  # stops that lie closer belong to one deploy
DEATH_TAIL = 5 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """One unit's way down in one life: from "Stopping" (or the SIGHUP's line) to its end."""

    machine: str
    unit: str
    invocation_id: str
    since: Micros
    until: Micros
    life: Life | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """A deploy window, and what the deaths in it come to."""

    id: str
    label: str
    since: Micros
    until: Micros
    spells: tuple[Spell, ...]
    kills: tuple[Kill, ...]
    drained: int
    requeued: int

    @property
    def units(self) -> tuple[str, ...]:
        """The units that went down, by name."""
        return tuple(sorted({spell.unit for spell in self.spells}))


def deploys_of(
    history: History, kills: Sequence[Kill], question: Question, joined_within: Micros = JOINED_WITHIN
) -> tuple[Deploy, ...]:
    """Find the deploy windows that touch the question's window, in order."""
    found: list[list[Spell]] = []
    for spell in sorted(_spells(history), key=lambda spell: spell.since):
        if found and spell.since <= max(one.until for one in found[-1]) + joined_within:
            found[-1].append(spell)
        else:
            found.append([spell])
    windows = [_deploy(tuple(spells), kills) for spells in found]
    return tuple(one for one in windows if one.until >= question.since and one.since < question.until)


def _spells(history: History) -> Iterable[Spell]:
    seen: set[tuple[str, str, str, Micros]] = set()
    for life in history.lives:
        down = [
            event.at
            for event in history.told.other
            if isinstance(event, events.HostShutdown)
            and (event.seen.origin.machine_id or event.seen.origin.host, event.seen.origin.boot_id or "")
            == life.group[:2]
        ]
        for stop in stops_of(life.about):
            if any(at - 10 * SECOND <= stop.begun.at <= at + SHUTDOWN_SPAN for at in down):
                continue
            other_run = stop.invocation_id and life.group.invocation and stop.invocation_id != life.group.invocation
            outside = stop.begun.at < life.first_at - CLOSE or (
                life.end.at is not None and stop.begun.at > life.end.at + CLOSE
            )
            key = (*life.group[:3], stop.begun.at)
            if other_run or outside or key in seen or not stop.job:
                continue
            seen.add(key)
            until = stop.until if stop.until is not None else max(stop.begun.at, life.last.at)
            yield _spell(life, stop.begun.at, until)
        for event in life.said:
            if isinstance(event, events.Reexec) and _reloaded(life, event.at):
                yield _spell(life, event.at, life.end.at or life.last.at)


def _reloaded(life: Life, moment: Micros) -> bool:
    """Whether a worker's own restart was asked for by a reload of its unit: a lone SIGHUP is no deploy."""
    return any(isinstance(one, events.UnitReloading) and abs(one.at - moment) <= DEATH_TAIL for one in life.about)


def _spell(life: Life, since: Micros, until: Micros) -> Spell:
    group = life.group
    return Spell(
        machine=group.machine, unit=group.unit, invocation_id=group.invocation, since=since, until=until, life=life
    )


def _deploy(spells: tuple[Spell, ...], kills: Sequence[Kill]) -> Deploy:
    since, until = min(spell.since for spell in spells), max(spell.until for spell in spells)
    inside = tuple(kill for kill in kills if any(_of_spell(kill, spell) for spell in spells))
    lives = {id(spell.life): spell.life for spell in spells if spell.life is not None}.values()
    requeued = sum(
        event.count
        for life in lives
        for event in life.said
        if isinstance(event, events.Restoring) and since - CLOSE <= event.at <= until + DEATH_TAIL
    )
    text = "|".join((spells[0].machine, spells[0].unit, str(since)))
    return Deploy(
        id="d" + sha256(text.encode()).hexdigest()[:7],
        label=_label(since),
        since=since,
        until=until,
        spells=spells,
        kills=inside,
        drained=sum(life.drained for life in lives),
        requeued=requeued,
    )


def _of_spell(kill: Kill, spell: Spell) -> bool:
    life = kill.death.life
    return (
        life.group.machine == spell.machine
        and life.group.unit == spell.unit
        and spell.since - CLOSE <= kill.at <= spell.until + DEATH_TAIL
        and (spell.life is None or spell.life.key == life.key)
    )


def _label(since: Micros) -> str:
    return f"{dt.datetime.fromtimestamp(since / SECOND, dt.UTC):%Y-%m-%d %H:%M} UTC"
