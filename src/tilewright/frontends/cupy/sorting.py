"""Sorting for CuPy: NumPy sorts on the host, in place of the Thrust functions that CuPy calls.

Like those, it sorts along the last axis, keeps the order of equal elements, and puts NaN last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontends.host_arrays import array_at, read, write
from tilewright.simulate.device.gpu import SimulatedGpu


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
            data = array_at(self._gpu, data_start, dtype, shape)
            write(self._gpu, data, np.sort(read(self._gpu, data), kind="stable"))

    def argsort(self, dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
        """The indices that sort an array."""
        with self._gpu.call():
            found = np.argsort(read(self._gpu, array_at(self._gpu, data_start, dtype, shape)), kind="stable")
            write(self._gpu, array_at(self._gpu, idx_start, np.intp, shape), found)

    def lexsort(self, dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
        """The indices that sort by several keys; the last key is the primary one."""
        with self._gpu.call():
            found = np.lexsort(read(self._gpu, array_at(self._gpu, keys_start, dtype, (k, n))))
            write(self._gpu, array_at(self._gpu, idx_start, np.intp, (n,)), found)
