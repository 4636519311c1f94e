"""`kill-audit report`: the answer."""

import time
from typing import Any

import click

from kill_audit.cli.acceptances import acceptances_of, accepted_option, with_accepted
from kill_audit.cli.completion import forms, verdicts
from kill_audit.cli.keeping import from_ledger, ledger_options
from kill_audit.cli.options import (
    Reading,
    color_option,
    filter_options,
    reading,
    run_log_options,
    source_options,
    write_option,
)
from kill_audit.cli.output import FAIL_ON, exit_status, in_colour, terminal_width, write
from kill_audit.cli.reading import document_of, settle_of
from kill_audit.errors import UsageError


@click.command(name="report", short_help="Report the killed task runs of a window.")
@source_options
@run_log_options
@filter_options
@click.option(
    "-o",
    "--output",
    "form",
    default="table",
    show_default=True,
    metavar="FORMAT",
    help="table, short, json, ndjson, csv, md, html or prometheus.",
    shell_complete=forms,
)
@write_option
@click.option("-x", "--explain", is_flag=True, help="Say with each finding what it means and how to fix it.")
@color_option
@click.option("--no-pager", is_flag=True, help="Accepted as by journalctl; there is no pager.")
@click.option(
    "--fail-on",
    default=FAIL_ON,
    show_default=True,
    metavar="WHAT",
    help="What makes the exit status 1: verdicts, any, cause=GLOB, >N.",
    shell_complete=verdicts,
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the youngest death has settled, so that a late row counts; for use right after a deploy.",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 also with findings or incomplete evidence.")
@accepted_option
@click.argument("stream", required=False, metavar="[-]")
@ledger_options
@click.pass_obj
def command(settings: Any, /, **asked: Any) -> int:
    """Report the task runs that were killed in a window: which, by what, in which deploy, and what became of them.

    With `-`, a stream of `journalctl -o export` or `-o json` is read from standard input.
    """
    shared = reading(asked)
    if asked["stream"] not in (None, "-"):
        raise UsageError(
            f"unexpected argument {asked['stream']!r}", hint="name files with --file; `-` reads standard input"
        )
    from kill_audit.render import FORMS, render

    form, target = asked["form"], asked["target"]
    if form not in FORMS:
        raise UsageError(f"-o {form}: no such format", hint="formats: " + ", ".join(FORMS))
    known = acceptances_of(asked["accepted_file"], settings, shared.zone)
    document = document_of(shared, stdin=asked["stream"] == "-", settings=settings)
    if asked["wait"] and asked["stream"] != "-" and _settles(document, shared, settings):
        document = document_of(shared, settings=settings)
    if not asked["no_ledger"] and asked["stream"] != "-":
        document = from_ledger(document, shared, asked["ledger"])
    document = with_accepted(document, shared, known)
    status = exit_status(document, fail_on=asked["fail_on"], exit_zero=asked["exit_zero"])
    shown = _only(document, asked)
    text = render(
        shown,
        form,
        width=terminal_width(target),
        color=in_colour(asked["color"], target),
        zone=shared.zone,
        explain=asked["explain"],
    )
    write(text, target)
    return status


def _settles(document: Any, shared: Reading, settings: Any) -> bool:
    """Sleep until the youngest unsettled death is old enough; False where nothing is unsettled."""
    from kill_audit.document import micros

    young = [micros(kill.at) for kill in document.kills if kill.verdict == "unsettled"]
    if not young:
        return False
    left = (max(young) + settle_of(shared, settings)) / 1e6 - time.time()
    if left > 0:
        if not shared.quiet:
            click.echo(f"kill-audit: waiting {left:.0f} s for rows of {len(young)} young deaths", err=True)
        time.sleep(left)
    return True


def _only(document: Any, asked: dict[str, Any]) -> Any:
    """Keep the kills that the filters name."""
    if not any(asked[name] for name in ("tasks", "causes", "verdicts", "deploys")):
        return document
    from kill_audit.report import narrowed

    return narrowed(
        document,
        tasks=asked["tasks"],
        causes=asked["causes"],
        verdicts=asked["verdicts"],
        deploys=asked["deploys"],
    )
