"""Journal files, exports, JSON streams and log files as sources: found, told apart, and opened where they are read."""

import atexit
import glob
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from kill_audit.entry import Batch, Problem, Question
from kill_audit.errors import SourceError
from kill_audit.journal.choosing import Reader, read_journal, why_not_by_columns
from kill_audit.journal.export import read_export
from kill_audit.journal.holes import holes
from kill_audit.journal.jsonlines import read_json
from kill_audit.journal.layout import ARCHIVED, Header, UnmappableError
from kill_audit.journal.opening import HEAD_BYTES, Kind, kind_of, unpacked
from kill_audit.journal.text import read_text

# As sd_journal_open_directory(3) chooses (dirent_is_journal_file and dirent_is_journal_subdir in sd-journal.c).
_JOURNAL_FILE: Final = re.compile(r".*\.journal~?")
_JOURNAL_FOLDER: Final = re.compile(r"[0-9a-f]{32}(?:\..+)?")
MAY_READ: Final = "run it as root, or: sudo usermod -aG systemd-journal $USER (and log in again)"
"""The hint for whoever may not read a journal."""


_NO_PERMISSION: Final = Problem(
    code="no-permission", detail="this user may not read it; members of the group systemd-journal (or adm) may"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """An archived journal file, told from every other by its header (with its id), and what reads it."""

    header: Header
    size: int
    reader: Reader
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """One file that holds entries of one kind, packed or not.

    `unpack_in`: a folder of this run's own, for a packed journal file, which can only be read unpacked. `reader`: what
    reads a journal file; `why` says why it is libsystemd, where the file left no choice.
    """

    name: str
    path: str
    kind: Kind
    unpack_in: str | None = None
    reader: Reader = Reader.AUTO
    why: str | None = None

    @property
    def fragile(self) -> bool:
        """Whether reading it may end the process: libsystemd aborts on some damaged files."""
        return self.kind is Kind.JOURNAL and self.reader is not Reader.COLUMNS

    @property
    def weight(self) -> int:
        """How much there is to read: bytes."""
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return 0

    @property
    def lasting(self) -> "Lasting | None":
        """What the file is for good: journald has archived it, and writes to it no more; None for every other file."""
        if self.kind is not Kind.JOURNAL or self.unpack_in is not None:
            return None
        try:
            with Path(self.path).open("rb") as file:
                header, size = Header.read(file.fileno()), os.fstat(file.fileno()).st_size
        except (OSError, UnmappableError):
            return None
        if header.state != ARCHIVED:
            return None
        return Lasting(header=header, size=size, reader=self.reader, entries=header.entries)

    def described(self) -> str:
        """Say what it holds and what reads it: `journal file, by columns`."""
        if self.kind is not Kind.JOURNAL:
            return str(self.kind.value)
        match self.reader:
            case Reader.COLUMNS:
                return "journal file, by columns"
            case Reader.SYSTEMD:
                return "journal file, by libsystemd" + (f" (not by columns: {self.why})" if self.why else "")
            case Reader.AUTO:
                return "packed journal file, by columns if they can"

    def read_by(self, reader: Reader) -> "FileSource":
        """Choose what reads it; `auto` is decided here and now, unless the file is packed."""
        if reader is not Reader.AUTO or self.kind is not Kind.JOURNAL or self.unpack_in is not None:
            return replace(self, reader=reader)
        try:
            why = why_not_by_columns(self.path)
        except OSError:  # gone by now, which is told when it is read
            return self
        return replace(self, reader=Reader.COLUMNS if why is None else Reader.SYSTEMD, why=why)

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the entries of the span that `question` reads, and problems where they are met.

        Between the look into a folder and the reading journald may rename or remove a file: a problem, not an error.

        Raises:
            SourceError: it is a journal file, and there are no means to read one.
        """
        try:
            match self.kind:
                case Kind.JOURNAL:
                    yield from self._journal(question)
                case Kind.EMPTY:
                    yield Problem(code="empty", detail="holds no entries")
                case Kind.OTHER:
                    detail = "is no journal file, export, JSON or text, or its very start is damaged"
                    yield Problem(code="damaged", detail=detail)
                case Kind.EXPORT | Kind.JSON | Kind.TEXT:
                    yield from self._stream(question)
        except PermissionError:
            yield _NO_PERMISSION
        except FileNotFoundError:
            yield Problem(code="damaged", detail="was there at first, and was gone when it was to be read")

    def _stream(self, question: Question) -> Iterator[Batch | Problem]:
        with unpacked(self.path) as (file, layer):
            match self.kind:
                case Kind.EXPORT:
                    yield from read_export(file, question)
                case Kind.JSON:
                    yield from read_json(file, question)
                case _:
                    modified = Path(self.path).stat().st_mtime_ns // 1000
                    yield from read_text(file, question, name=self.name, modified=modified)
        if layer is not None and layer.problem is not None:
            yield layer.problem

    def _journal(self, question: Question) -> Iterator[Batch | Problem]:
        if self.unpack_in is None:
            yield from read_journal(self.path, question, self.reader)
            return
        # It has a name while it is read: libsystemd refuses a file without (journal_file_fstat in journal-file.c).
        with (
            unpacked(self.path) as (file, layer),
            tempfile.NamedTemporaryFile(dir=self.unpack_in, suffix=".journal") as plain,
        ):
            shutil.copyfileobj(file, plain, 1 << 20)
            plain.flush()
            yield from read_journal(plain.name, question, self.reader)
        if layer is not None and layer.problem is not None:
            yield layer.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSource:
    """Where entries should be and cannot be had: problems, and nothing else."""

    name: str
    problems: tuple[Problem, ...]

    @property
    def fragile(self) -> bool:
        """Reading it does nothing that could fail."""
        return False

    def described(self) -> str:
        """Say what is the matter."""
        return "; ".join(problem.detail for problem in self.problems)

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the problems, but for those of spans outside the window."""
        for problem in self.problems:
            since, until = problem.since, problem.until
            if (until is None or until > question.since) and (since is None or since < question.until):
                yield problem


Found = FileSource | ProblemSource


class Workspace:
    """A private folder for what has to be kept in files while a run lasts; made when first needed, removed at exit.

    The run's own process owns it: what a child leaves behind when it dies is removed as well.
    """

    def __init__(self) -> None:
        self._folder: str | None = None

    def folder(self) -> str:
        """Give its path."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="kill-audit-")  # mode 0700
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def keep(self, stream: BinaryIO) -> str:
        """Copy a stream into a new file, and give its path."""
        with tempfile.NamedTemporaryFile(dir=self.folder(), delete=False) as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        return file.name


def file_sources(patterns: Iterable[str], workspace: Workspace) -> Iterator[Found]:
    """Yield a source for each file named by a path or a glob pattern.

    Raises:
        SourceError: a file is missing, no file, or unreadable; or a pattern matches nothing.
    """
    for pattern in patterns:
        if os.path.lexists(pattern):
            yield _named(pattern, workspace)
        elif not glob.has_magic(pattern):
            raise SourceError(f"{pattern}: no such file", hint=_nearby(pattern))
        else:
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 -- a Path's glob takes no absolute pattern
            found = [path for path in sorted(matches) if Path(path).is_file()]
            if not found:
                raise SourceError(f"{pattern}: no file matches this pattern", hint=_nearby(pattern))
            yield from (_among_others(path, workspace) for path in found)


def folder_sources(folder: str, workspace: Workspace) -> Iterator[Found]:
    """Yield a source for each journal file of a folder, and of its folders of machines and namespaces.

    Raises:
        SourceError: it is missing, no folder, unreadable, or holds no journal file.
    """
    top = Path(folder)
    try:
        files = {place: journal_files(place) for place in (top, *journal_folders(top))}
    except FileNotFoundError as error:
        raise SourceError(f"{folder}: no such directory", hint=_nearby(folder)) from error
    except NotADirectoryError as error:
        raise SourceError(f"{folder}: not a directory", hint=f"give a file as --file {folder}") from error
    except PermissionError as error:
        raise SourceError(f"{error.filename}: permission denied", hint=MAY_READ) from error
    if not any(files.values()):
        raise SourceError(
            f"{folder}: holds no journal files (*.journal, *.journal~)",
            hint=f"give files of other kinds or names as --file '{top / '*'}'",
        )
    for place, paths in files.items():
        yield from (_among_others(str(path), workspace) for path in paths)
        yield from without_some(place, paths)


def without_some(place: Path, paths: Sequence[Path]) -> Iterator[ProblemSource]:
    """Tell which spans files that are missing in a folder leave without entries."""
    if problems := tuple(holes(paths)):
        yield ProblemSource(name=str(place), problems=problems)


def journal_folders(top: Path) -> list[Path]:
    """List the folders of machines and of their namespaces, `MACHINE-ID[.NAMESPACE]`, in a folder of journals."""
    return sorted(path for path in top.iterdir() if _JOURNAL_FOLDER.fullmatch(path.name) and path.is_dir())


def journal_files(place: Path) -> list[Path]:
    """List the journal files that lie in a folder itself."""
    return sorted(path for path in place.iterdir() if _JOURNAL_FILE.fullmatch(path.name) and path.is_file())


def stream_source(stream: BinaryIO, workspace: Workspace, name: str = "-") -> FileSource:
    """Keep a stream in a file, so that a child can read it, and twice."""
    return _source(name, workspace.keep(stream), workspace)


def distinct(sources: Iterable[Found]) -> Iterator[Found]:
    """Leave out a file that was named before, under whatever name (the same device and inode)."""
    seen = set()
    for source in sources:
        place = _place(source.path) if isinstance(source, FileSource) else None
        if place is None or place not in seen:
            yield source
        seen.add(place)


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:  # gone by now, which is told when it is read
        return None
    return status.st_dev, status.st_ino


def _named(path: str, workspace: Workspace) -> FileSource:
    """Give the source for a file that was named itself.

    Raises:
        SourceError: it is a folder, or cannot be read.
    """
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISDIR(mode):
            raise SourceError(f"{path}: is a directory", hint=f"give a folder of journal files as -D {path}")
        if not stat.S_ISREG(mode):  # `--file <(ssh host journalctl -o export)` is a pipe, and can be read once only
            with Path(path).open("rb") as stream:
                return stream_source(stream, workspace, path)
        return _source(path, path, workspace)
    except PermissionError as error:
        raise SourceError(f"{path}: permission denied", hint=MAY_READ) from error
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error


def _among_others(path: str, workspace: Workspace) -> Found:
    try:
        return _source(path, path, workspace)
    except PermissionError:
        return ProblemSource(name=path, problems=(_NO_PERMISSION,))
    except OSError as error:
        return ProblemSource(
            name=path, problems=(Problem(code="damaged", detail=f"cannot be opened: {error.strerror}"),)
        )


def _source(name: str, path: str, workspace: Workspace) -> FileSource:
    path = os.path.realpath(path)  # what /dev/stdin is here is something else in a child
    with unpacked(path) as (file, layer):
        kind = kind_of(file.read(HEAD_BYTES))
        packed = layer is not None and kind is Kind.JOURNAL
    return FileSource(name=name, path=path, kind=kind, unpack_in=workspace.folder() if packed else None)


def _nearby(path: str) -> str:
    """Say what is there instead: the nearest folder that exists."""
    parent = next((folder for folder in Path(path).parents if folder.is_dir()), Path())
    return f"see what is there: ls {parent}"
