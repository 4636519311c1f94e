"""From the cells of a row, whatever their types, to a `Row`.

Rules of this file: a time with a zone is that moment; a time without one is read in the zone that the run log was
opened with. What cannot be read is None and counted, never guessed.
"""

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from kill_audit.errors import RunLogError
from kill_audit.reconcile import Row, State
from kill_audit.runlog.states import StatusWords

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND: Final = dt.timedelta(microseconds=1)
# A number below the first bound (the year 5138) counts seconds, then milli-, micro- and nanoseconds.
_EPOCH_UNITS: Final = ((10**11, 1_000_000), (10**14, 1_000), (10**17, 1))


def open_zone(name: str | None) -> dt.tzinfo:
    """Give the zone of that name of the IANA database; UTC for None.

    Raises:
        RunLogError: there is no such zone.
    """
    if name is None or name.upper() in {"UTC", "Z"}:
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):  # ZoneInfoNotFoundError is a KeyError; a folder's name gives OSError
        known = False
    raise RunLogError(
        f"there is no time zone {name!r}" if not known else name, hint="list them: timedatectl list-timezones"
    )


class CellReader:
    """Reads cells into rows; counts the times that it could not read, and those that carry no zone.

    Args:
        words: the meaning of status words.
        zone: the zone of times that carry none.
        done_is_last_write: the finish column is set by every write, so that in an open row it is the start.
    """

    def __init__(self, *, words: StatusWords, zone: dt.tzinfo, done_is_last_write: bool = False) -> None:
        self.words = words
        self.unread_times = 0
        self.zoneless_times = 0
        self.zone = zone
        self._done_is_last_write = done_is_last_write

    def row(self, cells: Mapping[str, Any], *, key: str) -> Row:
        """Make a row of its cells by field name (see `columns.FIELDS`); a field without a column is not there."""
        started = self.moment(cells.get("started_at"))
        finished = self.moment(cells.get("finished_at"), not_before=started)
        status = text(cells.get("status"))
        state = self.words.state(status, finished=finished is not None)
        if self._done_is_last_write and state is State.OPEN:
            started, finished = started if started is not None else finished, None
        return Row(
            key=key,
            task_id=text(cells.get("task_id")),
            task_name=text(cells.get("task_name")),
            status=status,
            state=state,
            started_at=started,
            finished_at=finished,
            worker=text(cells.get("worker")),
            queue=text(cells.get("queue")),
        )

    def moment(self, cell: object, *, not_before: int | None = None) -> int | None:
        """Read a time as microseconds since the epoch, UTC; None if there is none or it cannot be read.

        A local time that the clock showed twice (the hour after summer time ends) is the first of the two, unless that
        is before `not_before`.
        """
        if cell is None or cell == "":
            return None
        try:
            value = _value(cell)
            if isinstance(value, int):
                return value
            if value.tzinfo is not None:
                return (value - EPOCH) // MICROSECOND
            self.zoneless_times += 1
            first, second = ((value.replace(tzinfo=self.zone, fold=fold) - EPOCH) // MICROSECOND for fold in (0, 1))
        except (ValueError, OverflowError, TypeError):
            self.unread_times += 1
            return None
        return second if not_before is not None and first < not_before else first


def text(cell: object) -> str | None:
    """Read a cell as text; None if it is empty. Bytes that are no UTF-8 become backslash escapes."""
    if cell is None or cell == "":
        return None
    if isinstance(cell, (bytes, bytearray, memoryview)):
        return bytes(cell).decode("utf-8", "backslashreplace")
    return str(cell)


def _value(cell: object) -> dt.datetime | int:
    match cell:
        case dt.datetime():
            return cell
        case dt.date():
            return dt.datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001 -- the zone is the caller's to add
        case bool():
            raise TypeError(cell)
        case int() | float() | decimal.Decimal():
            return _since_epoch(decimal.Decimal(str(cell)))
        case str():
            return _parse(cell.strip())
        case bytes():
            return _parse(cell.decode("ascii").strip())
        case _:
            raise TypeError(cell)


def _since_epoch(number: decimal.Decimal) -> int:
    if not number.is_finite():
        raise ValueError(number)
    factor = next((factor for bound, factor in _EPOCH_UNITS if abs(number) < bound), None)
    if factor is None:
        return int(number) // 1000
    return int(number * factor)


def _parse(words: str) -> dt.datetime | int:
    if words.replace(".", "", 1).isdecimal():
        return _since_epoch(decimal.Decimal(words))
    return dt.datetime.fromisoformat(words.removesuffix(" UTC") + ("+00:00" if words.endswith(" UTC") else ""))
