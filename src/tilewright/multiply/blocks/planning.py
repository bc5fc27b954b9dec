"""Plans tiles and panels of a product larger than memory: their memory, traffic and time.

A tile of C stays in memory while panels of A and B stream through, k ascending. Planning is arithmetic on extents; it
reads no data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.simulate.machine.sizes import duration_text, size_text

#: Panels of each operand in memory: one is multiplied while the next is read.
PANELS = 2
#: Least steps along k of a panel: the engine reads and writes the sums once for each panel.
_LEAST_DEPTH = 512
#: Least rows and columns of a tile while other extents can still be cut.
_LEAST_SIDE = 64
#: Bytes of C that are converted, checked and written at a time.
STRIP_BYTES = 2 << 20
#: Number of sizes tried between the least and the whole of an extent.
_TRIED = 32
#: Seconds of a tile besides its steps (a flush, a line of the journal), and of a step besides its arithmetic.
#: Estimates, for disks whose flush takes milliseconds; they only keep tiles from being tiny.
_TILE_SECONDS, _STEP_SECONDS = 5e-3, 2e-4
#: Bytes by which a process's own memory varies from start to start.
_VARIES_BYTES = 8 << 20
#: Factors by which the briefly measured rates of storage may be wrong.
_OFF = (1 / 3, 1.0, 3.0)
#: Plans within this factor of the best time count as equally fast.
_ABOUT = 1.02


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a product of matrices.

    >>> Sizes((4, 5, 6), (4, 4), 4, 4).flops
    240
    """

    extents: tuple[int, int, int]  #: m, n, k.
    operand_bytes: tuple[int, int]  #: Bytes of an element of A and of B on storage.
    sum_bytes: int  #: Bytes of a running sum.
    out_bytes: int  #: Bytes of an element of C.
    #: Chunks, which storage reads or writes whole: rows and columns of A's, B's and C's.
    chunks: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1), (1, 1))
    resident: tuple[bool, bool] = (False, False)  #: Whether A, and B, are in memory already.
    splits_k: bool = True  #: Whether sums continue from panel to panel.
    batch: int = 1  #: Number of matrices of these extents.
    #: Bytes that a step on (rows, columns, depth) takes besides tile and panels.
    extra_bytes: Callable[[int, int, int], int] = field(default=lambda rows, columns, depth: 0, compare=False)
    #: Worker processes, which may not find panels of the previous tile in memory; 0 if this process makes the tiles.
    workers: int = 0

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * math.prod(self.extents) * self.batch


@dataclass(frozen=True, slots=True)
class Rates:
    """The machine's rates per second."""

    flops: float = 1e11
    read_bytes: float = 1e9
    write_bytes: float = 1e9


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The plan of a product larger than memory."""

    sizes: Sizes
    #: `rows`, `columns`, `depth`: of a tile of C, and of panels along k.
    rows: int
    columns: int
    depth: int
    tiles_held: int  #: 2 if a tile is written while the next is summed, else 1.
    #: Whether consecutive tiles go down a column of C, so that panels of B stay in memory; else along a row.
    by_columns: bool
    held_bytes: int  #: Peak memory of tiles, panels and steps.
    #: `read_bytes`, `written_bytes`: between storage and memory.
    read_bytes: int
    written_bytes: int
    #: Lower bound of reads and writes, for any order of the work with `held_bytes`: each array once, and ``2 m n k /
    #: sqrt(S) - 2 S`` elements for a memory of S. Source: Smith, Lowery, Langou, van de Geijn, A Tight I/O Lower Bound
    #: for Matrix Multiplication (2019).
    least_bytes: int
    seconds: float  #: Expected time at the given rates.
    rates: Rates = field(compare=False)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tiles down and across C, and panels along k.

        >>> plan(Sizes((100, 100, 100), (4, 4), 4, 4), 1 << 20).grid
        (1, 1, 1)
        """
        m, n, k = self.sizes.extents
        return -(-m // self.rows), -(-n // self.columns), max(1, -(-k // max(self.depth, 1)))

    @property
    def facts(self) -> Mapping[str, str]:
        """Labels and texts of the plan."""
        m, n, k = self.sizes.extents
        down, across, panels = self.grid
        entries = f"{self.sizes.batch:,} of " if self.sizes.batch > 1 else ""
        line = "column" if self.by_columns else "row"
        about = duration_text(self.seconds) if self.seconds >= 10 else f"{self.seconds:.1f} s"
        moved, rates = self.read_bytes + self.written_bytes, self.rates
        return {
            "product": f"{entries}{m:,} x {k:,} by {k:,} x {n:,}",
            "tiles": f"{down:,} x {across:,} of {self.rows:,} x {self.columns:,}, {line} by {line}",
            "panels": f"{panels:,} of {self.depth:,} along k",
            "memory": f"{size_text(self.held_bytes)} beside the process",
            "reads": size_text(self.read_bytes),
            "writes": size_text(self.written_bytes),
            "bound": f"{moved / max(self.least_bytes, 1):.2f} times the {size_text(self.least_bytes)} of any order",
            "time": f"{about} at {rates.flops / 1e9:,.4g} GFLOPS, "
            f"{rates.read_bytes / 1e9:,.3g} GB/s read, {rates.write_bytes / 1e9:,.3g} GB/s written",
        }

    def __str__(self) -> str:
        return "\n".join(f"{name:<9}{line}" for name, line in self.facts.items())

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        return self.rows, self.columns, self.depth

    @property
    def tiles(self) -> int:
        """Tiles of all products of the batch."""
        return self.grid[0] * self.grid[1] * self.sizes.batch

    def order(self) -> Iterator[int]:
        """The numbers of all tiles, in serpentine order."""
        down, across, _ = self.grid
        outer, inner = (across, down) if self.by_columns else (down, across)
        turn = itertools.cycle((range(inner), range(inner - 1, -1, -1)))
        for entry in range(self.sizes.batch):
            for line in range(outer):
                for at in next(turn):
                    row, column = (at, line) if self.by_columns else (line, at)
                    yield (entry * down + row) * across + column

    def place(self, tile: int) -> tuple[int, int, int]:
        """The batch entry, row and column of the grid of a tile, from its number."""
        down, across, _ = self.grid
        entry, place = divmod(tile, down * across)
        return entry, *divmod(place, across)

    @property
    def strip_rows(self) -> int:
        """Rows of a tile that are finished and written at a time."""
        return int(strip_rows(self.sizes, self.columns))

    def part(self, axis: int, index: int) -> slice:
        """The range of a tile or panel along m, n or k (0, 1, 2)."""
        step = (self.rows, self.columns, self.depth)[axis]
        return slice(index * step, min((index + 1) * step, self.sizes.extents[axis]))


def plan(
    sizes: Sizes,
    memory_bytes: int,
    rates: Rates | None = None,
    tile: tuple[int, int] | None = None,
    *,
    least_tiles: int = 1,
    process_bytes: int = 0,
) -> BlockPlan:
    """A plan within a limit of memory that is fast even if storage is slower or faster than `rates`.

    Of nearly equal plans it is the one that reads least. `tile` fixes its rows and columns, to resume a product. Plans
    of fewer than `least_tiles` are excluded if C is large enough for so many. `process_bytes`, the memory of the
    process itself, is for the error message.

    Raises
    ------
    ArgumentValueError
        The smallest tile and panels do not fit.

    Examples
    --------
    >>> found = plan(Sizes((4096, 4096, 4096), (4, 4), 4, 4), 64 << 20)
    >>> found.held_bytes <= 64 << 20, found.grid
    (True, (5, 2, 2))
    >>> plan(Sizes((4096, 4096, 4096), (4, 4), 4, 4), 64 << 20, least_tiles=16).tiles
    16
    """
    rates, beside = rates or Rates(), 0
    m, n, k = sizes.extents
    if 0 in (m, n, sizes.batch):  # no tiles
        return BlockPlan(sizes, max(1, m), max(1, n), k, 1, *(False, 0, 0, 0, 0, 0.0), rates)
    while True:
        found = _quickest(sizes, memory_bytes - beside, rates, tile, least_tiles)
        if found is None:
            rows, columns, depths = _sizes_of(sizes, tile)
            smallest = _made(sizes, (rows[0], columns[0], depths[0]), 1, by_columns=False, rates=rates)
            beside = sizes.extra_bytes(*smallest.shape)
            found = replace(smallest, held_bytes=smallest.held_bytes + beside)
            if found.held_bytes <= memory_bytes:
                return found
            raise _too_little(found.held_bytes, memory_bytes, process_bytes)
        # The extra bytes of a step are computed for the final extents only, since that takes longer than the plan.
        needed = sizes.extra_bytes(*found.shape)
        if needed <= beside:
            return replace(found, held_bytes=found.held_bytes + needed)
        beside = needed


def _too_little(least: int, memory_bytes: int, process_bytes: int) -> ArgumentValueError:
    """The error if the least memory is not available."""
    whole = least + (process_bytes + _VARIES_BYTES if process_bytes else 0)
    process, tile, given = (_megabytes(x) for x in (process_bytes, least, memory_bytes + process_bytes))
    of_process = f"{process} that the process itself takes, and " if process_bytes else ""
    return ArgumentValueError(
        f"`memory` must be at least {-(-whole // 10**6):,} MB: {of_process}{tile} for one tile of C and panels of A "
        f"and B (got {given}); allow as much, or store the arrays in smaller chunks"
    )


def _megabytes(count: int) -> str:
    return f"{count / 10**6:,.3f}".rstrip("0").rstrip(".") + " MB"


class Shapes(NamedTuple):
    """Many plans, as columns of numbers."""

    rows: Any
    columns: Any
    depth: Any
    tiles: Any
    by_columns: Any


def _quickest(
    sizes: Sizes, memory_bytes: int, rates: Rates, tile: tuple[int, int] | None, least_tiles: int
) -> BlockPlan | None:
    """Of the plans that fit, the one that loses least if rates are wrong; None if none fits."""
    shapes = _fitting(sizes, memory_bytes, tile, least_tiles)
    if not shapes.rows.size:
        shapes = _fitting(sizes, memory_bytes, tile, 1)
    if not shapes.rows.size:
        return None
    read = _read_bytes(sizes, shapes)
    loss = _most_lost(sizes, shapes, read, rates)
    good = np.flatnonzero(loss <= _ABOUT * loss.min())
    order = np.lexsort((-shapes.depth[good], _seconds(sizes, shapes, read, rates)[good], read[good]))
    rows, columns, depth, tiles, by_columns = (int(x[good[order[0]]]) for x in shapes)
    return _made(sizes, (rows, columns, depth), tiles, by_columns=bool(by_columns), rates=rates)


def _most_lost(sizes: Sizes, shapes: Shapes, read: Any, rates: Rates) -> Any:
    """For each plan the worst ratio of its time to the fastest plan's, over the rates that storage may have.

    Plans for one rate alone took 2.8 times the best time if the rate was three times too high.
    """
    each = (replace(rates, read_bytes=x * rates.read_bytes, write_bytes=x * rates.write_bytes) for x in _OFF)
    times = [_seconds(sizes, shapes, read, real) for real in each]
    return np.max([x / x.min() for x in times], axis=0)


def _fitting(sizes: Sizes, memory_bytes: int, tile: tuple[int, int] | None, least_tiles: int) -> Shapes:
    """Plans that fit: for each number of rows and each depth the one with most columns, both ways through C."""
    every_row, every_column, every_depth = (np.array(x, float) for x in _sizes_of(sizes, tile))
    m, n, _ = sizes.extents
    grid = (x.ravel() for x in np.meshgrid(every_row, every_depth, (1, 2), indexing="ij"))
    rows, depth, tiles = (x[:, None] for x in grid)
    across = -(-least_tiles // (-(-m // rows) * sizes.batch))
    fits = (_held(sizes, rows, every_column, depth, tiles) <= memory_bytes) & (every_column <= -(-n // across))
    columns = every_column[fits.shape[1] - 1 - fits[:, ::-1].argmax(1)]
    chosen = np.repeat(np.flatnonzero(fits.any(1)), 2)
    by_columns = np.arange(chosen.size) % 2 == 1
    return Shapes(rows[chosen, 0], columns[chosen], depth[chosen, 0], tiles[chosen, 0], by_columns)


def _sizes_of(sizes: Sizes, tile: tuple[int, int] | None) -> tuple[list[int], list[int], list[int]]:
    """Rows, columns and depths worth trying, in whole chunks where chunks are smaller than the extent."""
    m, n, k = sizes.extents
    (a_rows, a_columns), (b_rows, b_columns), (c_rows, c_columns) = sizes.chunks
    depths = _sizes(k, (a_columns, b_rows), _LEAST_DEPTH) if sizes.splits_k else [k]
    if tile is not None:
        return [tile[0]], [tile[1]], depths
    return _sizes(m, (a_rows, c_rows), _LEAST_SIDE), _sizes(n, (b_columns, c_columns), _LEAST_SIDE), depths


def _sizes(extent: int, chunks: tuple[int, int], least: int) -> list[int]:
    """Candidate sizes along an extent, about a constant factor apart, and the whole: multiples of both chunks."""
    if extent == 0:
        return [0]
    units = (math.lcm(*(chunk for chunk in some if chunk < extent)) for some in (chunks, chunks[1:]))
    unit = next((x for x in units if x < extent), 1)  # chunks that are written come before chunks that are read
    low = min(extent, max(least, unit))
    steps = [low * (extent / low) ** (i / (_TRIED - 1)) for i in range(_TRIED)]
    even = [-(-extent // parts) for parts in range(1, 17)]  # equal parts, so that the last is not tiny
    return sorted({min(extent, -(-int(x) // unit) * unit) for x in (*steps, *even) if x >= low} | {extent})


def strip_rows(sizes: Sizes, columns: Any) -> Any:
    """Rows of C of `columns` elements that are written at a time: whole chunks.

    >>> int(strip_rows(Sizes((4096, 4096, 4096), (4, 4), 4, 4), 4096))
    128
    """
    chunk = min(sizes.chunks[2][0], sizes.extents[0])
    many = STRIP_BYTES // np.maximum(1, columns * sizes.out_bytes)
    return np.minimum(np.maximum(1, many // chunk) * chunk, sizes.extents[0])


def _held(sizes: Sizes, rows: Any, columns: Any, depth: Any, tiles: Any) -> Any:
    """Peak bytes in memory, of a plan or of many."""
    panels = [
        0 if lies else side * depth * size
        for side, size, lies in zip((rows, columns), sizes.operand_bytes, sizes.resident, strict=True)
    ]
    # C's rows, and their converted copies for storage
    strip = 2 * strip_rows(sizes, columns) * columns * sizes.out_bytes
    return tiles * rows * columns * sizes.sum_bytes + PANELS * sum(panels) + strip


def _made(sizes: Sizes, shape: tuple[int, int, int], tiles: int, *, by_columns: bool, rates: Rates) -> BlockPlan:
    """The plan of these rows, columns and depth."""
    one = Shapes(*(np.array([x]) for x in (*shape, tiles, by_columns)))
    held, read = int(_held(sizes, *shape, tiles)), _read_bytes(sizes, one)
    written, least = _written_bytes(sizes), _least_bytes(sizes, held)
    took = float(_seconds(sizes, one, read, rates)[0])
    return BlockPlan(sizes, *shape, tiles, by_columns, held, int(read[0]), written, least, took, rates)


def _written_bytes(sizes: Sizes) -> int:
    return math.prod(sizes.extents[:2]) * sizes.batch * sizes.out_bytes


def _read_bytes(sizes: Sizes, shapes: Shapes) -> Any:
    """Bytes that the panels read (an upper bound for workers): :data:`PANELS` of each operand stay in memory."""
    m, n, k = sizes.extents
    rows, columns, depth, _, by_columns = shapes
    (a_rows, a_columns), (b_rows, b_columns), _ = sizes.chunks
    a = _covered(m, rows, a_rows) * _covered(k, depth, a_columns) * sizes.operand_bytes[0]
    b = _covered(k, depth, b_rows) * _covered(n, columns, b_columns) * sizes.operand_bytes[1]
    down, across = -(-m // rows), -(-n // columns)
    if sizes.workers:  # a worker that starts, or replaces a dead one, has no panels
        by_columns = stay = np.False_
    else:  # all panels along a column of C (of B), or along a row (of A), stay while the others stream through
        stay = -(-k // np.maximum(depth, 1)) <= PANELS
    kept_a = (m - (down - 1) * rows) * k * sizes.operand_bytes[0]  # what streams through stays at the turn
    kept_b = (n - (across - 1) * columns) * k * sizes.operand_bytes[1]
    a *= np.where(stay & ~by_columns, 1, across)
    b *= np.where(stay & by_columns, 1, down)
    a -= (stay & by_columns) * (across - 1) * kept_a
    b -= (stay & ~by_columns) * (down - 1) * kept_b
    return sizes.batch * sum(0 * x if lies else x for x, lies in zip((a, b), sizes.resident, strict=True))


def _covered(extent: int, steps: Any, chunk: int) -> Any:
    """How much of an extent is read by parts of `steps`, each with whole chunks.

    >>> _covered(100, np.array([30.0, 30]), 1), _covered(100, np.array([30.0, 40]), 20)
    (array([100., 100.]), array([140., 100.]))
    """
    if chunk <= 1:
        return np.full(steps.shape, float(extent))
    different, at = np.unique(steps, return_inverse=True)
    return np.array([_covered_by(extent, int(x), chunk) for x in different], float)[at]


def _covered_by(extent: int, step: int, chunk: int) -> int:
    if step % chunk == 0 or step >= extent:
        return extent
    return sum(
        min(-(-min(start + step, extent) // chunk) * chunk, extent) - start // chunk * chunk
        for start in range(0, extent, step)
    )


def _least_bytes(sizes: Sizes, held: int) -> int:
    m, n, k = sizes.extents
    a, b = sizes.operand_bytes
    size = min(a, b, sizes.out_bytes)
    elements = max(held // size, 1)
    once = m * k * a + k * n * b + m * n * sizes.out_bytes
    return sizes.batch * max(once, size * int(2 * m * n * k / math.sqrt(elements) - 2 * elements))


def _seconds(sizes: Sizes, shapes: Shapes, read: Any, rates: Rates) -> Any:
    """The time: steps overlap reads, and with two tiles in memory writes overlap both, except the last.

    Workers share the storage.
    """
    of_extents = zip(sizes.extents, shapes[:3], strict=True)
    down, across, panels = (np.maximum(1, -(-extent // np.maximum(step, 1))) for extent, step in of_extents)
    count = down * across * sizes.batch
    one = sizes.flops / rates.flops / count + _TILE_SECONDS + panels * _STEP_SECONDS
    steps = one * -(-count // max(1, sizes.workers))  # a worker with one tile less waits for the others
    if sizes.workers:  # one process assigns and notes the tiles of all
        steps = np.maximum(steps, count * _TILE_SECONDS)
    reads, writes = read / rates.read_bytes, _written_bytes(sizes) / rates.write_bytes
    overlapped = np.maximum(steps, reads + writes * (1 - 1 / count)) + writes / count
    return np.where(shapes.tiles == 1, np.maximum(steps, reads) + writes, overlapped)
