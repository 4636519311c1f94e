"""Settings from unit files and their drop-ins, for a file system whose systemd does not run.

systemd.unit(5), "Unit File Load Path" and "Description"; systemd.syntax(7). What a file does not set has systemd's
default; only the few settings of `UnitSettings` are looked at.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kill_audit import when
from kill_audit.errors import UsageError
from kill_audit.units.environment import environment_of
from kill_audit.units.settings import UnitSettings, unit_settings

LOAD_PATH: Final = (
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "etc/systemd/system.attached",
    "run/systemd/system",
    "run/systemd/system.attached",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
)
_CONFIGURATION: Final = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd")
_SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}
_LISTS: Final = frozenset({"ExecStart", "Environment", "EnvironmentFile"})
_LEVELS: Final = {
    name: str(level)
    for level, name in enumerate(("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"))
}
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_EXEC_PREFIXES: Final = "-@:+!|"

Section = Mapping[str, Sequence[str]]


def from_files(unit: str, root: Path) -> UnitSettings | None:
    """Read a unit's settings from the files below `root`; None if there is no file of it, or it is masked."""
    places = (_within(root / folder / name, root) for name in _names(unit) for folder in LOAD_PATH)
    fragment = next((place for place in places if place is not None), None)
    if fragment is None or not fragment.is_file() or not fragment.stat().st_size:  # an empty file masks a unit too
        return None
    service = _section("Service", [fragment, *_drop_ins(unit, root)])
    manager = configuration("system.conf", "Manager", root)
    environment = environment_of(
        (_specified(value, unit) for value in service.get("Environment", ())),
        (_specified(value, unit).removeprefix("-") for value in service.get("EnvironmentFile", ())),
        root,
    )
    starts = [_words(_specified(value, unit)) for value in service.get("ExecStart", ())]
    return unit_settings(unit, _properties(service, manager), starts, environment)


def configuration(name: str, section: str, root: Path) -> Section:
    """Read a section of one of systemd's own configurations, such as `journald.conf`, with its drop-ins.

    Args:
        name: of the file (systemd-system.conf(5), "Configuration Directories and Precedence").
        section: its name.
        root: the folder that the host's file system is mounted at.
    """
    main = next((path for folder in _CONFIGURATION if (path := root / folder / name).is_file()), None)
    drop_ins = _by_name(root, [f"{folder}/{name}.d" for folder in _CONFIGURATION])
    return _section(section, [*([main] if main is not None else []), *drop_ins])


# -- which files --------------------------------------------------------------


def _within(path: Path, root: Path) -> Path | None:
    """Follow a link as the system at `root` would; None if there is nothing. A link to /dev/null is a mask."""
    for _ in range(8):
        if not path.is_symlink():
            break
        target = path.readlink()
        path = root / str(target).lstrip("/") if target.is_absolute() else path.parent / target
        if target == Path("/dev/null"):
            return Path("/dev/null")
    return path if path.exists() else None


def _names(unit: str) -> tuple[str, ...]:
    """Give the file names of a unit: its own, and its template's."""
    stem, _, suffix = unit.rpartition(".")
    prefix, at, instance = stem.partition("@")
    return (unit, f"{prefix}@.{suffix}") if at and instance else (unit,)


def _drop_ins(unit: str, root: Path) -> list[Path]:
    """List a unit's drop-ins in their order: by file name, of two with one name the one that goes before."""
    stem, _, suffix = unit.rpartition(".")
    prefix = stem.partition("@")[0].split("-")
    truncated = ["-".join(prefix[:count]) + f"-.{suffix}" for count in range(len(prefix) - 1, 0, -1)]
    folders = [f"{folder}/{name}.d" for folder in LOAD_PATH for name in (*_names(unit), *truncated)]
    folders += [f"{folder}/{suffix}.d" for folder in LOAD_PATH]
    return _by_name(root, folders)


def _by_name(root: Path, folders: Sequence[str]) -> list[Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        place = root / folder
        for path in sorted(place.glob("*.conf")) if place.is_dir() else ():
            found.setdefault(path.name, path)
    return [found[name] for name in sorted(found) if found[name].is_file()]


# -- what they say ------------------------------------------------------------


def _section(name: str, files: Sequence[Path]) -> Section:
    """Read one section of several files, the later over the earlier; an empty value takes back what was set."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for section, key, value in _assignments(text):
            if section != name:
                continue
            if not value or key not in _LISTS:
                found[key].clear()
            if value:
                found[key].append(value)
    return {key: tuple(values) for key, values in found.items() if values}


def _assignments(text: str) -> Iterator[tuple[str, str, str]]:
    section, whole = "", ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):  # also between the lines of a value that goes on
            continue
        whole += line
        if whole.endswith("\\"):
            whole = whole[:-1] + " "
            continue
        content, whole = whole.strip(), ""
        if content.startswith("[") and content.endswith("]"):
            section = content[1:-1]
        elif "=" in content:
            key, _, value = content.partition("=")
            yield section, key.strip(), value.strip()


def _specified(text: str, unit: str) -> str:
    """Put a unit's own names in (systemd.unit(5), "Specifiers"); what only a running system knows stays."""
    stem, _, _ = unit.rpartition(".")
    prefix, _, instance = stem.partition("@")
    known = {"%": "%", "n": unit, "N": stem, "p": prefix, "P": prefix, "i": instance, "I": instance}
    parts = text.split("%%")
    for place, part in enumerate(parts):
        whole = part
        for letter, value in known.items():
            if letter != "%":
                whole = whole.replace(f"%{letter}", value)
        parts[place] = whole
    return "%".join(parts)


def _words(command: str) -> tuple[str, ...]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return (words[0].lstrip(_EXEC_PREFIXES), *words[1:]) if words else ()


def _properties(service: Section, manager: Section) -> dict[str, str]:
    """Bring what the files say to the form of `systemctl show`, with systemd's defaults."""

    def said(key: str, default: str) -> str:
        return service.get(key, (default,))[-1]

    timeout = said("TimeoutStopSec", said("TimeoutSec", manager.get("DefaultTimeoutStopSec", ("90s",))[-1]))
    delegated = said("Delegate", "no").lower() not in ("no", "false", "0", "off")
    policy = "continue" if delegated else manager.get("DefaultOOMPolicy", ("stop",))[-1]
    kill_signal = said("KillSignal", "SIGTERM")
    return {
        "Type": said("Type", "simple"),
        "KillMode": said("KillMode", "control-group"),
        "KillSignal": _signal(kill_signal),
        "RestartKillSignal": _signal(said("RestartKillSignal", kill_signal)),
        "FinalKillSignal": _signal(said("FinalKillSignal", "SIGKILL")),
        "SendSIGKILL": "no" if said("SendSIGKILL", "yes").lower() in ("no", "false", "0", "off") else "yes",
        "TimeoutStopUSec": _timeout(timeout),
        "OOMPolicy": said("OOMPolicy", policy),
        "MemoryMax": _bytes(said("MemoryMax", "infinity")),
        "Restart": said("Restart", "no"),
        "StandardOutput": said("StandardOutput", manager.get("DefaultStandardOutput", ("journal",))[-1]),
        "StandardError": said("StandardError", manager.get("DefaultStandardError", ("inherit",))[-1]),
        "LogNamespace": said("LogNamespace", ""),
        "LogLevelMax": _LEVELS.get(said("LogLevelMax", ""), said("LogLevelMax", "")),
        "LogRateLimitBurst": said("LogRateLimitBurst", "0"),
    }


def _signal(word: str) -> str:
    return word if word.isdecimal() else str(_SIGNALS.get(word.removeprefix("SIG"), ""))


def _timeout(text: str) -> str:
    """Write a time-out as systemctl does; systemd takes 0 for no time-out at all (systemd.service(5))."""
    try:
        span = when.span(text)
    except UsageError:
        return "infinity" if text == "infinity" else ""
    return when.human_span(span) if span else "infinity"


def _bytes(text: str) -> str:
    """Write a size in bytes; a share of the machine's memory, which is not known here, is left out."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in "KMGT" else (text, "")
    return str(int(float(number) * _SIZES[unit])) if number.replace(".", "", 1).isdecimal() else ""
