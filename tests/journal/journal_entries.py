"""What the tests of the doors share: questions, entries as rows, and export text made of fields."""

import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from kill_audit.entry import Batch, Origin, Problem, Question, Source

DATA = Path(__file__).parent.parent / "data"
RECORDINGS = tuple(sorted((DATA / "recordings").rglob("journal.export")))
REMOTE = shutil.which("systemd-journal-remote", path="/usr/lib/systemd:/lib/systemd:/usr/bin")
MakeJournal = Callable[[bytes, Path], Path]
EVERYTHING = Question(since=0, until=1 << 62, read_since=0, read_until=1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a batch."""

    realtime: int
    monotonic: int
    pid: int
    origin: Origin
    message: str | None
    cursor: str
    fields: Mapping[str, str]

    def without_cursor(self) -> "Entry":
        """Give the same entry as another file would hold it."""
        return replace(self, cursor="")


def rows(batch: Batch) -> Iterator[Entry]:
    """Yield the rows of a batch."""
    for place in range(len(batch)):
        yield Entry(
            realtime=batch.realtime[place],
            monotonic=batch.monotonic[place],
            pid=batch.pid[place],
            origin=batch.origins[batch.origin[place]],
            message=batch.message[place],
            cursor=batch.cursor[place],
            fields=dict(batch.fields[place]),
        )


def sorted_out(found: Iterable[Batch | Problem]) -> tuple[list[Entry], list[Problem]]:
    """Separate entries from problems."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    for one in found:
        if isinstance(one, Problem):
            problems.append(one)
        else:
            entries.extend(rows(one))
    return entries, problems


def read(source: Source, question: Question = EVERYTHING) -> tuple[list[Entry], list[Problem]]:
    """Read a source to its end."""
    return sorted_out(source.batches(question))


def export_entry(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write one entry in Journal Export Format, with values in binary form where they must be."""
    return b"".join(_field(name, value) for name, value in fields) + b"\n"


def _field(name: bytes, value: bytes) -> bytes:
    if _is_plain(value):
        return name + b"=" + value + b"\n"
    return name + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


def _is_plain(value: bytes) -> bool:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return all(character >= " " or character == "\t" for character in text)


def journalctl(*arguments: str) -> bytes:
    """Run journalctl and give what it prints."""
    command = ["journalctl", "--no-pager", "--quiet", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def as_nobody(function: Callable[[], str]) -> str:
    """Give what a function says when an ordinary user calls it: here, or in a child if this is root."""
    if os.getuid() != 0:
        return function()
    context = multiprocessing.get_context("fork")
    answers, other_end = context.Pipe(duplex=False)
    child = context.Process(target=_answer_as_nobody, args=(function, other_end))
    child.start()
    answer = answers.recv()
    child.join()
    return str(answer)


def _answer_as_nobody(function: Callable[[], str], answers: Connection) -> None:
    os.setgroups([])
    os.setuid(65_534)
    answers.send(function())


def forbid(*paths: Path) -> None:
    """Let nobody read these but root."""
    for path in paths:
        path.chmod(0)
