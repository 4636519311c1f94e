"""Reads a CSV file: RFC 4180, and what spreadsheets make of it.

Rules of this file: the first line names the columns; comma, semicolon, tab and bar are told apart by that line.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from kill_audit.errors import RunLogError

DELIMITERS: Final = ",;\t|"
LOOKED_AT: Final = 100  # records by which a column of numbers is known


class CsvFile:
    """A CSV file (`files.Records`), read anew each time.

    Raises:
        RunLogError: it cannot be read, or it is empty.
    """

    kind = "csv"

    def __init__(self, path: Path) -> None:
        self.path = path
        head = list(islice(self._records(), 1 + LOOKED_AT))
        if not head:
            raise RunLogError(f"{path} is empty", hint="write a CSV file whose first line names its columns")
        self.header = tuple(name.strip() for name in head[0])
        columns = zip(self.header, zip(*head[1:], strict=False), strict=False)
        self.numbers = frozenset(name for name, cells in columns if all(cell.isdecimal() for cell in cells))

    def rows(self, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Read these columns of all rows; a cell that a short record lacks is empty."""
        places = [self.header.index(name) for name in names]
        for cells in islice(self._records(), 1, None):
            yield tuple(cells[place] if place < len(cells) else "" for place in places)

    def _records(self) -> Iterator[list[str]]:
        """Read the records of the file, without blank lines."""
        csv.field_size_limit(sys.maxsize)  # a traceback in some column may pass the default of 128 KiB
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                head = file.readline()
                file.seek(0)
                yield from filter(None, csv.reader(file, delimiter=max(DELIMITERS, key=head.count)))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
        else:
            return
        raise RunLogError(f"cannot read {self.path}: {reason}", hint=f"look at it: head {self.path}")
