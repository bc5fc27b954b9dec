"""Sorting for CuPy: NumPy sorts on the host, in place of the Thrust functions that CuPy calls.

Like those, it sorts along the last axis, keeps the order of equal elements, and puts NaN last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate.device.gpu import SimulatedGpu

Array = npt.NDArray[Any]


class HostSorting:
    """The functions of the module `cupy.cuda.thrust`.

    In `sort` and `argsort`, `keys_start` is the address of a scratch buffer of CuPy's, which is not used here.
    """

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu

    def functions(self) -> dict[str, Callable[..., None]]:
        """The replacements, by name."""
        return {"sort": self.sort, "argsort": self.argsort, "lexsort": self.lexsort}

    def sort(self, dtype: Any, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
        """Sort an array in place."""
        with self._gpu.call():
            data = self._at(data_start, dtype, shape)
            self._write(data_start, data, np.sort(data, kind="stable"))

    def argsort(self, dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
        """The indices that sort an array."""
        with self._gpu.call():
            found = np.argsort(self._at(data_start, dtype, shape), kind="stable")
            self._write(idx_start, self._at(idx_start, np.intp, shape), found)

    def lexsort(self, dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
        """The indices that sort by several keys; the last key is the primary one."""
        with self._gpu.call():
            found = np.lexsort(self._at(keys_start, dtype, (k, n)))
            self._write(idx_start, self._at(idx_start, np.intp, (n,)), found)

    def _at(self, address: int, dtype: Any, shape: Sequence[int]) -> Array:
        """The array at a device address, which is a host address too."""
        kind = np.dtype(dtype)
        self._gpu.check_range(address, math.prod(shape) * kind.itemsize)
        self._gpu.used([address])
        described = {"data": (address, False), "shape": tuple(shape), "typestr": kind.str, "version": 3}
        return np.asarray(SimpleNamespace(__array_interface__=described))

    def _write(self, address: int, target: Array, values: Array) -> None:
        self._gpu.changes([address])
        target[...] = values
        if target.nbytes:
            self._gpu.wrote(address, target.nbytes)
