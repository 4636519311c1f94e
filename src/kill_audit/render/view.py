"""How a form is to be shown, and times, spans and counts in a person's words."""

import datetime as dt
from dataclasses import dataclass
from typing import Self

from kill_audit.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the reader's end of the output is like. See `render` for the meaning of each."""

    form: str
    width: int | None
    color: bool
    zone: dt.tzinfo | None
    explain: bool

    def moment(self, text: str) -> dt.datetime:
        """A moment of the document in the view's zone."""
        return dt.datetime.fromisoformat(text).astimezone(self.zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Shows the document's times in one zone, cut to seconds.

    `name`: the zone in full, `short`: its abbreviation. `marked`: the zone's offset changes within the window (summer
    time), so that each time carries its own abbreviation; without it 02:30 would be two moments.
    """

    zone: dt.tzinfo | None
    name: str
    short: str
    marked: bool

    @classmethod
    def over(cls, document: Document, zone: dt.tzinfo | None) -> Self:
        """Make the clock for the document's window in a zone (None: this machine's)."""
        since, until = (_local(text, zone) for text in (document.window.since, document.window.until))
        marked = since.utcoffset() != until.utcoffset()
        abbreviations = dict.fromkeys((str(since.tzname()), str(until.tzname())) if marked else (str(until.tzname()),))
        key = getattr(zone, "key", None)
        short = ", then ".join(abbreviations)
        name = short if key is None or short == "UTC" else f"{key} ({short})"
        return cls(zone=zone, name=name, short=short, marked=marked)

    def heading(self, title: str) -> str:
        """Name a column of moments: `died at (CET)`; marked moments say their zone themselves."""
        return title if self.marked else f"{title} ({self.short})"

    def at(self, text: str | None) -> str:
        """Show a moment as `2026-11-30 12:08:54`; an unknown one as `-`."""
        if text is None:
            return "-"
        moment = _local(text, self.zone)
        return f"{moment:%Y-%m-%d %H:%M:%S}" + (f" {moment.tzname()}" if self.marked else "")

    def until(self, text: str) -> str:
        """Show a moment as a day, where a day begins with it."""
        local = _local(text, self.zone)
        return f"{local.date()}" if local.time() == dt.time() else self.at(text)

    def day(self, text: str) -> dt.date:
        """The calendar day of a moment in this zone."""
        return _local(text, self.zone).date()

    def day_before(self, text: str) -> dt.date:
        """The calendar day that is still before a moment, for the last day of a window that ends at midnight."""
        return (_local(text, self.zone) - dt.timedelta(microseconds=1)).date()


def _local(text: str, zone: dt.tzinfo | None) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(zone)


def span(seconds: float | None) -> str:
    """Show a length of time with at most two units, as systemd spells them: `3.2s`, `12min 3s`, `1h 4min`, `2d 3h`."""
    if seconds is None:
        return "-"
    if seconds < 10:  # below ten seconds the tenths matter
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}" + (f" {rest}{smaller}" if rest else "")
    return f"{whole}s"


def count(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun: `1 task`, `0 tasks`, `1,204 tasks`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(parts: list[str]) -> str:
    """Join parts as a sentence does: `a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
