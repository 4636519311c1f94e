"""Stops of a unit: from "Stopping" to "Stopped", and what happened in between."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kill_audit import events
from kill_audit.entry import Micros
from kill_audit.events import UnitEvent
from kill_audit.timeline.lives import CLOSE
from kill_audit.timeline.partial import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stop job, or the stop half of a restart job, of a unit.

    `until`: when it was done, None while it still runs. `timed_out`: when TimeoutStopSec first ran out. `restart`:
    the job was a restart (None before v235, where the records do not say). `job`: False where the unit was stopped
    without a job (RuntimeMaxSec). `result`: the unit's result where it was told.
    """

    unit: str | None
    invocation_id: str | None
    begun: Mark
    until: Micros | None = None
    timed_out: Mark | None = None
    restart: bool | None = None
    job: bool = True
    result: str | None = None
    end: Mark | None = None

    def covers(self, moment: Micros, slack: Micros = CLOSE) -> bool:
        """Whether a moment lies in the stop, with `slack` microseconds at both ends."""
        return self.begun.at - slack <= moment and (self.until is None or moment <= self.until + slack)


def stops_of(about: Iterable[UnitEvent]) -> tuple[Stop, ...]:
    """Find the stops in a unit's records, in order. Automatic restarts have no "Stopping" record and are none."""
    done: list[Stop] = []
    current: Stop | None = None
    for event in about:
        mark = Mark(event.at, event.seen.cursor, event.seen.text)
        if isinstance(event, events.UnitStopping):
            if current is not None:
                done.append(current)
            current = Stop(unit=event.unit, invocation_id=event.invocation_id, begun=mark)
        elif current is None:
            current = _without_a_job(event, mark)
        elif isinstance(event, events.StopTimedOut):
            current = replace(current, timed_out=current.timed_out or mark)
        elif isinstance(event, events.UnitEnded):
            current = replace(current, result=event.result)
            if not current.job:
                done.append(replace(current, until=event.at, end=mark))
                current = None
        elif isinstance(event, events.UnitStopped):
            restart = None if event.job_type is None else event.job_type == "restart"
            done.append(replace(current, until=event.at, restart=restart, end=mark))
            current = None
        elif isinstance(event, events.UnitStarted):  # v219 to v222 write no "Stopped" for the stop half of a restart
            done.append(replace(current, until=event.at, restart=True, end=mark))
            current = None
    return tuple([*done, current] if current is not None else done)


def _without_a_job(event: UnitEvent, mark: Mark) -> Stop | None:
    if not (isinstance(event, events.StopTimedOut) and event.state == "runtime"):
        return None
    return Stop(unit=event.unit, invocation_id=event.invocation_id, begun=mark, restart=False, job=False)
