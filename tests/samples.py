"""The recordings of sample_journals/, and the run log made of theirs (`python tests/samples.py` writes it again)."""

import csv
import io
import json
import re
import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "sample_journals"
RUN_LOG = FOLDER / "run_log.csv"
COLUMNS = ("task_id", "task_name", "queue", "started_at", "finished_at", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recording: a journal, the run log of the app in two designs, and what a correct report says of them.

    `expected`: since, until, idle_deaths and the kills, each with its cause, its fate, and its verdict against a log
    that is written when a run ends and one that is written when it starts; the `child_pid` of a kill may stay null in
    a report. `truth`: what the tasks wrote down as they ran.
    """

    name: str
    journal: Path
    run_log: Path
    expected: dict[str, Any]
    truth: dict[str, Any]


def recordings() -> tuple[Recording, ...]:
    """Every recording, by name."""
    return tuple(
        Recording(
            name=folder.name,
            journal=folder / "journal.export",
            run_log=folder / "runlog.sqlite3",
            expected=json.loads((folder / "expected.json").read_bytes()),
            truth=json.loads((folder / "truth.json").read_bytes()),
        )
        for folder in sorted(path.parent for path in FOLDER.glob("*/journal.export"))
    )


def report_words() -> list[str]:
    """The words that `make report` gives to kill-audit."""
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    [words] = re.findall(r"^SAMPLE_REPORT = (.*)$", makefile.replace("\\\n", " "), re.MULTILINE)
    return shlex.split(words)


def combined_run_log() -> str:
    """The rows that were written when a run ended, of all recordings, by their start, as CSV."""
    rows: list[tuple[str, ...]] = []
    for recording in recordings():
        with closing(sqlite3.connect(f"{recording.run_log.as_uri()}?mode=ro", uri=True)) as database:
            rows += database.execute(f"SELECT {', '.join(COLUMNS)} FROM run_log_end")  # noqa: S608 - names of our own
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", *COLUMNS))
    writer.writerows((number, *row) for number, row in enumerate(sorted(rows, key=lambda row: row[3:] + row), start=1))
    return text.getvalue()


if __name__ == "__main__":
    RUN_LOG.write_text(combined_run_log(), encoding="utf-8")
