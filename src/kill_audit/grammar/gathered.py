"""The columns of a batch's task lines, gathered from the shortcut and from the patterns, and put in order."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from kill_audit.events import Coded, TaskLines
from kill_audit.grammar.celery import TaskLine
from kill_audit.grammar.frequent import Sure
from kill_audit.grammar.ids import hash_of
from kill_audit.grammar.windows import Bytes, Ints

_ID: Final = 36


class Ids(Sequence[str]):
    """Task ids as they lie in buffers, or as text: `place` is an offset in buffer number `source`, or in the texts."""

    def __init__(
        self, buffers: Sequence[Bytes], texts: Sequence[str], source: npt.NDArray[np.int8], place: Ints
    ) -> None:
        self._buffers = buffers
        self._texts = texts
        self._source = source
        self._place = place

    def __len__(self) -> int:
        return len(self._place)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return Ids(self._buffers, self._texts, self._source[place], self._place[place])
        source, at = int(self._source[place]), int(self._place[place])
        if source < 0:
            return self._texts[at]
        return self._buffers[source][at : at + _ID].tobytes().decode("ascii") if at else ""


class Gathered:
    """Task lines as they are found, in any order."""

    def __init__(self) -> None:
        self._sure: list[tuple[Ints, Sure, Bytes]] = []
        self._rows: list[int] = []
        self._lines: list[TaskLine] = []
        self._processes: list[str] = []

    def add_sure(self, rows: Ints, sure: Sure, buffer: Bytes) -> None:
        """Add lines that the shortcut found; `rows` are the rows of the lines that it was asked about."""
        self._sure.append((rows[sure.which], sure, buffer))

    def add(self, row: int, line: TaskLine, process: str) -> None:
        """Add one line that a pattern found."""
        self._rows.append(row)
        self._lines.append(line)
        self._processes.append(process)

    def taken(self) -> TaskLines:
        """Give all lines in the order of the batch."""
        rows = [np.array(self._rows, np.int64), *(found for found, _, _ in self._sure)]
        order = np.argsort(np.concatenate(rows), kind="stable")
        sure = [one for _, one, _ in self._sure]
        ids = [line.task_id for line in self._lines]
        hashes = np.array([hash_of(task_id) if task_id else 0 for task_id in ids], np.uint64)
        kinds = np.array([line.kind for line in self._lines], np.int8)
        names, processes = Coded.of(line.task_name for line in self._lines), Coded.of(self._processes)
        numbers = np.array([line.number for line in self._lines], np.float64)

        def column(slow: npt.NDArray[Any], fast: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.concatenate([slow, *fast])[order]

        sources = (np.full(len(found), number, np.int8) for number, found in enumerate(rows[1:]))
        return TaskLines(
            row=np.concatenate(rows)[order],
            kind=column(kinds, (one.kind for one in sure)),
            task_id=Ids(
                [buffer for _, _, buffer in self._sure],
                ids,
                column(np.full(len(ids), -1, np.int8), sources),
                column(np.arange(len(ids)), (one.id_at for one in sure)),
            ),
            id_hash=column(hashes, (one.id_hash for one in sure)),
            task_name=_merged([names, *(Coded(one.name, one.names) for one in sure)], order),
            process=_merged([processes, *(Coded(one.process, one.processes) for one in sure)], order),
            number=column(numbers, (one.number for one in sure)),
        )


def _merged(parts: Sequence[Coded], order: Ints) -> Coded:
    """Put coded columns one behind the other, with each text once, and in order."""
    places: dict[str, int] = {}
    codes = []
    for part in parts:
        numbers = np.array([places.setdefault(text, len(places)) for text in part.words] or [-1], np.int32)
        codes.append(np.where(part.codes >= 0, numbers[part.codes], np.int32(-1)))
    return Coded(np.concatenate(codes)[order], tuple(places))
