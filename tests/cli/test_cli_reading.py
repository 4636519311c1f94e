"""How the command line reads: what `-v` says of it, and what is kept for the next time."""

from pathlib import Path

import pytest

from command_line import Command, Host
from kill_audit.journal.mapped import MappedJournal

HEADER_STATE, ARCHIVED = 16, b"\x02"
HEADER_FLAGS = 12  # the offset of the incompatible flags in a journal file's header
UNKNOWN_FLAG = b"\x00\x00\x10\x00"


@pytest.mark.journal
def test_verbose_names_what_reads_each_file(host: Host, kill_audit: Command) -> None:
    """By columns, or by libsystemd and why; a name cannot drive the terminal."""
    journal = host.journal
    said = kill_audit("report", "-v", "--exit-zero", "--file", journal)
    assert f"kill-audit: reads {journal}: journal file, by columns" in said.err.splitlines()
    said = kill_audit("report", "-v", "--exit-zero", "--reader", "systemd", "--file", journal)
    assert f"kill-audit: reads {journal}: journal file, by libsystemd" in said.err.splitlines()
    strange = journal.with_name("\x1b[31mred.journal")
    raw = journal.read_bytes()
    strange.write_bytes(raw[:HEADER_FLAGS] + UNKNOWN_FLAG + raw[HEADER_FLAGS + 4 :])
    said = kill_audit("report", "-v", "--exit-zero", "--file", strange)
    why = "it has a feature that is not known here (incompatible flags 0x100000)"
    assert f"by libsystemd (not by columns: {why})" in said.err
    assert "\x1b" not in said.err


@pytest.mark.journal
def test_an_archived_file_is_read_once(
    host: Host, kill_audit: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second report is the same, byte by byte, and reads no entry; --no-cache neither uses nor keeps anything."""
    monkeypatch.setenv("CACHE_DIRECTORY", str(tmp_path / "cache"))
    raw = host.journal.read_bytes()
    host.journal.write_bytes(raw[:HEADER_STATE] + ARCHIVED + raw[HEADER_STATE + 1 :])

    def report(*more: str) -> str:
        return kill_audit("report", "-o", "csv", "--exit-zero", "--no-ledger", *more, *host.words).out

    first = report("--no-cache")
    assert not (tmp_path / "cache").exists()
    assert report() == first
    (kept,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    monkeypatch.setattr(MappedJournal, "batches", lambda *_: pytest.fail("it was read"))
    assert report() == first != ""
    kept.unlink()
    with pytest.raises(pytest.fail.Exception):
        report()
