"""Sources that hold some of the same entries, read as one: an entry that stands in several of them counts once.

A copy of a journal beside the journal, the same file by two names, an export beside the files it was made of. Read
apart they would show each line twice; so such sources are merged by time, and of the entries of one moment each
counts as often as in the source that has it most often.

Rules of this file: it knows entries and nothing of what they say.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from kill_audit.entry import BATCH_ENTRIES, Batch, Micros, Origin, Problem, Question, Source

_Row = tuple[Micros, int, int, Batch]  # realtime, the source's number, its row, its batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Several sources as one."""

    sources: tuple[Source, ...]

    @property
    def name(self) -> str:
        """All their names."""
        return " + ".join(source.name for source in self.sources)

    @property
    def fragile(self) -> bool:
        """Whether reading one of them may end the process."""
        return any(getattr(source, "fragile", True) for source in self.sources)

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield their entries in order of time, each once, and their problems at the end."""
        problems: list[Problem] = []
        rows = merge(
            *(self._rows(place, question, problems) for place in range(len(self.sources))), key=lambda row: row[0]
        )
        pen = _Pen()
        moment: list[_Row] = []
        for row in rows:
            if moment and row[0] != moment[0][0]:
                yield from pen.write(_once(moment))
                moment = []
            moment.append(row)
        yield from pen.write(_once(moment))
        yield from pen.rest()
        yield from problems

    def _rows(self, place: int, question: Question, problems: list[Problem]) -> Iterator[_Row]:
        latest = 0
        for batch in self.sources[place].batches(question):
            if isinstance(batch, Problem):
                problems.append(batch)
                continue
            for row, at in enumerate(batch.realtime):
                latest = max(latest, at)  # a clock that stepped back: keep the source's own order
                yield latest, place, row, batch


def _identity(row: _Row) -> tuple[Any, ...]:
    _, _, number, batch = row
    origin = batch.origins[batch.origin[number]]
    return (
        batch.realtime[number], batch.monotonic[number], batch.pid[number], origin.boot_id, origin.unit,
        origin.machine_id or origin.host, batch.message[number], tuple(sorted(batch.fields[number].items())),
    )  # fmt: skip


def _once(moment: Sequence[_Row]) -> Iterator[_Row]:
    """Of the entries of one moment keep each as often as the source has it that has it most often."""
    if len({place for _, place, _, _ in moment}) < 2:
        yield from moment
        return
    kept: Counter[tuple[Any, ...]] = Counter()
    seen: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in sorted(moment, key=lambda row: row[1]):
        key = _identity(row)
        mine = seen.setdefault(row[1], Counter())
        mine[key] += 1
        if mine[key] > kept[key]:
            kept[key] += 1
            yield row


@dataclass(slots=True)
class _Pen:
    """Writes rows of other batches into new ones."""

    columns: tuple[list[Any], ...] = field(default_factory=lambda: tuple([] for _ in range(6)))
    fields: list[Mapping[str, str]] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    codes: dict[Origin, int] = field(default_factory=dict)

    def write(self, rows: Iterator[_Row]) -> Iterator[Batch]:
        for _, _, number, batch in rows:
            origin = batch.origins[batch.origin[number]]
            code = self.codes.setdefault(origin, len(self.origins))
            if code == len(self.origins):
                self.origins.append(origin)
            for column, value in zip(
                self.columns,
                (
                    batch.realtime[number], batch.monotonic[number], batch.pid[number], code, batch.message[number],
                    batch.cursor[number],
                ),
                strict=True,
            ):  # fmt: skip
                column.append(value)
            self.fields.append(batch.fields[number])
            if len(self.fields) >= BATCH_ENTRIES:
                yield from self.rest()

    def rest(self) -> Iterator[Batch]:
        if not self.fields:
            return
        realtime, monotonic, pid, origin, message, cursor = (tuple(column) for column in self.columns)
        yield Batch(
            realtime=realtime,
            monotonic=monotonic,
            pid=pid,
            origin=origin,
            origins=tuple(self.origins),
            message=message,
            cursor=cursor,
            fields=tuple(self.fields),
        )
        for column in self.columns:
            column.clear()
        self.fields.clear()
