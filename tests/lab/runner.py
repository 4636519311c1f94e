"""Boots a machine of its own for each lab, and plays scenarios on it, one after the other in one boot."""

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kill_audit.classify import OOM_SPAN
from kill_audit.timeline.lives import SECOND

from . import cgroups
from .container import Container
from .errors import MissingError
from .locks import abandoned, kernel, locked
from .root import Celery, Layer, cache, machine, overlaid, unmount
from .scenario import Scenario
from .stage import Stage
from .truth import Truth, collect


@contextmanager
def laboratory() -> Iterator[Stage]:
    """Boot a machine with fresh files; it and its files are gone afterwards."""
    with fresh(*machine()) as root:
        folder = root.parent
        (root / "etc/machine-id").unlink(missing_ok=True)
        (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        container = Container(folder.name, root, folder / "console.log")
        try:
            container.boot()
            _outlive_kernel_history(container)
            yield Stage(container=container)
        finally:
            container.stop()


def _outlive_kernel_history(container: Container) -> None:
    """Wait until OOM kills on other machines, told in this one's journal as it boots, explain no death here."""
    if "oom-kill:" in container.run("journalctl", "--dmesg", "--output=cat").stdout:
        time.sleep(OOM_SPAN / SECOND)


@contextmanager
def fresh(*layers: Layer) -> Iterator[Path]:
    """Make a root of kept layers, the lowest first; its changes are forgotten afterwards."""
    with ExitStack() as held:
        lower = [held.enter_context(layer.kept()) for layer in layers]
        folder = held.enter_context(_folder())
        yield held.enter_context(overlaid(folder / "root", *reversed(lower), upper=folder / "files"))


@contextmanager
def play(stage: Stage, celery: Celery, scenario: Scenario) -> Iterator[Truth]:
    """Play one scenario; inside, its workers, databases and journal are as it left them."""
    if scenario.needs_memory_controller and not stage.counts_memory():
        raise MissingError(
            "this host has no cgroup v2 with the memory controller, so systemd inside hears of no OOM kill"
        )
    with kernel(alone=scenario.kernel_speaks):
        stage.clear()
        stage.set(celery, options=scenario.options, settings=scenario.settings, environment=scenario.environment)
        try:
            scenario.act(stage)
            yield collect(stage, scenario)
        finally:
            stage.clear()


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for one machine, named like it; what labs that were killed have left is taken away first."""
    machines = cache() / "machines"
    folder = machines / f"kill-audit-lab-{uuid.uuid4().hex[:8]}"
    with ExitStack() as held:
        with locked(machines / "lock"):
            for left in machines.glob("*/"):
                if abandoned(left / "lock"):
                    _take_away(left)
            held.enter_context(locked(folder / "lock"))
        try:
            yield folder
        finally:
            _take_away(folder)


def _take_away(folder: Path) -> None:
    cgroups.remove(folder.name)
    unmount(folder / "root")
    shutil.rmtree(folder)
