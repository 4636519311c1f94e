"""Runs one function over many items, in child processes, and survives a child that dies or hangs.

Rules of this file: it knows nothing of journals. An item whose handling may end its process says so by a true
attribute `fragile`; one that says nothing is taken to be fragile.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress = Callable[[int, int, str], None]

# A plain fork copies the locks of a process's other threads as they stand (numpy has such threads). The fork server
# has one thread only, and starts a child in some 10 ms where a new interpreter needs 100.
_START_METHOD: Final = "forkserver"
_NEVER: Final = float("inf")


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    on_lost: Callable[[Item, str], Result],
) -> tuple[Result, ...]:
    """Give `function(item)` for each item, in the order of the items.

    Each item has a fresh process to itself, so that nothing else is lost when that one dies. Items that are not
    fragile are handled in this process when they would not be handled side by side anyway.

    Args:
        function: a module's function, or a partial of one; it is pickled, as are the items and the results.
        items: their `name`, if they have one, is told to `progress`.
        workers: processes at a time; None means one for each processor that this process may use.
        timeout: seconds that one item may take in a child; None means any.
        progress: called with the number of items done, the number of all, and the name of the one just done.
        on_lost: gives the result for an item whose process died, hung or ran out of memory, by the reason in words.

    Raises:
        Exception: what `function` raised, as it is; the other children are stopped.
    """
    tell = progress or _silent
    width = min(workers or len(os.sched_getaffinity(0)), len(items))
    if width <= 1 and not any(map(_is_fragile, items)):
        results = []
        for done, item in enumerate(items, start=1):
            results.append(function(item))
            tell(done, len(items), _name(item))
        return tuple(results)
    start = partial(_Child.start, function, timeout=timeout)
    return _run_in_children(start, items, width, tell, on_lost)


def _run_in_children(
    start: "Callable[[Item], _Child[Item, Result]]",
    items: Sequence[Item],
    width: int,
    tell: Progress,
    on_lost: Callable[[Item, str], Result],
) -> tuple[Result, ...]:
    results: dict[int, Result] = {}
    running: dict[Connection, tuple[int, _Child[Item, Result]]] = {}
    waiting = iter(enumerate(items))
    try:
        while len(results) < len(items):
            while len(running) < width and (following := next(waiting, None)) is not None:
                place, item = following
                child = start(item)
                running[child.answers] = place, child
            for place, child in _ready(running):
                del running[child.answers]
                results[place] = child.result(on_lost)
                tell(len(results), len(items), _name(child.item))
    finally:
        for _, child in running.values():
            child.stop()
    return tuple(results[place] for place in range(len(items)))


def _ready(
    running: "dict[Connection, tuple[int, _Child[Item, Result]]]",
) -> "list[tuple[int, _Child[Item, Result]]]":
    """Wait for children that have answered or died, or that are out of time."""
    first = min(child.deadline for _, child in running.values())
    answered = wait(list(running), None if first == _NEVER else max(0.0, first - time.monotonic()))
    now = time.monotonic()
    return [(place, child) for end, (place, child) in running.items() if end in answered or child.deadline <= now]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child(Generic[Item, Result]):
    """A process that handles one item, and the end of the pipe on which it answers."""

    item: Item
    process: BaseProcess
    answers: Connection
    timeout: float | None
    deadline: float

    @classmethod
    def start(cls, function: Callable[[Item], Result], item: Item, timeout: float | None) -> "_Child[Item, Result]":
        context = multiprocessing.get_context(_START_METHOD)
        context.set_forkserver_preload(_preloaded(function))
        answers, other_end = context.Pipe(duplex=False)
        process = context.Process(target=_in_child, args=(function, item, other_end), daemon=True)
        process.start()
        other_end.close()  # so that the pipe ends when the child does
        deadline = _NEVER if timeout is None else time.monotonic() + timeout
        return cls(item=item, process=process, answers=answers, timeout=timeout, deadline=deadline)

    def result(self, on_lost: Callable[[Item, str], Result]) -> Result:
        """Take the answer of a child that is ready (see `_ready`), and see it off.

        Raises:
            Exception: what the function raised.
        """
        answer: Result | _Raised
        try:
            if not self.answers.poll():
                return on_lost(self.item, f"gave no answer in {self.timeout:g} s")
            answer = self.answers.recv()
        except (EOFError, OSError):
            self.process.join()
            return on_lost(self.item, _cause_of_death(self.process.exitcode))
        finally:
            self.stop()
        if isinstance(answer, _Raised):
            if isinstance(answer.error, MemoryError):
                return on_lost(self.item, "ran out of memory")
            raise answer.error
        return answer

    def stop(self) -> None:
        """End the process, if it has not ended, and leave nothing of it."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.answers.close()


@dataclass(frozen=True, slots=True)
class _Raised:
    """An answer: the function raised this."""

    error: Exception


def _in_child(function: Callable[[Item], Result], item: Item, answers: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl+C means, and stops its children
    if _is_fragile(item):
        _be_quiet()
    answer: Result | _Raised
    try:
        answer = function(item)
    except Exception as error:  # noqa: BLE001 -- it goes on in the parent
        error.add_note(traceback.format_exc())
        answer = _Raised(error)
    with suppress(BrokenPipeError):  # the parent was killed: nobody asks any more
        answers.send(answer)


def _be_quiet() -> None:
    """Leave no core and no words: what a library says as it aborts is for its developers; the parent tells why."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended for an unknown reason"
    if exit_code >= 0:
        return f"exited with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"
    return f"signal {-exit_code} ({name})"


def _preloaded(function: Callable[[Item], Result]) -> list[str]:
    """List what the fork server imports once, so that no child has to.

    multiprocessing has every child import the program as well: this package's `__main__`, whether it was started by
    its name or by `python -m`.
    """
    inner = function.func if isinstance(function, partial) else function
    program = f"{__name__.partition('.')[0]}.__main__"
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    is_started = program in sys.modules or (spec is not None and spec.name == program)
    return [*([program] if is_started else []), __name__, inner.__module__]


def _is_fragile(item: object) -> bool:
    return bool(getattr(item, "fragile", True))


def _name(item: object) -> str:
    return str(getattr(item, "name", item))


def _silent(done: int, total: int, name: str) -> None:
    """Tell nobody."""
