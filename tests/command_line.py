"""What the tests of the command line share: what a command says, and recorded journals with their windows."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command said: its exit status and both its streams."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


Command = Callable[..., Said]


def scene(name: str, celery: str = "5.7") -> list[str]:
    """The words that name a recorded scene's journal and its window."""
    folder = DATA / "recordings" / f"celery-{celery}" / name
    truth = json.loads((folder / "truth.json").read_bytes())
    journal = str(folder / "journal.export.zst")
    return ["--utc", "--since", f"@{truth['from']:.6f}", "--until", f"@{truth['until']:.6f}", "--file", journal]


def run_log(name: str, celery: str = "5.7") -> list[str]:
    """The words that name a recorded scene's run log, of rows written when a run ends."""
    folder = DATA / "recordings" / f"celery-{celery}" / name
    return ["--run-log", str(folder / "runlog.sqlite3"), "--run-log-table", "run_log_end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A file system with the journal of a recorded deploy, of the machine that its machine-id names.

    `words` name it and the deploy's window.
    """

    root: Path
    words: tuple[str, ...]

    @property
    def journal(self) -> Path:
        """Its journal file."""
        (path,) = (self.root / "var/log/journal").glob("*/system.journal")
        return path
