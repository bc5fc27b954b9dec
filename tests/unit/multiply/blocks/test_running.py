"""Execution of plans: every element once, as many bytes read as planned, resumed tile by tile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from fake_stores import Array, CountingStore, Sums
from hypothesis import given, reject, strategies as st

from tilewright.errors import ArgumentValueError, StorageError, TilewrightWarning
from tilewright.multiply.blocks.journal import Journal
from tilewright.multiply.blocks.planning import BlockPlan, Sizes, plan
from tilewright.multiply.blocks.running import Run


def operands(m: int, n: int, k: int, batch: tuple[int, ...] = ()) -> tuple[Array, Array]:
    random = np.random.default_rng(m + n + k)
    return random.integers(-9, 9, (*batch, m, k)), random.integers(-9, 9, (*batch[1:], k, n))


def case(
    extents: tuple[int, int, int], memory: int, batch: tuple[int, ...] = (), chunks: tuple[int, int] = (1, 1)
) -> tuple[BlockPlan, tuple[CountingStore, CountingStore, CountingStore]]:
    a, b = operands(*extents, batch)
    c = np.full((*batch, *extents[:2]), 99)
    sizes = Sizes(extents, (8, 8), 8, 8, (chunks, chunks, chunks), batch=int(np.prod(batch)))
    return plan(sizes, memory), (CountingStore(a, chunks), CountingStore(b, chunks), CountingStore(c, chunks))


@given(
    extents=st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 1500)),
    chunks=st.sampled_from([(1, 1), (64, 32), (7, 100)]),
    memory=st.integers(1 << 21, 1 << 22),
)
def test_the_product_is_right_and_reads_what_was_planned(
    extents: tuple[int, int, int], chunks: tuple[int, int], memory: int
) -> None:
    try:
        found, (a, b, c) = case(extents, memory, chunks=chunks)
    except ArgumentValueError:
        reject()
    Run(found, (a, b, c), Sums())()
    assert np.array_equal(c.array, a.array @ b.array)
    assert c.written_elements == c.array.size
    assert 8 * (a.read_elements + b.read_elements) <= found.read_bytes
    assert found.grid[2] <= 2 or 8 * (a.read_elements + b.read_elements) == found.read_bytes


def test_a_batch_whose_operands_broadcast() -> None:
    found, (a, b, c) = case((50, 60, 700), 1 << 20, (2, 3))
    Run(found, (a, b, c), Sums())()
    assert np.array_equal(c.array, a.array @ b.array)


def test_the_earlier_result_is_an_operand() -> None:
    found, (a, b, c) = case((50, 60, 70), 1 << 20)
    Run(found, (a, b, c), Sums(), reads_out=True)()
    assert np.array_equal(c.array, a.array @ b.array + 990)


class Failing(Sums):
    """Arithmetic that fails at one of its steps."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.left, self.error = at, error

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error
        super().add(a, b, sums, first=first)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full")])
def test_finished_tiles_are_not_done_again(tmp_path: Path, error: BaseException) -> None:
    found, (a, b, c) = case((150, 150, 1030), 1_400_000)
    steps = found.tiles * found.grid[2]
    assert found.tiles >= 4
    expected = a.array @ b.array
    for at in range(0, steps, 1 if isinstance(error, MemoryError) else 5):
        path = tmp_path / f"{at}.journal"
        c.array[...] = 99
        with Journal.opened(path, {}) as journal, pytest.raises(type(error)):
            Run(found, (a, b, c), Failing(at, error), journal=journal)()
        c.written_elements = 0
        with Journal.opened(path, {}) as journal:
            assert at // found.grid[2] - found.tiles_held <= len(journal.done) <= at // found.grid[2]
            kept = sum(
                (found.part(0, i // found.grid[1]).stop - found.part(0, i // found.grid[1]).start)
                * (found.part(1, i % found.grid[1]).stop - found.part(1, i % found.grid[1]).start)
                for i in journal.done
            )
            Run(found, (a, b, c), Sums(), journal=journal)()
        assert np.array_equal(c.array, expected)
        assert c.written_elements == c.array.size - kept
    assert not [x for x in threading.enumerate() if x.name.startswith(("tilewright-read", "tilewright-write"))]


def test_a_tile_with_other_bytes_is_made_again(tmp_path: Path) -> None:
    found, (a, b, c) = case((300, 300, 1100), 1 << 21)
    with Journal.opened(tmp_path / "j", {}) as journal:
        Run(found, (a, b, c), Sums(), journal=journal)()
    c.array[0, 0] ^= 1
    with Journal.opened(tmp_path / "j", {}) as journal:
        run = Run(found, (a, b, c), Sums(), journal=journal)
        assert run.damaged() == [0]
        with pytest.warns(TilewrightWarning, match=rf"rows 0 .* computed again, the other {found.tiles - 1} "):
            run.drop_damaged()
        c.written_elements = 0
        run()
        assert c.written_elements == found.rows * found.columns
        assert run.damaged() == []
    assert np.array_equal(c.array, a.array @ b.array)


def test_a_tile_that_cannot_be_read_stays_done(tmp_path: Path) -> None:
    found, (a, b, c) = case((300, 300, 1100), 1 << 21)
    with Journal.opened(tmp_path / "j", {}) as journal:
        run = Run(found, (a, b, c), Sums(), journal=journal)
        run()
        c.read = Mock(side_effect=StorageError("no more files", 24))  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="no more files"):
            run.drop_damaged()
        assert len(journal.done) == found.tiles
        c.read = Mock(side_effect=StorageError("no chunk"))  # type: ignore[method-assign]
        assert len(run.damaged()) == found.tiles


def test_an_operand_that_changes_is_reported() -> None:
    found, (a, b, c) = case((300, 300, 1100), 1 << 21)

    class Changing(Sums):
        def add(self, *given: Any, **named: Any) -> None:
            b.version += 1
            super().add(*given, **named)

    with pytest.raises(StorageError, match="must not change during"):
        Run(found, (a, b, c), Changing())()


def test_errors_of_reads_and_writes_are_raised() -> None:
    found, (a, b, c) = case((300, 300, 1100), 1 << 21)

    def fail(*given: Any) -> None:
        raise StorageError("the disk is full")

    c.write = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="full"):
        Run(found, (a, b, c), Sums())()
    b.read = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="full"):
        Run(found, (a, b, c), Sums())()
