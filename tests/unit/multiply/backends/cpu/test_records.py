"""Records: every matrix of a batch is in one share, for any order and number of axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright.multiply.backends.cpu.product import _KEPT_RECORDS, product
from tilewright.multiply.backends.cpu.records import Batch, Shares
from tilewright.multiply.backends.cpu.scratch import Scratch
from tilewright.multiply.problem.kind import Kind

BATCHES: list[Batch] = [
    (),
    ((7, 1, 10, 100),),
    ((3, 5, 0, 50), (4, 1, 10, 7)),
    ((90, 3, 0, 1), (2, 0, 4, 8), (5, 1000, 2000, 3000)),
    ((70, 1, 2, 3), (300, 1, 0, 5)),
]


def offsets(batch: Batch) -> list[tuple[int, ...]]:
    """Every matrix's offsets, one by one."""
    axes = [range(extent) for extent, *_ in batch]
    return [
        tuple(sum(i * axis[1 + x] for i, axis in zip(index, batch, strict=True)) for x in range(3))
        for index in itertools.product(*axes)
    ]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch", BATCHES)
def test_every_matrix_is_in_one_share(batch: Batch, threads: int) -> None:
    shares = Shares(batch, threads)
    found = []
    for first in range(0, shares.count, 11):
        for count, start in zip(*shares.rows(first, first + 11), strict=True):
            found += [tuple(start + i * np.array(shares.steps)) for i in range(count)]
    assert sorted(found) == sorted(offsets(batch))


def test_steps_go_along_the_longest_axis_if_the_others_are_many() -> None:
    assert Shares(((300_000, 520, 0, 16), (3, 0, 780, 8)), 1).count == 3
    assert Shares(((3, 0, 780, 8), (300_000, 520, 0, 16)), 1).count == 3


@pytest.mark.parametrize("k", [3, 65])
def test_batches_of_more_shares_than_one_call_makes(k: int) -> None:
    random = np.random.default_rng(0)
    a = random.integers(-3, 4, (70, 1, 70, 1, 2, k)).astype(np.float32)
    b = random.integers(-3, 4, (1, 2, 70, 2, k, 2)).astype(np.float32)
    out = np.zeros((70, 2, 70, 2, 2, 2), np.float32)
    shapes: list[Any] = [x for y in (a, b, out) for x in (y.shape, y.strides)]
    made = product(*shapes, Kind(*("float32",) * 4), 2)
    assert made._shares.count > 4096 // 70
    for _ in range(3):
        made.run_arrays(a, b, out)
        assert (out == np.matmul(a, b)).all()
        out[...] = 0
    assert made._ready is None or made._ready.records.count <= _KEPT_RECORDS


def test_buffers_that_could_not_grow_leave_no_table_of_freed_ones() -> None:
    scratch = Scratch()
    needs = (1 << 20, 1 << 20, 0)
    scratch.buffers(needs, 1)
    with pytest.raises(MemoryError):
        scratch.buffers((64 << 20, 1 << 60, 0), 1)
    scratch.buffers(needs, 1)
    assert scratch._table[0, 0] == scratch._buffers[0][0]._address
