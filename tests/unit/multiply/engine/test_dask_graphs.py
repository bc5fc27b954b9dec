"""`matmul` of Dask's arrays that are computed from one another: the bits of NumPy's arrays, and no needless task."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tilewright as tw

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")

Array = np.ndarray[Any, Any]
#: More seconds than any product here takes; a deadlock ends the process with the stacks of all threads.
_HANGS_S = 120
VALUES = np.random.default_rng(29).random((40, 40))
#: Arrays of some chunks at the start of a graph, by the source of the chunks.
BASES: dict[str, Callable[[Array, Any], Any]] = {
    "memory": lambda x, chunks: da.from_array(x, chunks=chunks),
    "blocks": lambda x, chunks: da.from_array(x, chunks=chunks).map_blocks(np.copy, dtype=x.dtype),
    "random": lambda x, chunks: da.random.default_rng(31).random(x.shape, chunks=chunks),
    "made": lambda x, chunks: da.map_blocks(
        _block, chunks=da.core.normalize_chunks(chunks, x.shape), dtype=x.dtype, meta=x[:0, :0]
    ),
    "persisted": lambda x, chunks: da.from_array(x, chunks=chunks).persist(scheduler="synchronous"),
    "rechunked": lambda x, chunks: da.from_array(x, chunks=9).rechunk(chunks),
    "delayed": lambda x, chunks: da.concatenate(
        [
            da.from_delayed(dask.delayed(np.copy, pure=True)(x[i : i + 10]), x[i : i + 10].shape, x.dtype)
            for i in range(0, len(x), 10)
        ]
    ),
}
#: Arrays made of two arrays, of the same shape.
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda x, y: 2 * x + 1,
    "added": lambda x, y: x - y,
    "times": lambda x, y: x * y,
    "chosen": lambda x, y: da.where(x > 0.5, x, y),
    "centred": lambda x, y: x - y.mean(axis=0),
    "standardised": lambda x, y: (x - y.mean(axis=0)) / (1 + y.std(axis=0)),
    "shares": lambda x, y: x / (1 + abs(y).sum(axis=1, keepdims=True)),
    "reversed": lambda x, y: x[::-1],
    "rolled": lambda x, y: da.roll(x, 3, axis=1),
    "rechunked": lambda x, y: x.rechunk((11, 7)),
    "summed": lambda x, y: da.cumsum(x, axis=0),
    "neighbours": lambda x, y: x.map_overlap(lambda b: b + np.roll(b, 1, 0), depth=1, boundary="reflect"),
    "product": lambda x, y: da.matmul(x, da.ones((x.shape[1],) * 2, chunks=(x.chunks[1],) * 2)),
    "transposed": lambda x, y: x.T if x.shape[0] == x.shape[1] else x,
    "symmetric": lambda x, y: x + y.T if x.shape[0] == x.shape[1] else x + y,
}


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(_HANGS_S, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def _block(block_info: Any = None) -> Array:
    places = block_info[None]["array-location"]
    return np.add.outer(*(np.sqrt(np.arange(*x)) for x in places))


def check(a: Any, b: Any, threads: int | None = None, workers: int = 3) -> None:
    """Assert that the lazy product has the bits of the product of the operands' values."""
    expected = tw.matmul(*dask.compute(a, b, scheduler="synchronous"))
    found = tw.matmul(a, b, threads=threads)
    assert np.array_equal(found.compute(scheduler="threads", num_workers=workers), expected)


@st.composite
def operands(draw: Any) -> tuple[Any, Any]:
    """Two arrays of one graph that can be multiplied."""
    rows, columns = draw(st.sampled_from([(30, 30), (40, 10), (12, 40), (30, 20)]))
    chunks = draw(st.sampled_from([(10, 10), (rows, 10), (7, columns), (13, 6), (rows, columns)]))
    made = [BASES[draw(st.sampled_from(list(BASES)))](VALUES[:rows, :columns], chunks)]
    for name in draw(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5)):
        made.append(STEPS[name](*(draw(st.sampled_from(made)) for _ in range(2))))
    a, b = (draw(st.sampled_from(made[::-1])) for _ in range(2))
    a, b = (a.T, b) if draw(st.booleans()) else (a, b.T)
    return a[draw(st.sampled_from([slice(None), slice(3, 9), slice(None, None, -2)]))], b


@settings(max_examples=12, deadline=None)
@given(operands(), st.sampled_from([1, 4]))
def test_operands_of_one_graph_change_no_bit(pair: tuple[Any, Any], threads: int) -> None:
    check(*pair, threads)


@pytest.mark.volume
@settings(max_examples=1500, deadline=None)
@given(operands(), st.sampled_from([1, 2, 4, 8]), st.integers(1, 6), st.sampled_from(["1B", "10kB", "1MB"]))
def test_operands_of_one_graph_change_no_bit_at_length(
    pair: tuple[Any, Any], threads: int, workers: int, room: str
) -> None:
    with dask.config.set({"array.chunk-size": room}):
        check(*pair, threads, workers)


@pytest.mark.parametrize("base", BASES)
def test_covariances_are_products(base: str) -> None:
    x = BASES[base](VALUES[:, :30], (10, 10)) + 1
    centred = x - x.mean(axis=0)
    for a, b in ((x.T, centred), (centred.T, x), (x, centred.T), ((centred / x.std(axis=0)).T, x)):
        check(a, b)


def test_a_layer_whose_values_the_product_computes_itself_is_left_out() -> None:
    x = BASES["delayed"](VALUES, None).rechunk(20) + 1
    found = tw.matmul(x, x + x.T)
    assert x.name not in found.dask.layers
    assert np.array_equal(found.compute(scheduler="synchronous"), tw.matmul(*dask.compute(x, x + x.T)))
