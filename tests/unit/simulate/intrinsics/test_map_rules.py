"""The rules of tensor maps at their edges: limits themselves are accepted, and values just past them are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.simulate.tensor_maps.encoding import Encoding

TILED: dict[str, Any] = {
    "type": "FLOAT32", "address": 0, "extents": (64, 64), "strides": (256,), "box": (16, 16), "steps": (1, 1),
}  # fmt: skip
IMAGES: dict[str, Any] = {
    "type": "FLOAT16", "address": 0, "extents": (16, 9, 7, 3), "strides": (32, 288, 2016), "box": (8, 1, 1, 1),
    "steps": (1, 1, 1, 1), "low": (-1, -1), "high": (-1, -1), "pixels": 1024,
}  # fmt: skip
VOLUMES: dict[str, Any] = {
    "type": "FLOAT16", "address": 0, "extents": (16, 9, 9, 9, 3), "strides": (32, 288, 2592, 23328),
    "box": (8, 1, 1, 1, 1), "steps": (1, 1, 1, 1, 1), "low": (0, 0, 0), "high": (0, 0, 0), "pixels": 4,
}  # fmt: skip
#: What else a map says -> what just holds, and what just does not.
EDGES = [
    (TILED, "address", 16, 8),
    (TILED, "extents", (1, 64), (0, 64)),
    (TILED, "extents", (1 << 32, 64), ((1 << 32) + 1, 64)),
    (TILED, "strides", (16,), (8,)),
    (TILED, "strides", ((1 << 40) - 16,), (1 << 40,)),
    (TILED, "box", (256, 256), (256, 257)),
    (TILED, "box", (4, 1), (4, 0)),
    (TILED, "steps", (8, 1), (9, 1)),
    (TILED, "steps", (1, 1), (0, 1)),
    (TILED, "box", (4, 16), (6, 16)),
    (TILED, "swizzle", 64, 32),
    (TILED | {"type": "INT32"}, "nans", False, True),
    (IMAGES, "pixels", 1024, 1025),
    (IMAGES, "low", (-128, 0), (-129, 0)),
    (IMAGES, "high", (127, 0), (128, 0)),
    (IMAGES, "low", (7, 0), (8, 0)),
    (VOLUMES, "low", (-16, 0, 0), (-17, 0, 0)),
]


@pytest.mark.parametrize("edge", range(len(EDGES)), ids=lambda i: f"{EDGES[i][1]}-{i}")
def test_a_rule_ends_where_the_driver_says(edge: int) -> None:
    given, name, holds, breaks = EDGES[edge]
    assert Encoding(**(given | {name: holds})).broken_rule() == ""
    assert Encoding(**(given | {name: breaks})).broken_rule()
