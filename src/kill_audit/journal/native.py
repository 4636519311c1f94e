"""One `.journal` file through libsystemd (sd-journal(3)), by systemd-python's low-level reader.

libsystemd can abort its process on a damaged file (by an assertion where it unpacks or bisects), so the engine runs
this in a child. Nothing is sought and no match is set: seeking bisects by time, and loses entries where the clock
stepped back (systemd issue 43805).
"""

# ruff: noqa: SLF001 -- systemd-python documents `_Reader` as its low-level interface; `Reader` converts every field

import contextlib
import errno
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from kill_audit.entry import Batch, Micros, Problem, Question
from kill_audit.errors import SourceError
from kill_audit.journal.columns import ORIGIN_FIELDS, TELLING_FIELDS, WANTED_FIELDS, Columns, Damage, decode
from kill_audit.journal.export import read_export

MAGIC: Final = b"LPKSHHRH"
_HEADER_BYTES: Final = 208  # what every version has (systemd's docs/JOURNAL_FILE_FORMAT.md, struct Header)
_ONLINE: Final = 1
_FEATURES: Final = {1: "XZ", 2: "LZ4", 4: "KEYED-HASH", 8: "ZSTD", 16: "COMPACT"}  # the header's incompatible flags
_YEAR_10000: Final = 253_402_300_800_000_000  # what lies beyond is no time, but damage
# Of a damaged entry: a field without "=", a name that is no text, a size beyond all memory (ENOMEM).
_UNREADABLE: Final = (OSError, UnicodeDecodeError, MemoryError)
_KEY_FIELDS: Final = ("_PID", *ORIGIN_FIELDS)
_MOST_KNOWN: Final = 20_000
# What sd_journal_open_files(3) answers for a file that it refuses, as journalctl words it (journal-util.c).
_REFUSALS: Final = {
    errno.ENODATA: ("truncated", "is truncated: it ends before its own header says"),
    errno.EBADMSG: ("damaged", "is corrupted"),
    errno.EPROTONOSUPPORT: ("unsupported", "uses a feature that this libsystemd does not know"),
    errno.EIDRM: ("damaged", "was deleted before it could be read"),
    errno.EACCES: ("no-permission", "may not be read by this user"),
    errno.EPERM: ("no-permission", "may not be read by this user"),
}


class Header(NamedTuple):
    """What a journal file's header says of the file, read without libsystemd."""

    online: bool
    entries: int
    first: Micros | None
    last: Micros | None
    features: tuple[str, ...]

    @classmethod
    def read(cls, file: BinaryIO) -> "Header | None":
        """Read it from the file's start, and go back there; None if there is none."""
        raw = file.read(_HEADER_BYTES)
        file.seek(0)
        if len(raw) < _HEADER_BYTES or not raw.startswith(MAGIC):
            return None

        def number(offset: int, size: int = 8) -> int:
            return int.from_bytes(raw[offset : offset + size], "little")

        def time(offset: int) -> Micros | None:
            return micros if 0 < (micros := number(offset)) < _YEAR_10000 else None

        flags = number(12, 4)
        return cls(
            online=raw[16] == _ONLINE,
            entries=number(152),
            first=time(184),
            last=time(192),
            features=tuple(_FEATURES.get(1 << bit, f"bit {bit}") for bit in range(32) if flags >> bit & 1),
        )

    def problem(self, code: str, detail: str) -> Problem:
        """Give a problem that concerns the whole file."""
        return Problem(code=code, detail=detail, since=self.first, until=self.last)


def import_reader() -> Any:
    """Import systemd-python's `_Reader`; no other room knows of systemd-python.

    Raises:
        ImportError: it is not installed, or does not find its libsystemd.
    """
    return import_module("systemd._reader")._Reader


def read_native(path: str, question: Question) -> Iterator[Batch | Problem]:
    """Yield the entries of a `.journal` file, and a problem for what libsystemd refuses or cannot read.

    An entry that libsystemd passes over silently is noticed by the header's count (but not in a file that is being
    written, whose count moves). Where systemd-python cannot be imported, journalctl prints the file instead.

    Raises:
        OSError: the file cannot be opened.
        SourceError: neither systemd-python nor journalctl is there.
    """
    with Path(path).open("rb") as file:
        header = Header.read(file)
    try:
        reader_type = import_reader()
    except ImportError as error:
        yield from _printed(path, question, error)
        return
    try:
        # Without flags systemd-python asks for SD_JOURNAL_LOCAL_ONLY, which libsystemd does not take with files.
        reader = reader_type(0, files=[path])
    except (OSError, MemoryError) as error:  # ENOMEM is libsystemd's answer to a size that is damaged
        yield _refusal(error, header)
        return
    with reader:
        reader.data_threshold = 0
        entries = _Entries(reader, question)
        yield from entries
    if header is not None and not header.online and entries.count < header.entries:
        yield header.problem(
            "damaged", f"its header counts {header.entries:,} entries, of which {entries.count:,} could be read"
        )


def _printed(path: str, question: Question, reason: ImportError) -> Iterator[Batch | Problem]:
    """Read a file by a child `journalctl -o export`."""
    program = shutil.which("journalctl")
    if program is None:
        raise SourceError(
            f"no means to read .journal files: {reason}, and there is no journalctl",
            hint="apt install python3-systemd, or pip install systemd-python (it is built with libsystemd-dev)",
        ) from reason
    command = [program, "--file", path, "--output=export", "--no-pager", "--quiet"]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints) as child,  # noqa: S603 -- as found on PATH
    ):
        if child.stdout is not None:
            yield from read_export(cast("BinaryIO", child.stdout), question)
        status = child.wait()
        complaints.seek(0)
        words = decode(complaints.read(4096)).strip()
    if status or words:
        yield Problem(code="damaged", detail=f"journalctl ended with status {status}: {words or 'it gives no reason'}")


def _refusal(error: Exception, header: Header | None) -> Problem:
    number = getattr(error, "errno", None) or 0
    code, words = _REFUSALS.get(number, ("damaged", f"cannot be read: {_why(error)}"))
    if header is None:
        return Problem(code=code, detail=words)
    if code == "unsupported":
        words += f" (it has {', '.join(header.features) or 'none that is known here'})"
    return header.problem(code, words)


class _Entries:
    """The entries of an open reader as batches; `count` says how many there were, asked for or not."""

    def __init__(self, reader: Any, question: Question) -> None:
        self._reader = reader
        self._columns = Columns(question)
        self._known: dict[tuple[bytes | None, ...], tuple[int, int, Mapping[str, str]]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[Batch | Problem]:
        reader, columns, damage = self._reader, self._columns, Damage()
        last: Micros | None = None
        while True:
            try:
                if not reader._next():
                    break
                self.count += 1
                last = reader._get_realtime()
                if columns.asked_for(last):
                    self._add(last)
            except _UNREADABLE as error:
                yield from damage.met(f"entry {self.count:,} cannot be read whole: {_why(error)}", since=last)
                if self.count == 0:  # it fails before the first entry, and would do so for ever
                    break
            if columns.full:
                self._known.clear()
                yield columns.take()
        if len(columns):
            yield columns.take()
        yield from damage.rest()

    def _add(self, time: Micros) -> None:
        reader = self._reader
        monotonic, cursor = int(reader._get_monotonic()[0]), reader._get_cursor()
        try:
            raw = reader._get_all()
        except _UNREADABLE:
            self._columns.add_entry(time, monotonic, cursor, self._what_is_left())
            raise
        if list in map(type, raw.values()):  # a field that repeats: its first value counts
            raw = {name: value[0] if isinstance(value, list) else value for name, value in raw.items()}
        key = tuple(map(raw.get, _KEY_FIELDS))
        known = self._known.get(key)
        if known is None or not raw.keys().isdisjoint(TELLING_FIELDS):
            fields = {name: decode(raw[name]) for name in raw.keys() & WANTED_FIELDS}
            known = self._columns.add_entry(time, monotonic, cursor, fields)
            if not known[2] and len(self._known) < _MOST_KNOWN:
                self._known[key] = known
            return
        pid, origin, details = known
        message = raw.get("MESSAGE")
        self._columns.add(time, monotonic, pid, origin, None if message is None else decode(message), cursor, details)

    def _what_is_left(self) -> dict[str, str]:
        """Give the fields that can be read one by one of an entry that cannot be read whole."""
        fields = {}
        for name in sorted(WANTED_FIELDS):
            with contextlib.suppress(*_UNREADABLE, KeyError):
                fields[name] = decode(self._reader._get(name))
        return fields


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
