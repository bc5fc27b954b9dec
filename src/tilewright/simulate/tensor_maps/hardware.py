"""Tensor maps in the hardware's layout (Hopper and later), which compilers write instead of calling the driver.

The first 60 of 128 bytes are used, in 64-bit words; the innermost axis comes first:


====== ============================================================================================================
word 0 address
word 1 flags in 32 bits, then the first stride in units of 16 bytes
word 2 the second and the third stride, 32 bits each
word 3 the fourth stride in 32 bits; then four bits more of each, above
words  the five extents less 1, in 32 bits each; then the steps less 1 in three bits each, in 24 bits; then the boxes'
4 to 7 extents less 1 in eight bits each
====== ============================================================================================================

Source: the host code that nvidia-cutlass-dsl 4.8.1 makes for a tensor of five axes that are not known when it is
compiled, which computes each field; the flags, from tensors of every element type, swizzle and rank.
"""

from __future__ import annotations

import struct

from tilewright.simulate.tensor_maps.encoding import SWIZZLES, TYPES_OF_PTX, Encoding

#: Element types by number; FLOAT32 with the rounding bit is TFLOAT32, which has no number of its own.
_TYPES = TYPES_OF_PTX[:-1]
_FLOAT32, _ROUNDED = 7, 1 << 16
#: Known bits of the flags: version, rank, type, swizzle, rounding, promotion in L2, and whether it is large.
_VERSION, _KNOWN = 2, 0xF | 7 << 4 | 15 << 7 | 3 << 13 | _ROUNDED | 3 << 17 | 1 << 21
MAP_BYTES, MAP_ALIGN = 128, 64


def translated(map_: bytes) -> bytes:
    """Convert a map from the hardware's layout to the simulated GPU's; return any other 128 bytes unchanged."""
    encoding = read(map_)
    return map_ if encoding is None or encoding.broken_rule() else encoding.encoded()


def read(map_: bytes) -> Encoding | None:
    """The contents of a map in the hardware's layout; None if the bytes are not a known one.

    Our own layout is not one either: in its second word, a multiple of 16, the version is 0.
    """
    words = struct.unpack_from("<8Q", map_)
    flags = words[1] & 0xFFFFFFFF
    rank, number = (flags >> 4 & 7) + 1, flags >> 7 & 15
    if flags & 15 != _VERSION or flags & ~_KNOWN or rank > 5 or number >= len(_TYPES):
        return None
    low = (words[1] >> 32, words[2] & 0xFFFFFFFF, words[2] >> 32, words[3] & 0xFFFFFFFF)
    strides = [16 * (low[at] | (words[3] >> 32 + 4 * at & 15) << 32) for at in range(4)]
    extents = struct.unpack_from("<5I", map_, 32)
    steps = [(words[6] >> 32 + 3 * at & 7) + 1 for at in range(5)]
    box = [one + 1 for one in map_[55:60]]
    return Encoding(
        "TFLOAT32" if number == _FLOAT32 and flags & _ROUNDED else _TYPES[number],
        words[0],
        tuple(extent + 1 for extent in extents[:rank]),
        tuple(strides[: rank - 1]),
        tuple(box[:rank]),
        tuple(steps[:rank]),
        SWIZZLES[flags >> 13 & 3],
    )
