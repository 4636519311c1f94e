"""Files of deploy marks."""

import datetime as dt
from pathlib import Path

import pytest

from kill_audit.cli.marks import marks_of_file
from kill_audit.deploys import Marked
from kill_audit.errors import KillAuditError

NOON = 1_796_040_000_000_000  # 2026-11-30 12:00 UTC


def marks(folder: Path, text: str) -> tuple[Marked, ...]:
    """The marks of a file with this text."""
    path = folder / "releases.csv"
    path.write_text(text, encoding="utf-8")
    return marks_of_file(str(path), now=NOON, zone=dt.UTC)


@pytest.mark.parametrize(
    "text",
    [
        "at,label\n2026-11-30 12:00:00,v41\n",
        "Started,Version\n2026-11-30T12:00:00Z,v41\n",
        '[{"since": "2026-11-30 12:00:00", "label": "v41"}]',
        '{"time": 1796040000, "revision": "v41"}\n',
    ],
)
def test_forms(tmp_path: Path, text: str) -> None:
    """CSV with a head line, a JSON list and JSON lines all do; a time without a zone is in the zone shown."""
    assert marks(tmp_path, text) == (Marked(label="v41", since=NOON, until=NOON),)


def test_span(tmp_path: Path) -> None:
    """A mark may have an end; one without a label is called like its file."""
    found = marks(tmp_path, "since,until\n2026-11-30 12:00,2026-11-30 12:10\n")
    assert found == (Marked(label="releases", since=NOON, until=NOON + 600_000_000),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,label\nnoon,v41\n", "mark 1 has no time"),
        ("at,label\nhalf past,v41\n", "mark 1: "),
        ("[1]", "must be an object"),
        ("{nothing}", "no JSON"),
    ],
)
def test_refused(tmp_path: Path, text: str, said: str) -> None:
    """What cannot be understood is refused in one line that names the file and the mark."""
    with pytest.raises(KillAuditError, match=said) as refused:
        marks(tmp_path, text)
    assert "releases.csv" in refused.value.message
    assert refused.value.hint


def test_missing(tmp_path: Path) -> None:
    """A file that is not there is an error of the evidence, not a traceback."""
    with pytest.raises(KillAuditError, match="No such file"):
        marks_of_file(str(tmp_path / "none.csv"), now=NOON, zone=dt.UTC)
