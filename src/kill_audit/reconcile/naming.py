"""Name losses by what Celery itself stored of them: the same `Job: N` text, or the pid of a STARTED row."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from kill_audit.entry import Micros, Question
from kill_audit.errors import RunLogError
from kill_audit.events import TaskLost
from kill_audit.reconcile.clock import QUARTER
from kill_audit.reconcile.rows import SECOND, TOLERANCE, Results, StoredResult, refusal
from kill_audit.timeline import Death, History, Run


def named_by_results(history: History, results: Results, question: Question) -> tuple[History, tuple[str, ...]]:
    """Name losses by their stored results.

    The text of a loss line is the exception of its task's FAILURE row (celery/worker/request.py on_failure); a row
    must be of the death's worker, or of an id that this worker received, and be stored within the tolerance. Where it
    disagrees with another naming the row wins, with low confidence.

    Returns:
        The history with the names, and why the table could not be read, in words, where it could not.
    """
    told = [death for death in history.deaths if isinstance(death.told, TaskLost) and death.job is not None]
    wanted = [death for death in history.deaths if death.exit is not None or death.exits]
    try:
        losses = list(results.losses(question.since - TOLERANCE, question.until + TOLERANCE)) if told else []
        begun = list(results.started()) if wanted else []
    except RunLogError as error:
        return history, (refusal(error),)
    offset = 0 if results.knows_its_zone else _offset(told, losses)
    renamed: list[Death] = []
    taken: set[str] = set()
    for death in history.deaths:
        row = _stored_loss(death, losses, taken, offset) or _stored_start(death, begun, taken)
        if row is not None:
            taken.add(row.task_id)
            renamed.append(_renamed(death, row))
        else:
            renamed.append(death)
    return replace(history, deaths=tuple(renamed)), ()


def _offset(told: Sequence[Death], losses: Sequence[StoredResult]) -> Micros:
    """Derive the offset of the zone in which results were stored: that by which most losses fit; UTC if in doubt."""
    apart = [
        row.stored_at - death.told.at
        for death in told
        for row in losses
        if death.told is not None and row.stored_at is not None and _is_of(row, death)
    ]
    offsets = [(one + SECOND) // QUARTER * QUARTER for one in apart]
    fits = Counter(offset for one, offset in zip(apart, offsets, strict=True) if one - offset <= TOLERANCE)
    if not fits or fits[0]:
        return 0
    (best, times), *others = fits.most_common(2)
    return 0 if others and others[0][1] == times else best


def _is_of(row: StoredResult, death: Death) -> bool:
    """Whether a stored loss has the text of the death's loss line, and is of its worker or an id that it received."""
    told, life = death.told, death.life
    if not isinstance(told, TaskLost) or row.job != death.job:
        return False
    if (row.signal, row.exit_code) != (told.signal, told.exit_code):
        return False
    if row.worker and life.node:
        return row.worker == life.node
    return any(run.task_id == row.task_id for run in life.runs)


def _stored_loss(
    death: Death, losses: Sequence[StoredResult], taken: Collection[str], offset: Micros
) -> StoredResult | None:
    told = death.told
    if not isinstance(told, TaskLost) or death.job is None:
        return None
    fitting = [
        row
        for row in losses
        if row.stored_at is not None
        and told.at - SECOND <= row.stored_at - offset <= told.at + TOLERANCE
        and row.task_id not in taken
        and _is_of(row, death)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _stored_start(death: Death, begun: Sequence[StoredResult], taken: Collection[str]) -> StoredResult | None:
    life = death.life
    if death.exit is None or death.name.how not in ("none", "elimination", "job"):
        return None
    fitting = [
        row
        for row in begun
        if row.pid == death.exit.child_pid and row.task_id not in taken and row.hostname == life.node is not None
    ]
    return fitting[0] if len(fitting) == 1 else None


def _renamed(death: Death, row: StoredResult) -> Death:
    """Give a death the run that its stored result tells of."""
    name, life = death.name, death.life
    stored = "its stored result says so" if row.job is not None else "its STARTED result has the process's pid"
    if name.run is not None and name.run.task_id == row.task_id:
        return replace(death, name=replace(name, confidence="high", reasons=(*name.reasons, stored)))
    own = [run for run in life.runs if run.task_id == row.task_id and run.first_at <= death.at + SECOND]
    run = (
        own[-1]
        if own
        else Run(
            group=life.group, main_pid=life.main_pid, task_id=row.task_id, task_name=row.task_name or "", received=None
        )
    )
    reasons: tuple[str, ...] = (stored,)
    if name.run is not None:
        reasons = (
            stored,
            f"the journal alone would have named {name.run.task_name}[{name.run.task_id}] by {name.how}",
        )
    how = "result" if row.job is not None else "accepted"
    confidence = "low" if name.run is not None else "high"
    return replace(death, run=run, name=replace(name, run=run, how=how, confidence=confidence, reasons=reasons))
