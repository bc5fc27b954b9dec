"""Checks of timed products: to the bit, in some rows of large ones, within a bound for peers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.show.rates import verify
from tilewright.show.rates.verify import Judge


def wrong_at(c: np.ndarray, i: int, by: float) -> np.ndarray:
    changed = c.copy()
    changed[i, 0] += by
    return changed


def test_the_canonical_product_is_exact_and_one_bit_is_not() -> None:
    a, b = operands(8, 9, 10, "float32")
    judge, c = Judge(a, b), tw.matmul(a, b)
    assert judge.exact(c) == "exact"
    assert judge.exact(np.nextafter(c, np.float32(9))) == "wrong: 72 of 72 elements differ"
    assert judge.exact(c[:7]) == "wrong: shape (7, 9)"
    assert judge.exact(c.astype(np.float64)) == "wrong: 72 of 72 elements differ"


def test_a_large_product_is_compared_in_rows_from_the_first_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_MOST", 300)
    a, b = operands(64, 10, 10, "int32")
    judge, c = Judge(a, b), tw.matmul(a, b)
    assert judge.exact(c) == "exact in 3 of 64 rows"
    assert judge.exact(wrong_at(c, 63, 1)) == "wrong: 1 of 30 elements differ"
    assert judge.exact(wrong_at(c, 62, 1)) == "exact in 3 of 64 rows"  # and it says so


def test_a_kernel_with_another_order_is_compared_in_that_order() -> None:
    a, b = operands(8, 9, 100, "float32")
    record = catalogue.find("naive_published")
    own = record.reference(a, b)
    assert Judge(a, b).exact(own, record) == "exact"
    assert Judge(a, b).exact(own).startswith("wrong")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peers_sum_in_any_order_within_a_bound(dtype: str) -> None:
    a, b = operands(32, 33, 34, dtype)
    judge, c = Judge(a, b), a @ b
    assert judge.bounded(c) == "within bound"
    step = 1000 * 34 * float(np.finfo(dtype).eps)
    assert judge.bounded(wrong_at(c, 3, step)) == "wrong: 1 elements outside the bound"
    assert judge.bounded(c.astype("float16")).startswith("wrong")
    assert judge.bounded(wrong_at(c, 3, np.nan)) == "wrong: 1 elements outside the bound"


def test_peers_integers_are_exact() -> None:
    a, b = operands(8, 9, 10, "int8")
    assert Judge(a, b).bounded(a @ b) == "exact"
    assert Judge(a, b).bounded(wrong_at(a @ b, 3, 1)).startswith("wrong")


def test_a_kernel_s_small_product_is_compared_on_the_simulated_gpu() -> None:
    pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")
    record = catalogue.find("results_8")
    extents = verify.small(record, 4096, 40, 1024)
    assert extents == (64, 40, 256)
    assert verify.simulated(record, "float32", extents, "v100", 0) == "exact at 64 x 40 x 256"
    specimen = catalogue.find("tiled_published")
    assert verify.simulated(specimen, "float32", (16, 16, 32), "a100", 0).startswith("wrong: ")
