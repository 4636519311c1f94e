"""Real workers, really killed: a scene for each server and each kind of Celery's result table.

In each scene a worker finishes one task, loses two by the death of the child that runs them (of which the broker
delivers one again), and is killed itself with a third, and started anew. No systemd and no broker is needed: the
worker writes a log file, and messages are files.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from celery import Celery

TESTS: Final = Path(__file__).parents[1]
NODE: Final = "a@web1"
FINE, LOST, AGAIN, LEFT = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(1, 5))
"""Ids: of the task that ended, those whose child was killed (once and for all; delivered again), the worker's last."""
_PATIENCE_S: Final = 120
_LOSS: Final = "Worker exited prematurely: signal 9 (SIGKILL) Job: "

# The kinds of Celery's result table, and how the shop is told to fill one.
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "plain": {},
    "extended": {"SHOP_EXTENDED": "1", "SHOP_TRACK_STARTED": "1", "SHOP_SERIALIZER": "pickle"},
    "django": {"SHOP_EXTENDED": "1", "SHOP_TRACK_STARTED": "1"},
}


@dataclass(slots=True, kw_only=True)
class Live:
    """One scene: its database, and a folder with the worker's log, the messages, and what the tasks say."""

    database: sa.URL
    kind: str
    folder: Path
    worker: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def log(self) -> Path:
        """The worker's log file."""
        return self.folder / "a.log"

    @property
    def url(self) -> str:
        """The URL of the database, as a program keeps it."""
        return self.database.render_as_string(hide_password=False)

    @property
    def bare_url(self) -> str:
        """The URL without the password, as a person writes it on a command line."""
        return self.database._replace(password=None).render_as_string()

    def start(self) -> None:
        """Start the worker, in a session of its own."""
        for name in ("queue", "control"):
            (self.folder / name).mkdir(exist_ok=True)
        results = "django-db" if self.kind == "django" else f"db+{self.url}"
        shop = {
            "SHOP_DATABASE": self.url,
            "SHOP_RESULTS": results,
            "SHOP_FOLDER": str(self.folder),
            **KINDS[self.kind],
        }
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        words = ["worker", "-n", NODE, "-c", "1", "-l", "INFO", "--logfile", str(self.log), *quiet]
        with self.log.open("ab") as banner:  # which a worker prints, and logs not
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "runlog.live_shop", *words],
                env={**os.environ, "TZ": "UTC", "PYTHONPATH": f"{TESTS}", **shop, **KINDS[self.kind]},
                stdout=banner,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,
            )

    def send(self, name: str, task_id: str) -> None:
        """Send a task, as any program does that knows the broker."""
        folders = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
        with Celery(broker="filesystem://", set_as_current=False) as app:
            app.conf.broker_transport_options = {key: str(self.folder / value) for key, value in folders.items()}
            app.send_task(f"shop.tasks.{name}", task_id=task_id)

    def kill_child(self, task_id: str) -> None:
        """Kill the process that runs a task."""
        os.kill(int((self.folder / f"begun-{task_id}-1").read_text()), signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the worker and its children."""
        if self.worker is not None:
            os.killpg(self.worker.pid, signal.SIGKILL)
            self.worker.wait()
            self.worker = None

    def has_begun(self, task_id: str) -> bool:
        """Whether a task has begun."""
        return (self.folder / f"begun-{task_id}-1").exists()

    def said(self, words: str) -> int:
        """How often the worker said something."""
        return self.log.read_text(encoding="utf-8").count(words) if self.log.exists() else 0


def play(scenes: Sequence[Live]) -> None:
    """Play all scenes, side by side.

    Raises:
        TimeoutError: something did not happen; the worker's log is told.
    """
    steps: tuple[tuple[Callable[[Live], None], Callable[[Live], bool]], ...] = (
        (Live.start, lambda scene: scene.said(f"{NODE} ready.") == 1),
        (lambda scene: scene.send("fine", FINE), lambda scene: scene.said(f"[{FINE}] succeeded") == 1),
        (lambda scene: scene.send("slow", LOST), lambda scene: scene.has_begun(LOST)),
        (lambda scene: scene.kill_child(LOST), lambda scene: scene.said(_LOSS) >= 1),
        (lambda scene: scene.send("late", AGAIN), lambda scene: scene.has_begun(AGAIN)),
        (lambda scene: scene.kill_child(AGAIN), lambda scene: scene.said(f"[{AGAIN}] succeeded") == 1),
        (lambda scene: scene.send("slow", LEFT), lambda scene: scene.has_begun(LEFT)),
        (Live.kill_all, lambda _: True),
        (Live.start, lambda scene: scene.said(f"{NODE} ready.") == 2),
    )
    try:
        for act, done in steps:
            for scene in scenes:
                act(scene)
            _wait(scenes, done)
    finally:
        for scene in scenes:
            scene.kill_all()


def _wait(scenes: Sequence[Live], done: Callable[[Live], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while waiting := [scene for scene in scenes if not done(scene)]:
        if time.monotonic() > end:
            raise TimeoutError(waiting[0].log.read_text(encoding="utf-8") if waiting[0].log.exists() else "no log")
        time.sleep(0.05)
