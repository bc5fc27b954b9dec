"""`tw.tune`: the tuner, by shapes."""

from __future__ import annotations

import numpy.typing as npt

from tilewright.engine.promotion import Order, as_dtype
from tilewright.errors import ArgumentValueError
from tilewright.rates import tuner


def tune(
    a: tuple[int, int], b: tuple[int, int], /, dtype: npt.DTypeLike = "float64", *, device: str = "cpu",
    order: Order = "canonical", few: int = tuner.FEW, again: bool = False,
) -> tuner.Tuned:  # fmt: skip
    """Time the first few kernels for a product, and let :func:`tilewright.matmul` take the quickest from then on.

    Results keep their bits. Times are kept in the cache on disk, for products of about these extents.

    Parameters
    ----------
    a, b : tuple of int
        Shapes (m, k) and (k, n).
    dtype : numpy.dtype
        Of both operands.
    device : str
        "cpu", whose blocks are measured, or a simulated GPU such as "simulated:h100", whose kernels' times are
        predicted.
    order : {"canonical", "tf32x3", "fast"}
        As of :func:`tilewright.matmul`.
    few : int
        How many of the ranking's first.
    again : bool
        Whether to time those too whose times are kept.

    Returns
    -------
    Tuned
        What was tried, with times in seconds; `best` is the quickest.

    Raises
    ------
    ArgumentValueError
        The shapes are not those of two matrices that can be multiplied.
    DeviceError
        The device is none that is tuned, it multiplies such operands in one way, or nothing can be kept.

    Examples
    --------
    >>> import tilewright as tw
    >>> tw.tune((300, 200), (200, 400), "float32").best.seconds > 0
    True
    """
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise ArgumentValueError(f"shapes must be (m, k) and (k, n) (got {a} and {b})")
    return tuner.tune(device, (a[0], b[1], a[1]), as_dtype(dtype, "dtype"), order, few, again=again)
