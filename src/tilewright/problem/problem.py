"""What is multiplied, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.problem.dtypes import Dtype, common, dtype


@dataclass(frozen=True, slots=True)
class Problem:
    """`batch` products of (m, k) by (k, n).

    Attributes
    ----------
    m, n, k : int
        Rows of A and C, columns of B and C, columns of A and rows of B.
    a_dtype, b_dtype : Dtype
        Of the operands.
    acc_dtype, out_dtype : Dtype
        Of the running sums and of C.
    batch : int
        How many such products.

    Examples
    --------
    >>> problem = Problem.build(64, 64, 64, "float32")
    >>> problem.flops, problem.bytes
    (524288, 49152)
    >>> round(problem.intensity, 2)
    10.67
    """

    m: int
    n: int
    k: int
    a_dtype: Dtype
    b_dtype: Dtype
    acc_dtype: Dtype
    out_dtype: Dtype
    batch: int = 1

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            extent = getattr(self, name)
            if extent < 0:
                raise ArgumentValueError(f"`{name}` must not be negative (got {extent})")

    @classmethod
    def build(
        cls,
        m: int,
        n: int,
        k: int,
        a_dtype: Dtype | npt.DTypeLike,
        b_dtype: Dtype | npt.DTypeLike | None = None,
        *,
        acc_dtype: Dtype | npt.DTypeLike | None = None,
        out_dtype: Dtype | npt.DTypeLike | None = None,
        batch: int = 1,
    ) -> Problem:
        """A problem with the defaults filled in.

        B has A's dtype, C the narrowest dtype that holds both, and sums that dtype's own accumulator.
        """
        a = dtype(a_dtype)
        b = a if b_dtype is None else dtype(b_dtype)
        operand = common(a, b)
        accumulator = dtype(operand.accumulator if acc_dtype is None else acc_dtype)
        return cls(m, n, k, a, b, accumulator, operand if out_dtype is None else dtype(out_dtype), batch)

    @classmethod
    def of(
        cls,
        a: npt.NDArray[Any],
        b: npt.NDArray[Any],
        *,
        acc_dtype: Dtype | npt.DTypeLike | None = None,
        out_dtype: Dtype | npt.DTypeLike | None = None,
    ) -> Problem:
        """The problem that two arrays state.

        Parameters
        ----------
        a, b : ndarray, shapes (m, k) and (k, n)
            Any strides.

        Raises
        ------
        ArgumentValueError
            When the arrays are not matrices or their inner extents differ.
        ArgumentTypeError
            When a dtype has no record.
        """
        for name, array in (("a", a), ("b", b)):
            if array.ndim != 2:
                raise ArgumentValueError(f"`{name}` must have 2 dimensions (got shape {array.shape}); reshape it")
        if a.shape[1] != b.shape[0]:
            raise ArgumentValueError(f"`b.shape[0]` must equal `a.shape[1]` (got {b.shape[0]} and {a.shape[1]})")
        return cls.build(a.shape[0], b.shape[1], a.shape[1], a.dtype, b.dtype, acc_dtype=acc_dtype, out_dtype=out_dtype)

    @property
    def flops(self) -> int:
        """Multiplications and additions: 2 m n k a product."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least: A and B read once, C written once."""
        a = self.m * self.k * self.a_dtype.bytes
        b = self.k * self.n * self.b_dtype.bytes
        return self.batch * (a + b + self.m * self.n * self.out_dtype.bytes)

    @property
    def intensity(self) -> float:
        """Operations a byte moved at least; 0 for an empty problem.

        Source: Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.
        """
        return self.flops / self.bytes if self.bytes else 0.0
