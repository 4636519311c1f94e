"""Files of deploy marks: a CSV file with a head line, or JSON, of what a deploy tool wrote down.

A mark has a `since` (or `at`, `time`, `started`), and may have an `until` (or `finished`, `ended`) and a `label` (or
`name`, `version`, `revision`); times as `--since` takes them, in the zone in which times are shown if they name none.
JSON is a list of such objects, or one object a line.
"""

import csv
import datetime as dt
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kill_audit import when
from kill_audit.deploys import Marked
from kill_audit.entry import Micros
from kill_audit.errors import SourceError, UsageError

SINCE = ("since", "at", "time", "timestamp", "started", "start")
UNTIL = ("until", "finished", "ended", "end")
LABEL = ("label", "name", "version", "revision", "deploy")


def marks_of_file(path: str, *, now: Micros, zone: dt.tzinfo) -> tuple[Marked, ...]:
    """Read a file of marks.

    Raises:
        SourceError: the file cannot be read.
        UsageError: it is neither CSV nor JSON, or a mark has no time that can be understood.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SourceError(f"deploy marks {path}: {why}", hint="see [[deploy-marks]] in the configuration") from error
    return tuple(_mark(path, number, row, now=now, zone=zone) for number, row in enumerate(_rows(path, text), 1))


def _rows(path: str, text: str) -> Iterable[Mapping[str, Any]]:
    if text.lstrip()[:1] not in ("[", "{"):
        return list(csv.DictReader(io.StringIO(text)))
    try:
        if text.lstrip().startswith("["):
            found = json.loads(text)
        else:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise UsageError(f"deploy marks {path}: no JSON ({error})", hint="a list of objects, or one a line") from error
    if not all(isinstance(row, dict) for row in found):
        raise UsageError(f"deploy marks {path}: every mark must be an object", hint='{"since": "…", "label": "…"}')
    return list(found)


def _mark(path: str, number: int, row: Mapping[str, Any], *, now: Micros, zone: dt.tzinfo) -> Marked:
    given = {str(name).strip().lower(): value for name, value in row.items() if value}
    words = {kind: next((given[name] for name in names if name in given), None)
             for kind, names in (("since", SINCE), ("until", UNTIL), ("label", LABEL))}  # fmt: skip
    if words["since"] is None:
        raise UsageError(f"deploy marks {path}: mark {number} has no time", hint=f"a column {', '.join(SINCE)}")
    since = _moment(path, number, words["since"], now=now, zone=zone)
    until = since if words["until"] is None else _moment(path, number, words["until"], now=now, zone=zone)
    return Marked(label=str(words["label"] or Path(path).stem), since=since, until=max(since, until))


def _moment(path: str, number: int, word: object, *, now: Micros, zone: dt.tzinfo) -> Micros:
    text = f"@{word}" if isinstance(word, int | float) else str(word)
    try:
        return when.moment(text, now=now, zone=zone)
    except UsageError as error:
        raise UsageError(f"deploy marks {path}: mark {number}: {error.message}", hint=error.hint) from error
