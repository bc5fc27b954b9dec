"""CuPy's random numbers: a replacement for its cuRAND module, with numbers that NumPy makes on the host.

The distributions are the same, and results are reproducible, but the numbers are not those of a GPU.

Source: cuRAND, host API (`curandGenerate` and its fellows): uniform numbers are above 0 and at most 1.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import SimulatedGpu

_KINDS = {"DEFAULT": 100, "XORWOW": 101, "MRG32K3A": 121, "MTGP32": 141, "MT19937": 142, "PHILOX4_32_10": 161}


class HostGenerators:
    """Replaces the module `cupy_backends.cuda.libs.curand`."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._generators: dict[int, np.random.Generator] = {}
        self._numbers = itertools.count(1)
        for name, value in _KINDS.items():
            setattr(self, f"CURAND_RNG_PSEUDO_{name}", value)

    def createGenerator(self, kind: int) -> int:
        """Create a generator; return its number."""
        number = next(self._numbers)
        self._generators[number] = np.random.default_rng(0)
        return number

    def destroyGenerator(self, number: int) -> None:
        """Destroy a generator."""
        self._generators.pop(number, None)

    def setPseudoRandomGeneratorSeed(self, number: int, seed: int) -> None:
        """Restart with a seed."""
        self._generators[number] = np.random.default_rng(seed)

    def setGeneratorOffset(self, number: int, offset: int) -> None:
        """Accept an offset, and ignore it."""

    def setStream(self, number: int, stream: int) -> None:
        """Use a stream; everything is done at once."""

    def generate(self, number: int, address: int, count: int) -> None:
        """Generate 32-bit words."""
        self._fill(number, address, count, lambda made: made.integers(0, 2**32, count, np.uint32))

    def generateUniform(self, number: int, address: int, count: int) -> None:
        """Generate float32 numbers above 0 and at most 1."""
        self._fill(number, address, count, lambda made: 1 - made.random(count, np.float32))

    def generateUniformDouble(self, number: int, address: int, count: int) -> None:
        """Generate float64 numbers above 0 and at most 1."""
        self._fill(number, address, count, lambda made: 1 - made.random(count))

    def generateNormal(self, number: int, address: int, count: int, mean: float, deviation: float) -> None:
        """Generate normally distributed float32 numbers."""
        self._fill(number, address, count, lambda made: made.normal(mean, deviation, count).astype(np.float32))

    def generateNormalDouble(self, number: int, address: int, count: int, mean: float, deviation: float) -> None:
        """Generate normally distributed float64 numbers."""
        self._fill(number, address, count, lambda made: made.normal(mean, deviation, count))

    def generateLogNormal(self, number: int, address: int, count: int, mean: float, deviation: float) -> None:
        """Generate log-normally distributed float32 numbers."""
        self._fill(number, address, count, lambda made: made.lognormal(mean, deviation, count).astype(np.float32))

    def generateLogNormalDouble(self, number: int, address: int, count: int, mean: float, deviation: float) -> None:
        """Generate log-normally distributed float64 numbers."""
        self._fill(number, address, count, lambda made: made.lognormal(mean, deviation, count))

    def _fill(self, number: int, address: int, count: int, make: Callable[[np.random.Generator], Any]) -> None:
        values = np.ascontiguousarray(make(self._generators[number]))
        with self._gpu.call():
            self._gpu.check_range(address, values.nbytes)
            ctypes.memmove(address, values.ctypes.data, values.nbytes)
            self._gpu.wrote(address, values.nbytes)
