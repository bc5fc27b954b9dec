"""Verifies timed products: canonical bits if the contender promises them, else an error bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.reference import canonical, mismatches
from tilewright.show.ladder import operands
from tilewright.show.rates.record import WRONG

Array = npt.NDArray[Any]
#: Most multiply-adds of a reference, a fifth of a second; of larger products some rows are compared.
_MOST = 1 << 31
#: Rounding errors of two sums of k products, each at most k epsilon of the sum of their absolute values.
#: Source: Higham, "Accuracy and stability of numerical algorithms", 2nd ed., section 3.1.
_SUMS = 2
#: Extents of the product that is run in place of a predicted one: k, and tiles of C in each direction.
_SMALL_K, _SMALL_TILES = 256, 2


class Judge:
    """The reference of two operands' product: complete, or rows spread over it."""

    def __init__(self, a: Array, b: Array) -> None:
        m, rows = len(a), max(1, _MOST // max(1, b.size))
        self._rows = np.arange(m) if rows >= m else np.unique(np.linspace(0, m - 1, rows).astype(int))
        self._where = "" if rows >= m else f" in {len(self._rows):,} of {m:,} rows"
        self._shape = (m, b.shape[1])
        self._a, self._b = a[self._rows], b
        self._expected: Array | None = None

    def exact(self, c: Array, record: Record | None = None) -> str:
        """`exact`, or the number of elements that differ from the reference of the kernel's order."""
        if c.shape != self._shape:
            return f"{WRONG}: shape {c.shape}"
        rows = np.ascontiguousarray(c[self._rows])
        if record is not None and record.order != "fma":
            wrong = record.wrong_elements(rows, self._a, self._b)
        else:
            wrong = mismatches(rows, self._canonical())
        right = "exact" if record is None or record.bound is None else "within bound"
        return f"{WRONG}: {wrong:,} of {rows.size:,} elements differ" if wrong else f"{right}{self._where}"

    def bounded(self, c: Array) -> str:
        """`within bound`, for any order of sums; integers must be exact."""
        if c.dtype.kind != "f" or c.shape != self._shape or c.dtype != self._a.dtype:
            return self.exact(c)
        bound = _SUMS * self._a.shape[1] * np.finfo(c.dtype).eps
        sums = np.abs(self._a.astype(np.float64)) @ np.abs(self._b.astype(np.float64))
        error = np.abs(c[self._rows].astype(np.float64) - self._canonical())
        wrong = int(np.count_nonzero(~(error <= bound * sums)))
        return f"{WRONG}: {wrong:,} elements outside the bound" if wrong else f"within bound{self._where}"

    def _canonical(self) -> Array:
        if self._expected is None:
            self._expected = canonical(self._a, self._b)
        return self._expected


def small(record: Record, m: int, n: int, k: int) -> tuple[int, int, int]:
    """The extents of the product that is run in place of a predicted one."""
    return min(m, _SMALL_TILES * record.tile[0]), min(n, _SMALL_TILES * record.tile[1]), min(k, _SMALL_K)


def simulated(record: Record, dtype: str, extents: tuple[int, int, int], gpu: str, seed: int) -> str:
    """Run a kernel on the simulated GPU with random operands, and compare: `exact at 64 x 64 x 256`."""
    from tilewright import simulate
    from tilewright.simulate import machine
    from tilewright.simulate.programs.program import OLDEST_CC

    m, n, k = extents
    a, b = operands(m, n, k, dtype, seed)
    c = record.blank(m, n, dtype)
    shape = record.launch_rule(m, n, k)
    program = record.program(dtype, max(machine.gpu(gpu).compute_capability, OLDEST_CC))
    simulate.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes, gpu=gpu)
    return f"{Judge(a, b).exact(c, record)} at {m} x {n} x {k}"
