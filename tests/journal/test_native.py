"""Journal files that are damaged, or that libsystemd refuses; each is read in a child, as always.

systemd's own damaged files (its repository's test/test-journals) are not part of this project. They are used where the
environment names their folder in KILL_AUDIT_DAMAGED_JOURNALS, or where one lies beside this checkout.
"""

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal_entries import EVERYTHING, RECORDINGS, MakeJournal, read

from kill_audit import engine
from kill_audit.entry import Batch, Question, Source
from kill_audit.journal import open_sources
from kill_audit.journal.native import Header

pytestmark = pytest.mark.journal

EXPORT = RECORDINGS[0].read_bytes()
BESIDE = sorted(Path(__file__).parents[3].glob("*/damaged-journals"))
DAMAGED = Path(os.environ.get("KILL_AUDIT_DAMAGED_JOURNALS", BESIDE[0] if BESIDE else "/nonexistent"))
needs_damaged = pytest.mark.skipif(not DAMAGED.is_dir(), reason="systemd's own damaged journals are not here")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a child made of a source: how many entries, and which problems (or what ended it)."""

    entries: int
    codes: tuple[str, ...]


def count(source: Source) -> Outcome:
    """Read a source to its end, in a child."""
    entries, codes = 0, []
    for found in source.batches(EVERYTHING):
        if isinstance(found, Batch):
            entries += len(found)
        else:
            codes.append(found.code)
    return Outcome(entries, tuple(codes))


def lost(source: Source, reason: str) -> Outcome:
    """Say what ended the child."""
    del source
    return Outcome(0, (reason,))


def outcomes(*files: Path) -> dict[str, Outcome]:
    sources = open_sources(files=[str(path) for path in files])
    results = engine.run(count, sources, workers=2, timeout=60, on_lost=lost)
    return {Path(source.name).name: result for source, result in zip(sources, results, strict=True)}


def header_of(path: Path) -> Header | None:
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
    return [int(line[21:]) for line in export.split(b"\n") if line.startswith(b"__REALTIME_TIMESTAMP=")]


def test_a_file_that_is_cut_off_is_truncated_with_the_span_of_its_header(journal: Path) -> None:
    """libsystemd refuses a file that ends before its header says; what it would cover is known all the same."""
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


def test_entries_outside_the_span_that_is_read_are_left_out(journal: Path) -> None:
    """The span is half open, and every entry is masked by its own time; nothing is sought."""
    times = times_in(EXPORT)
    middle = sorted(times)[len(times) // 2]
    (source,) = open_sources(files=[str(journal)])
    entries, _ = read(source, Question(since=0, until=0, read_since=middle, read_until=max(times)))
    assert [entry.realtime for entry in entries] == [time for time in times if middle <= time < max(times)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    places=st.lists(st.tuples(st.integers(208, 200_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4)
)
def test_damage_anywhere_never_crashes_or_hangs_the_reader(
    journal: Path, places: list[tuple[int, bytes]], tmp_path: Path
) -> None:
    """Whatever bytes are overwritten: entries, problems or a lost child, and never an exception."""
    data = bytearray(journal.read_bytes())
    for place, value in places:
        data[place : place + len(value)] = value
    path = tmp_path / "damaged.journal"
    path.write_bytes(data)
    (outcome,) = outcomes(path).values()
    assert outcome.entries <= 10 * len(times_in(EXPORT))


@needs_damaged
def test_the_files_that_make_libsystemd_abort_are_lost_alone() -> None:
    """Each costs its own child, and the reason names the signal; the file beside them is read."""
    found = outcomes(*sorted(DAMAGED.glob("*-libsystemd-*.journal.zst")), *DAMAGED.glob("no-rtc/system.journal.zst"))
    aborted = [outcome for name, outcome in found.items() if "libsystemd" in name]
    assert len(aborted) == 2
    assert {outcome.codes for outcome in aborted} <= {("signal 6 (SIGABRT)",), ("damaged",), ("truncated",), ()}
    assert found["system.journal.zst"] == Outcome(1922, ())


@needs_damaged
def test_a_machine_without_a_clock_loses_no_entry_to_its_time_jumps() -> None:
    """Four boots that all begin at midnight of the same day, archived uncleanly: journalctl counts as many entries."""
    found = outcomes(*sorted(DAMAGED.glob("no-rtc/*.zst")))
    assert {name: outcome.codes for name, outcome in found.items() if outcome.codes} == {}
    assert sorted(outcome.entries for outcome in found.values()) == [296, 502, 817, 1836, 1922, 2648, 2736]


@needs_damaged
def test_no_mutated_journal_crashes_or_hangs_the_reader(tmp_path: Path) -> None:
    """Of the files that a fuzzer made, each is read, refused in words, or lost alone."""
    packed = (DAMAGED / "afl-corrupted-journals.tar.zst").read_bytes()
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        archive.extractall(tmp_path, filter="data")
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    found = outcomes(*files)
    assert len(found) == len(files) > 600
    told = {code for outcome in found.values() for code in outcome.codes if not code.startswith("signal ")}
    assert told <= {"damaged", "truncated", "unsupported", "assumed-timezone"}
