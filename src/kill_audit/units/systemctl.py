"""Ask this host's systemd about units, or read their files where there is only a file system."""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kill_audit.units.environment import environment_of
from kill_audit.units.files import from_files
from kill_audit.units.settings import PROPERTIES, UnitSettings, exec_words, shown_units, unit_settings

TIMEOUT_S: Final = 20
_AT_ONCE: Final = 200  # units in one call, so that their names fit in a command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Settings by the name of their unit; `why_not`: why there are none, or fewer than were asked for."""

    settings: Mapping[str, UnitSettings] = field(default_factory=dict)
    why_not: str | None = None


Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


def settings_of(units: Iterable[str], *, root: str | None = None, user: bool = False, run: Run | None = None) -> Found:
    """Give the settings of units: of this host by `systemctl show`, or of the file system mounted at `root`.

    Args:
        units: names, without patterns.
        root: read the unit files below this folder instead (systemctl cannot).
        user: ask the service manager of the user who runs this.
        run: runs systemctl with the words that it is given.

    A unit that systemd does not know is left out.
    """
    names = sorted({unit for unit in units if unit})
    if not names:
        return Found()
    if root is not None:
        found = (from_files(name, Path(root)) for name in names)
        return _found([one for one in found if one is not None], names, "no unit file")
    known: list[UnitSettings] = []
    for place in range(0, len(names), _AT_ONCE):
        words = ["--user"] if user else []
        words += ["show", "--no-pager", "--property", ",".join(PROPERTIES), "--", *names[place : place + _AT_ONCE]]
        try:
            done = (run or _systemctl)(words)
        except FileNotFoundError:
            return Found(why_not="systemctl is not installed")
        except subprocess.TimeoutExpired:
            return Found(why_not=f"systemctl gave no answer in {TIMEOUT_S} s")
        if done.returncode:
            said = (done.stderr.strip() or f"systemctl exited with status {done.returncode}").splitlines()[0]
            return Found(why_not=said)
        known += _known(done.stdout)
    return _found(known, names, "not known to systemd")


def machine_id(root: str | None = None) -> str | None:
    """Read machine-id(5) of this host, or of the one whose file system is mounted at `root`; None without one."""
    try:
        return Path(root or "/", "etc/machine-id").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _systemctl(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - a list of words, no shell
        ["systemctl", *words],  # noqa: S607 - wherever this host keeps it
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"},
    )


def _known(text: str) -> list[UnitSettings]:
    found = []
    for properties in shown_units(text):
        shown = {name: values[0] for name, values in properties.items()}
        if shown.get("LoadState") != "loaded" or not shown.get("Id"):
            continue
        files = (value.partition(" (")[0] for value in properties.get("EnvironmentFiles", ()))
        environment = environment_of(properties.get("Environment", ()), files, Path("/"))
        starts = [exec_words(value) for value in properties.get("ExecStart", ())]
        found.append(unit_settings(shown["Id"], shown, starts, environment))
    return found


def _found(known: Sequence[UnitSettings], names: Sequence[str], reason: str) -> Found:
    settings = {one.unit: one for one in known}
    missing = [name for name in names if name not in settings]
    return Found(settings=settings, why_not=f"{reason}: {', '.join(missing)}" if missing else None)
