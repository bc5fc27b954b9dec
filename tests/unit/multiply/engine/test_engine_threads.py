"""Threads around a product: the interpreter continues during it, and a change of kernels changes no bit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewright as tw

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("threads", [1, 2])
def test_python_continues_during_a_long_product(threads: int) -> None:
    a = np.ones((1200, 1200))  # one record for one thread: a kernel called directly
    tw.matmul(a[:300, :300], a[:300, :300], threads=threads)
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.002)

    other = threading.Thread(target=tick)
    other.start()
    start = time.perf_counter()
    while not ticks:
        time.sleep(0.001)
    for repeat in range(1, 60):  # until one call is long enough to measure
        began = time.perf_counter()
        tw.matmul(np.broadcast_to(a, (repeat, *a.shape)), a, threads=threads)
        ended = time.perf_counter()
        if ended - began > 0.1 or ended - start > 20:
            break
    over.set()
    other.join()
    during = [x for x in ticks if began < x < ended]
    assert ended - began > 0.1
    assert len(during) >= 5  # if the lock were held, there would be none


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "float16", "complex64"])
def test_batches_of_every_size_and_repeated_calls_give_the_same_bits(dtype: str) -> None:
    random = np.random.default_rng(8)
    for m, n, k in ((4, 4, 4), (9, 17, 33), (1, 40, 12)):
        a, b = (random.normal(size=(100, *s)).astype(dtype) for s in ((m, k), (k, n)))
        truth = [tw.matmul(x, y).tobytes() for x, y in zip(a[:5], b[:5], strict=True)]
        # The first calls have the general kernel, later ones that of these extents.
        for count in (1, 2, 3, 31, 32, 33, 100, 1, 2):
            for _ in range(3):
                found = tw.matmul(a[:count], b[:count])
                assert [x.tobytes() for x in found[:5]] == truth[:count]
            one = tw.matmul(a[:count], b[0])
            assert one[0].tobytes() == truth[0]


RACE = """
import subprocess
import sys
import threading
import numpy as np
import tilewright as tw
for m in (17, 18, 19, 20):
    a, b, barrier = np.ones((3000, m, 19), "f4"), np.ones((3000, 19, 21), "f4"), threading.Barrier(6)

    def work():
        barrier.wait()
        for _ in range(10):
            assert (tw.matmul(a, b, threads=1) == 19).all()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_use_a_new_small_layout_at_the_same_time() -> None:
    """One thread must not free a kernel that another runs; in a child, because it would crash."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
