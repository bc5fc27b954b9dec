"""The host's cost of a `tw.matmul` call besides the launch, for arrays on a GPU whose layouts were multiplied before.

Run from the root of the repository, with numba-cuda installed::

    python benchmarks/device_calls.py

The GPU is simulated, and the measurement removes its launch and calls for memory: the rules, the addresses and the
parameters remain. The first figure is of calls that skip the rules, the second of those with B transposed, which also
take memory and a copy, the third of those with an epilogue that reads a row, the fourth of calls with all rules. The
fifth is the time in which the arrays' library gives their three interfaces.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

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


def main() -> None:
    """Print the five figures."""
    with tw.simulated_gpu("a100"):
        a, b, c = (cuda.to_device(np.ones((64, 64), np.float32)) for _ in range(3))
        turned = SimpleNamespace(__cuda_array_interface__=b.__cuda_array_interface__ | {"strides": (4, 256)})
        row = cuda.to_device(np.ones(64, np.float32))
        for right in (b, turned):
            tw.matmul(a, right, c)

        def finished() -> None:
            tw.matmul(a, b, c, epilogue=lambda total, row: tw.relu(total + row), epilogue_args=(row,))

        finished()
        dispatcher: Any = sys.modules["numba.cuda.dispatcher"]
        launch = dispatcher.launch
        dispatcher.launch = lambda *given: None
        driver: Any = sys.modules["numba.cuda.cudadrv.driver"].binding
        memory = driver.cuMemAllocAsync(1, 0)
        driver.cuMemAllocAsync, driver.cuMemFreeAsync = (lambda *given: memory), (lambda *given: memory[:1])
        try:
            quick = least_us(lambda: tw.matmul(a, b, c))
            copied = least_us(lambda: tw.matmul(a, turned, c))
            fused = least_us(finished)
            rules = least_us(lambda: tw.matmul(a, b, c, casting="equiv"))
        finally:
            dispatcher.launch = launch
        read = least_us(lambda: [x.__cuda_array_interface__ for x in (a, b, c)])
    print(
        f"known layouts {quick:.1f} us, with a copy {copied:.1f} us, with an epilogue {fused:.1f} us, every rule "
        f"{rules:.1f} us, of these the arrays' interfaces {read:.1f} us"
    )


if __name__ == "__main__":
    main()
