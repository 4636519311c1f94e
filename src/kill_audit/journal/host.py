"""This host's own journal: which files it consists of, and which of them this user may read.

Places: systemd-journald.service(8), "Files". journalctl reads a host's files through one handle, which asks every file
for each entry; here they are sources of their own, read side by side.

sd_journal_open(3) silently leaves out what the user may not read, so that whoever is no member of the group
systemd-journal sees a healthy, empty host. Here that is a problem, or an error if nothing is left.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kill_audit.entry import Problem
from kill_audit.errors import SourceError
from kill_audit.journal.files import (
    MAY_READ,
    FileSource,
    Found,
    ProblemSource,
    distinct,
    journal_files,
    journal_folders,
    without_some,
)
from kill_audit.journal.opening import Kind

_THIS_HOST: Final = "/"
_PERSISTENT: Final = "var/log/journal"
_VOLATILE: Final = "run/log/journal"
_HIDDEN: Final = (
    "{hidden} of its {all} journal files may not be read by this user, who is not in the group systemd-journal: "
    "what is left can look like a healthy, empty host"
)
_ONLY_VOLATILE: Final = (
    "the journal is kept in memory only, so that nothing from before the last boot is left; "
    "to keep it: mkdir /var/log/journal, or Storage=persistent in journald.conf"
)


def open_host(
    *, user: bool = False, namespace: str | None = None, merge: bool = False, root: str | None = None
) -> tuple[Found, ...]:
    """Find the files of this host's journal, one source each.

    Unlike journalctl it reads the namespaces of this machine too when none is named, and the default namespace along
    with one that is: a service with `LogNamespace=` writes its lines to one, and PID 1 what became of it to the other.

    Args:
        user: only the journal of the user who runs this (`journalctl --user`).
        namespace: the default one and this one only; `*` means all of them, as None does.
        merge: also other machines' journals that are kept here (`-m`), such as systemd-journal-remote(8) keeps.
        root: the folder that the host's file system is mounted at (`--root`); its machines are all read.

    Raises:
        SourceError: there is no journal, or this user may not read any of it.
    """
    top = Path(_THIS_HOST if root is None else root)
    machine = None if merge or root is not None else _machine_id(top)
    persistent = _places(top / _PERSISTENT, machine, namespace, merge=merge)
    volatile = _places(top / _VOLATILE, machine, namespace, merge=merge)
    found: list[Path] = []
    sources: list[Found] = []
    for place in (*persistent, *volatile):
        files, readable = _files(place, user=user)
        found += files
        sources += [FileSource(name=str(path), path=str(path), kind=Kind.JOURNAL) for path in readable]
        if len(readable) < len(files):
            sources.append(_hidden(place, len(files) - len(readable), len(files)))
        elif not user:  # one user's files are not the whole log
            sources += without_some(place, files)
    _refuse_nothing(top, found, sources, user=user)
    if not any(path.is_relative_to(top / _PERSISTENT) for path in found):
        sources.append(_problem(top / _VOLATILE, "volatile", _ONLY_VOLATILE))
    return tuple(distinct(sources))


def _machine_id(top: Path) -> str | None:
    """Read machine-id(5); None where there is none, as in some containers: then all machines' folders are read."""
    try:
        return (top / "etc/machine-id").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _places(journal: Path, machine: str | None, namespace: str | None, *, merge: bool) -> list[Path]:
    """List the folders to look into: those of the machine (of all, if None) and of the namespaces."""
    try:
        folders = journal_folders(journal)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        return [journal]
    chosen = [folder for folder in folders if _chosen(folder.name, machine, namespace)]
    remote = journal / "remote"
    return [*chosen, *([remote] if merge and remote.is_dir() else [])]


def _chosen(name: str, machine: str | None, namespace: str | None) -> bool:
    of_machine, _, of_namespace = name.partition(".")
    if machine is not None and of_machine != machine:
        return False
    return namespace in (None, "*") or of_namespace in ("", (namespace or "").removeprefix("+"))


def _files(place: Path, *, user: bool) -> tuple[list[Path], list[Path]]:
    """List the journal files of a folder, and those of them that may be read.

    A folder that may not be listed counts as one file that may not be read.
    """
    try:
        files = journal_files(place)
    except PermissionError:
        return [place], []
    if user:
        own = re.compile(rf"user-{os.getuid()}(?:@.*)?\.journal~?")
        files = [path for path in files if own.fullmatch(path.name)]
    return files, [path for path in files if os.access(path, os.R_OK)]


def _refuse_nothing(top: Path, found: Sequence[Path], sources: Sequence[Found], *, user: bool) -> None:
    places = f"{top / _PERSISTENT} or {top / _VOLATILE}"
    if not found and user:
        raise SourceError(
            f"there is no journal of user {os.getuid()} in {places}",
            hint="a user's lines may be in the system's journal: try it without --user",
        )
    if not found:
        raise SourceError(
            f"there is no journal in {places}",
            hint="is systemd-journald running (journalctl -n 1)? Else give journals as --file or -D",
        )
    if not any(isinstance(source, FileSource) for source in sources):
        raise SourceError("this user may not read any file of this host's journal", hint=MAY_READ)


def _hidden(place: Path, hidden: int, total: int) -> ProblemSource:
    return _problem(place, "no-permission", _HIDDEN.format(hidden=hidden, all=total))


def _problem(place: Path, code: str, detail: str) -> ProblemSource:
    return ProblemSource(name=str(place), problems=(Problem(code=code, detail=detail),))
