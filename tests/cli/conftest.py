"""A home of its own for each test of the command line, and the command."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from command_line import Command, Host, Said, scene
from kill_audit.cli import run

REMOTE = shutil.which("systemd-journal-remote", path="/usr/lib/systemd:/lib/systemd:/usr/bin")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, in UTC, without any configuration or variable of the machine's own."""
    for name in [name for name in os.environ if name.startswith("KILL_AUDIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-configuration"))
    monkeypatch.setenv("TZ", "UTC")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def kill_audit(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command, run in this process."""

    def command(*words: str | Path) -> Said:
        capsys.readouterr()
        status = run([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(status=status, out=out, err=err)

    return command


@pytest.fixture
def host() -> Iterator[Host]:
    """Make the file system of a host with a journal, in a folder that every user can reach."""
    if REMOTE is None:
        pytest.skip("systemd-journal-remote is not installed: apt-get install systemd-journal-remote")
    *window, _, export = scene("deploy")
    entries = zstandard.ZstdDecompressor().decompressobj().decompress(Path(export).read_bytes())
    found = re.search(rb"^_MACHINE_ID=([0-9a-f]{32})$", entries, re.MULTILINE)
    assert found is not None
    machine = found[1].decode()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        folder = root / "var/log/journal" / machine
        folder.mkdir(parents=True)
        subprocess.run(
            [REMOTE, f"--output={folder}/system.journal", "-"], input=entries, check=True, capture_output=True
        )
        (folder / "system.journal").chmod(0o644)
        (root / "etc").mkdir()
        (root / "etc/machine-id").write_text(f"{machine}\n")
        yield Host(root=root, words=(*window, "--root", str(root)))
