"""The WHERE clauses of a run log, wide enough for every server; Python looks at each row again."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from kill_audit.entry import Micros
from kill_audit.runlog.cells import EPOCH, MICROSECOND

DAY: Final = dt.timedelta(days=1)


def has_word(
    column: sa.ColumnElement[Any], kind: TypeEngine[Any], words: Sequence[str], *, or_none: bool
) -> sa.ColumnElement[bool]:
    """Select the rows whose status is one of these words, spelled as they stand here.

    Args:
        column: the status.
        kind: its type. Types other than text are compared in a way that an index can serve, where there is one.
        words: the words; the empty one stands for blanks too.
        or_none: whether rows without a status are wanted too.
    """
    condition: sa.ColumnElement[bool]
    if isinstance(kind, sa.Enum):
        labels = [word for word in words if word in (kind.enums or ())]
        condition = sa.type_coerce(column, kind).in_(labels)
    elif isinstance(kind, sa.Integer):
        condition = column.in_([int(word) for word in words if word.isascii() and word.isdecimal()])
    elif isinstance(kind, sa.String):
        condition = column.in_(words)
    else:
        condition = sa.cast(column, sa.String).in_(words)
    return sa.or_(condition, column.is_(None)) if or_none else condition


def within(
    column: sa.ColumnElement[Any], sample: object, since: Micros, until: Micros | None = None
) -> Iterable[sa.ColumnElement[bool]]:
    """Bound a time column by a span, a day wider at both ends where its zone is not known, in the form of its cells.

    Args:
        column: the time.
        sample: one of its values; None, or a form that does not sort like time, gives no bound.
        since: microseconds since the epoch.
        until: microseconds since the epoch; None for no end.
    """
    match sample:
        case dt.datetime():
            zone, slack = (None, DAY) if sample.tzinfo is None else (dt.UTC, dt.timedelta(0))
            yield column >= (_instant(since) - slack).replace(tzinfo=zone)
            if until is not None:
                yield column <= (_instant(until) + slack).replace(tzinfo=zone)
        case str() if sample[4:5] == "-":  # ISO 8601: whatever stands between date and time, dates sort as text
            yield column >= f"{_instant(since) - DAY:%Y-%m-%d}"
            if until is not None:
                yield column < f"{_instant(until) + 2 * DAY:%Y-%m-%d}"


def _instant(micros: Micros) -> dt.datetime:
    """Give a moment as a datetime that leaves room for two days before and after it."""
    return EPOCH + MICROSECOND * min(max(micros, -(10**16)), 10**17)
