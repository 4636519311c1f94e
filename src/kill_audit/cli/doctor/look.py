"""What the doctor reads of a source: what an audit reads, and besides how much of each unit's lines is understood."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kill_audit import grammar
from kill_audit.entry import Batch, Micros, Origin, Problem, Question, Source
from kill_audit.events import Seen
from kill_audit.grammar import celery
from kill_audit.grammar.voice import Voice, voice_of
from kill_audit.timeline import Follower, Partial

LINES_LOOKED_AT = 20_000  # of each unit in a source: enough for a share, and no second reading of a big journal
_USAGE_ID = "ec387f577b844b8fa948f33cad9a75e6"  # sd-messages.h, SD_MESSAGE_JOURNAL_USAGE
_USAGE = re.compile(r"\S+ Journal \((?P<path>[^)]*)\) is (?P<use>\S+), max (?P<most>\S+), (?P<free>\S+) free\.")

# What stands below a record or before the first: a banner, a traceback (billiard's in quotes), the text of a warning.
_BELOW = re.compile(
    r"\s|\Z|-{2}|- \*|\"{3}|\[tasks\]|Traceback \(most recent|The above exception was|During handling of"
    r"|[\w.]+(?:Error|Exception|Lost|Shutdown|Terminate|Exceeded|WithTraceback)\b"
)

UnitKey = tuple[str, str]
"""A machine (else its host's name) and a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What journald said of the space that it takes: sizes as it writes them (`3.2G`)."""

    at: Micros
    machine: str
    path: str
    use: str
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen in one source.

    `lines`, `known`: by unit the lines that stand for themselves, banners and tracebacks aside, and those of them that
    are Celery's log records.
    """

    partial: Partial
    lines: Mapping[UnitKey, int] = field(default_factory=dict)
    known: Mapping[UnitKey, int] = field(default_factory=dict)
    usages: tuple[Usage, ...] = ()
    newest: Micros = 0


def look(item: tuple[Source, Question]) -> Look:
    """Read one source. Picklable, and pure after the read."""
    source, question = item
    follower = Follower(question)
    lines: Counter[UnitKey] = Counter()
    known: Counter[UnitKey] = Counter()
    usages: list[Usage] = []
    newest = 0
    for batch in source.batches(question):
        if isinstance(batch, Problem):
            follower.problem(batch)
            continue
        follower.feed(batch, *grammar.recognise(batch, question))
        newest = max(newest, *batch.realtime) if len(batch) else newest
        usages += _usages(batch)
        _count(batch, lines, known)
    return Look(
        partial=follower.partial(source.name),
        lines=dict(lines),
        known=dict(known),
        usages=tuple(usages),
        newest=newest,
    )


def lost(name: str, reason: str) -> Look:
    """Give what was seen of a source whose process ended."""
    detail = f"the process that read it ended ({reason}): nothing of it counts"
    return Look(partial=Partial(source=name, problems=(Problem(code="reader-failed", detail=detail),)))


def _usages(batch: Batch) -> Sequence[Usage]:
    found = []
    for row, fields in enumerate(batch.fields):
        if fields.get("MESSAGE_ID") != _USAGE_ID:
            continue
        origin = batch.origins[batch.origin[row]]
        said = _USAGE.match(batch.message[row] or "")
        if said is not None and voice_of(origin, batch.pid[row]) is Voice.JOURNALD:
            machine = origin.machine_id or origin.host
            usage = Usage(
                at=batch.realtime[row], machine=machine, path=said["path"], use=said["use"], most=said["most"]
            )
            found.append(usage)
    return found


def _count(batch: Batch, lines: Counter[UnitKey], known: Counter[UnitKey]) -> None:
    """Count the lines of services, and those that Celery's grammar knows, up to `LINES_LOOKED_AT` of each unit."""
    keys: dict[int, UnitKey | None] = {}
    for row, message in enumerate(batch.message):
        code = batch.origin[row]
        if code not in keys:
            origin = batch.origins[code]
            is_service = origin.unit is not None and voice_of(origin, batch.pid[row]) is Voice.SERVICE
            keys[code] = (origin.machine_id or origin.host, origin.unit or "") if is_service else None
        key = keys[code]
        if key is None or message is None or lines[key] >= LINES_LOOKED_AT:
            continue
        is_known = _is_celery(message, batch.pid[row], batch.origins[code])
        if is_known or _BELOW.match(message) is None:
            lines[key] += 1
            known[key] += is_known


def _is_celery(message: str, pid: int, origin: Origin) -> bool:
    def seen() -> Seen:
        return Seen(at=0, monotonic=0, cursor="", text="", pid=pid, origin=origin)

    return celery.recognise(message, seen) is not None
