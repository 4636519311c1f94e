"""What PID 1, users' managers, logind, journald, coredump, oomd, earlyoom and sudo write, systemd 219 to 262.

Rules of this file: a record is known by its MESSAGE_ID and fields; wording is read only where systemd gives no id,
and in text that has lost its fields. The unit comes from `UNIT=`, never from a description (StatusUnitFormat= decides
what is printed). Who may say what is settled in `grammar.voice`; here it is taken as given.

Upstream files are those of the systemd repository.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kill_audit import events
from kill_audit.events import Seen
from kill_audit.grammar.pattern import Pattern, table
from kill_audit.grammar.signals import signal_number

Fields = Mapping[str, str]

# -- PID 1, by MESSAGE_ID (src/systemd/sd-messages.h) ----------------------


def _unit(fields: Fields, text: str) -> str | None:
    """Name the unit spoken about: the field, else the text's own prefix or v249's combined form (`x.service - X`)."""
    named = fields.get("UNIT") or fields.get("USER_UNIT")
    if named:
        return named
    match = _PREFIX.match(text) or _COMBINED.match(text)
    return match["unit"] if match else None


_PREFIX = re.compile(r"(?P<unit>[^\s:]+\.(?:service|scope|slice|timer|target|mount|socket)):? ")
_COMBINED = re.compile(r"(?:Starting|Started|Stopping|Stopped|Reloading|Reloaded|Finished) (?P<unit>\S+\.service) - ")


def _about(fields: Fields, text: str) -> dict[str, Any]:
    return {
        "unit": _unit(fields, text),
        "invocation_id": fields.get("INVOCATION_ID") or fields.get("USER_INVOCATION_ID"),
    }


def _started(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitStarted(seen=seen, **_about(fields, seen.text), job_id=fields.get("JOB_ID"))


def _stopping(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitStopping(seen=seen, **_about(fields, seen.text), job_id=fields.get("JOB_ID"))


def _stopped(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitStopped(
        seen=seen, **_about(fields, seen.text), job_id=fields.get("JOB_ID"), job_type=fields.get("JOB_TYPE")
    )


def _reloading(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitReloading(seen=seen, **_about(fields, seen.text))


def _exited(seen: Seen, fields: Fields) -> events.Event | None:
    """A main or control process's exit (src/core/unit.c unit_log_process_exit)."""
    status = fields.get("EXIT_STATUS", "")
    number = int(status) if status.isdecimal() else (signal_number(status) or 0)
    return _process_exit(seen, _about(fields, seen.text), fields.get("EXIT_CODE", "exited"), number)


def _process_exit(seen: Seen, about: dict[str, Any], code: str, status: int) -> events.Event | None:
    if _CONTROL.search(seen.text):
        killed = code in ("killed", "dumped")
        return events.ControlTimedOut(seen=seen, **about, status=status) if killed else None
    if "ondition check process" in seen.text:
        return None
    return events.MainExited(seen=seen, **about, code=code, status=status)


_CONTROL = re.compile(r"\b[Cc]ontrol process exited")


def _ended(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitEnded(seen=seen, **_about(fields, seen.text), result=fields.get("UNIT_RESULT", "unknown"))


def _succeeded(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitEnded(seen=seen, **_about(fields, seen.text), result="success")


def _restart(seen: Seen, fields: Fields) -> events.Event:
    return events.RestartScheduled(seen=seen, **_about(fields, seen.text))


def _oom(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitOutOfMemory(seen=seen, **_about(fields, seen.text))


def _oomd(seen: Seen, fields: Fields) -> events.Event:
    return events.UnitOomdKill(seen=seen, **_about(fields, seen.text))


MANAGER_IDS: Mapping[str, Callable[[Seen, Fields], events.Event | None]] = {
    "39f53479d3a045ac8e11786248231fbf": _started,  # SD_MESSAGE_UNIT_STARTED
    "de5b426a63be47a7b6ac3eaac82e2f6f": _stopping,  # SD_MESSAGE_UNIT_STOPPING
    "9d1aaa27d60140bd96365438aad20286": _stopped,  # SD_MESSAGE_UNIT_STOPPED
    "d34d037fff1847e6ae669a370e694725": _reloading,  # SD_MESSAGE_UNIT_RELOADING
    "98e322203f7a4ed290d09fe03c09fe15": _exited,  # SD_MESSAGE_UNIT_PROCESS_EXIT, v240
    "7ad2d189f7e94e70a38c781354912448": _succeeded,  # SD_MESSAGE_UNIT_SUCCESS, v240
    "d9b373ed55a64feb8242e02dbe79a49c": _ended,  # SD_MESSAGE_UNIT_FAILURE_RESULT, v240
    "5eb03494b6584870a536b337290809b3": _restart,  # SD_MESSAGE_UNIT_RESTART_SCHEDULED, v235
    "fe6faa94e7774663a0da52717891d8ef": _oom,  # SD_MESSAGE_UNIT_OUT_OF_MEMORY, v243
    "d989611b15e44c9dbf31e3c81256e4ed": _oomd,  # SD_MESSAGE_UNIT_OOMD_KILL, v247
}
"""What PID 1 says under an id; the ids of Starting, Reloaded and Skipped tell nothing here."""

_SILENT_IDS = frozenset(
    {
        "7d4958e842da4a758f6c1cdc7b36dcc5",  # SD_MESSAGE_UNIT_STARTING
        "be02cf6855d2428ba40df7e9d022f03d",  # SD_MESSAGE_UNIT_FAILED: a start job failed, so no worker ran
        "7b05ebc668384222baa8881179cfda54",  # SD_MESSAGE_UNIT_RELOADED
        "ae8f7b866b0347b9af31fe1c80b127c0",  # SD_MESSAGE_UNIT_RESOURCES
        "0e4284a0caca4bfc81c0bb6786972673",  # SD_MESSAGE_UNIT_SKIPPED
        "b07a249cd024414a82dd00cd181378ff",  # SD_MESSAGE_STARTUP_FINISHED
    }
)

# -- PID 1, by wording: records that never had an id, old versions, and text without fields


def _by_text(make: Callable[[re.Match[str], Seen, dict[str, Any]], events.Event | None]) -> Any:
    def made(match: re.Match[str], fields: Fields, seen: Seen) -> events.Event | None:
        return make(match, seen, _about(fields, seen.text))

    return made


_NAME = r"(?:(?P<of>\S+?):? )?"


def _state(match: re.Match[str]) -> str:
    return "stop" if match["stop"] else "runtime" if match["runtime"] else "after-sigkill"


MANAGER = table(
    Pattern(
        name="stop-timed-out",
        upstream="src/core/service.c service_dispatch_timer",
        regex=re.compile(
            rf"{_NAME}(?:State '(?P<state>[\w-]+)' timed out\.|(?P<stop>Stopping timed out|stopping timed out)\."
            r"|(?P<old>stop-(?:final-)?sig(?:term|abrt|kill)) timed out\."
            r"|(?P<runtime>Service reached runtime time limit)\."
            r"|(?P<still>(?:Processes )?still around after (?:final )?SIGKILL)\.)"
        ),
        make=_by_text(
            lambda match, seen, about: events.StopTimedOut(
                seen=seen, **about, state=match["state"] or match["old"] or _state(match)
            )
        ),
        samples=(
            "celery@a.service: State 'stop-sigterm' timed out. Killing.",
            "celery@a.service: State 'final-sigterm' timed out. Killing.",
            "celery@a.service: Stopping timed out. Terminating.",
            "celery.service stop-sigterm timed out. Killing.",
            "celery.service: Service reached runtime time limit. Stopping.",
        ),
        near_misses=("celery@a.service: Start operation timed out. Terminating.",),
    ),
    Pattern(
        name="process-killed",
        upstream="src/core/unit.c log_kill, v231 and later",
        regex=re.compile(
            rf"{_NAME}Killing process (?P<pid>\d+) \((?P<comm>.*)\) with signal (?P<signal>SIG\w+)\.\s*\Z"
        ),
        make=_by_text(
            lambda match, seen, about: events.ProcessKilled(
                seen=seen, **about, pid=int(match["pid"]), signal=signal_number(match["signal"])
            )
        ),
        samples=("celery@a.service: Killing process 6035 (celery) with signal SIGKILL.",),
        near_misses=("Killing process 6035",),
    ),
    Pattern(
        name="signal-sent",
        upstream="src/core/unit.c unit_kill_common, kill_common_log, unit_kill, v247 and later",
        regex=re.compile(
            rf"{_NAME}(?:Sen(?:t|ding) signal (?P<signal>SIG\w+) to (?P<whom>main process|control process|process) "
            r"(?P<pid>\d+)(?: \(.*\))?|Killed unit cgroup(?: '.*')? with (?P<group>SIG\w+)) on client request\.\s*\Z"
        ),
        make=_by_text(
            lambda match, seen, about: events.SignalSent(
                seen=seen,
                **about,
                pid=int(match["pid"]) if match["pid"] else None,
                signal=signal_number(match["signal"] or match["group"]),
                main=match["whom"] == "main process",
            )
        ),
        samples=(
            "celery@a.service: Sent signal SIGKILL to main process 483 (celery) on client request.",
            "celery@a.service: Sending signal SIGKILL to process 491 (celery) on client request.",
            "celery@a.service: Killed unit cgroup with SIGKILL on client request.",
        ),
        near_misses=("celery@a.service: Sent signal SIGKILL to main process 483 (celery).",),
    ),
    Pattern(
        name="watchdog",
        upstream="src/core/service.c service_dispatch_watchdog, service_force_watchdog",
        regex=re.compile(rf"{_NAME}[Ww]atchdog (?:timeout \(limit|request \()"),
        make=_by_text(lambda _match, seen, about: events.WatchdogTimeout(seen=seen, **about)),
        samples=("celery.service: Watchdog timeout (limit 30s)!", "celery.service watchdog timeout (limit 3min)!"),
        near_misses=("celery.service: Watchdog is fine",),
    ),
    Pattern(
        name="process-exited",
        upstream="src/core/service.c service_sigchld_event, v219 to v239; later with an id",
        regex=re.compile(
            rf"{_NAME}[Mm]ain process exited, code=(?P<code>\w+), status=(?P<status>\d+)(?:/\S+)?"
            r"(?: \(success\))?\s*\Z"
        ),
        make=_by_text(lambda match, seen, about: _process_exit(seen, about, match["code"], int(match["status"]))),
        samples=(
            "celery.service: Main process exited, code=killed, status=9/KILL",
            "celery.service: main process exited, code=dumped, status=6/ABRT",
        ),
        near_misses=("celery.service: Control process exited, code=exited status=1",),
    ),
    Pattern(
        name="control-killed",
        upstream="src/core/service.c service_sigchld_event, unit.c unit_log_process_exit",
        regex=re.compile(rf"{_NAME}[Cc]ontrol process exited, code=(?:killed|dumped),? status=(?P<status>\d+)"),
        make=_by_text(
            lambda match, seen, about: events.ControlTimedOut(seen=seen, **about, status=int(match["status"]))
        ),
        samples=("celery.service: Control process exited, code=killed, status=15/TERM",),
        near_misses=("celery.service: Control process exited, code=exited status=1",),
    ),
    Pattern(
        name="failed",
        upstream="src/core/service.c service_enter_dead, v220 to v239; later with an id; v219 names no result",
        regex=re.compile(
            r"(?:(?P<of>\S+): Failed with result '(?P<result>[\w-]+)'\.|Unit (?P<old>\S+) entered failed state\.)"
        ),
        make=_by_text(
            lambda match, seen, about: events.UnitEnded(
                seen=seen,
                unit=about["unit"] or match["of"] or match["old"],
                invocation_id=about["invocation_id"],
                result=match["result"] or "unknown",
            )
        ),
        samples=("celery.service: Failed with result 'timeout'.", "Unit celery.service entered failed state."),
        near_misses=("Failed with result 'timeout'.",),
    ),
    Pattern(
        name="succeeded",
        upstream="src/core/unit.c unit_log_success, in text without ids",
        regex=re.compile(r"(?P<of>\S+): (?:Succeeded|Deactivated successfully)\.\s*\Z"),
        make=_by_text(
            lambda match, seen, about: events.UnitEnded(
                seen=seen, unit=about["unit"] or match["of"], invocation_id=about["invocation_id"], result="success"
            )
        ),
        samples=("inventory-worker.service: Succeeded.", "celery@a.service: Deactivated successfully."),
        near_misses=("Succeeded.",),
    ),
    Pattern(
        name="restart-scheduled",
        upstream="src/core/service.c service_enter_restart, v219 to v234 without an id",
        regex=re.compile(
            r"(?P<of>\S+?):? (?:Service )?"
            r"(?:(?:hold-?off time|holdoff time|RestartSec=\S+) (?:over|expired), scheduling restart"
            r"|Scheduled restart job)"
        ),
        make=_by_text(
            lambda match, seen, about: events.RestartScheduled(
                seen=seen, unit=about["unit"] or match["of"], invocation_id=about["invocation_id"]
            )
        ),
        samples=(
            "celery.service holdoff time over, scheduling restart.",
            "celery.service: Service hold-off time over, scheduling restart.",
            "celery.service: Service RestartSec=1s expired, scheduling restart.",
            "celery.service: Scheduled restart job, restart counter is at 7.",
        ),
        near_misses=("celery.service: Stop job pending for unit, delaying automatic restart.",),
    ),
    Pattern(
        name="out-of-memory",
        upstream="src/core/unit.c unit_check_oom, in text without ids",
        regex=re.compile(
            r"(?P<of>\S+): (?:A process of this unit has been killed by the OOM killer"
            r"|The kernel OOM killer killed some processes in this unit)\."
        ),
        make=_by_text(
            lambda match, seen, about: events.UnitOutOfMemory(
                seen=seen, unit=about["unit"] or match["of"], invocation_id=about["invocation_id"]
            )
        ),
        samples=(
            "celery.service: A process of this unit has been killed by the OOM killer.",
            "celery.service: The kernel OOM killer killed some processes in this unit.",
        ),
        near_misses=("A process has been killed by the OOM killer.",),
    ),
    Pattern(
        name="oomd-kill",
        upstream="src/core/unit.c unit_check_oomd_kill, in text without ids",
        regex=re.compile(r"(?P<of>\S+): systemd-oomd killed (?:\d+|some) process"),
        make=_by_text(
            lambda match, seen, about: events.UnitOomdKill(
                seen=seen, unit=about["unit"] or match["of"], invocation_id=about["invocation_id"]
            )
        ),
        samples=("celery.service: systemd-oomd killed 3 process(es) in this unit.",),
        near_misses=("systemd-oomd killed 3 process(es)",),
    ),
    Pattern(
        name="manager-stops",
        upstream="src/core/main.c: PID 1's last line of an orderly shutdown",
        regex=re.compile(r"Shutting down\.\s*\Z"),
        make=lambda _match, _fields, seen: events.HostShutdown(seen=seen),
        samples=("Shutting down.",),
        near_misses=("Shutting down the shop.",),
    ),
    Pattern(
        name="shutdown-requested",
        upstream="src/core/dbus-manager.c log_caller, v257 and later",
        regex=re.compile(r"(?:Exit|Reboot|Soft reboot|Poweroff|Halt|Kexec) requested from (?:unknown )?client PID"),
        make=lambda _match, _fields, seen: events.HostShutdown(seen=seen),
        samples=("Reboot requested from client PID 812 ('systemctl') (unit session-3.scope)...",),
        near_misses=("Reload requested from client PID 812 ('systemctl') (unit session-3.scope)...",),
    ),
    Pattern(
        name="job-text",
        upstream="src/core/job.c job_emit_start_message, job_emit_done_message, in text without ids",
        regex=re.compile(
            r"(?P<verb>Stopping|Stopped|Started|Reloading) (?:\(with error\) )?(?P<what>\S.*?)"
            r"(?: with error)?\.(?:\.\.)?\s*\Z"
        ),
        make=_by_text(lambda match, seen, about: _JOB_TEXT[match["verb"]](seen=seen, **about)),
        samples=("Stopping Storage Celery Workers...", "Stopped Storage Celery Workers.", "Started Celery worker."),
        near_misses=("Stopping",),
    ),
)

_JOB_TEXT: Mapping[str, Callable[..., events.Event]] = {
    "Stopping": events.UnitStopping,
    "Stopped": events.UnitStopped,
    "Started": events.UnitStarted,
    "Reloading": events.UnitReloading,
}
_NOT_A_UNIT = re.compile(
    r"(?:Stopped|Started|Stopping|Reloading) (?:target|slice|\S+\.(?:target|slice|timer|mount|socket)) "
)


def manager(seen: Seen, fields: Fields) -> events.Event | None:
    """Recognise what PID 1 or a user's manager says."""
    if seen.origin.vouched and seen.pid != 1:  # a user's manager speaks of that user's units only
        if "USER_UNIT" not in fields:
            return None
        fields = {name: value for name, value in fields.items() if name not in ("UNIT", "INVOCATION_ID")}
    message_id = fields.get("MESSAGE_ID", "")
    make = MANAGER_IDS.get(message_id)
    if make is not None:
        return make(seen, fields)
    if message_id in _SILENT_IDS:
        return None
    found = MANAGER.find(seen.text)
    if found is None:
        return None
    if found[0].name == "job-text" and (seen.origin.vouched or _NOT_A_UNIT.match(seen.text)):
        return None  # with fields, a job's record has its id; without one it is something else
    made: events.Event | None = found[0].make(found[1], fields, seen)
    return made


# -- others of systemd's house --------------------------------------------

SHUTDOWN_ID = "98268866d1d54a499c4e98921d93bc40"  # SD_MESSAGE_SHUTDOWN, logind
COREDUMP_ID = "fc2e22bc6ee647b6b90729ab34a250b1"  # SD_MESSAGE_COREDUMP
JOURNAL_START_ID = "f77379a8490b408bbe5f6940505a777b"
JOURNAL_STOP_ID = "d93fb3c9c24d451a97cea615ce59c00b"
SUPPRESSED_ID = "a596d6fe7bfa4994828e72309e95d61e"  # SD_MESSAGE_JOURNAL_DROPPED
MISSED_ID = "e9bf28e6e834481bb6f48f548ad13606"  # SD_MESSAGE_JOURNAL_MISSED

_SUPPRESSED = re.compile(r"Suppressed (?P<n>\d+) messages from (?P<from>\S+)")
_MISSED = re.compile(r"Missed (?P<n>\d+) kernel messages")
_LOGIND = re.compile(r"System is (?:powering (?:down|off)|rebooting|halting)")


def logind(seen: Seen, fields: Fields) -> events.Event | None:
    """Recognise logind's word that the machine goes down (src/login/logind-dbus.c); a soft reboot ends units too."""
    if fields.get("MESSAGE_ID") == SHUTDOWN_ID or (not seen.origin.vouched and _LOGIND.match(seen.text)):
        return events.HostShutdown(seen=seen)
    return None


def journald(seen: Seen, fields: Fields) -> events.Event | None:
    """Recognise what journald says of lost lines and of itself (src/journal/journald-*.c)."""
    message_id = fields.get("MESSAGE_ID")
    match = _SUPPRESSED.match(seen.text)
    if message_id == SUPPRESSED_ID or match:
        dropped = fields.get("N_DROPPED") or (match["n"] if match else "")
        unit = fields.get("OBJECT_SYSTEMD_UNIT") or (match["from"].rsplit("/", 1)[-1] if match else None)
        return events.Suppressed(seen=seen, unit=unit, count=int(dropped) if dropped.isdecimal() else None)
    if message_id == MISSED_ID:
        match = _MISSED.match(seen.text)
        return events.MissedKernelLines(seen=seen, count=int(match["n"]) if match else None)
    if message_id == JOURNAL_START_ID:
        return events.JournalStarted(seen=seen)
    if message_id == JOURNAL_STOP_ID:
        return events.JournalStopped(seen=seen)
    return None


def coredump(seen: Seen, fields: Fields) -> events.Event | None:
    """Recognise a core dump's record (src/coredump/coredump.c); pool processes have one too."""
    if fields.get("MESSAGE_ID") != COREDUMP_ID or not fields.get("COREDUMP_PID", "").isdecimal():
        return None
    return events.CoreDumped(
        seen=seen,
        unit=fields.get("COREDUMP_USER_UNIT") or fields.get("COREDUMP_UNIT"),
        pid=int(fields["COREDUMP_PID"]),
        signal=signal_number(fields.get("COREDUMP_SIGNAL", "")),
    )


_OOMD = re.compile(r"(?:Killed|Marked) (?P<cgroup>/\S+)(?: for killing)? due to (?:memory|swap)")
_EARLYOOM = re.compile(r"sending SIG(?:TERM|KILL) to process (?P<pid>\d+) ")


def oom_daemon(seen: Seen, _fields: Fields) -> events.Event | None:
    """Recognise systemd-oomd's (src/oom/oomd-manager.c) and earlyoom's (kill.c) word on whom they chose."""
    match = _OOMD.match(seen.text)
    if match:
        return events.OomDaemonKill(
            seen=seen, daemon="systemd-oomd", unit=match["cgroup"].rstrip(":").rsplit("/", 1)[-1], pid=None
        )
    match = _EARLYOOM.match(seen.text)
    if match:
        return events.OomDaemonKill(seen=seen, daemon="earlyoom", unit=None, pid=int(match["pid"]))
    return None


_SUDO = re.compile(r"\s*(?P<user>\S+) : (?!.*\bcommand not allowed\b).*?\bCOMMAND=(?P<command>.+)\Z", re.DOTALL)


def sudo(seen: Seen, _fields: Fields) -> events.Event | None:
    """Recognise a command run through sudo (sudoers(5), log format); a refused one killed nothing."""
    match = _SUDO.match(seen.text)
    return events.SudoCommand(seen=seen, user=match["user"], command=match["command"]) if match else None


_SUPERVISOR = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ )?(?:INFO|WARN) (?:"
    r"(?P<how>exited|stopped): (?P<ended>\S+) "
    r"\((?:terminated by (?P<signal>SIG\w+)(?P<core> \(core dumped\))?|exit status (?P<code>\d+))(?:;[^)]*)?\)"
    r"|spawned: '(?P<spawned>\S+)' with pid \d+\Z"
    r"|waiting for (?P<waited>\S+) to (?:stop|die)\Z"
    r"|killing '(?P<killed>\S+)' \(\d+\) with SIGKILL\Z)"
)
SUPERVISORS_WORDS = ("exited: ", "stopped: ", "spawned: ", "waiting for ", "killing ")
"""What a line of supervisord's begins with, behind its stamp and level."""


def supervisor(seen: Seen) -> tuple[events.UnitEvent, ...]:
    """Recognise what supervisord says of a program, which in text stands for a unit (supervisor/process.py).

    In a journal it is a service's own words, which prove nothing about any unit.
    """
    match = None if seen.origin.vouched else _SUPERVISOR.match(seen.text)
    if match is None:
        return ()
    if match["spawned"]:
        return (events.UnitStarted(seen=seen, unit=match["spawned"]),)
    if match["waited"]:
        return (events.UnitStopping(seen=seen, unit=match["waited"]),)
    if match["killed"]:
        return (events.StopTimedOut(seen=seen, unit=match["killed"], state="stopwaitsecs"),)
    program, code = match["ended"], "exited" if match["code"] else "dumped" if match["core"] else "killed"
    status = int(match["code"]) if match["code"] else signal_number(match["signal"]) or 0
    exited = events.MainExited(seen=seen, unit=program, code=code, status=status)
    return (exited, events.UnitStopped(seen=seen, unit=program)) if match["how"] == "stopped" else (exited,)
