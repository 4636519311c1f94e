"""The same recording through every door."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from journal_entries import EVERYTHING, RECORDINGS, REMOTE, Entry, MakeJournal, export_entry, journalctl, read

from kill_audit.entry import Batch
from kill_audit.journal import columns, mapped, open_sources

pytestmark = pytest.mark.journal

LONG = b"x" * 5000
ODD = b"".join(
    export_entry(
        [
            (b"__REALTIME_TIMESTAMP", b"%d" % (1_700_000_000_000_000 + place)),
            (b"__MONOTONIC_TIMESTAMP", b"%d" % (1000 + place)),
            (b"_BOOT_ID", b"b1b7f11e8cfc48ccaa68a3b7e0d67ef5"),
            *fields,
        ]
    )
    for place, fields in enumerate(
        [
            [(b"MESSAGE", b"\x1b[31mcoloured\x1b[0m"), (b"_PID", b"5"), (b"_SYSTEMD_UNIT", b"celery.service")],
            [(b"MESSAGE", b"two\nlines\n\nand more"), (b"_PID", b"5"), (b"_SYSTEMD_UNIT", b"celery.service")],
            [(b"MESSAGE", b"not \xff UTF-8"), (b"_COMM", b"celery")],
            [(b"_PID", b"6"), (b"_COMM", b"no message")],
            [(b"MESSAGE", b""), (b"_COMM", b"an empty one")],
            [(b"MESSAGE", LONG), (b"_PID", b"7"), (b"_CMDLINE", LONG), (b"_LINE_BREAK", b"line-max")],
            [(b"MESSAGE", b"m"), (b"_SYSTEMD_UNIT", b"user@1000.service"), (b"_SYSTEMD_USER_UNIT", b"celery.service")],
            [
                (b"MESSAGE", b"m"),
                (b"UNIT", b"a.service"),
                (b"CODE_FUNC", b"f"),
                (b"_PID", b"1"),
                (b"_COMM", b"systemd"),
            ],
            [(b"MESSAGE", b"m"), (b"_EXE", b"/usr/bin/dockerd"), (b"_PID", b"9"), (b"CONTAINER_NAME", b"worker_1")],
            [(b"MESSAGE", b"\xf0\x9f\x90\x8d m\xc3\xb6hre"), (b"_TRANSPORT", b"kernel"), (b"SYSLOG_FACILITY", b"0")],
        ]
    )
)
TEXTS = [*(path.read_bytes() for path in RECORDINGS), ODD]
NAMES = [*(path.parent.name for path in RECORDINGS), "odd values"]


def through(path: Path) -> list[Entry]:
    """Read a file that has no problem."""
    (source,) = open_sources(files=[str(path)])
    entries, problems = read(source)
    assert problems == []
    return [entry.without_cursor() for entry in entries]


@pytest.mark.parametrize("export", TEXTS, ids=NAMES)
def test_every_door_gives_the_same_entries(export: bytes, tmp_path: Path, make_journal: MakeJournal) -> None:
    """An export, the journal file made of it, and what journalctl prints of that as export and JSON say the same."""
    given = tmp_path / "given"
    given.write_bytes(export)
    journal = make_journal(export, tmp_path / "made.journal")
    printed = {}
    for form in ("export", "json", "json-seq"):
        printed[form] = tmp_path / form
        printed[form].write_bytes(journalctl("--file", str(journal), "--all", "-o", form))
    expected = through(given)
    assert len(expected) > 1
    for door in (journal, *printed.values()):
        assert through(door) == expected, door.name


def test_json_without_all_lacks_the_long_messages_and_nothing_else(tmp_path: Path, make_journal: MakeJournal) -> None:
    """What `journalctl -o json` leaves out for its size is None, and told; the rest is as in the file."""
    journal = make_journal(ODD, tmp_path / "made.journal")
    printed = tmp_path / "printed"
    printed.write_bytes(journalctl("--file", str(journal), "-o", "json"))
    (source,) = open_sources(files=[str(printed)])
    entries, problems = read(source)
    long = LONG.decode()
    assert [entry.without_cursor() for entry in entries] == [
        replace(entry, message=None, fields={"_LINE_BREAK": "line-max"}) if entry.message == long else entry
        for entry in through(journal)
    ]
    assert [(problem.code, problem.detail.split()[0]) for problem in problems] == [("null-message", "1")]


def test_cursors_are_those_that_journalctl_takes(tmp_path: Path, make_journal: MakeJournal) -> None:
    """`journalctl --cursor` finds the entry that a row of a journal file names."""
    journal = make_journal(RECORDINGS[0].read_bytes(), tmp_path / "made.journal")
    (source,) = open_sources(files=[str(journal)])
    entry = read(source)[0][17]
    found = journalctl("--file", str(journal), "--cursor", entry.cursor, "-n1", "-o", "cat", "--all")
    assert found.decode().rstrip("\n") == entry.message


def test_without_systemd_python_journalctl_reads_the_file(
    tmp_path: Path, make_journal: MakeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child `journalctl -o export` gives the same entries."""
    journal = make_journal(ODD, tmp_path / "made.journal")
    expected = through(journal)
    monkeypatch.setitem(sys.modules, "systemd._reader", None)
    assert through(journal) == expected


@pytest.mark.parametrize("form", ["given", "made.journal", "json", "text"])
def test_no_door_makes_a_batch_larger_than_its_limit(
    form: str, tmp_path: Path, make_journal: MakeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with the source, and rows refer to the origins of their own batch."""
    given, journal = tmp_path / "given", tmp_path / "made.journal"
    given.write_bytes(RECORDINGS[0].read_bytes())
    make_journal(given.read_bytes(), journal)
    (tmp_path / "json").write_bytes(journalctl("--file", str(journal), "--all", "-o", "json"))
    (tmp_path / "text").write_bytes(journalctl("--file", str(journal), "--all", "-o", "short-iso"))
    (source,) = open_sources(files=[str(tmp_path / form)])
    whole, _ = read(source)
    for room in (columns, mapped):
        monkeypatch.setattr(room, "BATCH_ENTRIES", 7)
    sizes = [len(batch) for batch in source.batches(EVERYTHING) if isinstance(batch, Batch)]
    assert (set(sizes[:-1]), sum(sizes)) == ({7}, len(whole))
    assert read(source)[0] == whole


def test_entries_of_a_journal_of_the_regular_layout_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files from before systemd 252, or with compact mode off, are laid out differently and say the same."""
    monkeypatch.setenv("SYSTEMD_JOURNAL_COMPACT", "0")
    journal, given = tmp_path / "regular.journal", tmp_path / "given"
    given.write_bytes(ODD)
    subprocess.run([str(REMOTE), f"--output={journal}", str(given)], check=True, capture_output=True)
    assert through(journal) == through(given)
