"""Journal files that are missing between others, told by the numbers that journald gives to entries."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from journal_entries import EVERYTHING, MakeJournal, export_entry, read

from kill_audit.entry import Problem
from kill_audit.journal import open_host, open_sources
from kill_audit.journal.layout import ONLINE

pytestmark = pytest.mark.journal

NOON = 1_796_040_000_000_000
HOUR = 3600 * 1_000_000
MACHINE = "5" * 32
LOG, OTHER_LOG = b"L" * 16, b"M" * 16


def hours(first: int, last: int) -> bytes:
    """Entries at the full hours after noon, in Journal Export Format."""
    return b"".join(
        export_entry(
            (
                (b"__REALTIME_TIMESTAMP", b"%d" % (NOON + hour * HOUR)),
                (b"__MONOTONIC_TIMESTAMP", b"%d" % (hour * HOUR)),
                (b"_BOOT_ID", b"b" * 32),
                (b"_MACHINE_ID", MACHINE.encode()),
                (b"MESSAGE", b"hour %d" % hour),
            )
        )
        for hour in range(first, last)
    )


def number(path: Path, first: int, last: int, *, log: bytes = LOG, state: int | None = None) -> None:
    """Give a file's entries numbers of a log, as journald would; a file of its own state, where one is named."""
    with path.open("r+b") as file:
        for offset, value in ((72, log), (160, struct.pack("<Q", last)), (168, struct.pack("<Q", first))):
            file.seek(offset)
            file.write(value)
        if state is not None:
            file.seek(16)
            file.write(bytes((state,)))


@pytest.fixture
def folder(tmp_path: Path, make_journal: MakeJournal) -> Path:
    """Three files of one log: hours 0 to 9 are entries 1 to 1000, and so on, as if each had many more."""
    for place in range(3):
        path = make_journal(hours(10 * place, 10 * place + 10), tmp_path / f"system@{place}.journal")
        number(path, 1000 * place + 1, 1000 * place + 1000)
    return tmp_path


def problems(folder: Path, since: int = 0, until: int = 1 << 62) -> list[Problem]:
    """What the folder's sources that hold no entries say."""
    question = replace(EVERYTHING, since=since, until=until)
    sources = open_sources(directories=[str(folder)])
    return [one for source in sources for one in read(source, question)[1] if one.code == "files-missing"]


def test_a_whole_log_has_no_hole(folder: Path) -> None:
    """Files whose numbers follow one another miss nothing."""
    assert problems(folder) == []


def test_a_missing_file_is_a_hole_with_its_span(folder: Path) -> None:
    """Without the file in the middle the span between its neighbours is told, with the number of entries."""
    (folder / "system@1.journal").unlink()
    (hole,) = problems(folder)
    assert (hole.since, hole.until) == (NOON + 9 * HOUR, NOON + 20 * HOUR)
    assert hole.detail == "1,000 entries that journald numbered are in none of the files"


@pytest.mark.parametrize(("window", "found"), [((0, 9), 0), ((10, 12), 1), ((0, 30), 1), ((20, 30), 0)])
def test_a_hole_outside_the_window_is_no_problem(window: tuple[int, int], found: int, folder: Path) -> None:
    """Only a hole that touches the window keeps the evidence from reaching over it."""
    (folder / "system@1.journal").unlink()
    since, until = (NOON + hour * HOUR for hour in window)
    assert len(problems(folder, since=since, until=until)) == found


def test_the_oldest_and_the_newest_file_leave_no_hole(folder: Path) -> None:
    """What is missing at an end is told by the times of the first and the last entry."""
    (folder / "system@0.journal").unlink()
    assert problems(folder) == []


@pytest.mark.parametrize(
    ("last", "found"),
    [
        pytest.param(2000, 0, id="all of them"),
        pytest.param(1500, 1, id="a part of them"),
        pytest.param(1995, 0, id="all but a few that could not be written"),
    ],
)
def test_users_journals_share_the_numbers(last: int, found: int, folder: Path) -> None:
    """What a user's journal holds between two of the system's is not missing."""
    (folder / "system@1.journal").rename(folder / "user-1000.journal")
    number(folder / "user-1000.journal", 1001, last)
    assert len(problems(folder)) == found


def test_another_log_has_numbers_of_its_own(folder: Path) -> None:
    """Files of two logs, as of a namespace or after a new beginning, are not compared."""
    (folder / "system@1.journal").unlink()
    number(folder / "system@2.journal", 5000, 6000, log=OTHER_LOG)
    assert problems(folder) == []


def test_behind_a_file_that_was_not_closed_nothing_is_said(folder: Path) -> None:
    """After a power loss the header may not know the last entries; that boot has no end, which is told already."""
    (folder / "system@1.journal").unlink()
    number(folder / "system@0.journal", 1, 1000, state=ONLINE)
    assert problems(folder) == []


def test_a_host_with_a_hole_is_told_of_it(folder: Path, tmp_path: Path) -> None:
    """The host's own journal is looked at in the same way."""
    (folder / "system@1.journal").unlink()
    place = tmp_path / "host/var/log/journal" / MACHINE
    place.parent.mkdir(parents=True)
    place.mkdir()
    for path in folder.glob("*.journal"):
        path.rename(place / path.name)
    sources = open_host(root=str(tmp_path / "host"))
    assert [one.code for source in sources for one in read(source)[1]] == ["files-missing"]
