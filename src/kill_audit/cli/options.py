"""The options that commands share, spelled as journalctl's users expect, and their values as one frozen thing."""

import datetime as dt
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import click

from kill_audit import when
from kill_audit.cli.completion import any_of, causes, files, folders, verdicts, zones
from kill_audit.errors import UsageError

DEFAULT_SPAN = "7d"
DEFAULT_LEAD_IN = "7d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to read: the values of `source_options` and `run_log_options` by the names of their options."""

    since: str | None = None
    until: str | None = None
    units: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    root: str | None = None
    merge: bool = False
    namespace: str | None = None
    boot: str | None = None
    user: bool = False
    lead_in: str = DEFAULT_LEAD_IN
    assume_timezone: str | None = None
    assume_year: int | None = None
    utc: bool = False
    reader: str = "auto"
    no_cache: bool = False
    quiet: bool = False
    verbose: bool = False
    settle: str | None = None
    run_log: str | None = None
    run_log_table: str | None = None
    run_log_preset: str | None = None
    results: str | None = None
    results_table: str | None = None

    @property
    def zone(self) -> dt.tzinfo:
        """The zone in which times are understood and shown."""
        return dt.UTC if self.utc else when.local_zone(os.environ)


def reading(asked: dict[str, Any]) -> Reading:
    """Take the shared options' values out of a command's, so that what is left is the command's own."""
    names = [one.name for one in fields(Reading)]
    return Reading(**{name: asked.pop(name) for name in names if name in asked})


def _add(function: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


def _since(default: str) -> Callable[..., Any]:
    return click.option("-S", "--since", metavar="TIME", help=f"Deaths from then on.  [default: {default}]")


def _until(default: str) -> Callable[..., Any]:
    return click.option("-U", "--until", metavar="TIME", help=f"Deaths before then.  [default: {default}]")


_PLACES = (
    click.option("-u", "--unit", "units", multiple=True, metavar="UNIT|GLOB", help="Only these units. Repeatable."),
    click.option(
        "-D",
        "--directory",
        "directories",
        multiple=True,
        metavar="DIR",
        help="Read the journal files in DIR.",
        shell_complete=folders,
    ),
    click.option(
        "--file",
        "files",
        multiple=True,
        metavar="PATH|GLOB",
        help="Read a .journal, `journalctl -o export` or `-o json` output, or a worker's log. Repeatable.",
        shell_complete=files,
    ),
    click.option(
        "--root", metavar="DIR", help="Read the journal of the file system mounted at DIR.", shell_complete=folders
    ),
    click.option("-m", "--merge", is_flag=True, help="Read all machines' journals that are kept here."),
    click.option("--namespace", metavar="NAME", help="Read this journal namespace and the default one."),
    click.option("-b", "--boot", metavar="ID", help="Only this boot: 0 the last, -1 the one before, or an ID."),
    click.option("--user", is_flag=True, help="Read the journal of the user who runs this."),
    click.option(
        "--lead-in",
        default=DEFAULT_LEAD_IN,
        show_default=True,
        metavar="SPAN",
        help="Read that much before --since, so that a task received long before its death is named.",
    ),
    click.option(
        "--assume-timezone", metavar="ZONE", help="Zone of times in text files that carry none.", shell_complete=zones
    ),
    click.option("--assume-year", type=int, metavar="YEAR", help="Year of dates in text without one."),
    click.option(
        "--reader",
        type=click.Choice(["auto", "columns", "systemd"]),
        default="auto",
        show_default=True,
        help="What reads .journal files: columns, libsystemd, or auto (libsystemd what columns cannot).",
    ),
    click.option(
        "--no-cache",
        is_flag=True,
        help="Read every file anew: neither use nor keep what earlier runs made of archived journal files.",
    ),
    click.option("--utc", is_flag=True, help="Understand and show times in UTC."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr."),
    click.option("-v", "--verbose", is_flag=True, help="Say on stderr what is read, and how."),
)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what to read; without any of -D, --file, --root and `-` it is this host's journal."""
    return window_options()(function)


def window_options(
    *, since: str = f"{DEFAULT_SPAN} ago", until: str = "now"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give what adds the same, for a command whose window is another one when none is named; in words for its help."""
    return lambda function: _add(function, (_since(since), _until(until), *_PLACES))


def recent_source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same without --until, for a command that means something else by that word."""
    return _add(function, (_since(f"{DEFAULT_SPAN} ago"), *_PLACES))


def run_log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the app's run log."""
    return _add(
        function,
        (
            click.option(
                "--run-log",
                metavar="URL|FILE",
                help="The app's run log: a database URL, a .csv or a .parquet file.",
                shell_complete=files,
            ),
            click.option(
                "--run-log-table", metavar="NAME", help="Its table, where the database has several that fit."
            ),
            click.option("--run-log-preset", metavar="NAME", help="Its layout, if not found by looking."),
            click.option("--results", metavar="URL", help="Celery's own result table, as further evidence."),
            click.option("--results-table", metavar="NAME", help="Its table, where it is not the usual one."),
            click.option(
                "--settle",
                metavar="SPAN",
                help="A death younger than this may still get its row, and is not called missing.  [default: 2min]",
            ),
        ),
    )


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that narrow down which kills are shown; they change no number of what is left."""
    return _add(
        function,
        (
            click.option(
                "--task", "tasks", multiple=True, metavar="GLOB", help="Only tasks of this name. Repeatable."
            ),
            click.option(
                "--cause",
                "causes",
                multiple=True,
                metavar="GLOB",
                help="Only kills of this cause. Repeatable.",
                shell_complete=causes,
            ),
            click.option(
                "--verdict",
                "verdicts",
                multiple=True,
                metavar="GLOB",
                help="Only kills of this verdict. Repeatable.",
                shell_complete=verdicts,
            ),
            click.option(
                "--deploy",
                "deploys",
                multiple=True,
                metavar="last|ID",
                help="Only kills in this deploy. Repeatable.",
                shell_complete=any_of(["last"]),
            ),
        ),
    )


write_option = click.option(
    "-w", "--write", "target", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE."
)
"""Where the output goes, for every command that prints a document."""

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When to colour.",
)
"""When to colour, for every command that prints to a terminal."""


def listing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that lists things: its format, where it goes, and its colours."""
    return _add(
        function,
        (
            click.option(
                "-o",
                "--output",
                "form",
                type=click.Choice(["table", "json"]),
                default="table",
                show_default=True,
                help="The format.",
            ),
            write_option,
            color_option,
        ),
    )


def takes_stdin(asked: dict[str, Any]) -> bool:
    """Take the argument `-` out of a command's values: whether it asks for standard input.

    Raises:
        UsageError: the argument is another word.
    """
    word = asked.pop("stream")
    if word not in (None, "-"):
        raise UsageError(
            f"unexpected argument {word!r}", hint="name files with --file, units with -u; `-` reads standard input"
        )
    return word is not None
