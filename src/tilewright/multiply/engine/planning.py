"""Plans of products before there are operands: shapes by NumPy's rules, kernel, threads and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.display import Shown
from tilewright.multiply.backends.protocol import Backend, Planned, Strided, require
from tilewright.multiply.engine import operands
from tilewright.multiply.engine.libraries import is_tensor
from tilewright.multiply.engine.promotion import Lowering, Types, kind_of, truth_kind
from tilewright.multiply.engine.shapes import Shape
from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression, brief
from tilewright.simulate.programs.array_arguments import row_major

#: Kernels of a ranking that a plan prints.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Plan(Shown, Planned):
    """A product planned before there are operands; call it with them.

    It has the fields of :class:`~tilewright.multiply.backends.protocol.Planned` too: path, order, kernel, tile, parts,
    threads, buffer_bytes, flops and text.

    Attributes
    ----------
    a_shape, b_shape, shape : tuple of int
    a_dtype, b_dtype, dtype, acc_dtype : numpy.dtype
        Dtypes of the operands, the result and the running sums.
    lowering : {"real", "complex", "bool", "words"}
        Complex products are computed as real ones with n and k doubled. Booleans are bytes that are counted; with an
        algebra they are words of 32.
    algebra : str
        The operations in place of addition and multiplication.
    epilogue : str
        The expression applied to the sums, or "".
    options : mapping
        Arguments that a call passes on to :func:`tilewright.matmul`.
    multiply : callable
        :func:`tilewright.matmul`.
    """

    a_shape: Shape
    b_shape: Shape
    shape: Shape
    a_dtype: np.dtype[Any]
    b_dtype: np.dtype[Any]
    dtype: np.dtype[Any]
    acc_dtype: np.dtype[Any]
    lowering: Lowering
    algebra: str
    epilogue: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    multiply: Callable[..., Any] = field(repr=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        return "\n".join(f"{name:<9}{line}" for name, line in self.facts.items())

    @property
    def facts(self) -> Mapping[str, str]:
        """Labels and texts of the plan."""
        factors = " @ ".join(f"{dtype} {shape}" for dtype, shape in self._operands)
        lines = {
            "product": f"{factors} -> {self.dtype} {self.shape}, {self.algebra}",
            "sums": f"{self.acc_dtype}, {self.order} order"
            + f", within {self.bound} of the exact ones" * bool(self.bound),
            "epilogue": brief(self.epilogue),
            "kernel": self.text,
            "threads": f"{self.threads}, a matrix of the result in {self.parts} part{'s' * (self.parts != 1)}",
            "buffers": f"{self.buffer_bytes:,} bytes",
            "work": f"{self.flops:,} operations",
        }
        return {name: line for name, line in lines.items() if line} | self._choices

    @property
    def _choices(self) -> dict[str, str]:
        """The first kernels of the ranking, a line each."""
        few = self.ranking[:_SHOWN]
        width = max((len(one.name) for one in few), default=0)
        return {
            f"choice {i}": f"{one.name:<{width}}  {1e6 * one.seconds:,.1f} us {one.source}: {one.limiter}"
            + f", {one.waves:.2g} waves" * (one.source == "estimated")  # a tuner's limiters have longer names
            for i, one in enumerate(few, 1)
        }

    @property
    def _operands(self) -> tuple[tuple[np.dtype[Any], Shape], ...]:
        return (self.a_dtype, self.a_shape), (self.b_dtype, self.b_shape)

    def __call__(self, a: Any, b: Any, /, out: Any = None) -> Any:
        """Multiply operands of the plan's shapes and dtypes, of any strides.

        Raises ArgumentValueError, ArgumentTypeError: the operands' shapes or dtypes are not the plan's.
        """
        for name, value, (dtype, shape) in zip("ab", (a, b), self._operands, strict=True):
            found = operands.array(value.detach() if is_tensor(value) else value, name)
            if found.shape != shape:
                raise ArgumentValueError(
                    f"`{name}.shape` must be the plan's {shape} (got {found.shape}); make another plan"
                )
            if found.dtype != dtype:
                raise ArgumentTypeError(
                    f"`{name}.dtype` must be the plan's {dtype} (got {found.dtype}); make another plan"
                )
        return self.multiply(a, b, out, **self.options)


def planned(
    device: Backend,
    a: Shape,
    b: Shape,
    found: Types,
    threads: int,
    algebra: Semiring | None = None,
    finish: tuple[Expression, bool] | None = None,
    more: Sequence[npt.NDArray[Any]] = (),
) -> Planned:
    """The device's plan for row-major operands of these shapes; `more` are dtypes of the finish's operands."""
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    kind, words = kind_of(found, left[-1], algebra, finish), 1
    if found.lowering in ("bool", "words") and not device.refusal(truth_kind(algebra)):
        kind = truth_kind(algebra)
    elif found.lowering == "words":
        words = 32
        right = (*right[:-1], -(-right[-1] // words))
    out = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    steps = [
        row_major(shape, element(name).bytes) for shape, name in ((left, kind.a), (right, kind.b), (out, kind.out))
    ]
    arrays = Strided(left, steps[0], right, steps[1], out, steps[2], tuple(x.strides for x in more))
    require(device, kind)
    made = device.plan(arrays, kind, threads)
    return replace(made, flops=made.flops * words)
