"""What the kernel writes when it kills: the OOM killer's lines and faults, kernels 3.10 to 6.18.

Rules of this file: pids are the host's (the init pid namespace); a container's worker logs other numbers. One kill
may be told in two lines: the summary (`oom-kill:…`, with the cgroup, rate-limited) and the victim's line; both become
events.

Upstream files are those of the Linux kernel.
"""

import re
from typing import Any

from kill_audit import events
from kill_audit.events import Seen
from kill_audit.grammar.pattern import Pattern, table


def unit_of_cgroup(path: str) -> str | None:
    """Name the unit that owns a cgroup path: its last component that is a service or scope."""
    for part in reversed(path.strip("/").split("/")):
        if part.endswith((".service", ".scope")):
            return part
    return None


def _summary(match: re.Match[str], seen: Seen) -> events.Event:
    path = match["memcg"]
    return events.KernelOomKill(
        seen=seen, pid=int(match["pid"]), comm=match["task"], unit=unit_of_cgroup(path), cgroup=path
    )


def _victim(match: re.Match[str], seen: Seen) -> events.Event:
    return events.KernelOomKill(seen=seen, pid=int(match["pid"]), comm=match["comm"], unit=None, cgroup=None)


def _crash(match: re.Match[str], seen: Seen) -> Any:
    return events.KernelCrash(seen=seen, pid=int(match["pid"]), comm=match["comm"])


KERNEL = table(
    Pattern(
        name="oom-summary",
        upstream="mm/oom_kill.c dump_oom_summary, 5.0 and later",
        regex=re.compile(
            r"oom-kill:constraint=.*?\btask_memcg=(?P<memcg>/[^,]*),task=(?P<task>.*?),pid=(?P<pid>\d+),uid=\d+"
        ),
        make=_summary,
        samples=(
            (
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/"
                "celery@a.service,task_memcg=/system.slice/system-celery.slice/celery@a.service,task=celery,pid=20197,uid=0"
            ),
        ),
        near_misses=("oom-kill:constraint=CONSTRAINT_NONE",),
    ),
    Pattern(
        name="oom-victim",
        upstream="mm/oom_kill.c __oom_kill_process; `Killed process N, UID U, (comm)` on 3.x",
        regex=re.compile(
            r"(?:(?:Out of memory|Memory cgroup out of memory)(?: \(oom_kill_allocating_task\))?: )?"
            r"Killed process (?P<pid>\d+)(?:, UID \d+,)? \((?P<comm>.*?)\),? (?:total-vm|vsz):"
        ),
        make=_victim,
        samples=(
            (
                "Memory cgroup out of memory: Killed process 20197 (celery) total-vm:299672kB, anon-rss:279072kB, "
                "file-rss:7080kB, shmem-rss:0kB, UID:0 pgtables:620kB oom_score_adj:0"
            ),
            "Killed process 19455, UID 503, (celery) total-vm:1998112kB, anon-rss:1590016kB, file-rss:512kB",
            "Out of memory: Killed process 771204 (uwsgi) total-vm:498112kB, anon-rss:241664kB",
        ),
        near_misses=("Out of memory: Kill process 19455 (celery) score 100 or sacrifice child",),
    ),
    Pattern(
        name="oom-chosen",
        upstream="mm/oom_kill.c oom_kill_process, up to 4.20; the victim may be a child of this process",
        regex=re.compile(
            r"(?:Out of memory|Memory cgroup out of memory): Kill process (?P<pid>\d+) \((?P<comm>.*?)\) score "
        ),
        make=_victim,
        samples=("Out of memory: Kill process 19455 (celery) score 100 or sacrifice child",),
        near_misses=("Out of memory: Killed process 19455 (celery) total-vm:1kB",),
    ),
    Pattern(
        name="segfault",
        upstream="arch/x86/mm/fault.c show_signal_msg",
        regex=re.compile(r"(?P<comm>.{1,16}?)\[(?P<pid>\d+)\]: segfault at "),
        make=_crash,
        samples=("celery[2056]: segfault at 0 ip 00007f510da86219 sp 00007ffd3b3f9798 error 4 in libc.so.6[156219]",),
        near_misses=("celery: segfault at 0",),
    ),
    Pattern(
        name="trap",
        upstream="arch/x86/kernel/traps.c show_signal; arch/arm64/mm/fault.c",
        regex=re.compile(
            r"(?:traps: )?(?P<comm>.{1,16}?)\[(?P<pid>\d+)\]:? "
            r"(?:trap |general protection|bad frame|unhandled .*fault)"
        ),
        make=_crash,
        samples=(
            "traps: ud[29177] trap invalid opcode ip:55591823912d sp:7ffebec3cd20 error:0 in ud[112d]",
            "celery[123]: unhandled level 3 translation fault (11) at 0x00000000",
        ),
        near_misses=("traps are for mice",),
    ),
)


def may_matter(text: str) -> bool:
    """Whether a kernel line is one of those that are read; most are not."""
    return KERNEL.find(text[: events.MAX_TEXT]) is not None


def kernel(seen: Seen) -> events.Event | None:
    """Recognise a kernel line."""
    found = KERNEL.find(seen.text)
    if found is None:
        return None
    made: events.Event = found[0].make(found[1], seen)
    return made
