"""One machine of the lab: a root under its own systemd in a container, booted, used, stopped, or cut off from power.

Works as root on a machine that runs no systemd itself.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from . import cgroups
from .errors import LabError

BOOT = 120.0
"""Seconds that a boot may take, on a busy machine."""


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
    """A machine that calls itself web1, and that this host knows by its `name`.

    `root`: its files, as seen from outside; they stay when it is off.
    """

    def __init__(self, name: str, root: Path, console: Path) -> None:
        self.name = name
        self.root = root
        self._console = console
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader: int | None = None

    def boot(self) -> None:
        """Boot, and wait until systemd has started all that it wants to."""
        # setpriv: a lab that dies shuts its machine down (nspawn passes SIGTERM on as an orderly power-off).
        command = [*cgroups.within(self.name), "setpriv", "--pdeathsig=TERM", "systemd-nspawn", "--quiet", "--boot"]
        # --register=no, --keep-unit: no systemd outside. CAP_SYSLOG, /dev/kmsg: journald inside reads kernel lines.
        command += [f"--directory={self.root}", f"--machine={self.name}", "--hostname=web1", "--register=no"]
        command += ["--keep-unit", "--console=pipe", "--link-journal=no", "--private-network"]
        command += ["--capability=CAP_SYSLOG", "--bind=/dev/kmsg"]
        # v2 inside, as on any host of today.
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with self._console.open("ab") as console:
            self._nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment
            )
        wait("the container's init", lambda: self._find_leader() is not None, BOOT, told=self.console)
        self._leader = self._find_leader()
        wait("D-Bus", lambda: self.run("busctl", "status", check=False).returncode == 0, BOOT, told=self.console)
        self.run("systemctl", "is-system-running", "--wait", check=False, timeout=BOOT)

    def run(
        self, *command: str, user: str = "root", check: bool = True, timeout: float = 300.0
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

    def _find_leader(self) -> int | None:
        if self._nspawn is None:
            return None
        if self._nspawn.poll() is not None:
            raise LabError(f"systemd-nspawn ended with {self._nspawn.returncode}:\n{self.console()}")
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return next((int(child) for child in children if _program(child) == "systemd"), None)

    def _await_end(self) -> None:
        if self._nspawn is not None:
            self._nspawn.wait(timeout=120)
        self._nspawn = self._leader = None


def _program(pid: str) -> str:
    """Return the name of a process; none if it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip()
    except OSError:
        return ""
