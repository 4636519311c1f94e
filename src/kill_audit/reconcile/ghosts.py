"""The other direction: rows that are still open although nobody stands behind them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kill_audit.entry import Micros
from kill_audit.reconcile.matching import attempts_of, cost
from kill_audit.reconcile.rows import TOLERANCE, Row
from kill_audit.timeline import Ending, History, Life


@dataclass(frozen=True, slots=True, kw_only=True)
class Ghost:
    """A row that is still open although its process is dead, and that no reported kill claims."""

    row: Row
    reasons: tuple[str, ...]


def ghosts_of(open_rows: Iterable[Row], claimed: Collection[str], history: History) -> Iterator[Ghost]:
    """Find ghosts among open rows; `claimed`: the keys of those that belong to reported kills."""
    life_of = {id(run): life for life in history.lives for run in life.runs}
    by_node: dict[str, list[Life]] = defaultdict(list)
    for life in history.lives:
        if life.node is not None:
            by_node[life.node].append(life)
    for row in open_rows:
        if row.key in claimed:
            continue
        reasons = _dead(row, history, life_of) or _deserted(row, by_node)
        if reasons:
            yield Ghost(row=row, reasons=reasons)


def _dead(row: Row, history: History, life_of: Mapping[int, Life]) -> tuple[str, ...]:
    """Whether the journal shows the process of the row's run dead."""
    if row.task_id is None:
        return ()
    attempts = attempts_of(row.task_id, history)
    fitting = [one for one in attempts if cost(one, row, attempts, one_row=False)[0] <= TOLERANCE]
    if not fitting:
        return ()
    run = min(fitting, key=lambda one: cost(one, row, attempts, one_row=False)).run
    if any(death.run is run for death in history.deaths):
        return ("its run was killed, outside the window of this report or with another row of its own",)
    life = life_of.get(id(run))
    if life is None or life.end.ending is Ending.RUNNING:
        return ()
    if life.end.ending is Ending.BOOT_OVER:
        return ("the boot that it ran in is over",)
    return (f"the worker {life.node or life.group.unit} that received it has ended since",)


def _deserted(row: Row, by_node: Mapping[str, Sequence[Life]]) -> tuple[str, ...]:
    """Whether the worker that the row names was started anew since the row began, or has ended."""
    if row.worker is None or row.started_at is None:
        return ()
    lives = by_node.get(row.worker, ())
    begun = row.started_at + TOLERANCE
    if any(life.started is not None and life.started.at > begun for life in lives):
        return (f"the worker {row.worker} was started anew since",)
    there = [life for life in lives if life.first_at <= begun and _lived(life, row.started_at - TOLERANCE)]
    if there and all(life.end.ending is not Ending.RUNNING for life in there):
        return (f"the worker {row.worker} has ended since",)
    return ()


def _lived(life: Life, moment: Micros) -> bool:
    return life.end.at is None or life.end.at >= moment
