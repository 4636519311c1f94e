"""What would have saved the killed runs: settings of units, with numbers from the tasks' own history.

Rules of this file: formats are not known here; where the evidence gives no number, none is given.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil

from kill_audit.classify import Cause, Kill
from kill_audit.document import Advice, Drain, UnitAdvice
from kill_audit.timeline import History
from kill_audit.timeline.lives import SECOND
from kill_audit.timeline.partial import bucket_top_s

TIMEOUTS_S = (30, 60, 90, 300, 600, 1800, 3600, 7200)
_STOPPED = frozenset({Cause.UNIT_STOP, Cause.STOP_TIMEOUT})


def advise(kills: Sequence[Kill], history: History) -> Advice:
    """Say what would have helped, unit by unit."""
    by_unit: dict[str, list[Kill]] = defaultdict(list)
    for kill in kills:
        by_unit[kill.death.life.group.unit].append(kill)
    drains: list[Drain] = []
    units: list[UnitAdvice] = []
    for unit, found in sorted(by_unit.items()):
        stopped = [kill for kill in found if kill.ruling.cause in _STOPPED]
        if stopped:
            drains.extend(_drains(unit, stopped, history.runtimes))
        units.extend(_settings(unit, found))
    return Advice(drain=tuple(drains), units=tuple(units))


def _drains(
    unit: str, kills: Sequence[Kill], runtimes: Mapping[tuple[str, str], tuple[tuple[int, int], ...]]
) -> list[Drain]:
    """Count how many of the runs a longer drain would have let finish, judged by the longest run of each task."""
    needed = [_still_needed_s(kill, runtimes) for kill in kills]
    known = sorted(seconds for seconds in needed if seconds is not None)
    if not known:
        return [Drain(unit=unit, timeout_s=TIMEOUTS_S[2], saved=None, of=len(kills))]
    rows: list[Drain] = []
    for timeout in TIMEOUTS_S:
        saved = sum(1 for seconds in known if seconds <= timeout)
        if not rows or saved > (rows[-1].saved or 0):
            rows.append(Drain(unit=unit, timeout_s=timeout, saved=saved, of=len(kills)))
        if saved == len(known):
            break
    return [row for row in rows if row.saved] or rows[-1:]


def _still_needed_s(kill: Kill, runtimes: Mapping[tuple[str, str], tuple[tuple[int, int], ...]]) -> int | None:
    """How many seconds more a run needed at most, by the longest of its task; None without history, or past it."""
    run = kill.death.run
    if run is None:
        return None
    counts = runtimes.get((run.group.unit, run.task_name))
    if not counts:
        counts = next((found for (_, name), found in sorted(runtimes.items()) if name == run.task_name), None)
    began = run.accepted or run.received or run.spoke
    if not counts or began is None:
        return None
    longest = bucket_top_s(counts[-1][0])
    ran = (kill.at - began.at) / SECOND
    return ceil(longest - ran) if ran < longest else None


def _settings(unit: str, kills: Sequence[Kill]) -> list[UnitAdvice]:
    causes = {kill.ruling.cause for kill in kills}
    found: list[UnitAdvice] = []
    if Cause.UNIT_STOP in causes and any(kill.death.signal in (15, None) for kill in kills):
        found.append(
            UnitAdvice(
                unit=unit,
                problem="stop-signals-pool-processes",
                setting="KillMode",
                now=None,
                better="mixed",
                why="with control-group, systemd's default, a stop sends SIGTERM to the pool processes too and kills "
                "what they run; with mixed the main process drains first",
            )
        )
    if Cause.STOP_TIMEOUT in causes:
        found.append(
            UnitAdvice(
                unit=unit,
                problem="stop-timeout-too-short",
                setting="TimeoutStopSec",
                now=None,
                better="longer than the longest task",
                why="systemd killed what was still running when the stop timed out",
            )
        )
    if any(kill.ruling.bystander for kill in kills):
        found.append(
            UnitAdvice(
                unit=unit,
                problem="oom-stops-the-unit",
                setting="OOMPolicy",
                now=None,
                better="continue",
                why="with stop, systemd's default, one process that runs out of memory takes every other task with it",
            )
        )
    return found
