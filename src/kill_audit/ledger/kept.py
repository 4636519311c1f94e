"""A finding as the ledger keeps it: the part of the document as it is, and what the ledger must know to keep it.

Rules of this file: a finding's id is the document's own where it has one, else a hash of what tells it apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from types import NoneType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from kill_audit.document import BlindDeath, Deploy, Document, Ghost, IdleDeath, Incident, Kill, NotLoss, micros
from kill_audit.entry import Micros
from kill_audit.ledger.evidence import Evidence

Body: TypeAlias = Kill | Deploy | Incident | BlindDeath | IdleDeath | NotLoss | Ghost


class Kind(StrEnum):
    """What a finding is."""

    KILL = "kill"
    DEPLOY = "deploy"
    INCIDENT = "incident"
    BLIND_DEATH = "blind-death"
    IDLE_DEATH = "idle-death"
    NOT_LOSS = "not-loss"
    GHOST = "ghost"


TYPES: dict[Kind, type[Body]] = {
    Kind.KILL: Kill,
    Kind.DEPLOY: Deploy,
    Kind.INCIDENT: Incident,
    Kind.BLIND_DEATH: BlindDeath,
    Kind.IDLE_DEATH: IdleDeath,
    Kind.NOT_LOSS: NotLoss,
    Kind.GHOST: Ghost,
}

Key: TypeAlias = tuple[Kind, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A finding, when it happened, when it was judged, and how far back (`reach`) that judgement could look.

    `at` of a deploy or an incident is its beginning, of a ghost the moment at which it was first seen.
    """

    kind: Kind
    id: str
    at: Micros
    judged_at: Micros
    reach: Micros | None
    body: Body

    @property
    def key(self) -> Key:
        """What tells it apart from all others of its book."""
        return self.kind, self.id

    @property
    def host(self) -> str | None:
        """The host it happened on; None where the document does not say."""
        return getattr(self.body, "host", None)

    @property
    def units(self) -> tuple[str, ...]:
        """The units it is about; none for a ghost."""
        if isinstance(self.body, Deploy | Incident):
            return self.body.units
        unit = getattr(self.body, "unit", None)
        return () if unit is None else (unit,)


def decoded(kind: Kind, text: str) -> Body:
    """Read a body, also of an earlier version, whose document had fewer keys: what it could not say is not known.

    Raises:
        msgspec.MsgspecError: it is no such body.
    """
    return msgspec.convert(_completed(msgspec.json.decode(text), TYPES[kind]), TYPES[kind])


def _completed(raw: Any, kind: Any) -> Any:
    """Add the keys that a struct has and the value lacks, as null, or as an empty list where it must be one."""
    if get_origin(kind) is tuple and isinstance(raw, list):
        return [_completed(item, get_args(kind)[0]) for item in raw]
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(raw, dict)):
        return raw
    hints = get_type_hints(kind)
    return raw | {
        name: _completed(raw[name], hint) if name in raw else (None if NoneType in get_args(hint) else [])
        for name, hint in hints.items()
    }


def found_in(document: Document, evidence: Evidence) -> Iterator[Kept]:
    """Give every finding of a document that the ledger keeps."""
    judged_at = evidence.judged_at

    def kept(kind: Kind, key: str, at: Micros, body: Body) -> Kept:
        reach = evidence.first(body) if isinstance(body, Kill) else None
        return Kept(kind=kind, id=key, at=at, judged_at=judged_at, reach=reach, body=body)

    for kill in document.kills:
        yield kept(Kind.KILL, kill.id, micros(kill.at), kill)
    for deploy in document.deploys:
        yield kept(Kind.DEPLOY, deploy.id, micros(deploy.since), deploy)
    for incident in document.incidents:
        yield kept(Kind.INCIDENT, incident.id, micros(incident.since), incident)
    for blind in document.blind_deaths:
        yield kept(Kind.BLIND_DEATH, _hash(blind.at, blind.host, blind.unit, blind.main_pid), micros(blind.at), blind)
    for idle in document.idle_deaths:
        yield kept(Kind.IDLE_DEATH, _hash(idle.at, idle.host, idle.unit, idle.child_pid), micros(idle.at), idle)
    for line in document.not_losses:
        yield kept(Kind.NOT_LOSS, _hash(line.at, line.host, line.unit, line.text), micros(line.at), line)
    for ghost in document.ghosts:
        yield kept(Kind.GHOST, _hash(ghost.key, ghost.task.id), judged_at, ghost)


def _hash(*parts: object) -> str:
    return sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]
