"""`tw.tune`: the tuner, by shapes."""

from __future__ import annotations

import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.ground.lazy_exports import public
from tilewright.multiply.engine.promotion import Order, as_dtype
from tilewright.multiply.problem.algebra import Algebra
from tilewright.show.rates import tuner


@public
def tune(
    a: tuple[int, int],
    b: tuple[int, int],
    /,
    dtype: npt.DTypeLike = "float64",
    *,
    device: str = "cpu",
    order: Order = "canonical",
    algebra: str | Algebra = "plus-times",
    few: int = tuner.FEW,
    again: bool = False,
    accept_noise: bool = False,
) -> tuner.Tuned:
    """Time the first few kernels for a product; :func:`tilewright.matmul` uses the fastest from then on.

    The bits of results do not change. Times are kept in the cache on disk, for products of similar extents.

    Parameters
    ----------
    a, b : tuple of int
        Shapes (m, k) and (k, n).
    dtype : numpy.dtype
        Dtype of both operands.
    device : str
        As for :func:`tilewright.matmul`. On the CPU block sizes are timed, on OpenCL devices tiles, on GPUs kernels;
        for a simulated GPU such as "simulated:h100" times are predicted.
    order : {"canonical", "tf32x3", "fast"}
        As for :func:`tilewright.matmul`.
    algebra : str or Algebra
        As for :func:`tilewright.matmul`; each algebra has times of its own. A product with an epilogue uses the times
        of the product without it.
    few : int
        Number of kernels from the top of the ranking.
    again : bool
        Whether to time kernels again whose times are kept.
    accept_noise : bool
        Whether to keep times whose quartiles are more than 10 % of them apart, too.

    Returns
    -------
    Tuned
        The kernels tried, with times in seconds; `best` is the fastest that is kept.

    Raises
    ------
    ArgumentValueError
        The shapes are not those of two matrices that can be multiplied.
    DeviceError
        The device has only one kernel for such operands, or the cache is off.

    Examples
    --------
    >>> import tilewright as tw
    >>> tw.tune((300, 200), (200, 400), "float32", accept_noise=True).best.seconds > 0
    True
    """
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise ArgumentValueError(f"shapes must be (m, k) and (k, n) (got {a} and {b})")
    return tuner.tune(
        device,
        (a[0], b[1], a[1]),
        as_dtype(dtype, "dtype"),
        order,
        few,
        algebra=algebra,
        again=again,
        accept_noise=accept_noise,
    )
