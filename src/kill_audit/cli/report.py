"""`kill-audit report`: the answer."""

import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from kill_audit import when
from kill_audit.audit import Scan, audit
from kill_audit.document import Document
from kill_audit.entry import Problem, Question, Source
from kill_audit.errors import SourceError, UsageError
from kill_audit.timeline import Partial

DEFAULT_SPAN = "7d"
DEFAULT_LEAD_IN = "7d"


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what to read, for every command that reads."""
    options = (
        click.option("-S", "--since", metavar="TIME", help=f"Deaths from then on. Default: {DEFAULT_SPAN} (ago)."),
        click.option("-U", "--until", metavar="TIME", help="Deaths before then. Default: now."),
        click.option("-u", "--unit", "units", multiple=True, metavar="UNIT|GLOB", help="Only this unit. Repeatable."),
        click.option(
            "-D", "--directory", "directories", multiple=True, metavar="DIR", help="Read the journal files in DIR."
        ),
        click.option(
            "--file",
            "files",
            multiple=True,
            metavar="PATH|GLOB",
            help="Read a .journal file, `journalctl -o export` or `-o json` output, or a worker's log. Repeatable.",
        ),
        click.option(
            "--lead-in",
            default=DEFAULT_LEAD_IN,
            show_default=True,
            metavar="SPAN",
            help="Read that much before --since.",
        ),
        click.option("--assume-timezone", metavar="ZONE", help="Zone of times in text files that carry none."),
        click.option("--assume-year", type=int, metavar="YEAR", help="Year of dates in text files that carry none."),
        click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr."),
        click.option("--utc", is_flag=True, help="Show times in UTC."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def run_log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the app's run log."""
    options = (
        click.option("--run-log", metavar="URL|FILE.csv", help="The app's run log: a database URL or a CSV file."),
        click.option("--run-log-table", metavar="NAME", help="The run log's table, where the database has several."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command(name="report", short_help="Report the killed task runs of a window.")
@source_options
@run_log_options
@click.option(
    "-o",
    "--output",
    "form",
    default="table",
    show_default=True,
    metavar="FORMAT",
    help="table, or json (see docs/json.md).",
)
@click.option(
    "-w", "--write", "target", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE, not to stdout."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 also with findings or incomplete evidence.")
@click.argument("stream", required=False, metavar="[-]")
def command(form: str, target: str | None, exit_zero: bool, stream: str | None, **asked: Any) -> int:
    """Report the task runs that were killed in a window: which, by what, in which deploy, and what became of them.

    With `-`, read a stream of `journalctl -o export` or `-o json` from standard input.
    """
    if stream not in (None, "-"):
        raise UsageError(f"unexpected argument {stream!r}", hint="name files with --file; `-` reads standard input")
    from kill_audit.render import FORMS, render  # noqa: PLC0415 - rich is not needed for --help

    if form not in FORMS:
        raise UsageError(f"unknown output format {form!r}", hint="formats: " + ", ".join(FORMS))
    document = document_of(stdin=stream == "-", **asked)
    zone = _utc() if asked["utc"] else when.local_zone(os.environ)
    terminal = target is None and sys.stdout.isatty()
    text = render(
        document,
        form,
        width=_width() if terminal else None,
        color=terminal and "NO_COLOR" not in os.environ,
        zone=zone,
    )
    write(text, target)
    return exit_status(document, exit_zero=exit_zero)


def _utc() -> Any:
    import datetime as dt  # noqa: PLC0415

    return dt.UTC


def _width() -> int:
    import shutil  # noqa: PLC0415

    return shutil.get_terminal_size().columns


def document_of(
    *,
    since: str | None,
    until: str | None,
    units: Sequence[str],
    directories: Sequence[str],
    files: Sequence[str],
    lead_in: str,
    assume_timezone: str | None,
    assume_year: int | None,
    quiet: bool,
    utc: bool,
    run_log: str | None,
    run_log_table: str | None,
    stdin: bool,
) -> Document:
    """Read what the options name and audit it."""
    del quiet
    now = time.time_ns() // 1000
    zone = _utc() if utc else when.local_zone(os.environ)
    window = when.window(since, until, now=now, zone=zone, default_span=DEFAULT_SPAN)
    lead = when.span(lead_in)
    question = Question(
        since=window.since,
        until=window.until,
        read_since=window.since - lead,
        read_until=window.until + lead,
        units=tuple(_unit(unit) for unit in units),
        assume_timezone=assume_timezone,
        assume_year=assume_year,
    )
    from kill_audit.journal import open_sources  # noqa: PLC0415

    sources = open_sources(files=files, directories=directories, stdin=sys.stdin.buffer if stdin else None)
    if not sources:
        raise UsageError("nothing to read", hint="name journal files with --file or -D, or a stream with `-`")
    log = None
    if run_log is not None:
        from kill_audit.runlog import open_run_log  # noqa: PLC0415

        log = open_run_log(run_log, table=run_log_table)
    return audit(sources, log, question, each, now=now)


def _unit(word: str) -> str:
    """Complete a unit's name as systemctl does: `celery` is `celery.service`."""
    return word if "." in word or any(mark in word for mark in "*?[") else f"{word}.service"


def each(function: Callable[[Scan], Partial], items: Sequence[Scan]) -> Sequence[Partial]:
    """Run scans side by side; a scan whose process died is a source that could not be read."""
    from kill_audit import engine  # noqa: PLC0415

    return engine.run(_Scanning(function), [_Item(*item) for item in items], on_lost=_lost)


class _Item:
    """A scan to run, as the engine wants it: with a name, and whether it may end its process."""

    def __init__(self, source: Source, question: Question) -> None:
        self.source = source
        self.question = question

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def fragile(self) -> bool:
        return bool(getattr(self.source, "fragile", True))


class _Scanning:
    """Unpacks an item for `scan`; picklable."""

    def __init__(self, function: Callable[[Scan], Partial]) -> None:
        self.function = function
        self.__module__ = function.__module__

    def __call__(self, item: _Item) -> Partial:
        return self.function((item.source, item.question))


def _lost(item: _Item, reason: str) -> Partial:
    return Partial(
        source=item.name,
        problems=(
            Problem(code="damaged", detail=f"the process that read it ended: {reason}; nothing of it is counted"),
        ),
    )


def write(text: str, target: str | None) -> None:
    """Write the result: to a file that is replaced only when all of it is there, or to stdout."""
    if target is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(target)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise SourceError(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -w FILE"
        ) from error


def exit_status(document: Document, *, exit_zero: bool) -> int:
    """0 nothing found and the evidence whole, 1 findings, 3 inconclusive (see docs/exit-status.md)."""
    if exit_zero:
        return 0
    totals = document.totals
    found = totals.missing + totals.stuck if document.run_log is not None else totals.kills
    if found:
        return 1
    unjudged = document.run_log is not None and any(kill.verdict is None for kill in document.kills)
    if document.coverage.verdict != "complete" or totals.blind_deaths or unjudged:
        return 3
    return 0


__all__ = ["command", "document_of", "each", "functools"]
