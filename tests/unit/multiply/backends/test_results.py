"""Results of another dtype than a kernel's own: tensor cores make them, and the kernel itself rounds the sums once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import machine
from tilewright.ladder import operands
from tilewright.multiply.backends.ranking import chosen
from tilewright.multiply.engine.promotion import types
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import identity
from tilewright.observe.prediction.products import Product, predict_product

VOLUME = pytest.mark.volume
#: Operands, result and GPU.
FLOATS = [
    ("bfloat16", "float32", "a100"),
    ("float8_e4m3fn", "bfloat16", "h100"),
    ("float16", "float16", "t4"),
    pytest.param("float16", "float32", "t4", marks=VOLUME),
    pytest.param("float16", "float32", "h100", marks=VOLUME),
    pytest.param("float8_e5m2", "float16", "l40s", marks=VOLUME),
    pytest.param("float8_e4m3fn", "float8_e4m3fn", "rtx5090", marks=VOLUME),
]
INTEGERS = [
    ("int8", "int32", "a100"),
    ("uint8", "uint8", "a100"),
    ("uint8", "uint32", "t4"),
    ("uint16", "uint32", "a100"),
    pytest.param("int16", "int16", "h100", marks=VOLUME),
    ("int16", "int32", "a100"),
    pytest.param("uint16", "uint16", "a100", marks=VOLUME),
    pytest.param("int8", "int16", "h100", marks=VOLUME),
    pytest.param("int8", "int32", "t4", marks=VOLUME),
    pytest.param("uint8", "int32", "b200", marks=VOLUME),
]
SHAPES = [(129, 65, 33), (1, 300, 7)]


def planned(a: np.ndarray, b: np.ndarray, **asked: Any) -> Any:
    plan = tw.plan(a.shape, b.shape, a.dtype, **asked)
    assert plan.kernel.tensor, plan.kernel.name
    return plan


@pytest.mark.parametrize(("dtype", "out", "gpu"), FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats_are_rounded_once(dtype: str, out: str, gpu: str, shape: tuple[int, int, int]) -> None:
    asked: Any = {"dtype": out, "order": "fast", "device": f"simulated:{gpu}"}
    a, b = operands(shape[0], shape[2], shape[1], dtype, seed=3)
    plan = planned(a, b, **asked)
    c = tw.matmul(a, b, **asked)
    assert c.dtype == element(out).numpy
    assert plan.kernel.bound.outside(c, a, b) == 0
    if out == "float32":
        rounded = c.astype(element(dtype).numpy)
        assert plan.kernel.bound.outside(rounded.astype(np.float32), a, b) > 0, "C has the bits that its dtype holds"


@pytest.mark.parametrize(("dtype", "out", "gpu"), INTEGERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers_are_exact(dtype: str, out: str, gpu: str, shape: tuple[int, int, int]) -> None:
    asked: Any = {"dtype": out, "device": f"simulated:{gpu}"}
    random, bounds = np.random.default_rng(4), np.iinfo(dtype)
    m, k, n = shape
    a, b = (random.integers(bounds.min, bounds.max, s, dtype, endpoint=True) for s in ((m, k), (k, n)))
    planned(a, b, **asked)
    c = tw.matmul(a, b, **asked)
    assert c.dtype == out
    assert (c == (a.astype(np.int64) @ b.astype(np.int64)).astype(out)).all()


@pytest.mark.parametrize(("of_a", "of_b", "gpu"), [
    ("uint8", "int8", "a100"), pytest.param("int16", "int8", "h100", marks=VOLUME),
])  # fmt: skip
def test_mixed_integers_are_exact(of_a: str, of_b: str, gpu: str) -> None:
    random, (m, k, n) = np.random.default_rng(5), (129, 65, 33)
    a, b = (
        random.integers(np.iinfo(one).min, np.iinfo(one).max, shape, one, endpoint=True)
        for one, shape in ((of_a, (m, k)), (of_b, (k, n)))
    )
    asked: Any = {"dtype": "int32", "device": f"simulated:{gpu}"}
    assert tw.plan(a.shape, b.shape, of_a, of_b, **asked).kernel.tensor
    assert (tw.matmul(a, b, **asked) == (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)).all()


def test_floats_of_a_byte_are_multiplied_as_halves_where_tensor_cores_lack_them() -> None:
    asked: Any = {"dtype": "float32", "order": "fast", "device": "simulated:a100"}
    a, b = operands(40, 50, 70, "float8_e5m2", seed=6)
    assert "in float16, C in float32" in str(planned(a, b, **asked))
    assert planned(a, b, **asked).kernel.bound.outside(tw.matmul(a, b, **asked), a, b) == 0


def test_a_plan_says_which_result_the_kernel_writes() -> None:
    plan = tw.plan((512, 256), (256, 512), "int8", dtype="int32", device="h100")
    assert "in int8, C in int32" in str(plan)
    assert f"{2 * 512 * 256 + 4 * 512 * 512:,} bytes" in str(plan)
    assert "C in" not in str(tw.plan((512, 256), (256, 512), "int8", device="h100"))


def test_sums_of_integers_need_as_many_bits_as_the_result() -> None:
    found = tw.plan((512, 256), (256, 512), "int8", dtype="int64", device="h100").kernel
    assert not found.tensor, "sums of int32 wrap before those of int64 do"


def test_a_wider_result_takes_longer_by_its_bytes() -> None:
    gpu, record = machine.gpu("a100"), catalogue.find("tensor_core_s8")
    extents = (8192, 8192, 64)
    times = [predict_product(record, Product(*extents, "int8", finish), gpu, changes=False).seconds
             for finish in (None, identity("int32", "int32"))]  # fmt: skip
    kinds = [types(np.dtype("int8"), np.dtype("int8"), np.dtype(out)).kind for out in ("int8", "int32")]
    estimates = [chosen(kind, *extents, gpu, (8, 0)).ranking[0].seconds for kind in kinds]
    more = 3 * 8192**2 / (gpu.memory_gb_per_s * 1e9)
    for less, much in (times, estimates):
        assert 0.5 * more < much - less < 1.5 * more
