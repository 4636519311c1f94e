"""The column reader tells what libsystemd tells."""

from pathlib import Path
from typing import Any

import pytest
from journal_entries import MakeJournal

from kill_audit.entry import Problem, Question
from kill_audit.journal.choosing import Reader, read_journal
from kill_audit.journal.opening import unpacked
from recorded import Scene, recordings

ALL = Question(since=0, until=2**62, read_since=0, read_until=2**62)
SCENES = {scene.name: scene for scene in recordings()}


def told(path: Path, reader: Reader) -> tuple[list[Any], list[Problem]]:
    """Every entry of a journal file with all that a batch keeps of it, and the problems."""
    entries: list[Any] = []
    problems: list[Problem] = []
    for batch in read_journal(str(path), ALL, reader):
        if isinstance(batch, Problem):
            problems.append(batch)
            continue
        origins = [batch.origins[code] for code in batch.origin]
        columns = (batch.realtime, batch.monotonic, batch.pid, origins, batch.message, batch.cursor)
        entries += [(*row, dict(fields)) for *row, fields in zip(*columns, batch.fields, strict=True)]
    return entries, problems


def export_of(scene: Scene) -> bytes:
    """A scene's journal in Journal Export Format."""
    with unpacked(str(scene.files[0])) as (file, _):
        return file.read()


@pytest.mark.journal
@pytest.mark.parametrize("name", sorted(SCENES)[::6])
def test_same_as_libsystemd(name: str, make_journal: MakeJournal, tmp_path: Path) -> None:
    """Of a real journal both readers give the same entries, field by field, in the same order."""
    path = make_journal(export_of(SCENES[name]), tmp_path / "system.journal")
    entries, problems = told(path, Reader.COLUMNS)
    assert entries
    assert (entries, problems) == told(path, Reader.SYSTEMD)


@pytest.mark.journal
@pytest.mark.parametrize("keep", [0, 100, 4096, 100_000])
def test_cut_off(keep: int, make_journal: MakeJournal, tmp_path: Path) -> None:
    """A file that is cut off anywhere gives what is left and a problem, and never an error."""
    path = make_journal(export_of(SCENES[min(SCENES)]), tmp_path / "system.journal")
    path.write_bytes(path.read_bytes()[:keep])
    _, problems = told(path, Reader.COLUMNS)
    assert problems
