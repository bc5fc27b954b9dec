"""Products of a warpgroup that it ends without waiting for, while somebody writes what they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program

FOLDER = Path(__file__).parents[3] / "findings" / "cuda"
TEXT = """
#include "products.cuh"
#include "mbarriers.cuh"

__global__ void k(float *out) {
    SHARED_TILE;
    __shared__ uint64_t free;
    if (threadIdx.x == 0) INIT(&free, 128);
    for (int i = threadIdx.x; i < 64 * 16; i += 160) tile[i] = 0x3c00;
    show_to_product();
    if (threadIdx.x >= 128) {
        AWAIT(&free, 0);
        OTHERS;
        return;
    }
    float d[4] = {}, e[4] = {};
    FENCE;
    MULTIPLY(d, at(tile));
    COMMIT;
    THEN;
    out[threadIdx.x] = d[0];
}
"""
FILL = "for (int i = threadIdx.x % 32; i < 64 * 16; i += 32) tile[i] = 0"
ONE = "tile[512 + threadIdx.x % 32] = 0"  # by the matrix of one warp alone
SECOND = "MULTIPLY(e, at(tile)); COMMIT; WAIT(1); ARRIVE(&free)"


@pytest.mark.parametrize(
    ("others", "then", "found"),
    [
        (FILL, SECOND, True),
        (ONE, SECOND, True),
        (FILL, "WAIT(0); MULTIPLY(e, at(tile)); ARRIVE(&free)", True),  # in no group
        (FILL, "WAIT(0); MULTIPLY(e, at(tile)); COMMIT; ARRIVE(&free); __nanosleep(100)", True),
        (FILL, "WAIT(0); for (int i = 0; i < 3; i++) { MULTIPLY(e, at(tile)); COMMIT; WAIT(1); } ARRIVE(&free)", True),
        (FILL, SECOND.replace("WAIT(1)", "WAIT(0)"), False),
        (FILL, "WAIT(0); for (int i = 0; i < 3; i++) { MULTIPLY(e, at(tile)); COMMIT; WAIT(0); } ARRIVE(&free)", False),
        ("", SECOND, False),  # nobody writes
    ],
)
def test_writes_of_what_a_product_that_nobody_waits_for_reads(others: str, then: str, found: bool) -> None:
    text = TEXT.replace("OTHERS", others).replace("THEN", then)
    program = Program.from_cuda(text, "k", (9, 0), [f"-I{FOLDER}", "-arch=sm_90a"])
    findings = tw.check(program, 1, 160, (np.zeros(128, np.float32),), gpu="h100")
    codes = {one.code for one in findings}
    assert codes == ({"TW307"} if found else set())
