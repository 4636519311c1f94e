"""One machine of the lab: a root under its own systemd in a container, booted, used, stopped, or cut off from power.

Works as root on a machine that runs no systemd itself.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .root import LabError

CGROUPS = Path("/sys/fs/cgroup")


def wait(what: str, until: Callable[[], bool], timeout: float = 30.0, told: Callable[[], str] = str) -> None:
    """Wait until something is so. `told` is asked for what to show if it never is.

    Raises:
        LabError: it was not so within `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while not until():
        if time.monotonic() > end:
            raise LabError(f"waited {timeout:.0f} s in vain for {what}\n{told()}".rstrip())
        time.sleep(0.1)


class Container:
    """A machine named web1. `root`: its files, as seen from outside; they stay when it is off."""

    def __init__(self, root: Path, console: Path) -> None:
        self.root = root
        self._console = console
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader: int | None = None

    def boot(self) -> None:
        """Boot, and wait until systemd has started all that it wants to."""
        # --register=no, --keep-unit: no systemd outside. CAP_SYSLOG, /dev/kmsg: journald inside reads kernel lines.
        # setpriv: a lab that dies takes its container along. Cgroups: v2 inside, as on any host of today.
        command = ["setpriv", "--pdeathsig=KILL", "systemd-nspawn", "--quiet", "-D", str(self.root), "-b"]
        command += ["--register=no", "--keep-unit", "--console=pipe", "--link-journal=no", "--private-network"]
        command += ["--capability=CAP_SYSLOG", "--bind=/dev/kmsg"]
        with self._console.open("ab") as console:
            environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
            self._nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment
            )
        wait("the container's init", lambda: self._find_leader() is not None, told=self.console)
        self._leader = self._find_leader()
        wait("D-Bus", lambda: self.run("busctl", "status", check=False).returncode == 0, told=self.console)
        self.run("systemctl", "is-system-running", "--wait", check=False)

    def run(
        self, *command: str, user: str = "root", check: bool = True, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as that user, and return what it said."""
        enter = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C"]
        become = (
            [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env"]
        )
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        whole = [*enter, *become, *command]
        done = subprocess.run(
            whole,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            cwd="/",
        )
        if check and done.returncode:
            raise LabError(f"{' '.join(command)} ({user}) failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    @property
    def leader(self) -> int:
        """The number of its init, as this machine counts."""
        if self._leader is None:
            raise LabError("the container is not running")
        return self._leader

    def power_off(self) -> None:
        """Shut down in good order."""
        self.run("systemctl", "poweroff", check=False)
        self._await_end()

    def pull_the_plug(self) -> None:
        """Lose power: everything inside dies at once and nothing more is written."""
        os.kill(self.leader, signal.SIGKILL)
        self._await_end()

    def stop(self) -> None:
        """Stop it, whatever state it is in."""
        if self._leader is not None:
            self.pull_the_plug()

    def export_journal(self, target: Path, *, since: float, until: float) -> None:
        """Write what the journal holds of these moments (epoch, seconds), of all boots, in the export format."""
        self.run("journalctl", "--sync")
        window = [f"--since=@{since:.6f}", f"--until=@{until:.6f}"]
        # Within the container: its journalctl reads what its journald writes.
        self.run("sh", "-c", f"journalctl --namespace='*' -o export {' '.join(window)} >/var/tmp/journal.export")
        inside = self.root / "var/tmp/journal.export"
        shutil.move(inside, target)

    def console(self) -> str:
        """Return the end of what it said on its console."""
        return self._console.read_text(errors="replace")[-2000:]

    def host_pids(self, unit: str) -> list[int]:
        """Return the processes of a unit, by their numbers on this machine."""
        return [int(line) for line in (self._cgroup(unit) / "cgroup.procs").read_text().split()]

    def kill_as_oomd(self, unit: str) -> None:
        """Do to a unit what systemd-oomd does: kill all of it, and leave the count where systemd looks for it.

        systemd-oomd itself needs a memory controller and pressure figures in the container.
        """
        group, pids = self._cgroup(unit), self.host_pids(unit)
        os.setxattr(group, "user.oomd_ooms", b"1")
        os.setxattr(group, "user.oomd_kill", str(len(pids)).encode())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    @contextmanager
    def memory_limit(self, unit: str, path: str, megabytes: int) -> Iterator[None]:
        """Put the unit's processes under a limit of memory that they share, in a cgroup of that path.

        On cgroup v1, where a container's systemd holds no memory controller, the limit is set from outside.
        """
        group = CGROUPS / "memory" / path.strip("/")
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        try:
            for pid in self.host_pids(unit):
                (group / "cgroup.procs").write_text(str(pid))
            yield
        finally:
            for left in (group / "cgroup.procs").read_text().split():
                (CGROUPS / "memory" / "cgroup.procs").write_text(left)
            while group != CGROUPS / "memory":
                group.rmdir()
                group = group.parent

    def _cgroup(self, unit: str) -> Path:
        """Find a unit's cgroup on this machine: nspawn calls the container's own `payload`."""
        return next(CGROUPS.glob(f"**/payload/**/{unit}"))

    def _find_leader(self) -> int | None:
        if self._nspawn is None:
            return None
        if self._nspawn.poll() is not None:
            raise LabError(f"systemd-nspawn ended with {self._nspawn.returncode}:\n{self.console()}")
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return next((int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "systemd\n"), None)

    def _await_end(self) -> None:
        if self._nspawn is not None:
            self._nspawn.wait(timeout=120)
        self._nspawn = self._leader = None
