"""Variables as unit files hold them: `Environment=` lines and environment files (systemd.exec(5)).

They are looked at to understand a command line, and never shown: they hold secrets.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)


def assigned(text: str) -> dict[str, str]:
    """Read the value of `Environment=`: assignments between blanks, quoted where they hold some."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return {found["name"]: found["value"] for found in map(_ASSIGNMENT.fullmatch, words) if found}


def of_files(paths: Iterable[str], root: Path) -> dict[str, str]:
    """Read environment files; one that is missing or may not be read says nothing.

    Args:
        paths: absolute, as the unit names them; patterns are left out.
        root: the folder that the host's file system is mounted at.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            text = (root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.replace("\\\n", " ").splitlines():
            assignment = _ASSIGNMENT.fullmatch(line.strip())
            if assignment is not None:
                found[assignment["name"]] = _unquoted(assignment["value"])
    return found


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value)) if value[:1] in "\"'" else value.strip()
    except ValueError:
        return value


def environment_of(values: Iterable[str], files: Iterable[str], root: Path) -> Mapping[str, str]:
    """Put `Environment=` and its files together; a file goes before an assignment, a later one before an earlier."""
    found: dict[str, str] = {}
    for value in values:
        found.update(assigned(value))
    return {**found, **of_files(files, root)}
