import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from journal_entries import RECORDINGS

from kill_audit.journal.opening import JOURNAL_MAGIC, Kind, kind_of, unpacked

EXPORT = RECORDINGS[0].read_bytes()
BINARY_FIRST = b"MESSAGE\n" + (3).to_bytes(8, "little") + b"a\nb\n__CURSOR=s=1f;i=2\n__REALTIME_TIMESTAMP=1\n\n"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (JOURNAL_MAGIC + bytes(300), Kind.JOURNAL),
        (EXPORT[:5000], Kind.EXPORT),
        (b"\n\n" + EXPORT[:500], Kind.EXPORT),
        (BINARY_FIRST, Kind.EXPORT),
        (b"MESSAGE=x\n__REALTIME_TIMESTAMP=1\n\n", Kind.EXPORT),
        (b"ystemd.slice\n_PID=3\n\n" + EXPORT[:500], Kind.EXPORT),
        (b'{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1","MESSAGE":"x"}\n', Kind.JSON),
        (b'{ "MESSAGE" : "x", "__REALTIME_TIMESTAMP" : "1" }\n', Kind.JSON),
        (b'\x1e{"__REALTIME_TIMESTAMP":"1"}\n', Kind.JSON),
        (b'data: {"__REALTIME_TIMESTAMP":"1"}\n\n', Kind.JSON),
        (b'{\n\t"__CURSOR" : "s=1",\n\t"__REALTIME_TIMESTAMP" : "1"\n}\n', Kind.JSON),
        (b'"x"}\n{"__REALTIME_TIMESTAMP":"1"}\n', Kind.JSON),
        (b'{"log":"[2024-01-01 00:00:00,000: INFO/MainProcess] x\\n","stream":"stderr"}\n', Kind.TEXT),
        (b"[2024-01-01 00:00:00,000: INFO/MainProcess] __REALTIME_TIMESTAMP=1\n", Kind.TEXT),
        (b"PATH=/usr/bin\nHOME=/root\n", Kind.TEXT),
        (b"Nov 30 10:00:00 web1 systemd[1]: Stopped.\n", Kind.TEXT),
        (b"", Kind.EMPTY),
        (b"\n \n", Kind.EMPTY),
        (b"\x7fELF\x02\x01\x01\x00", Kind.OTHER),
    ],
)
def test_what_a_file_holds_is_told_by_its_content(head: bytes, kind: Kind) -> None:
    """Magic bytes, field lines and keys decide, also where the start of a stream is cut off."""
    assert kind_of(head) is kind


def xz(data: bytes) -> bytes:
    """Pack as xz does."""
    return lzma.compress(data)


def zstd(data: bytes) -> bytes:
    """Pack as zstd does."""
    return zstandard.compress(data)


def lz4_frame(data: bytes) -> bytes:
    """Pack as lz4 does."""
    return bytes(lz4.frame.compress(data))


PACKERS = [gzip.compress, xz, zstd, bz2.compress, lz4_frame]


def content(path: Path) -> tuple[bytes, str | None]:
    """Give what can be unpacked, and the code of the problem met."""
    with unpacked(str(path)) as (file, layer):
        data = file.read()
    return data, layer.problem.code if layer is not None and layer.problem is not None else None


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_file_is_unpacked_whatever_its_name(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """gzip, xz, zstd, bzip2 and lz4 are known by their magic bytes."""
    path = tmp_path / "journal"
    path.write_bytes(pack(EXPORT))
    assert content(path) == (EXPORT, None)


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    """A file that is not packed has no layer to unpack it."""
    path = tmp_path / "plain.gz"
    path.write_bytes(EXPORT)
    assert content(path) == (EXPORT, None)


@pytest.mark.parametrize("pack", PACKERS)
def test_packed_pieces_one_after_another_are_one_file(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Log rotation and `cat` make files of several gzip members, xz streams or zstd frames."""
    path = tmp_path / "journal"
    path.write_bytes(pack(b"one ") + pack(b"") + pack(b"two"))
    assert content(path) == (b"one two", None)


@pytest.mark.parametrize("pack", PACKERS)
def test_a_packed_file_that_is_cut_off_gives_what_there_is_and_says_so(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """The bytes before the cut are kept, and the problem is `truncated`."""
    path = tmp_path / "journal"
    path.write_bytes(pack(EXPORT)[:-20])
    data, problem = content(path)
    assert (EXPORT.startswith(data), problem) == (True, "truncated")


@pytest.mark.parametrize("pack", [gzip.compress, xz, zstd, bz2.compress])
def test_a_packed_file_that_is_damaged_gives_what_there_is_and_says_so(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """Damage in the middle ends the content there, and is a problem, not an exception."""
    data = bytearray(pack(EXPORT))
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    path = tmp_path / "journal"
    path.write_bytes(data)
    assert content(path)[1] in {"damaged", "truncated"}


def test_a_frame_that_unpacks_to_much_is_read_in_pieces(tmp_path: Path) -> None:
    """A zstd frame of a few kilobytes that holds 64 MiB never lies in memory as a whole."""
    path = tmp_path / "journal"
    path.write_bytes(zstandard.compress(bytes(64 << 20)))
    sizes = []
    with unpacked(str(path)) as (file, layer):
        assert layer is not None
        while piece := layer.read(1 << 20):
            sizes.append(len(piece))
        assert (sum(sizes), max(sizes), isinstance(file, io.BufferedReader)) == (64 << 20, 1 << 20, True)
