import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from journal_entries import EVERYTHING, MakeJournal, export_entry, read

from kill_audit.entry import Batch, Origin, Problem, Question
from kill_audit.errors import SourceError, UsageError
from kill_audit.journal import in_boot, open_sources

FIRST, SECOND, THIRD = "a" * 32, "b" * 32, "c" * 32


@dataclass(frozen=True, slots=True)
class Boots:
    """A source of one entry for each boot named, after a problem."""

    ids: Sequence[str | None]
    name: str = "boots"
    fragile: bool = False

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield them."""
        del question
        yield Problem(code="damaged", detail="a bit")
        count = len(self.ids)
        yield Batch(
            realtime=range(count), monotonic=range(count), pid=[0] * count, origin=range(count),
            origins=[Origin(boot_id=boot_id) for boot_id in self.ids], message=[str(row) for row in range(count)],
            cursor=[""] * count, fields=[{}] * count,
        )  # fmt: skip


def kept(ids: Sequence[str | None], boot: str) -> list[str | None]:
    """Give the messages that are left of these boots."""
    (source,) = in_boot([Boots(ids)], boot)
    entries, problems = read(source)
    assert [problem.code for problem in problems] == ["damaged"]
    assert (source.name, getattr(source, "fragile", None)) == ("boots", False)
    return [entry.message for entry in entries]


@pytest.mark.parametrize(
    ("ids", "messages"),
    [([FIRST, SECOND, FIRST, None], ["0", "2"]), ([FIRST, FIRST], ["0", "1"]), ([SECOND], []), ([], [])],
)
def test_only_the_entries_of_that_boot_are_left(ids: list[str | None], messages: list[str]) -> None:
    """Others go, problems stay."""
    assert kept(ids, FIRST) == messages


def test_a_boot_id_may_be_written_as_a_uuid() -> None:
    """As /proc/sys/kernel/random/boot_id has it, with dashes."""
    dashed = f"{FIRST[:8]}-{FIRST[:4]}-{FIRST[:4]}-{FIRST[:4]}-{FIRST[:12]}"
    assert kept([FIRST, SECOND], dashed) == ["0"]


def test_all_boots_is_no_restriction() -> None:
    """`-b all` gives the sources as they are."""
    source = Boots([FIRST])
    assert in_boot([source], "all") == (source,)


@pytest.fixture
def three_boots(tmp_path: Path, make_journal: MakeJournal) -> Path:
    """A folder with a journal of three boots."""
    data = b"".join(
        export_entry(
            [
                (b"__REALTIME_TIMESTAMP", b"%d" % (1_700_000_000_000_000 + place * 10**9)),
                (b"__MONOTONIC_TIMESTAMP", b"1000"),
                (b"_BOOT_ID", boot.encode()),
                (b"MESSAGE", boot[:1].encode()),
            ]
        )
        for place, boot in enumerate((FIRST, SECOND, THIRD))
    )
    make_journal(data, tmp_path / "system.journal")
    return tmp_path


@pytest.mark.journal
@pytest.mark.parametrize(
    ("boot", "message"),
    [
        ("0", "c"),
        ("-0", "c"),
        ("-1", "b"),
        ("-2", "a"),
        ("1", "a"),
        ("+3", "c"),
        (f"{SECOND}-1", "a"),
        (f"{SECOND}+1", "c"),
    ],
)
def test_boots_are_counted_as_journalctl_counts_them(three_boots: Path, boot: str, message: str) -> None:
    """0 is the last, -1 the one before it, 1 the first; an offset counts from an ID."""
    sources = in_boot(open_sources(directories=[str(three_boots)]), boot, where=["-D", str(three_boots)])
    assert [entry.message for source in sources for entry in read(source)[0]] == [message]
    printed = subprocess.run(
        ["journalctl", "-D", str(three_boots), f"--boot={boot}", "-o", "cat", "-q"], check=True, capture_output=True
    )
    assert printed.stdout.decode() == f"{message}\n"


@pytest.mark.journal
@pytest.mark.parametrize("boot", ["-3", "4", f"{SECOND}+2", f"{'d' * 32}+1"])
def test_a_boot_that_is_not_there_is_refused(three_boots: Path, boot: str) -> None:
    """The message says how many there are, the hint how to list them."""
    with pytest.raises(UsageError, match="no such boot among the 3") as refused:
        in_boot([], boot, where=["-D", str(three_boots)])
    assert refused.value.hint == f"list them: journalctl --list-boots -D {three_boots}"


@pytest.mark.parametrize("boot", ["yesterday", "1x", "abc", f"{FIRST}x"])
def test_what_is_no_boot_is_refused(boot: str) -> None:
    """The hint lists the forms."""
    with pytest.raises(UsageError, match="no boot") as refused:
        in_boot([], boot)
    assert "--list-boots" in refused.value.hint


@pytest.mark.journal
def test_a_journal_without_boots_is_an_error(tmp_path: Path) -> None:
    """The words of journalctl itself are passed on."""
    with pytest.raises(SourceError, match="journalctl lists no boots"):
        in_boot([], "0", where=["-D", str(tmp_path)])


def test_without_journalctl_boots_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boot's whole ID still does."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="not installed"):
        in_boot([], "-1")
    assert list(in_boot([Boots([FIRST])], FIRST)[0].batches(EVERYTHING))
