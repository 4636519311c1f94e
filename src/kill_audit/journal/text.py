"""Log files and pasted lines in plain text: an entry a line.

Worker log files (`celery worker --logfile`), `journalctl` and syslog output, `docker compose logs`, `kubectl logs`,
and mixtures of these. Only the file's owner vouches for who wrote a line (`Origin.vouched` is False).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO, Final

from kill_audit.entry import Batch, Micros, Origin, Problem, Question
from kill_audit.journal.columns import NO_FIELDS, Columns, decode
from kill_audit.journal.lines import Layout, Line, take_apart
from kill_audit.journal.stamps import Clock

_HEAD_LINES: Final = 400
_LONGEST_LINE: Final = 1 << 20
_MOST_KEPT: Final = 65_536
# What journalctl puts between entries: where boots and files begin, and with -x the catalogue's explanations.
_BOOT: Final = re.compile(r"-- Boot ([0-9a-f]{32}) --$")
_BETWEEN: Final = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot|No entries) --$|-- (?:Logs begin|Journal begins) at ")
_CATALOGUE: Final = re.compile(r"-- (?:Subject|Defined-By|Support|Documentation): ")
_NEW_CATALOGUE: Final = "\u2591\u2591"  # since systemd 246


def read_text(file: BinaryIO, question: Question, *, name: str, modified: Micros) -> Iterator[Batch | Problem]:
    """Yield the lines of a log in plain text as entries, with `NAME:LINE` as their cursors.

    A line without a stamp has the time of the stamped line before it, of the same container if that is named. Where
    the stamps name no zone and the question assumes none, this machine's is taken, and a problem says so.

    Args:
        file: the log, unpacked.
        question: the span to read, and what to assume about stamps.
        name: what people call the file.
        modified: when it was last written; no line is taken to be later, where stamps name no year.
    """
    rows = _rows(file)
    head = list(islice(rows, _HEAD_LINES))
    layout = Layout.of([text for _, _, text in head])
    clock = Clock(
        zone=question.assume_timezone,
        year=question.assume_year,
        modified=modified,
        known=next((time for _, _, text in head if (time := take_apart(text, layout).roughly()) is not None), None),
    )
    timed = _Timed(clock, modified)
    columns, origins = Columns(question), _Origins()
    for time, number, boot_id, line in timed.of(
        (n, boot, take_apart(text, layout)) for n, boot, text in chain(head, rows)
    ):
        if columns.asked_for(time):
            place = columns.place_of(origins.of(line, boot_id))
            columns.add(time, 0, line.pid, place, line.message, f"{name}:{number}", NO_FIELDS)
        if columns.full:
            yield columns.take()
    if len(columns):
        yield columns.take()
    yield from timed.problems()


def _rows(file: BinaryIO) -> Iterator[tuple[int, str | None, str]]:
    """Yield each line that is an entry, with its number and the boot that journalctl says it is of."""
    boot_id, explaining = None, False
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
        text = decode(raw).rstrip("\r\n\0 ")
        explaining = _CATALOGUE.match(text) is not None or (explaining and text.startswith("--"))
        if (boot := _BOOT.match(text)) is not None:
            boot_id = boot[1]
        elif text and not explaining and not text.startswith(_NEW_CATALOGUE) and _BETWEEN.match(text) is None:
            yield number, boot_id, text.removeprefix("\ufeff")


class _Timed:
    """Gives every line a time: its own, or that of a neighbour."""

    def __init__(self, clock: Clock, modified: Micros) -> None:
        self._clock = clock
        self._modified = modified
        self._last: dict[str | None, Micros] = {}
        self._latest: Micros | None = None
        self._timeless = 0

    def of(self, lines: Iterable[tuple[int, str | None, Line]]) -> Iterator[tuple[Micros, int, str | None, Line]]:
        """Yield the lines with their times; lines before the first stamp have its time."""
        waiting: list[tuple[int, str | None, Line]] = []
        for number, boot_id, line in lines:
            time = self._clock.time(line.inner, line.outer)
            if time is None:
                time = self._last.get(line.unit, self._latest)
            else:
                self._last[line.unit] = self._latest = time
            if time is None and len(waiting) < _MOST_KEPT:
                waiting.append((number, boot_id, line))
                continue
            if time is None:
                time = self._latest = self._give_up(waiting)
            for one in waiting:
                yield time, *one
            waiting.clear()
            yield time, number, boot_id, line
        if waiting:
            time = self._give_up(waiting)
            for one in waiting:
                yield time, *one

    def _give_up(self, waiting: Sequence[object]) -> Micros:
        self._timeless = len(waiting)
        return self._modified

    def problems(self) -> Iterator[Problem]:
        """Yield what had to be assumed about times."""
        if self._timeless:
            yield Problem(
                code="unsupported",
                detail="no line begins with a known time stamp; all are taken to be of when it was last written",
                since=self._modified,
                until=self._modified,
            )
        if self._clock.assumed is not None:
            yield Problem(
                code="assumed-timezone",
                detail=f"its time stamps name no time zone; taken to be in this machine's, {self._clock.assumed}",
            )


class _Origins:
    """The origins of lines: few, and each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None, str | None, str | None, str | None], Origin] = {}

    def of(self, line: Line, boot_id: str | None) -> Origin:
        """Give the origin of a line."""
        key = (line.host, line.identifier, line.unit, line.container, boot_id)
        origin = self._known.get(key)
        if origin is None:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            origin = self._known[key] = Origin(
                host=line.host,
                boot_id=boot_id,
                unit=line.unit,
                transport="text",
                identifier=line.identifier,
                container=line.container,
                vouched=False,
            )
        return origin
