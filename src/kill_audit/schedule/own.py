"""Files that this program wrote, and no others: known by a first line with the hash of all that follows.

Rules of this file: what lacks the line, or was changed below it, belongs to somebody else, and is neither overwritten
nor removed. All files are looked at before the first one is touched.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from kill_audit.schedule.failures import ScheduleError

MARK = "# Written by `kill-audit schedule`; not for editing by hand (systemctl edit makes a drop-in). sha256:"
BEGIN, END = "# BEGIN kill-audit schedule sha256:", "# END kill-audit schedule"


class Whose(StrEnum):
    """Whose a file is."""

    NOBODYS = "not there"
    OURS = "written by kill-audit"
    CHANGED = "written by kill-audit and changed since"
    OTHERS = "not written by kill-audit"


def signed(text: str) -> str:
    """Put the line with the hash before a text."""
    return f"{MARK}{_hash(text)}\n{text}"


def whose(path: Path) -> Whose:
    """Tell whose a file is; a link is somebody else's, as that with which systemd masks a unit.

    Raises:
        ScheduleError: it cannot be read.
    """
    if path.is_symlink():
        return Whose.OTHERS
    try:
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    except FileNotFoundError:
        return Whose.NOBODYS
    except UnicodeDecodeError:
        return Whose.OTHERS
    except OSError as error:
        raise ScheduleError(f"cannot read {path}: {error.strerror}", hint=f"ls -l {path}") from None
    if not first.startswith(MARK):
        return Whose.OTHERS
    return Whose.OURS if first == f"{MARK}{_hash(rest)}" else Whose.CHANGED


def write(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files, each whole or not at all, readable by everybody.

    Raises:
        ScheduleError: one is not this program's, or cannot be written; in the first case nothing was written.
    """
    paths = {folder / name: text for name, text in files.items()}
    refuse_others(paths)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            part = path.with_name(f".{path.name}.part")
            part.write_text(signed(text), encoding="utf-8")
            part.chmod(0o644)
            part.replace(path)
    except OSError as error:
        raise _failure(folder, error) from None
    return tuple(paths)


def remove(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Remove files; gives those that were there.

    Raises:
        ScheduleError: one is not this program's, or cannot be removed; in the first case nothing was removed.
    """
    refuse_others(paths)
    found = [path for path in paths if path.exists()]
    try:
        for path in found:
            path.unlink()
    except OSError as error:
        raise _failure(found[0].parent, error) from None
    return tuple(found)


def refuse_others(paths: Iterable[Path]) -> None:
    """Refuse to go on if one of the files is somebody else's, or was changed since.

    Raises:
        ScheduleError: one is.
    """
    for path in paths:
        found = whose(path)
        if found in (Whose.CHANGED, Whose.OTHERS):
            raise ScheduleError(
                f"{path} is {found}: it is left alone",
                hint=f"look at it, then move it away: mv {path} {path}.old",
            )


def _failure(folder: Path, error: OSError) -> ScheduleError:
    hint = "run it as root, or with --user for your own timers" if os.geteuid() else f"ls -ld {folder}"
    return ScheduleError(f"cannot write to {folder}: {error.strerror}", hint=hint)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


# -- a part of somebody else's file -------------------------------------------


def with_block(crontab: str, text: str | None) -> str:
    """Put this program's lines into a crontab in place of those that are there; None takes them out.

    Raises:
        ScheduleError: the lines that are there were changed by hand.
    """
    before, block, after = _parted(crontab)
    if block is not None and block[0] != f"{BEGIN}{_hash(block[1])}":
        raise ScheduleError(
            "the lines of kill-audit in the crontab were changed by hand: they are left alone",
            hint="take them out by `crontab -e`, from BEGIN to END",
        )
    if text is None:
        return before + after
    before += "\n" if before and not before.endswith("\n") else ""
    return f"{before}{BEGIN}{_hash(text)}\n{text}{END}\n{after}"


def block_of(crontab: str) -> str | None:
    """Give this program's lines of a crontab; None if there are none."""
    _, block, _ = _parted(crontab)
    return None if block is None else block[1]


def _parted(crontab: str) -> tuple[str, tuple[str, str] | None, str]:
    """Part a crontab into what stands before, the first line and the rest of the block, and what stands after."""
    before, begin, rest = crontab.partition(BEGIN)
    if not begin:
        return crontab, None, ""
    inside, end, after = rest.partition(f"{END}\n")
    if not end:
        raise ScheduleError("the lines of kill-audit in the crontab have no end", hint="look at them: crontab -e")
    first, _, lines = inside.partition("\n")
    return before, (begin + first, lines), after
