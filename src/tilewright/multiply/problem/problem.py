"""The extents and dtypes of a product."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.multiply.problem.dtypes import Dtype, common, dtype


class Problem(NamedTuple):
    """A product of (m, k) by (k, n).

    >>> import numpy as np
    >>> problem = Problem.of(np.ones((4, 5), np.float16), np.ones((5, 3), np.float32))
    >>> problem.m, problem.n, problem.k, problem.out_dtype.name
    (4, 3, 5, 'float32')
    """

    m: int
    n: int
    k: int
    a_dtype: Dtype
    b_dtype: Dtype
    acc_dtype: Dtype  #: Dtype of the running sums.
    out_dtype: Dtype

    @classmethod
    def of(
        cls,
        a: npt.NDArray[Any],
        b: npt.NDArray[Any],
        *,
        acc_dtype: Dtype | npt.DTypeLike | None = None,
        out_dtype: Dtype | npt.DTypeLike | None = None,
    ) -> Problem:
        """The problem of multiplying two arrays of any strides.

        By default C has the product dtype of the narrowest dtype that holds both operands, and the sums its
        accumulator.

        Raises ArgumentValueError: the arrays are not matrices, or their inner extents differ; ArgumentTypeError: a
        dtype has no record.
        """
        for name, array in (("a", a), ("b", b)):
            if array.ndim != 2:
                raise ArgumentValueError(f"`{name}` must have 2 dimensions (got shape {array.shape}); reshape it")
        if a.shape[1] != b.shape[0]:
            raise ArgumentValueError(f"`b.shape[0]` must equal `a.shape[1]` (got {b.shape[0]} and {a.shape[1]})")
        operands = dtype(a.dtype), dtype(b.dtype)
        both = common(*operands)
        total = dtype(both.accumulator if acc_dtype is None else acc_dtype)
        result = dtype(both.product if out_dtype is None else out_dtype)
        return cls(a.shape[0], b.shape[1], a.shape[1], *operands, total, result)
