"""Boots the lab's machine and plays scenarios on it, one after the other in one boot."""

from collections.abc import Iterator
from contextlib import contextmanager

from .container import Container
from .root import Celery, template
from .scenario import Scenario
from .stage import Stage
from .truth import Truth, collect


@contextmanager
def laboratory() -> Iterator[Container]:
    """Boot a machine with fresh files; it and they are gone afterwards."""
    container = Container(template())
    container.lay()
    try:
        container.boot()
        yield container
    finally:
        container.remove()


@contextmanager
def play(container: Container, celery: Celery, scenario: Scenario) -> Iterator[tuple[Stage, Truth]]:
    """Play one scenario; inside, its workers, databases and journal are as it left them."""
    stage = Stage(container=container, celery=celery)
    stage.clear()
    stage.set(options=scenario.options, settings=scenario.settings, environment=scenario.environment)
    try:
        scenario.act(stage)
        yield stage, collect(stage, scenario)
    finally:
        stage.clear()
