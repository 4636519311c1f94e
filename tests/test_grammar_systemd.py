"""Records of systemd 219 to 262 and its neighbours: each is recognised by its id, or its wording where it has none.

A row is a kind of record, named after the constant of its MESSAGE_ID in src/systemd/sd-messages.h, or after the
function that writes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import COREDUMP, EARLYOOM, JOURNALD, LOGIND, MANAGER, OOMD, SUDO, Journal, recognised
from kill_audit import events
from kill_audit.entry import Origin
from kill_audit.events import Event

UNIT = "celery@a.service"
ABOUT = {"UNIT": UNIT, "INVOCATION_ID": "5d0f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record with what it must be recognised as (None: nothing), and some of its values."""

    text: str
    fields: Mapping[str, str] = field(default_factory=lambda: ABOUT)
    kind: type[Event] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = MANAGER


def record(text: str, kind: type[Event] | None, /, message_id: str | None = None, **values: Any) -> Record:
    """PID 1's record about the unit; names in capitals are fields of it, the others are what must be read from it."""
    fields = {**ABOUT, **{name: value for name, value in values.items() if name.isupper()}}
    if message_id is not None:
        fields["MESSAGE_ID"] = message_id
    return Record(
        text=text,
        fields=fields,
        kind=kind,
        values={"unit": UNIT, **{name: value for name, value in values.items() if not name.isupper()}},
    )


def of(
    origin: Origin, text: str, kind: type[Event] | None, fields: Mapping[str, str] | None = None, **values: Any
) -> Record:
    """Another program's record."""
    return Record(text=text, fields=fields or {}, kind=kind, values=values, origin=origin)


STARTED, STOPPING = "39f53479d3a045ac8e11786248231fbf", "de5b426a63be47a7b6ac3eaac82e2f6f"
STOPPED, RELOADING = "9d1aaa27d60140bd96365438aad20286", "d34d037fff1847e6ae669a370e694725"
EXITED, SUCCESS = "98e322203f7a4ed290d09fe03c09fe15", "7ad2d189f7e94e70a38c781354912448"
FAILURE, RESTART = "d9b373ed55a64feb8242e02dbe79a49c", "5eb03494b6584870a536b337290809b3"
OUT_OF_MEMORY, OOMD_KILL = "fe6faa94e7774663a0da52717891d8ef", "d989611b15e44c9dbf31e3c81256e4ed"
SHUTDOWN, CORE = "98268866d1d54a499c4e98921d93bc40", "fc2e22bc6ee647b6b90729ab34a250b1"

ROWS: dict[str, tuple[Record, ...]] = {
    # 1.2 jobs
    "UNIT_STARTED": (
        record("Started celery@a.service - Celery.", events.UnitStarted, STARTED, JOB_ID="11", job_id="11"),
        record("Finished Celery clean-up.", events.UnitStarted, STARTED),
    ),
    "UNIT_STOPPING": (
        record("Stopping celery@a.service - Celery...", events.UnitStopping, STOPPING, JOB_ID="10", job_id="10"),
        record("Stopping Celery...", events.UnitStopping, STOPPING, job_id=None),  # v219 to v239
    ),
    "UNIT_STOPPED": (
        record("Stopped Celery.", events.UnitStopped, STOPPED, JOB_TYPE="stop", JOB_RESULT="done", job_type="stop"),
        record("Stopped Celery.", events.UnitStopped, STOPPED, JOB_TYPE="restart", job_type="restart"),
        record("Stopped Celery.", events.UnitStopped, STOPPED, RESULT="done", job_type=None),  # v219 to v234
        record("Stopped Celery with error.", events.UnitStopped, STOPPED, JOB_TYPE="stop", JOB_RESULT="failed"),
        record("Timed out stopping Celery.", events.UnitStopped, STOPPED, JOB_TYPE="stop", JOB_RESULT="timeout"),
        record("Timed out stoppping Celery.", events.UnitStopped, STOPPED, RESULT="timeout"),  # v219 to v229
    ),
    "UNIT_RELOADING": (record("Reloading Celery...", events.UnitReloading, RELOADING),),
    # 1.3 exits
    "UNIT_PROCESS_EXIT": (
        record(
            f"{UNIT}: Main process exited, code=killed, status=9/KILL",
            events.MainExited,
            EXITED,
            EXIT_CODE="killed",
            EXIT_STATUS="9",
            code="killed",
            status=9,
        ),
        record(
            f"{UNIT}: Main process exited, code=dumped, status=6/ABRT",
            events.MainExited,
            EXITED,
            EXIT_CODE="dumped",
            EXIT_STATUS="6",
            code="dumped",
            status=6,
        ),
        record(
            f"{UNIT}: Main process exited, code=exited, status=1/FAILURE",
            events.MainExited,
            EXITED,
            EXIT_CODE="exited",
            EXIT_STATUS="1",
            code="exited",
            status=1,
        ),
        record(
            f"{UNIT}: Control process exited, code=killed, status=15/TERM",
            events.ControlTimedOut,
            EXITED,
            EXIT_CODE="killed",
            EXIT_STATUS="15",
            COMMAND="ExecStop",
            status=15,
        ),
        record(
            f"{UNIT}: Control process exited, code=exited, status=1/FAILURE",
            None,
            EXITED,
            EXIT_CODE="exited",
            EXIT_STATUS="1",
            COMMAND="ExecStop",
        ),
        record(
            f"{UNIT}: Condition check process exited, code=exited, status=1/FAILURE",
            None,
            EXITED,
            EXIT_CODE="exited",
            EXIT_STATUS="1",
        ),
    ),
    "service_sigchld_event": (
        record(
            f"{UNIT}: main process exited, code=killed, status=9/KILL",
            events.MainExited,  # v219
            EXIT_CODE="killed",
            EXIT_STATUS="9",
            code="killed",
            status=9,
        ),
        record(
            f"{UNIT}: Main process exited, code=dumped, status=11/SEGV", events.MainExited, code="dumped", status=11
        ),
        record(f"{UNIT}: Control process exited, code=killed status=15", events.ControlTimedOut, status=15),
        record(f"{UNIT}: Control process exited, code=exited status=1", None),
    ),
    # 1.4 the end of a run
    "UNIT_SUCCESS": (
        record(f"{UNIT}: Succeeded.", events.UnitEnded, SUCCESS, result="success"),  # v240 to v247
        record(f"{UNIT}: Deactivated successfully.", events.UnitEnded, SUCCESS, result="success"),
    ),
    "UNIT_FAILURE_RESULT": tuple(
        record(f"{UNIT}: Failed with result '{result}'.", events.UnitEnded, FAILURE, UNIT_RESULT=result, result=result)
        for result in (
            "timeout",
            "signal",
            "core-dump",
            "exit-code",
            "oom-kill",
            "watchdog",
            "start-limit-hit",
            "resources",
            "protocol",
        )
    ),
    "service_enter_dead": (
        record(f"{UNIT}: Failed with result 'timeout'.", events.UnitEnded, result="timeout"),  # v220 to v239
        record(f"Unit {UNIT} entered failed state.", events.UnitEnded),  # v219 names no result
    ),
    # 1.5 restarts
    "UNIT_RESTART_SCHEDULED": (
        record(
            f"{UNIT}: Scheduled restart job, restart counter is at 7.",
            events.RestartScheduled,
            RESTART,
            N_RESTARTS="7",
        ),
        record(
            f"{UNIT}: Scheduled restart job immediately on client request, restart counter is at 7.",
            events.RestartScheduled,
            RESTART,
        ),
    ),
    "service_enter_restart": (
        record(f"{UNIT} holdoff time over, scheduling restart.", events.RestartScheduled),
        record(f"{UNIT}: Service hold-off time over, scheduling restart.", events.RestartScheduled),
        record(f"{UNIT}: Service RestartSec=100ms expired, scheduling restart.", events.RestartScheduled),
    ),
    # 1.6 timeouts, kills, the watchdog
    "service_dispatch_timer": (
        *(
            record(f"{UNIT}: State '{state}' timed out. {what}.", events.StopTimedOut, state=state)
            for state, what in (
                ("stop-sigterm", "Killing"),
                ("stop-sigterm", "Skipping SIGKILL"),
                ("stop-sigterm", "Aborting"),
                ("stop-sigabrt", "Terminating"),
                ("stop-watchdog", "Terminating"),
                ("stop-watchdog", "Killing"),
                ("stop-post", "Terminating"),
                ("stop-final-sigterm", "Killing"),
                ("final-sigterm", "Killing"),
                ("final-watchdog", "Killing"),
            )
        ),
        *(
            record(f"{UNIT}: Stopping timed out. {what}.", events.StopTimedOut, state="stop")
            for what in ("Terminating", "Aborting", "Killing", "Skipping SIGKILL")
        ),
        record(f"{UNIT} stop-sigterm timed out. Killing.", events.StopTimedOut, state="stop-sigterm"),  # v219
        record(f"{UNIT} stopping timed out. Terminating.", events.StopTimedOut, state="stop"),
        record(f"{UNIT} stop-final-sigterm timed out. Killing.", events.StopTimedOut, state="stop-final-sigterm"),
        record(f"{UNIT}: Service reached runtime time limit. Stopping.", events.StopTimedOut, state="runtime"),
        record(f"{UNIT}: Start operation timed out. Terminating.", None),
        record(f"{UNIT}: start operation timed out. Terminating.", None),
        record(f"{UNIT}: Reload operation timed out. Killing reload process.", None),
    ),
    "service_dispatch_watchdog": (
        record(f"{UNIT} watchdog timeout (limit 3min)!", events.WatchdogTimeout),  # v219
        record(f"{UNIT}: Watchdog timeout (limit 30s)!", events.WatchdogTimeout),
        record(f"{UNIT}: Watchdog request (last status: Busy)!", events.WatchdogTimeout),
    ),
    "log_kill": (
        record(
            f"{UNIT}: Killing process 6035 (celery) with signal SIGKILL.", events.ProcessKilled, pid=6035, signal=9
        ),
        record(
            f"{UNIT}: Killing process 6035 ([celeryd: celer) with signal SIGABRT.",
            events.ProcessKilled,
            pid=6035,
            signal=6,
        ),
        record(f"{UNIT}: Killing process 6035 (a (b) c) with signal SIGKILL.", events.ProcessKilled, pid=6035),
    ),
    "unit_kill_common": (
        record(
            f"{UNIT}: Sent signal SIGTERM to main process 483 (celery) on client request.",
            events.SignalSent,
            pid=483,
            signal=15,
            main=True,
        ),
        record(
            f"{UNIT}: Sent signal SIGTERM to control process 484 (sh) on client request.",
            events.SignalSent,
            pid=484,
            signal=15,
            main=False,
        ),
        record(
            f"{UNIT}: Sending signal SIGKILL to process 491 (celery) on client request.",
            events.SignalSent,
            pid=491,
            signal=9,
            main=False,
        ),
    ),
    "unit_kill": (
        record(f"{UNIT}: Killed unit cgroup with SIGKILL on client request.", events.SignalSent, pid=None, signal=9),
        record(
            f"{UNIT}: Killed unit cgroup '/system.slice/{UNIT}' with SIGKILL on client request.",
            events.SignalSent,
            pid=None,
            signal=9,
        ),
    ),
    # 1.7 out of memory
    "UNIT_OUT_OF_MEMORY": (
        record(
            f"{UNIT}: A process of this unit has been killed by the OOM killer.", events.UnitOutOfMemory, OUT_OF_MEMORY
        ),
        record(
            f"{UNIT}: The kernel OOM killer killed some processes in this unit.", events.UnitOutOfMemory, OUT_OF_MEMORY
        ),
    ),
    "UNIT_OOMD_KILL": (
        record(f"{UNIT}: systemd-oomd killed 3 process(es) in this unit.", events.UnitOomdKill, OOMD_KILL),
        record(f"{UNIT}: systemd-oomd killed some process(es) in this unit.", events.UnitOomdKill, OOMD_KILL),
    ),
    "oomd-manager": tuple(
        of(OOMD, text, events.OomDaemonKill, daemon="systemd-oomd", unit=UNIT, pid=None)
        for text in (
            f"Killed /system.slice/{UNIT} due to memory pressure for /system.slice being 74.32% > 60.00% for > 20s",
            f"Killed /system.slice/{UNIT} due to swap used (9) / total (10) being more than 90.00%",
            f"Killed /system.slice/{UNIT} due to memory used (9) / total (10) and swap used (9) / total (10)",
            f"Marked /system.slice/{UNIT} for killing due to memory pressure for /system.slice being 74.32% > 60.00%",
        )
    ),
    "earlyoom": (
        of(
            EARLYOOM,
            'sending SIGTERM to process 2056 uid 33 "celery": oom_score 801, VmRSS 1200 MiB',
            events.OomDaemonKill,
            daemon="earlyoom",
            pid=2056,
        ),
        of(
            EARLYOOM,
            'sending SIGKILL to process 2056 uid 33 "celery": badness 801, VmRSS 1200 MiB',
            events.OomDaemonKill,
            daemon="earlyoom",
            pid=2056,
        ),
        of(EARLYOOM, "mem avail: 1200 of 7900 MiB (15.19%), swap free: 0 of 0 MiB (0.00%)", None),
    ),
    # 1.8 the machine
    "SHUTDOWN": (
        of(LOGIND, "System is rebooting.", events.HostShutdown, {"MESSAGE_ID": SHUTDOWN, "SHUTDOWN": "reboot"}),
        of(LOGIND, "System is powering down. (tea)", events.HostShutdown, {"MESSAGE_ID": SHUTDOWN}),
    ),
    "manager_shuts_down": (
        Record(text="Shutting down.", fields={}, kind=events.HostShutdown),
        Record(
            text="Reboot requested from client PID 812 ('systemctl') (unit session-3.scope)...",
            fields={},
            kind=events.HostShutdown,
        ),
        Record(text="Poweroff requested from unknown client PID...", fields={}, kind=events.HostShutdown),
        Record(text="Soft reboot requested from client PID 8 ('x') (unit y)...", fields={}, kind=events.HostShutdown),
        Record(text="Reload requested from client PID 812 ('systemctl') (unit session-3.scope)...", fields={}),
        Record(text="Reexecution requested from client PID 812 ('systemctl') (unit session-3.scope)...", fields={}),
        Record(text="Reloading requested from client PID 812 ('systemctl') (unit session-3.scope)...", fields={}),
    ),
    # 2.2 who asked
    "sudo": (
        of(
            SUDO,
            "   alice : TTY=pts/0 ; PWD=/home/alice ; USER=root ; COMMAND=/usr/bin/kill -9 483",
            events.SudoCommand,
            user="alice",
            command="/usr/bin/kill -9 483",
        ),
        of(
            SUDO,
            "  deploy : PWD=/srv ; USER=root ; ENV=A=b ; COMMAND=/usr/bin/systemctl kill celery@a",
            events.SudoCommand,
            user="deploy",
            command="/usr/bin/systemctl kill celery@a",
        ),
        of(SUDO, "   alice : command not allowed ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/kill 1", None),
        of(SUDO, "pam_unix(sudo:session): session opened for user root(uid=0) by alice(uid=1000)", None),
    ),
    # 4.4 core dumps
    "COREDUMP": (
        of(
            COREDUMP,
            "Process 483 (celery) of user 33 dumped core.\n\nStack trace of thread 483:",
            events.CoreDumped,
            {"MESSAGE_ID": CORE, "COREDUMP_PID": "483", "COREDUMP_UNIT": UNIT, "COREDUMP_SIGNAL": "11"},
            pid=483,
            unit=UNIT,
            signal=11,
        ),
        of(
            COREDUMP,
            "Process 483 (celery) of user 33 terminated abnormally without generating a coredump.",
            events.CoreDumped,
            {"MESSAGE_ID": CORE, "COREDUMP_PID": "483", "COREDUMP_USER_UNIT": "w.service", "COREDUMP_SIGNAL": "6"},
            unit="w.service",
            signal=6,
        ),
        of(COREDUMP, "Process 483 (celery) of user 33 terminated abnormally with signal 11/SEGV, processing...", None),
    ),
    # 5.1, 5.2 journald about its own evidence
    "JOURNAL_DROPPED": (
        of(
            JOURNALD,
            f"Suppressed 1990 messages from {UNIT}",
            events.Suppressed,
            {"MESSAGE_ID": "a596d6fe7bfa4994828e72309e95d61e", "N_DROPPED": "1990", "OBJECT_SYSTEMD_UNIT": UNIT},
            unit=UNIT,
            count=1990,
        ),
        of(
            JOURNALD,
            f"Suppressed 120 messages from /system.slice/{UNIT}",
            events.Suppressed,  # v219 to v234
            {"MESSAGE_ID": "a596d6fe7bfa4994828e72309e95d61e"},
            unit=UNIT,
            count=120,
        ),
    ),
    "JOURNAL_MISSED": (
        of(
            JOURNALD,
            "Missed 12 kernel messages",
            events.MissedKernelLines,
            {"MESSAGE_ID": "e9bf28e6e834481bb6f48f548ad13606"},
            count=12,
        ),
    ),
    "JOURNAL_START": (
        of(JOURNALD, "Journal started", events.JournalStarted, {"MESSAGE_ID": "f77379a8490b408bbe5f6940505a777b"}),
    ),
    "JOURNAL_STOP": (
        of(JOURNALD, "Journal stopped", events.JournalStopped, {"MESSAGE_ID": "d93fb3c9c24d451a97cea615ce59c00b"}),
    ),
}
"""The kinds of record that are read."""

NOT_READ: dict[str, tuple[str, tuple[Record, ...]]] = {
    "UNIT_STARTING": (
        "what counts is that the start is done, or the worker's own banner",
        (record("Starting Celery...", None, "7d4958e842da4a758f6c1cdc7b36dcc5"),),
    ),
    "UNIT_FAILED": (
        "a start that failed: no worker ran",
        (record("Failed to start Celery.", None, "be02cf6855d2428ba40df7e9d022f03d"),),
    ),
    "UNIT_RELOADED": (
        "UNIT_RELOADING and the worker's own lines tell of a reload",
        (record("Reloaded Celery.", None, "7b05ebc668384222baa8881179cfda54"),),
    ),
    "UNIT_SKIPPED": (
        "no process ran",
        (record(f"{UNIT}: Skipped due to 'exec-condition'.", None, "0e4284a0caca4bfc81c0bb6786972673"),),
    ),
    "UNIT_RESOURCES": (
        "a sum of resources",
        (record(f"{UNIT}: Consumed 1.2s CPU time.", None, "ae8f7b866b0347b9af31fe1c80b127c0"),),
    ),
    "STARTUP_FINISHED": (
        "about the machine's start",
        (record("Startup finished in 2s (kernel) + 3s (userspace) = 5s.", None, "b07a249cd024414a82dd00cd181378ff"),),
    ),
    "job_log": (
        "the time-out or failure itself has its own record",
        (
            record(f"Job {UNIT}/stop timed out.", None),
            record(f"Job {UNIT}/start failed with result 'dependency'.", None),
        ),
    ),
    "conditions": ("no process ran", (record("Celery was skipped because of an unmet condition check.", None),)),
    "start_limit": (
        "the unit does not start again; why the last run ended was said before",
        (
            record(f"start request repeated too quickly for {UNIT}", None),
            record(f"{UNIT}: Start request repeated too quickly.", None),
        ),
    ),
    "restart_delayed": (
        "a stop is on its way, and has its own records",
        (
            record(f"{UNIT}: Stop job pending for unit, delaying automatic restart.", None),
            record(f"{UNIT}: Stop job pending for unit, skipping automatic restart.", None),
        ),
    ),
    "leftovers": (
        "processes that a stop did not reach go on writing under their own invocation, and are followed there",
        (
            record(
                f"{UNIT}: Found left-over process 174 (celery) in control group while starting unit. Ignoring.", None
            ),
            record(f"{UNIT}: Unit process 174 (celery) remains running after unit stopped.", None),
        ),
    ),
    "KILL_MODE_NONE": (
        "about a setting",
        (record(f"{UNIT}: Unit uses KillMode=none.", None, "c772d24e9a884cbeb9ea12625c306c01"),),
    ),
    "SPAWN_FAILED": (
        "no process of a worker ran",
        (record(f"{UNIT}: Failed at step EXEC spawning /opt/celery", None, "641257651c1b4ec9a8624d7a40a9e1e7"),),
    ),
    "SHUTDOWN_SCHEDULED": (
        "only a plan",
        (of(LOGIND, "The system will reboot at 13:00!", None, {"MESSAGE_ID": "9e7066279dc8403da79ce4b1a69064b2"}),),
    ),
    "clocks": (
        "the journal's monotonic clock orders what matters here",
        (
            record("Time has been changed", None, "c7a787079b354eaaa9e77b371893cd27"),
            record("Changed the time zone.", None, "45f82f4aef7a4bbf942ce861d1f20990"),
        ),
    ),
    "sessions": (
        "who was logged in is no proof of who killed",
        (of(LOGIND, "New session 3 of user alice.", None, {"MESSAGE_ID": "8d45620c1a4348dbb17410da57c60c66"}),),
    ),
    "FORWARD_SYSLOG_MISSED": (
        "the journal itself is whole",
        (
            of(
                JOURNALD,
                "Forwarding to syslog missed 3 messages.",
                None,
                {"MESSAGE_ID": "0027229ca0644181a76c4e92458afa2e"},
            ),
        ),
    ),
    "JOURNAL_USAGE": (
        "sizes; where entries begin shows what was vacuumed",
        (of(JOURNALD, "System Journal is 8M, max 4G.", None, {"MESSAGE_ID": "ec387f577b844b8fa948f33cad9a75e6"}),),
    ),
}
"""The kinds of record that nothing is made of, and why."""


def said(one: Record, *, pid: int | None = None) -> tuple[Any, ...]:
    """What the grammar makes of a record; PID 1 is 1, others have some other number."""
    if pid is None:
        pid = 1 if one.origin is MANAGER else 600
    return recognised(Journal().write(one.text, one.origin, pid=pid, **one.fields))


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=f"{row}-{place}") for row, found in ROWS.items() for place, one in enumerate(found)]
)
def test_read(one: Record) -> None:
    """A record is recognised as what it is, with the unit from UNIT= and never from the description."""
    spoken = said(one)
    assert [type(each) for each in spoken] == ([] if one.kind is None else [one.kind])
    for each in spoken:
        assert {name: getattr(each, name) for name in one.values} == one.values
        if "INVOCATION_ID" in one.fields:
            assert each.invocation_id == "5d0f"


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, id=f"{row}-{i}") for row, (_, found) in NOT_READ.items() for i, one in enumerate(found)],
)
def test_not_read(one: Record) -> None:
    """Nothing is made of a record that is left alone for a reason."""
    assert said(one) == ()


def test_reasons() -> None:
    """Each kind of record that is left alone has a reason, and none is read besides."""
    assert all(reason for reason, _ in NOT_READ.values())
    assert not NOT_READ.keys() & ROWS.keys()


@pytest.mark.parametrize(
    "text",
    [
        "Processes still around after SIGKILL. Ignoring.",
        "Processes still around after final SIGKILL. Entering failed mode.",
    ],
)
def test_still_around(text: str) -> None:
    """Processes that outlive SIGKILL are told of in a stop; the record does not begin one as RuntimeMaxSec does."""
    assert all(one.state != "runtime" for one in said(record(f"{UNIT}: {text}", events.StopTimedOut)))


def test_user_manager() -> None:
    """A user's manager speaks by USER_UNIT= and USER_INVOCATION_ID=."""
    manager = Origin(
        transport="journal",
        identifier="systemd",
        exe="/usr/lib/systemd/systemd",
        comm="systemd",
        uid=1000,
        unit="user@1000.service",
    )
    one = Record(
        text="Stopping Celery...",
        origin=manager,
        fields={"MESSAGE_ID": STOPPING, "USER_UNIT": "w.service", "USER_INVOCATION_ID": "77"},
    )
    (stopping,) = said(one, pid=4000)
    assert (type(stopping), stopping.unit, stopping.invocation_id) == (events.UnitStopping, "w.service", "77")


STATUS_FORMATS = [
    "Stopping Celery worker a...",
    "Stopping celery@a.service...",
    "Stopping celery@a.service - Celery...",
]


@pytest.mark.parametrize("text", STATUS_FORMATS)
def test_status_unit_format(text: str) -> None:
    """Whatever StatusUnitFormat= makes of the text, the unit is that of UNIT=, also where the text names another."""
    (stopping,) = said(record(text, events.UnitStopping, STOPPING))
    assert stopping.unit == UNIT
    other = Record(text=text, fields={**ABOUT, "UNIT": "b.service", "MESSAGE_ID": STOPPING})
    assert said(other)[0].unit == "b.service"


TEXT = Origin(identifier="systemd", vouched=False)


@pytest.mark.parametrize(
    ("text", "kind", "unit"),
    [
        ("Stopping celery@a.service - Celery worker a...", events.UnitStopping, "celery@a.service"),
        ("Stopped celery@a.service - Celery worker a.", events.UnitStopped, "celery@a.service"),
        ("Started celery@a.service - Celery worker a.", events.UnitStarted, "celery@a.service"),
        ("Stopping Celery worker a...", events.UnitStopping, None),
        ("celery@a.service: Succeeded.", events.UnitEnded, "celery@a.service"),
        ("celery@a.service: Failed with result 'oom-kill'.", events.UnitEnded, "celery@a.service"),
        ("celery@a.service: Main process exited, code=killed, status=9/KILL", events.MainExited, "celery@a.service"),
        (
            "celery@a.service: A process of this unit has been killed by the OOM killer.",
            events.UnitOutOfMemory,
            "celery@a.service",
        ),
        ("celery@a.service: systemd-oomd killed 3 process(es) in this unit.", events.UnitOomdKill, "celery@a.service"),
    ],
)
def test_text_without_fields(text: str, kind: type[Event], unit: str | None) -> None:
    """In a text file the wording has to do, and the unit is read from it where it is named."""
    journal = Journal(vouched=False)
    (spoken,) = recognised(journal.write(text, TEXT, pid=1))
    assert (type(spoken), getattr(spoken, "unit", None)) == (kind, unit)


@pytest.mark.parametrize(
    "text", ["Stopped target Multi-User System.", "Stopped celery.timer - Every hour.", "Stopping."]
)
def test_text_of_other_units(text: str) -> None:
    """Targets and timers are no services: their stops are nothing."""
    journal = Journal(vouched=False)
    assert recognised(journal.write(text, TEXT, pid=1)) == ()


SUPERVISOR: dict[str, tuple[tuple[type[events.UnitEvent], ...], tuple[str, int] | None]] = {
    "INFO exited: celery (terminated by SIGKILL; not expected)": ((events.MainExited,), ("killed", 9)),
    "2026-11-30 12:00:00,123 WARN exited: celery (terminated by SIGSEGV (core dumped); not expected)": (
        (events.MainExited,),
        ("dumped", 11),
    ),
    "2026-11-30 12:00:00,123 INFO exited: celery (exit status 0; expected)": ((events.MainExited,), ("exited", 0)),
    "WARN exited: celery (exit status 1; not expected)": ((events.MainExited,), ("exited", 1)),
    "2026-11-30 12:00:00,123 INFO waiting for celery to stop": ((events.UnitStopping,), None),
    "2026-11-30 12:00:00,123 WARN killing 'celery' (100) with SIGKILL": ((events.StopTimedOut,), None),
    "INFO stopped: celery (terminated by SIGKILL)": ((events.MainExited, events.UnitStopped), ("killed", 9)),
    "INFO stopped: celery (exit status 0)": ((events.MainExited, events.UnitStopped), ("exited", 0)),
    "2026-11-30 12:00:00,123 INFO spawned: 'celery' with pid 100": ((events.UnitStarted,), None),
    "2026-11-30 12:00:00,123 INFO success: celery entered RUNNING state": ((), None),
}


@pytest.mark.parametrize(
    ("text", "kinds", "status"),
    [(text, *told) for text, told in SUPERVISOR.items()],
    ids=range(len(SUPERVISOR)),
)
def test_supervisord(text: str, kinds: tuple[type[events.UnitEvent], ...], status: tuple[str, int] | None) -> None:
    """In text supervisord's programs stand for units: how they start, stop, are killed and end."""
    journal = Journal(vouched=False)
    found = recognised(journal.write(text, Origin(vouched=False)))
    assert [(type(event), event.unit) for event in found if isinstance(event, events.UnitEvent)] == [
        (kind, "celery") for kind in kinds
    ]
    exits = [(event.code, event.status) for event in found if isinstance(event, events.MainExited)]
    assert exits == ([] if status is None else [status])


def test_supervisords_words_in_a_journal() -> None:
    """In a journal a service may print whatever it likes: the words of supervisord prove nothing about a unit."""
    assert recognised(Journal().chatter(next(iter(SUPERVISOR)), unit="evil.service")) == ()
