"""Children that answer, raise, abort, exit and hang."""

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kill_audit import engine
from kill_audit.errors import SourceError

LONG = 600.0  # seconds; no test waits for it


@dataclass(frozen=True, slots=True)
class Item:
    """Something to handle: by `what` the children below know what to do."""

    what: str
    name: str = "item"
    fragile: bool = True
    weight: int = 0


def handle(item: Item) -> str:
    """Do what the item says."""
    return _DEEDS.get(item.what, lambda: item.what)()


def _hang() -> str:
    time.sleep(LONG)
    return "awake"


def _hang_on() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return _hang()


def _run_out_of_memory() -> str:
    raise MemoryError


def _refuse() -> str:
    raise SourceError("no such journal", hint="look elsewhere")


def _fail() -> str:
    raise ZeroDivisionError


_DEEDS: dict[str, Callable[[], str]] = {
    "abort": os.abort,
    "exit": lambda: os._exit(7),
    "hang": _hang,
    "ignore SIGTERM": _hang_on,
    "memory": _run_out_of_memory,
    "refuse": _refuse,
    "fail": _fail,
    "large": lambda: "x" * 5_000_000,
    "pid": lambda: str(os.getpid()),
    "parent": lambda: str(os.getppid()),
    "standard error": lambda: str(Path("/proc/self/fd/2").readlink()),
}


def lost(item: Item, reason: str) -> str:
    """Say what became of an item."""
    return f"{item.what}: {reason}"


def run(*items: Item, workers: int | None = 2, timeout: float | None = LONG) -> tuple[str, ...]:
    """Handle items."""
    return engine.run(handle, items, workers=workers, timeout=timeout, on_lost=lost)


def test_results_come_in_the_order_of_the_items() -> None:
    """Whoever is done first, an item's result stands in its place."""
    assert run(Item("large"), Item("a"), Item("b")) == ("x" * 5_000_000, "a", "b")


def test_nothing_to_do_gives_nothing() -> None:
    """No items, no results, and no process."""
    assert run() == ()


@pytest.mark.parametrize(
    ("what", "reason"),
    [("abort", "signal 6 (SIGABRT)"), ("exit", "exited with status 7"), ("memory", "ran out of memory")],
)
def test_a_child_that_dies_loses_its_own_item_only(what: str, reason: str) -> None:
    """The reason says what ended it; the items before and after it are handled."""
    assert run(Item("a"), Item(what), Item("b"), workers=1) == ("a", f"{what}: {reason}", "b")


@pytest.mark.parametrize("what", ["hang", "ignore SIGTERM"])
def test_a_child_that_hangs_is_ended_after_the_timeout(what: str) -> None:
    """Also one that does not listen to SIGTERM."""
    assert run(Item(what), timeout=0.2) == (f"{what}: gave no answer in 0.2 s",)


def test_each_fragile_item_has_a_process_to_itself() -> None:
    """No two share a process, and none runs in this one."""
    pids = run(*[Item("pid")] * 4)
    assert len({*pids, str(os.getpid())}) == 5


def test_what_cannot_be_lost_is_handled_here_when_nothing_is_gained_by_a_child() -> None:
    """One stream of text does not pay for a process."""
    firm = Item("pid", fragile=False)
    assert run(firm) == (str(os.getpid()),)
    assert run(firm, firm, workers=1) == (str(os.getpid()),) * 2
    assert str(os.getpid()) not in run(firm, firm, workers=2)


def test_one_fragile_item_among_others_is_never_handled_here() -> None:
    """Not even by a single worker."""
    assert str(os.getpid()) not in run(Item("pid", fragile=False), Item("pid"), workers=1)


def test_an_item_that_says_nothing_is_taken_to_be_fragile() -> None:
    """A plain value is handled in a child."""
    assert engine.run(whereabouts, ["x"], on_lost=dead) != (os.getpid(),)


def dead(item: str, reason: str) -> int:
    """Say that there is no process any more."""
    del item, reason
    return 0


def whereabouts(item: str) -> int:
    """Give the process that handles an item."""
    del item
    return os.getpid()


@pytest.mark.parametrize("fragile", [True, False])
def test_an_error_made_for_people_arrives_as_it_was_raised(fragile: bool) -> None:
    """Its message and its hint, from a child as from here."""
    with pytest.raises(SourceError) as refused:
        run(Item("refuse", fragile=fragile))
    assert (refused.value.message, refused.value.hint) == ("no such journal", "look elsewhere")


def test_a_fault_of_the_program_arrives_with_the_child_s_traceback() -> None:
    """A bug is not hidden as a lost item."""
    with pytest.raises(ZeroDivisionError) as raised:
        run(Item("fail"))
    assert "raise ZeroDivisionError" in "".join(raised.value.__notes__)


def test_an_error_stops_the_other_children() -> None:
    """The call ends at once, and no child is left behind."""
    with pytest.raises(SourceError):
        run(Item("hang"), Item("refuse"))


def test_progress_is_told_after_each_item() -> None:
    """How many are done, of how many, and the name of the one just done."""
    told: list[tuple[int, int, str]] = []
    items = [Item("a", name="one"), Item("abort", name="two")]
    engine.run(handle, items, workers=1, progress=lambda *said: told.append(said), on_lost=lost)
    assert told == [(1, 2, "one"), (2, 2, "two")]
    told.clear()
    engine.run(handle, [Item("a", fragile=False)], progress=lambda *said: told.append(said), on_lost=lost)
    assert told == [(1, 1, "item")]


def test_a_partial_function_can_be_run() -> None:
    """What is asked of every item may be bound beforehand."""
    assert engine.run(functools.partial(join, "a"), ["b"], on_lost=join) == ("ab",)


def join(first: str, second: str) -> str:
    """Join two texts."""
    return first + second


@pytest.mark.parametrize(
    ("exit_code", "reason"), [(None, "ended for an unknown reason"), (-250, "signal 250"), (-9, "signal 9 (SIGKILL)")]
)
def test_every_way_to_end_has_words(exit_code: int | None, reason: str) -> None:
    """Also a signal without a name, and an end that nobody saw."""
    assert engine._cause_of_death(exit_code) == reason


def test_a_library_that_complains_as_it_aborts_is_not_heard() -> None:
    """A fragile child's standard error leads nowhere."""
    assert run(Item("standard error")) == ("/dev/null",)


INTERRUPTED = """
import signal, sys, threading
from kill_audit import engine
import test_engine

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and a shell's `&` start it deaf to Ctrl-C
    def tell(done, total, name):
        import os
        os.kill(os.getpid(), signal.SIGINT)
    try:
        items = [test_engine.Item("a"), test_engine.Item("hang")]
        engine.run(test_engine.handle, items, workers=2, progress=tell, on_lost=test_engine.lost)
    except KeyboardInterrupt:
        import multiprocessing
        print("interrupted", len(multiprocessing.active_children()))
"""


def program(script: Path, text: str) -> str:
    """Run a program of its own, and give what it printed."""
    script.write_text(text)
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_ctrl_c_stops_the_children_at_once(tmp_path: Path) -> None:
    """KeyboardInterrupt leaves the call, no child survives it, and nothing is printed by any."""
    assert program(tmp_path / "program.py", INTERRUPTED) == "interrupted 0\n"


PARENTS = """
import os, threading
from kill_audit import engine
import test_engine

if __name__ == "__main__":
    wait = threading.Event()
    for _ in range({threads}):
        threading.Thread(target=wait.wait, daemon=True).start()
    (parent,) = engine.run(test_engine.handle, [test_engine.Item("parent")], on_lost=test_engine.lost)
    print(parent == str(os.getpid()))
"""


@pytest.mark.parametrize(("threads", "forked"), [(0, True), (1, False)])
def test_only_a_process_without_other_threads_is_forked(threads: int, forked: bool, tmp_path: Path) -> None:
    """A fork copies the locks of other threads as they stand; then a fork server makes the children."""
    assert program(tmp_path / "program.py", PARENTS.format(threads=threads)) == f"{forked}\n"


# -- meanwhile ------------------------------------------------------------------


def test_something_is_done_while_the_children_work() -> None:
    """Once, in this process, before any child is waited for."""
    here: list[int] = []
    items = [Item("pid"), Item("pid")]
    engine.run(handle, items, workers=1, meanwhile=lambda: here.append(os.getpid()), on_lost=lost)
    engine.run(handle, [Item("pid", fragile=False)], meanwhile=lambda: here.append(os.getpid()), on_lost=lost)
    assert here == [os.getpid()] * 2


def test_what_fails_meanwhile_stops_the_children() -> None:
    """A run log that cannot be opened is told at once, and not when all is read."""
    with pytest.raises(SourceError, match="no such journal"):
        engine.run(handle, [Item("hang")], meanwhile=_refuse, on_lost=lost)


def test_the_heaviest_item_begins_first() -> None:
    """So that no worker is left with it at the end; results stand in the items' order all the same."""
    told: list[str] = []
    items = [Item("a", name="light", weight=1), Item("b", name="heavy", weight=9), Item("c", name="middle", weight=5)]
    found = engine.run(handle, items, workers=1, progress=lambda _done, _all, name: told.append(name), on_lost=lost)
    assert (found, told) == (("a", "b", "c"), ["heavy", "middle", "light"])
