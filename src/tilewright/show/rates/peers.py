"""Other libraries that multiply, a row each, with functions to multiply and to wait."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.ground import installation
from tilewright.show.rates.turns import Ready

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """One library."""

    name: str  #: The name that `--against` takes.
    module: str
    package: str  #: The package that pip installs.
    devices: tuple[str, ...]  #: Its devices: `cpu`, `cuda`.
    #: (module, a, b, device) -> a product of operands that are on the device.
    prepare: Callable[[Any, Array, Array, str], Ready]

    def ready(self, a: Array, b: Array, device: str) -> Ready:
        """A function that multiplies two matrices, which are copied to the device first."""
        return self.prepare(importlib.import_module(self.module), a, b, device)


def _numpy(module: Any, a: Array, b: Array, device: str) -> Ready:
    return Ready(np.matmul, lambda: np.matmul(a, b), operands=(a, b))


def _torch(torch: Any, a: Array, b: Array, device: str) -> Ready:
    left, right = (torch.from_numpy(x).to(device) for x in (a, b))
    call = functools.partial(torch.matmul, left, right)

    def timed() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    own = timed if device == "cuda" else None
    return Ready(torch.matmul, lambda: np.asarray(call().cpu()), own, operands=(left, right))


def _jax(jax: Any, a: Array, b: Array, device: str) -> Ready:
    jax.config.update("jax_enable_x64", True)  # otherwise JAX makes 64-bit operands 32-bit
    there = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    left, right = (jax.device_put(x, there) for x in (a, b))
    multiply = jax.jit(functools.partial(jax.numpy.matmul, precision="highest"))
    return Ready(lambda: multiply(left, right).block_until_ready(), lambda: np.asarray(multiply(left, right)))


def _cupy(cupy: Any, a: Array, b: Array, device: str) -> Ready:
    left, right = cupy.asarray(a), cupy.asarray(b)
    call = functools.partial(cupy.matmul, left, right)

    def timed() -> float:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3

    return Ready(call, lambda: np.asarray(cupy.asnumpy(call())), timed)


PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("numpy", "numpy", "numpy", ("cpu",), _numpy),
        Peer("torch", "torch", "torch", ("cpu", "cuda"), _torch),
        Peer("jax", "jax", "jax", ("cpu", "cuda"), _jax),
        Peer("cupy", "cupy", "cupy-cuda13x", ("cuda",), _cupy),
    )
}


def peer(name: str) -> Peer:
    """The row of a library that is installed.

    Raises ArgumentValueError: there is no such row, or the library is not installed.
    """
    found = PEERS.get(name)
    if found is None:
        raise ArgumentValueError(f"`against` must be of {', '.join(PEERS)}, or none (got {name!r})")
    if importlib.util.find_spec(found.module) is None:
        raise ArgumentValueError(
            f"`against` {name} needs the library (got none installed); "
            f"`{installation.packages(found.package)}`, or leave it out"
        )
    return found
