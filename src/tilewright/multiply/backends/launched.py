"""Products of the host's arrays by kernels of the catalogue: chooses a kernel, cuts C and launches.

A real or a simulated GPU launches them; all else is the same. `ranking` chooses the kernel; the times of a tuner come
first (`winners`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeviceError
from tilewright.multiply.backends import batches, estimates, ranking, tuning_db
from tilewright.multiply.backends.protocol import Choices, Planned, Strided
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Instruction, as_numpy, number
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.narrow import rounded
from tilewright.simulate.machine import Gpu
from tilewright.simulate.programs.array_arguments import strided

if TYPE_CHECKING:
    from tilewright.simulate.programs import Program

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class LaunchedProducts:
    """The products of one GPU.

    The host converts operands to the dtype of the sums, as kernels do when they read, and rounds the sums once to C's
    dtype.
    """

    name: str  #: The device's name for reports.
    cc: tuple[int, int]  #: The compute capability that kernels are compiled for.
    #: `(program, grid, block, arguments, **options)`, as :func:`tilewright.simt.launch`; it waits for the kernel.
    launch: Callable[..., Any]
    gpu: Gpu  #: Its record; for a real GPU the record of the most similar one.
    simulated: bool = False  #: Whether its launch takes instruments.
    identity: str = ""  #: The device in a tuner's keys: by default the simulated GPU of that record.
    #: (record, program, A, B, dtype of C) -> a product of operands that stay on a GPU, which returns its seconds.
    resident: Callable[[Record, Program, Array, Array, np.dtype[Any]], Callable[[], float]] | None = None

    def refusal(self, kind: Kind) -> str:
        """Why no kernel of the catalogue can multiply a kind; "" if one can."""
        if kind.continues:
            return "no kernel for GPUs continues given sums; multiply the whole of k at once"
        if kind.accumulator == "bool":
            return ranking.lacks_bits(kind, self.cc)
        if ranking.summed(kind) not in ranking.dtypes_of_sums():
            known = ", ".join(ranking.dtypes_of_sums())
            other = f"not in {kind.accumulator}; convert the operands, or leave `device` out"
            return f"kernels for GPUs sum in {known}, {other}"
        return ""

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        """Plan the launches: `parts` are blocks for a matrix, `threads` those of a block, `buffer_bytes` its arrays."""
        # Views of nothing: only shapes and strides are read.
        a, b, out, *more = (
            strided(np.zeros(1, np.uint8), *given)
            for given in (
                (arrays.a, arrays.a_strides),
                (arrays.b, arrays.b_strides),
                (arrays.out, arrays.out_strides),
                *((arrays.out, steps) for steps in arrays.more),
            )
        )
        a, b, out, _ = batches.folded(a, b, out, more)
        m, n, k = (max(extent, 1) for extent in (*out.shape[-2:], a.shape[-1]))
        matrices = max(math.prod(out.shape[:-2]), 1)
        found = self._chosen(kind, m, n, k, a.strides, b.strides, matrices)
        record, name, made = found.best.record, found.best.dtype, found.best.made
        rows, bound = estimates.rows_of(record, m), found.ranking[0].bound
        shape, size = record.launch_rule(rows, n, k), element(name).bytes
        return Planned(
            path=record.name,
            order=kind.order if bound else "canonical",  # type: ignore[arg-type]  # a kind's order is one of these
            kernel=record,
            tile=record.tile,
            parts=math.prod(shape.grid) * -(-m // rows),
            threads=math.prod(shape.block),
            buffer_bytes=(rows * k + k * n) * size + rows * n * element(made).bytes,
            flops=2 * math.prod(arrays.out) * arrays.a[-1],
            text=f"{record.name}: {record.title}, blocks of {record.tile[0]} x {record.tile[1]} in {name}"
            + (f", C in {made}" if made != element(name).product else ""),
            bound=bound,
            ranking=found.ranking,
        )

    def multiply_into(
        self, a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
    ) -> None:
        """Compute out = a b like the CPU's `multiply_into`; `threads` is ignored."""
        if out.size == 0 or a.shape[-1] == 0:
            out[...] = _of_nothing(kind, out, more)
            return
        a, b, out, more = batches.folded(a, b, out, more)
        (m, n), k, matrices = out.shape[-2:], a.shape[-1], math.prod(out.shape[:-2])
        best = self._chosen(kind, m, n, k, a.strides, b.strides, matrices).best
        record, name, rows = best.record, element(best.dtype).numpy, estimates.rows_of(best.record, m)
        made = as_numpy(best.made)
        left, right = (
            np.broadcast_to(_read(x, of, turned, name), (*out.shape[:-2], *x.shape[-2:]))
            for x, of, turned in zip((a, b), (kind.a, kind.b), record.columns, strict=True)
        )
        direct = out.dtype == made and out.flags.carray
        whole: Array = out if direct else np.empty(out.shape, made)
        for x, y, c, *rest in batches.split([left, right, whole, *more], self._most(record, m, n, k)):
            program = best.program(self.cc, kind.algebra, c.ndim > 2)
            for start in range(0, m, rows):
                part = (..., slice(start, start + rows), slice(None))
                self.run(record, program, x[part], y, c[part], [one[part] for one in rest])
        if not direct:
            out[...] = rounded(whole, out.dtype)

    def _most(self, record: Record, m: int, n: int, k: int) -> int:
        """How many matrices of C one launch computes, in half of the GPU's memory."""
        each = 16 * (m * k + k * n + m * n)  # no element has more bytes
        return max(1, min(estimates.matrices_of(record), self.gpu.memory_bytes // 2 // each))

    def _chosen(
        self, kind: Kind, m: int, n: int, k: int, a: Sequence[int], b: Sequence[int], batch: int
    ) -> ranking.Choice:
        """The ranked kernels for a batch of operands of these strides."""
        columns = ranking.by_columns(a), ranking.by_columns(b)
        found = ranking.chosen(kind, m, n, k, self.gpu, self.cc, columns, batch)
        return tuning_db.first_of_gpu(found, self._identity, kind, m, n, k, self.gpu, batch)

    @property
    def _identity(self) -> str:
        return self.identity or tuning_db.simulated(self.gpu)

    def choices(self, kind: Kind, extents: tuple[int, int, int]) -> Choices:
        """The kernels by estimate. Their times are predicted, or on a real GPU measured between events."""
        from tilewright.multiply.backends.cuda import (
            quick,  # it imports cuda.core's names, which simulated GPUs do not need
        )

        found = ranking.chosen(kind, *extents, self.gpu, self.cc)
        if len(found.ranking) == 1:
            raise DeviceError(
                f"{self.name} has one kernel for such products ({found.ranking[0].name}); nothing is tuned"
            )

        resident = self.resident

        def prepare(at: int, a: Array, b: Array) -> Callable[[], float | None]:
            assert resident is not None
            one = found.candidates[at]
            x, y = (
                _read(x, name, by_columns, element(one.dtype).numpy)
                for x, name, by_columns in zip((a, b), (kind.a, kind.b), one.record.columns, strict=True)
            )
            return resident(one.record, one.program(self.cc), x, y, as_numpy(one.made))

        asked = tuning_db.key(self._identity, kind, *extents)
        return Choices(asked, found.ranking, prepare if resident else None, quick.forget, found.candidates)

    def run(
        self, record: Record, program: Program, a: Array, b: Array, c: Array, more: Sequence[Array] = (), **options: Any
    ) -> Any:
        """Launch a kernel once: c = a b, for matrices of its dtype; `more` are the operands of its epilogue.

        All have two more axes for a program of a batch.
        """
        shape = record.launch_rule(c.shape[-2], c.shape[-1], a.shape[-1], math.prod(c.shape[:-2]))
        given = record.arguments(a, b, c, more)
        return self.launch(program, shape.grid, shape.block, given, shape.shared_bytes, **options)


def _read(operand: Array, kind: str, by_columns: bool, name: np.dtype[Any]) -> Array:
    """Matrices as kernels read them, in the dtype of the sums; a boolean becomes a word of equal bits."""
    if operand.dtype == name and (kind != "bool" or name == np.bool_):
        return operand
    own = operand[tuple(slice(0, 1) if step == 0 else slice(None) for step in operand.strides[:-2])]
    own = own.mT if by_columns else own
    made: Array = (own != 0 if kind == "bool" else own).astype(name, order="C")
    made = -made if kind == "bool" else made
    return np.broadcast_to(made.mT if by_columns else made, operand.shape)


def _of_nothing(kind: Kind, out: Array, more: Sequence[Array]) -> Array:
    """A product with k of 0: nothing is launched."""
    start = 0 if kind.algebra is None else number(Instruction("constant", (), kind.algebra.dtype, kind.algebra.zero))
    sums = np.full(out.shape, start, ranking.summed(kind))
    return rounded(sums, out.dtype) if kind.finish is None else kind.finish.evaluate(sums, *more)
