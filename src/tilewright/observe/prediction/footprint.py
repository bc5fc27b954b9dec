"""The reads of a grid's blocks from memory through the second level, from the reads of a few neighbours.

A new block hits on what its neighbours have read, if the second level still has it. So the traffic depends on the
sectors of a block that its neighbours along each axis do not have. Blocks start in order, x first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Extent = tuple[int, int, int]
#: Neighbours in a grid of one axis at distances up to this power of two may share sectors.
_STEPS = 7


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of a block that its neighbours do not have; equal for all blocks of the grid.

    Blocks of a product: those side by side share a panel of A (100 bytes), those below each other a panel of B (60).

    >>> product = Footprint.of_panels(shared=100, own=60)
    >>> product.union((1, 1, 1)), product.union((8, 4, 1))
    (160.0, 880.0)
    """

    #: Indexed by a bit set of axes, x first, along which the block has an earlier neighbour: bytes that none of these
    #: neighbours has. [0] is everything a block reads; [1] is what its neighbour along x does not have.
    fresh: tuple[float, ...]

    @classmethod
    def of_panels(cls, *, shared: float, own: float) -> Footprint:
        """For a product whose blocks along x share one operand's panel, and those along y the other's."""
        return cls((shared + own, own, shared, 0, 0, 0, 0, 0))

    @classmethod
    def of_groups(cls, *, rows: float, columns: float) -> Footprint:
        """For a product in groups of rows of tiles: down a column of a group, along the group, then the next group.

        Two groups of two rows, and three columns: four panels of A (100 bytes each), and three of B (10 bytes each).

        >>> Footprint.of_groups(rows=100, columns=10).union((2, 3, 2))
        430.0
        """
        return cls((rows + columns, rows, columns, 0, rows, rows, 0, 0))

    @classmethod
    def of_neighbours(cls, grid: Extent, union: Callable[[Sequence[Extent]], float]) -> Footprint:
        """Measured on 2 x 2 x 2 blocks, at offsets from the first; `union` gives the bytes of several together.

        A grid of one axis may have tiles of several: bytes that the blocks 1, 2, 4 and up to 64 earlier do not have.

        >>> panels = {(0, 0, 0): {1, 2}, (1, 0, 0): {1, 3}, (0, 1, 0): {4, 2}, (1, 1, 0): {4, 3}}
        >>> Footprint.of_neighbours((2, 2, 1), lambda some: len(set().union(*(panels[at] for at in some)))).fresh
        (2, 1, 1, 0, 0.0, 0.0, 0.0, 0.0)
        """
        if grid[0] == math.prod(grid):
            steps = [(-(1 << power), 0, 0) for power in range(_STEPS) if 2 << power <= grid[0]]
            alone = union([(0, 0, 0)])
            return cls((alone, union([*steps, (0, 0, 0)]) - union(steps) if steps else alone, 0, 0, 0, 0, 0, 0))
        fresh = []
        for bits in range(8):
            axes = [bits >> axis & 1 for axis in range(3)]
            if any(extent == 1 and bit for extent, bit in zip(grid, axes, strict=True)):
                fresh.append(0.0)
                continue
            cube = [(x, y, z) for z, y, x in itertools.product(*(range(bit + 1) for bit in reversed(axes)))]
            fresh.append(union(cube) - (union(cube[:-1]) if bits else 0))
        return cls(tuple(fresh))

    def union(self, grid: Extent) -> float:
        """Bytes of all blocks of a grid, each counted once."""
        found = 0.0
        for bits, fresh in enumerate(self.fresh):
            found += fresh * math.prod(extent - 1 for axis, extent in enumerate(grid) if bits >> axis & 1)
        return found

    def read(self, grid: Extent, filling: int, l2_bytes: int, stored: Footprint | None = None) -> float:
        """Bytes read from memory if `filling` blocks run at the same time.

        The first filling starts together. Later blocks start as places become free: one block starts as long after its
        neighbour along x as that started before it. Data of the block above are still present if what was read since
        then, a row of blocks, fits in the second level; the same holds for planes. Data that blocks have `stored` take
        room there too.

        >>> product = Footprint.of_panels(shared=100, own=100)
        >>> [product.read((8, 8, 1), filling, l2) for filling, l2 in ((64, 0), (8, 10**6), (8, 0))]
        [1600.0, 1600.0, 7200.0]
        """
        later = max(0, math.prod(grid) - filling)

        def fits(extents: Extent) -> bool:
            return self.union(extents) + (stored.union(extents) if stored else 0) <= l2_bytes

        if fits(grid) or not later:
            return self.union(grid)
        if not fits((grid[0], 1, 1)):
            alone, beside = self.fresh[:2]
            return self._first(grid, filling) + later * beside + later / grid[0] * (alone - beside)
        plane = *grid[:2], 1
        if grid[2] > 1 and not fits(plane):
            return self._first(grid, filling) + later / math.prod(grid[:2]) * self.union(plane)
        return self.union(grid)

    def _first(self, grid: Extent, filling: int) -> float:
        """Bytes of the first blocks in order, as whole rows or planes."""
        x, y, z = grid
        if filling >= x * y:
            return self.union((x, y, min(z, -(-filling // (x * y)))))
        return self.union((min(x, filling), -(-filling // x), 1))
