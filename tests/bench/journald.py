"""A host's journal entries as journald would store them: who wrote a line, in which boot, and its uptime."""

import random
import re
from bisect import bisect_right
from itertools import count
from typing import Final, NamedTuple

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x80-\xff]")  # such a value is safe in binary form only
_SLICE: Final = "/system.slice/system-celery.slice"


class Entry(NamedTuple):
    """One entry: `head` holds the fields that its writer's entries share, `fields` the others, in export form."""

    at: int
    head: bytes
    fields: bytes


class Boot(NamedTuple):
    """From when on a boot lasts, and its ID."""

    since: int
    boot_id: str


def field_bytes(name: bytes, value: bytes) -> bytes:
    """Write a field in Journal Export Format: in binary form where the value is no single line of text."""
    if _CONTROL.search(value) is None:
        return b"%s=%s\n" % (name, value)
    return b"%s\n%s%s\n" % (name, len(value).to_bytes(8, "little"), value)


def text_fields(fields: dict[str, str]) -> bytes:
    """Write fields of plain text."""
    return b"".join(f"{name}={value}\n".encode() for name, value in fields.items())


class Host:
    """A machine with its boots; gives the parts of entries that journald adds by itself."""

    def __init__(self, name: str, seed: str, boots: list[int]) -> None:
        dice = random.Random(f"{seed} {name}")  # noqa: S311 -- it plays dice
        self.name = name
        self.machine_id = f"{dice.getrandbits(128):032x}"
        self.boots = [Boot(since, f"{dice.getrandbits(128):032x}") for since in boots]
        self.pids = count(700)
        self.jobs = count(200)
        self._common = {
            "_MACHINE_ID": self.machine_id,
            "_HOSTNAME": name,
            "_RUNTIME_SCOPE": "system",
        }

    def export(self, entry: Entry) -> bytes:
        """Write an entry in Journal Export Format."""
        boot = self.boots[bisect_right(self.boots, entry.at, key=lambda one: one.since) - 1]
        return b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n%s%s\n" % (
            entry.at,
            entry.at - boot.since + 5_000_000,
            boot.boot_id.encode(),
            entry.head,
            entry.fields,
        )

    def stdout(self, unit: str, pid: int, comm: str, stream: str, invocation: str) -> bytes:
        """Give the head of a line that a service prints."""
        return self.service(unit, pid, comm, f"/srv/{comm}/bin/python3", invocation) + text_fields(
            {"_TRANSPORT": "stdout", "_STREAM_ID": stream, "SYSLOG_IDENTIFIER": comm}
        )

    def service(self, unit: str, pid: int, comm: str, exe: str, invocation: str) -> bytes:
        """Give the fields that journald adds to an entry of a service's process."""
        group = f"{_SLICE if '@' in unit else '/system.slice'}/{unit}"
        return text_fields(
            self._common
            | {
                "PRIORITY": "6",
                "SYSLOG_FACILITY": "3",
                "_UID": "998",
                "_GID": "998",
                "_PID": str(pid),
                "_COMM": comm,
                "_EXE": exe,
                "_CMDLINE": f"{exe} -m {comm} -A shop worker --loglevel INFO -n {unit.partition('.')[0]}@%h",
                "_CAP_EFFECTIVE": "0",
                "_SYSTEMD_CGROUP": group,
                "_SYSTEMD_UNIT": unit,
                "_SYSTEMD_SLICE": "system-celery.slice" if "@" in unit else "system.slice",
                "_SYSTEMD_INVOCATION_ID": invocation,
            }
        )

    def manager(self, at: int, unit: str, text: str, invocation: str, **fields: str) -> Entry:
        """Give an entry that systemd's PID 1 writes about a unit."""
        head = text_fields(
            self._common
            | {
                "_TRANSPORT": "journal",
                "SYSLOG_IDENTIFIER": "systemd",
                "SYSLOG_FACILITY": "3",
                "PRIORITY": "6",
                "TID": "1",
                "_PID": "1",
                "_UID": "0",
                "_GID": "0",
                "_COMM": "systemd",
                "_EXE": "/usr/lib/systemd/systemd",
                "_CMDLINE": "/sbin/init",
                "_SYSTEMD_CGROUP": "/init.scope",
                "_SYSTEMD_UNIT": "init.scope",
                "_SYSTEMD_SLICE": "-.slice",
            }
        )
        own = {"CODE_FUNC": "unit_log", "UNIT": unit, "INVOCATION_ID": invocation, **fields, "MESSAGE": text}
        return Entry(at, head, text_fields(own | {"_SOURCE_REALTIME_TIMESTAMP": str(at - 120)}))

    def kernel(self, at: int, text: str) -> Entry:
        """Give an entry of the kernel's log."""
        boot = self.boots[bisect_right(self.boots, at, key=lambda one: one.since) - 1]
        head = text_fields(
            self._common
            | {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "SYSLOG_FACILITY": "0", "PRIORITY": "6"}
        )
        uptime = at - boot.since + 5_000_000 - 300
        return Entry(at, head, text_fields({"_SOURCE_MONOTONIC_TIMESTAMP": str(uptime), "MESSAGE": text}))

    def oom_kill(self, at: int, unit: str, pid: int) -> list[Entry]:
        """Give what the kernel writes when a unit's memory limit takes one of its processes (mm/oom_kill.c)."""
        group = f"{_SLICE}/{unit}"
        texts = (
            "celery invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            (
                f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={group},"
                f"task_memcg={group},task=celery,pid={pid},uid=998"
            ),
            (
                f"Memory cgroup out of memory: Killed process {pid} (celery) total-vm:299672kB, anon-rss:279072kB, "
                "file-rss:7080kB, shmem-rss:0kB, UID:998 pgtables:620kB oom_score_adj:0"
            ),
        )
        return [self.kernel(at + place, text) for place, text in enumerate(texts)]
