"""The host's cost of a `tw.matmul` call besides the launch, for arrays on a GPU whose layouts were multiplied before.

Run from the root of the repository, with numba-cuda installed::

    python benchmarks/device_calls.py

The GPU is simulated, and the measurement removes its launch and the driver's calls: the rules, the addresses and the
parameters remain. Each line is a kind of call; the last line but one is of calls that follow every rule, because their
epilogue reads a list, which may change unseen. The last is the time in which the arrays' library gives three
interfaces, which each call asks for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import cuda

import tilewright as tw

_REPEATS, _CALLS = 200, 20


def least_us(call: Callable[[], Any]) -> float:
    """Microseconds of a call, in the quickest of many rounds, because others use this machine too."""
    rounds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        rounds.append(time.perf_counter() - start)
    return 1e6 * min(rounds) / _CALLS


def there(*shape: int, kind: str = "float32") -> Any:
    """An array on the GPU."""
    return cuda.to_device(np.ones(shape, kind))


def strided(array: Any, **more: Any) -> Any:
    """Another view of an array's memory."""
    return SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__ | more)


def calls() -> dict[str, Callable[[], Any]]:
    """The kinds of calls, of matrices of 64 x 64."""
    a, b, c = (there(64, 64) for _ in range(3))
    halves = [there(64, 64, kind="float16") for _ in range(3)]
    bytes_, words = [there(64, 64, kind="int8") for _ in range(2)], there(64, 64, kind="int32")
    batch, batched = there(3, 64, 64), there(3, 64, 64)
    many, heads = [there(500, 16, 16) for _ in range(3)], [there(128, 64, 64, kind="float16") for _ in range(3)]
    turned, row, vector, state = strided(b, strides=(4, 256)), there(64), there(64), [1.0]
    return {
        "two operands": lambda: tw.matmul(a, b, c),
        "float16, on tensor cores": lambda: tw.matmul(*halves, order="fast"),
        "int8 to int32": lambda: tw.matmul(*bytes_, words, dtype="int32"),
        "a vector": lambda: tw.matmul(a, row, vector),
        "a batch of 3": lambda: tw.matmul(batch, b, batched),
        "a batch of 500": lambda: tw.matmul(*many),
        "128 heads of float16": lambda: tw.matmul(*heads, order="fast"),
        "B turned, with a copy": lambda: tw.matmul(a, turned, c),
        "another rule of casting": lambda: tw.matmul(a, b, c, casting="equiv"),
        "another algebra": lambda: tw.matmul(a, b, c, algebra="min-plus"),
        "alpha and beta": lambda: tw.matmul(a, b, c, alpha=0.5, beta=2.0),
        "an epilogue with a row": lambda: tw.matmul(
            a, b, c, epilogue=lambda total, row: tw.relu(total + row), epilogue_args=(row,)
        ),
        "every rule": lambda: tw.matmul(a, b, c, epilogue=lambda total: total * state[0]),
        "of these three interfaces": lambda: [x.__cuda_array_interface__ for x in (a, b, c)],
    }


@contextmanager
def no_device() -> Iterator[None]:
    """Launches and calls of the driver that do nothing."""
    dispatcher: Any = sys.modules["numba.cuda.dispatcher"]
    driver: Any = sys.modules["numba.cuda.cudadrv.driver"].binding
    memory, context = driver.cuMemAllocAsync(1, 0), driver.cuCtxGetCurrent()
    with ExitStack() as stack:
        stack.enter_context(patch.object(dispatcher, "launch", lambda *given: None))
        stack.enter_context(patch.object(driver, "cuMemAllocAsync", lambda *given: memory))
        stack.enter_context(patch.object(driver, "cuCtxGetCurrent", lambda: context))
        for name in ("cuMemFreeAsync", "cuMemsetD8Async", "cuMemsetD32Async"):
            stack.enter_context(patch.object(driver, name, lambda *given: memory[:1]))
        yield


def main() -> None:
    """Print the figures."""
    with tw.simulated_gpu("a100"):
        kinds = calls()
        for call in kinds.values():
            call()
        with no_device():
            for name, call in kinds.items():
                print(f"{name:29} {least_us(call):6.1f} us")


if __name__ == "__main__":
    main()
