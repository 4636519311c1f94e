"""Run a program as a whole, and tell its wall time, its CPU time, and the memory of each of its processes.

Memory is what a process holds for itself (`RssAnon` in proc_pid_status(5)): pages of mapped files are the kernel's to
take back. It is sampled, so a peak of a few milliseconds can be missed.
"""

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_EVERY_S: Final = 0.02
_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took. `peaks`: the peak RssAnon in MiB of each process that lived long enough to be seen."""

    wall_s: float
    cpu_s: float
    peaks: tuple[float, ...]
    status: int

    @property
    def peak_mib(self) -> float:
        """The largest process."""
        return max(self.peaks, default=0.0)


def run(command: Sequence[str], *, sample: bool = False) -> Cost:
    """Run a command with its output piped away, and wait for every process that it leaves behind.

    `cpu_s` is that of the command and of all its descendants. Output goes through a pipe, as some
    programs (GNU grep) stop early when they see that theirs is the null device.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = os.times()
    begun = time.monotonic()
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, env=_environment()
    )
    sampler = _Sampler(child.pid)
    if sample:
        sampler.start()
    assert child.stdout is not None
    while child.stdout.read(1 << 16):
        pass
    status = child.wait()
    wall = time.monotonic() - begun  # what is left behind keeps nobody waiting, but its time counts
    while _session(child.pid):
        _reap()
    if sample:
        sampler.stop()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(wall_s=wall, cpu_s=cpu, peaks=sampler.peaks, status=status)


def _environment() -> dict[str, str]:
    """Let Python keep what it compiled, as it does where a program is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _reap() -> None:
    """Wait for one descendant whose parent has ended (the fork server of a program that uses multiprocessing)."""
    with contextlib.suppress(ChildProcessError):
        os.wait()


class _Sampler(threading.Thread):
    """Looks at all processes of a session, again and again."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._peaks: dict[int, int] = {}
        self._done = threading.Event()

    @property
    def peaks(self) -> tuple[float, ...]:
        return tuple(sorted((peak / 1024 for peak in self._peaks.values()), reverse=True))

    def run(self) -> None:
        while not self._done.wait(_EVERY_S):
            for pid in _session(self._session):
                self._peaks[pid] = max(self._peaks.get(pid, 0), _rss_anon(pid))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _session(leader: int) -> list[int]:
    """List the processes of a session (field 6 of proc_pid_stat(5))."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text(encoding="latin-1")
            except OSError:
                continue
            if stat.rpartition(")")[2].split()[3] == str(leader):
                found.append(int(folder.name))
    return found


def _rss_anon(pid: int) -> int:
    """Read how much a process holds for itself, in KiB; 0 for one that has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="latin-1")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0
