"""`kill-audit units`: which units are Celery workers, and what is known of them."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from kill_audit import when
from kill_audit.cli.options import Reading, listing_options, reading, source_options, takes_stdin
from kill_audit.cli.output import in_colour, terminal_width, write
from kill_audit.cli.reading import evidence_of, findings_of

if TYPE_CHECKING:
    from kill_audit.entry import Question
    from kill_audit.render.listing import Item, Listing
    from kill_audit.units import Found, SeenUnit, UnitSettings

SEEN = ("unit", "host", "node", "celery", "pool", "lives", "received", "kills", "task lines")
SET = ("KillMode", "TimeoutStopSec", "OOMPolicy")


@click.command(name="units", short_help="List the units that are Celery workers.")
@source_options
@listing_options
@click.argument("stream", required=False, metavar="[-]")
def command(**asked: Any) -> int:
    """List the units whose own lines in the window are a Celery worker's, and what systemd is told about them.

    Where systemctl knows a unit, its settings are those of now. The exit status is 3 if there is no such unit.
    """
    shared, stdin = reading(asked), takes_stdin(asked)
    from kill_audit.render.listing import render_listing
    from kill_audit.render.printable import json_text
    from kill_audit.units import seen_units

    found = findings_of(replace(shared, run_log=None, results=None), evidence_of(shared, stdin=stdin))
    seen = seen_units(found.history, found.kills, found.question)
    known = _settings(shared, seen)
    target = asked["target"]
    if asked["form"] == "json":
        text = json_text(_as_json(seen, known, found.question))
    else:
        listing = _listing(shared, seen, known, found.question)
        text = render_listing(listing, width=terminal_width(target), color=in_colour(asked["color"], target))
    write(text, target)
    return 0 if seen else 3


def _settings(shared: Reading, seen: "tuple[SeenUnit, ...]") -> "Found":
    """Ask systemd about the units of the host that this is, or whose file system is named by --root."""
    from kill_audit.units import Found, machine_id, settings_of

    here = machine_id(shared.root)
    units = [one.unit for one in seen if one.machine == here]
    if seen and not units:
        return Found(why_not="this is not the host that wrote this journal")
    return settings_of(units, root=shared.root, user=shared.user)


def _listing(shared: Reading, seen: "tuple[SeenUnit, ...]", known: "Found", question: "Question") -> "Listing":
    from kill_audit.render.listing import Listing
    from kill_audit.render.view import count

    since, until = (when.describe(moment, shared.zone) for moment in (question.since, question.until))
    named = f" among {', '.join(question.units)}" if question.units else ""
    notes = []
    if not seen:
        notes.append("next: kill-audit doctor (permissions, coverage, log files)")
    for one in seen:
        if one.task_lines == "hidden":
            notes.append(f"{one.unit}: its log level hides which tasks it receives; start the worker with -l INFO")
        if one.log_file:
            files = known.settings[one.unit].log_files if one.unit in known.settings else ()
            names = " ".join(f"--file '{name}'" for name in files) or "--file"
            notes.append(f"{one.unit}: its lines are in log files, not in the journal; give them with {names}")
    if known.why_not is not None:
        notes.append(f"systemd's settings: {known.why_not}")
    return Listing(
        title=f"{count(len(seen), 'worker unit')}{named} from {since} to {until}.",
        columns=(*SEEN, *SET) if known.settings else SEEN,
        items=tuple(_item(one, known.settings.get(one.unit), with_settings=bool(known.settings)) for one in seen),
        notes=tuple(dict.fromkeys(notes)),
        numbers=frozenset({"lives", "received", "kills"}),
    )


def _item(one: "SeenUnit", settings: "UnitSettings | None", *, with_settings: bool) -> "Item":
    from kill_audit.render.listing import Item
    from kill_audit.render.view import count

    pools = ", ".join(one.pools) or "-"
    pool = pools if one.concurrency is None else f"{pools} {one.concurrency}"
    lines = "in files" if one.log_file else one.task_lines
    nodes, versions = ", ".join(one.nodes) or "-", ", ".join(one.versions) or "-"
    numbers = (f"{one.lives:,}", f"{one.receipts:,}", f"{one.kills:,}")
    told = (settings.kill_mode, settings.timeout_stop, settings.oom_policy) if settings else (None, None, None)
    told_cells = tuple(value or "-" for value in told)
    more = [
        f"node {nodes}, Celery {versions}, pool {pool}",
        ", ".join(
            (
                count(one.lives, "life", "lives"),
                f"{numbers[1]} received",
                count(one.kills, "kill"),
                f"task lines {lines}",
            )
        ),
    ]
    if settings is not None:
        more.append(", ".join(f"{name}={value}" for name, value in zip(SET, told_cells, strict=True)))
    return Item(
        cells=(one.unit, one.host, nodes, versions, pool, *numbers, lines, *(told_cells if with_settings else ())),
        head=f"{one.unit} on {one.host}",
        more=tuple(more),
    )


def _as_json(seen: "tuple[SeenUnit, ...]", known: "Found", question: "Question") -> dict[str, Any]:
    from kill_audit.document import timestamp

    return {
        "format": "kill-audit/units",
        "version": 1,
        "window": {"since": timestamp(question.since), "until": timestamp(question.until)},
        "units": [
            {
                **{name: value for name, value in asdict(one).items() if name != "machine"},
                "first": None if one.first is None else timestamp(one.first),
                "last": None if one.last is None else timestamp(one.last),
                "settings": _settings_json(known.settings.get(one.unit)),
            }
            for one in seen
        ],
        "why_no_settings": known.why_not,
    }


def _settings_json(settings: "UnitSettings | None") -> dict[str, Any] | None:
    if settings is None:
        return None
    return {name: value for name, value in asdict(settings).items() if name != "unit"}
