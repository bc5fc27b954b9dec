"""The fragments' layouts that the tests use, against those of CUTLASS, which its authors state in another way.

Source: NVIDIA/cutlass, include/cute/atom/mma_traits_sm70.hpp, _sm80.hpp and _sm90.hpp. A layout there maps a lane and
the number of an element to a place, counted down the columns of the matrix (of B: its columns are counted first). It
is a shape with a stride for each extent; the extents of lanes come first, then those of elements.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fragments import places
from test_matrix_floats import quad_places

#: Extents and strides of lanes (4 and 8, unless stated) and of elements: (shape, bits, matrix).
_OF_LANES = (4, 8)
LAYOUTS = {
    ("m16n8k8", 16, "a"): ((32, 1), (2, 2), (16, 8)),
    ("m16n8k8", 16, "b"): ((16, 1), (2,), (8,)),
    ("m16n8k16", 16, "a"): ((32, 1), (2, 2, 2), (16, 8, 128)),
    ("m16n8k16", 16, "b"): ((16, 1), (2, 2), (8, 64)),
    ("m16n8k4", 32, "a"): ((16, 1), (2,), (8,)),
    ("m16n8k4", 32, "b"): ((8, 1), (1,), (0,)),
    ("m16n8k8", 32, "a"): ((16, 1), (2, 2), (8, 64)),
    ("m16n8k8", 32, "b"): ((8, 1), (2,), (32,)),
    ("m8n8k4", 64, "a"): ((8, 1), (1,), (0,)),
    ("m8n8k4", 64, "b"): ((8, 1), (1,), (0,)),
    ("m16n8k4", 64, "a"): ((16, 1), (2,), (8,)),
    ("m16n8k4", 64, "b"): ((8, 1), (1,), (0,)),
    ("m16n8k8", 64, "a"): ((16, 1), (2, 2), (8, 64)),
    ("m16n8k8", 64, "b"): ((8, 1), (2,), (32,)),
    ("m16n8k16", 64, "a"): ((16, 1), (2, 4), (8, 64)),
    ("m16n8k16", 64, "b"): ((8, 1), (4,), (32,)),
    ("m8n8k16", 8, "a"): ((32, 1), (4,), (8,)),
    ("m8n8k16", 8, "b"): ((32, 1), (4,), (8,)),
    ("m16n8k16", 8, "a"): ((64, 1), (4, 2), (16, 8)),
    ("m16n8k16", 8, "b"): ((32, 1), (4,), (8,)),
    ("m16n8k32", 8, "a"): ((64, 1), (4, 2, 2), (16, 8, 256)),
    ("m16n8k32", 8, "b"): ((32, 1), (4, 2), (8, 128)),
    ("m8n8k128", 1, "a"): ((256, 1), (32,), (8,)),
    ("m8n8k128", 1, "b"): ((256, 1), (32,), (8,)),
    ("m16n8k128", 1, "a"): ((512, 1), (32, 2), (16, 8)),
    ("m16n8k128", 1, "b"): ((256, 1), (32,), (8,)),
    ("m16n8k256", 1, "a"): ((512, 1), (32, 2, 2), (16, 8, 2048)),
    ("m16n8k256", 1, "b"): ((256, 1), (32, 2), (8, 1024)),
    ("m8n8k16", 32, "c"): ((16, 1), (2,), (8,)),
    ("m16n8k16", 32, "c"): ((32, 1), (2, 2), (16, 8)),
}
#: m8n8k4 of float16: lanes of a group, counted as CUTLASS does, and elements, by matrix, layout and bits.
QUADS = {
    ("a", "row", 16): ((8,), (1,), (4,), (8,)),
    ("b", "col", 16): ((8,), (1,), (4,), (8,)),
    ("a", "col", 16): ((4, 2), (8, 4), (4,), (1,)),
    ("b", "row", 16): ((4, 2), (8, 4), (4,), (1,)),
    ("c", "row", 16): ((8,), (1,), (8,), (8,)),
    ("c", "row", 32): ((2, 2, 2), (1, 16, 4), (2, 2, 2), (8, 2, 32)),
}


def offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The offsets of a layout's elements 0, 1, 2 ...; the first extent varies fastest."""
    digits = itertools.product(*(range(extent) for extent in reversed(extents)))
    return [sum(d * s for d, s in zip(reversed(each), strides, strict=True)) for each in digits]


@pytest.mark.parametrize("key", LAYOUTS, ids=lambda key: "-".join(map(str, key)))
def test_fragments_are_those_of_cutlass(key):
    shape, bits, matrix = key
    lanes, extents, strides = LAYOUTS[key]
    lines = 8 if matrix == "b" or shape.startswith("m8") else 16
    at = places(shape, matrix, bits)
    row, column = (at[..., 1], at[..., 0]) if matrix == "b" else (at[..., 0], at[..., 1])
    expected = np.add.outer(offsets(_OF_LANES, lanes), offsets(extents, strides))
    np.testing.assert_array_equal(row + lines * column, expected)


@pytest.mark.parametrize("key", QUADS, ids=lambda key: "-".join(map(str, key)))
def test_fragments_of_eight_lanes_are_those_of_cutlass(key):
    matrix, layout, bits = key
    lanes, lane_strides, extents, strides = QUADS[key]
    at = quad_places(matrix, layout, bits)
    row, column = (at[..., 1], at[..., 0]) if matrix == "b" else (at[..., 0], at[..., 1])
    expected = np.add.outer(offsets(lanes, lane_strides), offsets(extents, strides))
    for group in range(4):
        members = [4 * group + i for i in (0, 1, 2, 3, 16, 17, 18, 19)]
        np.testing.assert_array_equal((row + 8 * column)[members], expected)
