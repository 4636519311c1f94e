"""Trust: any local user can write any message; only what journald itself vouches for says who wrote it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import (
    COREDUMP,
    EARLYOOM,
    EVERYTHING,
    KERNEL,
    LOGGER,
    LOGIND,
    MANAGER,
    OOMD,
    SUDO,
    Journal,
    Unit,
    audited,
    findings,
    recognised,
)
from kill_audit.entry import Origin
from kill_audit.grammar.voice import Voice, voice_of

UNIT = "celery@a.service"
STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
CORE = "fc2e22bc6ee647b6b90729ab34a250b1"
SHUTDOWN = "98268866d1d54a499c4e98921d93bc40"
OOM_MESSAGE = "fe6faa94e7774663a0da52717891d8ef"
VICTIM = "Memory cgroup out of memory: Killed process 101 (celery) total-vm:1kB, anon-rss:1kB, file-rss:1kB"
EXIT = (
    "[2026-11-30 12:00:00,000: ERROR/MainProcess] Process 'ForkPoolWorker-2' pid:102 exited with 'signal 9 (SIGKILL)'"
)
LOSS = (
    "[2026-11-30 12:00:00,000: ERROR/MainProcess] Task handler raised error: "
    "WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 1.')"
)
SENT = f"{UNIT}: Sending signal SIGKILL to process 101 (celery) on client request."
KILL = "  mallory : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/kill -9 101"

Forge = Callable[[Journal, Unit], object]


def scene(forge: Forge | None = None) -> Journal:
    """Two tasks run, one process dies by an unknown hand at 12:00:10; a second before, somebody may forge."""
    journal = Journal()
    unit = journal.unit()
    unit.received("t1", "t2")
    unit.speaks("t1", 1)
    unit.speaks("t2", 2)
    journal.at(9)
    if forge is not None:
        forge(journal, unit)
    journal.at(10)
    unit.dies(1, 0)
    journal.at(20)
    unit.succeeded("t2", 2, 20)
    return journal


def by(origin: Origin, text: str, /, pid: int = 7000, **fields: str) -> Forge:
    """Let a process of this origin write a text."""

    def forge(journal: Journal, _unit: Unit) -> object:
        return journal.write(text, origin, pid=pid, **fields)

    return forge


def as_child(text: str) -> Forge:
    """Let the second pool process print a text."""

    def forge(_journal: Journal, unit: Unit) -> object:
        return unit.bare(text, unit.pid(2))

    return forge


def in_own_line(text: str) -> Forge:
    """Let a task log a text as Celery's task logger does."""

    def forge(_journal: Journal, unit: Unit) -> object:
        return unit.speaks("t2", 2, text)

    return forge


def anybody(**changed: object) -> Origin:
    """A process of a user's session."""
    return replace(LOGGER, **changed)  # type: ignore[arg-type]


HOLDS: dict[str, Forge] = {
    "a stop by logger with UNIT=": by(LOGGER, "Stopping Celery...", MESSAGE_ID=STOPPING, UNIT=UNIT),
    "a stop by logger that calls itself systemd": by(
        anybody(identifier="systemd", comm="systemd"), "Stopping Celery...", MESSAGE_ID=STOPPING, UNIT=UNIT
    ),
    "a stop by another service with UNIT=": by(
        Origin(transport="journal", unit="evil.service", exe="/usr/bin/python3.11", comm="python3", uid=33),
        "Stopping Celery...",
        MESSAGE_ID=STOPPING,
        UNIT=UNIT,
    ),
    "an OOM record by the worker's own unit": by(
        Origin(transport="journal", unit=UNIT, exe="/usr/bin/python3.11", comm="celery", uid=33),
        f"{UNIT}: A process of this unit has been killed by the OOM killer.",
        MESSAGE_ID=OOM_MESSAGE,
        UNIT=UNIT,
    ),
    "an OOM line by logger -t kernel": by(anybody(identifier="kernel", facility=0), VICTIM),
    "an OOM line written to /dev/kmsg": by(replace(KERNEL, facility=1, identifier="mallory"), VICTIM, pid=0),
    "an OOM line that journald wrote to /dev/kmsg": by(
        replace(KERNEL, facility=3, identifier="systemd-journald"), VICTIM
    ),
    "sudo by logger -t sudo": by(anybody(identifier="sudo", facility=10), KILL),
    "sudo by a process that only calls itself so": by(anybody(identifier="sudo", comm="sudo"), KILL),
    "earlyoom by logger -t earlyoom": by(
        anybody(identifier="earlyoom", comm="earlyoom"), 'sending SIGKILL to process 101 uid 33 "celery": badness 801'
    ),
    "oomd by logger -t systemd-oomd": by(
        anybody(identifier="systemd-oomd", comm="systemd-oomd"), f"Killed /system.slice/{UNIT} due to memory pressure"
    ),
    "a core dump by another unit": by(
        Origin(transport="journal", unit="evil.service", exe="/usr/bin/python3.11", comm="python3", uid=33),
        "Process 101 (celery) of user 33 dumped core.",
        MESSAGE_ID=CORE,
        COREDUMP_PID="101",
        COREDUMP_UNIT=UNIT,
        COREDUMP_SIGNAL="9",
    ),
    "a shutdown by logger": by(LOGGER, "System is rebooting.", MESSAGE_ID=SHUTDOWN, SHUTDOWN="reboot"),
    "a death by logger": by(LOGGER, EXIT),
    "a loss by logger": by(LOGGER, LOSS),
    "a loss by a line without unit, process or stream": by(anybody(unit=None, comm=None, exe=None, uid=None), LOSS),
    "a cold shutdown by logger": by(LOGGER, "worker: Cold shutdown (MainProcess)"),
    "a child that imitates the main process's exit line": as_child(EXIT),
    "a child that imitates the main process's loss line": as_child(LOSS),
    "a child that imitates a cold shutdown": as_child("worker: Cold shutdown (MainProcess)"),
    "a child that imitates a hard time limit": as_child(
        "[2026-11-30 12:00:00,000: ERROR/MainProcess] Hard time limit (2s) exceeded for shop.tasks.ring[t1]"
    ),
    "a child that imitates a banner": as_child(" -------------- a@web1 v5.7.0 (codename)"),
    "a child that imitates ready": as_child("[2026-11-30 12:00:00,000: INFO/MainProcess] a@web1 ready."),
    "a loss in a task's own line": in_own_line(
        "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 1.')"
    ),
    "a traceback in a task's own line": in_own_line(
        "Traceback (most recent call last):\ncelery.exceptions.WorkerTerminate: 1\n"
        "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 15 (SIGTERM) Job: 1."
    ),
    "a shutdown's exception in a child's traceback": as_child("celery.exceptions.WorkerTerminate: 1"),
    "sudo at a path of the user's own": by(replace(SUDO, exe="/home/mallory/sudo"), KILL),
    "earlyoom at a path of the user's own": by(
        replace(EARLYOOM, exe="/home/mallory/earlyoom", uid=1000),
        'sending SIGKILL to process 101 uid 33 "celery": badness 801',
    ),
    "oomd at a path of the user's own": by(
        replace(OOMD, exe="/tmp/systemd-oomd", uid=1000),  # noqa: S108 -- a path as data
        f"Killed /system.slice/{UNIT} due to memory pressure for /system.slice being 74.32% > 60.00%",
    ),
    "logind at a path of the user's own": by(
        replace(LOGIND, exe="/home/mallory/systemd-logind", uid=1000), "System is rebooting.", MESSAGE_ID=SHUTDOWN
    ),
    "a core dump at a path of the user's own": by(
        replace(COREDUMP, exe="/home/mallory/systemd-coredump", uid=1000),
        "Process 101 (celery) of user 33 dumped core.",
        MESSAGE_ID=CORE,
        COREDUMP_PID="101",
        COREDUMP_UNIT=UNIT,
        COREDUMP_SIGNAL="9",
    ),
    "a user's manager at a path of the user's own": by(
        replace(MANAGER, uid=1000, unit="user@1000.service", exe="/home/mallory/systemd"), SENT, UNIT=UNIT
    ),
    "a user's manager that speaks of the system's unit": by(
        replace(MANAGER, uid=1000, unit="user@1000.service"), SENT, UNIT=UNIT
    ),
}
"""Forgeries that count for nothing."""


@pytest.mark.parametrize("forge", HOLDS.values(), ids=HOLDS.keys())
def test_forgery(forge: Forge) -> None:
    """A forged line changes no finding."""
    assert findings(audited(scene(forge))) == findings(audited(scene()))


def test_user_unit_of_the_same_name() -> None:
    """What a user's manager says of the user's own unit is not about the system's unit of the same name."""
    forge = by(replace(MANAGER, uid=1000, unit="user@1000.service"), SENT, USER_UNIT=UNIT)
    assert findings(audited(scene(forge))) == findings(audited(scene()))


def test_true_scene() -> None:
    """Without forgeries the scene holds one kill by an unknown hand."""
    document = audited(scene())
    assert [(kill.task.id, kill.cause, kill.child_pid) for kill in document.kills] == [("t1", "unknown", 101)]


def test_honest_words() -> None:
    """The same words count when the program that is known for them writes them."""
    words: dict[str, Forge] = {
        "manual-signal": by(SUDO, KILL),
        "oom-kernel": by(KERNEL, VICTIM, pid=0),
        "oom-systemd": by(EARLYOOM, 'sending SIGKILL to process 101 uid 33 "celery": badness 801'),
    }
    causes = {cause: [kill.cause for kill in audited(scene(forge)).kills] for cause, forge in words.items()}
    assert causes == {cause: [cause] for cause in words}


VOICES = [
    (MANAGER, 1, Voice.MANAGER),
    (replace(MANAGER, unit=None), 1, Voice.MANAGER),  # before v226 PID 1 is in no unit
    (replace(MANAGER, uid=1000, unit="user@1000.service"), 4000, Voice.MANAGER),
    (replace(MANAGER, unit="evil.service", uid=33, exe="/usr/bin/python3", comm="python3"), 4000, Voice.SERVICE),
    (LOGIND, 600, Voice.LOGIND),
    (COREDUMP, 600, Voice.COREDUMP),
    (OOMD, 600, Voice.OOM_DAEMON),
    (EARLYOOM, 600, Voice.OOM_DAEMON),
    (SUDO, 600, Voice.SUDO),
    (KERNEL, 0, Voice.KERNEL),
    (replace(KERNEL, facility=1), 0, Voice.OTHER),
    (replace(KERNEL, facility=3, identifier="systemd-journald"), 23, Voice.OTHER),
    (LOGGER, 600, Voice.OTHER),
    (Origin(transport="stdout", unit="celery@a.service"), 600, Voice.SERVICE),
    (Origin(transport="journal", unit="web_1", container="0f5e6d"), 0, Voice.SERVICE),
    (Origin(transport="stdout", unit="session-3.scope"), 600, Voice.OTHER),
    (Origin(vouched=False, identifier="kernel"), 0, Voice.KERNEL),
    (Origin(vouched=False, identifier="celery"), 0, Voice.SERVICE),
    (Origin(vouched=False), 0, Voice.SERVICE),
]


@pytest.mark.parametrize(("origin", "pid", "voice"), VOICES, ids=range(len(VOICES)))
def test_voice(origin: Origin, pid: int, voice: Voice) -> None:
    """Who speaks is told by transport, pid, executable and user; in text files by the tag alone."""
    assert voice_of(origin, pid) is voice


def test_unit_asked_for() -> None:
    """Where units are named, only their own lines are a worker's."""
    journal = Journal()
    a, b = journal.unit("celery@a.service"), journal.unit("celery@b.service", main=300)
    a.received("t1")
    b.received("t2")
    journal.at(5)
    a.dies(1, 0)
    b.dies(1, 0)
    question = replace(EVERYTHING, units=("celery@a*",))
    assert [kill.unit for kill in audited(journal, question=question).kills] == ["celery@a.service"]


def test_echo() -> None:
    """A log shipper that prints a worker's lines again has no worker and no kill of its own."""
    journal = Journal()
    unit = journal.unit()
    shipper = Origin(transport="stdout", unit="vector.service", exe="/usr/bin/vector", comm="vector", uid=0)
    for one in (*journal.entries, unit.says("Task shop.tasks.ring[t1] received")):
        journal.write(one.message, shipper, pid=7000)
    journal.at(5)
    for one in (unit.exited(1), unit.lost(0)):
        journal.write(one.message, shipper, pid=7000)
    assert [(kill.unit, kill.task.id) for kill in audited(journal).kills] == [("celery@a.service", "t1")]


def test_null_message() -> None:
    """An entry whose text is missing says nothing."""
    journal = Journal()
    assert recognised(journal.write(None, MANAGER, pid=1, MESSAGE_ID=STOPPING, UNIT=UNIT)) == ()
