"""Record scenarios of the kill lab: journal, run logs, and the truth.

usage: python -m tests.lab list
       python -m tests.lab record SCENARIO[,SCENARIO...] FOLDER [CELERY...]

Each goes into FOLDER/celery-VERSION/SCENARIO. SCENARIO may be `all`; CELERY is 5.7 if none is named.
"""

import sys
from pathlib import Path

from . import truth
from .errors import LabError
from .root import CELERIES, Celery, available, obstacles
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
        case ["record", names, folder, *versions]:
            return _record(names.split(","), Path(folder), versions or [CELERIES[0].version])
        case _:
            sys.stderr.write(__doc__ or "")
            return 2


def say(text: str) -> None:
    """Print a line at once: a recording takes its time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _record(names: list[str], folder: Path, versions: list[str]) -> int:
    wanted = _wanted(names, versions)
    unknown = [] if names == ["all"] else sorted(set(names) - {scenario.name for _, scenario in wanted})
    if unknown or obstacles():
        missing = [f"no scenario {name} for Celery {', '.join(versions)}" for name in unknown]
        say(f"the lab can't do that: {'; '.join([*missing, *obstacles()])}")
        return 2
    failed = 0
    with laboratory() as stage:
        for celery, scenario in wanted:
            into = folder / f"celery-{celery.version}" / scenario.name
            try:
                with play(stage, celery, scenario) as told:
                    truth.record(stage, told, into)
            except LabError as error:
                failed += 1
                say(f"celery {celery.version} {scenario.name}: {error}")
            else:
                say(f"{into}: {truth.summary(told)}")
    return 1 if failed else 0


def _wanted(names: list[str], versions: list[str]) -> list[tuple[Celery, Scenario]]:
    return [
        (celery, scenario)
        for celery in available()
        if celery.version in versions
        for scenario in SCENARIOS
        if celery.version in scenario.celeries
        if scenario.name in names or names == ["all"]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
