"""What a file holds, told by its content, and how it is unpacked on the way.

Rules of this file: names and extensions decide nothing. A stream is unpacked as it is read, and never wholly held.
"""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

import lz4.frame
import zstandard

from kill_audit.entry import Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES: Final = 1 << 16
JOURNAL_MAGIC: Final = b"LPKSHHRH"  # systemd's docs/JOURNAL_FILE_FORMAT.md, struct Header

# The first line of an entry is a field, as text or as the name of a binary one; its times are fields of their own.
_FIELD_FIRST: Final = re.compile(rb"\n*[A-Z_][A-Z0-9_]{0,63}[=\n]")
_EXPORT_TIME: Final = re.compile(rb"^__(?:REALTIME_TIMESTAMP=[0-9]+|CURSOR=s=[0-9a-f]+;.*)$", re.MULTILINE)
_EXPORT_ENTRY: Final = re.compile(rb"\n\n__CURSOR=s=[0-9a-f]+;")
_JSON_ENTRY: Final = re.compile(rb'^(?:\x1e|data: )?\{[\s\S]*?"__REALTIME_TIMESTAMP"\s*:', re.MULTILINE)


class Kind(Enum):
    """What a file holds."""

    EMPTY = "nothing"
    JOURNAL = "journal file"
    EXPORT = "journal export"
    JSON = "journal JSON"
    TEXT = "text"
    OTHER = "something else"


def kind_of(head: bytes) -> Kind:
    """Tell what a file holds by its first bytes (`HEAD_BYTES` of it, unpacked).

    A stream that was cut off at its start, so that its first entry is a torso, is known by the entries that follow.
    """
    if head.startswith(JOURNAL_MAGIC):
        return Kind.JOURNAL
    if not head.strip():
        return Kind.EMPTY
    if _EXPORT_ENTRY.search(head) or (_FIELD_FIRST.match(head) and _EXPORT_TIME.search(head)):
        return Kind.EXPORT
    if _JSON_ENTRY.search(head):
        return Kind.JSON
    return Kind.OTHER if b"\0" in head else Kind.TEXT


class _Packed(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _ZstdFile:
    """Reads zstd frames one after another; unlike zstandard's own reader it notices that the last one is cut off."""

    # A frame may unpack to some 30,000 times its size, all of it in one piece: small steps bound that piece.
    _STEP: Final = 8192

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        self._begun = False
        self._packed = b""
        self._plain = b""

    def read(self, size: int, /) -> bytes:
        while not self._plain:
            packed = self._packed or self._file.read(self._STEP)
            if not packed:
                if self._begun:
                    raise EOFError("the last frame is cut off")
                return b""
            self._plain, self._begun = self._frame.decompress(packed), True
            self._packed = self._frame.unused_data
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
                self._begun = False
        piece, self._plain = self._plain[:size], self._plain[size:]
        return piece


class Unpacked(RawIOBase):
    """A packed stream's content. Where it cannot be unpacked it ends, and `problem` says why."""

    def __init__(self, packed: _Packed) -> None:
        self._packed = packed
        self._offset = 0
        self.problem: Problem | None = None

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Unpack into `buffer`, and give the number of bytes; 0 at the end, and after a problem."""
        view = memoryview(buffer).cast("B")
        if self.problem is not None:
            return 0
        try:
            piece = self._packed.read(len(view))
        except EOFError:
            self.problem = Problem(
                code="truncated", detail=f"the packed file is cut off; {self._offset:,} bytes could be unpacked"
            )
            return 0
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, RuntimeError) as error:
            self.problem = Problem(code="damaged", detail=f"cannot be unpacked after {self._offset:,} bytes: {error}")
            return 0
        view[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)


def _unpacker(magic: bytes, file: BinaryIO) -> _Packed | None:
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if magic.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(file)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _ZstdFile(file)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if magic.startswith(b"\x04\x22\x4d\x18"):
        return cast("_Packed", lz4.frame.LZ4FrameFile(file))
    return None


@contextmanager
def unpacked(path: str) -> Iterator[tuple[BinaryIO, Unpacked | None]]:
    """Open a file for reading what is in it; also the layer that unpacks it, where there is one.

    Raises:
        OSError: it cannot be opened.
    """
    with open(path, "rb") as file:  # noqa: PTH123 -- a path may be /dev/fd/N
        magic = file.read(6)
        file.seek(0)
        packed = _unpacker(magic, file)
        if packed is None:
            yield file, None
            return
        layer = Unpacked(packed)
        yield cast("BinaryIO", BufferedReader(layer, 1 << 18)), layer
