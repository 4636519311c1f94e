"""`kill-audit collect`: what it keeps, from where it goes on, and what it says."""

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from command_line import Command, run_log, scene

DEPLOY = scene("deploy")
WINDOW, JOURNAL = DEPLOY[1:5], Path(DEPLOY[-1])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep state in a folder of the test's own."""
    folder = tmp_path / "state"
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    return folder


def kept(state: Path, what: str = "count(*)") -> object:
    """Ask the ledger about its kills."""
    with closing(sqlite3.connect(state / "ledger.sqlite3")) as connection:
        (found,) = connection.execute(f"SELECT {what} FROM kill_audit_finding WHERE kind = 'kill'").fetchone()  # noqa: S608
        return found


def entries() -> list[bytes]:
    """The entries of the recorded deploy's journal."""
    export = zstandard.ZstdDecompressor().decompressobj().decompress(JOURNAL.read_bytes())
    return [entry + b"\n\n" for entry in export.strip().split(b"\n\n")]


def written_at(entry: bytes) -> int:
    """When an entry was written, in microseconds."""
    [line] = [line for line in entry.splitlines() if line.startswith(b"__REALTIME_TIMESTAMP=")]
    return int(line.partition(b"=")[2])


def moved(entry: bytes, later: int) -> bytes:
    """The entry as if it had been written so many microseconds later."""
    return re.sub(
        rb"^(__(?:REALTIME|MONOTONIC)_TIMESTAMP)=([0-9]+)$",
        lambda found: b"%s=%d" % (found[1], int(found[2]) + later),
        entry,
        flags=re.MULTILINE,
    )


def at(moment: int) -> str:
    """A moment as an option takes it."""
    return f"@{moment / 1_000_000:.6f}"


def test_kills_are_kept_once_with_what_the_run_log_says(kill_audit: Command, state: Path) -> None:
    """The second run over the same journal finds the same kills and changes nothing."""
    first = kill_audit("collect", *DEPLOY, *run_log("deploy"))
    second = kill_audit("collect", *DEPLOY, *run_log("deploy"))
    assert (first.status, first.err, second.status) == (0, "", 0)
    assert first.out.startswith(f"{kept(state)} killed since ")
    assert f"{kept(state)} new, 0 judged otherwise, 0 withdrawn" in first.out
    assert "0 new, 0 judged otherwise, 0 withdrawn" in second.out
    assert kept(state, "count(verdict)") == kept(state) == 4
    assert (state / "ledger.sqlite3").stat().st_mode & 0o777 == 0o600


def test_what_the_journal_loses_afterwards_is_in_the_report(kill_audit: Command, state: Path) -> None:
    """A journal that was rotated away between two runs leaves its kills in the ledger."""
    journal = Path("journal.export")
    journal.write_bytes(b"".join(entries()))
    kill_audit("collect", "--quiet", *WINDOW, "--file", journal)
    before = kept(state)
    last = entries()[-40:]
    journal.write_bytes(b"".join(last))
    said = kill_audit("collect", *WINDOW, "--file", journal)
    assert "0 withdrawn" in said.out
    assert kept(state) == before


def test_entries_that_nobody_read_are_told(kill_audit: Command) -> None:
    """If the oldest entry is younger than the end of the last run, the span between is named on stderr, once."""
    every = entries()
    start, end = written_at(every[0]), written_at(every[-1])
    ended = start - 600_000_000
    kill_audit("collect", "--quiet", "--file", JOURNAL, "--since", at(ended - 1_000_000), "--until", at(ended))
    said = kill_audit("collect", "--file", JOURNAL, "--until", at(end))
    assert said.status == 0
    assert "warning: the journal has lost" in said.err
    assert "collect more often" in said.err
    assert kill_audit("collect", "--file", JOURNAL, "--until", at(end)).err == ""


def test_the_first_run_looks_eight_weeks_back(
    kill_audit: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven weeks later the first run still finds the kills, later runs look back eight days and keep them."""
    later = int(float(WINDOW[3][1:]) * 1e9) + 7 * 7 * 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    kill_audit("collect", "--quiet", "--file", JOURNAL)
    found = kept(state)
    assert found
    said = kill_audit("collect", "--file", JOURNAL)
    assert said.out.startswith("0 killed since ")
    assert kept(state) == found


def test_what_is_older_than_keep_is_dropped(kill_audit: Command, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty days later the kills go by --keep, counted from where the run before ended, and are not read again."""
    journal = Path("journal.export")
    journal.write_bytes(b"".join(entries()))
    kill_audit("collect", "--quiet", *WINDOW, "--file", journal)
    found = kept(state)
    said = []
    for days in (20, 21):
        later = days * 86_400_000_000
        journal.write_bytes(b"".join([*entries(), *(moved(entry, later) for entry in entries()[-40:])]))
        now = written_at(entries()[-1]) + later
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1000 + 1_000_000)
        said.append(kill_audit("collect", "--file", journal, "--keep", "10d").out)
    assert found
    assert "dropped" not in said[0]
    assert f"0 withdrawn, {found} dropped by their age (--keep)" in said[1]
    assert kept(state) == 0


def test_the_configuration_says_how_long_findings_are_kept(kill_audit: Command) -> None:
    """`[ledger] keep` is --keep; a time in which kills are still judged again is refused."""
    Path("kill-audit.toml").write_text('[ledger]\nkeep = "5d"\n')
    said = kill_audit("collect", *DEPLOY)
    assert said.status == 2
    assert "--keep 5d: kills are judged again for 8 days" in said.err
    assert kill_audit("collect", *DEPLOY, "--keep", "8d").status == 0


def test_nothing_to_read_is_exit_3(kill_audit: Command) -> None:
    """A source without entries is not "nothing was killed"."""
    Path("empty.export").touch()
    assert kill_audit("collect", "--file", "empty.export").status == 3


def test_quiet_says_nothing(kill_audit: Command) -> None:
    """What runs every hour has nothing to say when all is well."""
    said = kill_audit("collect", "--quiet", *DEPLOY)
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--no-ledger",), "nothing to do without a ledger"),
        (("--boot", "0"), "every boot"),
        (("--ledger", "/dev/null/ledger"), "cannot write the ledger"),
        (("--ledger", "ftp://h/d"), "not supported"),
    ],
)
def test_what_makes_no_sense_is_refused(kill_audit: Command, words: tuple[str, ...], says: str) -> None:
    """Each in one line with a hint."""
    said = kill_audit("collect", *DEPLOY, *words)
    assert said.status == 2
    assert says in said.err
    assert "hint: " in said.err
