"""Celery's own result table, as evidence: which task was lost with which `Job: N`, and which process had begun one.

Rules of this file: a result is never unpickled. The text of a loss is searched for in its bytes, whatever serializer
wrote them; the pid of a STARTED result is read from JSON, or from the opcodes of a pickle without carrying them out
(pickletools.genops).
"""

import base64
import binascii
import json
import pickletools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa

from kill_audit.entry import Micros
from kill_audit.reconcile import State
from kill_audit.runlog.cells import CellReader, text
from kill_audit.runlog.conditions import has_word, within
from kill_audit.runlog.presets import Preset
from kill_audit.runlog.source import Source

DAY: Final = 86_400_000_000  # microseconds
RESULT_BYTES: Final = 65_536  # of a result are read; the text of an exception stands at its begin

# billiard/pool.py, mark_as_worker_lost (with the job since 3.6.4.0), and Worker._make_child_method of 4.3 without it.
LOSS: Final = re.compile(
    rb"Worker exited prematurely: "
    rb"(?:signal (?P<signal>\d+)(?: \(\w+\))?|exitcode (?P<exit_code>-?\d+)|\w+)"
    rb"(?: Job: (?P<job>\d+))?\."
)
_TEXT_OPCODES: Final = frozenset(
    {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE", "SHORT_BINSTRING", "BINSTRING"}
)
_NUMBER_OPCODES: Final = frozenset({"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One row of Celery's result table.

    `task_name`, `worker` (the node name) and `queue` are there only with `result_extended`. `loss`: the text of the
    WorkerLostError in the result, with `job`, `signal`, `exit_code` as it names them. `pid`, `hostname`: of the
    process that stored STARTED (`task_track_started`). `stored_at`: when the row was written last, in microseconds
    since the epoch, UTC; None where Celery keeps no time (STARTED and RETRY since 4.3).
    """

    task_id: str
    task_name: str | None
    status: str | None
    state: State
    worker: str | None
    queue: str | None
    stored_at: Micros | None
    loss: str | None = None
    job: int | None = None
    signal: int | None = None
    exit_code: int | None = None
    pid: int | None = None
    hostname: str | None = None


class Results(Protocol):
    """Celery's result table, as naming a task by its result wants it."""

    @property
    def knows_its_zone(self) -> bool:
        """Whether all times read so far carry their zone, or the user gave it."""

    def losses(self, since: Micros, until: Micros) -> Iterable[ResultRow]:
        """Rows stored in [since, until) whose result tells of a lost worker; a day more if the zone is not known."""

    def started(self) -> Iterable[ResultRow]:
        """Rows whose last word is that a process began the task."""

    def rows_of(self, task_ids: Collection[str]) -> Iterable[ResultRow]:
        """All rows of these ids."""


class SqlResults:
    """The rows of one result table (`Results`).

    Args:
        source: the table.
        preset: its layout.
        reader: reads the cells.
        zone_given: whether the user gave the zone of times that carry none.
    """

    def __init__(self, source: Source, *, preset: Preset, reader: CellReader, zone_given: bool = False) -> None:
        self._source = source
        self._preset = preset
        self._result = preset.result
        self._reader = reader
        self._zone_given = zone_given
        self._fields = preset.fields(source.table.types)
        self._queue = preset.queue if preset.queue in source.table.types else None
        self._encoded = "content_encoding" in source.table.types

    @property
    def knows_its_zone(self) -> bool:
        """Whether all times read so far carry their zone, or the user gave it."""
        return self._zone_given or not self._reader.zoneless_times

    def losses(self, since: Micros, until: Micros) -> Iterator[ResultRow]:
        """Rows stored in [since, until) whose result tells of a lost worker; a day more if the zone is not known.

        RETRY rows too: `task_retry_on_worker_lost` of Celery 5.7 stores the loss as the reason of the retry.

        Raises:
            RunLogError: the table is big and has no index that serves, or the database fails; so for all that follow.
        """
        done = self._fields["finished_at"]
        column = self._source.column(done)
        bounds = within(column, self._source.any_value(done), since, until)
        condition = sa.and_(
            self._has_status("FAILURE", "RETRY"), sa.or_(sa.and_(sa.true(), *bounds), column.is_(None))
        )
        self._source.refuse_scan(condition, what="the results stored in a span of time", index=done)
        for row in self._rows([condition]):
            slack = 0 if self.knows_its_zone else DAY
            if row.loss is not None and (row.stored_at is None or since - slack <= row.stored_at < until + slack):
                yield row

    def started(self) -> Iterator[ResultRow]:
        """Rows whose last word is that a process began the task."""
        status, done = self._fields["status"], self._fields["finished_at"]
        condition, index = self._has_status("STARTED"), status
        if self._source.is_big and status not in self._source.table.leading and not self._preset.open_has_finish:
            condition, index = sa.and_(condition, self._source.column(done).is_(None)), done
        self._source.refuse_scan(condition, what="the results still STARTED", index=index)
        yield from self._rows([condition])

    def rows_of(self, task_ids: Collection[str]) -> Iterator[ResultRow]:
        """All rows of these ids."""
        wanted = frozenset(task_ids)
        rows = self._rows(self._source.with_ids(self._fields["task_id"], wanted))
        yield from (row for row in rows if row.task_id in wanted)

    def _has_status(self, *words: str) -> sa.ColumnElement[bool]:
        name = self._fields["status"]
        return has_word(self._source.column(name), self._source.table.types[name], words, or_none=False)

    def _rows(self, conditions: Iterable[sa.ColumnElement[bool]]) -> Iterator[ResultRow]:
        names = [*self._fields.values(), self._result]
        names += [name for name in (self._queue, "content_encoding" if self._encoded else None) if name]
        for cells in self._source.stream(names, conditions, cut={self._result: RESULT_BYTES}):
            row = self._row(cells)
            if row is not None:
                yield row

    def _row(self, cells: dict[str, Any]) -> ResultRow | None:
        fields = {name: cells[column] for name, column in self._fields.items()}
        task_id, status = text(fields["task_id"]), text(fields["status"])
        if task_id is None:
            return None
        result = _bytes(cells[self._result], is_base64=cells.get("content_encoding") == "binary")
        pid, hostname = read_started(result) if status == "STARTED" else (None, None)
        return ResultRow(
            task_id=task_id,
            task_name=text(fields.get("task_name")),
            status=status,
            state=self._reader.words.state(status, finished=True),
            worker=text(fields.get("worker")),
            queue=text(cells[self._queue]) if self._queue else None,
            stored_at=self._reader.moment(fields["finished_at"]),
            pid=pid,
            hostname=hostname,
            **read_loss(result),
        )


def read_loss(result: bytes) -> dict[str, Any]:
    """Find the text of a WorkerLostError in a serialised result: `loss`, `job`, `signal`, `exit_code` as far as told.

    >>> read_loss(b'{"exc_message": ["Worker exited prematurely: signal 9 (SIGKILL) Job: 4."]}')["job"]
    4
    """
    found = LOSS.search(result)
    if found is None:
        return {}
    numbers = {name: int(digits) for name, digits in found.groupdict().items() if digits is not None}
    return {"loss": found[0].decode("ascii", "backslashreplace"), **numbers}


def read_started(result: bytes) -> tuple[int | None, str | None]:
    """Find pid and hostname in the result of a STARTED row (celery/app/trace.py, trace_task): JSON or pickle.

    >>> read_started(b'{"pid": 4242, "hostname": "a@web1"}')
    (4242, 'a@web1')
    """
    if result.startswith(b"{"):
        try:
            told = json.loads(result)
        except (ValueError, RecursionError):
            return None, None
    else:
        told = dict(_pairs(result))
    pid, hostname = told.get("pid"), told.get("hostname")
    return pid if isinstance(pid, int) else None, hostname if isinstance(hostname, str) else None


def _pairs(pickled: bytes) -> Iterator[tuple[str, object]]:
    """Read which value follows which text in a pickle, from its opcodes alone."""
    before: object = None
    try:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name in _TEXT_OPCODES or opcode.name in _NUMBER_OPCODES:
                if isinstance(before, str):
                    yield before, argument
                before = argument
    except ValueError:  # no pickle, or one cut off
        return


def _bytes(cell: str | bytes | None, *, is_base64: bool) -> bytes:
    """Give a stored result as bytes; django-celery-results keeps binary ones in base64."""
    if cell is None:
        return b""
    data = cell.encode("utf-8", "backslashreplace") if isinstance(cell, str) else bytes(cell)
    if not is_base64:
        return data
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])  # a long one was cut off
    except binascii.Error:
        return data
