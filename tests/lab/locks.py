"""Locks between the labs of one host: each has a machine of its own, but they share what is kept, and the kernel."""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

KERNEL = Path("/run/lock/kill-audit-lab.kernel")
"""Held by each scenario; alone by one of which the kernel speaks, since all containers hear what the kernel says."""


@contextmanager
def kernel(*, alone: bool) -> Iterator[None]:
    """Hold the lock of what the kernel says; who wants it alone gets its turn although others follow on each other."""
    with ExitStack() as held:
        with locked(KERNEL.with_suffix(".turn")):
            held.enter_context(locked(KERNEL, shared=not alone))
        yield


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock; say so if it has to be waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"the kill lab waits for another one, which holds {path}\n")
            fcntl.flock(lock, how)
        yield


def abandoned(path: Path) -> bool:
    """Tell whether nobody holds a lock any more."""
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
