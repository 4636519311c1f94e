"""Real journal files for the tests of this room, made by systemd's own programs."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from journal_entries import REMOTE, MakeJournal


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, loudly, what needs systemd's programs where they are missing."""
    missing = [
        name
        for name, found in (
            ("systemd-journal-remote", REMOTE),
            ("journalctl", shutil.which("journalctl")),
            ("systemd-python", importlib.util.find_spec("systemd")),
        )
        if found is None
    ]
    for item in items:
        if missing and item.get_closest_marker("journal") is not None:
            item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(missing)}"))


@pytest.fixture
def make_journal() -> MakeJournal:
    """Give a function that makes a `.journal` file of entries in Journal Export Format."""

    def make(export: bytes, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(REMOTE), f"--output={path}", "-"], input=export, check=True, capture_output=True)
        return path

    return make
