"""Unpacks the texts that journald stores packed: those of more than 512 bytes.

journald writes one frame an object: zstd with its size in the frame, LZ4 as a block behind its size in eight bytes, or
an .xz stream (src/basic/compress.c). Sizes come from the file and are not believed beyond `MOST_BYTES`.
"""

import lzma
from typing import Final

import lz4.block
import zstandard

_XZ, _LZ4, _ZSTD = 1, 2, 4  # flags of an object (not those of the header)
MOST_BYTES: Final = 64 << 20
UNPACKED_AT_ONCE: Final = 4096
_SMALL: Final = 1 << 16


class PackedError(Exception):
    """A packed text is damaged, or larger than any that is read."""


class Unpacker:
    """Unpacks objects; not to be shared between threads."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def whole(self, flags: int, packed: bytes) -> bytes:
        """Unpack an object's payload.

        Raises:
            PackedError: it is damaged, or too large.
        """
        return self._unpack(flags, packed, MOST_BYTES)

    def head(self, flags: int, packed: bytes) -> bytes:
        """Unpack the first bytes of an object's payload: at least 4,096, or all there are.

        Raises:
            PackedError: it is damaged.
        """
        return self._unpack(flags, packed, UNPACKED_AT_ONCE)

    def _unpack(self, flags: int, packed: bytes, most: int) -> bytes:
        try:
            if flags == _ZSTD:
                return self._by_zstd(packed, most)
            if flags == _LZ4:
                return _by_lz4(packed)
            if flags == _XZ:
                return _by_xz(packed, most)
        except (zstandard.ZstdError, lz4.block.LZ4BlockError, lzma.LZMAError, MemoryError, EOFError) as error:
            raise PackedError(str(error)) from error
        raise PackedError(f"it is packed in several ways at once ({flags:#x})")

    def _by_zstd(self, packed: bytes, most: int) -> bytes:
        size = zstandard.frame_content_size(packed)
        if 0 <= size <= _SMALL:
            return self._zstd.decompress(packed, max_output_size=_SMALL)
        if size > MOST_BYTES:
            raise PackedError(f"it would have {size:,} bytes")
        with self._zstd.stream_reader(packed) as stream:
            return stream.read(most)


def _by_lz4(packed: bytes) -> bytes:
    size = int.from_bytes(packed[:8], "little")
    if len(packed) < 9 or size > MOST_BYTES:
        raise PackedError(f"it would have {size:,} bytes")
    unpacked: bytes = lz4.block.decompress(packed[8:], uncompressed_size=size)
    return unpacked


def _by_xz(packed: bytes, most: int) -> bytes:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_BYTES * 2).decompress(packed, max_length=most)
