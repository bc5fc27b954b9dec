"""Times block sizes of the CPU engine's packed kernel."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.cpu import blocks, product
from tilewright.backends.cpu.layout import Layout
from tilewright.backends.cpu.threads import limit
from tilewright.backends.winners import Extents, Key, Timed
from tilewright.engine import known_layouts
from tilewright.errors import DeviceError
from tilewright.problem.dtypes import element
from tilewright.problem.kind import Kind

Array = npt.NDArray[Any]
#: Least runs and least seconds of each choice, in turns with the others; the fastest run counts.
_ROUNDS, _SECONDS = 5, 0.25


class Bench:
    """One product of random row-major operands.

    Raises DeviceError: the product's kernel has no blocks.
    """

    def __init__(self, extents: Extents, kind: Kind) -> None:
        m, n, k = self.extents = extents
        random = np.random.default_rng(0)
        self.a, self.b = (
            (8 * random.standard_normal(shape)).astype(element(name).numpy)
            for shape, name in (((m, k), kind.a), ((k, n), kind.b))
        )
        self.out = np.zeros((m, n), element(kind.out).numpy)
        self.kind, self.threads = kind, limit().count
        strides = [x.strides for x in (self.a, self.b, self.out)]
        found = product.product((m, k), strides[0], (k, n), strides[1], (m, n), strides[2], kind, self.threads)
        if found.path != "packed":
            raise DeviceError(
                f"the CPU multiplies {m:,} x {n:,} x {k:,} in {kind.a} without blocks ({found.path}); nothing is tuned"
            )
        self.layout: Layout = found.layout
        self.choices = blocks.ranked(self.layout, found.key, found.size, self.threads)

    @property
    def key(self) -> Key:
        """The key of its times."""
        return blocks.key_of(self.layout, self.kind, self.threads)

    def measured(self, some: list[blocks.Choice]) -> list[Timed]:
        """The time of each choice, measured in turns, so that disturbances affect all."""
        made = [product.Product(self.layout, self.kind, self.threads, one.blocks) for one in some]
        best = [float("inf")] * len(made)
        end, rounds = time.perf_counter() + _SECONDS * len(made), 0
        while rounds < _ROUNDS or time.perf_counter() < end:
            for i, one in enumerate(made):
                start = time.perf_counter()
                one.run_arrays(self.a, self.b, self.out)
                best[i] = min(best[i], time.perf_counter() - start)
            rounds += 1
        return [
            Timed(str(one.blocks), seconds, one.ranked.limiter, self.extents)
            for one, seconds in zip(some, best, strict=True)
        ]


def forget() -> None:
    """Make later products use the block sizes that are kept now."""
    product.product.cache_clear()
    product._product.cache_clear()
    known_layouts.forget()
