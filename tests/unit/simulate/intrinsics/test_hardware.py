"""Tensor maps as GPUs lay them out, as nvidia-cutlass-dsl 4.8.1 writes them: words of its host code for tensors of
256 x 8 elements (or as said) and boxes of 4 rows; the innermost extent of a box is the swizzle's, of 16 bits 64."""

from __future__ import annotations

import struct

import pytest

from tilewright.simulate.tensor_maps.encoding import Encoding
from tilewright.simulate.tensor_maps.hardware import read, translated

ADDRESS = 0x10_0004_0000


def map_of(*words: int) -> bytes:
    return struct.pack("<16Q", ADDRESS, *words, *[0xABCD] * (15 - len(words)))  # what follows is not set


def matrix(flags: int, row_units: int, box: int) -> bytes:
    return map_of(row_units << 32 | flags, 0, 0, 0x7_0000_00FF, 0, (box - 1) << 56, 3)


@pytest.mark.parametrize(
    ("flags", "type_", "size", "swizzle", "box"),
    [
        (0x40312, "FLOAT16", 2, 0, 16), (0x42312, "FLOAT16", 2, 32, 16), (0x44312, "FLOAT16", 2, 64, 32),
        (0x46312, "FLOAT16", 2, 128, 64), (0x46512, "BFLOAT16", 2, 128, 64), (0x46392, "FLOAT32", 4, 128, 32),
        (0x56392, "TFLOAT32", 4, 128, 32), (0x46492, "FLOAT64", 8, 128, 16), (0x46012, "UINT8", 1, 128, 128),
        (0x46092, "UINT16", 2, 128, 64), (0x46112, "UINT32", 4, 128, 32), (0x46212, "UINT64", 8, 128, 16),
    ],
)  # fmt: skip
def test_element_types_and_swizzles(flags: int, type_: str, size: int, swizzle: int, box: int) -> None:
    expected = Encoding(type_, ADDRESS, (256, 8), (256 * size,), (box, 4), (1, 1), swizzle)
    map_ = matrix(flags, 16 * size, box)
    assert read(map_) == expected and translated(map_) == expected.encoded()


def test_five_axes_large_strides_and_one_axis() -> None:
    strides = (2**36 + 16, 2**37 + 32, 2**38 + 48, 2**39 + 64)
    low = [stride // 16 & 0xFFFFFFFF for stride in strides]
    high = sum((stride >> 36 & 15) << 4 * at for at, stride in enumerate(strides))
    found = read(
        map_of(low[0] << 32 | 0x246342, low[2] << 32 | low[1], high << 32 | low[3], 8 << 32 | 63, 4 << 32 | 6,
               0x3F << 56 | 2, 0x102)
    )  # fmt: skip
    assert found == Encoding("FLOAT16", ADDRESS, (64, 9, 7, 5, 3), strides, (64, 3, 2, 1, 1), (1,) * 5, 128)
    assert read(map_of(0x40382, 0, 0, 0xFF, 0, 0x1F << 56, 0)) == Encoding(
        "FLOAT32", ADDRESS, (256,), (), (32,), (1,), 0
    )


def test_other_bytes_stay_as_they_are() -> None:
    ours = Encoding("FLOAT16", ADDRESS, (256, 8), (512,), (64, 4), (1, 1), 128).encoded()
    for other in (ours, bytes(128), matrix(0x46311, 32, 64), matrix(0x1046312, 32, 64), matrix(0x46592, 32, 64)):
        assert translated(other) == other
    assert translated(matrix(0x42312, 32, 64)) == matrix(0x42312, 32, 64)  # its box is wider than its swizzle
