"""Deliver: what waits goes first, each mail once, and what is not taken waits.

Rules of this file: everything happens under the outbox's lock, so that two runs never send the same mail. A mail of a
name that was sent already is not sent again. What a server takes and then fails to say so is sent again, with the same
Message-ID: nobody can tell these cases apart (RFC 1047), and a mail twice is better than none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kill_audit.entry import Micros
from kill_audit.mail.failures import MailError
from kill_audit.mail.outbox import Letter, Outbox, Sent
from kill_audit.mail.transport import OutOfReachError, Receipt, Transport

PAUSES_S: Final = (5.0, 30.0)
"""Seconds before the second and the third try."""

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What was sent, and (if that is why nothing was) the record of the same mail having been sent before."""

    sent: tuple[Letter, ...]
    already: Sent | None


def deliver(
    letter: Letter | None,
    outbox: Outbox,
    hand_over: Transport,
    *,
    route: str,
    now: Micros,
    sleep: Sleep,
    pauses: Sequence[float] = PAUSES_S,
) -> Delivered:
    """Send what waits, oldest first, and then a mail.

    Args:
        letter: the mail; None only sends what waits.
        outbox: where mails wait.
        hand_over: makes one attempt.
        route: what the way is called, for messages.
        now: the moment that is noted for what was sent.
        sleep: waits between attempts.
        pauses: how long; there is one attempt more than pauses.

    Raises:
        MailError: a mail was not taken. It waits in the outbox, or was set aside if it was refused for good.
    """
    with outbox.locked():
        already = None
        if letter is not None:
            already = next((one for one in outbox.sent() if one.key == letter.key), None)
            if already is None:
                outbox.put(letter)
        sent, aside = [], []
        for waiting in outbox.waiting():
            if any(one.message_id == waiting.message_id for one in outbox.sent()):
                outbox.drop(waiting)  # whoever sent it was killed before it could take it out
                continue
            refused = _send(waiting, outbox, hand_over, route=route, now=now, sleep=sleep, pauses=pauses)
            sent += [] if refused else [waiting]
            aside += refused
        if aside:
            raise MailError(
                f"{route} refused a mail for good: {'; '.join(aside)}",
                hint=f"correct the address or the server; the mail is kept in {outbox.folder / 'refused'}",
            )
        return Delivered(sent=tuple(sent), already=already)


def _send(
    letter: Letter,
    outbox: Outbox,
    hand_over: Transport,
    *,
    route: str,
    now: Micros,
    sleep: Sleep,
    pauses: Sequence[float],
) -> list[str]:
    """Send one mail to all who are still to have it; gives the refusals."""
    refusals: dict[str, str] = {}
    served = False
    for pause in (*pauses, None):
        try:
            receipt = hand_over(letter)
        except OutOfReachError as error:
            if pause is None or not error.at_once:
                raise _waits(error.reason, outbox, route) from None
        else:
            refusals |= receipt.refused
            served = served or len(receipt.refused) + len(receipt.put_off) < len(letter.recipients)
            if not receipt.put_off:
                break
            letter = _still_to_serve(letter, receipt, outbox)
            if pause is None:
                raise _waits("; ".join(sorted(set(receipt.put_off.values()))), outbox, route)
        sleep(pause or 0.0)
    if served:
        outbox.note(Sent(key=letter.key, message_id=letter.message_id, at=now, fingerprint=letter.fingerprint))
    if refusals:
        outbox.refuse(letter)
    else:
        outbox.drop(letter)
    return [f"{address}: {reason}" for address, reason in refusals.items()]


def _still_to_serve(letter: Letter, receipt: Receipt, outbox: Outbox) -> Letter:
    """Note on the disk who is still to have the mail, before the next attempt."""
    left = msgspec.structs.replace(letter, recipients=tuple(receipt.put_off))
    outbox.put(left)
    return left


def _waits(reason: str, outbox: Outbox, route: str) -> MailError:
    return MailError(
        f"{route} did not take the mail: {reason}",
        hint=f"it waits in {outbox.folder} and goes first the next time; `kill-audit mail --flush` sends it now",
    )
