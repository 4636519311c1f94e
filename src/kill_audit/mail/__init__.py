"""The summary by mail: composed from a document, and delivered once.

`compose` is pure; `deliver` is not. In this room, lowest first: `content` (what is said), `text`, `chart` and the
template (how), `parties` and `compose` (the message), `when_due`, then `route`, `transport`, `outbox` and `delivery`.
Rules of this room: nothing is found out here, and what is said comes from the document and the ledger's weeks alone.
"""

from kill_audit.mail.compose import compose, compose_failure, failure_key, key_of
from kill_audit.mail.content import Summary
from kill_audit.mail.delivery import Delivered, deliver
from kill_audit.mail.failures import MailError
from kill_audit.mail.outbox import Letter, Outbox, Sent
from kill_audit.mail.parties import Parties, parties
from kill_audit.mail.route import Route, SendmailRoute, SmtpRoute, find_route
from kill_audit.mail.transport import transport
from kill_audit.mail.when_due import Due, fingerprint, withheld

__all__ = [
    "Delivered",
    "Due",
    "Letter",
    "MailError",
    "Outbox",
    "Parties",
    "Route",
    "SendmailRoute",
    "Sent",
    "SmtpRoute",
    "Summary",
    "compose",
    "compose_failure",
    "deliver",
    "failure_key",
    "find_route",
    "fingerprint",
    "key_of",
    "parties",
    "transport",
    "withheld",
]
