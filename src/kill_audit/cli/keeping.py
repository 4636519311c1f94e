"""The ledger on the command line: which one, what of it, and a report completed by it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kill_audit import when
from kill_audit.cli.completion import files
from kill_audit.cli.options import Reading
from kill_audit.errors import UsageError
from kill_audit.places import LEDGER, state_directory

if TYPE_CHECKING:
    import datetime as dt

    from kill_audit.document import Document
    from kill_audit.ledger import Ledger, Scope

_MACHINE_ID = Path("/etc/machine-id")

AGAIN_DAYS = 8
AGAIN = when.span(f"{AGAIN_DAYS}d")
"""Kills younger than that are judged again at each run: by then their tasks have come back, or have not."""

KEEP = "2y"
"""How long the ledger keeps what it has, unless --keep says otherwise."""


def ledger_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the ledger."""
    place = click.option(
        "--ledger",
        metavar="URL|FILE",
        help="Where findings are kept.  [default: $STATE_DIRECTORY/ledger.sqlite3, "
        "/var/lib/kill-audit for root, else ~/.local/state/kill-audit]",
        shell_complete=files,
    )
    without = click.option("--no-ledger", is_flag=True, help="Neither read nor write the ledger.")
    return place(without(function))


def keep_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says how long the ledger keeps findings, for commands that write it."""
    return click.option(
        "--keep",
        default=KEEP,
        show_default=True,
        metavar="SPAN",
        help=f"How long the ledger keeps findings and coverage; at least {AGAIN_DAYS}d.",
        callback=lambda _context, _option, text: span_kept(text),
    )(function)


def span_kept(text: str) -> int:
    """Read the value of `--keep`, in microseconds.

    Raises:
        UsageError: it is no time span, or shorter than the time in which kills are judged again.
    """
    span = when.span(text)
    if span < AGAIN:
        raise UsageError(
            f"--keep {text}: kills are judged again for {AGAIN_DAYS} days, so they are kept that long",
            hint=f"the weekly summary looks back eight weeks; the default is {KEEP}",
        )
    return span


def ledger_of(asked: Reading, place: str | None, *, writing: bool = False) -> "Ledger | None":
    """Open the ledger's book of what the options name; None where there is none and it is not to be made.

    Raises:
        LedgerError: it cannot be opened.
    """
    from kill_audit.ledger import open_ledger  # SQLAlchemy is heavy

    return open_ledger(place, scope=scope_of(asked), environ=os.environ, writing=writing)


def from_ledger(document: "Document", asked: Reading, place: str | None) -> "Document":
    """Complete a report by the ledger, where there is one that is about the same.

    What is about one boot alone is left as it is. A ledger that was not named and cannot be read is a note on stderr:
    the report stands without it.

    Raises:
        LedgerError: the ledger that was named cannot be read.
    """
    if asked.boot is not None or (place is None and not _is_kept()):
        return document
    from kill_audit.ledger import LedgerError

    try:
        ledger = ledger_of(asked, place)
        return document if ledger is None else completed(document, ledger, asked.zone)
    except LedgerError as error:
        if place is not None:
            raise
        if not asked.quiet:
            click.echo(f"kill-audit: warning: without the ledger: {error.message}", err=True)
        return document


def _is_kept() -> bool:
    """Whether there may be a ledger at the usual place: to look there loads SQLAlchemy."""
    folder = state_directory(os.environ)
    try:
        return folder is None or bool((folder / LEDGER).stat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # the folder is closed to this user: whoever opens the ledger says so
        return True


def completed(document: "Document", ledger: "Ledger", zone: "dt.tzinfo") -> "Document":
    """Add to a report what the journal has lost, and the period before."""
    import msgspec

    whole = ledger.supplement(document)
    return msgspec.structs.replace(whole, previous=ledger.previous(document.window, zone))


def scope_of(asked: Reading) -> "Scope":
    """Say what is watched, in words that are the same at each run and tell the hosts of one ledger apart."""
    from kill_audit.cli.reading import unit_name
    from kill_audit.ledger import Scope

    if asked.files or asked.directories:
        paths = [f"file {os.path.abspath(path)}" for path in asked.files]  # noqa: PTH100 - a glob is no path yet
        paths += [f"directory {Path(path).absolute()}" for path in asked.directories]
        sources = "\n".join(sorted(paths))
    elif asked.root is not None:
        sources = f"root {Path(asked.root).absolute()}"
    else:
        sources = f"journal of {_machine()}"
    sources += f"\nnamespace {asked.namespace}" if asked.namespace else ""
    sources += f"\nuser {os.getuid()}" if asked.user else ""
    sources += "\nmerged" if asked.merge else ""
    return Scope(sources=sources, units=tuple(unit_name(unit) for unit in asked.units))


def _machine() -> str:
    """The host by its machine-id(5), which a change of name does not change; by its name where it has none."""
    try:
        return _MACHINE_ID.read_text("ascii").strip() or os.uname().nodename
    except (OSError, UnicodeDecodeError):
        return os.uname().nodename
