"""`csv`: one row a kill, in the order of death, for spreadsheets and databases. Times are RFC 3339 in UTC.

A cell that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV Injection"). What has no
glyph is spelt out, so that a cell is always one line. Programs that want the exact values read `ndjson`.
"""

import csv
import io
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kill_audit.document import Document, Kill
from kill_audit.render.view import View

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 - the full-width forms count too


def render(document: Document, view: View) -> str:  # noqa: ARG001 - a table for programs is the same for every view
    """Write a header and one row a kill; what is unknown is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for kill in sorted(document.kills, key=lambda kill: (kill.at, kill.id)):
        writer.writerow([_cell(value(kill)) for value in COLUMNS.values()])
    return buffer.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    return f"'{value}" if value.startswith(FORMULA_STARTS) else value


def _accepted(kill: Kill) -> str | None:
    if kill.accepted is None:
        return None
    return f"{kill.accepted.by}: {kill.accepted.reason}"


COLUMNS: Mapping[str, Callable[[Kill], str | float | None]] = MappingProxyType(
    {
        "id": lambda kill: kill.id,
        "at": lambda kill: kill.at,
        "host": lambda kill: kill.host,
        "boot_id": lambda kill: kill.boot_id,
        "unit": lambda kill: kill.unit,
        "invocation_id": lambda kill: kill.invocation_id,
        "worker": lambda kill: kill.worker,
        "main_pid": lambda kill: kill.main_pid,
        "child_pid": lambda kill: kill.child_pid,
        "host_pid": lambda kill: kill.host_pid,
        "pool_process": lambda kill: kill.pool_process,
        "signal": lambda kill: kill.signal,
        "signal_name": lambda kill: kill.signal_name,
        "exit_code": lambda kill: kill.exit_code,
        "job": lambda kill: kill.job,
        "task_name": lambda kill: kill.task.name,
        "task_id": lambda kill: kill.task.id,
        "task_how": lambda kill: kill.task.how,
        "task_confidence": lambda kill: kill.task.confidence,
        "task_candidates": lambda kill: " ".join(one.id or one.name or "-" for one in kill.task.candidates),
        "received_at": lambda kill: kill.received_at,
        "started_at": lambda kill: kill.started_at,
        "ran_for_s": lambda kill: kill.ran_for_s,
        "cause": lambda kill: kill.cause,
        "confidence": lambda kill: kill.confidence,
        "reasons": lambda kill: "; ".join(kill.reasons),
        "fate": lambda kill: kill.fate,
        "deliveries": lambda kill: kill.deliveries,
        "killed_times": lambda kill: kill.killed_times,
        "deploy": lambda kill: kill.deploy,
        "incident": lambda kill: kill.incident,
        "verdict": lambda kill: kill.verdict,
        "accepted": _accepted,
        "rows": lambda kill: " ".join(row.key for row in kill.rows),
        "cursors": lambda kill: " ".join(evidence.cursor for evidence in kill.evidence),
    }
)
"""The columns in their order; later versions only add columns at the end."""
