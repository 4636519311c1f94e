"""The bars of the page: kills per day (or week) by cause, as shares of a row's width. No drawing, only numbers."""

import datetime as dt
from collections import Counter
from dataclasses import dataclass

from kill_audit import texts
from kill_audit.document import Document, Kill
from kill_audit.render.view import Clock

DAYS_SHOWN = 35  # a longer window is shown by weeks: one row must stay one glance
DAY = dt.timedelta(days=1)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Kills of one cause in one row: `start` and `kills` are in kills, the unit of the chart's width."""

    cause: str
    start: int
    kills: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One day, or the week that begins with it."""

    day: dt.date
    kills: int
    segments: tuple[Segment, ...]

    @property
    def label(self) -> str:
        """The day as `Mon 2026-11-23`, whatever the locale."""
        return f"{WEEKDAYS[self.day.weekday()]} {self.day}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Every day (or week) of the window, also those without kills; `most` is the longest bar, `causes` the legend."""

    weekly: bool
    bars: tuple[Bar, ...]
    most: int
    causes: tuple[tuple[str, int], ...]


def chart(document: Document, clock: Clock) -> Chart:
    """Count the kills by calendar day of the clock's zone and by cause; causes stand in the order of their rules."""
    first, last = _ends(document, clock)
    weekly = (last - first) > DAYS_SHOWN * DAY
    starts = _starts(first, last, weekly=weekly)
    order = _order(document.kills)
    counts = Counter((_bucket(clock.day(kill.at), weekly=weekly), kill.cause) for kill in document.kills)
    bars = tuple(_bar(day, [(cause, counts[day, cause]) for cause in order]) for day in starts)
    totals = Counter(kill.cause for kill in document.kills)
    return Chart(
        weekly=weekly,
        bars=bars,
        most=max((bar.kills for bar in bars), default=0),
        causes=tuple((cause, totals[cause]) for cause in order),
    )


def _ends(document: Document, clock: Clock) -> tuple[dt.date, dt.date]:
    """The first and last day; the window's end is not part of it, so midnight ends the day before."""
    first = clock.day(document.window.since)
    last = max(first, clock.day_before(document.window.until))
    days = [clock.day(kill.at) for kill in document.kills]
    return min([first, *days]), max([last, *days])


def _starts(first: dt.date, last: dt.date, *, weekly: bool) -> list[dt.date]:
    day, step = _bucket(first, weekly=weekly), 7 * DAY if weekly else DAY
    return [day + step * at for at in range((last - day) // step + 1)]


def _bucket(day: dt.date, *, weekly: bool) -> dt.date:
    return day - DAY * day.weekday() if weekly else day


def _bar(day: dt.date, numbers: list[tuple[str, int]]) -> Bar:
    segments, start = [], 0
    for cause, kills in numbers:
        if kills:
            segments.append(Segment(cause=cause, start=start, kills=kills))
            start += kills
    return Bar(day=day, kills=start, segments=tuple(segments))


def _order(kills: tuple[Kill, ...]) -> list[str]:
    present = {kill.cause for kill in kills}
    known = texts.load().causes
    return [cause for cause in known if cause in present] + sorted(present - set(known))
