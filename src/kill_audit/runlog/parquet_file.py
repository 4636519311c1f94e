"""Reads a Parquet file, a few row groups' columns at a time (needs the extra `parquet`)."""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kill_audit.errors import RunLogError

PARQUET_MAGIC: Final = b"PAR1"  # https://parquet.apache.org/docs/file-format/
ROWS_AT_ONCE: Final = 8192


class ParquetFile:
    """A Parquet file (`files.Records`), read anew each time.

    Raises:
        RunLogError: pyarrow is not installed, or the file is damaged.
    """

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow = _pyarrow(path)
        schema = self._schema()
        self.header = tuple(map(str, schema.names))
        is_integer = self._arrow.types.is_integer
        self.numbers = frozenset(name for name in self.header if is_integer(schema.field(name).type))

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Read these columns of all rows."""
        arrow = self._arrow
        wanted = list(dict.fromkeys(names))
        try:
            with arrow.parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=wanted):
                    cells = {name: self._values(batch.column(name)) for name in wanted}
                    yield from zip(*(cells[name] for name in names), strict=True)
        except (arrow.ArrowException, OSError) as error:
            failure = self._failure(error)
        else:
            return
        raise failure

    def _values(self, column: Any) -> list[Any]:
        """Give a column's cells as Python objects; nanoseconds, which Python's times lack, are cut off."""
        kind = column.type
        if self._arrow.types.is_timestamp(kind) and kind.unit == "ns":
            column = column.cast(self._arrow.timestamp("us", tz=kind.tz), safe=False)
        values: list[Any] = column.to_pylist()
        return values

    def _schema(self) -> Any:
        try:
            return self._arrow.parquet.read_schema(self.path)
        except (self._arrow.ArrowException, OSError) as error:
            failure = self._failure(error)
        raise failure

    def _failure(self, error: Exception) -> RunLogError:
        line = str(error).partition("\n")[0]
        return RunLogError(f"cannot read {self.path}: {line}", hint=f"look what it is: file {self.path}")


def _pyarrow(path: Path) -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        pass
    raise RunLogError(f"{path} needs pyarrow, which is not installed", hint="pip install 'kill-audit[parquet]'")
