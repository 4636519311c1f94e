"""Whether a mail is due: always, if there is something to say, or if it is something else than the last time.

Rules of this file: evidence with holes is something to say, because "no mail" would be taken for "nothing was killed".
"""

from enum import StrEnum
from hashlib import sha256

from kill_audit.document import Document
from kill_audit.mail.content import nothing_to_act_on


class Due(StrEnum):
    """The values of `--when`."""

    ALWAYS = "always"
    FINDINGS = "findings"
    CHANGE = "change"


def withheld(document: Document, due: Due, *, last: str | None) -> str | None:
    """Say why no mail is due; None if one is. `last`: the fingerprint of what was mailed before, if it is known."""
    if due is Due.FINDINGS and nothing_to_act_on(document):
        return "nothing was found in whole evidence (--when findings)"
    if due is Due.CHANGE and last == fingerprint(document):
        return "nothing is other than in the last mail (--when change)"
    return None


def fingerprint(document: Document) -> str:
    """What of a report is compared with the next one: its numbers and how whole the evidence is, no times and ids."""
    totals = document.totals
    numbers = (
        totals.kills,
        totals.accepted,
        totals.ghosts,
        totals.blind_deaths,
        sorted(totals.by_cause.items()),
        sorted(totals.by_verdict.items()),
        sorted(totals.by_unit.items()),
        sorted(totals.by_task.items()),
        len(document.duplicates),
        document.coverage.verdict,
    )
    return sha256(repr(numbers).encode("utf-8", "backslashreplace")).hexdigest()[:16]
