"""Record scenarios of the kill lab.

usage: python -m tests.lab list
       python -m tests.lab record SCENARIO DIR [CELERY]   one scenario, with one Celery (5.7 if none is named)
       python -m tests.lab all DIR [CELERY ...]           every scenario with every Celery (or these), a folder each
"""

import sys
from pathlib import Path

from . import truth
from .root import CELERIES, Celery, LabError, available, obstacles
from .runner import laboratory, play
from .scenario import Scenario
from .scenarios import SCENARIOS


def main(words: list[str]) -> int:
    """Do what the words say; return the exit status."""
    match words:
        case ["list"]:
            for scenario in SCENARIOS:
                say(f"{scenario.name:24} {', '.join(scenario.celeries):14} {scenario.what}")
            return 0
        case ["record", name, folder, *version]:
            chosen = [
                (celery, scenario)
                for scenario in SCENARIOS
                if scenario.name == name
                for celery in _celeries(version or ["5.7"])
            ]
            return _record([(celery, scenario, Path(folder)) for celery, scenario in chosen])
        case ["all", folder, *versions]:
            return _record(
                [
                    (celery, scenario, Path(folder) / f"celery-{celery.version}" / scenario.name)
                    for celery in _celeries(versions or [celery.version for celery in CELERIES])
                    for scenario in SCENARIOS
                    if celery.version in scenario.celeries
                ]
            )
        case _:
            sys.stderr.write(__doc__ or "")
            return 2


def say(text: str) -> None:
    """Print a line at once: a recording takes its time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _celeries(versions: list[str]) -> list[Celery]:
    return [celery for celery in available() if celery.version in versions]


def _record(wanted: list[tuple[Celery, Scenario, Path]]) -> int:
    if not wanted or obstacles():
        say(f"the lab can't do that: {'; '.join(obstacles()) or 'no such scenario'}")
        return 2
    failed = 0
    with laboratory() as stage:
        for celery, scenario, folder in wanted:
            try:
                with play(stage, celery, scenario) as told:
                    truth.record(stage, told, folder)
            except LabError as error:
                failed += 1
                say(f"celery {celery.version} {scenario.name}: {error}")
            else:
                say(f"{folder}: {truth.summary(told)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
