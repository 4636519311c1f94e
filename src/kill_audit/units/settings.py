"""What systemd is told about a unit, as far as it matters to running tasks and to the journal.

Names and forms are those of `systemctl show` (systemd 252 and 257, systemd.kill(5), systemd.service(5)).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kill_audit import when
from kill_audit.entry import Micros
from kill_audit.errors import UsageError
from kill_audit.units.command import WorkerCommand, worker_command

PROPERTIES: Final = (
    "Id",
    "LoadState",
    "Type",
    "KillMode",
    "KillSignal",
    "RestartKillSignal",
    "FinalKillSignal",
    "SendSIGKILL",
    "TimeoutStopUSec",
    "OOMPolicy",
    "MemoryMax",
    "Restart",
    "ExecStart",
    "Environment",
    "EnvironmentFiles",
    "StandardOutput",
    "StandardError",
    "LogNamespace",
    "LogLevelMax",
    "LogRateLimitIntervalUSec",
    "LogRateLimitBurst",
    "NeedDaemonReload",
)
"""What is asked of `systemctl show`; a version that does not know one leaves it out."""

_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSettings:
    """A unit's settings; None where systemd is too old to have one, or says that it is not set.

    Signals are numbers. `timeout_stop`: as systemd writes it (`1min 30s`, `infinity`). `memory_max`: bytes, None
    without a limit. `log_level_max`: syslog's number, None without a limit. `commands`: the Celery workers that
    ExecStart starts. `remap_sigterm`: Celery's REMAP_SIGTERM in the unit's environment. `stale`: the files changed
    since systemd read them.
    """

    unit: str
    type: str | None = None
    kill_mode: str | None = None
    kill_signal: int | None = None
    restart_kill_signal: int | None = None
    final_kill_signal: int | None = None
    send_sigkill: bool | None = None
    timeout_stop: str | None = None
    oom_policy: str | None = None
    memory_max: int | None = None
    restart: str | None = None
    standard_output: str | None = None
    standard_error: str | None = None
    log_namespace: str | None = None
    log_level_max: int | None = None
    log_rate_limit_burst: int | None = None
    remap_sigterm: str | None = None
    stale: bool = False
    commands: tuple[WorkerCommand, ...] = ()

    @property
    def timeout_stop_s(self) -> float | None:
        """Seconds that a stop may take; infinity where it may take any."""
        if self.timeout_stop == "infinity":
            return math.inf
        span = _span(self.timeout_stop)
        return None if span is None else span / _SECOND

    @property
    def logs_to_files(self) -> bool:
        """Whether lines of a worker of its go to files, so that the journal has none of them."""
        return any(one.logs_to_files for one in self.commands)

    @property
    def log_files(self) -> tuple[str, ...]:
        """Patterns of the log files that its workers write to instead of the journal, for `--file`."""
        return tuple(dict.fromkeys(one.log_glob for one in self.commands if one.log_glob is not None))


def unit_settings(
    unit: str, shown: Mapping[str, str], starts: Sequence[Sequence[str]], environment: Mapping[str, str]
) -> UnitSettings:
    """Take a unit's settings from its properties.

    Args:
        unit: its name.
        shown: its properties by name, as `systemctl show` writes them.
        starts: the words of each ExecStart.
        environment: the variables that its processes start with.
    """

    def word(name: str) -> str | None:
        return shown.get(name) or None

    def number(name: str) -> int | None:
        text = shown.get(name, "")
        return int(text) if text.isdecimal() else None

    commands = (worker_command(argv, environment) for argv in starts)
    return UnitSettings(
        unit=unit,
        type=word("Type"),
        kill_mode=word("KillMode"),
        kill_signal=number("KillSignal"),
        restart_kill_signal=number("RestartKillSignal"),
        final_kill_signal=number("FinalKillSignal"),
        send_sigkill={"yes": True, "no": False}.get(shown.get("SendSIGKILL", "")),
        timeout_stop=word("TimeoutStopUSec"),
        oom_policy=word("OOMPolicy"),
        memory_max=number("MemoryMax"),
        restart=word("Restart"),
        standard_output=word("StandardOutput"),
        standard_error=word("StandardError"),
        log_namespace=word("LogNamespace"),
        log_level_max=number("LogLevelMax"),
        log_rate_limit_burst=number("LogRateLimitBurst"),
        remap_sigterm=environment.get("REMAP_SIGTERM"),
        stale=shown.get("NeedDaemonReload") == "yes",
        commands=tuple(command for command in commands if command is not None),
    )


# -- what `systemctl show` prints ---------------------------------------------

# systemctl-show.c, print_exec_command: the words stand unquoted, joined by blanks.
_EXEC: Final = re.compile(r"\{ path=.*? ; argv\[\]=(?P<argv>.*?) ; (?:ignore_errors|flags)=")


def shown_units(text: str) -> tuple[Mapping[str, Sequence[str]], ...]:
    """Take the output of `systemctl show` apart: for each unit its properties, with all values of one that repeats."""
    found: list[dict[str, list[str]]] = []
    fresh = True
    for line in text.splitlines():
        name, mark, value = line.partition("=")
        if not line:
            fresh = True
        elif mark and re.fullmatch(r"[A-Za-z0-9]+", name):
            if fresh:
                found.append({})
                fresh = False
            found[-1].setdefault(name, []).append(value)
    return tuple(found)


def exec_words(value: str) -> tuple[str, ...]:
    """Give the words of an ExecStart property, as far as blanks still part them."""
    found = _EXEC.match(value)
    return tuple(found["argv"].split()) if found is not None else ()


def _span(text: str | None) -> Micros | None:
    try:
        return None if text is None else when.span(text)
    except UsageError:
        return None
