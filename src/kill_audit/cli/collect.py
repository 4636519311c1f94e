"""`kill-audit collect`: keep what the journal shows before journald throws it away."""

import time
from dataclasses import replace
from typing import Any

import click

from kill_audit import when
from kill_audit.cli.keeping import AGAIN, keep_option, ledger_of, ledger_options
from kill_audit.cli.options import Reading, reading, run_log_options, window_options
from kill_audit.cli.reading import document_of
from kill_audit.errors import UsageError

FIRST = when.span("8w")
"""How far the first run looks back, so that the first summary has a line of weeks already."""


@click.command(name="collect", short_help="Keep findings in the ledger, before the journal loses them.")
@window_options(since="where the last run ended, at least 8d ago; 8w ago the first time")
@run_log_options
@ledger_options
@keep_option
@click.pass_obj
def command(settings: Any, /, **asked: Any) -> int:
    """Read the journal from where the last run ended, and keep kills and coverage in the ledger.

    Kills of the last 8 days are judged again. Without --since the first run looks 8 weeks back. A timer that runs
    this every hour (`kill-audit schedule install`) makes reports independent of how long journald keeps its entries.
    What is older than --keep is dropped. Killed at any moment it loses nothing: the next run does what this one did
    not. The exit status is 3 when there was nothing to read at all.
    """
    from kill_audit.document import micros

    shared = reading(asked)
    if asked["no_ledger"]:
        raise UsageError("collect has nothing to do without a ledger", hint="leave out --no-ledger")
    if shared.boot is not None:
        raise UsageError("collect reads every boot since it last ran", hint="leave out -b/--boot")
    ledger = ledger_of(shared, asked["ledger"], writing=True)
    assert ledger is not None  # noqa: S101 - it is made if it was not there
    window = _window(shared, ledger.position(), asked["keep"])
    document = document_of(window, settings=settings)
    recorded = ledger.record(document, keep=asked["keep"])
    for since, until in recorded.lost:
        click.echo(
            f"kill-audit: warning: the journal has lost {when.describe(since, shared.zone)} to "
            f"{when.describe(until, shared.zone)}, which no run had read yet: collect more often, or keep more "
            "(SystemMaxUse= in journald.conf)",
            err=True,
        )
    if not shared.quiet:
        dropped = f", {recorded.dropped:,} dropped by their age (--keep)" if recorded.dropped else ""
        click.echo(
            f"{document.totals.kills:,} killed since {when.describe(micros(document.window.since), shared.zone)} "
            f"(coverage {document.coverage.verdict}): {recorded.new:,} new, {recorded.changed:,} judged otherwise, "
            f"{recorded.withdrawn:,} withdrawn{dropped}; kept in {ledger.shown}"
        )
    return 0 if document.coverage.entries else 3


def _window(asked: Reading, position: int | None, keep: int) -> Reading:
    """Begin where the last run ended, and early enough to judge young kills again; --since may begin earlier.

    What the ledger would not keep is not read.
    """
    now = time.time_ns() // 1000
    until = now if asked.until is None else when.moment(asked.until, now=now, zone=asked.zone)
    since = until - FIRST if position is None else min(position, until - AGAIN)
    if asked.since is not None:
        named = when.moment(asked.since, now=now, zone=asked.zone)
        since = named if position is None else min(since, named)
    return replace(
        asked,
        since=when.exactly(max(0, since, now - keep)),
        until=None if asked.until is None else when.exactly(until),
    )
