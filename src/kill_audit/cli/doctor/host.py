"""What of this host matters besides its journal: its reader, its programs to unpack, journald's configuration."""

import grp
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module, util
from pathlib import Path

from kill_audit import when
from kill_audit.cli.doctor.check import Check
from kill_audit.entry import Micros
from kill_audit.errors import UsageError
from kill_audit.units import configuration

UNPACKERS = {"zstandard": ".zst", "lz4.frame": ".lz4", "lzma": ".xz", "bz2": ".bz2", "zlib": ".gz"}
QUIET_LEVELS = frozenset({"emerg", "alert", "crit", "err", "warning", "notice", "0", "1", "2", "3", "4", "5"})


def reader_check(*, needed: bool) -> Check:
    """Say what reads journal files; `needed`: columns cannot read one of them, or shall not."""
    if not needed:
        return Check(name="reader", state="ok", detail="columns read every journal file; libsystemd is not needed")
    from kill_audit.journal.native import import_reader  # loads libsystemd

    try:
        import_reader()
    except ImportError as error:
        journalctl = shutil.which("journalctl")
        return Check(
            name="reader",
            state="warn" if journalctl else "fail",
            detail=f"systemd-python cannot be imported ({error}); "
            + ("journalctl reads journal files instead, more slowly" if journalctl else "nothing here reads them"),
            fix="sudo apt-get install libsystemd-dev pkg-config gcc python3-dev && pip install systemd-python",
        )
    return Check(name="reader", state="ok", detail="systemd-python reads journal files")


def unpackers_check() -> Check:
    """Say whether packed files can be unpacked, and what libsystemd itself can."""
    missing = [ending for module, ending in UNPACKERS.items() if not _is_there(module)]
    lacking = [name for name in ("LZ4", "XZ", "ZSTD") if f"-{name}" in _features()]
    if missing or lacking:
        what = [f"files ending in {', '.join(missing)} cannot be unpacked"] if missing else []
        what += [f"systemd here is built without {', '.join(lacking)}"] if lacking else []
        return Check(
            name="unpackers",
            state="warn",
            detail="; ".join(what),
            fix="pip install zstandard lz4    (or journalctl -o export)",
        )
    return Check(name="unpackers", state="ok", detail="zstd, lz4, xz, bzip2 and gzip can be unpacked")


def _is_there(module: str) -> bool:
    try:
        return util.find_spec(module) is not None and import_module(module) is not None
    except ImportError:  # Python built without the library
        return False


def _features() -> frozenset[str]:
    """Give the features that systemd here was built with and without: `+ZSTD`, `-XZ`."""
    if shutil.which("journalctl") is None:
        return frozenset()
    done = subprocess.run(["journalctl", "--version"], check=False, capture_output=True, text=True, timeout=20)  # noqa: S607 - wherever this host keeps it
    return frozenset(done.stdout.split())


def groups_check() -> Check:
    """Say who this user is to the journal; whether files can be read is looked at with the files."""
    if os.geteuid() == 0:
        return Check(name="user", state="ok", detail="root reads every journal")
    names = []
    for group in {os.getegid(), *os.getgroups()}:
        try:
            names.append(grp.getgrgid(group).gr_name)
        except KeyError:
            names.append(str(group))
    reading = sorted({"systemd-journal", "adm", "wheel"} & set(names))
    if reading:
        return Check(name="user", state="ok", detail=f"this user is in the group {reading[0]}")
    return Check(
        name="user",
        state="warn",
        detail=f"this user is in none of the groups systemd-journal, adm, wheel (but in {', '.join(sorted(names))})",
        fix="sudo usermod -aG systemd-journal $(id -un)    (and log in again)",
    )


# -- journald.conf ------------------------------------------------------------


def journald_checks(root: str | None, reach: Micros) -> Iterator[Check]:
    """Say what journald.conf keeps. `reach`: microseconds that the window and its lead-in reach back from now."""
    said = configuration("journald.conf", "Journal", Path(root or "/"))
    found = [rule(said, reach) for rule in _RULES]
    wrong = [check for check in found if check is not None]
    yield from wrong
    if not wrong:
        set_ = ", ".join(f"{name}={values[-1]}" for name, values in sorted(said.items())) or "systemd's defaults"
        yield Check(name="journald.conf", state="ok", detail=set_)


def _storage(said: Mapping[str, Sequence[str]], _reach: Micros) -> Check | None:
    storage = said.get("Storage", ("auto",))[-1].lower()
    if storage not in ("none", "volatile"):
        return None
    what = "keeps nothing" if storage == "none" else "is lost at each reboot"
    return Check(
        name="journald.conf",
        state="fail" if storage == "none" else "warn",
        detail=f"Storage={storage}: the journal {what}",
        fix=_drop_in("Storage=persistent"),
    )


def _level(said: Mapping[str, Sequence[str]], _reach: Micros) -> Check | None:
    level = said.get("MaxLevelStore", ("debug",))[-1].lower()
    if level not in QUIET_LEVELS:
        return None
    return Check(
        name="journald.conf",
        state="fail",
        detail=f"MaxLevelStore={level}: the workers' lines, which are of level info, are not kept",
        fix=_drop_in("MaxLevelStore=debug"),
    )


def _age(said: Mapping[str, Sequence[str]], reach: Micros) -> Check | None:
    text = said.get("MaxRetentionSec", ("0",))[-1]
    try:
        kept = when.span(text)
    except UsageError:
        return None
    if not 0 < kept < reach:
        return None
    return Check(
        name="journald.conf",
        state="warn",
        detail=f"MaxRetentionSec={text}: less than the {when.human_span(reach)} of the window and its lead-in",
        fix=_drop_in("MaxRetentionSec=0"),
    )


_RULES: tuple[Callable[[Mapping[str, Sequence[str]], Micros], Check | None], ...] = (_storage, _level, _age)


def _drop_in(line: str) -> str:
    return (
        f"sudo mkdir -p /etc/systemd/journald.conf.d && printf '[Journal]\\n{line}\\n' | "
        "sudo tee /etc/systemd/journald.conf.d/60-kill-audit.conf && sudo systemctl restart systemd-journald"
    )
