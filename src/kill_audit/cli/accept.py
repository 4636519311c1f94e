"""`kill-audit accept`: a finding is known, and need fail no report any more."""

import datetime as dt
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kill_audit import when
from kill_audit.cli.acceptances import acceptances_of, accepted_option, place_of, shown
from kill_audit.cli.completion import causes, kill_ids
from kill_audit.cli.keeping import ledger_of, ledger_options
from kill_audit.cli.options import Reading, color_option, reading, recent_source_options
from kill_audit.cli.output import in_colour, terminal_width, write
from kill_audit.cli.reading import document_of
from kill_audit.errors import KillAuditError, UsageError

if TYPE_CHECKING:
    from kill_audit.acceptance import Acceptance
    from kill_audit.config import Settings
    from kill_audit.document import Kill
    from kill_audit.render.listing import Item

_END = 2**62  # after every moment
_OWN = ("causes", "tasks", "units", "reason", "expires")


@click.command(name="accept", short_help="Accept findings as known, so that they fail no report.")
@click.option(
    "--cause",
    "causes",
    multiple=True,
    metavar="GLOB",
    help="Accept kills of this cause. Repeatable.",
    shell_complete=causes,
)
@click.option("--task", "tasks", multiple=True, metavar="GLOB", help="Accept kills of this task. Repeatable.")
@click.option("--reason", metavar="TEXT", help="Why: it stands with each kill that is accepted. Needed.")
@click.option("--until", "expires", metavar="DATE", help="From that day on they fail again: 2027-01-31, or +30d.")
@click.option("--list", "listed", is_flag=True, help="List what is accepted.")
@click.option("--remove", "removed", is_flag=True, help="Take back what was accepted: by ID, or by the same globs.")
@accepted_option
@recent_source_options
@ledger_options
@color_option
@click.argument("keys", nargs=-1, metavar="[ID]...", shell_complete=kill_ids)
@click.pass_obj
def command(settings: "Settings", /, **asked: Any) -> int:
    """Accept kills by their IDs in `kill-audit report`, or all whose cause, task and unit (-u) fit; say why.

    What is accepted goes to a text file that is reviewed like code. Accepted kills stay counted and are shown with
    their reason, but make no report fail. An ID is looked for in the ledger, then as `report` would; its first
    characters are enough. With globs every kind that is given must fit, one of each kind.
    """
    from kill_audit.acceptance import Acceptance, Seen
    from kill_audit.document import micros

    asked = _typed(asked)
    shared = reading(asked)
    path = place_of(asked["accepted_file"], settings)
    if asked["listed"]:
        return _list(acceptances_of(asked["accepted_file"], settings, shared.zone), path, asked["color"], shared.zone)
    globs = Acceptance(where="", reason="", causes=asked["causes"], tasks=asked["tasks"], units=asked["globs"])
    if bool(asked["keys"]) == bool(globs.by):
        raise UsageError(
            "an ID names one kill, and takes no --cause or --task" if globs.by else "nothing is named to accept",
            hint="kill-audit accept ID --reason TEXT, or --cause, --task and -u GLOB; --list shows what is accepted",
        )
    if asked["removed"]:
        return _remove(globs, asked["keys"], path, shared)
    reason = " ".join((asked["reason"] or "").split())
    if not reason:
        raise UsageError("why is it accepted?", hint='say it with --reason "TEXT"')
    until = None if asked["expires"] is None else _until(asked["expires"], shared.zone)
    said = Acceptance(where="", reason=reason, until=until)
    if not asked["keys"]:
        _refuse_unknown(globs)
        return _put(replace(globs, reason=reason, until=until), (_who(shared.zone),), path, shared)
    for kill in _kills(shared, asked, settings):
        seen = Seen(at=micros(kill.at), host=kill.host, unit=kill.unit)
        _put(replace(said, id=kill.id, seen=seen), tuple(_about(kill, shared.zone)), path, shared)
    return 0


def _typed(asked: dict[str, Any]) -> dict[str, Any]:
    """Take what is to be accepted from the command line alone: a configuration's `units` or `until` means a report's.

    Without an ID the units are globs to accept; with one they are where it is looked for.
    """
    source = click.get_current_context().get_parameter_source
    typed = {name: asked[name] if source(name) is ParameterSource.COMMANDLINE else None for name in _OWN}
    globs = () if asked["keys"] else typed.pop("units") or ()
    return {
        **asked,
        "globs": tuple(map(_unit, globs)),
        "causes": typed["causes"] or (),
        "tasks": typed["tasks"] or (),
        "reason": typed["reason"],
        "expires": typed["expires"],
    }


def _unit(glob: str) -> str:
    from kill_audit.cli.reading import unit_name

    return unit_name(glob)


def _refuse_unknown(globs: "Acceptance") -> None:
    from kill_audit.accepted_file.reading import wrong_cause

    wrong = next(filter(None, map(wrong_cause, globs.causes)), None)
    if wrong is not None:
        raise UsageError(f"--cause: {wrong}")


def _until(text: str, zone: dt.tzinfo) -> int:
    """Understand the day; a span from now on ends with the day in which it ends.

    Raises:
        UsageError: it is no point in time, or past.
    """
    now = time.time_ns() // 1000
    at = when.moment(text, now=now, zone=zone)
    if at <= now:
        raise UsageError(f"--until {text}: that is past", hint="give a day to come: 2027-01-31, or +30d")
    if not text.lstrip().startswith("+"):
        return at
    day = dt.datetime.fromtimestamp(at // 1_000_000, dt.UTC).astimezone(zone).date() + dt.timedelta(days=1)
    return when.moment(day.isoformat(), now=now, zone=zone)


# -- which kills --------------------------------------------------------------


def _kills(shared: Reading, asked: dict[str, Any], settings: "Settings") -> "tuple[Kill, ...]":
    """Find the kills that are named: in the ledger, or else by reading what the options name.

    Raises:
        UsageError: there is no such kill, or several ids begin so.
    """
    from kill_audit.report import id_named

    known = {} if asked["no_ledger"] else _kept(shared, asked["ledger"])
    if not all(any(one.startswith(key.lower()) for one in known) for key in asked["keys"]):
        known |= {kill.id: kill for kill in document_of(shared, settings=settings).kills}
    return tuple(known[id_named(known, key)] for key in asked["keys"])


def _kept(shared: Reading, place: str | None) -> "dict[str, Kill]":
    """The kills that the ledger has; none if it is not there, or cannot be read and was not named."""
    from kill_audit.ledger import LedgerError  # SQLAlchemy is heavy

    try:
        ledger = ledger_of(shared, place)
        return {} if ledger is None else {kill.id: kill for kill in ledger.kills(0, _END)}
    except LedgerError:
        if place is not None:
            raise
        return {}


# -- what is written ----------------------------------------------------------


def _put(acceptance: "Acceptance", comments: tuple[str, ...], path: Path, shared: Reading) -> int:
    from kill_audit.accepted_file import put  # tomlkit is not needed for --help

    change = put(path, acceptance, comments, shown=shown(path), zone=shared.zone)
    if not shared.quiet:
        click.echo(f"{change} in {shown(path)}: {acceptance.by}")
    return 0


def _about(kill: "Kill", zone: dt.tzinfo) -> Iterator[str]:
    """Say in comments what an id stands for, so that whoever reviews the file need not look it up."""
    from kill_audit.document import micros
    from kill_audit.render.figures import place
    from kill_audit.render.printable import printable
    from kill_audit.render.sentences import reference

    yield printable(reference(kill.task))
    where = place(kill.unit, kill.host)
    yield printable(f"killed {when.describe(micros(kill.at), zone)} by {kill.cause}{f', {where}' if where else ''}")
    yield _who(zone)


def _who(zone: dt.tzinfo) -> str:
    """Say who accepts it, and on which day."""
    import getpass

    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        name = f"user {os.getuid()}"
    return f"accepted {dt.datetime.now(zone).date()} by {name}"


def _remove(globs: "Acceptance", keys: tuple[str, ...], path: Path, shared: Reading) -> int:
    from kill_audit.accepted_file import read, remove  # tomlkit is not needed for --help

    known = [one.id for one in read(path, shown=shown(path), zone=shared.zone) if one.id is not None]
    whole = [[one for one in known if one.startswith(key.lower())] for key in keys]
    wanted = [replace(globs, id=ids[0] if len(ids) == 1 else key) for key, ids in zip(keys, whole, strict=True)]
    for one in wanted or [globs]:
        if not remove(path, one, shown=shown(path), zone=shared.zone):
            raise KillAuditError(
                f"{shown(path)} has no entry for {one.by}", hint="`kill-audit accept --list` shows the entries"
            )
        if not shared.quiet:
            click.echo(f"removed from {shown(path)}: {one.by}")
    return 0


# -- what is listed -----------------------------------------------------------


def _list(known: "tuple[Acceptance, ...]", path: Path, color: str, zone: dt.tzinfo) -> int:
    from kill_audit.render.listing import Listing, render_listing
    from kill_audit.render.view import count

    now = time.time_ns() // 1000
    expired = sum(one.has_expired(now) for one in known)
    told = count(len(known), "entry", "entries") if known else "Nothing is accepted"
    listing = Listing(
        title=f"{told} in {shown(path)}{f', {expired:,} expired' if expired else ''}."
        if known
        else f"{told}: there are no entries in {shown(path)}.",
        columns=("accepts", "until", "reason", "at"),
        items=tuple(_item(one, now, zone) for one in known),
        notes=("Remove or renew what has expired: it accepts nothing.",) if expired else (),
    )
    write(render_listing(listing, width=terminal_width(None), color=in_colour(color, None)), None)
    return 0


def _item(one: "Acceptance", now: int, zone: dt.tzinfo) -> "Item":
    from kill_audit.render.listing import Item

    until = "-" if one.until is None else when.describe(one.until, zone)
    state = f"expired {until}" if one.has_expired(now) else until
    return Item(
        cells=(one.by, state, one.reason, one.where),
        head=one.by,
        more=(f"until {state}" if one.until is not None else "until it is removed", one.reason, one.where),
        state="warn" if one.has_expired(now) else None,
    )
