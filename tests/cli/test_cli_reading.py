"""How the command line reads: what `-v` says of it."""

import pytest

from command_line import Command, Host

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
