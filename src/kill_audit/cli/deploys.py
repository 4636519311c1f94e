"""`kill-audit deploys`: every deploy window, and what it cost."""

import re
from typing import TYPE_CHECKING, Any

import click

from kill_audit.cli.options import listing_options, reading, run_log_options, source_options, takes_stdin
from kill_audit.cli.output import in_colour, inconclusive, terminal_width, write
from kill_audit.cli.reading import document_of

if TYPE_CHECKING:
    from kill_audit.config import Settings
    from kill_audit.document import Deploy, Document
    from kill_audit.render.listing import Item, Listing
    from kill_audit.render.view import Clock

COLUMNS = ("deploy", "since", "took", "kills", "drained", "requeued")
NUMBERS = frozenset({"kills", "drained", "requeued", "no row", "stuck"})


@click.command(name="deploys", short_help="List the deploy windows, and what each killed.")
@source_options
@run_log_options
@listing_options
@click.argument("stream", required=False, metavar="[-]")
@click.pass_obj
def command(settings: "Settings", /, **asked: Any) -> int:
    """List the deploy windows: stops and restarts of worker units that belong together, and what each cost.

    `kill-audit report --deploy ID` shows the kills of one. The exit status is 3 if the evidence does not reach over
    the whole window, so that there may be more.
    """
    shared, stdin = reading(asked), takes_stdin(asked)
    from kill_audit.render.listing import render_listing
    from kill_audit.render.printable import json_text
    from kill_audit.render.view import Clock

    document = document_of(shared, stdin=stdin, settings=settings)
    target = asked["target"]
    if asked["form"] == "json":
        text = json_text(_as_json(document))
    else:
        listing = _listing(document, Clock.over(document, shared.zone))
        text = render_listing(listing, width=terminal_width(target), color=in_colour(asked["color"], target))
    write(text, target)
    return 3 if inconclusive(document) else 0


def _verdicts(document: "Document", deploy: "Deploy", verdict: str) -> int | None:
    """Count the kills of a deploy that have a verdict; None without a run log."""
    if document.run_log is None:
        return None
    return sum(kill.deploy == deploy.id and kill.verdict == verdict for kill in document.kills)


def _is_named(deploy: "Deploy") -> bool:
    """Whether a mark labels the deploy, and not only its time."""
    return re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d \w+", deploy.label) is None


def _as_json(document: "Document") -> dict[str, Any]:
    import msgspec

    return {
        "format": "kill-audit/deploys",
        "version": 1,
        "window": msgspec.to_builtins(document.window),
        "coverage": document.coverage.verdict,
        "deploys": [
            {
                **msgspec.to_builtins(deploy),
                "missing": _verdicts(document, deploy, "missing"),
                "stuck": _verdicts(document, deploy, "stuck"),
                "kill_ids": [kill.id for kill in document.kills if kill.deploy == deploy.id],
            }
            for deploy in document.deploys
        ],
    }


def _listing(document: "Document", clock: "Clock") -> "Listing":
    from kill_audit.render.listing import Listing
    from kill_audit.render.sentences import coverage
    from kill_audit.render.view import count

    kills = sum(deploy.kills for deploy in document.deploys)
    columns = [clock.heading(name) if name == "since" else name for name in COLUMNS]
    columns += ["no row", "stuck"] if document.run_log is not None else []
    columns += ["label"] if any(map(_is_named, document.deploys)) else []
    notes = []
    if document.coverage.verdict != "complete":
        notes.append(f"The evidence is {coverage(document)}; kill-audit doctor says why.")
    if kills:
        worst = max(document.deploys, key=lambda deploy: deploy.kills)
        notes.append(f"next: kill-audit report --deploy {worst.id}")
    return Listing(
        title=f"{count(len(document.deploys), 'deploy')} from {clock.at(document.window.since)} to "
        f"{clock.at(document.window.until)} {clock.name}, {count(kills, 'kill')} in them.",
        columns=(*columns, "units"),
        items=tuple(_item(document, deploy, clock) for deploy in document.deploys),
        notes=tuple(notes),
        numbers=NUMBERS,
    )


def _item(document: "Document", deploy: "Deploy", clock: "Clock") -> "Item":
    from kill_audit.document import micros
    from kill_audit.render.listing import Item
    from kill_audit.render.sentences import a_few
    from kill_audit.render.view import count, span

    took = span((micros(deploy.until) - micros(deploy.since)) / 1e6)
    rows = [_verdicts(document, deploy, verdict) for verdict in ("missing", "stuck")]
    cells = [deploy.id, clock.at(deploy.since), took]
    cells += [f"{number:,}" for number in (deploy.kills, deploy.drained, deploy.requeued, *rows) if number is not None]
    cells += [deploy.label] if any(map(_is_named, document.deploys)) else []
    said = [count(deploy.kills, "kill"), f"{deploy.drained:,} drained", f"{deploy.requeued:,} requeued"]
    if rows[0] is not None:
        said += [f"{rows[0]:,} with no run row", f"{rows[1]:,} stuck"]
    return Item(
        cells=(*cells, a_few(deploy.units)),
        head=f"{deploy.id}  {clock.at(deploy.since)}  took {took}"
        + (f"  {deploy.label}" if _is_named(deploy) else ""),
        more=(", ".join(said), a_few(deploy.units)),
    )
