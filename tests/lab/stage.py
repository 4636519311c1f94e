"""What a scenario may do: start workers, send tasks, kill, deploy; and wait for what the tasks and the journal say.

All waiting is for evidence, with a limit; nothing sleeps in the hope that something has happened meanwhile.
"""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .container import Container, wait
from .errors import LabError
from .root import CELERIES, HERE, Celery

UNIT = """\
[Unit]
Description=Celery worker %i
After=redis-server.service postgresql.service

[Service]
User=shop
WorkingDirectory=/srv/shop
Environment=SHOP_UNIT=%n SHOP_POSTGRES=dbname=shop {environment}
ExecStart={venv}/bin/celery -A shop worker -n %i@%H -Q %i {options}
{settings}

[Install]
WantedBy=multi-user.target
"""
UP = ("list-units", "--quiet", "--plain", "--state=active,activating,deactivating,reloading")
DEPLOYER = "ops"
LONG = 900
"""Seconds that a task takes which will be killed: however slow the machine is, it does not end before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process inside: its number there, and when it started (clock ticks since the kernel's boot)."""

    pid: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One start of a task, as the task itself wrote it down, and its end: `end`, `exc`, or None."""

    task: str
    id: str
    unit: str
    process: Process
    started: float
    redelivered: bool
    retries: int
    end: str | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """A restart or stop of some units on purpose, from the order to its end (epoch, seconds)."""

    units: tuple[str, ...]
    since: float
    until: float


def order(task: str, *args: object, to: str = "a", **options: object) -> dict[str, object]:
    """Describe a task to send: its name in the shop, its arguments, the queue, and Celery's own options."""
    return {"task": task, "args": args, "queue": to, **options}


def unit_name(worker: str) -> str:
    """Return the unit of a worker that is named in short."""
    return worker if "." in worker else f"celery@{worker}.service"


@dataclass(slots=True, kw_only=True)
class Stage:
    """The workers in one container.

    `celery`: what runs them. `since`: when the present scenario began (epoch, seconds). `environment`: of the workers
    and of the app. `user`: whose own systemd runs the workers; None for the machine's. `deploys`: all since the boot.
    """

    container: Container
    celery: Celery = CELERIES[0]
    since: float = 0.0
    environment: str = ""
    user: str | None = None
    deploys: list[Deploy] = field(default_factory=list)

    # ---- before and after -------------------------------------------------------------------------------------

    def set(self, celery: Celery, *, options: str, settings: str, environment: str) -> None:
        """Install the app, and a unit for its workers with this command line, `[Service]` settings and environment."""
        self.celery = celery
        shop = self.container.root / "srv/shop"
        for leftover in shop.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        shutil.copytree(HERE / "shop", shop / "shop", ignore=shutil.ignore_patterns("__pycache__", "*.toml"))
        self.run("chown", "-R", "shop:", "/srv/shop")
        self.run("chmod", "755", "/srv/shop")
        filled = settings.replace("{venv}", self.celery.venv)
        text = UNIT.format(venv=self.celery.venv, options=options, settings=filled, environment=environment)
        self.write("/etc/systemd/system/celery@.service", text)
        self.run("systemctl", "daemon-reload")
        self.environment = environment
        self.shop("prepare")
        self.since = time.time()

    def under_user(self, user: str) -> None:
        """Let the workers be run by the systemd of this user from now on."""
        self.run("chown", "-R", f"{user}:", "/srv/shop")
        self.run("loginctl", "enable-linger", user)
        unit = self.container.root / "etc/systemd/system/celery@.service"
        self.write("/etc/systemd/user/celery@.service", unit.read_text().replace("User=shop\n", ""))
        unit.unlink()
        self.user = user
        self.wait("the user's systemd", lambda: "running" in self.systemctl("is-system-running", check=False))
        self.systemctl("daemon-reload")

    def clear(self) -> None:
        """Kill what runs and forget what was queued and written."""
        if self.user:
            self.run("systemctl", "kill", "--signal=KILL", "user@*", check=False)
            self.run("loginctl", "disable-linger", self.user)
            self.user = None
        # A unit that does not come back, and no order to stop it: that would be a deploy.
        self.write("/etc/systemd/system/celery@.service", "[Service]\nExecStart=/bin/false\n")
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "kill", "--signal=KILL", "celery@*", check=False)
        self.wait("the end of all workers", lambda: not self.run("systemctl", *UP, "celery@*", check=False).strip())
        self.run("systemctl", "stop", "rabbitmq-server")
        self.run("systemctl", "reset-failed", check=False)
        self.run("redis-cli", "flushall")
        self.run("psql", "-q", "-d", "shop", "-c", "drop table if exists run_log_start, run_log_end", user="shop")
        self.run("rm", "-rf", "/var/log/celery", "/etc/systemd/user/celery@.service")

    def write(self, path: str, text: str) -> None:
        """Write a file inside."""
        target = self.container.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    # ---- doing ------------------------------------------------------------------------------------------------

    def run(self, *command: str, user: str = "root", check: bool = True) -> str:
        """Run a command inside and return what it printed."""
        return self.container.run(*command, user=user, check=check).stdout

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Give an order to the systemd that runs the workers: the user's own, or the machine's, with sudo."""
        if self.user is None:
            return self.run("sudo", "-n", "systemctl", *words, user=DEPLOYER, check=check)
        uid = self.run("id", "-u", self.user).strip()
        return self.run(
            "env", f"XDG_RUNTIME_DIR=/run/user/{uid}", "systemctl", "--user", *words, user=self.user, check=check
        )

    def sudo(self, *command: str, check: bool = True) -> None:
        """Run a command as the operator does: with sudo, which leaves its own line in the journal."""
        self.run("sudo", "-n", *command, user=DEPLOYER, check=check)

    def shop(self, *words: str) -> str:
        """Run the shop's client (see shop/client.py) as the app's own user."""
        where = f"cd /srv/shop && exec env SHOP_POSTGRES=dbname=shop {self.environment}"
        client = f'{where} {self.celery.venv}/bin/python -m shop.client "$@"'
        return self.run("sh", "-c", client, "client", *words, user=self.user or "shop")

    def start(self, *workers: str) -> None:
        """Start workers and wait until each is ready."""
        with self.again(*workers):
            self.systemctl("start", *map(unit_name, workers))

    @contextmanager
    def deploy(self, *workers: str) -> Iterator[None]:
        """Note what is done inside as a deploy of these workers, and wait until each is ready again."""
        since = time.time()
        with self.again(*workers):
            yield
        self.deploys.append(Deploy(units=tuple(map(unit_name, workers)), since=since, until=time.time()))

    def stop(self, worker: str) -> None:
        """Stop a worker, as the operator: a deploy without a second half."""
        since = time.time()
        self.systemctl("stop", unit_name(worker))
        self.deploys.append(Deploy(units=(unit_name(worker),), since=since, until=time.time()))

    @contextmanager
    def again(self, *workers: str) -> Iterator[None]:
        """Do something, and wait until each of these workers is ready once more after it."""
        before = {worker: len(self.events("ready", worker)) for worker in workers}
        yield
        self.ready(before)

    def restart(self, *workers: str) -> None:
        """Deploy: restart workers in one command, as the operator."""
        with self.deploy(*workers):
            self.systemctl("restart", *map(unit_name, workers))

    def send(self, *orders: Mapping[str, object]) -> list[str]:
        """Send tasks, in this order, and return their ids."""
        return self.shop("send", json.dumps(orders)).split()

    def kill(self, process: Process, number: signal.Signals, *, openly: bool = False) -> None:
        """Send a signal to one process; `openly`: with sudo, which the journal shows."""
        command = ("kill", f"-{number.value}", str(process.pid))
        self.sudo(*command) if openly else self.run(*command)

    # ---- seeing -----------------------------------------------------------------------------------------------

    def events(self, event: str, worker: str | None = None) -> list[dict[str, Any]]:
        """Return what the shop has written into its diary of one kind of event (and one worker)."""
        diary = self.container.root / "srv/shop/diary.jsonl"
        lines = diary.read_text().splitlines() if diary.exists() else []
        wanted = unit_name(worker) if worker else None
        return [e for e in map(json.loads, lines) if e["event"] == event and wanted in (None, e["unit"])]

    def runs(self) -> list[Run]:
        """Return every run of every task so far, oldest first."""
        ends = {(e["id"], e["pid"], e["started"]): e for kind in ("end", "exc") for e in self.events(kind)}
        return [
            Run(
                task=start["task"],
                id=start["id"],
                unit=start["unit"],
                process=Process(pid=start["pid"], ticks=start["ticks"]),
                started=start["t"],
                redelivered=start["redelivered"],
                retries=start["retries"],
                end=end["event"] if end else None,
                ended=end["t"] if end else None,
            )
            for start in self.events("start")
            for end in [ends.get((start["id"], start["pid"], start["started"]))]
        ]

    def alive(self, process: Process) -> bool:
        """Tell whether a process still lives (a zombie does not)."""
        try:
            stat = Path(f"/proc/{self.container.leader}/root/proc/{process.pid}/stat").read_text()
        except OSError:
            return False
        state, *rest = stat.rpartition(")")[2].split()
        return state != "Z" and int(rest[18]) == process.ticks

    def counts_memory(self) -> bool:
        """Tell whether the machine's systemd has the memory controller (cgroup v2)."""
        return "memory" in self.run("cat", "/sys/fs/cgroup/cgroup.controllers").split()

    def main(self, worker: str) -> Process:
        """Return the main process of a worker's present life."""
        ready = self.events("ready", worker)[-1]
        return Process(pid=ready["pid"], ticks=ready["ticks"])

    def pool(self, worker: str) -> list[Process]:
        """Return the living pool children of a worker, oldest first."""
        parent = self.main(worker).pid
        children = [
            Process(pid=e["pid"], ticks=e["ticks"]) for e in self.events("child", worker) if e["parent"] == parent
        ]
        return [child for child in children if self.alive(child)]

    def idle(self, worker: str) -> Process:
        """Return a pool child that runs no task now."""
        busy = {run.process for run in self.runs() if run.end is None}
        return next(child for child in self.pool(worker) if child not in busy)

    # ---- waiting ----------------------------------------------------------------------------------------------

    def ready(self, before: Mapping[str, int]) -> None:
        """Wait until each worker was ready once more than it had been."""

        def all_ready() -> bool:
            return all(len(self.events("ready", worker)) > times for worker, times in before.items())

        self.wait(f"{', '.join(before)} to be ready", all_ready, 120)

    def running(self, *ids: str, times: int = 1, timeout: float = 90) -> list[Run]:
        """Wait until each of these tasks is at work for the n-th time; return those runs."""

        def all_at_work() -> bool:
            working = [event["id"] for event in self.events("work")]
            return all(working.count(task) >= times for task in ids)

        self.wait(f"start {times} of {ids}", all_at_work, timeout)
        runs = self.runs()
        return [[run for run in runs if run.id == task][times - 1] for task in ids]

    def finished(self, *ids: str, times: int = 1, timeout: float = 120) -> None:
        """Wait until each of these tasks has come to an end of its own, that many times."""

        def all_ended() -> bool:
            ended = [run.id for run in self.runs() if run.end is not None]
            return all(ended.count(task) >= times for task in ids)

        self.wait(f"end {times} of {ids}", all_ended, timeout)

    def gone(self, *killed: Run, timeout: float = 120) -> None:
        """Wait until the processes of these runs are dead, and make sure that no run had ended before."""
        pids = [run.process.pid for run in killed]
        self.wait(f"the death of {pids}", lambda: not any(self.alive(run.process) for run in killed), timeout)
        starts = {(run.id, run.started) for run in killed}
        ended = [run.id for run in self.runs() if run.end and (run.id, run.started) in starts]
        if ended:
            raise LabError(f"these ended although they should have been killed: {ended}")

    def rerun(self, killed: Run) -> None:
        """Wait for the end of the second run of a task that was handed back as its worker stopped."""
        if self.handed_back(killed):
            self.running(killed.id, times=2)
            self.finished(killed.id)

    def handed_back(self, killed: Run) -> bool:
        """Tell whether a task that was killed as its worker stopped waits again, or has started again."""
        # With Redis, kombu before 5.3 may lose the message on that occasion: it requeues what it no longer consumes.
        again = any(run.id == killed.id and run.started > killed.started for run in self.runs())
        return again or killed.id in self.waiting()

    def waiting(self) -> list[str]:
        """Return the ids of the tasks whose messages the broker still has."""
        return self.shop("waiting").split()

    def line(self, worker: str, text: str, times: int = 1, timeout: float = 90) -> None:
        """Wait until the journal has that many lines with this text, by the worker or about its unit."""
        self._match(worker, re.escape(text), times, timeout)

    def loss(self, worker: str, times: int = 1) -> None:
        """Wait until the worker has reported that many lost children in all."""
        # Only a report's first line has this form (on Python 3.11 Celery 5.2 writes `Arguments: (WorkerLostError(…`).
        self._match(worker, r"[ (]WorkerLostError\('Worker exited prematurely", times, 90)

    def _match(self, worker: str, pattern: str, times: int, timeout: float) -> None:
        def seen() -> bool:
            fields = ("_SYSTEMD_UNIT", "UNIT", "_SYSTEMD_USER_UNIT", "USER_UNIT")
            about = " + ".join(f"{field}={unit_name(worker)}" for field in fields).split()
            said = self.run(
                "journalctl", "--namespace=*", "-a", "-o", "cat", f"--since=@{self.since:.6f}", *about, check=False
            )
            return len(re.findall(pattern, said)) >= times

        self.wait(f"{times} x {pattern} by {worker}", seen, timeout)

    def inactive(self, worker: str, timeout: float = 120) -> None:
        """Wait until a unit has stopped or failed."""
        states = ("inactive", "failed")
        command = ("systemctl", "show", "--value", "--property=ActiveState", unit_name(worker))
        self.wait(f"{worker} to stop", lambda: self.run(*command).strip() in states, timeout)

    def wait(self, what: str, until: Callable[[], bool], timeout: float = 90) -> None:
        """Wait until something is so; show the end of the journal if it never is."""
        wait(what, until, timeout, told=lambda: self.run("journalctl", "-n", "25", "-o", "cat", "--no-pager"))
