"""The kernel's lines about processes it kills, 3.10 to 6.18."""

from typing import Any

import pytest

from builders import Journal, recognised
from kill_audit import events
from kill_audit.events import Event

UNIT = "celery@a.service"
REST = "total-vm:299672kB, anon-rss:279072kB, file-rss:7080kB"
SUMMARY = "oom-kill:constraint={},nodemask=(null),cpuset=/,mems_allowed=0,{}task_memcg={},task={},pid={},uid=33"

ROWS: dict[str, tuple[str, type[Event] | None, dict[str, Any]]] = {
    "chosen, up to 4.20": (
        "Out of memory: Kill process 19455 (celery) score 100 or sacrifice child",
        events.KernelOomKill,
        {"pid": 19455, "unit": None},
    ),
    "chosen in a cgroup, up to 4.20": (
        "Memory cgroup out of memory: Kill process 19455 (celery) score 100 or sacrifice child",
        events.KernelOomKill,
        {"pid": 19455},
    ),
    "victim, 3.10": (f"Killed process 19455 (celery) {REST}", events.KernelOomKill, {"pid": 19455, "comm": "celery"}),
    "victim of a user, 3.10 of Red Hat": (
        f"Killed process 19455, UID 503, (celery) {REST}",
        events.KernelOomKill,
        {"pid": 19455},
    ),
    "victim, 4.6": (f"Killed process 19455 (celery) {REST}, shmem-rss:0kB", events.KernelOomKill, {"pid": 19455}),
    "summary of a cgroup, 5.0": (
        SUMMARY.format(
            "CONSTRAINT_MEMCG",
            f"oom_memcg=/system.slice/{UNIT},",
            f"/system.slice/system-celery.slice/{UNIT}",
            "celery",
            7,
        ),
        events.KernelOomKill,
        {"pid": 7, "unit": UNIT, "cgroup": f"/system.slice/system-celery.slice/{UNIT}", "comm": "celery"},
    ),
    "summary of the whole machine, 5.0": (
        SUMMARY.format("CONSTRAINT_NONE", "global_oom,", f"/system.slice/{UNIT}", "python3", 8),
        events.KernelOomKill,
        {"pid": 8, "unit": UNIT},
    ),
    "summary of a container, 5.0": (
        SUMMARY.format("CONSTRAINT_MEMCG", "", "/system.slice/docker-0f5e6d.scope", "celery", 9),
        events.KernelOomKill,
        {"pid": 9, "unit": "docker-0f5e6d.scope"},
    ),
    "summary of a user's service, 5.0": (
        SUMMARY.format(
            "CONSTRAINT_MEMCG", "", "/user.slice/user-1000.slice/user@1000.service/app.slice/w.service", "celery", 10
        ),
        events.KernelOomKill,
        {"pid": 10, "unit": "w.service"},
    ),
    "summary of a cgroup below the unit's, 5.0": (
        SUMMARY.format("CONSTRAINT_MEMCG", "", f"/system.slice/{UNIT}/pool", "celery", 11),
        events.KernelOomKill,
        {"pid": 11, "unit": UNIT},
    ),
    "victim, 5.1": (
        f"Out of memory: Killed process 20197 (celery) {REST}, shmem-rss:0kB, UID:0 pgtables:620kB oom_score_adj:0",
        events.KernelOomKill,
        {"pid": 20197, "comm": "celery"},
    ),
    "victim in a cgroup, 5.1": (
        f"Memory cgroup out of memory: Killed process 20197 (celery) {REST}",
        events.KernelOomKill,
        {"pid": 20197},
    ),
    "victim that asked for memory, 5.1": (
        f"Out of memory (oom_kill_allocating_task): Killed process 20197 (celery) {REST}",
        events.KernelOomKill,
        {"pid": 20197},
    ),
    "victim with a strange name": (
        f"Out of memory: Killed process 20197 ((sd-pam) x) {REST}",
        events.KernelOomKill,
        {"pid": 20197},
    ),
    "segfault": (
        "python3[29071]: segfault at 0 ip 00007fba sp 00007ffc error 4 in libc.so.6[156219,7fba+1560] likely on CPU 1",
        events.KernelCrash,
        {"pid": 29071, "comm": "python3"},
    ),
    "invalid opcode": (
        "traps: ud[29177] trap invalid opcode ip:55591823912d sp:7ffebec3cd20 error:0 in ud[112d,55591823+1000]",
        events.KernelCrash,
        {"pid": 29177, "comm": "ud"},
    ),
    "general protection, old": (
        "traps: celery[123] general protection ip:7f1 sp:7ff error:0 in libc.so.6[7f1+1000]",
        events.KernelCrash,
        {"pid": 123},
    ),
    "general protection, new": (
        "traps: celery[123] general protection fault ip:7f1 sp:7ff error:0 in libc.so.6[7f1+1000]",
        events.KernelCrash,
        {"pid": 123},
    ),
    "division": (
        "traps: celery[123] trap divide error ip:7f1 sp:7ff error:0 in m.so[7f1+1000]",
        events.KernelCrash,
        {"pid": 123},
    ),
    "arm64": (
        "celery[123]: unhandled level 3 translation fault (11) at 0x00000000, esr 0x92000007",
        events.KernelCrash,
        {"pid": 123},
    ),
    # These tell nothing that another line does not.
    "invoked": ("celery invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", None, {}),
    "limit": (f"Task in /system.slice/{UNIT} killed as a result of limit of /system.slice/{UNIT}", None, {}),
    "group": (f"Tasks in /system.slice/{UNIT} are going to be killed due to memory.oom.group set", None, {}),
    "exiting": ("celery: OOM victim 20197 (celery) is already exiting. Skip killing the task", None, {}),
    "reaped": ("oom_reaper: reaped process 20197 (celery), now anon-rss:0kB, file-rss:0kB", None, {}),
    "code": ("Code: 48 8b 07 c3 66 0f 1f", None, {}),
    "table": ("[  20197]     0 20197    74918    71538   634880        0             0 celery", None, {}),
}


@pytest.mark.parametrize(("text", "kind", "values"), ROWS.values(), ids=ROWS.keys())
def test_read(text: str, kind: type[Event] | None, values: dict[str, Any]) -> None:
    """A kernel line is recognised as what it is; lines that only repeat it are nothing."""
    spoken = recognised(Journal().kernel(text))
    assert [type(one) for one in spoken] == ([] if kind is None else [kind])
    for one in spoken:
        assert {name: getattr(one, name) for name in values} == values


def test_monotonic() -> None:
    """A kernel line is timed by the kernel's own clock: old lines come again when journald starts."""
    journal = Journal()
    entry = journal.write(
        "celery[1]: segfault at 0 ip 0", journal.kernel("").origin, _SOURCE_MONOTONIC_TIMESTAMP="123456"
    )
    (crash,) = recognised(entry)
    assert isinstance(crash, events.KernelCrash)
    assert crash.seen.monotonic == 123456
