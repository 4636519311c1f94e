"""Where the file of accepted findings lies."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

NAME: Final = "kill-audit.accepted.toml"


def place(named: str | None, configurations: Iterable[Path], folder: Path) -> Path:
    """Choose the file: the one that was named, else the first that is there, else the first that may be.

    Args:
        named: what `--accepted`, KILL_AUDIT_ACCEPTED or the configuration says.
        configurations: the configuration files that were read, the strongest first; the file may lie beside each.
        folder: the working folder, where it may lie besides.
    """
    if named is not None:
        return folder / Path(named).expanduser()
    places = [path.parent / NAME for path in configurations] + [folder / NAME]
    return next((path for path in places if path.exists()), places[0])
