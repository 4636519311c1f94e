"""Time stamps of log lines as times: what they leave out (zone, year) is taken from their neighbours or assumed.

A line may carry two stamps: the program's own (`inner`), and in front of it that of whoever collected the line
(`outer`: syslog, a container's runtime). The program's own is nearer to what happened and counts; the outer one may
know the zone, and is all that a traceback's lines have.
"""

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from kill_audit import when
from kill_audit.entry import Micros
from kill_audit.errors import UsageError

_SECOND: Final = 1_000_000
_HOUR: Final = 3600 * _SECOND
_QUARTER: Final = _HOUR // 4  # zones differ by whole quarters of an hour
_DAY: Final = 24 * _HOUR
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 -- wall clocks are reckoned as if in UTC, the zone comes later
_MICROSECOND: Final = timedelta(microseconds=1)
_YEARS: Final = range(1971, 2200)
_MONTHS: Final = {
    name: place
    for place, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
# A collector stamps a line when it gets it: never before it was written, and seldom much later.
_EARLY: Final = -5 * _SECOND
_LATE: Final = 120 * _SECOND
_OUT_OF_ORDER: Final = 60 * _SECOND  # lines of several processes are not strictly in the order of their stamps

CLOCK_TIME: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
ISO_DATE: Final = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
OFFSET: Final = r"(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)"


class Stamp(NamedTuple):
    """What a stamp says. `year`, `offset` (seconds east of UTC): None where it does not say."""

    year: int | None
    month: int
    day: int
    hour: int
    minute: int
    second: int
    micros: int
    offset: int | None

    def wall(self, year: int) -> Micros | None:
        """Give its wall clock, reckoned as if it were UTC; None for a day that no log line is of."""
        if year not in _YEARS:
            return None
        try:
            moment = datetime(year, self.month, self.day, self.hour, self.minute)  # noqa: DTZ001
        except ValueError:
            return None
        return (moment - _EPOCH) // _MICROSECOND + self.second * _SECOND + self.micros


def stamp_of(match: re.Match[str]) -> Stamp:
    """Read a match of patterns made of `ISO_DATE`, `CLOCK_TIME` and `OFFSET`, or of a Unix time (`epoch`).

    Months may be English names.
    """
    found = match.groupdict()
    if epoch := found.get("epoch"):
        moment = datetime.fromtimestamp(int(epoch), UTC)
        micros = int(found["fraction"])
        return Stamp(*moment.timetuple()[:6], micros, 0)
    month = found["month"]
    return Stamp(
        int(year) if (year := found.get("year")) else None,
        _MONTHS[month] if month in _MONTHS else int(month),
        int(found["day"]),
        int(found["hour"]),
        int(found["minute"]),
        int(found["second"]),
        int((found.get("fraction") or "")[:6].ljust(6, "0")),
        _offset(found.get("zone")),
    )


def _offset(zone: str | None) -> int | None:
    if not zone:
        return None
    if zone[0] not in "+-":
        return 0 if zone in ("Z", "UTC", "GMT") else None  # other abbreviations have several meanings
    digits = zone[1:].replace(":", "")
    east = int(digits[:2]) * 3600 + int(digits[2:4] or 0) * 60
    return east if zone[0] == "+" else -east


def zone_called(name: str) -> tzinfo:
    """Give the zone that `--assume-timezone` names: of the tz database, or an offset such as `+02:00`.

    Raises:
        UsageError: it names none.
    """
    if re.fullmatch(r"[+-]\d\d(?::?\d\d)?", name):
        return timezone(timedelta(seconds=_offset(name) or 0))
    try:
        return UTC if name in ("Z", "UTC", "GMT") else when.local_zone({"TZ": name})
    except UsageError as error:
        raise UsageError(
            f"--assume-timezone {name}: no such time zone",
            hint="give a name that `timedatectl list-timezones` prints, such as Europe/Berlin, or an offset: +02:00",
        ) from error


class Clock:
    """Turns the stamps of one file, line after line, into times.

    Args:
        zone: the zone of stamps that name none; None means this machine's, which is noted in `assumed`.
        year: the year of the first stamp that names none; None means the newest in which it is not after `modified`.
        modified: when the file was last written.
        known: a time near the file's start, where a stamp further on names its year.
    """

    def __init__(self, *, zone: str | None, year: int | None, modified: Micros, known: Micros | None = None) -> None:
        self._zone = when.local_zone(os.environ) if zone is None else zone_called(zone)
        self._zone_given = zone is not None
        self._year = year
        self._modified = modified
        self._last = known
        self._shift = 0  # how far the collector's zone is ahead of the program's, where neither is named
        self._offset_of_hour = lru_cache(maxsize=1024)(self._offsets)
        self.assumed: str | None = None

    def time(self, inner: Stamp | None, outer: Stamp | None) -> Micros | None:
        """Give the time of a line with these stamps; None without any that makes sense."""
        found = self._time(inner, outer)
        if found is None:
            return None
        if self._last is not None and found < self._last < found + _SECOND and not _finer_than_seconds(inner, outer):
            found = self._last  # it was cut off to the second, and was not written before the line above it
        self._last = found
        return found

    def _time(self, inner: Stamp | None, outer: Stamp | None) -> Micros | None:
        received = self._wall(outer)
        if outer is not None and received is not None and outer.offset is not None:
            received -= outer.offset * _SECOND
            written = self._wall(inner)
            if inner is None or written is None or inner.offset is not None:
                return received if inner is None or written is None else written - (inner.offset or 0) * _SECOND
            own = written - _whole_quarters(written - received)
            return own if _EARLY <= received - own <= _LATE else received
        written = self._wall(inner)
        if inner is None or written is None:
            return None if received is None else self._utc(received - self._shift)
        if inner.offset is not None:
            return written - inner.offset * _SECOND
        if received is not None:
            shift = _whole_quarters(received - written)
            if _EARLY <= received - shift - written <= _LATE and abs(shift) < _DAY:
                self._shift = shift
        return self._utc(written)

    def _wall(self, stamp: Stamp | None) -> Micros | None:
        if stamp is None:
            return None
        if stamp.year is not None:
            return stamp.wall(stamp.year)
        near = self._modified if self._last is None else self._last
        this_year = datetime.fromtimestamp(near / _SECOND, UTC).year
        if self._last is None and self._year is not None:
            return stamp.wall(self._year)
        walls = [wall for year in range(this_year - 4, this_year + 2) if (wall := stamp.wall(year)) is not None]
        if self._last is None:
            walls = [wall for wall in walls if wall <= near + _DAY] or walls[:1]  # a day: zones, and clocks astray
            return max(walls, default=None)
        return min(walls, key=lambda wall: abs(wall - near), default=None)

    def _utc(self, wall: Micros) -> Micros:
        if not self._zone_given and self.assumed is None:
            self.assumed = str(self._zone)
        first, second = self._offset_of_hour(wall // _HOUR)
        # In the hour that comes twice as summer time ends, the one that does not go backwards is meant.
        backwards = second != first and self._last is not None and wall - first < self._last - _OUT_OF_ORDER
        return wall - (second if backwards else first)

    def _offsets(self, hour: int) -> tuple[Micros, Micros]:
        moment = _EPOCH + timedelta(hours=hour)
        offsets = [moment.replace(tzinfo=self._zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
        return offsets[0] // _MICROSECOND, offsets[1] // _MICROSECOND


def _whole_quarters(span: Micros) -> Micros:
    return (span + _QUARTER // 2) // _QUARTER * _QUARTER


def _finer_than_seconds(inner: Stamp | None, outer: Stamp | None) -> bool:
    stamp = outer if inner is None else inner
    return stamp is not None and stamp.micros != 0
