"""`kill-audit mail`: the weekly summary."""

import datetime as dt
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from kill_audit import when
from kill_audit.cli.acceptances import acceptances_of, accepted_option, with_accepted
from kill_audit.cli.completion import files
from kill_audit.cli.keeping import completed, keep_option, ledger_of, ledger_options
from kill_audit.cli.options import Reading, reading, run_log_options, window_options
from kill_audit.cli.output import put
from kill_audit.cli.reading import document_of
from kill_audit.errors import KillAuditError, UsageError

if TYPE_CHECKING:
    from email.message import EmailMessage

    from kill_audit.document import Document
    from kill_audit.ledger import Ledger
    from kill_audit.mail import Outbox, Parties, Summary

_WEEKS_BEFORE = 7
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _mail_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--to", multiple=True, metavar="ADDRESS", help="Who gets it. Repeatable."),
            click.option(
                "--from", "sender", metavar="ADDRESS", help="Who writes it.  [default: kill-audit@ this host]"
            ),
            click.option(
                "--when",
                "due",
                type=click.Choice(["always", "findings", "change"]),
                default="always",
                show_default=True,
                help="Always; if there are findings or holes in the evidence; or if it says other than the last.",
            ),
            click.option("--label", metavar="NAME", help="What to call the hosts.  [default: this host's name]"),
            click.option(
                "--smtp",
                metavar="URL",
                help="The server: smtp://[USER@]HOST with STARTTLS, smtps:// with TLS, smtp+insecure:// without.  "
                "[default: sendmail]",
            ),
            click.option(
                "--smtp-ca",
                metavar="FILE",
                help="Trust these certificates instead of the system's.",
                shell_complete=files,
            ),
            click.option(
                "--sendmail",
                metavar="PROGRAM",
                help="The program that takes mail, if not sendmail.",
                shell_complete=files,
            ),
            click.option("--no-thread", is_flag=True, help="Do not let mail programs show all weeks as one thread."),
            click.option("--again", is_flag=True, help="Send it also if the mail of that week was sent already."),
            click.option("--flush", is_flag=True, help="Only send what waits in the outbox."),
            click.option("--dry-run", is_flag=True, help="Send and keep nothing: write the mail to FILE or stdout."),
            click.option(
                "-w", "--write", "target", type=click.Path(dir_okay=False), metavar="FILE", help="With --dry-run."
            ),
        )
    ):
        function = option(function)
    return function


@click.command(name="mail", short_help="Mail the summary of the last week.")
@window_options(since="Monday of the last whole week", until="the Monday after it; now with --since")
@run_log_options
@ledger_options
@keep_option
@accepted_option
@_mail_options
@click.pass_obj
def command(settings: Any, /, **asked: Any) -> int:
    """Mail what was killed in the last whole week, Monday to Sunday, against the week before.

    --since and --until choose another window. A week without kills is one honest line. When the audit fails, the mail
    says so, and the exit status is 2. A mail that no server takes waits in an outbox and goes first the next time; the
    mail of a week is sent once.
    """
    shared = reading(asked)
    if asked["target"] is not None and not asked["dry_run"]:
        raise UsageError("-w is for --dry-run", hint="kill-audit mail --dry-run -w FILE.eml")
    shared, whole_week = _window(shared)
    if asked["dry_run"]:
        summary = _summary(shared, asked, settings, whole_week=whole_week)
        _write(_composed(summary, _parties(asked, summary.label), asked), asked["target"])
        return 0
    if asked["flush"]:
        return _flush(asked)
    return _send(shared, asked, settings, whole_week=whole_week)


def _window(asked: Reading) -> tuple[Reading, bool]:
    """Choose the last whole week unless another window is named; also whether the window is a week."""
    from kill_audit.ledger import last_week  # SQLAlchemy is heavy

    now = time.time_ns() // 1000
    if asked.since is None and asked.until is None:
        since, until = last_week(now, asked.zone)
        return replace(asked, since=when.exactly(since), until=when.exactly(until)), True
    window = when.window(asked.since, asked.until, now=now, zone=asked.zone)
    whole = last_week(window.until, asked.zone) == (window.since, window.until)
    return replace(asked, since=when.exactly(window.since), until=when.exactly(window.until)), whole


# -- what is said -------------------------------------------------------------


def _summary(shared: Reading, asked: dict[str, Any], settings: Any, *, whole_week: bool) -> "Summary":
    """Audit the window, keep it in the ledger (unless nothing is to be kept), and compare it."""
    from kill_audit.ledger import LedgerError
    from kill_audit.mail import Summary

    known = acceptances_of(asked["accepted_file"], settings, shared.zone)
    document = document_of(shared, settings=settings)
    kept = _Kept(document=document)
    if not asked["no_ledger"]:
        try:
            kept = _kept(document, shared, asked)
        except LedgerError as error:
            kept = _Kept(document=document, note=f"Without the weeks before: {error.message}.")
    return Summary(
        document=with_accepted(kept.document, shared, known),
        label=asked["label"] or _hosts(shared, document),
        zone=shared.zone,
        weeks=kept.weeks,
        whole_week=whole_week,
        notes=(kept.note,) if kept.note else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A document with what the ledger adds to it."""

    document: "Document"
    weeks: tuple[Any, ...] = ()
    note: str = ""


def _kept(document: "Document", shared: Reading, asked: dict[str, Any]) -> _Kept:
    from kill_audit.document import micros

    ledger: Ledger | None = ledger_of(shared, asked["ledger"], writing=not asked["dry_run"])
    if ledger is None:
        return _Kept(document=document)
    if not asked["dry_run"]:
        ledger.record(document, moves=False, keep=asked["keep"])
    return _Kept(
        document=completed(document, ledger, shared.zone),
        weeks=ledger.weeks(_WEEKS_BEFORE, micros(document.window.since), shared.zone),
    )


def _hosts(shared: Reading, document: "Document | None") -> str:
    """Name what the mail is about: this host, or the hosts of the files that were read."""
    if not (shared.files or shared.directories or shared.root or shared.merge):
        return os.uname().nodename
    hosts = sorted({one.host for one in document.coverage.sources if one.host}) if document is not None else []
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "") or "journals"


def _parties(asked: dict[str, Any], label: str) -> "Parties":
    import socket

    from kill_audit.mail import parties

    return parties(asked["sender"] or f"kill-audit@{socket.getfqdn()}", asked["to"], label)


def _composed(summary: "Summary", who: "Parties", asked: dict[str, Any]) -> "EmailMessage":
    from kill_audit.mail import compose  # jinja2 is not needed for --help

    again = str(time.time_ns()) if asked["again"] else ""
    return compose(summary, who, date=_now(summary.zone), thread=not asked["no_thread"], again=again)


def _now(zone: dt.tzinfo) -> dt.datetime:
    return dt.datetime.now(zone).replace(microsecond=0)


def _write(message: "EmailMessage", target: str | None) -> None:
    """Write a mail as a file that mail programs open; to stdout with this system's line ends."""
    if target is None:
        sys.stdout.buffer.write(message.as_bytes(policy=message.policy.clone(linesep=os.linesep)))
        sys.stdout.flush()
        return
    put(message.as_bytes(), target)


# -- sending ------------------------------------------------------------------


def _send(shared: Reading, asked: dict[str, Any], settings: Any, *, whole_week: bool) -> int:
    from kill_audit.mail import Due, fingerprint, withheld

    # What is wrong with the addresses must show before anything else: nobody could be told of it by mail.
    _parties(asked, asked["label"] or _hosts(shared, None))
    _route(asked)
    try:
        summary = _summary(shared, asked, settings, whole_week=whole_week)
    except KillAuditError as error:
        _tell_failure(error, shared, asked)
        raise
    except Exception as error:
        reason = KillAuditError(f"an error of kill-audit itself: {type(error).__name__}: {error}")
        _tell_failure(reason, shared, asked)
        raise
    who = _parties(asked, summary.label)
    outbox = _outbox()
    last = [one.fingerprint for one in outbox.sent() if one.fingerprint and one.key.startswith(f"{who.slug}.")]
    why_not = withheld(summary.document, Due(asked["due"]), last=last[-1] if last else None)
    if why_not is not None:
        _deliver(None, "", asked, outbox)
        _say(shared, f"no mail: {why_not}")
        return 0
    _say(shared, _deliver(_composed(summary, who, asked), fingerprint(summary.document), asked, outbox))
    return 0


def _flush(asked: dict[str, Any]) -> int:
    told = _deliver(None, "", asked, _outbox())
    if not asked.get("quiet"):
        click.echo(told or "nothing waits")
    return 0


def _say(shared: Reading, text: str) -> None:
    if not shared.quiet:
        click.echo(text)


def _tell_failure(error: KillAuditError, shared: Reading, asked: dict[str, Any]) -> None:
    """Mail why there is no summary; if that fails too, say so beside the error itself."""
    from kill_audit.mail import compose_failure

    who = _parties(asked, asked["label"] or _hosts(shared, None))
    zone = shared.zone
    edges = (
        when.moment(edge or "now", now=time.time_ns() // 1000, zone=zone) for edge in (shared.since, shared.until)
    )
    period = " to ".join(when.describe(edge, zone) for edge in edges)
    try:
        message = compose_failure(error, who, period=period, date=_now(zone), thread=not asked["no_thread"])
        _deliver(message, "", asked, _outbox())
    except KillAuditError as second:
        click.echo(f"kill-audit: warning: nobody was told by mail: {second.message}", err=True)


def _outbox() -> "Outbox":
    from kill_audit.ledger import state_directory
    from kill_audit.mail import Outbox

    return Outbox(state_directory(os.environ) / "outbox")


def _route(asked: dict[str, Any]) -> Any:
    from kill_audit.mail import find_route

    return find_route(asked["smtp"], asked["sendmail"], authorities=asked["smtp_ca"], environ=os.environ)


def _deliver(message: "EmailMessage | None", fingerprint: str, asked: dict[str, Any], outbox: "Outbox") -> str:
    """Send what waits and a message; tell what was sent."""
    from kill_audit.mail import deliver, transport

    way = _route(asked)
    now = time.time_ns() // 1000
    letter = None if message is None else _letter(message, fingerprint, now)
    done = deliver(letter, outbox, transport(way), route=str(way), now=now, sleep=time.sleep)
    if done.already is not None:
        sent = dt.datetime.fromtimestamp(done.already.at // 1_000_000, dt.UTC)
        return f"no mail: it was sent already at {sent:%Y-%m-%d %H:%M} UTC (--again sends it once more)"
    return "\n".join(f"sent to {', '.join(one.recipients)}: {one.subject}" for one in done.sent)


def _letter(message: "EmailMessage", fingerprint: str, now: int) -> Any:
    from kill_audit.mail import Letter

    name = str(message["Message-ID"])
    return Letter(
        key=name.strip("<>").rpartition("@")[0],
        message_id=name,
        subject=str(message["Subject"]),
        sender=message["From"].addresses[0].addr_spec,
        recipients=tuple(address.addr_spec for address in message["To"].addresses),
        written=now,
        message=message.as_bytes(),
        fingerprint=fingerprint,
    )
