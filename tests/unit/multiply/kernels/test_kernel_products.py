"""Every GPU record on the simulated GPU: its reference's bits, at whole tiles, at edges and below one tile."""

from __future__ import annotations

import numpy as np
import pytest
from family import gpu_of

from tilewright import simt
from tilewright.errors import TilewrightError
from tilewright.instruments import Coalescing
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.reference import same_bits

RECORDS = [r for r in catalogue.records() if r.backend == "gpu" and r.name != "tiled_published"]
SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61)]


def product(record: catalogue.Record, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A record's product of two operands; unwritten elements stay recognisable."""
    c = record.blank(a.shape[0], b.shape[1], a.dtype.name)
    c[:] = 77
    shape = record.launch_rule(*c.shape, a.shape[1])
    program, given = record.program(a.dtype.name), record.arguments(a, b, c)
    simt.launch(program, shape.grid, shape.block, given, shape.shared_bytes, gpu=gpu_of(record))
    return c


# `tests/test_rungs.py` has these shapes of all but the published ones, over a C that is zero.
@pytest.mark.parametrize(("record", "dtype"), [
    pytest.param(r, d, id=f"{r.name}-{d}", marks=[] if r.published else [pytest.mark.volume])
    for r in RECORDS for d in r.dtypes
])  # fmt: skip
def test_a_record_gives_its_reference(record: catalogue.Record, dtype: str) -> None:
    for m, n, k in SHAPES:
        a, b = operands(m, n, k, dtype)
        assert record.wrong_elements(product(record, a, b), a, b) == 0, (m, n, k)


def test_integers_wrap() -> None:
    a, b = np.full((9, 9), 2**31 - 1, np.int32), np.full((9, 9), 3, np.int32)
    for record in RECORDS:
        if "int32" in record.dtypes:
            assert same_bits(product(record, a, b), record.reference(a, b)), record.name


def test_a_step_past_the_edge_keeps_a_negative_zero() -> None:
    # The products underflow to -0. Edge tiles hold +0 in A and -0 in B; with +0 in both the sum would become +0.
    for record in RECORDS:
        if record.order == "fma" and record.dtypes[0].startswith("float"):
            dtype = record.dtypes[0]
            tiny = np.array(1e-30 if dtype == "float32" else 1e-200, dtype)
            c = product(record, np.full((5, 3), -tiny), np.full((3, 5), tiny))
            assert not c.any(), record.name
            assert np.signbit(c).all(), record.name


def test_infinities_and_nans_stay_in_their_rows() -> None:
    a, b = operands(18, 20, 19, "float32")
    a[3, 5], a[4, 6], b[7, 8] = np.inf, np.nan, -np.inf
    for record in RECORDS:
        if "float32" in record.dtypes and record.bound is None:
            assert same_bits(product(record, a, b), record.reference(a, b)), record.name


def test_the_published_tiles_are_right_only_where_their_limits_say() -> None:
    record = catalogue.find("tiled_published")
    for m, n, k in ((16, 16, 16), (48, 32, 48)):
        a, b = operands(m, n, k, "float32")
        assert same_bits(product(record, a, b), record.reference(a, b))
    for m, n, k in ((48, 32, 16), (16, 16, 32), (20, 16, 20), (16, 20, 16)):
        a, b = operands(m, n, k, "float32")
        try:
            right = same_bits(product(record, a, b), record.reference(a, b))
        except TilewrightError:
            right = False
        assert not right, (m, n, k)


def test_the_transaction_analysis() -> None:
    """S7: 5,120 load and 128 store transactions at width 32."""
    record = catalogue.find("global_memory")
    a, b = operands(32, 32, 32, "int32")
    c = np.zeros((32, 32), np.int32)
    shape = record.launch_rule(32, 32, 32)
    run = simt.launch(
        record.program("int32"), shape.grid, shape.block, record.arguments(a, b, c), instruments=(Coalescing(),)
    )
    counted = run.results["coalescing"]
    assert (counted.total("load", "sectors"), counted.total("store", "sectors")) == (5120, 128)
