"""Memory of products: no leak over many kinds of calls, and no copy of an operand."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.multiply.backends.cpu.product import Product, product
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind

Array = np.ndarray[Any, Any]
MB = 1 << 20
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell its memory")

# Calls of every kind

NAMES = ["float16", "float32", "int8", "int64", "complex64", "bool"]
VIEWS = (
    lambda x: x,
    lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    lambda x: x[..., ::-1, :],
    lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    lambda x: np.broadcast_to(x[..., :1, :], x.shape),
)


class Calls:
    """Random calls; `kinds` bounds how many different ones there are."""

    def __init__(self, kinds: int) -> None:
        self.kinds = kinds
        self.pool = np.random.default_rng(1).integers(-5, 5, (2, 70, 70))

    def one(self, seed: int) -> None:
        """The call of a seed: operands, options and output follow from it, and some calls are refused."""
        random = np.random.default_rng(seed)
        m, n, k = (int(x) for x in random.integers(0, 71 if random.random() < 0.2 else 20, 3))
        name = NAMES[random.integers(len(NAMES))]
        batch = int(random.integers(1, 3))
        a = VIEWS[random.integers(len(VIEWS))](self.pool[:batch, :m, :k].astype(name)) if k and m else None
        b = VIEWS[random.integers(len(VIEWS))](self.pool[0, :k, :n].astype(name)) if k and n else None
        a = np.zeros((batch, m, k), name) if a is None else a
        b = np.zeros((k, n), name) if b is None else b
        options: dict[str, Any] = {}
        choice = random.integers(10)
        if choice == 0:
            options = {"alpha": 1 if name == "bool" else 2, "threads": 2}
        elif choice == 1:
            options = {"out": np.empty((batch, m, n), name)}
        elif choice == 2:
            options = {"dtype": "complex128"}  # operands of another dtype than the kernels read
        elif choice == 3:
            b = b[:, 0] if n else b
        elif choice == 4:
            b = np.zeros((k + 1, n), name)  # refused
        elif choice == 5 and n == k and a.flags.writeable:
            options = {"out": a}
        elif choice == 6 and name in ("float32", "int64"):
            options = {"algebra": "max-plus"}
        elif choice == 7 and name == "float32":
            options = {"epilogue": lambda acc, x: tw.relu(acc * x), "epilogue_args": (float(n % 3),)}  # a new function
        with contextlib.suppress(ValueError if choice == 4 else ()):
            tw.matmul(a, b, **options)

    def run(self, start: int, count: int) -> None:
        for index in range(start, start + count):
            self.one(index % self.kinds)
        gc.collect()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_proc
def test_calls_of_every_kind_keep_no_memory() -> None:
    calls = Calls(kinds=120)
    calls.run(0, 3000)  # all kernels are made, and the allocator is stable
    before = resident_bytes()
    calls.run(0, 3000)
    assert resident_bytes() - before < MB  # 3000 leaked results of 20 x 20 would be 4 MB and more


@pytest.mark.volume
@needs_proc
def test_a_hundred_thousand_random_calls_keep_no_memory() -> None:
    calls = Calls(kinds=1 << 40)
    calls.run(0, 40_000)  # the cache of kept products is full
    middle = resident_bytes()
    calls.run(40_000, 60_000)
    assert resident_bytes() - middle < 16 * MB


# Buffers

extents = st.one_of(st.integers(1, 300), st.integers(1, 200_000))
ACCUMULATORS = {
    "float16": "float32", "bfloat16": "float32", "int8": "int32", "uint8": "uint32", "int16": "int32",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
kinds = st.sampled_from(
    [*(Kind(x, x, x, ACCUMULATORS.get(x, x)) for x in ("float32", "float64", "int32", "int64", *ACCUMULATORS)),
     Kind("int8", "int8", "int32", "int32"), Kind("int16", "int16", "int64", "int64"),
     Kind("float16", "float16", "float64", "float64")]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(extents, extents, extents),
    kinds,
    st.tuples(*[st.sampled_from(["rows", "columns", "spread"])] * 3),
    st.integers(1, 8),
    st.sampled_from([(), (3,), (50,)]),
)
def test_buffers_stay_within_sixteen_megabytes_for_any_strides(
    shape: tuple[int, int, int], kind: Kind, layouts: tuple[str, str, str], threads: int, batch: tuple[int, ...]
) -> None:
    m, n, k = shape
    spread: list[Any] = []
    for (rows, columns), name, layout in zip(((m, k), (k, n), (m, n)), kind[:3], layouts, strict=True):
        size = element(name).bytes
        inner = {
            "rows": (columns * size, size),
            "columns": (size, rows * size),
            "spread": (6 * columns * size, 2 * size),
        }
        strides = inner[layout]
        steps = (max(rows, columns) * max(strides),) * len(batch)
        spread += [(*batch, rows, columns), (*steps, *strides)]
    made = product.__wrapped__(*spread, kind, threads)
    assert isinstance(made, Product)
    assert sum(made.buffer_bytes.values()) <= 16 * MB


STRIDED = """
from pathlib import Path
import numpy as np
import tilewright as tw

N = 1400


def views(n, dtype):
    plain, wide = np.ones((n, n), dtype), np.ones((n, 2 * n), dtype)
    quarter = np.ones((4, n // 4, n), dtype)
    return {
        "contiguous": (plain, plain),
        "A.T": (plain.T, plain), "A[::-1]": (plain[::-1], plain), "A[:, ::2]": (wide[:, ::2], plain),
        "B.T": (plain, plain.T), "B[:, ::-1]": (plain, plain[:, ::-1]), "B[:, ::2]": (plain, wide[:, ::2]),
        "A again and again": (np.broadcast_to(plain[: n // 4], (4, n // 4, n)), plain),
        "B again and again": (quarter, np.broadcast_to(plain, (4, n, n))),
    }


def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) << 10 for x in lines if x.startswith(field))


for dtype in ("float32", "float16", "int8", "complex64", "bool"):
    small, large = views(304, dtype), views(N, dtype)
    for name in large:
        tw.matmul(*small[name], threads=2)  # the kernel is loaded
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = status("VmRSS")
        result = tw.matmul(*large[name], threads=2)
        print(dtype, large[name][0].itemsize * N * N, status("VmHWM") - before - result.nbytes, name, sep=";")
        assert (result == np.ones((), dtype) * np.array(N).astype(dtype)).all()
        del result
"""


@needs_proc
def test_strided_and_repeated_operands_are_not_copied() -> None:
    # Source: mallopt(3): a set threshold stays fixed; else memory freed by one array would hide the next.
    environ = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
    done = subprocess.run([sys.executable, "-c", STRIDED], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert len(rows) == 5 * 9
    for dtype, operand, extra, name in rows:
        assert int(extra) < 2 * 16 * MB, (dtype, name)
        if dtype in ("float32", "complex64"):  # sums of the others are kept separately, in as much memory
            assert int(extra) < int(operand) * 3 // 4, (dtype, name)


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (3, 4, "`a_shape` must be a shape"), ("ab", "cd", "a known format"), (None, None, "got NoneType"),
        ((2.5, 3), (3, 4), "whole numbers"), ((-1, 3), (3, 4), "0 or more"), ((3, 4), (4, -5), "`b_shape`.*0 or more"),
        ((10**30, 3), (3, 4), "at most"), ((2**21, 1), (1, 2**21), "`result` must have at most"),
    ],
)  # fmt: skip
def test_shapes_that_no_array_has_are_refused_immediately(a: Any, b: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        tw.plan(a, b, "float32")
    assert isinstance(caught.value, tw.TilewrightError)


def test_a_product_that_would_take_days_is_planned_quickly() -> None:
    plan = tw.plan((10**6, 10**6), (10**6, 10**6), "float32")
    assert plan.parts < 1 << 18
