"""Boots the lab's machine and plays scenarios on it, one after the other in one boot."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from .container import Container
from .root import Celery, alone, cache, layers, overlaid, unmount
from .scenario import Scenario
from .stage import Stage
from .truth import Truth, collect


@contextmanager
def laboratory() -> Iterator[Stage]:
    """Boot a machine with fresh files, once no other lab runs; it and its files are gone afterwards."""
    folder = cache() / "machine"
    with alone():
        unmount(folder / "root")  # of a lab that was killed
        shutil.rmtree(folder, ignore_errors=True)
        with overlaid(folder / "root", *layers(), upper=folder / "files") as root:
            (root / "etc/machine-id").unlink(missing_ok=True)
            (root / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
            container = Container(root, folder / "console.log")
            try:
                container.boot()
                yield Stage(container=container)
            finally:
                container.stop()
        shutil.rmtree(folder)


@contextmanager
def play(stage: Stage, celery: Celery, scenario: Scenario) -> Iterator[Truth]:
    """Play one scenario; inside, its workers, databases and journal are as it left them."""
    stage.clear()
    stage.set(celery, options=scenario.options, settings=scenario.settings, environment=scenario.environment)
    try:
        scenario.act(stage)
        yield collect(stage, scenario)
    finally:
        stage.clear()
