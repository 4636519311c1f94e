"""The folders for what is kept between runs, as systemd and the XDG Base Directory Specification name them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import platformdirs

LEDGER: Final = "ledger.sqlite3"
_STATE_OF_THE_SYSTEM: Final = Path("/var/lib/kill-audit")
_CACHE_OF_THE_SYSTEM: Final = Path("/var/cache/kill-audit")


def state_directory(environ: Mapping[str, str], *, root: bool | None = None) -> Path | None:
    """Name the folder of what must not be lost; None where the user has no home.

    `$STATE_DIRECTORY` (systemd.exec(5) sets it for `StateDirectory=`; of several the first); for root the folder that
    the service has, so that `sudo kill-audit report` finds what the timer collected; else the user's own.

    Args:
        environ: the environment.
        root: whether the user is root; None looks.
    """
    return _directory("STATE_DIRECTORY", _STATE_OF_THE_SYSTEM, platformdirs.user_state_path, environ, root)


def cache_directory(environ: Mapping[str, str], *, root: bool | None = None) -> Path | None:
    """Name the folder of what may be lost, in the same way: `$CACHE_DIRECTORY` goes first."""
    return _directory("CACHE_DIRECTORY", _CACHE_OF_THE_SYSTEM, platformdirs.user_cache_path, environ, root)


def _directory(
    variable: str, of_the_system: Path, of_the_user: Callable[..., Path], environ: Mapping[str, str], root: bool | None
) -> Path | None:
    if first := environ.get(variable, "").partition(":")[0]:
        return Path(first)
    if os.geteuid() == 0 if root is None else root:
        return of_the_system
    try:
        return of_the_user("kill-audit", appauthor=False)
    except RuntimeError:  # a user without a home, as a service's may be
        return None
