"""Runs that record into a ledger and are killed on the way, one at each statement (`python ledger_victim.py FOLDER`).

A program of its own, because it forks: it prints for each run where it was killed and what the ledger held afterwards,
as JSON.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from kill_audit.document import Document
from ledger_stories import DAY, HOUR, NOON, ids, ledger_at, left, read_at, weeks_of_kills

EVENTS = ("before_cursor_execute", "after_cursor_execute", "commit")


def documents() -> tuple[Document, ...]:
    """What runs on five days read, each of a journal that has lost its beginning since the one before."""
    whole = weeks_of_kills(9).source()
    return tuple(
        read_at(left(whole, NOON + (day - 3) * DAY), now=NOON + day * DAY + HOUR, since=NOON - HOUR)
        for day in (2, 4, 5, 7, 8)
    )


def kill_at(point: int) -> None:
    """Let this process be killed at the `point`-th thing that it does with a database."""
    left_over = iter(range(point))

    def count(*_: Any) -> None:
        if next(left_over, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    for event in EVENTS:
        sa.event.listen(sa.Engine, event, count)


def run_killed_at(point: int, path: Path, document: Document) -> bool:
    """Open a ledger and record in it, in a child that is killed; whether it was."""
    child = os.fork()
    if child == 0:
        kill_at(point)
        ledger_at(path).record(document)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(folder: Path) -> None:
    """Kill runs at ever later points until one comes through."""
    read = documents()
    undisturbed, template = folder / "undisturbed", folder / "template"
    for document in read:
        ledger_at(undisturbed).record(document)
    for document in read[:2]:
        ledger_at(template).record(document)
    told = {
        "undisturbed": ids(ledger_at(undisturbed)),
        "before": ids(ledger_at(template)),
        "first": killed_everywhere(folder / "first", None, read[:1]),
        "later": killed_everywhere(folder / "later", template, read[2:]),
    }
    print(json.dumps(told))  # noqa: T201


def killed_everywhere(folder: Path, template: Path | None, read: Sequence[Document]) -> list[dict[str, Any]]:
    """Kill the first of these runs at ever later points, and let it and all others run whole after each."""
    folder.mkdir()
    runs = []
    killed, point = True, 0
    while killed:
        path = folder / f"run-{point}"
        if template is not None:
            shutil.copy(template, path)
        killed = run_killed_at(point, path, read[0])
        after = ids(ledger_at(path))
        for document in read:
            ledger_at(path).record(document)
        runs.append({"killed": killed, "after": after, "ids": ids(ledger_at(path))})
        point += 1
    return runs


if __name__ == "__main__":
    main(Path(sys.argv[1]))
