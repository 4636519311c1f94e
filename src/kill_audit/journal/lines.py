"""What stands in front of a log line's message: stamps, host, tag and container, by who put it there.

Rules of this file: it takes prefixes off, and never looks at what a message means. Each pattern names its writer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kill_audit.entry import Micros
from kill_audit.journal.stamps import CLOCK_TIME, ISO_DATE, OFFSET, Stamp, stamp_of

_LEVELS: Final = r"(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|SUCCESS)"
_MONTH: Final = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_WEEKDAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DAY: Final = r" {1,2}(?P<day>\d{1,2})"
_TAG: Final = r"(?:(?P<identifier>[^\s\[\]:]+)(?:\[(?P<pid>\d+)\])?:(?: |$))?"

# -- whole prefixes of syslog and journalctl: stamp, host, tag -------------------------------------------------------

_TAGGED: Final = (
    # journalctl -o short, short-precise; rsyslog's traditional file format (RFC 3164)
    re.compile(rf"(?:<\d{{1,3}}>)?{_MONTH}{_DAY} {CLOCK_TIME} (?P<host>[^\s:\[\]]+) {_TAG}"),
    # journalctl -o short-full, with-unit
    re.compile(rf"{_WEEKDAY} {ISO_DATE} {CLOCK_TIME} (?P<zone>[A-Z]{{1,5}}|[+-]\d\d(?::?\d\d)?) (?P<host>\S+) {_TAG}"),
    # journalctl -o short-iso, short-iso-precise; rsyslog's default format. A container's line may go on with any
    # words, so only a tag with a pid, or one that is known, is taken for a tag.
    re.compile(
        rf"{ISO_DATE}T{CLOCK_TIME}{OFFSET} (?P<host>\S+) "
        r"(?P<identifier>[^\s\[\]:]+(?=\[\d+\])|kernel|sudo)(?:\[(?P<pid>\d+)\])?:(?: |$)"
    ),
    # journalctl -o short-unix
    re.compile(rf"(?P<epoch>\d{{9,10}})\.(?P<fraction>\d{{6}}) (?P<host>\S+) {_TAG}"),
    # RFC 5424: <PRI>1 STAMP HOST APP-NAME PROCID MSGID STRUCTURED-DATA MSG
    re.compile(
        rf"<\d{{1,3}}>1 {ISO_DATE}T{CLOCK_TIME}{OFFSET} (?P<host>\S+) (?P<identifier>\S+) (?:(?P<pid>\d+)|\S+) \S+ "
        r"(?:-|(?:\[(?:[^\]\\]|\\.)*\])+)(?: \ufeff?|$)"
    ),
)
# dmesg -T; the kernel is its only writer
_DMESG: Final = re.compile(rf"\[{_WEEKDAY} {_MONTH}{_DAY} {CLOCK_TIME} (?P<year>\d{{4}})\] (?!\[)")
# The kernel's own stamp, seconds since boot, which journald takes off and syslog leaves
_SINCE_BOOT: Final = re.compile(r"\[ *\d+\.\d{6}\] ")

# -- prefixes of what collects the output of containers --------------------------------------------------------------

# docker compose logs, docker service logs; the service's name is padded
_SERVICE: Final = re.compile(rf"(?!{_LEVELS} )(?P<service>\w[\w.@-]*) *\|(?: |$)")
# kubectl logs --prefix
_POD: Final = re.compile(r"\[pod/(?P<pod>[\w.-]+)/(?P<box>[\w.-]+)\] ?")
# stern: the pod's and the container's name; hence only where nearly all of a file's lines begin with such a pair
_STERN: Final = re.compile(r"(?P<pod>[a-z0-9][a-z0-9.-]*-[a-z0-9]+) (?P<box>[a-z0-9][a-z0-9-]*)(?: |$)")
# kubectl logs --timestamps, docker logs -t; the kubelet's files go on with the stream, and F (full) or P (part)
_RUNTIME: Final = re.compile(rf"{ISO_DATE}T{CLOCK_TIME}{OFFSET}(?: (?:stdout|stderr) [FP])?(?: |$)")
# Web consoles, ts(1) of moreutils: any line may begin so, hence only where all of a file's do
_COLLECTOR: Final = re.compile(rf"{ISO_DATE} {CLOCK_TIME}(?: ?{OFFSET})?(?: |$)")
_BEHIND_COLLECTOR: Final = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|Traceback \(most recent|  File \"")

# -- a program's own stamp, at the head of its message ---------------------------------------------------------------

_OWN_HEAD: Final = rf"[\[(<]?(?:{_LEVELS}\b[\]):|\s/-]{{1,8}}(?:[\w./-]{{1,60}}[\]\s:|]{{1,4}})?[\[(<]?)?"
_OWN: Final = (
    re.compile(rf"{_OWN_HEAD}{ISO_DATE}[ T]{CLOCK_TIME}(?: ?{OFFSET}(?!\d))?"),
    re.compile(rf"{_OWN_HEAD}(?P<day>\d{{1,2}})/{_MONTH}/(?P<year>\d{{4}})[ :]{CLOCK_TIME}(?: ?{OFFSET}(?!\d))?"),
    re.compile(rf"\[?{_WEEKDAY} {_MONTH}{_DAY} {CLOCK_TIME} (?P<year>\d{{4}})"),
    # logfmt
    re.compile(rf"(?:[\w.]+=[^\s\"]* )*(?:time|ts|timestamp|asctime|t)=\"?{ISO_DATE}[ T]{CLOCK_TIME}(?:{OFFSET})?"),
)
_ISO: Final = re.compile(rf"{ISO_DATE}[ T]{CLOCK_TIME}(?: ?{OFFSET})?")

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_TIME_KEYS: Final = ("time", "@timestamp", "timestamp", "asctime", "ts", "date")
_TEXT_KEYS: Final = ("log", "message", "msg", "MESSAGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A log line taken apart. `outer`: the stamp of who collected it; `inner`: its program's own."""

    message: str
    outer: Stamp | None = None
    inner: Stamp | None = None
    host: str = ""
    identifier: str | None = None
    pid: int = 0
    unit: str | None = None
    container: str | None = None

    def roughly(self) -> Micros | None:
        """Give its time to a day, if a stamp of it names the year."""
        for stamp in (self.inner, self.outer):
            if stamp is not None and stamp.year is not None:
                return stamp.wall(stamp.year)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What all lines of a file begin with: the name of a service, of a pod and its container, a collector's stamp."""

    services: bool = False
    pods: bool = False
    collector: bool = False

    @classmethod
    def of(cls, head: Sequence[str]) -> "Layout":
        """Tell by a file's first lines; single lines may differ, as compose's own do."""
        lines = [line for text in head if (line := _COLOUR.sub("", text)).strip()]
        services = sum(_SERVICE.match(line) is not None for line in lines) * 3 > len(lines) * 2
        if services:
            lines = [_SERVICE.sub("", line, count=1) for line in lines]
        pods = sum(_STERN.match(line) is not None for line in lines) * 10 > len(lines) * 9
        if pods:
            lines = [_STERN.sub("", line, count=1) for line in lines]
        rest = [line[match.end() :] for line in lines if (match := _COLLECTOR.match(line)) is not None]
        collector = len(rest) * 10 > len(lines) * 9 and any(_BEHIND_COLLECTOR.match(text) for text in rest)
        return cls(services=services, pods=pods, collector=collector)


def take_apart(text: str, layout: Layout) -> Line:
    """Take the prefixes off a line."""
    text = _COLOUR.sub("", text) if "\x1b" in text else text
    unit = None
    if layout.services and (match := _SERVICE.match(text)) is not None:
        unit, text = match["service"], text[match.end() :]
    elif (match := _POD.match(text) or (_STERN.match(text) if layout.pods else None)) is not None:
        unit, text = f"{match['pod']}/{match['box']}", text[match.end() :]
    if (tagged := _tagged(text, unit)) is not None:
        return tagged
    match = _RUNTIME.match(text) or (_COLLECTOR.match(text) if layout.collector else None)
    outer = None if match is None else stamp_of(match)
    message = text if match is None else text[match.end() :]
    if message.startswith("{") and (inside := _object(message, outer, unit)) is not None:
        return inside
    return Line(message=message, outer=outer, inner=_own_stamp(message), unit=unit, container=unit)


def _tagged(text: str, unit: str | None) -> Line | None:
    """Read a line of syslog, journalctl or dmesg."""
    if text.startswith("["):
        match = _DMESG.match(text)
        return match and Line(message=text[match.end() :], outer=stamp_of(match), identifier="kernel", unit=unit)
    match = next((found for pattern in _TAGGED if (found := pattern.match(text)) is not None), None)
    if match is None:
        return None
    message, identifier, pid = text[match.end() :], match["identifier"], int(match["pid"] or 0)
    if identifier == "kernel":
        message = _SINCE_BOOT.sub("", message, count=1)
    if identifier is not None and identifier.endswith((".service", ".scope")):  # journalctl -o with-unit
        unit, identifier = identifier, "systemd" if pid == 1 else None
    return Line(
        message=message,
        outer=stamp_of(match),
        inner=_own_stamp(message),
        host=match["host"],
        identifier=identifier,
        pid=pid,
        unit=unit,
    )


def _own_stamp(message: str) -> Stamp | None:
    """Read the stamp that the message itself begins with, which stays in it, as it does in a journal."""
    match = next((found for pattern in _OWN if (found := pattern.match(message)) is not None), None)
    return None if match is None else stamp_of(match)


def _object(text: str, outer: Stamp | None, unit: str | None) -> Line | None:
    """Read a line that is a JSON object: a container's line with its text inside, or a program's own record.

    `outer`, `unit`: what stood in front of it.
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    inner = found.get("record")  # loguru's serialize=True: {"text": …, "record": {"time": {"repr": …}, …}}
    told = inner if isinstance(inner, dict) else found
    stamp = next((stamp for key in _TIME_KEYS if (stamp := _stamp_in(told.get(key))) is not None), None)
    named, container = _container(found)
    inside = next((found[key] for key in _TEXT_KEYS if isinstance(found.get(key), str)), None)
    if inside is None or (named is None and not ("log" in found and "stream" in found)):
        return Line(message=text, outer=outer, inner=stamp, unit=unit, container=unit)
    host = found.get("host") or found.get("hostname")
    message = inside.rstrip("\r\n")
    return Line(
        message=message,
        outer=outer or stamp,
        inner=_own_stamp(message),
        host=host if isinstance(host, str) else "",
        unit=named or unit,
        container=container or unit,
    )


def _container(found: dict[str, Any]) -> tuple[str | None, str | None]:
    """Give the unit and the container that a collector names beside a line.

    Fluent Bit and Fluentd: a block `kubernetes` (filter_kubernetes), or Docker's `container_name` and `container_id`
    (its fluentd log driver); Docker's json-file driver: `attrs.tag`; Filebeat: `kubernetes.pod.name`.
    """
    block = found.get("kubernetes")
    if isinstance(block, dict):
        pod, box = _named(block, "pod"), _named(block, "container")
        long_id = block.get("docker_id") or block.get("container_id")
        unit = "/".join(name for name in (pod, box) if name) or None
        return unit, long_id if isinstance(long_id, str) else unit
    name, long_id, attrs = found.get("container_name"), found.get("container_id"), found.get("attrs")
    if not isinstance(name, str):
        name = attrs.get("tag") if isinstance(attrs, dict) else None
    unit = name.removeprefix("/") if isinstance(name, str) else None
    return unit, long_id if isinstance(long_id, str) else unit


def _named(block: dict[str, Any], what: str) -> str | None:
    name = block.get(f"{what}_name")
    inner = block.get(what)
    if name is None and isinstance(inner, dict):
        name = inner.get("name")
    return name if isinstance(name, str) else None


def _stamp_in(value: Any) -> Stamp | None:
    if isinstance(value, dict):
        value = value.get("repr")
    match = _ISO.match(value) if isinstance(value, str) else None
    return None if match is None else stamp_of(match)
