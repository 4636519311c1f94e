"""A message out of what is to be said: headers, the text, the HTML, the picture. Pure: the date is an argument.

The shape is what mail programs agree on (RFC 2046, section 5.1.4; RFC 2387): alternatives of plain text and of HTML
with its picture, which the HTML names by Content-ID (RFC 2392). Headers say that nobody wrote it (RFC 3834, section
5), to which list it belongs (RFC 2919) and to which thread (RFC 5322, section 3.6.4).
"""

import datetime as dt
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from kill_audit.errors import KillAuditError
from kill_audit.mail.chart import chart, described, legend
from kill_audit.mail.content import Content, Summary, content, lost, spark
from kill_audit.mail.parties import Parties
from kill_audit.mail.text import text
from kill_audit.render.printable import printable

_SUBJECT_LONGEST = 200
# A header that is folded right after its name is read back with a blank in front; up to 998 octets need no folding
# (RFC 5322, section 2.1.1).
_POLICY = policy.SMTP.clone(max_line_length=998)


def compose(
    summary: Summary, parties: Parties, *, date: dt.datetime, thread: bool = True, again: str = ""
) -> EmailMessage:
    """Write the mail of a summary.

    Args:
        summary: what to say.
        parties: who to whom.
        date: with a zone.
        thread: refer to the label's thread, so that mail programs show all weeks together.
        again: makes another message of the same week, with an id of its own.
    """
    said = content(summary)
    message = _message(said.subject, parties, date=date, key=key_of(summary, parties, again), thread=thread)
    picture = chart(said.bars) if said.bars else None
    cid = f"weeks.{key_of(summary, parties, again)}@{parties.sender.domain}"
    message.set_content(text(said), cte="quoted-printable")
    message.add_alternative(_html(said, cid if picture else None), subtype="html", cte="quoted-printable")
    if picture:
        html = message.get_payload(1)
        assert isinstance(html, EmailMessage)  # noqa: S101 - it was added two lines above
        html.add_related(picture, "image", "png", cid=f"<{cid}>", disposition="inline", filename="weeks.png")
    return message


def compose_failure(
    error: KillAuditError, parties: Parties, *, period: str, date: dt.datetime, thread: bool = True
) -> EmailMessage:
    """Write the mail that says why there is no summary; one a day for the same reason."""
    reason = printable(error.message)
    key = failure_key(error, parties, period=period, date=date)
    message = _message(
        f"kill-audit {printable(parties.label)}: could not audit: {reason}",
        parties,
        date=date,
        key=key,
        thread=thread,
    )
    advice = f"\nWhat may help: {printable(error.hint)}\n" if error.hint else ""
    message.set_content(
        f"kill-audit could not audit {printable(parties.label)}.\n\n{reason}\n{advice}\n"
        f'Nothing is known of {period}: this is not "nothing was killed".\n',
        cte="quoted-printable",
    )
    return message


def key_of(summary: Summary, parties: Parties, again: str = "") -> str:
    """Name the mail of a summary: the same for the same window, label and addresses."""
    window = summary.document.window
    return parties.key("summary", window.since, window.until, again)


def failure_key(error: KillAuditError, parties: Parties, *, period: str, date: dt.datetime) -> str:
    """Name the mail of a failure."""
    return parties.key("failure", period, error.message, f"{date:%Y-%m-%d}")


def _message(subject: str, parties: Parties, *, date: dt.datetime, key: str, thread: bool) -> EmailMessage:
    message = EmailMessage(policy=_POLICY)
    message["From"] = parties.sender
    message["To"] = parties.recipients
    message["Subject"] = subject if len(subject) <= _SUBJECT_LONGEST else f"{subject[: _SUBJECT_LONGEST - 1]}…"
    message["Date"] = format_datetime(date)
    message["Message-ID"] = parties.message_id(key)
    if thread:
        message["In-Reply-To"] = parties.thread
        message["References"] = parties.thread
    message["List-Id"] = parties.list_id
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"  # Exchange looks at this one ([MS-OXCMAIL])
    return message


def _html(said: Content, cid: str | None) -> str:
    return _template().get_template("summary.html").render(
        content=said,
        picture=cid,
        described=described(said.bars),
        spark=spark([bar.kills for bar in said.bars]),
        legend=legend(said.bars) if cid else "",
        lost=lost,
    )  # fmt: skip


@cache
def _template() -> Environment:
    return Environment(
        loader=PackageLoader("kill_audit.mail"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
