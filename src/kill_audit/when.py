"""Points in time and time spans, spelled as systemd.time(7) spells them, so that what journalctl takes works here.

Rules of this file:
- It is pure: `now` and `zone` are arguments. Only `local_zone` looks at the machine, at what it is told to look at.
- Points in time are microseconds since the epoch, UTC; spans are microseconds. A year is 365.25 days.
- The grammar is that of systemd's `parse_timestamp` and `parse_time` (src/basic/time-util.c, v257), less what only its
  C library lets through (30 February, `++5s`), and with more where people are known to type it: a bare `7d` means that
  long ago (systemd issue 32051), and what journalctl and Python's logging print can be given back
  (`2026-11-30T18:17:16+0100`, `2026-11-30 18:17:16,250`).
- A local time that the clocks skipped is moved on by the length of the gap, as mktime(3) does. A local time that comes
  twice means the first (the C library takes one or the other, so that a day may lack its first hour); a zone's
  abbreviation or an offset says which.
- Text that is none of the forms is a `UsageError` whose hint lists them.
"""

import io
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kill_audit.errors import UsageError

SPAN_FORMS = """a time span is one of
  2h 30min    5d12h    1.5h    90    (a number alone is seconds)
with the units us, ms, s, min or m, h, d, w, month or M, y (small m is minutes, big M is months)"""

MOMENT_FORMS = """a point in time is one of
  2026-11-30 18:17:16    2026-11-30 18:17    2026-11-30    18:17    (the date, the time or the seconds may be left out)
  Mon 2026-11-30 18:17:16.250    Nov 30 18:17:16    (with the day of the week, a fraction, or as journalctl prints it)
  2026-11-30 18:17 UTC    2026-11-30 18:17 Europe/Berlin    2026-11-30T18:17:16+02:00    (with a time zone)
  now    today    yesterday    tomorrow
  7d    -7d    7 days ago    +3h30min    3h left    (units: us, ms, s, min or m, h, d, w, month or M, y)
  @1796059036.5    (seconds since 1970-01-01 UTC)"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

_UNITS = {
    name: micros
    for names, micros in (
        ("us usec \N{MICRO SIGN}s \N{GREEK SMALL LETTER MU}s", 1),
        ("ms msec", 1_000),
        ("s sec second seconds", _SECOND),
        ("m min minute minutes", _MINUTE),
        ("h hr hour hours", _HOUR),
        ("d day days", _DAY),
        ("w week weeks", 7 * _DAY),
        ("M month months", 2_629_800 * _SECOND),
        ("y year years", 31_557_600 * _SECOND),
    )
    for name in names.split()
}

_LAST = 253_402_214_399 * _SECOND
"""9999-12-30 23:59:59 UTC, systemd's own limit: what is later may need a year of five digits in some zone."""

_LONGEST = 2**63 - 1
"""The longest span, so that spans and times fit the signed columns they are compared with."""

_PART = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]+))?\s*(?P<unit>[A-Za-z\u00b5\u03bc]*)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_NUMBER_AND_UNIT = re.compile(r"[0-9.]+\s*[A-Za-z\u00b5\u03bc]")
_NO_FORM = "it has none of the known forms"
_NUMBER_ALONE = "a number needs a unit, as in 7d, or an @ before it if it counts seconds since 1970"
_RELATIVE = re.compile(r"(?P<sign>[+-])(?P<signed>.*)|(?P<worded>.*)\s(?P<word>ago|left)", re.DOTALL)
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?")
_WELDED = re.compile(r"(?P<rest>.*[0-9])(?P<zone>[Zz]|[+-][0-9]{2}:?[0-5][0-9])")
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_DATE = re.compile(r"(?P<year>[0-9]{4}|[0-9]{1,2})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})")
_TIME = re.compile(
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:[.,](?P<fraction>[0-9]+))?)?"
)
_DATE_AND_TIME = re.compile(r"\b([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})[Tt](?=[0-9])")
_DAY_OF_MONTH = re.compile(r"[0-9]{1,2}")

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS_FROM_TODAY = {"yesterday": -1, "today": 0, "tomorrow": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The times [`since`, `until`), in microseconds since the epoch, UTC; never empty when `window` made it."""

    since: int
    until: int


class _RefusedError(Exception):
    """Why a text cannot be read; the public functions put the text before it and the forms below it."""


def span(text: str) -> int:
    """The length of a time span such as `2h 30min`, in microseconds.

    Rules of systemd.time(7), "Parsing time spans": parts add up, blanks may be left out, decimals are allowed, and a
    number without a unit is seconds. What a decimal leaves below a microsecond is cut off, digit by digit, as
    `parse_time` of systemd does it. `infinity` is refused: nothing that is asked here can last for ever.

    Raises:
        UsageError: it is none of the forms, or longer than 292,271 years.
    """
    try:
        return _span(text)
    except _RefusedError as refused:
        raise UsageError(f"{_quoted(text)} is not a time span: {refused}", hint=SPAN_FORMS) from None


def moment(text: str, *, now: int, zone: tzinfo) -> int:
    """The point in time that `text` names, in microseconds since the epoch, UTC.

    `now` (microseconds since the epoch, UTC) is what relative forms are counted from; `zone` is what local times and
    days are in where the text names no zone of its own. All forms of systemd.time(7), "Parsing timestamps", and
    besides: a bare span with units means that long ago; an offset needs no colon; a fraction may follow a comma; `t`
    and `z` may be small (RFC 3339, section 5.6). `today` and a time alone are of the day in the zone that the text
    names, if it does.

    Raises:
        UsageError: it is none of the forms, no such day or time exists, or it is not within 1970 to 9999.
    """
    try:
        return _within_range(_moment(text.strip(), now, zone))
    except _RefusedError as refused:
        raise UsageError(f"{_quoted(text)} is not a point in time: {refused}", hint=MOMENT_FORMS) from None


def window(since: str | None, until: str | None, *, now: int, zone: tzinfo, default_span: str = "7d") -> Window:
    """The window from `since` (inclusive; None: `default_span` before its end) to `until` (exclusive; None: `now`).

    Raises:
        UsageError: one of the texts cannot be read, or the window is empty (the message shows both times).
    """
    end = now if until is None else moment(until, now=now, zone=zone)
    start = max(0, end - span(default_span)) if since is None else moment(since, now=now, zone=zone)
    if start >= end:
        raise UsageError(
            f"the window is empty: since {describe(start, zone)} is not before until {describe(end, zone)}",
            hint="give a --since that is before --until; without --until the window ends now",
        )
    return Window(since=start, until=end)


def exactly(at: int) -> str:
    """Write a moment (microseconds since the epoch) so that `moment` reads the very same."""
    return f"@{at // 1_000_000}.{at % 1_000_000:06d}"


def describe(micros: int, zone: tzinfo) -> str:
    """A point in time for people, to the second: `2026-11-30 18:17:16 CET`.

    `moment` reads it back in the same zone, unless clocks were put back there without a change of abbreviation, as in
    Moscow in 2014. A time that no year of four digits holds (a damaged journal may claim one) is shown as `@SECONDS`.
    """
    if not 0 <= micros <= _LAST:
        return f"@{micros // _SECOND}"
    local = _local(micros, zone)
    return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname() or ''}".rstrip()


def human_span(micros: int) -> str:
    """A length of time for people, in two units at most: `3d 4h`, `2h 5min`, `12.3s`, `350ms`.

    What is smaller is cut off, not rounded, so that 59.99 s never reads as a minute; less than a tenth is lost. `span`
    reads it back, apart from the sign of a negative length.
    """
    length = abs(micros)
    sign = "-" if micros < 0 else ""
    if length < 1_000:
        return f"{sign}{length}us" if length else "0s"
    if length < _MINUTE:
        size, unit = (_SECOND, "s") if length >= _SECOND else (1_000, "ms")
        whole, tenths = divmod(length * 10 // size, 10)
        return f"{sign}{whole}.{tenths}{unit}" if tenths else f"{sign}{whole}{unit}"
    scale = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
    first = next(place for place, (size, _) in enumerate(scale) if length >= size)
    (size, unit), (next_size, next_unit) = scale[first : first + 2]
    more = length % size // next_size
    return f"{sign}{length // size}{unit}" + (f" {more}{next_unit}" if more else "")


def local_zone(environ: Mapping[str, str], *, localtime: Path = Path("/etc/localtime")) -> tzinfo:
    """The time zone that the programs of this machine use, with its daylight-saving rules.

    `TZ` first, in every form of tzset(3): a name, a path (both also behind a colon), a rule such as
    `CET-1CEST,M3.5.0,M10.5.0/3`, or empty for UTC. Then `localtime`: by name if it is a link into a zoneinfo tree, as
    localtime(5) wants it, else by content. UTC if that is missing or damaged.

    Raises:
        UsageError: `TZ` is set to what is none of these. The C library silently takes UTC for it, and the window
            would be hours off.
    """
    if (setting := environ.get("TZ")) is None:
        return _zone_in_file(localtime) or UTC
    name = setting.removeprefix(":")
    if not name:
        return UTC
    zone = _zone_in_file(Path(name)) if name.startswith("/") else _zone_by_name(name) or _zone_by_rule(name)
    if zone is None:
        raise UsageError(
            f"the environment says TZ={_quoted(setting)}, which names no time zone",
            hint="set TZ to a name that `timedatectl list-timezones` prints, such as TZ=Europe/Berlin, or unset it",
        )
    return zone


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


# Spans


def _span(text: str, *, unit_less: int | None = _SECOND) -> int:
    """The length of a span; the unit of a number without one is `unit_less`; None refuses such numbers."""
    rest = text.strip()
    if not rest:
        raise _RefusedError("it is empty")
    if rest == "infinity":
        raise _RefusedError("it must come to an end")
    total = 0
    while rest:
        part = _PART.match(rest)
        if part is None or not (part["whole"] or part["fraction"]):
            raise _RefusedError(f"{_quoted(rest)} is not a number with a unit")
        rest = rest[part.end() :]
        unit = _UNITS.get(part["unit"]) if part["unit"] else unit_less
        if unit is None:
            reason = f"{_quoted(part['unit'])} is not a unit of time" if part["unit"] else _NUMBER_ALONE
            raise _RefusedError(reason)
        if rest and not part["unit"] and not part[0][-1].isspace():  # 12.34.56 or 12:34, while 12 34 is 46 s
            raise _RefusedError(f"{_quoted(rest)} is not a number with a unit")
        total += _length(part["whole"], part["fraction"] or "", unit)
        rest = rest.lstrip()
    if total > _LONGEST:
        raise _RefusedError("it is too long")
    return total


def _length(whole: str, fraction: str, unit: int) -> int:
    significant = whole.lstrip("0")
    if len(significant) > len(str(_LONGEST)):  # int() refuses thousands of digits with an error of its own
        raise _RefusedError("it is too long")
    micros = int(significant or "0") * unit
    for digit in fraction:
        unit //= 10
        micros += int(digit) * unit
        if not unit:
            break
    return micros


# Points in time


def _moment(text: str, now: int, zone: tzinfo) -> int:
    if not text:
        raise _RefusedError("it is empty")
    if text == "now":
        return now
    if text[0] == "@":
        return _span(text[1:])
    if relative := _RELATIVE.fullmatch(text):
        length = _span(relative["signed"] if relative["sign"] else relative["worded"])
        return now - length if relative["sign"] == "-" or relative["word"] == "ago" else now + length
    if (micros := _calendar_time(text, now, zone)) is not None:
        return micros
    if _NUMBER.fullmatch(text):  # 2026 surely does not mean that many seconds ago
        raise _RefusedError(_NUMBER_ALONE)
    if _NUMBER_AND_UNIT.match(text):
        return now - _span(text, unit_less=None)
    raise _RefusedError(_NO_FORM)


def _within_range(micros: int) -> int:
    if not 0 <= micros <= _LAST:
        raise _RefusedError("it is not within the years 1970 to 9999")
    return micros


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wall:
    """What a calendar and a clock on a wall show, as far as the text says; a zone and the present say the rest.

    `date` is year (None: this year), month and day, or None for today; `days` counts on from there. `micros` is what
    `clock` cannot show: a fraction, or the leap second, which POSIX time counts as the second after it.
    """

    weekday: str | None = None
    date: tuple[int | None, int, int] | None = None
    days: int = 0
    clock: time = time()
    micros: int = 0

    def local(self, now: int, zone: tzinfo) -> datetime:
        """The local time in `zone` at the time `now`, to the second, without its zone."""
        today = _local(now, zone).date()
        year, month, day = self.date or (None, today.month, today.day)
        try:
            meant = date(today.year if year is None else year, month, day) + timedelta(days=self.days)
        except (ValueError, OverflowError):
            raise _RefusedError("there is no such day") from None
        return datetime.combine(meant, self.clock)


def _calendar_time(text: str, now: int, zone: tzinfo) -> int | None:
    """The point in time, in `zone` unless the text names another; None if it does not have such a form at all."""
    words = _DATE_AND_TIME.sub(r"\1 ", text).split()
    if (wall := _wall(words)) is not None:
        at = wall.local(now, zone).replace(tzinfo=zone)
    else:
        if welded := _WELDED.fullmatch(words[-1]):
            words[-1:] = [welded["rest"], welded["zone"]]
        if (wall := _wall(words[:-1])) is None:
            return None
        at = _in_zone_called(words[-1], wall, now, zone)
    if wall.weekday not in (None, actual := _WEEKDAYS[at.weekday()]):
        raise _RefusedError(f"{at:%Y-%m-%d} is a {actual}")
    return (at - _EPOCH) // _MICROSECOND + wall.micros


def _in_zone_called(name: str, wall: _Wall, now: int, zone: tzinfo) -> datetime:
    """The wall's time in the zone called `name`: UTC or an offset, what `zone` calls itself, or a name of tz database.

    `CET` and the like are both an abbreviation and a name; the abbreviation wins, so that `CET` in July is an hour
    behind the clocks of Brussels, as for systemd.
    """
    if (fixed := _zone_by_offset(name)) is not None:
        return wall.local(now, fixed).replace(tzinfo=fixed)
    named = _zone_by_name(name)
    for place in (zone, named):
        if place is not None:
            local = wall.local(now, place)
            if (offset := _offset_called(name, local, place)) is not None:
                return local.replace(tzinfo=timezone(offset))
    if named is None:
        raise _RefusedError(_NO_FORM if name[0].isdecimal() else f"{_quoted(name)} is not the name of a time zone")
    return wall.local(now, named).replace(tzinfo=named)


def _offset_called(name: str, local: datetime, zone: tzinfo) -> timedelta | None:
    """The UTC offset that `zone` calls by the abbreviation `name`: at that time, else at any time of that year.

    So an abbreviation tells the two halves of a doubled hour apart, and `CEST` in winter is an hour before the clocks.
    """
    then = [local.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    year = [datetime(local.year, month, day, tzinfo=zone) for month in range(1, 13) for day in (1, 15)]
    return next((at.utcoffset() for at in (*then, *year) if at.tzname() == name), None)


def _wall(words: list[str]) -> _Wall | None:
    """What the words show, or None if they are no calendar time; they must not name a zone."""
    weekday = _name_of(words[0], _WEEKDAYS) if len(words) > 1 else None
    match words if weekday is None else words[1:]:
        case ["yesterday" | "today" | "tomorrow" as day] if weekday is None:
            return _Wall(days=_DAYS_FROM_TODAY[day])
        case [word] if found := _DATE.fullmatch(word):
            return _Wall(weekday=weekday, date=_date(found))
        case [word] if found := _TIME.fullmatch(word):
            clock, micros = _clock(found)
            return _Wall(weekday=weekday, clock=clock, micros=micros)
        case [day, word] if (on := _DATE.fullmatch(day)) and (found := _TIME.fullmatch(word)):
            clock, micros = _clock(found)
            return _Wall(weekday=weekday, date=_date(on), clock=clock, micros=micros)
        case [name, day, word] if (
            (month := _name_of(name, _MONTHS)) and _DAY_OF_MONTH.fullmatch(day) and (found := _TIME.fullmatch(word))
        ):
            clock, micros = _clock(found)
            this_year = (None, _MONTHS.index(month) + 1, int(day))
            return _Wall(weekday=weekday, date=this_year, clock=clock, micros=micros)
        case _:
            return None


def _name_of(word: str, names: tuple[str, ...]) -> str | None:
    """The name that `word` is, in full or by its first three letters, in capitals or not."""
    return next((name for name in names if word.lower() in (name.lower(), name[:3].lower())), None)


def _date(found: re.Match[str]) -> tuple[int, int, int]:
    """Year, month and day; a year of two digits is 1969 to 2068, as for strptime(3)."""
    year = int(found["year"])
    if len(found["year"]) <= 2:
        year += 1900 if year >= 69 else 2000
    return year, int(found["month"]), int(found["day"])


def _clock(found: re.Match[str]) -> tuple[time, int]:
    """The time to the second, and the microseconds to add to it (rounded, as systemd rounds them)."""
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    digits = found["fraction"] or "0"
    micros = int(digits[:6].ljust(6, "0")) + (digits[6:7] >= "5")
    if second == 60:
        second, micros = 59, micros + _SECOND
    try:
        return time(hour, minute, second), micros
    except ValueError:
        raise _RefusedError("there is no such time of day") from None


def _local(micros: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=micros)).astimezone(zone)


# Time zones


def _zone_by_offset(name: str) -> tzinfo | None:
    """UTC for `UTC` and `Z`, else the zone of an offset such as `+02:00`, `+0200` or `+02`."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if (found := _OFFSET.fullmatch(name)) is None or int(found["hours"]) > 23:
        return None
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return timezone(-offset if found["sign"] == "-" else offset)


def _zone_by_name(name: str) -> tzinfo | None:
    """The zone of a tz database name such as `Europe/Berlin`; None if the database does not have it."""
    if _ZONE_NAME.fullmatch(name) is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # unknown; not a zone's file; a folder of zones
        return None


def _zone_by_rule(rule: str) -> tzinfo | None:
    """The zone of a rule of tzset(3), `CET-1CEST,M3.5.0,M10.5.0/3`; None if it is not one.

    The standard library reads such rules where they end a compiled zone (RFC 9636, section 3.3), so it is given a zone
    that has nothing else.
    """
    if not rule.isascii():
        return None
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lBB", 0, 0, 0) + b"UTC\0"
    return _compiled_zone(block + block + b"\n" + rule.encode() + b"\n")


def _zone_in_file(path: Path) -> tzinfo | None:
    """The zone of a compiled file: by name if it is, or is a link to, a file of a zoneinfo tree, else by content."""
    if not path.is_file():
        return None
    try:
        links = (path.readlink(), path.resolve()) if path.is_symlink() else ()
        for place in (path, *links):
            _, tree, name = str(place).rpartition("zoneinfo/")
            if tree and (zone := _zone_by_name(name)) is not None:
                return zone
        return _compiled_zone(path.read_bytes())
    except OSError:
        return None


class _CompiledZone(io.BytesIO):
    """A compiled zone that refuses to be read past its end: CPython 3.11 would look there for ever for a last line."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size and not data:
            raise ValueError("the file is cut off")
        return data


def _compiled_zone(data: bytes) -> tzinfo | None:
    try:
        return ZoneInfo.from_file(_CompiledZone(data))
    except (ValueError, AssertionError, struct.error):  # what zoneinfo raises for content that is not a zone's
        return None
