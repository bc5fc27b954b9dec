"""What the blocks of a grid read from memory through a second level, from what a few neighbours read.

A block that starts finds what its neighbours have read, if the second level has it still. So what counts is which
sectors a block has that its neighbours along each axis do not have. Blocks start in order, x first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Extent = tuple[int, int, int]
#: Powers of two of the distances along a grid of one axis at which blocks may share something.
_STEPS = 7


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a block has for itself, given its neighbours: alike for all blocks of the grid.

    Examples
    --------
    Blocks of a product: those side by side share the panel of A, 100 bytes, those below each other that of B, 60.

    >>> product = Footprint.of_panels(shared=100, own=60)
    >>> product.union((1, 1, 1)), product.union((8, 4, 1))
    (160.0, 880.0)
    """

    #: By the axes, as bits from x on, along which a block has neighbours that came before it: bytes that none of them
    #: has. [0] is all of a block's own, and [1] what its neighbour along x does not have.
    fresh: tuple[float, ...]

    @classmethod
    def of_panels(cls, *, shared: float, own: float) -> Footprint:
        """Of a product, whose blocks along x share one operand's panel, and those along y the other's."""
        return cls((shared + own, own, shared, 0, 0, 0, 0, 0))

    @classmethod
    def of_groups(cls, *, rows: float, columns: float) -> Footprint:
        """Of a product taken in groups of rows of tiles: down a column of a group, along the group, the next group.

        Two groups of two rows, and three columns: four panels of A, 100 bytes each, and three of B, 10 bytes each.

        >>> Footprint.of_groups(rows=100, columns=10).union((2, 3, 2))
        430.0
        """
        return cls((rows + columns, rows, columns, 0, rows, rows, 0, 0))

    @classmethod
    def of_neighbours(cls, grid: Extent, union: Callable[[Sequence[Extent]], float]) -> Footprint:
        """Measured at 2 x 2 x 2 blocks, by their places beside the first; `union` says what some of them have in all.

        A grid of one axis may stand for tiles of several: what blocks 1, 2, 4 and up to 64 before have not.

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
        """Of all blocks of a grid: what memory must give once."""
        found = 0.0
        for bits, fresh in enumerate(self.fresh):
            found += fresh * math.prod(extent - 1 for axis, extent in enumerate(grid) if bits >> axis & 1)
        return found

    def read(self, grid: Extent, filling: int, l2_bytes: int, stored: Footprint | None = None) -> float:
        """What is read from memory, where so many blocks run at the same time.

        The first filling starts together, side by side. The later ones start as places come free: a block is as far
        behind its neighbour along x as that started before it, and what the block above had is there still if what was
        read since then, a row of blocks, fits the second level; likewise for planes. What blocks have `stored` takes
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
        """Of the first blocks in order, as whole rows or planes."""
        x, y, z = grid
        if filling >= x * y:
            return self.union((x, y, min(z, -(-filling // (x * y)))))
        return self.union((min(x, filling), -(-filling // x), 1))
