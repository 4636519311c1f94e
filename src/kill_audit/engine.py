"""Runs one function over many items, in child processes, and survives a child that dies or hangs.

Rules of this file: it knows nothing of journals. An item whose handling may end its process says so by a true
attribute `fragile`; one that says nothing is taken to be fragile. How much work an item is, it says by `weight`.
"""

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkServerContext
from pathlib import Path
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress = Callable[[int, int, str], None]

_THREADS: Final = Path("/proc/self/task")  # proc_pid_task(5)
_NEVER: Final = float("inf")


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    meanwhile: Callable[[], object] | None = None,
    on_lost: Callable[[Item, str], Result],
) -> tuple[Result, ...]:
    """Give `function(item)` for each item, in the order of the items; the heaviest begin first.

    A fragile item has a fresh process to itself, so that nothing else is lost when that one dies. Other items share
    the children, or are handled in this process when they would not be handled side by side anyway.

    Args:
        function: a module's function, or a partial of one; it is pickled, as are the items and the results.
        items: their `name`, if they have one, is told to `progress`.
        workers: processes at a time; None means one for each processor that this process may use.
        timeout: seconds that one item may take in a child; None means any.
        progress: called with the number of items done, the number of all, and the name of the one just done.
        meanwhile: what this process has to do besides; called once, when the first children are at work.
        on_lost: gives the result for an item whose process died, hung or ran out of memory, by the reason in words.

    Raises:
        Exception: what `function` or `meanwhile` raised, as it is; the children are stopped.
    """
    tell = progress or _silent
    width = min(workers or len(os.sched_getaffinity(0)), len(items))
    if width <= 1 and not any(map(_is_fragile, items)):
        (meanwhile or _nothing)()
        results = []
        for done, item in enumerate(items, start=1):
            results.append(function(item))
            tell(done, len(items), _name(item))
        return tuple(results)
    crew = _Crew(function, timeout)
    try:
        return _run_in_children(crew, items, width, tell, meanwhile or _nothing, on_lost)
    finally:
        crew.stop()


def _run_in_children(
    crew: "_Crew[Item, Result]",
    items: Sequence[Item],
    width: int,
    tell: Progress,
    meanwhile: Callable[[], object],
    on_lost: Callable[[Item, str], Result],
) -> tuple[Result, ...]:
    results: dict[int, Result] = {}
    places: dict[_Child[Item, Result], int] = {}
    waiting = iter(sorted(enumerate(items), key=lambda one: -_weight(one[1])))
    besides = iter([meanwhile])
    while len(results) < len(items):
        while len(crew.busy) < width and (following := next(waiting, None)) is not None:
            place, item = following
            places[crew.give(item)] = place
        next(besides, _nothing)()
        for child in crew.ready():
            item = child.item
            results[places.pop(child)] = crew.result(child, on_lost)
            tell(len(results), len(items), _name(item))
    return tuple(results[place] for place in range(len(items)))


class _Child(Generic[Item, Result]):
    """A process that handles items, and this end of the line to it."""

    def __init__(self, function: Callable[[Item], Result], item: Item, others: Sequence[Connection]) -> None:
        context = _context(function)
        self.line, other_end = context.Pipe()
        # What a fork has open of other children's lines it closes, so that each line ends when this process does.
        inherited = (self.line, *others) if isinstance(context, ForkContext) else ()
        self.process = context.Process(target=_in_child, args=(function, item, other_end, inherited), daemon=True)
        self.item = item
        self.deadline = _NEVER
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child ignores it
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        other_end.close()  # so that the line ends when the child does

    def stop(self) -> None:
        """End the process, if it has not ended, and leave nothing of it."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.line.close()


class _Crew(Generic[Item, Result]):
    """The children at work, and those that wait for another item."""

    def __init__(self, function: Callable[[Item], Result], timeout: float | None) -> None:
        self._function = function
        self._timeout = timeout
        self._idle: list[_Child[Item, Result]] = []
        self.busy: list[_Child[Item, Result]] = []

    def give(self, item: Item) -> _Child[Item, Result]:
        """Let a child handle an item: an idle one, or a new one."""
        child = None if _is_fragile(item) else self._again(item)
        if child is None:
            child = _Child(self._function, item, [other.line for other in (*self._idle, *self.busy)])
        child.deadline = _NEVER if self._timeout is None else time.monotonic() + self._timeout
        self.busy.append(child)
        return child

    def _again(self, item: Item) -> "_Child[Item, Result] | None":
        while self._idle:
            child = self._idle.pop()
            try:
                child.line.send(item)
            except OSError:  # it has died while it had nothing to do
                child.stop()
            else:
                child.item = item
                return child
        return None

    def ready(self) -> list[_Child[Item, Result]]:
        """Wait for children that have answered or died, or that are out of time."""
        first = min(child.deadline for child in self.busy)
        lines = [child.line for child in self.busy]
        answered = wait(lines, None if first == _NEVER else max(0.0, first - time.monotonic()))
        now = time.monotonic()
        return [child for child in self.busy if child.line in answered or child.deadline <= now]

    def result(self, child: _Child[Item, Result], on_lost: Callable[[Item, str], Result]) -> Result:
        """Take the answer of a child that is ready; one that may go on is idle then, another is seen off.

        Raises:
            Exception: what the function raised.
        """
        self.busy.remove(child)
        lives = False
        try:
            if not child.line.poll():
                return on_lost(child.item, f"gave no answer in {self._timeout:g} s")
            answer: Result | _Raised = child.line.recv()
            lives = not _is_fragile(child.item)
        except (EOFError, OSError):
            child.process.join()
            return on_lost(child.item, _cause_of_death(child.process.exitcode))
        finally:
            if lives:
                self._idle.append(child)
            else:
                child.stop()
        if isinstance(answer, _Raised):
            if isinstance(answer.error, MemoryError):
                return on_lost(child.item, "ran out of memory")
            raise answer.error
        return answer

    def stop(self) -> None:
        """End all children."""
        for child in (*self.busy, *self._idle):
            child.stop()
        self.busy.clear()
        self._idle.clear()


@dataclass(frozen=True, slots=True)
class _Raised:
    """An answer: the function raised this."""

    error: Exception


def _context(function: Callable[[Item], Result]) -> ForkContext | ForkServerContext:
    """Choose how children are made.

    A fork of this process has all that is imported, and is there in a few milliseconds; but it copies the locks of
    other threads as they stand. Where there are any, a fork server is started, which has one thread only.
    """
    try:
        alone = len(list(_THREADS.iterdir())) == 1
    except OSError:
        alone = False
    if alone:
        return multiprocessing.get_context("fork")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_preloaded(function))
    return context


def _in_child(
    function: Callable[[Item], Result], item: Item, line: Connection, inherited: Sequence[Connection]
) -> None:
    """Handle an item, and then every other that is sent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl+C means, and stops its children
    for other in inherited:
        other.close()
    gc.freeze()  # what was there before is not looked through again and again
    if _is_fragile(item):
        _be_quiet()
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent has ended, or wants nothing more
        while True:
            line.send(_answer(function, item))
            item = line.recv()


def _answer(function: Callable[[Item], Result], item: Item) -> "Result | _Raised":
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001 -- it goes on in the parent
        error.add_note(traceback.format_exc())
        return _Raised(error)


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


def _weight(item: object) -> float:
    return float(getattr(item, "weight", 0))


def _nothing() -> None:
    """Do nothing besides."""


def _silent(done: int, total: int, name: str) -> None:
    """Tell nobody."""
