"""The product by any algebra with any epilogue, in its plainest form: a fold over k by NumPy, then the expression.

Nothing is shared with the engine but the traced expressions and their meaning in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.problem.algebra import Algebra, semiring
from tilewright.multiply.problem.dtypes import dtype
from tilewright.multiply.problem.expression import Instruction, as_numpy, number
from tilewright.multiply.problem.primitives import cast
from tilewright.multiply.problem.reference import canonical
from tilewright.problem.functions import trace

Array = npt.NDArray[Any]


def folded(a: Array, b: Array, algebra: str | Algebra = "plus-times", *, acc_dtype: npt.DTypeLike | str) -> Array:
    """The sums of a product of shapes (m, k) and (k, n), in the accumulator's dtype.

    "plus-times" is fused, as :func:`~tilewright.multiply.problem.reference.canonical` has it.

    >>> folded(np.array([[1, 5]]), np.array([[3], [0]]), "max-plus", acc_dtype="int64")
    array([[5]])
    """
    name = "bool" if acc_dtype == "bool" else dtype(acc_dtype).name
    if algebra == "plus-times":
        return canonical(a, b, acc_dtype=name, out_dtype=name)
    found = semiring(algebra, name)
    zero = number(Instruction("constant", (), name, found.zero))
    left, right = cast(a, name), cast(b, name)
    sums = np.full((a.shape[0], b.shape[1]), zero, as_numpy(name))
    for k in range(a.shape[1]):
        products = found.multiply.evaluate(left[:, k, None], right[None, k])
        sums = found.add.evaluate(sums, products)
    return sums


def finished(
    sums: Array,
    epilogue: Callable[..., Any],
    arguments: Sequence[Array],
    *,
    out_dtype: npt.DTypeLike | str | None = None,
) -> Array:
    """An epilogue of sums, rounded once to a dtype; to the function's own by default.

    >>> finished(np.array([[-2, 3]]), lambda total, x: total * x, [np.array([10])])
    array([[-20,  30]])
    """
    arrays = [sums, *(np.asarray(x) for x in arguments)]
    expression = trace(epilogue, {f"x{i}": x.dtype.name for i, x in enumerate(arrays)})
    value = expression.evaluate(*arrays)
    return value if out_dtype is None else cast(value, np.dtype(as_numpy(str(out_dtype))).name)
