"""The column reader: what libsystemd reads of a `.journal` file, without libsystemd."""

# ruff: noqa: E501 -- rows of samples

import io
import os
import random
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_entries import EVERYTHING, RECORDINGS, REMOTE, Entry, export_entry, sorted_out

from kill_audit.entry import DETAIL_FIELDS, Batch, Question
from kill_audit.journal import items, mapped, open_sources, read_by
from kill_audit.journal.choosing import Reader, read_journal, why_not_by_columns
from kill_audit.journal.columns import ORIGIN_FIELDS
from kill_audit.journal.export import read_export
from kill_audit.journal.layout import JournalFile, UnmappableError
from kill_audit.journal.mapped import MappedJournal
from kill_audit.journal.native import read_native
from kill_audit.journal.opening import unpacked
from kill_audit.journal.unpacking import MOST_BYTES, PackedError, Unpacker

pytestmark = pytest.mark.journal

EXPORT = RECORDINGS[0].read_bytes()
DATA = Path(__file__).parents[1] / "data"
JOURNALS = DATA / "journals"
LAYOUTS = pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"SYSTEMD_JOURNAL_COMPACT": "1"}, id="compact"),
        pytest.param({"SYSTEMD_JOURNAL_COMPACT": "0"}, id="regular"),
        pytest.param({"SYSTEMD_JOURNAL_KEYED_HASH": "0"}, id="plain hashes"),
    ],
)
BESIDE = sorted(Path(__file__).parents[3].glob("*/damaged-journals"))
DAMAGED = Path(os.environ.get("KILL_AUDIT_DAMAGED_JOURNALS", BESIDE[0] if BESIDE else "/nonexistent"))
needs_damaged = pytest.mark.skipif(not DAMAGED.is_dir(), reason="systemd's own damaged journals are not here")


def write(export: bytes, path: Path, **environment: str) -> Path:
    """Make a journal file with journald's own switches."""
    subprocess.run(
        [str(REMOTE), f"--output={path}", "-"],
        input=export,
        check=True,
        capture_output=True,
        env=os.environ | environment,
    )
    return path


def unpacked_recording(name: str) -> bytes:
    """A recording's journal in Journal Export Format."""
    with unpacked(str(DATA / "recordings" / name / "journal.export.zst")) as (file, _):
        return file.read()


def by_columns(path: Path, question: Question = EVERYTHING) -> list[Entry]:
    """Read a file by columns; there must be no problem."""
    entries, problems = sorted_out(MappedJournal(str(path)).batches(question))
    assert problems == []
    return entries


def by_libsystemd(path: Path, question: Question = EVERYTHING) -> list[Entry]:
    """Read a file by systemd-python; there must be no problem."""
    entries, problems = sorted_out(read_native(str(path), question))
    assert problems == []
    return entries


# -- the same entries ----------------------------------------------------------------------------------------------------


@LAYOUTS
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.parent.name)
def test_recordings(recording: Path, environment: Mapping[str, str], tmp_path: Path) -> None:
    """Every recording reads the same, column by column, in every layout."""
    journal = write(recording.read_bytes(), tmp_path / "x.journal", **environment)
    assert by_columns(journal) == by_libsystemd(journal) != []


@pytest.mark.parametrize(("name", "flag"), [("lz4", 2), ("xz", 1)])
def test_packed_as_older_systemd_did(name: str, flag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of systemd 257 with texts packed by LZ4 and XZ (tests/data/journals/make.sh) say what they were made of."""
    packed = (JOURNALS / f"{name}.journal.zst").read_bytes()
    journal = tmp_path / "x.journal"
    journal.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    assert JournalFile(str(journal)).header.flags & flag
    taken: set[tuple[int, bytes]] = set()
    unpack = Unpacker.whole

    def whole(self: Unpacker, flags: int, packed: bytes) -> bytes:
        taken.add((flags, packed))
        return unpack(self, flags, packed)

    monkeypatch.setattr(Unpacker, "whole", whole)
    entries = by_columns(journal)
    assert {flags for flags, _ in taken} == {flag}
    export, _ = sorted_out(read_export(io.BytesIO(unpacked_recording("celery-5.7/json_logs")), EVERYTHING))
    assert [(one.realtime, one.message, one.pid) for one in entries] == [
        (one.realtime, one.message, one.pid) for one in export
    ]
    assert sum(len(one.message or "") > 512 for one in entries) == len(taken) == 2
    assert entries == by_libsystemd(journal)


NAMES = st.sampled_from(
    [*sorted({"MESSAGE", "_PID", *ORIGIN_FIELDS, *DETAIL_FIELDS} - {"_BOOT_ID"}), "MESSAGES", "MESSAG", "_PIDS", "_SOURCE_REALTIME_TIMESTAMP", "CONTAINER_LOG_ORDINAL", "X"]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from([b"1", b"0", b"4242", b"kernel", b"stdout", b"celery@a.service", b"/usr/bin/dockerd", b"x" * 600]),
    st.binary(max_size=12),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.integers(500, 3000).map(lambda size: random.Random(size).randbytes(size // 2).hex().encode()),  # noqa: S311
    st.integers(500, 9000).map(lambda size: b"a long text that is packed, " * (size // 28)),
)
ENTRIES = st.lists(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=8), min_size=1, max_size=12)


@settings(max_examples=40)
@given(entries=ENTRIES, compact=st.sampled_from("01"))
def test_any_fields(
    entries: list[list[tuple[str, bytes]]], compact: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Fields that repeat, that are binary, empty, long and packed, that are missing, or are nearly called as others."""
    export = b"".join(
        export_entry(
            [
                (b"__REALTIME_TIMESTAMP", b"%d" % (1_796_040_000_000_000 + place)),
                (b"__MONOTONIC_TIMESTAMP", b"%d" % (1000 + place)),
                (b"_BOOT_ID", b"b1b7f11e8cfc48ccaa68a3b7e0d67ef5"),
                *((name.encode(), value) for name, value in fields),
            ]
        )
        for place, fields in enumerate(entries)
    )
    journal = write(export, tmp_path_factory.mktemp("any") / "x.journal", SYSTEMD_JOURNAL_COMPACT=compact)
    assert by_columns(journal) == by_libsystemd(journal)


def test_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks and batches end, and which entries' heads share a place, changes nothing."""
    export = b"".join(path.read_bytes() for path in RECORDINGS[:4])
    journal = write(export, tmp_path / "x.journal")
    whole = by_columns(journal)
    monkeypatch.setattr(mapped, "_BLOCK", 5)
    monkeypatch.setattr(items, "_HEAD_BITS", 1)
    monkeypatch.setattr(mapped, "BATCH_ENTRIES", 12)
    batches = [batch for batch in MappedJournal(str(journal)).batches(EVERYTHING) if isinstance(batch, Batch)]
    assert {len(batch) for batch in batches[:-1]} == {12}
    assert sorted_out(batches)[0] == whole == by_libsystemd(journal)


def test_window(tmp_path: Path) -> None:
    """The span is half open; every entry is masked by its own time."""
    journal = write(EXPORT, tmp_path / "x.journal")
    times = sorted(entry.realtime for entry in by_columns(journal))
    question = Question(since=0, until=0, read_since=times[len(times) // 3], read_until=times[-1])
    assert by_columns(journal, question) == by_libsystemd(journal, question) != []


def test_texts_as_bytes(tmp_path: Path) -> None:
    """What a batch shows of messages as bytes is their text, also of packed ones."""
    long = export_entry(
        [
            (b"__REALTIME_TIMESTAMP", b"1796040000000000"),
            (b"__MONOTONIC_TIMESTAMP", b"1"),
            (b"_BOOT_ID", b"b1b7f11e8cfc48ccaa68a3b7e0d67ef5"),
            (b"MESSAGE", b"packed " * 200),
        ]
    )
    journal = write(EXPORT + long, tmp_path / "x.journal")
    (batch,) = MappedJournal(str(journal)).batches(EVERYTHING)
    assert isinstance(batch, Batch)
    shown: dict[int, str] = {}
    assert batch.raw is not None
    for part in batch.raw(np.arange(len(batch))):
        for row, start, length in zip(part.rows.tolist(), part.start.tolist(), part.length.tolist(), strict=True):
            shown[row] = part.buffer[start : start + length].tobytes().decode("utf-8", "backslashreplace")
    assert shown == {row: text for row, text in enumerate(batch.message) if text is not None}
    assert "packed " * 200 in shown.values()


# -- files that are written meanwhile -----------------------------------------------------------------------------------


def test_growing(tmp_path: Path) -> None:
    """Of a file that is being written, what was there at opening is read, and it is the beginning of what comes."""
    journal = tmp_path / "x.journal"
    pieces = [piece + b"\n\n" for piece in EXPORT.rstrip(b"\n").split(b"\n\n")]
    found: list[list[Entry]] = []
    with subprocess.Popen(
        [str(REMOTE), f"--output={journal}", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdin is not None
        for piece in pieces:
            child.stdin.write(piece)
            child.stdin.flush()
            if journal.exists() and journal.stat().st_size:
                found.append(sorted_out(read_journal(str(journal), EVERYTHING, Reader.COLUMNS))[0])
    whole = by_libsystemd(journal)
    assert len(whole) == len(pieces)
    assert [entries == whole[: len(entries)] for entries in found] == [True] * len(found)


def test_opened_while_written(tmp_path: Path) -> None:
    """Entries that are written after a file was opened are not looked at."""
    journal = write(EXPORT, tmp_path / "x.journal")
    with journal.open("rb+") as file:
        file.seek(16)
        file.write(b"\1")  # online
    before = by_libsystemd(journal)
    opened = MappedJournal(str(journal))
    later = EXPORT.replace(b"__REALTIME_TIMESTAMP=17", b"__REALTIME_TIMESTAMP=18")
    write(later, journal)
    assert sorted_out(opened.batches(EVERYTHING))[0] == before


def test_cut_while_mapped(tmp_path: Path) -> None:
    """A file is cut behind its last object when journald archives it; to look there would end the process (SIGBUS)."""
    journal = write(EXPORT, tmp_path / "x.journal")
    whole, opened = by_libsystemd(journal), MappedJournal(str(journal))
    end = JournalFile(str(journal)).end
    assert end < journal.stat().st_size
    os.truncate(journal, end)
    assert sorted_out(opened.batches(EVERYTHING)) == (whole, [])


# -- what is for libsystemd to read ----------------------------------------------------------------------------------------


def patched(journal: Path, offset: int, value: bytes) -> Path:
    """Overwrite some bytes of a file."""
    with journal.open("rb+") as file:
        file.seek(offset)
        file.write(value)
    return journal


@pytest.mark.parametrize(
    ("offset", "value", "why"),
    [
        (0, b"X", "no journal file's header"),
        (14, b"\x10", "a feature that is not known here (incompatible flags 0x100000)"),
        (96, b"\xff" * 7 + b"\0", "ends before its own header says"),
        (136, b"\xff" * 7 + b"\0", "its last object lies outside of it"),
        (136, (8).to_bytes(8, "little"), "its last object lies outside of it"),
        (152, b"\xff\xff", "is missing in its list of entries"),
        (176, b"\xf8" + b"\xff" * 6, "goes on outside of it"),
        (176, b"\x08\x01\0\0\0\0\0\0", "goes on where there is none"),
    ],
)
def test_not_by_columns(offset: int, value: bytes, why: str, tmp_path: Path) -> None:
    """Damage that leaves the order of entries unknown, and features of the future, are told by name."""
    journal = patched(write(EXPORT, tmp_path / "x.journal"), offset, value)
    with pytest.raises(UnmappableError) as refused:
        MappedJournal(str(journal))
    assert why in str(refused.value)
    assert why_not_by_columns(str(journal)) == str(refused.value)
    _, (problem,) = sorted_out(read_journal(str(journal), EVERYTHING, Reader.COLUMNS))
    assert why in problem.detail


def test_readers(tmp_path: Path) -> None:
    """`auto` reads by columns where it can, and lets libsystemd say what is to be said of the rest."""
    journal = write(EXPORT, tmp_path / "x.journal")
    assert why_not_by_columns(str(journal)) is None
    for reader in Reader:
        assert sorted_out(read_journal(str(journal), EVERYTHING, reader))[0] == by_libsystemd(journal)
    patched(journal, 14, b"\x10")
    _, (problem,) = sorted_out(read_journal(str(journal), EVERYTHING))
    assert problem.code == "unsupported"


def test_choice_before_reading(tmp_path: Path) -> None:
    """A file that columns cannot read is known before it is read, with the reason, and goes to a child by itself."""
    journal = write(EXPORT, tmp_path / "x.journal")
    (plain,) = read_by(open_sources(files=[str(journal)]), Reader.AUTO)
    assert (plain.described(), plain.fragile) == ("journal file, by columns", False)
    (forced,) = read_by([plain], Reader.SYSTEMD)
    assert (forced.described(), forced.fragile) == ("journal file, by libsystemd", True)
    patched(journal, 14, b"\x10")
    (strange,) = read_by(open_sources(files=[str(journal)]), Reader.AUTO)
    assert strange.fragile
    assert strange.described().startswith(
        "journal file, by libsystemd (not by columns: it has a feature that is not known here"
    )


# -- damage ---------------------------------------------------------------------------------------------------------------


def test_damaged_entry(tmp_path: Path) -> None:
    """Of a damaged entry the rest is read, of a damaged place in the file all others are; each is told."""
    journal = write(EXPORT, tmp_path / "x.journal")
    whole = by_columns(journal)
    file = JournalFile(str(journal))
    entries = file.entries()
    patched(journal, int(entries[3]), b"\0")
    first_item = int(file.items(entries[5:6], int(file.item_counts(entries[5:6])[0]))[0, 0])
    found, problems = sorted_out(MappedJournal(str(patched(journal, first_item, b"\x07"))).batches(EVERYTHING))
    assert [entry.cursor for entry in found] == [entry.cursor for entry in whole[:3] + whole[4:]]
    assert [problem.code for problem in problems] == ["damaged", "damaged"]
    assert problems[0].detail == "entry 4 is damaged"


@pytest.mark.parametrize("keep", [0, 100, 4096, 100_000])
def test_cut_off(keep: int, tmp_path: Path) -> None:
    """A file that is cut off anywhere gives what is left and a problem, and never an error."""
    journal = write(EXPORT, tmp_path / "x.journal")
    os.truncate(journal, keep)
    _, problems = sorted_out(read_journal(str(journal), EVERYTHING, Reader.COLUMNS))
    assert problems


def damaged(journal: Path, folder: Path, seed: int, copies: int) -> Iterator[Path]:
    """Yield damaged copies of a file: cut off, overwritten, zeroed."""
    dice, whole = random.Random(seed), journal.read_bytes()  # noqa: S311
    used = JournalFile(str(journal)).end
    for _ in range(copies):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            place = dice.choice((dice.randrange(272), dice.randrange(used), dice.randrange(used) // 8 * 8))
            size = dice.choice((1, 4, 8, 8, 64))
            value = dice.choice(
                (bytes(size), b"\xff" * size, dice.randbytes(size), data[place ^ 8 : (place ^ 8) + size])
            )
            data[place : place + size] = value
        path = folder / "damaged.journal"
        path.write_bytes(data[: dice.choice((len(data), len(data), dice.randrange(len(data))))])
        yield path


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("compact", ["0", "1"])
def test_any_damage(compact: str, seed: int, tmp_path: Path) -> None:
    """Whatever bytes are overwritten: entries and problems, and never an exception."""
    journal = write(EXPORT, tmp_path / "x.journal", SYSTEMD_JOURNAL_COMPACT=compact)
    most = len(by_columns(journal))
    for path in damaged(journal, tmp_path, seed, copies=1000 if os.environ.get("KILL_AUDIT_FUZZ") else 60):
        entries, problems = sorted_out(read_journal(str(path), EVERYTHING, Reader.COLUMNS))
        assert len(entries) <= most
        assert {problem.code for problem in problems} <= {"damaged"}


@needs_damaged
def test_mutated_journals(tmp_path: Path) -> None:
    """Of the files that a fuzzer made of journals, each is read or refused in words."""
    packed = (DAMAGED / "afl-corrupted-journals.tar.zst").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(packed))) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(tmp_path)  # noqa: S202 - made by systemd, and checked where Python can
    for path in DAMAGED.rglob("*.journal*.zst"):
        (tmp_path / path.stem).write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()))
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert len(files) > 625
    codes = {
        problem.code
        for path in files
        for problem in sorted_out(read_journal(str(path), EVERYTHING, Reader.COLUMNS))[1]
    }
    assert codes == {"damaged"}


@needs_damaged
@pytest.mark.parametrize("path", sorted(DAMAGED.glob("no-rtc/*.zst")), ids=lambda path: path.name[:14])
def test_journald_itself(path: Path, tmp_path: Path) -> None:
    """Files that journald wrote, of a machine without a clock, with records of all transports."""
    journal = tmp_path / "x.journal"
    journal.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()))
    assert by_columns(journal) == by_libsystemd(journal) != []


# -- packed texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "packed"),
    [
        (4, zstandard.ZstdCompressor().compress(b"x" * 5000)[:-3]),
        (4, b"\x28\xb5\x2f\xfd" + b"\xff" * 20),
        (4, b""),
        (2, (5000).to_bytes(8, "little") + b"\xff" * 9),
        (2, (MOST_BYTES + 1).to_bytes(8, "little") + b"\0" * 9),
        (2, b"\0"),
        (1, b"\xfd7zXZ\0garbage"),
        (3, b"x"),
    ],
)
def test_damaged_packed_text(flags: int, packed: bytes) -> None:
    """What cannot be unpacked is refused, and no size that a file names is believed."""
    with pytest.raises(PackedError):
        Unpacker().whole(flags, packed)
