"""The control groups of a lab's machine on this host, whose names begin with the machine's.

Two containers that systemd-nspawn starts from one cgroup would share one tree of units: what the one's systemd stops,
the other's would still be running in.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import LabError

MOUNTED = Path("/sys/fs/cgroup")
MEMORY = MOUNTED / "memory"
"""The hierarchy of the memory controller on cgroup v1, where a container's systemd can hold no such controller."""


def within(machine: str) -> list[str]:
    """Make a machine's cgroups, one in each hierarchy that systemd counts processes in.

    Returns what has to stand before a command that is to run in them.
    """
    made = [hierarchy / machine for hierarchy in _hierarchies()]
    for group in made:
        group.mkdir(exist_ok=True)
        for controller in ("memory", "pids"):
            # v2 only; and not where this host's own root group is itself a container's.
            with suppress(OSError):
                (group.parent / "cgroup.subtree_control").write_text(f"+{controller}")
    join = 'until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
    return ["sh", "-c", join, "join", *map(str, made), "--"]


def remove(machine: str) -> None:
    """Kill what is still in a machine's cgroups, and remove them."""
    for hierarchy in (*_hierarchies(), MEMORY):
        group = hierarchy / machine
        for _ in range(300):
            if not group.exists():
                break
            # Deepest first. A group stays busy until its last process has been taken apart.
            for inner in sorted((path.parent for path in group.glob("**/cgroup.procs")), reverse=True):
                for pid in _processes(inner):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                with suppress(OSError):
                    inner.rmdir()
            time.sleep(0.1)
        else:
            raise LabError(f"{group} stays in use")


def of_unit(machine: str, unit: str) -> Path:
    """Find a unit's cgroup: nspawn calls the container's own `payload`."""
    for hierarchy in _hierarchies():
        for found in (hierarchy / machine / "payload").glob(f"**/{unit}"):
            return found
    raise LabError(f"{unit} has no cgroup")


def pids(machine: str, unit: str) -> list[int]:
    """Return the processes of a unit, by their numbers on this host."""
    return _processes(of_unit(machine, unit))


def kill_as_oomd(machine: str, unit: str) -> None:
    """Do to a unit what systemd-oomd does: kill all of it, and leave the count where systemd looks for it.

    systemd-oomd itself needs a memory controller and pressure figures in the container.
    """
    group, doomed = of_unit(machine, unit), pids(machine, unit)
    os.setxattr(group, "user.oomd_ooms", b"1")
    os.setxattr(group, "user.oomd_kill", str(len(doomed)).encode())
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def memory_limit(machine: str, unit: str, megabytes: int) -> Iterator[None]:
    """Put a unit's processes under a limit of memory that they share.

    On cgroup v1 in a group outside, of the path that the kernel would name on v2.
    """
    own = of_unit(machine, unit)
    if (own / "memory.max").exists():
        (own / "memory.max").write_text(str(megabytes << 20))
        yield
        with suppress(FileNotFoundError):  # the unit may be gone
            (own / "memory.max").write_text("max")
        return
    [path] = [own.relative_to(hierarchy) for hierarchy in _hierarchies() if own.is_relative_to(hierarchy)]
    group = MEMORY / path
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
    try:
        for pid in _processes(own):
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in _processes(group):
            (MEMORY / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _hierarchies() -> list[Path]:
    """Return where systemd and its containers keep their processes: v2, or both trees of a host with v1."""
    return [path for path in (MOUNTED, MOUNTED / "unified", MOUNTED / "systemd") if (path / "cgroup.procs").exists()]


def _processes(group: Path) -> list[int]:
    return [int(line) for line in (group / "cgroup.procs").read_text().split()]
