"""The programs that know schedules: systemctl, systemd-analyze, crontab."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kill_audit.schedule.failures import ScheduleError

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a program said, and its exit status."""

    status: int
    out: str
    err: str


def run(words: Sequence[str], text: str | None = None) -> Said | None:
    """Run a program; None if it is not installed.

    Raises:
        ScheduleError: it cannot be run, or does not end.
    """
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - words of this room
            list(words),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScheduleError(f"{words[0]}: {error}", hint=f"try it by hand: {' '.join(words)}") from None
    return Said(status=done.returncode, out=done.stdout, err=done.stderr)


def next_run(calendar: str) -> str | None:
    """Tell when a calendar event happens next, as systemd-analyze says it; None without that program.

    Raises:
        ScheduleError: it is no calendar event, or never happens.
    """
    said = run(("systemd-analyze", "calendar", "--iterations=1", "--", calendar))
    if said is None:
        return None
    told = dict(line.strip().split(": ", 1) for line in said.out.splitlines() if ": " in line)
    elapse = told.get("Next elapse", "never")
    if said.status != 0 or elapse == "never":
        reason = (said.err.strip() or "it never happens").splitlines()[0]
        raise ScheduleError(
            f"{calendar!r} is no calendar event: {reason}",
            hint="write it as 'Mon 08:00', or 'Mon 08:00 Europe/Berlin'; see systemd.time(7), \"Calendar events\"",
        )
    return elapse


def manager_runs(environ: Mapping[str, str], *, user: bool) -> bool:
    """Whether systemd (the user's, or the system's) is there to be told of new units (sd_booted(3))."""
    if user:
        return Path(environ.get("XDG_RUNTIME_DIR", "/nonexistent"), "systemd").is_dir()
    return Path("/run/systemd/system").is_dir()


def tell_manager(words: Sequence[str], *, user: bool) -> None:
    """Run systemctl.

    Raises:
        ScheduleError: it refused.
    """
    command = ("systemctl", *(("--user",) if user else ()), *words)
    said = run(command)
    if said is None or said.status != 0:
        reason = "is not installed" if said is None else (said.err.strip() or f"ended with {said.status}")
        raise ScheduleError(f"systemctl {reason}", hint=f"try it by hand: {' '.join(command)}")


def crontab() -> str:
    """Read the user's crontab; empty if there is none.

    Raises:
        ScheduleError: there is no cron, or it refuses this user.
    """
    said = run(("crontab", "-l"))
    if said is None:
        raise ScheduleError("there is no crontab program here", hint="apt-get install cron, or leave out --cron")
    if said.status != 0 and "no crontab" not in said.err:
        raise ScheduleError(f"crontab -l: {said.err.strip()}", hint="see who may use cron: crontab(1)")
    return said.out if said.status == 0 else ""


def replace_crontab(text: str) -> None:
    """Replace the user's crontab; an empty one is taken away.

    Raises:
        ScheduleError: cron refuses it; the one that was there is still there.
    """
    said = run(("crontab", "-"), text) if text.strip() else run(("crontab", "-r"))
    if said is None or said.status != 0:
        raise ScheduleError(
            f"crontab: {said.err.strip() if said else 'is not there'}", hint="try it by hand: crontab -e"
        )
