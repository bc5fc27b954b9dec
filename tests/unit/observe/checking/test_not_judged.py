"""Accesses that exceed the instruments' limits: reported once a launch, never dropped in silence."""

import numpy as np
import pytest
from checked_programs import checked
from numba import cuda

from tilewright.gpu.intrinsics import (
    cp_async_ca_4,
    cp_async_wait_all,
    mbarrier_arrive,
    mbarrier_init,
    mbarrier_try_wait_parity,
)

MOST_MBARRIERS, MOST_COPIES = 64, 256


@cuda.jit
def objects(count, out):
    each = cuda.shared.array(128, np.uint64)
    for i in range(count):
        mbarrier_init(each, i, 1)
    out[0] = count


@cuda.jit
def copies(x, count, out):
    tile = cuda.shared.array((4, 300), np.float32)  # small: larger arrays have room for more copies
    t = cuda.threadIdx.x
    for i in range(count):
        cp_async_ca_4(tile[t], i, x, i)
    cp_async_wait_all()
    out[t] = tile[t, count - 1]


@pytest.mark.parametrize(
    ("kernel", "block", "arguments", "most", "sentence"),
    [
        (
            objects,
            1,
            (),
            MOST_MBARRIERS,
            "uses of mbarriers were not followed: of a block's mbarriers the first 64 are",
        ),
        (copies, 4, (np.ones(300, np.float32),), MOST_COPIES, "asynchronous copies were not followed"),
    ],
)
def test_accesses_that_are_not_followed_are_reported(kernel, block, arguments, most, sentence, recwarn):
    def launched(count):
        checked(lambda: kernel[1, block](*arguments, count, np.zeros(32, np.float32)))
        return [str(w.message) for w in recwarn if "were not followed" in str(w.message)]

    assert launched(most) == []
    said = launched(most + 2)
    assert len(said) == 1
    assert sentence in said[0]


@cuda.jit
def handed_over(number, x, out):
    each, tile, t = cuda.shared.array(128, np.uint64), cuda.shared.array(64, np.int32), cuda.threadIdx.x
    if t <= number:
        mbarrier_init(each, t, 128)
    cuda.syncthreads()
    if t < 64:
        tile[t] = x[t]
    mbarrier_arrive(each, number)
    while not mbarrier_try_wait_parity(each, number, 0):
        pass
    if t < 64:
        out[t] = tile[63 - t]


def test_accesses_ordered_by_an_unfollowed_mbarrier_are_no_race(recwarn):
    x = np.arange(64, dtype=np.int32)
    assert [checked(lambda n=n: handed_over[1, 128](n, x, np.zeros_like(x))) for n in (63, 64)] == [(), ()]
    assert sum("were not followed" in str(w.message) for w in recwarn) == 1
