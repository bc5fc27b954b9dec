"""Half-precision products as tensor cores compute them: in float32, with k ascending, rounded once.

torch's CPU kernels sum in another order and truncate other bits, so that for a large k their results differ in the last
bit from those of a kernel on the same GPU. It is not published which kernel cuBLAS selects. A kernel that splits k
would sum in another order; none does here.

In a benchmark a product is deferred, as launches are (:mod:`tilewright.simulate.device.deferred_launches`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.machine import Gpu
from tilewright.simulate.run.whole_products import whole_product

#: Matrix products of `torch.ops.aten`, with the number of operands that are added to the product.
PRODUCTS = MappingProxyType({"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1})
_FORMATS = MappingProxyType({torch.float16: "f16", torch.bfloat16: "bf16"})
#: Compute capability of the first GPUs with tensor cores.
_OLDEST_CC = (7, 0)


@dataclass(frozen=True, slots=True)
class Product:
    """A half-precision product that a program requests from torch; operands are views of simulated memory."""

    name: str
    operands: tuple[torch.Tensor, ...]  #: The addend, if any, and the factors.
    alpha: float
    beta: float

    @classmethod
    def of(cls, operation: Any, args: Sequence[Any], kwargs: dict[str, Any], gpu: Gpu) -> Product | None:
        """The product for an operation; None if tensor cores do not compute it, or if it writes to a given tensor."""
        name = operation.overloadpacket.__name__
        added = PRODUCTS.get(name)
        if added is None or operation._overloadname != "default" or gpu.compute_capability < _OLDEST_CC:
            return None
        operands = tuple(args[: added + 2])
        if len({one.dtype for one in operands}) > 1 or operands[0].dtype not in _FORMATS:
            return None
        return cls(name, operands, float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        a, b = self.operands[-2:]
        return (*a.shape[:-1], b.shape[-1])

    def made(self, gpu: Gpu) -> torch.Tensor:
        """The result, in host memory.

        Raises RuntimeError: the factors' extents do not fit, as in torch.
        """
        *added, a, b = self.operands
        if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            raise RuntimeError(f"{self.name}: shapes cannot be multiplied ({tuple(a.shape)} and {tuple(b.shape)})")
        left, right = (one.detach().view(torch.uint16).numpy() for one in (a, b))
        sums = np.empty(self.shape, np.float32)
        for i in np.ndindex(sums.shape[:-2]):
            sums[i] = whole_product(left[i], right[i], _FORMATS[a.dtype], gpu)
        found = torch.from_numpy(sums)
        if self.alpha != 1:
            found = self.alpha * found
        if added and self.beta:  # else it may be uninitialised
            found = found + self.beta * added[0].float()
        return found.to(a.dtype)

    def leave_out(self, gpu: SimulatedGpu, result: torch.Tensor) -> None:
        """Compute the result, a view of simulated memory, when the program reads it."""
        places, into = [_Place.of(one) for one in self.operands], _Place.of(result)
        key = (repr((places, self.alpha, self.beta)).encode(),)
        run = functools.partial(_make, self.name, places, into, self.alpha, self.beta, gpu.record)
        used = gpu.allocations_at(place.address for place in (*places, into))
        gpu.repeated(self.name, key)
        gpu.left_out.add(self.name, key, gpu.allocations_at([into.address]), used, run)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a tensor's elements. Unlike a tensor it keeps no memory alive."""

    address: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Place:
        return cls(tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())

    @property
    def tensor(self) -> torch.Tensor:
        """A view of the elements there."""
        last = sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        block = (ctypes.c_uint8 * ((last + 1) * self.dtype.itemsize)).from_address(self.address)
        return torch.frombuffer(block, dtype=self.dtype).as_strided(self.shape, self.steps)


def _make(name: str, places: Sequence[_Place], into: _Place, alpha: float, beta: float, gpu: Gpu) -> None:
    into.tensor.copy_(Product(name, tuple(place.tensor for place in places), alpha, beta).made(gpu))
