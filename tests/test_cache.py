"""What was made of archived journal files serves the next report; nothing else does, and nobody else's word."""

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from builders import EVERYTHING, Journal
from kill_audit import cache
from kill_audit.audit import Scan, scan
from kill_audit.cache import Remembering
from kill_audit.entry import Batch, Problem, Question
from kill_audit.places import cache_directory
from kill_audit.timeline import Partial
from test_plain import STORIES, facts, told


@dataclass(frozen=True, slots=True)
class File:
    """An archived file in memory."""

    journal: Journal
    name: str = "system@1.journal"
    lasting: "Lasting | None" = None
    problem: Problem | None = None

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Its entries that are asked for."""
        yield from self.journal.source().batches(question)
        if self.problem is not None:
            yield self.problem


@dataclass(frozen=True, slots=True)
class Lasting:
    """What a file is for good."""

    entries: int
    file_id: str = "a"


def archived(journal: Journal) -> File:
    """Give a journal as an archived file."""
    return File(journal, lasting=Lasting(len(journal.entries)))


def killed() -> Journal:
    """A worker one of whose children died."""
    unit = Journal().unit()
    unit.received("t1")
    unit.dies(1, 9)
    return unit.journal


class Reports:
    """Reports in a row, with one cache; `read` counts what was read each time."""

    def __init__(self, folder: Path, most_bytes: int = cache.MOST_BYTES) -> None:
        self.read: list[int] = []
        self._each = Remembering(each=self._scan, folder=folder, most_bytes=most_bytes)

    def _scan(self, function: Callable[[Scan], Partial], items: Sequence[Scan]) -> Sequence[Partial]:
        self.read.append(len(items))
        return [function(item) for item in items]

    def __call__(self, *files: File, question: Question = EVERYTHING) -> list[dict[str, Any]]:
        """Scan files, and give what each says."""
        return [facts(partial) for partial in self._each(scan, [(file, question) for file in files])]


def kept(folder: Path) -> list[Path]:
    """The files that a cache holds."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@given(story=STORIES)
def test_what_is_kept_says_the_same(
    story: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a worker goes through, the second report is made of equal partials, and nothing is read for it."""
    reports, file = Reports(tmp_path_factory.mktemp("cache")), archived(told(story))
    assert reports(file) == reports(file)
    assert reports.read == [1, 0]


def test_only_an_archived_file_is_kept(tmp_path: Path) -> None:
    """A file that is being written, an export, a file with a problem: read each time."""
    reports, file = Reports(tmp_path), archived(killed())
    damaged = replace(file, problem=Problem(code="damaged", detail="entry 3 is damaged"))
    for _ in range(2):
        reports(replace(file, lasting=None), damaged)
    assert (reports.read, kept(tmp_path)) == ([2, 2], [])


def test_a_whole_file_serves_every_window_that_holds_it(tmp_path: Path) -> None:
    """A window that moves on (`--since 7d`) finds it again; one that cuts the file does not."""
    reports, file = Reports(tmp_path), archived(killed())
    times = [entry.realtime for entry in file.journal.entries]
    inside = replace(EVERYTHING, read_since=min(times), read_until=max(times) + 1, since=5, until=6)
    assert reports(file) == reports(file, question=inside)
    cut = replace(inside, read_since=min(times) + 1)
    assert reports(file, question=cut) != reports(file)
    assert reports(file, question=cut) == reports(file, question=cut)
    assert reports.read == [1, 0, 1, 0, 0, 0]


def test_what_is_asked_tells_kept_answers_apart(tmp_path: Path) -> None:
    """Other units, other ids to keep, another file: read anew."""
    reports, file = Reports(tmp_path), archived(killed())
    other = replace(file, lasting=Lasting(len(file.journal.entries), "b"))
    for _ in range(2):
        reports(file)
        reports(other)
        reports(file, question=replace(EVERYTHING, units=("other.service",)))
        reports(file, question=replace(EVERYTHING, keep=frozenset({1})))
    assert reports.read == [1, 1, 1, 1, 0, 0, 0, 0]


def test_another_release_reads_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes in readers, grammar or timeline may change what a file says."""
    reports, file = Reports(tmp_path), archived(killed())
    reports(file)
    monkeypatch.setattr(cache, "_makers", lambda: "another")
    reports(file)
    assert reports.read == [1, 1]


def test_a_file_that_was_renamed_is_known_by_its_id(tmp_path: Path) -> None:
    """Journald renames a file when it archives it; the report names the place of today."""
    reports, file = Reports(tmp_path), archived(killed())
    reports(file)
    (partial,) = reports(replace(file, name="copy.journal"))
    assert (partial["source"], reports.read) == ("copy.journal", [1, 0])


def test_the_folder_is_private(tmp_path: Path) -> None:
    """It holds lines of the journal: nobody else may look into it."""
    Reports(tmp_path / "new")(archived(killed()))
    (path,) = kept(tmp_path)
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_others_may_write_is_not_believed(what: str, tmp_path: Path) -> None:
    """Then the file is read again."""
    reports, file = Reports(tmp_path), archived(killed())
    reports(file)
    (path,) = kept(tmp_path)
    (path.parent if what == "folder" else path).chmod(0o770)
    reports(file)
    assert reports.read == [1, 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_owns_is_not_believed(tmp_path: Path) -> None:
    """Not even by root."""
    reports, file = Reports(tmp_path), archived(killed())
    reports(file)
    os.chown(kept(tmp_path)[0], 65534, 65534)
    reports(file)
    assert reports.read == [1, 1]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither as the folder nor as a file in it."""
    reports, file = Reports(tmp_path / "cache"), archived(killed())
    reports(file)
    (path,) = kept(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    reports(file)
    assert reports.read == [1, 1]


class Bomb:
    """Something whose unpickling runs a program."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("false",)


NOT_OWN = b"\x80\x04\x8c\x11kill_audit.events\x8c\x06np.max\x93."


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps(1), pickle.dumps(Bomb()), NOT_OWN])
def test_garbage_costs_a_reading(content: bytes, tmp_path: Path) -> None:
    """Whatever lies there: it is read again, and kept anew; nothing is run."""
    reports, file = Reports(tmp_path), archived(killed())
    reports(file)
    (path,) = kept(tmp_path)
    path.write_bytes(content)
    for _ in range(2):
        reports(file)
    assert reports.read == [1, 1, 0]


def test_it_may_be_deleted_and_need_not_be_writable(tmp_path: Path) -> None:
    """A cache that cannot be had costs time, never an answer."""
    file = archived(killed())
    (tmp_path / "file").write_text("no folder")
    nowhere = Reports(tmp_path / "file" / "below")
    assert nowhere(file) == nowhere(file)
    assert nowhere.read == [1, 1]


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """The folder does not grow beyond its bound."""
    files = [replace(archived(killed()), lasting=Lasting(1, str(place))) for place in range(3)]
    Reports(tmp_path)(files[0])
    size = kept(tmp_path)[0].stat().st_size
    reports = Reports(tmp_path, most_bytes=2 * size + size // 2)
    for place, file in enumerate(files):
        reports(file)
        for path in kept(tmp_path):
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**9))
        assert len(kept(tmp_path)) == min(place + 1, 2)
    reports.read.clear()
    reports(files[1], files[2])
    reports(files[0])
    assert reports.read == [0, 1]


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$CACHE_DIRECTORY goes before all; root has the folder of the service; a user has one by XDG."""
    assert cache_directory({"CACHE_DIRECTORY": "/var/cache/a:/var/cache/b"}) == Path("/var/cache/a")
    assert cache_directory({}, root=True) == Path("/var/cache/kill-audit")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory({}, root=False) == tmp_path / "kill-audit"


def test_hashes_come_back_as_they_were(tmp_path: Path) -> None:
    """Those of finished ids are an array."""
    finished = np.array([1, 2**64 - 1], np.uint64)
    made = [Partial(source="x", finished=finished)]
    remembering = Remembering(each=lambda _scan, items: made[: len(items)], folder=tmp_path)
    item = replace(archived(killed()), lasting=Lasting(0)), EVERYTHING
    remembering(scan, [item])
    made.clear()
    (partial,) = remembering(scan, [item])
    assert partial.finished.dtype == np.uint64
    assert partial.finished.tolist() == [1, 2**64 - 1]
