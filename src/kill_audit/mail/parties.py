"""Who writes to whom, and under which names a mail is known: its Message-ID, its thread and its list.

Rules of this file: everything is derived from the label, the addresses and the window, never from a clock or from
chance. So the same week composed twice is the same message, and a mail that arrives twice, because a connection broke
after the server had taken it (RFC 5321, section 6.1), can be known as one by whoever reads mail.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.headerregistry import Address
from hashlib import sha256

from kill_audit.mail.failures import MailError

# A dot-atom at a domain name (RFC 5322, section 3.4.1): what is used, of all that is allowed. The standard library's
# parser of headers takes more, and trips over halves of addresses.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = rf"{_ATOM}(?:\.{_ATOM})*@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_WRITTEN = re.compile(rf'(?P<alone>{_ADDRESS})|"?(?P<name>[^"<>@,;:\\]*)"?\s*<(?P<address>{_ADDRESS})>')


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """The sender, the recipients, and the label of the hosts that the mail is about (`web1`)."""

    sender: Address
    recipients: tuple[Address, ...]
    label: str

    @property
    def slug(self) -> str:
        """The label as a part of a domain name: what RFC 5322 calls a dot-atom allows, in small letters."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")[:60] or "hosts"

    def key(self, *parts: str) -> str:
        """A name for a mail of these parties: the same for the same parts, and fit for a file and a Message-ID."""
        addresses = sorted(address.addr_spec for address in (*self.recipients, self.sender))
        text = "\n".join((self.label, *addresses, *parts))
        return f"{self.slug}.{sha256(text.encode()).hexdigest()[:20]}"

    def message_id(self, key: str) -> str:
        """The Message-ID of the mail of that name, on the sender's domain."""
        return f"<{key}@{self.sender.domain}>"

    @property
    def thread(self) -> str:
        """The Message-ID that all mails of the label refer to; no mail has it."""
        return f"<kill-audit.{self.slug}@{self.sender.domain}>"

    @property
    def list_id(self) -> str:
        """The List-Id (RFC 2919): a name for filters that stays while subjects change."""
        return f"kill-audit {self.slug} <{self.slug}.kill-audit.{self.sender.domain}>"


def parties(sender: str, recipients: Sequence[str], label: str) -> Parties:
    """Read addresses as people write them: `ops@example.org`, `Ops <ops@example.org>`, several joined by commas.

    Raises:
        MailError: one is no address, or there is no recipient.
    """
    to = tuple({address.addr_spec: address for address in _addresses(recipients, "--to")}.values())
    if not to:
        raise MailError("nobody to mail to", hint="name somebody: --to ops@example.org, or to = [...] in [mail]")
    [one, *more] = _addresses([sender], "--from")
    if more:
        raise MailError(f"--from {sender!r} is more than one address", hint="write one: kill-audit@example.org")
    return Parties(sender=one, recipients=to, label=label)


def _addresses(texts: Sequence[str], option: str) -> list[Address]:
    found: list[Address] = []
    for text in texts:
        read = [_WRITTEN.fullmatch(one.strip()) for one in text.split(",")]
        for one in read:
            if one is None or not (one["name"] or "").isprintable():
                raise MailError(
                    f"{option} {text!r} is no mail address",
                    hint="write it as ops@example.org or 'Ops <ops@example.org>'; another script's domain as punycode",
                )
            user, _, domain = (one["address"] or one["alone"]).rpartition("@")
            found.append(Address(display_name=(one["name"] or "").strip(), username=user, domain=domain))
    return found
