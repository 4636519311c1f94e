"""What a scenario is: one row of the lab's table."""

from collections.abc import Callable
from dataclasses import dataclass

from .stage import Run, Stage

ALL = ("5.7", "5.2", "4.4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the table: what is done, and why each task that dies of it died.

    `act`: does it, step by step; who died, and what became of it, is what the tasks wrote. `cause`: of every kill in
    it (`cause_of`: of the tasks that have another one). `idle`: how many pool children die without a task; None
    where that is up to chance. `options`: the worker's command line. `settings`: its unit's `[Service]` lines.
    `environment`: of the worker, and of the app that sends its tasks. `celeries`: those it is played with.
    `coverage`: the report's verdict on the evidence. `nameable`: whether the journal can name the tasks. `reading`:
    the options that a report needs to see its journal. `evidence`: files, besides the journal, that have to be read.
    `kernel_speaks`: whether the kernel writes lines about it, which every container of this host hears. `quick`: one
    of the few in `make test`. `needs_memory_controller`: whether the machine's systemd must hear of memory itself,
    which it can where this host has cgroup v2.
    """

    name: str
    what: str
    act: Callable[[Stage], None]
    cause: str = "unknown"
    cause_of: tuple[tuple[str, str], ...] = ()
    idle: int | None = 0
    options: str = "-c 2 -l INFO"
    settings: str = ""
    environment: str = ""
    celeries: tuple[str, ...] = ALL
    coverage: str = "complete"
    nameable: bool = True
    reading: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    kernel_speaks: bool = False
    quick: bool = False
    needs_memory_controller: bool = False

    def cause_for(self, run: Run) -> str:
        """Return the right cause for a run that was killed."""
        return dict(self.cause_of).get(run.task.rpartition(".")[2], self.cause)
