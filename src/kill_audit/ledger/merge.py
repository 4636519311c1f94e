"""What a new document changes in what is kept.

Rules of this file, in their order:
- A judgement never replaces a later one.
- What the new document has is kept as it says, unless it could look back less far than the judgement before it and
  therefore knows less: then what is known of the kill stays, and what became of it since is taken over if it speaks of
  the same task.
- What the new document does not have any more is withdrawn only if its evidence still holds the records: then it was
  looked at again and found to be none. Whatever the journal has lost stays.
- A ghost stays in the period in which it was first seen, also after somebody closed its row.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from kill_audit.document import Document, Kill
from kill_audit.ledger.evidence import Evidence, evidence_of
from kill_audit.ledger.kept import Kept, Key, Kind, found_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be written: `new` and `again` (judged again) in full, `withdrawn` by their keys."""

    new: tuple[Kept, ...]
    again: tuple[Kept, ...]
    withdrawn: tuple[Key, ...]


def changes(known: Mapping[Key, Kept], document: Document) -> Changes:
    """Tell what a document changes.

    Args:
        known: what is kept of the document's window, and of the ids that the document names.
        document: the document.
    """
    evidence = evidence_of(document)
    found = {one.key: one for one in found_in(document, evidence)}
    again = (judged_again(known[key], one) for key, one in found.items() if key in known)
    return Changes(
        new=tuple(one for key, one in found.items() if key not in known),
        again=tuple(one for one in again if one != known[one.key]),
        withdrawn=tuple(key for key, one in known.items() if _is_withdrawn(one, found, evidence)),
    )


def _is_withdrawn(old: Kept, found: Collection[Key], evidence: Evidence) -> bool:
    if old.key in found or old.kind is Kind.GHOST or old.judged_at > evidence.judged_at:
        return False
    boot, unit = (old.body.boot_id, old.body.unit) if isinstance(old.body, Kill) else (None, None)
    return evidence.still_holds(old.at, old.host, boot, unit)


def judged_again(old: Kept, new: Kept) -> Kept:
    """Tell what is to be kept of a finding that was judged before."""
    if old.judged_at > new.judged_at:
        return old
    if old.kind is Kind.GHOST:
        return replace(new, at=old.at)
    if isinstance(old.body, Kill) and isinstance(new.body, Kill) and _knows_less(old, new):
        return replace(old, judged_at=new.judged_at, body=_later_fate(old.body, new.body))
    return new


def _knows_less(old: Kept, new: Kept) -> bool:
    """Whether the new judgement lost sight of something that the old one had seen."""
    before, after = old.body, new.body
    if not isinstance(before, Kill) or not isinstance(after, Kill):
        return False
    looked_less_far = old.reach is not None and (new.reach is None or new.reach > old.reach)
    lost_task = before.task.id is not None and after.task.id != before.task.id
    lost_cause = before.cause != "unknown" and after.cause == "unknown"
    return looked_less_far and (lost_task or lost_cause)


def _later_fate(kept: Kill, later: Kill) -> Kill:
    if kept.task.id != later.task.id:
        return kept
    return msgspec.structs.replace(
        kept,
        fate=later.fate,
        deliveries=later.deliveries,
        killed_times=later.killed_times,
        verdict=later.verdict,
        rows=later.rows,
        accepted=later.accepted,
    )
