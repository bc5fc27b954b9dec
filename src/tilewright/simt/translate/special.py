"""Special registers: their shapes and values, given the launch's block dimensions.

Source: PTX ISA, chapter 10 (Special Registers). Lanes of a warp are consecutive threads, x fastest, then y, then z.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.simt.translate.code import LANES

if TYPE_CHECKING:
    from tilewright.simt.translate.shapes import Shape

#: Bound assumed of a grid's extent in threads, and of integer parameters, in a "small" launch: products of two such
#: numbers fit a signed 32-bit register, so index arithmetic provably does not wrap.
SMALL = 1 << 15


@dataclass(frozen=True)
class LaunchClass:
    """What a translation may assume of a launch; part of the cache key.

    Attributes
    ----------
    block : (x, y, z)
        Threads of a block.
    grid_small : tuple of bool
        For each axis: blocks times threads is at most SMALL.
    small_params : frozenset of int
        Byte offsets of 4-byte parameters whose value lies in [0, SMALL].
    """

    block: tuple[int, int, int]
    grid_small: tuple[bool, bool, bool] = (False, False, False)
    small_params: frozenset[int] = field(default_factory=frozenset)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def warps(self) -> int:
        """Warps of a block, the last perhaps partial."""
        return -(-self.threads // LANES)


@functools.lru_cache(maxsize=64)
def thread_indices(block: tuple[int, int, int]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """tid.x, tid.y, tid.z of every lane: [axis][warp][lane]. Lanes past the block's end count on."""
    x, y, _ = block
    warps = -(-(block[0] * block[1] * block[2]) // LANES)
    warp_threads = [range(w * LANES, (w + 1) * LANES) for w in range(warps)]
    return (
        tuple(tuple(t % x for t in threads) for threads in warp_threads),
        tuple(tuple(t // x % y for t in threads) for threads in warp_threads),
        tuple(tuple(t // (x * y) for t in threads) for threads in warp_threads),
    )


def special_shape(name: str, launch: LaunchClass) -> Shape:
    """The shape of a special register."""
    from tilewright.simt.translate.shapes import ANY_UNIFORM, PATTERN, UNIFORM, VECTOR, Shape, constant

    head, _, axis_name = name.partition(".")
    axis = "xyz".find(axis_name) if axis_name else -1
    if head == "%tid" and axis >= 0:
        return _tid_shape(launch.block, axis)
    if head == "%ntid" and axis >= 0:
        return constant(launch.block[axis])
    if head == "%ctaid" and axis >= 0:
        limit = SMALL // launch.block[axis] if launch.grid_small[axis] else (1 << 31) - 1 if axis == 0 else 65535
        return Shape(UNIFORM, (), 0, max(limit - 1, 0))
    if head == "%nctaid" and axis >= 0:
        limit = SMALL // launch.block[axis] if launch.grid_small[axis] else (1 << 31) - 1 if axis == 0 else 65535
        return Shape(UNIFORM, (), 1, max(limit, 1))
    if head == "%laneid":
        return Shape(PATTERN, tuple(range(LANES)), 0, LANES - 1, 1 << 20)
    if head in ("%warpid", "%nwarpid"):
        return Shape(UNIFORM, (), 0, 32)
    if head.startswith("%lanemask"):
        return Shape(VECTOR)
    return ANY_UNIFORM


@functools.lru_cache(maxsize=256)
def _tid_shape(block: tuple[int, int, int], axis: int) -> Shape:
    from tilewright.simt.translate.shapes import ALIGN_MAX, PATTERN, UNIFORM, VECTOR, Shape, constant

    rows = thread_indices(block)[axis]
    differences = {tuple(v - row[0] for v in row) for row in rows}
    low, high = 0, max(max(row) for row in rows)
    if high == 0:
        return constant(0)
    if len(differences) > 1:
        return Shape(VECTOR, (), low, high)
    pattern = differences.pop()
    align = min((row[0] & -row[0] or ALIGN_MAX) for row in rows)
    return Shape(PATTERN if any(pattern) else UNIFORM, pattern if any(pattern) else (), low, high, align)
