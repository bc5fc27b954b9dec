"""`matmul` of Dask's arrays: lazy, with the bits of NumPy's arrays for every chunking, few tasks and little memory."""

from __future__ import annotations

import itertools
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(23)
X, Y = RANDOM.random((30, 20), np.float32), RANDOM.random((20, 25), np.float32)
BATCH, OTHERS = RANDOM.random((4, 1, 30, 20)), RANDOM.random((3, 20, 5))
BIAS, EACH = np.arange(25, dtype=np.float32), RANDOM.random((4, 3, 30, 1))
#: Sources of chunks: in memory, computed for each task that needs one, computed before.
SOURCES: dict[str, Callable[[Any], Any]] = {
    "memory": lambda x: x,
    "blocks": lambda x: x.map_blocks(np.copy, dtype=x.dtype),
    "computed": lambda x: x.rechunk(x.shape).rechunk(x.chunks),
}


def check(a: Array, b: Array, a_chunks: Any, b_chunks: Any, source: str = "memory", **options: Any) -> None:
    """Assert that the lazy product has the dtype, shape and bits of the product of NumPy's arrays."""
    expected = tw.matmul(a, b, **options)
    lazy = (SOURCES[source](da.from_array(x, chunks=n)) for x, n in ((a, a_chunks), (b, b_chunks)))
    found = tw.matmul(*lazy, **options)
    assert isinstance(found, da.Array) and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert type(found._meta) is np.ndarray and found._meta.dtype == expected.dtype
    values = found.compute(scheduler="threads", num_workers=2)
    assert type(values) is type(expected) and values.dtype == expected.dtype
    assert np.array_equal(values, expected)
    chunks = dask.compute(*found.to_delayed().ravel(), scheduler="synchronous")
    assert [np.shape(x) for x in chunks] == list(itertools.product(*found.chunks))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        (X, Y, {}),
        (X, Y, {"dtype": "float64", "alpha": 2}),
        (X, Y, {"epilogue": lambda total, bias: tw.relu(total - bias), "epilogue_args": [BIAS], "threads": 1}),
        (X, Y, {"algebra": "min-plus"}),
        (X > 0.5, Y > 0.5, {}),
        (X > 0.5, Y > 0.5, {"algebra": "xor-and"}),
        (X.astype("c8"), Y * 1j, {"alpha": 1j}),
        ((X * 90).astype("i1"), (Y * 90).astype("i1"), {"dtype": "int32"}),
        (X.astype("f2"), Y.astype("f2"), {}),
        (X.astype("f2"), Y, {"acc_dtype": "float64"}),
    ],
    ids=["plain", "wide", "epilogue", "semiring", "booleans", "words", "complex", "integers", "halves", "sums"],
)
def test_bits_are_those_of_numpy(source: str, a: Array, b: Array, options: dict[str, Any]) -> None:
    check(a, b, (7, 6), (3, 11), source, **options)


@pytest.mark.parametrize(
    ("a", "b", "a_chunks", "b_chunks", "options"),
    [
        (X[0], Y, (6,), (3, 11), {}),
        (X, Y[:, 0], (7, 6), (3,), {}),
        (X[0], Y[:, 0], (6,), (3,), {}),
        (BATCH, OTHERS, (2, 1, 8, 7), (2, 9, 3), {}),
        (BATCH, OTHERS, (2, 1, 8, 7), (2, 9, 3), {"epilogue": lambda total, x: total * x, "epilogue_args": [EACH]}),
        (BATCH, OTHERS, (2, 1, 8, 7), (2, 9, 3), {"axes": [(-2, -1), (-2, -1), (0, 1)]}),
        (BATCH, BATCH[::-1].swapaxes(-1, -2), ((1, 3), 1, 8, 7), ((2, 2), 1, 9, 30), {}),
        (X[0].astype("f8"), OTHERS, (7,), (2, 9, 3), {}),
        (BATCH, Y[:, 0], (2, 1, 8, 7), (9,), {}),
        (X[:, :0], Y[:0], (7, 1), (1, 11), {}),
        (X[:, :0], Y[:0], (7, 1), (1, 11), {"algebra": "min-plus"}),
        (X[:0], Y, (7, 6), (3, 11), {}),
        (X, Y, ((10, 0, 20), (0, 15, 5)), ((20, 0), (0, 25, 0)), {}),
        (BATCH, OTHERS, (2, (1, 0), 8, 7), (2, 9, 3), {}),
    ],
    ids=[
        "row", "column", "dot", "batches", "operand", "axes", "batches-cut", "row-batches", "batches-column", "no-k",
        "no-k-semiring", "no-rows", "empty-chunks", "empty-batches",
    ],
)  # fmt: skip
def test_shapes_are_those_of_numpy(a: Array, b: Array, a_chunks: Any, b_chunks: Any, options: dict[str, Any]) -> None:
    check(a, b, a_chunks, b_chunks, **options)
    check(a, b, a_chunks, b_chunks, "blocks", **options)


@st.composite
def cut(draw: Any, extent: int) -> tuple[int, ...]:
    """Chunks of one axis."""
    edges = sorted(draw(st.sets(st.integers(1, max(1, extent - 1)), max_size=4))) if extent > 1 else []
    return tuple(int(x) for x in np.diff([0, *edges, extent]))


@st.composite
def products(draw: Any) -> tuple[Any, ...]:
    m, k, n = (draw(st.integers(1, 40)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    name = draw(st.sampled_from(["float16", "float32", "float64", "int8", "bool"]))
    a, b = ((9 * random.standard_normal(x)).astype(name) for x in ((m, k), (k, n)))
    chunks = [tuple(draw(cut(x)) for x in shape) for shape in (a.shape, b.shape)]
    return a, b, *chunks, draw(st.sampled_from(list(SOURCES)))


@settings(max_examples=6, deadline=None)
@given(products())
def test_chunks_change_no_bit(product: Any) -> None:
    with dask.config.set({"array.chunk-size": "1kB"}):
        check(*product)


@pytest.mark.volume
@settings(max_examples=500, deadline=None)
@given(products(), st.sampled_from(["1B", "1kB", "1MB"]))
def test_chunks_change_no_bit_at_length(product: Any, room: str) -> None:
    with dask.config.set({"array.chunk-size": room}):
        check(*product)


def test_the_other_operand_may_be_numpys(tmp_path: Path) -> None:
    expected = tw.matmul(X, Y)
    lazy = da.from_array(X, chunks=7), da.from_array(Y, chunks=7)
    for found in (tw.matmul(lazy[0], Y), tw.matmul(X, lazy[1]), tw.matmul(lazy[0], np.asfortranarray(Y))):
        assert isinstance(found, da.Array) and np.array_equal(found.compute(), expected)
    assert np.array_equal(tw.matmul(X.tolist(), lazy[1]).compute(), tw.matmul(X.tolist(), Y))
    np.save(tmp_path / "y.npy", Y)
    found = tw.matmul(da.ones((3, 20), chunks=3), np.load(tmp_path / "y.npy", mmap_mode="r"))
    assert len(tasks(found)) == 3  # the file, shared data, and the one chunk, which reads it
    assert np.array_equal(found.compute(), tw.matmul(np.ones((3, 20)), Y))


def tasks(x: Any) -> dict[Any, Any]:
    (optimised,) = dask.optimize(x)
    return dict(optimised.__dask_graph__())


def test_block_by_block_computation_has_a_task_for_each_chunk_of_c() -> None:
    x = da.ones((1000, 1000), chunks=100)
    found = tasks(tw.matmul(x, x.T + 1))
    assert len(found) == 101  # and one with their shared data


def test_other_chunks_make_chains_along_k_as_long_as_memory_demands() -> None:
    x = da.from_array(RANDOM.random((400, 400)), chunks=100)
    lengths = {}
    for room in ("1B", "2600kB", "40MB"):
        with dask.config.set({"array.chunk-size": room}):
            lengths[room] = (len(tasks(tw.matmul(x, x))) - 1 - 16) / 16
    assert lengths == {"1B": 4, "2600kB": 2, "40MB": 1}


def test_steps_of_a_chain_have_enough_work_and_no_more() -> None:
    x = da.from_array(np.ones((1 << 10, 1 << 10), np.int8), chunks=(1 << 10, 1 << 8))
    found = tw.matmul(x, x.T)
    assert len(found.dask) == 4 + 1 + 2  # chunks, shared data, two steps of 2**29 multiply-adds


def test_chunks_that_one_task_needs_are_computed_in_it_and_once() -> None:
    made: list[int] = []

    def block(n: int) -> Array:
        made.append(n)
        return np.full((10, 4), n, np.float32)

    blocks = [da.from_delayed(dask.delayed(block, pure=True)(n), (10, 4), np.float32) for n in range(6)]
    x = da.concatenate(blocks)
    y = da.random.default_rng(3).random((60, 4), chunks=(10, 4), dtype=np.float32)
    expected = tw.matmul(np.concatenate([block(n) for n in range(6)]).T, y.compute())
    made.clear()
    assert np.array_equal(tw.matmul(x.T, y).compute(scheduler="threads"), expected)
    assert sorted(made) == list(range(6))
    assert len(tasks(tw.matmul(y.T, y))) == 2  # nothing of y is computed before
    square = da.random.default_rng(4).random((60, 60), chunks=(10, 60))  # as B, each chunk has six tasks
    assert len(tasks(tw.matmul(square, square))) == 1 + 6 + 6


def test_only_chunks_that_are_multiplied_are_in_memory() -> None:
    lock = threading.Lock()
    alive = most = 0

    class Counted(np.ndarray):
        def __array_finalize__(self, other: Any) -> None: ...

        def __del__(self) -> None:
            nonlocal alive
            with lock:
                alive -= getattr(self, "counted", 0)

    def block(block_id: Any = None) -> Any:
        nonlocal alive, most
        found = np.ones((50, 50), np.float32).view(Counted)
        found.counted = 1
        with lock:
            alive += 1
            most = max(most, alive)
        return found

    def operand() -> Any:
        return da.map_blocks(block, chunks=((50,) * 6,) * 2, dtype=np.float32, meta=np.empty((0, 0), np.float32))

    product = tw.matmul(operand(), operand(), threads=1)
    assert product.compute(scheduler="threads", num_workers=2)[0, 0] == 300
    assert alive == 0 and 2 <= most <= 4  # of A and of B, in two tasks


def test_a_task_does_not_change_its_inputs() -> None:
    with dask.config.set({"array.chunk-size": "1B"}):
        found = tw.matmul(da.from_array(X, chunks=(30, 7)), da.from_array(Y, chunks=(7, 25)))
    graph = found.__dask_graph__()
    values: dict[Any, Any] = {}
    for key, task in graph.items():
        if isinstance(task, np.ndarray):
            task.flags.writeable = False
            values[key] = task
    chain = [
        (key, task) for key, task in graph.items() if str(key[0] if isinstance(key, tuple) else key).startswith("tw-")
    ]
    for key, task in chain:
        values[key] = task({x: values[x] for x in task.dependencies})
        if isinstance(values[key], np.ndarray):
            values[key].flags.writeable = False  # like chunks that were spilled, or came from another worker
    for key, task in chain:  # each is run again
        again = task({x: values[x] for x in task.dependencies})
        assert not isinstance(again, np.ndarray) or np.array_equal(again, values[key])
    assert np.array_equal(values[(found.name, 0, 0)], tw.matmul(X, Y))


def test_names_depend_on_the_operands() -> None:
    x, y = da.from_array(X, chunks=7), da.from_array(Y, chunks=7)
    name = tw.matmul(x, y).name
    assert tw.matmul(x, y).name == name
    others = [tw.matmul(x, y, **more).name for more in ({"alpha": 2}, {"dtype": "float64"}, {"algebra": "min-plus"})]
    assert len({name, *others, tw.matmul(x, y.rechunk(5)).name}) == 5


def test_graphs_can_be_sent() -> None:
    found = tw.matmul(da.from_array(X, chunks=7), da.ones((20, 9), chunks=4), threads=2)
    values = found.compute(scheduler="synchronous")
    sent = pickle.dumps(found)
    assert b"Product" in sent and b"Partial" not in sent  # objects that a process made for itself stay there
    assert np.array_equal(pickle.loads(sent).compute(), values)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: tw.matmul(x, x.T, np.empty((30, 30), np.float32)), r"dask\.array\.store"),
        (lambda x: tw.matmul(x, x.T, beta=1), "`beta` must be 0 without `out`"),
        (lambda x: tw.matmul(x[x[:, 0] > 0.5], x.T), r"`a` .* call a\.compute_chunk_sizes"),
        (lambda x: tw.matmul(x, x), "must equal"),
        (lambda x: tw.matmul(x, x.sum()), "scalar"),
        (lambda x: tw.matmul(x, x.T.astype(object)), "object"),
        (lambda x: tw.matmul(x, da.ma.masked_array(x.T, x.T > 0.5)), r"`b` must have NumPy arrays .*MaskedArray"),
        (lambda x: tw.matmul(X, Y, epilogue=lambda t, x: t + x, epilogue_args=[x[0, :1]]), r"pass .*\.compute\(\)"),
        (lambda x: tw.matmul(x * 1j, x.T, device="simulated"), "simulated"),
    ],
    ids=["out", "beta", "unknown", "extents", "scalar", "object", "masked", "operand", "device"],
)
def test_arguments_without_a_lazy_product_are_refused_immediately(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises((ArgumentTypeError, ArgumentValueError, tw.errors.DeviceError), match=said):
        call(da.from_array(X, chunks=7))


def test_an_older_dask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tilewright.multiply.engine.libraries.dask_arrays", raising=False)
    monkeypatch.setitem(sys.modules, "dask._task_spec", None)
    with pytest.raises(tw.errors.MissingExtraError, match=r"need dask 2025\.1 or newer \(got .*\[cluster\]"):
        tw.matmul(da.from_array(X, chunks=7), Y)


def test_a_chunk_of_another_shape_is_refused() -> None:
    wrong = da.from_array(X, chunks=10).map_blocks(lambda x: x[:5], dtype=X.dtype)
    with pytest.raises(ArgumentValueError, match=r"chunk .* must have shape \(10, 10\)"):
        tw.matmul(wrong, da.from_array(Y, chunks=10)).compute()


def test_a_device_that_continues_no_sums_gets_all_of_k() -> None:
    with dask.config.set({"array.chunk-size": "1B"}):
        check(X, Y, (16, 7), (5, 13), device="simulated")


def test_a_path_takes_the_product_by_blocks(tmp_path: Path) -> None:
    lazy = da.from_array(X, chunks=7), da.from_array(Y, chunks=7)
    assert np.array_equal(np.load(tw.matmul(*lazy, tmp_path / "c.npy")), tw.matmul(X, Y))
