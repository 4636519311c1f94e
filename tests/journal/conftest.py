"""Real journal files for the tests of this room, made by systemd's own programs."""

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from journal_entries import REMOTE, MakeJournal

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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


@pytest.fixture
def readable_by_all() -> Iterator[Path]:
    """Give a folder that an ordinary user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        yield top
