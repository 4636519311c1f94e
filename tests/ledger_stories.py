"""Journals whose kills a ledger keeps, and what vacuuming leaves of them."""

from dataclasses import replace
from pathlib import Path

from builders import DAY, HOUR, NOON, Journal, Memory, Table, audited, moment
from kill_audit.document import Document
from kill_audit.entry import Question
from kill_audit.ledger import Ledger, Scope, open_ledger
from kill_audit.reconcile import RunLog

SCOPE = Scope(sources="journal of web1")


def weeks_of_kills(days: int = 10, *, host: str = "web1") -> Journal:
    """A worker that loses one run a day, after noon, on a host that writes a line every quarter of an hour."""
    journal = Journal(host)
    unit = journal.unit(concurrency=1)
    for day in range(days):
        journal.at(day * 86_400.0 + 30)
        journal.chatter()
        journal.at(day * 86_400.0 + 60)
        unit.received(f"{host}-{day}")
        journal.at(day * 86_400.0 + 120)
        unit.dies(day + 1, job=day + 1)
        for quarter in range(1, 96):
            journal.at(day * 86_400.0 + quarter * 900.0)
            journal.chatter()
    return journal


def left(source: Memory, since: int) -> Memory:
    """What vacuuming leaves of a source: its entries from a moment on."""
    return replace(source, entries=tuple(entry for entry in source.entries if entry.realtime >= since))


def read_at(
    *sources: Memory,
    now: int,
    since: int | None = None,
    until: int | None = None,
    run_log: RunLog | None = None,
    units: tuple[str, ...] = (),
) -> Document:
    """Audit sources as they stand at a moment: nothing later has been written yet."""
    window = (now - 8 * DAY if since is None else since, now if until is None else until)
    question = Question(
        since=window[0],
        until=window[1],
        read_since=window[0] - 7 * DAY,
        read_until=window[1] + 7 * DAY,
        units=units,
    )
    written = [
        replace(source, entries=tuple(entry for entry in source.entries if entry.realtime < now)) for source in sources
    ]
    return audited(*written, question=question, now=now, run_log=run_log)


def ledger_at(path: Path, scope: Scope = SCOPE) -> Ledger:
    """Open a ledger to write it."""
    ledger = open_ledger(str(path), scope=scope, environ={}, writing=True)
    assert ledger is not None
    return ledger


def ids(ledger: Ledger) -> list[str]:
    """The ids of all kills of a ledger, in their order."""
    return [kill.id for kill in ledger.kills(0, 2**62)]


__all__ = ["DAY", "HOUR", "NOON", "SCOPE", "Table", "ids", "ledger_at", "left", "moment", "read_at", "weeks_of_kills"]
