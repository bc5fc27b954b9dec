"""Which lane holds which element of a matrix: the manual's formulas, shape by shape as it prints them.

Source: PTX ISA, 9.7.14.5.1 to 9.7.14.5.13. `g` is its groupID (lane // 4), `t` its threadID_in_group (lane % 4), `i`
the number of an element among those of a lane; a lane's elements fill its registers from the lowest bit on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

Place = Callable[[int, int, int], tuple[int, int]]

#: (shape, bits of an element, matrix): how many elements a lane has, and row and column of each.
_PLACES: dict[tuple[str, int, str], tuple[int, Place]] = {
    ("m16n8k8", 16, "a"): (4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    ("m16n8k8", 16, "b"): (2, lambda g, t, i: (t * 2 + i, g)),
    ("m16n8k16", 16, "a"): (
        8,
        lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)),
    ),
    ("m16n8k16", 16, "b"): (4, lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g)),
    ("m16n8k4", 32, "a"): (2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k4", 32, "b"): (1, lambda g, t, i: (t, g)),
    ("m16n8k8", 32, "a"): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    ("m16n8k8", 32, "b"): (2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ("m8n8k16", 8, "a"): (4, lambda g, t, i: (g, t * 4 + i)),
    ("m8n8k16", 8, "b"): (4, lambda g, t, i: (t * 4 + i, g)),
    ("m16n8k16", 8, "a"): (8, lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    ("m16n8k16", 8, "b"): (4, lambda g, t, i: (t * 4 + i, g)),
    ("m16n8k32", 8, "a"): (
        16,
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0)),
    ),
    ("m16n8k32", 8, "b"): (8, lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g)),
    ("m8n8k32", 4, "a"): (8, lambda g, t, i: (g, t * 8 + i)),
    ("m8n8k32", 4, "b"): (8, lambda g, t, i: (t * 8 + i, g)),
    ("m16n8k32", 4, "a"): (16, lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7))),
    ("m16n8k32", 4, "b"): (8, lambda g, t, i: (t * 8 + i, g)),
    ("m16n8k64", 4, "a"): (
        32,
        lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (32 if i >= 16 else 0)),
    ),
    ("m16n8k64", 4, "b"): (16, lambda g, t, i: (t * 8 + (i & 7) + (32 if i >= 8 else 0), g)),
    ("m8n8k128", 1, "a"): (32, lambda g, t, i: (g, t * 32 + i)),
    ("m8n8k128", 1, "b"): (32, lambda g, t, i: (t * 32 + i, g)),
    ("m16n8k128", 1, "a"): (64, lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31))),
    ("m16n8k128", 1, "b"): (32, lambda g, t, i: (t * 32 + i, g)),
    ("m16n8k256", 1, "a"): (
        128,
        lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, t * 32 + (i & 31) + (128 if i >= 64 else 0)),
    ),
    ("m16n8k256", 1, "b"): (64, lambda g, t, i: (t * 32 + (i & 31) + (128 if i >= 32 else 0), g)),
    ("m8n8k4", 64, "a"): (1, lambda g, t, i: (g, t)),
    ("m8n8k4", 64, "b"): (1, lambda g, t, i: (t, g)),
    ("m16n8k4", 64, "a"): (2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k4", 64, "b"): (1, lambda g, t, i: (t, g)),
    ("m16n8k8", 64, "a"): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    ("m16n8k8", 64, "b"): (2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ("m16n8k16", 64, "a"): (
        8,
        lambda g, t, i: (g if i % 2 == 0 else g + 8, i * 2 + t if i % 2 == 0 else i * 2 - 2 + t),
    ),
    ("m16n8k16", 64, "b"): (4, lambda g, t, i: (t + 4 * i, g)),
}
#: C and D of all shapes with 8 and with 16 rows.
_RESULTS: dict[str, tuple[int, Place]] = {
    "m8n8": (2, lambda g, t, i: (g, t * 2 + i)),
    "m16n8": (4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))),
}


def extents(shape: str) -> tuple[int, int, int]:
    """m, n and k of a shape's name."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@functools.cache
def places(shape: str, matrix: str, bits: int) -> np.ndarray:
    """Row and column of each element of each lane: (32 lanes, elements, 2)."""
    count, place = _RESULTS[shape.partition("k")[0]] if matrix in "cd" else _PLACES[shape, bits, matrix]
    return np.array([[place(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)])


def spread(matrices: np.ndarray, shape: str, matrix: str, bits: int) -> np.ndarray:
    """Bit patterns of matrices (cases, rows, columns) as registers: (cases, registers, 32 lanes)."""
    at = places(shape, matrix, bits)
    elements = matrices[:, at[..., 0], at[..., 1]].astype(np.uint64)  # cases, lanes, elements
    width = max(bits, 32)
    each = width // bits
    grouped = elements.reshape(*elements.shape[:2], -1, each)
    words = (grouped << np.arange(0, width, bits, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    return words.transpose(0, 2, 1).astype(f"u{width // 8}")


def gathered(registers: np.ndarray, shape: str, matrix: str, bits: int) -> np.ndarray:
    """Registers (cases, registers, 32 lanes) as bit patterns of matrices: (cases, rows, columns)."""
    at = places(shape, matrix, bits)
    m, n, _ = extents(shape)
    each = registers.dtype.itemsize * 8 // bits
    words = registers.transpose(0, 2, 1).astype(np.uint64)[..., None]
    mask = np.uint64((1 << bits) - 1)
    elements = words >> np.arange(0, each * bits, bits, dtype=np.uint64) & mask
    found = np.full((len(registers), m, n), np.uint64(0xDEAD))
    found[:, at[..., 0], at[..., 1]] = elements.reshape(len(registers), 32, -1)
    return found
