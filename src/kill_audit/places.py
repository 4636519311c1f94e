"""The folders for what is kept between runs, as systemd and the XDG Base Directory Specification name them."""

import os
from collections.abc import Mapping
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
    if first := environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(first)
    if _is_root(root):
        return _STATE_OF_THE_SYSTEM
    try:
        return platformdirs.user_state_path("kill-audit", appauthor=False)
    except RuntimeError:  # a user without a home, as a service's may be
        return None


def cache_directory(environ: Mapping[str, str], *, root: bool | None = None) -> Path | None:
    """Name the folder of what may be lost, in the same way: `$CACHE_DIRECTORY` goes first."""
    if first := environ.get("CACHE_DIRECTORY", "").partition(":")[0]:
        return Path(first)
    if _is_root(root):
        return _CACHE_OF_THE_SYSTEM
    try:
        return platformdirs.user_cache_path("kill-audit", appauthor=False)
    except RuntimeError:
        return None


def _is_root(root: bool | None) -> bool:
    return os.geteuid() == 0 if root is None else root
