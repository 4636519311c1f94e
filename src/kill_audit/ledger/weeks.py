"""Whole weeks of the calendar: ISO 8601's, Monday to Sunday, of a zone whose clocks may be set in between.

Rules of this file: no clock is read; a day begins at midnight of the zone, so that the week in which the clocks are
put back has 169 hours. A midnight that the clocks skip is the moment at which they were set.
"""

import datetime as dt
from dataclasses import dataclass
from itertools import pairwise

from kill_audit.entry import Micros
from kill_audit.ledger.spans import Spans, within

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What was found in a week, and on how many of its `days` the evidence reached over the whole day.

    `kills`, `missing`, `stuck` are None where nothing was ever read of the week: that is not "none were killed".
    """

    since: Micros
    until: Micros
    kills: int | None
    missing: int | None
    stuck: int | None
    covered: int
    days: int


def last_week(now: Micros, zone: dt.tzinfo) -> tuple[Micros, Micros]:
    """Find the last whole week before a moment: [Monday, the next Monday)."""
    this_monday = _monday(_date(now, zone))
    return _midnight(this_monday - 7 * _DAY, zone), _midnight(this_monday, zone)


def weeks_before(until: Micros, zone: dt.tzinfo, number: int) -> tuple[tuple[Micros, Micros], ...]:
    """List the last whole weeks that ended at or before a moment, oldest first."""
    end = _monday(_date(until, zone))
    mondays = [end - 7 * _DAY * back for back in range(number, -1, -1)]
    edges = [_midnight(monday, zone) for monday in mondays]
    return tuple(pairwise(edges))


def period_before(since: Micros, until: Micros, zone: dt.tzinfo) -> tuple[Micros, Micros]:
    """Find the period of the same length that ends where this one begins.

    From a time of day to the same time of day it is as many days of the calendar, though the clocks may be set in one
    of the two; otherwise it is as many microseconds.
    """
    first, last = _local(since, zone), _local(until, zone)
    if first.time() != last.time():
        return since - (until - since), since
    start = first.replace(tzinfo=None, fold=0) - (last.date() - first.date())
    return _micros(start.replace(tzinfo=zone)), since


def covered_days(covered: Spans, since: Micros, until: Micros, zone: dt.tzinfo) -> tuple[int, int]:
    """Count the days of the calendar in [since, until) that are covered from end to end, and all of them."""
    days = _days(since, until, zone)
    return sum(within(covered, *day) == (day,) for day in days), len(days)


def _days(since: Micros, until: Micros, zone: dt.tzinfo) -> tuple[tuple[Micros, Micros], ...]:
    edges = [since]
    day = _date(since, zone) + _DAY
    while (midnight := _midnight(day, zone)) < until:
        edges.append(midnight)
        day += _DAY
    return tuple(pairwise([*edges, until]))


def _monday(day: dt.date) -> dt.date:
    return day - _DAY * day.weekday()


def _date(moment: Micros, zone: dt.tzinfo) -> dt.date:
    return _local(moment, zone).date()


def _local(moment: Micros, zone: dt.tzinfo) -> dt.datetime:
    return (_EPOCH + _MICROSECOND * moment).astimezone(zone)


def _midnight(day: dt.date, zone: dt.tzinfo) -> Micros:
    return _micros(dt.datetime.combine(day, dt.time(), tzinfo=zone))


def _micros(moment: dt.datetime) -> Micros:
    return (moment - _EPOCH) // _MICROSECOND
