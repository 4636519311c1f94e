"""Incidents: many deaths of one event are one thing to look at, with a culprit where one death caused the others.

Rules of this file: formats are not known here, and nothing new is decided about a kill.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from kill_audit.classify import Cause, Kill
from kill_audit.deploys import Deploy
from kill_audit.entry import Micros
from kill_audit.timeline.lives import SECOND

TOGETHER = 30 * SECOND
_BY_DEPLOY = frozenset({Cause.UNIT_STOP, Cause.STOP_TIMEOUT, Cause.COLD_SHUTDOWN})
_BY_HOST = frozenset({Cause.HOST_REBOOT, Cause.OOM_KERNEL, Cause.OOM_SYSTEMD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Kills of one event; `culprit`: the one that brought the others down."""

    id: str
    cause: Cause
    kills: tuple[Kill, ...]
    culprit: Kill | None

    @property
    def since(self) -> Micros:
        """The first death."""
        return min(kill.at for kill in self.kills)

    @property
    def until(self) -> Micros:
        """The last death."""
        return max(kill.at for kill in self.kills)

    @property
    def units(self) -> tuple[str, ...]:
        """The units it hit."""
        return tuple(sorted({kill.death.life.group.unit for kill in self.kills}))


def incidents_of(kills: Sequence[Kill], deploys: Sequence[Deploy]) -> tuple[Incident, ...]:
    """Fold kills of one event into incidents, in order of their first death; a lone kill is none."""
    window = {id(kill): deploy.id for deploy in deploys for kill in deploy.kills}
    groups: dict[tuple[str, ...], list[list[Kill]]] = {}
    for kill in kills:
        key = _key(kill, window.get(id(kill)))
        runs = groups.setdefault(key, [])
        if runs and (len(key) == 3 or kill.at - runs[-1][-1].at <= TOGETHER):
            runs[-1].append(kill)
        else:
            runs.append([kill])
    found = [_incident(tuple(run)) for runs in groups.values() for run in runs if len(run) > 1]
    return tuple(sorted(found, key=lambda incident: incident.since))


def _key(kill: Kill, deploy: str | None) -> tuple[str, ...]:
    cause, group = kill.ruling.cause, kill.death.life.group
    if cause in _BY_DEPLOY and deploy is not None:
        return ("deploy", deploy, cause)
    if cause in _BY_HOST:
        return ("host", group.machine, group.boot, cause)
    return ("unit", group.machine, group.boot, group.unit, cause)


def _incident(kills: tuple[Kill, ...]) -> Incident:
    culprits = [kill for kill in kills if not kill.ruling.bystander]
    by_oom = kills[0].ruling.cause is Cause.OOM_KERNEL and len(culprits) == 1
    first = kills[0]
    text = "|".join((first.death.life.group.machine, first.ruling.cause, str(first.at)))
    return Incident(
        id="i" + sha256(text.encode()).hexdigest()[:7],
        cause=first.ruling.cause,
        kills=kills,
        culprit=culprits[0] if by_oom else None,
    )
