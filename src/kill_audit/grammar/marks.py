"""Marks of deploys: entries that the user's configuration names, whoever wrote them.

Rules of this file: a mark is believed as far as its fields are; `_SYSTEMD_UNIT`, `_UID` and the like are the journal's
own word, `SYSLOG_IDENTIFIER` is anybody's. A mark labels a deploy window and never makes one (see `deploys`).
"""

from collections.abc import Iterable, Iterator

from kill_audit import events
from kill_audit.entry import DETAIL_FIELDS, Batch, MarkRule, Origin, Question
from kill_audit.events import DeployMark
from kill_audit.grammar.voice import Voice, voice_of

ORIGIN_FIELDS = {
    "SYSLOG_IDENTIFIER": "identifier",
    "_SYSTEMD_UNIT": "unit",
    "_HOSTNAME": "host",
    "_MACHINE_ID": "machine_id",
    "_BOOT_ID": "boot_id",
    "_TRANSPORT": "transport",
    "_EXE": "exe",
    "_COMM": "comm",
    "_UID": "uid",
    "CONTAINER_NAME": "unit",
}
"""The fields that an entry's origin holds, and their names there."""

MATCHABLE = frozenset({*ORIGIN_FIELDS, *DETAIL_FIELDS, "MESSAGE"})
"""The fields that a mark may ask for: readers leave out all others."""

_ABOUT = ("UNIT", "USER_UNIT")
_RUN = ("INVOCATION_ID", "USER_INVOCATION_ID")


def marks_in(batch: Batch, question: Question) -> Iterator[tuple[int, DeployMark]]:
    """Find the entries of a batch that mark a deploy, with their rows, in order."""
    if not question.marks:
        return
    hopeful = [[rule for rule in question.marks if _may_hold(rule, origin)] for origin in batch.origins]
    for row, message in enumerate(batch.message):
        if message is None:
            continue
        origin, fields = batch.origins[batch.origin[row]], batch.fields[row]
        for rule in hopeful[batch.origin[row]]:
            if rule.unit is None:
                held = all(message == value if name == "MESSAGE" else fields.get(name) == value
                           for name, value in _of_entry(rule))  # fmt: skip
                run, label = "", rule.label or message.strip()
            else:
                held = voice_of(origin, batch.pid[row]) is Voice.MANAGER and any(
                    fields.get(name) == rule.unit for name in _ABOUT
                )
                run = rule.unit + next((":" + fields[name] for name in _RUN if name in fields), "")
                label = rule.label or rule.unit
            if held:
                seen = events.Seen(
                    at=batch.realtime[row],
                    monotonic=batch.monotonic[row],
                    cursor=batch.cursor[row],
                    text=message[: events.MAX_TEXT],
                    pid=batch.pid[row],
                    origin=origin,
                )
                yield row, DeployMark(seen=seen, label=label[: events.MAX_TEXT], run=run)


def _of_entry(rule: MarkRule) -> Iterable[tuple[str, str]]:
    return (pair for pair in rule.fields if pair[0] not in ORIGIN_FIELDS)


def _may_hold(rule: MarkRule, origin: Origin) -> bool:
    values = ((getattr(origin, ORIGIN_FIELDS[name]), value) for name, value in rule.fields if name in ORIGIN_FIELDS)
    return all(known is not None and str(known) == value for known, value in values)
