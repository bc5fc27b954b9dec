"""Products of the host's arrays by the catalogue's kernels: which kernel, cut how, launched how often.

What launches them is a GPU, real or simulated; all else is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.protocol import Planned, Strided
from tilewright.errors import DeviceError
from tilewright.kernels.catalogue import records
from tilewright.kernels.record import OLDEST, Record
from tilewright.machine import Gpu, launch_limits
from tilewright.problem.dtypes import element
from tilewright.problem.kind import Kind
from tilewright.problem.narrow import rounded

if TYPE_CHECKING:
    from tilewright.programs import Program

Array = npt.NDArray[Any]
#: The kernels of every GPU in whose order the sums are canonical.
_CANONICAL = tuple(r for r in records() if r.backend == "gpu" and r.order == "fma" and not r.unfit(OLDEST))
_DTYPES = tuple(dict.fromkeys(name for record in _CANONICAL for name in record.dtypes))


@dataclass(frozen=True, slots=True)
class LaunchedProducts:
    """The products of one GPU.

    The host converts operands to the dtype of the sums, as reading them there would, and rounds the sums once to C's.
    """

    name: str  #: For people.
    cc: tuple[int, int]  #: Compute capability that kernels are compiled for.
    #: `(program, grid, block, arguments, **options)`, as :func:`tilewright.simt.launch`; it waits for the kernel.
    launch: Callable[..., Any]
    gpu: Gpu | None = None  #: Of a simulated one, its record.

    def can(self, kind: Kind) -> str:
        """Why no kernel of the catalogue can multiply these; "" where one can."""
        if kind.algebra is not None:
            return "no kernel for GPUs has another algebra than plus-times; leave `algebra` out, or `device`"
        if kind.finish is not None:
            return "no kernel for GPUs has an epilogue; leave `epilogue`, `alpha` and `beta` out, or `device`"
        if kind.continues:
            return "no kernel for GPUs goes on from sums that it is given; multiply the whole of k at once"
        if _summed(kind) not in _DTYPES:
            known = ", ".join(_DTYPES)
            other = f"not in {kind.accumulator}; convert the operands, or leave `device` out"
            return f"kernels for GPUs sum in {known}, {other}"
        return ""

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """The launch of one matrix: `parts` are its blocks, `threads` those of a block, and its arrays the buffers."""
        m, n, k = (max(extent, 1) for extent in (*arrays.out[-2:], arrays.a[-1]))
        summed = _summed(kind)
        record, rows = choice(m, n, k, summed)
        shape = record.launch_rule(rows, n, k)
        return Planned(
            path=record.name,
            order="canonical",
            kernel=record,
            tile=record.tile,
            parts=math.prod(shape.grid) * -(-m // rows),
            threads=math.prod(shape.block),
            buffer_bytes=(rows * k + k * n + rows * n) * element(summed).bytes,
            flops=2 * math.prod(arrays.out) * arrays.a[-1],
            text=f"{record.name}: {record.title}, blocks of {record.tile[0]} x {record.tile[1]} in {summed}",
        )

    def multiply_into(
        self, a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
    ) -> None:
        """Compute out = a b as the CPU's `multiply_into` does, a launch a matrix; `threads` are the device's own."""
        batch, (m, n), k = out.shape[:-2], out.shape[-2:], a.shape[-1]
        if out.size == 0 or k == 0:
            out[...] = 0
            return
        name = _summed(kind)
        record, rows = choice(m, n, k, name)
        program = record.program(name, self.cc)
        left, right = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
        for i in np.ndindex(batch):
            x, y = (operand[i].astype(name, order="C", copy=False) for operand in (left, right))
            direct = out.dtype == x.dtype and out[i].flags.carray
            c: Array = out[i] if direct else np.empty((m, n), name)
            for start in range(0, m, rows):
                self.run(record, program, x[start : start + rows], y, c[start : start + rows])
            if not direct:
                out[i] = rounded(c, out.dtype)

    def run(self, record: Record, program: Program, a: Array, b: Array, c: Array, **options: Any) -> Any:
        """Launch a kernel once: c = a b, for matrices of its dtype."""
        shape = record.launch_rule(a.shape[0], b.shape[1], a.shape[1])
        return self.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes, **options)


def choice(m: int, n: int, k: int, name: str) -> tuple[Record, int]:
    """The kernel for a product in a dtype, and how many rows of C a launch makes: a grid has a limit along them.

    That with the fewest instructions in the inner loop: an element of C has a multiply-add and its parts of a load of A
    and one of B, which a thread's results share. Blocks reach beyond C's edges, and few of them leave a GPU idle. Of
    equals the last, as the catalogue goes up the ladder.

    Raises DeviceError: no kernel takes it.

    Examples
    --------
    >>> [choice(m, m, m, "float32")[0].name for m in (40, 1000)]
    ['shared_memory_16', 'warp_tiled']
    """
    found: list[tuple[float, Record, int]] = []
    for record in reversed(_CANONICAL):
        rows = min(m, record.tile[0] * launch_limits().grid_extents[1])
        if record.accepts(rows, n, k, name) is None and math.prod(record.block) >= _BLOCK_THREADS:
            blocks = math.prod(-(-extent // tile) for extent, tile in zip((m, n), record.tile, strict=True))
            covered = max(blocks, _BLOCKS) * math.prod(record.tile)
            found.append((covered * (1 + sum(1 / shared for shared in record.results)), record, rows))
    if not found:
        raise DeviceError(f"extents for a kernel of the catalogue must fit its grid (got {m}, {n}, {k} in {name})")
    return min(found, key=lambda one: one[0])[1:]


#: A block of fewer threads leaves some of the multiprocessor's four schedulers without a warp.
_BLOCK_THREADS = 128
#: Fewer blocks than a large GPU has multiprocessors take as long as so many.
_BLOCKS = 100


def _summed(kind: Kind) -> str:
    """The dtype of the kernel: sums modulo 2^32 have the same bits with and without a sign."""
    return "int32" if kind.accumulator == "uint32" else kind.accumulator
