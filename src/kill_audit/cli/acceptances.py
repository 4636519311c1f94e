"""The file of accepted findings on the command line: which one, what is in it, and a report marked by it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kill_audit.cli.completion import files
from kill_audit.cli.options import Reading

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from kill_audit.acceptance import Acceptance
    from kill_audit.config import Settings
    from kill_audit.document import Document

accepted_option = click.option(
    "--accepted",
    "accepted_file",
    metavar="FILE",
    help="Findings that are accepted as known.  [default: kill-audit.accepted.toml beside the configuration, or here]",
    shell_complete=files,
)
"""Which file of accepted findings, for every command that shows kills."""


def place_of(named: str | None, settings: "Settings") -> Path:
    """Where the file of accepted findings is, or would be."""
    from kill_audit.accepted_file import place

    return place(named, settings.files, Path.cwd())


def shown(path: Path) -> str:
    """Name a file from here, where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def acceptances_of(named: str | None, settings: "Settings", zone: "dt.tzinfo") -> "tuple[Acceptance, ...]":
    """Read what is accepted; nothing where no file was named and none is there.

    Raises:
        AcceptedFileError: the file that was named is not there, or the file has mistakes.
    """
    path = place_of(named, settings)
    if named is None and not path.exists():
        return ()
    from kill_audit.accepted_file import read  # few have one

    return read(path, shown=shown(path), zone=zone)


def with_accepted(document: "Document", asked: Reading, known: "Sequence[Acceptance]") -> "Document":
    """Mark the kills of a report that are accepted, and list what accepts them."""
    if not known:
        return document
    from kill_audit.acceptance import accepted  # few have any

    return accepted(document, known, every_unit=not asked.units and asked.boot is None)
