"""What the journal shows of each worker's unit: its lives, its node names, what it received and lost.

Rules of this file: it counts what `timeline` and `classify` found, and decides nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kill_audit import events
from kill_audit.classify import Kill
from kill_audit.entry import Micros, Question
from kill_audit.timeline import History, Life


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenUnit:
    """A unit whose own lines are a Celery worker's, in the window.

    `machine`: the machine id, else the host's name. `lives`: main processes that were alive in the window. `receipts`:
    "received" lines of these lives, also of before the window. `task_lines`: whether its log level shows which tasks
    it receives; `unknown` for a life without any line of the levels that differ. `log_file`: it starts its workers
    with `celery multi`, so that their lines are in files. Times are microseconds, of its workers' first and last line.
    """

    host: str
    machine: str
    unit: str
    nodes: tuple[str, ...]
    versions: tuple[str, ...]
    pools: tuple[str, ...]
    concurrency: int | None
    lives: int
    receipts: int
    kills: int
    task_lines: Literal["visible", "hidden", "unknown"]
    log_file: bool
    first: Micros | None
    last: Micros | None


def seen_units(history: History, kills: Iterable[Kill], question: Question) -> tuple[SeenUnit, ...]:
    """List the worker units that the window holds, by host and name."""
    lives: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for life in history.lives:
        ended = life.end.at if life.end.at is not None else question.until
        if life.first_at < question.until and ended >= question.since and question.wants_unit(life.group.unit):
            lives[life.group.machine, life.group.unit].append(life)
    dead: dict[tuple[str, str], int] = defaultdict(int)
    for kill in kills:
        if question.since <= kill.at < question.until:
            dead[kill.death.life.group.machine, kill.death.life.group.unit] += 1
    multi = {
        (group.machine, group.unit): event.seen.origin.host
        for (group, _), said in history.told.worker.items()
        for event in said
        if isinstance(event, events.LogsToFile) and question.wants_unit(group.unit)
    }
    keys = sorted({*lives, *multi}, key=lambda key: (_host(key, lives, multi), key[1]))
    return tuple(_seen(key, _host(key, lives, multi), lives.get(key, ()), dead[key], key in multi) for key in keys)


def _host(key: tuple[str, str], lives: dict[tuple[str, str], list[Life]], multi: dict[tuple[str, str], str]) -> str:
    return lives[key][0].host if key in lives else multi[key]


def _seen(key: tuple[str, str], host: str, lives: Sequence[Life], kills: int, log_file: bool) -> SeenUnit:
    return SeenUnit(
        host=host,
        machine=key[0],
        unit=key[1],
        nodes=_each(life.node for life in lives),
        versions=_each(".".join(map(str, life.version)) for life in lives),
        pools=_each(life.pool for life in lives),
        concurrency=max((life.concurrency for life in lives if life.concurrency is not None), default=None),
        lives=len(lives),
        receipts=sum(life.receipts for life in lives),
        kills=kills,
        task_lines=_task_lines(lives),
        log_file=log_file,
        first=min((life.first_at for life in lives), default=None),
        last=max((life.last.at for life in lives), default=None),
    )


def _each(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def _task_lines(lives: Sequence[Life]) -> Literal["visible", "hidden", "unknown"]:
    if any(life.informed or life.runs for life in lives):
        return "visible"
    return "hidden" if any(life.quiet and life.started is not None for life in lives) else "unknown"
