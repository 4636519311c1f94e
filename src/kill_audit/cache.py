"""What never changes is read once: what a scan made of an archived journal file is kept for the next report.

Rules of this file:
1. Only whole answers of scans without a problem are kept, of sources that say by `lasting` what they are for good.
2. What is kept of a file of which every entry was read serves every window that holds all of them; what a window cut
   serves that window alone.
3. Nothing is believed that another user could have written: the folder and the file must be this user's, and nobody
   else may write to them. What is unpickled may name nothing but this package's own values and numpy's arrays.
4. A cache that cannot be used costs time, never an answer: whatever is wrong with it, the file is read again.
"""

import contextlib
import os
import pickle
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from kill_audit import __version__
from kill_audit.audit import Each, Scan
from kill_audit.entry import Question
from kill_audit.timeline import Partial

MOST_BYTES: Final = 256 << 20
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = ("entry.py", "events.py", "audit.py", "grammar", "timeline", "journal")  # what a partial depends on
_ALLOWED: Final = frozenset({
    ("builtins", "frozenset"), ("builtins", "set"), ("collections", "Counter"), ("_codecs", "encode"),
    ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
})  # fmt: skip
_OWN: Final = ("kill_audit.entry", "kill_audit.events", "kill_audit.timeline.partial")
_UNUSABLE: Final = (
    OSError, EOFError, pickle.PickleError, AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """Runs scans (`audit.Each`) and keeps what they give, or gives what was kept."""

    each: Each
    folder: Path
    most_bytes: int = MOST_BYTES

    def __call__(self, function: Callable[[Scan], Partial], items: Sequence[Scan]) -> Sequence[Partial]:
        """Give the results in the order of the items."""
        with _opened(self.folder) as shelf:
            if shelf is None:
                return self.each(function, items)
            kept = [_taken(shelf, item) for item in items]
            missing = [place for place, partial in enumerate(kept) if partial is None]
            made = dict(zip(missing, self.each(function, [items[place] for place in missing]), strict=True))
            for place, partial in made.items():
                _keep(shelf, items[place], partial)
            if made:
                shelf.shrink(self.most_bytes)
        return [made[place] if partial is None else partial for place, partial in enumerate(kept)]


def _taken(shelf: "_Shelf", item: Scan) -> Partial | None:
    source, question = item
    lasting = getattr(source, "lasting", None)
    if lasting is None:
        return None
    for name in (_name(lasting, question, whole=True), _name(lasting, question, whole=False)):
        partial = shelf.take(name)
        if isinstance(partial, Partial) and (name.endswith(_CUT) or _holds(question, partial)):
            return replace(partial, source=source.name)
    return None


def _keep(shelf: "_Shelf", item: Scan, partial: Partial) -> None:
    source, question = item
    lasting = getattr(source, "lasting", None)
    if lasting is not None and not partial.problems:
        shelf.put(_name(lasting, question, whole=partial.entries == lasting.entries), partial)


def _holds(question: Question, partial: Partial) -> bool:
    """Whether a question reads every entry that a partial is made of."""
    first = min((stretch.first for stretch in partial.stretches), default=question.read_since)
    last = max((stretch.last for stretch in partial.stretches), default=question.read_since)
    return question.read_since <= first and last < question.read_until


_CUT: Final = ".cut"


def _name(lasting: Any, question: Question, *, whole: bool) -> str:
    """Name what is kept: by the file, by what makes a partial of it, and by what is asked.

    When deaths count (`since`, `until`) does not matter to a scan; what is read matters where it cuts the file.
    """
    span = None if whole else (question.read_since, question.read_until)
    asked = (question.units, sorted(question.keep), question.assume_timezone, question.assume_year, question.marks)
    told = repr((lasting, _makers(), span, asked)).encode("utf-8", "backslashreplace")
    return blake2b(told, digest_size=20).hexdigest() + ("" if whole else _CUT)


@cache
def _makers() -> str:
    """Tell this release's readers, grammar and timeline from every other's, also in a source tree that changes."""
    digest = blake2b(__version__.encode(), digest_size=20)
    top = Path(__file__).parent
    for name in _READ:
        place = top / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            with contextlib.suppress(OSError):
                digest.update(path.read_bytes())
    return digest.hexdigest()


# -- the folder -----------------------------------------------------------------


@contextlib.contextmanager
def _opened(place: Path) -> "Iterator[_Shelf | None]":
    """Open the private folder in a place, made if need be; None where it cannot be trusted or had."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = place / f"partials-{os.geteuid()}"  # root's beside the service's, whose user is another
        own.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield _Shelf(descriptor) if _is_ours(os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE


class _Shelf:
    """An open folder; everything is done by its descriptor, so that nobody can put another in its place."""

    def __init__(self, descriptor: int) -> None:
        self._folder = descriptor

    def take(self, name: str) -> object:
        """Give what is kept under a name; None if there is nothing that can be used."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return None
        try:
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if not (stat.S_ISREG(status.st_mode) and _is_ours(status)):
                    return None
                found = _Unpickler(BytesIO(file.read())).load()
                os.utime(file.fileno())  # what was used last goes last
        except _UNUSABLE:
            return None
        return found

    def put(self, name: str, value: object) -> None:
        """Keep something; it is there as a whole or not at all."""
        new = f"{name}.{os.getpid()}.new"
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(new, flags, 0o600, dir_fd=self._folder), "wb") as file:
                    pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
                os.rename(new, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                os.unlink(new, dir_fd=self._folder)

    def shrink(self, most_bytes: int) -> None:
        """Remove what was used longest ago, until what is left has at most so many bytes."""
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder)  # noqa: PTH208 - a Path has no descriptor
            found = [(os.stat(name, dir_fd=self._folder, follow_symlinks=False), name) for name in names]
            left = sum(status.st_size for status, _ in found)
            for status, name in sorted(found, key=lambda one: one[0].st_mtime_ns):
                if left <= most_bytes:
                    return
                os.unlink(name, dir_fd=self._folder)
                left -= status.st_size


class _Unpickler(pickle.Unpickler):
    """Makes nothing but the values that a partial is made of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):  # Python 3.11.0 to 3.11.3 write an enum's member so
            return _member
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        if module in _OWN and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a partial")


def _member(owner: object, name: str) -> Enum:
    """Give a member of an enum, and nothing else that an attribute could be."""
    if isinstance(owner, type) and issubclass(owner, Enum):
        return owner[name]
    raise pickle.UnpicklingError(f"{name} is no member of an enum")
