"""Reads fat binaries: their PTX, which the simulated GPU runs, and their machine code, which it does not.

Source: the layout that the vendor's compiler writes. `fatbinary_section.h` has the wrapper; the rest was read from
files that the compiler made, and agrees with public readers of the format.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import CompileError

MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX = 1
_COMPRESSED_LZ4, _COMPRESSED_ZSTD = 0x2000, 0x8000


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a fat binary."""

    kind: int
    architecture: int  #: 90 for sm_90.
    data: bytes

    @property
    def is_ptx(self) -> bool:
        """Whether it is PTX."""
        return self.kind == _PTX

    @property
    def text(self) -> str:
        """PTX text."""
        return self.data.rstrip(b"\0").decode("utf-8", "replace")


def images(data: bytes) -> Iterator[Image]:
    """The images of one or several consecutive fat binaries.

    Raises CompileError: the data are no fat binary, or cannot be decompressed.
    """
    at = 0
    while at + HEADER.size <= len(data):
        magic, _, header, size = HEADER.unpack_from(data, at)
        if magic != MAGIC:
            if not any(data[at:]):
                return
            raise CompileError("a fat binary must begin with its magic number (got other bytes)")
        at += header
        end = at + size
        while at + _ENTRY.size <= end:
            entry = _ENTRY.unpack_from(data, at)
            kind, head, taken, packed, architecture, flags, whole = (
                entry[0],
                entry[2],
                entry[3],
                entry[4],
                entry[8],
                entry[11],
                entry[13],
            )
            body = data[at + head : at + head + (packed or taken)]
            if kind == _PTX:
                body = _plain(body, flags, whole)
            yield Image(kind, architecture, body)
            at += head + taken
        at = end


def _plain(body: bytes, flags: int, whole: int) -> bytes:
    if flags & _COMPRESSED_ZSTD or body[:4] == b"\x28\xb5\x2f\xfd":
        return _zstd(body, whole)
    return lz4(body, whole) if flags & _COMPRESSED_LZ4 else body


def lz4(body: bytes, whole: int) -> bytes:
    """Decompress one block.

    Source: LZ4 block format description.

    >>> lz4(bytes([0x35, 97, 98, 99, 3, 0, 0x00]), 12)
    b'abcabcabcabc'
    """
    out, at = bytearray(), 0

    def length(least: int) -> int:
        nonlocal at
        if least == 15:
            while True:
                more = body[at]
                at += 1
                least += more
                if more != 255:
                    break
        return least

    while at < len(body) and len(out) < whole:
        token = body[at]
        at += 1
        count = length(token >> 4)
        out += body[at : at + count]
        at += count
        if at + 2 > len(body) or len(out) >= whole:
            break
        back = body[at] | body[at + 1] << 8
        at += 2
        count = length(token & 15) + 4
        start = len(out) - back
        for index in range(count):
            out.append(out[start + index])
    return bytes(out)


def _zstd(body: bytes, whole: int) -> bytes:
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        raise CompileError(
            "the program's PTX is compressed by zstd, but libzstd.so.1 is missing; install the system's package "
            "libzstd1, or build the program with nvcc --no-compress"
        ) from None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(whole)
    made = library.ZSTD_decompress(out, whole, body, len(body))
    if made > whole:
        raise CompileError("the program's PTX is compressed, and cannot be decompressed")
    return out.raw[:made]
