"""Mutated PTX programs in this process; `benchmarks/mutation.py` runs ten thousand."""

from __future__ import annotations

import ctypes
from collections import Counter

import guarded_memory
import mutation
import numpy as np
import ptx_changes
import pytest

import tilewright as tw

STOCK = mutation.Stock()


@pytest.mark.parametrize("kernel", sorted(STOCK.texts))
def test_the_kernels_themselves_run(kernel: str) -> None:
    source, target = mutation.HostArrays().arguments()
    program = tw.programs.Program.from_ptx(STOCK.texts[kernel])
    tw.simt.launch(program, 2, 64, [source, target, 64], shared_bytes=64, limits=tw.simt.Limits(seconds=60))
    assert np.count_nonzero(target[:64]) > 32


@pytest.mark.parametrize(
    "first", [*range(0, 80, 40), *(pytest.param(n, marks=pytest.mark.volume) for n in range(80, 1000, 40))]
)
def test_programs(first: int) -> None:
    arena = mutation.HostArrays()
    outcomes = [mutation.run(STOCK, arena, seed) for seed in range(first, first + 40)]
    assert {first + i: o.problem for i, o in enumerate(outcomes) if o.problem} == {}
    assert len(Counter(outcome.name for outcome in outcomes)) >= 3  # some run, some are refused, some fail


def test_a_changed_byte_is_found() -> None:
    arena = mutation.HostArrays()
    source, _ = arena.arguments()
    arena._buffer[mutation.HostArrays.MARGIN - 1] ^= 1  # one byte before the first argument
    source[0] += 1  # the kernel may change a byte inside
    assert arena.changed() == 1
    assert arena.changed() == 0


def test_a_changed_byte_beside_an_arena_is_found() -> None:
    with guarded_memory.watched() as watch:
        memory = tw.simt.Memory(1000)
        ctypes.memset(memory.host_address, 0, 1000)
        assert watch.changed() == 0
        ctypes.memset(memory.host_address - 1, 0, 1)
        ctypes.memset(memory.host_address + 1000, 0, 2)
        assert watch.changed() == 3


@pytest.mark.parametrize("change", ptx_changes.CHANGES, ids=lambda row: row[0].__name__)
def test_each_change_changes_programs(change: ptx_changes.Change) -> None:
    assert sum(mutation.mutated(STOCK, seed, (change,))[1] != mutation.mutated(STOCK, seed, ())[1]
               for seed in range(40)) > 20  # fmt: skip


def test_mutations_differ_by_seed_and_repeat() -> None:
    texts = [mutation.mutated(STOCK, seed)[1] for seed in range(50)]
    assert texts == [mutation.mutated(STOCK, seed)[1] for seed in range(50)]
    assert len(set(texts)) > 45
