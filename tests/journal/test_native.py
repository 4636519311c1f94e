"""Journal files that are damaged, or that libsystemd refuses; each is read in a child, as always.

systemd's own damaged files (its repository's test/test-journals) are not part of this project. They are used where the
environment names their folder in KILL_AUDIT_DAMAGED_JOURNALS, or where one lies beside this checkout.
"""

import io
import json
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Self

import pytest
import zstandard
from journal_entries import EVERYTHING, RECORDINGS, MakeJournal, read, sorted_out

from kill_audit.entry import Question
from kill_audit.errors import SourceError
from kill_audit.journal import native, open_sources
from kill_audit.journal.native import Header

pytestmark = pytest.mark.journal

EXPORT = RECORDINGS[0].read_bytes()
BESIDE = sorted(Path(__file__).parents[3].glob("*/damaged-journals"))
DAMAGED = Path(os.environ.get("KILL_AUDIT_DAMAGED_JOURNALS", BESIDE[0] if BESIDE else "/nonexistent"))
EVERY = 1 if os.environ.get("KILL_AUDIT_FUZZ") else 8  # of the 619 mutated files; `make fuzz` reads them all
needs_damaged = pytest.mark.skipif(not DAMAGED.is_dir(), reason="systemd's own damaged journals are not here")


def outcomes(*files: Path) -> dict[str, tuple[int, list[str]]]:
    """Read each file in a child of a program of its own; give the number of entries and the codes of problems."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("count_entries.py")), *files],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    return {Path(name).name: (entries, codes) for name, entries, codes in json.loads(done.stdout)}


def header_of(path: Path) -> Header | None:
    """Read a file's header."""
    with path.open("rb") as file:
        return Header.read(file)


@pytest.fixture
def journal(tmp_path: Path, make_journal: MakeJournal) -> Path:
    """A journal file with the entries of a recording."""
    return make_journal(EXPORT, tmp_path / "x.journal")


def test_the_header_tells_entries_span_and_features_without_libsystemd(journal: Path) -> None:
    """The numbers are those that `journalctl --header` prints."""
    header = header_of(journal)
    assert header is not None
    printed = subprocess.run(["journalctl", "--header", "--file", str(journal)], check=True, capture_output=True)
    lines = dict(line.lower().split(": ", 1) for line in printed.stdout.decode().splitlines() if ": " in line)
    assert header.entries == int(lines["entry objects"])
    flags = lines["incompatible flags"].upper().replace("COMPRESSED-", "").split()
    assert sorted(flags) == sorted(header.features)
    assert (header.first, header.last) == (min(times := times_in(EXPORT)), max(times))


def times_in(export: bytes) -> list[int]:
    """Give the times of the entries of an export."""
    return [int(line[21:]) for line in export.split(b"\n") if line.startswith(b"__REALTIME_TIMESTAMP=")]


def test_a_file_that_is_cut_off_is_truncated_with_the_span_of_its_header(journal: Path) -> None:
    """A file that ends before its header says is refused; what it would cover is known all the same."""
    header = header_of(journal)
    assert header is not None
    with journal.open("rb+") as file:
        file.truncate(100_000)
    (source,) = open_sources(files=[str(journal)])
    entries, (problem,) = read(source)
    assert (entries, problem.code, problem.since, problem.until) == ([], "truncated", header.first, header.last)


def test_a_file_with_a_feature_of_the_future_is_unsupported_and_the_feature_named(journal: Path) -> None:
    """An incompatible flag that libsystemd does not know makes it refuse the file (EPROTONOSUPPORT)."""
    with journal.open("rb+") as file:
        file.seek(12)
        flags = int.from_bytes(file.read(4), "little")
        file.seek(12)
        file.write((flags | 1 << 20).to_bytes(4, "little"))
    (source,) = open_sources(files=[str(journal)])
    _, (problem,) = read(source)
    assert problem.code == "unsupported"
    assert "bit 20" in problem.detail


def test_entries_that_libsystemd_passes_over_in_silence_are_noticed(journal: Path) -> None:
    """Where the chain of entries is damaged libsystemd ends early; the header's count shows it."""
    header = header_of(journal)
    assert header is not None
    with journal.open("rb+") as file:
        file.seek(16)
        file.write(b"\0")  # offline
        file.seek(176)
        array = int.from_bytes(file.read(8), "little")
        file.seek(array + 24 + 4 * 2)
        file.write(bytes(4))
    (source,) = open_sources(files=[str(journal)])
    entries, (problem,) = read(source)
    assert len(entries) < header.entries
    assert (problem.code, f"{len(entries):,} could be read" in problem.detail) == ("damaged", True)


def test_a_file_that_is_being_written_is_no_problem(journal: Path) -> None:
    """Its header lags behind; state ONLINE is the usual state of a host's own journal."""
    with journal.open("rb+") as file:
        file.seek(16)
        file.write(b"\1")
        file.seek(152)
        file.write((10**6).to_bytes(8, "little"))
    (source,) = open_sources(files=[str(journal)])
    entries, problems = read(source)
    assert (len(entries), problems) == (len(times_in(EXPORT)), [])


def test_a_file_that_journalctl_refuses_is_a_problem_in_its_words(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where journalctl has to do it, its exit status and complaint are told."""
    with journal.open("rb+") as file:
        file.truncate(100_000)
    monkeypatch.setitem(sys.modules, "systemd._reader", None)
    (source,) = open_sources(files=[str(journal)])
    entries, (problem,) = read(source)
    assert (entries, problem.code, "journalctl ended with status 1" in problem.detail) == ([], "damaged", True)


def test_without_any_means_to_read_a_journal_the_packages_are_named(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither systemd-python nor journalctl: the hint says what to install."""
    monkeypatch.setitem(sys.modules, "systemd._reader", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="no means to read") as refused:
        sorted_out(native.read_native(str(journal), EVERYTHING))
    assert "apt install python3-systemd" in refused.value.hint


class DamagedReader:
    """A reader as systemd-python's, of which some calls fail as libsystemd's do on damaged files."""

    data_threshold = 0

    def __init__(self, flags: int, files: list[str]) -> None:
        assert (flags, len(files)) == (0, 1)
        self.steps: list[bool | OSError] = [True, OSError(74, "Bad message"), True, True, False]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _next(self) -> bool:
        step = self.steps.pop(0)
        if isinstance(step, OSError):
            raise step
        return step

    def _get_realtime(self) -> int:
        return 5

    def _get_monotonic(self) -> tuple[int, str]:
        return 6, "boot"

    def _get_cursor(self) -> str:
        return "c"

    def _get_all(self) -> dict[str, bytes | list[bytes]]:
        if len(self.steps) == 1:
            return {"MESSAGE": [b"whole", b"second"]}
        raise OSError("journal gave us a field without '='")

    def _get(self, name: str) -> bytes:
        if name == "MESSAGE":
            return b"saved"
        raise KeyError(name)


def test_of_a_damaged_entry_the_fields_that_can_be_read_are_kept(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad field does not cost the message, and one bad entry not the next."""
    monkeypatch.setattr(native, "import_reader", lambda: DamagedReader)
    entries, problems = sorted_out(native.read_native(str(journal), EVERYTHING))
    assert [(entry.message, entry.realtime, entry.cursor) for entry in entries] == [
        ("saved", 5, "c"), ("saved", 5, "c"), ("whole", 5, "c"),
    ]  # fmt: skip
    assert [problem.detail for problem in problems[:3]] == [
        "entry 1 cannot be read whole: journal gave us a field without '='",
        "entry 1 cannot be read whole: Bad message",
        "entry 2 cannot be read whole: journal gave us a field without '='",
    ]


def test_entries_outside_the_span_that_is_read_are_left_out(journal: Path) -> None:
    """The span is half open, and every entry is masked by its own time; nothing is sought."""
    times = times_in(EXPORT)
    middle = sorted(times)[len(times) // 2]
    (source,) = open_sources(files=[str(journal)])
    entries, _ = read(source, Question(since=0, until=0, read_since=middle, read_until=max(times)))
    assert [entry.realtime for entry in entries] == [time for time in times if middle <= time < max(times)]


@pytest.mark.parametrize("seed", range(2))
def test_damage_anywhere_never_crashes_or_hangs_the_reader(journal: Path, seed: int, tmp_path: Path) -> None:
    """Whatever bytes are overwritten: entries, problems or a lost child, and never an exception."""
    whole, chance = journal.read_bytes(), random.Random(seed)  # noqa: S311 -- damage, not secrets
    used = whole.rstrip(b"\0")
    files = []
    for number in range(20):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(208, len(used))
            value = chance.choice([bytes(8), b"\xff" * 8, chance.randbytes(chance.randint(1, 64))])
            data[place : place + len(value)] = value
        files.append(tmp_path / f"damaged-{number}.journal")
        files[-1].write_bytes(data)
    found = outcomes(*files)
    assert sorted(found) == sorted(path.name for path in files)
    assert max(entries for entries, _ in found.values()) == len(times_in(EXPORT))


@needs_damaged
def test_the_files_that_make_libsystemd_abort_are_lost_alone() -> None:
    """Each costs its own child, and the reason names the signal; the file beside them is read."""
    found = outcomes(*sorted(DAMAGED.glob("*-libsystemd-*.journal.zst")), *DAMAGED.glob("no-rtc/system.journal.zst"))
    aborted = [codes for name, (_, codes) in found.items() if "libsystemd" in name]
    assert len(aborted) == 2
    assert {code for codes in aborted for code in codes} <= {"signal 6 (SIGABRT)", "damaged", "truncated"}
    assert found["system.journal.zst"] == (1922, [])


@needs_damaged
def test_a_machine_without_a_clock_loses_no_entry_to_its_time_jumps() -> None:
    """Four boots that all begin at midnight of the same day, archived uncleanly: journalctl counts as many entries."""
    found = outcomes(*sorted(DAMAGED.glob("no-rtc/*.zst")))
    assert {name: codes for name, (_, codes) in found.items() if codes} == {}
    assert sorted(entries for entries, _ in found.values()) == [296, 502, 817, 1836, 1922, 2648, 2736]


@needs_damaged
def test_no_mutated_journal_crashes_or_hangs_the_reader(tmp_path: Path) -> None:
    """Of the files that a fuzzer made, each is read, refused in words, or lost alone."""
    packed = (DAMAGED / "afl-corrupted-journals.tar.zst").read_bytes()
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(tmp_path)  # noqa: S202 - made by systemd, and checked where Python can
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()][::EVERY]
    found = outcomes(*files)
    assert len(found) == len(files) > 600 // EVERY
    told = {code for _, codes in found.values() for code in codes if not code.startswith("signal ")}
    assert told <= {"damaged", "truncated", "unsupported", "assumed-timezone"}
