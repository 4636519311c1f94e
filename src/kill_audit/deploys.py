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
class Marked:
    """A deploy that the user's marks tell of, from its first mark to its last."""

    label: str
    since: Micros
    until: Micros

    def touches(self, since: Micros, until: Micros, slack: Micros) -> bool:
        """Whether the marks and a span lie within `slack` of each other."""
        return self.since - slack <= until and since <= self.until + slack


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
    history: History,
    kills: Sequence[Kill],
    question: Question,
    joined_within: Micros = JOINED_WITHIN,
    marks: Sequence[Marked] = (),
) -> tuple[Deploy, ...]:
    """Find the deploy windows that touch the question's window, in order.

    A mark near a window labels it, and what lies within the span of one mark belongs to one window.
    """
    marks = [*marks, *_marked(history)]
    found: list[list[Spell]] = []
    for spell in sorted(_spells(history), key=lambda spell: spell.since):
        if found and _joined(found[-1], spell, joined_within, marks):
            found[-1].append(spell)
        else:
            found.append([spell])
    windows = [_deploy(tuple(spells), kills, _label_of(spells, joined_within, marks)) for spells in found]
    return tuple(one for one in windows if one.until >= question.since and one.since < question.until)


def _joined(spells: Sequence[Spell], later: Spell, joined_within: Micros, marks: Iterable[Marked]) -> bool:
    since, until = min(one.since for one in spells), max(one.until for one in spells)
    return later.since <= until + joined_within or any(
        mark.touches(since, until, 0) and mark.touches(later.since, later.until, 0) for mark in marks
    )


def _label_of(spells: Sequence[Spell], slack: Micros, marks: Iterable[Marked]) -> str | None:
    since, until = min(one.since for one in spells), max(one.until for one in spells)
    near = [mark for mark in marks if mark.touches(since, until, slack)]
    before = [mark for mark in near if mark.since <= since]
    if before:
        return max(before, key=lambda mark: mark.since).label
    return min(near, key=lambda mark: mark.since).label if near else None


def _marked(history: History) -> Iterable[Marked]:
    """Put the marks of one run of a deploy's unit together; any other mark stands alone."""
    runs: dict[tuple[str, str], list[events.DeployMark]] = {}
    for event in history.told.other:
        if isinstance(event, events.DeployMark):
            origin = event.seen.origin
            run = event.run or event.seen.cursor
            runs.setdefault((origin.machine_id or origin.host, run), []).append(event)
    for found in runs.values():
        times = [event.at for event in found]
        yield Marked(label=found[0].label, since=min(times), until=max(times))


def _spells(history: History) -> Iterable[Spell]:
    seen: set[tuple[str, str, str, Micros]] = set()
    starts = {(life.group, life.main_pid, life.started.at) for life in history.lives if life.started and life.main_pid}
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
            # A quiet worker's first line may be what it says as it is stopped.
            same_run = stop.invocation_id is not None and stop.invocation_id == life.group.invocation
            before = stop.begun.at < life.first_at - CLOSE and not (same_run and life.started is None)
            outside = before or (life.end.at is not None and stop.begun.at > life.end.at + CLOSE)
            key = (*life.group[:3], stop.begun.at)
            if other_run or outside or key in seen or not stop.job:
                continue
            seen.add(key)
            until = stop.until if stop.until is not None else max(stop.begun.at, life.last.at)
            yield _spell(life, stop.begun.at, until)
        for moment in _reloads(life, again_in_place=(life.group, life.main_pid, life.end.at) in starts):
            yield _spell(life, moment, life.end.at or life.last.at)


def _reloads(life: Life, *, again_in_place: bool) -> Iterable[Micros]:
    """When a reload of its unit made a worker restart itself: a lone SIGHUP is no deploy.

    Celery up to 5.0.1 loses its own line of it in a buffer as it executes itself anew; then the reload that came last
    before the process began another life.
    """
    asked = [event.at for event in life.about if isinstance(event, events.UnitReloading)]
    said = [event.at for event in life.of(events.Reexec)]
    if said or not again_in_place:
        return [at for at in said if any(abs(at - reload) <= DEATH_TAIL for reload in asked)]
    return [at for at in asked if life.end.at is not None and life.first_at <= at <= life.end.at][-1:]


def _spell(life: Life, since: Micros, until: Micros) -> Spell:
    group = life.group
    return Spell(
        machine=group.machine, unit=group.unit, invocation_id=group.invocation, since=since, until=until, life=life
    )


def _deploy(spells: tuple[Spell, ...], kills: Sequence[Kill], label: str | None) -> Deploy:
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
        label=label or _label(since),
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
