"""Arrays on a GPU in any layout: with gaps, transposed, in descending order, unaligned, overlapping.

The oracle is the CPU engine, whose code for strides is separate; for integers also NumPy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.multiply.backends import estimates, ranking
from tilewright.multiply.backends.cuda import current, launches, products, quick
from tilewright.multiply.kernels import catalogue, planes
from tilewright.multiply.problem.reference import same_bits

cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
Array = npt.NDArray[Any]


class There:
    """A copy on the GPU of a host array, with the bytes between its elements."""

    def __init__(self, array: Array) -> None:
        low, high = np.lib.array_utils.byte_bounds(array)
        lead = array.ctypes.data - low
        self.held = cuda.to_device(np.zeros(high - low + 64, np.uint8))
        # The address has the host's alignment.
        self.start = (low - self.held.__cuda_array_interface__["data"][0]) % 16
        self.array, self.low, self.size = array, low, high - low
        at = self.held.__cuda_array_interface__["data"][0] + self.start + lead
        self.held[self.start : self.start + self.size].copy_to_device(self.of_the_host())
        self.__cuda_array_interface__ = {
            "data": (at, False), "shape": array.shape, "strides": array.strides, "typestr": array.dtype.str,
            "version": 3,
        }  # fmt: skip

    def of_the_host(self) -> Array:
        """The host's elements, and the bytes between them."""
        return np.frombuffer((ctypes.c_char * self.size).from_address(self.low), np.uint8)

    def brought(self) -> Array:
        """The same bytes from the GPU."""
        memory: Array = self.held.copy_to_host()[self.start : self.start + self.size]
        return memory


def drawn(shape: tuple[int, ...], kind: str, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).integers(-40, 40, shape)
    return (values % 40 if kind[0] == "u" else values / 8 if kind[0] == "f" else values).astype(kind)


def unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    found = memory[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def gapped(x: Array) -> Array:
    memory = np.zeros((*x.shape[:-2], x.shape[-2] + 1, x.shape[-1] + 3), x.dtype)
    memory[..., :-1, 1:-2] = x
    return memory[..., :-1, 1:-2]


def every_other(x: Array) -> Array:
    memory = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    memory[..., ::2] = x
    return memory[..., ::2]


#: The same elements in another layout.
LAYOUTS = {
    "gaps": gapped,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "all backwards": lambda x: x[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "every other": every_other,
    "unaligned": unaligned,
}


@pytest.mark.parametrize(("layout", "kind", "order"), [
    ("gaps", "float32", "canonical"), ("transposed", "int16", "canonical"), ("all backwards", "float32", "canonical"),
    ("unaligned", "float32", "canonical"), ("every other", "float16", "fast"), ("transposed", "float16", "fast"),
])  # fmt: skip
def test_operands_and_results_have_any_layout(gpu: Any, layout: str, kind: str, order: Any) -> None:
    lay = LAYOUTS[layout]
    a, b = lay(drawn((2, 33, 40), kind)), lay(drawn((40, 35), kind, 1))
    out = lay(np.zeros((2, 33, 35), kind))
    left, right, into = There(a), There(b), There(out)
    expected = np.asarray(tw.matmul(a, b))
    for _ in range(2):  # by the rules, and by the kept launch
        assert tw.matmul(left, right, into, order=order) is into
        out[...] = expected  # sums of eighths that a half holds: exact in every order
        assert same_bits(into.brought(), into.of_the_host()), "and what lies between the elements is as it was"
        into.held.copy_to_device(np.zeros(into.held.size, np.uint8))
    if kind == "int16":
        assert same_bits(expected, np.matmul(a, b))


def test_a_copy_that_omits_a_row_is_found(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = LAYOUTS["transposed"](drawn((33, 40), "float32")), drawn((40, 35), "float32")
    out = cuda.to_device(np.zeros((33, 35), "f4"))
    made = launches.Launches.rearrange
    monkeypatch.setattr(launches.Launches, "rearrange", lambda s, x, y, names: made(s, x[:-1], y[:-1], names))
    tw.matmul(There(a), There(b), out)
    assert not same_bits(out.copy_to_host(), tw.matmul(a, b))


@pytest.mark.parametrize(("kinds", "asked"), [
    (("float32", "float64"), {}), (("int8", "int8"), {"dtype": "int32"}), (("bool", "bool"), {}),
    (("float32", "float32"), {"dtype": "float16"}),
], ids=str)  # fmt: skip
def test_dtypes_are_converted_on_the_gpu(gpu: Any, kinds: tuple[str, str], asked: Any) -> None:
    a, b = (drawn((20, 20), kind, seed) for seed, kind in enumerate(kinds))
    found = tw.matmul(cuda.to_device(a), cuda.to_device(b), **asked).copy_to_host()
    expected = np.asarray(tw.matmul(a, b, **asked))
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def test_out_may_overlap_the_operands(gpu: Any) -> None:
    a = drawn((20, 20), "float32")
    there = cuda.to_device(a)
    assert tw.matmul(there, there, there) is there
    assert same_bits(there.copy_to_host(), tw.matmul(a, a))


@pytest.mark.parametrize("lay", [lambda x: x, LAYOUTS["transposed"]], ids=["rows", "turned"])
def test_epilogues_read_arrays_of_the_gpu(gpu: Any, lay: Any) -> None:
    a, b, c = drawn((20, 30), "float32"), drawn((30, 9), "float32"), lay(drawn((20, 9), "float32", 2))
    row, column = drawn((9,), "float16", 3), drawn((20, 1), "int8", 4)

    def finish(total: Any, row: Any, column: Any, number: Any) -> Any:
        return tw.relu(total + row) * column - number

    there, left, right = There(c), cuda.to_device(a), cuda.to_device(b)
    more = cuda.to_device(row), There(column), 3
    tw.matmul(left, right, there, alpha=2, beta=-0.5, epilogue=finish, epilogue_args=more)
    tw.matmul(a, b, c, alpha=2, beta=-0.5, epilogue=finish, epilogue_args=(row, column, 3))
    assert same_bits(there.brought(), there.of_the_host())


def test_algebras(gpu: Any) -> None:
    a, b = drawn((3, 20, 30), "float32"), LAYOUTS["transposed"](drawn((30, 9), "float32", 1))
    out = cuda.to_device(np.zeros((3, 20, 9), "f4"))
    tw.matmul(There(a), There(b), out, algebra="min-plus")
    assert same_bits(out.copy_to_host(), tw.matmul(a, b, algebra="min-plus"))


def test_memory_of_launches_is_freed(gpu: Any) -> None:
    a, b, out = (There(drawn(shape, "f4")) for shape in ((33, 40), (40, 35), (33, 35)))
    a.__cuda_array_interface__ |= {"shape": (33, 40), "strides": (4, 132)}
    tw.matmul(a, b, out)
    held = gpu.memory.allocated_bytes
    for _ in range(3):
        tw.matmul(a, b, out)
    assert gpu.memory.allocated_bytes == held


class Recorded:
    """A capture: it keeps a stream's work, and does it only at each replay."""

    #: Calls of the driver that a stream which is captured takes. Source: CUDA Programming Guide, "CUDA Graphs".
    LEGAL = ("cuMemAllocAsync", "cuMemFreeAsync", "cuMemsetD8Async")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work: list[Any] = []
        self._core, self._names = current.names(), monkeypatch
        self._launch, self._real = self._core.launch, self._core.driver

    def __enter__(self) -> Recorded:
        self._names.setattr(self._core, "launch", lambda *given: self.work.append((self._launch, given)))
        self._names.setattr(self._core, "driver", self)
        return self

    def __exit__(self, *_: object) -> None:
        self._names.undo()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if not name.startswith("cu") or name in ("cuCtxGetDevice", "cuCtxGetCurrent"):
            return call
        assert name in self.LEGAL, f"{name} while a stream is captured"

        def noted(*given: Any) -> Any:
            if name == "cuMemAllocAsync":  # as the graph's memory, whose address is known at once
                return call(*given)
            self.work.append((call, given))
            return (self._real.CUresult.CUDA_SUCCESS,)

        return noted

    def replay(self) -> None:
        for call, given in self.work:
            if getattr(call, "__name__", "") != "cuMemFreeAsync":  # the graph has its memory until it is gone
                call(*given)


@pytest.mark.parametrize("lay", [lambda x: x, LAYOUTS["transposed"]], ids=["in place", "copied"])
def test_a_captured_product_is_replayed(gpu: Any, lay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = (
        There(lay(drawn((33, 40), "float32"))),
        There(drawn((40, 35), "float32", 1)),
        There(drawn((33, 35), "f4")),
    )
    tw.matmul(a, b, out)  # kernels are compiled before a stream is captured
    out.held.copy_to_device(np.zeros(out.held.size, np.uint8))
    with Recorded(monkeypatch) as graph:
        tw.matmul(a, b, out)
    assert not out.brought().any(), "a capture does nothing"
    for seed in (2, 3):
        a.array[...] = drawn((33, 40), "float32", seed)
        a.held[a.start : a.start + a.size].copy_to_device(a.of_the_host())
        graph.replay()
        out.array[...] = tw.matmul(a.array, b.array)
        assert same_bits(out.brought(), out.of_the_host())


def test_calls_that_a_capture_forbids_are_found(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorded(monkeypatch), pytest.raises(AssertionError, match="cuStreamSynchronize while a stream is captured"):
        current.driver().cuStreamSynchronize(0)


def test_a_graph_of_the_driver_has_products_and_their_memory(gpu: Any) -> None:
    calls: Any = pytest.importorskip("cuda.bindings.driver", reason="not run: cuda.bindings is not installed")

    def done(result: Any) -> Any:
        assert int(result[0]) == 0, result
        return result[1] if len(result) > 1 else None

    stream = cuda.stream()
    handle = calls.CUstream(int(stream.handle))
    a, b = drawn((20, 30), "f4"), LAYOUTS["transposed"](drawn((30, 9), "f4", 1))
    left, right, out = There(a), There(LAYOUTS["every other"](b)), cuda.device_array((20, 9), "f4")
    for one in (left, right):
        one.__cuda_array_interface__["stream"] = int(stream.handle)
    done(calls.cuStreamBeginCapture(handle, calls.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    before = gpu.launches
    tw.matmul(left, right, out)  # B is copied to memory of the product's own
    graph = done(calls.cuStreamEndCapture(handle))
    ready = done(calls.cuGraphInstantiate(graph, 0))
    done(calls.cuGraphDestroy(graph))
    assert gpu.launches == before
    others = [cuda.to_device(np.full(600, 7, "u1")) for _ in range(8)]
    for sign in (1, -1):
        a *= sign
        left.held[left.start : left.start + left.size].copy_to_device(left.of_the_host())
        done(calls.cuGraphLaunch(ready, handle))
        assert same_bits(out.copy_to_host(), tw.matmul(a, b))
    assert gpu.launches == before + 4
    assert all((one.copy_to_host() == 7).all() for one in others)
    held = gpu.memory.allocated_bytes
    done(calls.cuGraphExecDestroy(ready))
    assert gpu.memory.allocated_bytes < held
    assert int(calls.cuGraphLaunch(ready, handle)[0]) == calls.CUresult.CUDA_ERROR_INVALID_VALUE
    assert int(calls.cuStreamBeginCapture(0, 0)[0]) == calls.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED


@pytest.mark.parametrize("name", ["a100", "h100"])
def test_tensor_cores_write_rows_with_gaps_in_place(name: str) -> None:
    a, b = drawn((33, 40), "float16"), drawn((40, 48), "float16", 1)
    expected = np.asarray(tw.matmul(a, b))  # sums of eighths that a half holds: exact in every order
    with tw.simulated_gpu(name) as other:
        for gap in (1, 16):
            memory = np.full((33, 48 + gap), 7, "float16")
            into = There(memory[:, :48])
            before = other.launches
            assert tw.matmul(There(a), There(b), into, order="fast") is into
            assert other.launches == before + 1, "no copy"
            brought = into.brought().view("float16")
            found = np.append(brought, memory.ravel()[brought.size :]).reshape(memory.shape)
            assert (found[:, :48] == expected).all()
            assert (found[:, 48:] == 7).all(), "the gaps are as they were"


def row_of(kind: str, *shape: int) -> dict[str, Any]:
    return {"epilogue_args": [drawn(shape, kind, 7), 2]}


@pytest.mark.parametrize("change", [
    {"a": drawn((20, 28), "f4"), "b": drawn((28, 9), "f4")}, {"a": gapped(drawn((20, 30), "f4"))},
    {"b": LAYOUTS["transposed"](drawn((30, 9), "f4"))}, {"b": np.broadcast_to(drawn((9,), "f4"), (30, 9))},
    {"a": drawn((20, 30), "f2")}, {"b": unaligned(drawn((30, 9), "f4"))}, {"a": drawn((1, 20, 30), "f4")[0, :, ::-1]},
    {"out": gapped(drawn((20, 9), "f4"))}, {"out": drawn((20, 9), "f8"), "dtype": "f8"}, {"alpha": 2.0},
    {"alpha": -0.0}, {"alpha": 0.0}, {"beta": 2}, {"acc_dtype": "f8"}, {"dtype": np.float32}, {"order": "tf32x3"},
    {"casting": "safe"}, {"algebra": "max-plus"}, {"epilogue": lambda s, r, n: s - r * n},
    row_of("f2", 9), row_of("f4", 20, 1),
    {"epilogue_args": [drawn((9,), "f4", 7), 2.0]}, {"epilogue_args": [drawn((9,), "f4", 7), True]},
    {"epilogue_args": {"r": drawn((9,), "f4", 7), "n": 2}},
], ids=" ".join)  # fmt: skip
def test_a_call_that_differs_in_one_part_has_launches_of_its_own(gpu: Any, change: dict[str, Any]) -> None:
    """Each part by itself, after a call and before it again; what differs in nothing has no new ones."""
    plain = {
        "a": drawn((20, 30), "f4"), "b": drawn((30, 9), "f4", 1), "out": drawn((20, 9), "f4", 2), "alpha": 2, "beta": 1,
        "epilogue": lambda s, r, n: s + r * n, **row_of("f4", 9),
    }  # fmt: skip
    quick._kept.cache_clear()
    for asked, new in ((plain, 1), (plain, 0), (plain | change, 1), (plain, 0), (plain | change, 0)):
        before, given = quick._kept.cache_info().misses, dict(asked)
        a, b, out = (given.pop(name) for name in ("a", "b", "out"))
        more = given.pop("epilogue_args")
        there = {name: There(x) if isinstance(x, np.ndarray) else x for name, x in dict_of(more).items()}
        into, expected = There(out), out.copy()
        tw.matmul(
            There(a), There(b), into, epilogue_args=there if isinstance(more, dict) else [*there.values()], **given
        )
        assert quick._kept.cache_info().misses - before == new
        tw.matmul(a, b, expected, epilogue_args=more, **given)
        found = np.lib.stride_tricks.as_strided(
            into.brought()[out.ctypes.data - into.low :].view(out.dtype), out.shape, out.strides
        )
        assert same_bits(np.ascontiguousarray(found), expected)


def dict_of(more: Any) -> dict[Any, Any]:
    return more if isinstance(more, dict) else dict(enumerate(more))


@pytest.mark.parametrize("shapes", [
    ((41,), (41, 7)), ((37, 41), (41,)), ((1, 41), (41, 1)), ((2, 1, 41), (41, 24)), ((9, 1), (1, 9)), ((1,), (1, 40)),
], ids=str)  # fmt: skip
def test_boxes_of_a_single_row_or_column(shapes: tuple[Any, Any]) -> None:
    a, b = (drawn(shape, "float16", seed) for seed, shape in enumerate(shapes))
    expected = np.asarray(tw.matmul(a, b))  # sums of eighths that a half holds: exact in every order
    with tw.simulated_gpu("h100"):
        layouts = np.ascontiguousarray, np.asfortranarray, every_other, lambda x: x[..., ::-1].copy()[..., ::-1]
        for lay in layouts:
            out = cuda.to_device(np.zeros(expected.shape, "float16"))
            for _ in range(2):
                found = tw.matmul(There(lay(a)), There(lay(b)), out, order="fast").copy_to_host()
                assert np.array_equal(found, expected), "but for the sign of a zero"


def random_bits(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Integers of all bits, floats with all bits of a significand."""
    random = np.random.default_rng(seed)
    if kind[0] == "f":
        return random.standard_normal(shape).astype(kind)
    return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)


def test_the_largest_numbers_are_split_on_the_gpu() -> None:
    a, b = np.full((3, 600), 0.0, "f4"), np.full((600, 5), 0.5, "f4")
    a[:, 77] = np.finfo("f4").max, -3.4028e38, 1
    with tw.simulated_gpu("h100"):
        found = tw.matmul(There(a), There(b), cuda.to_device(np.zeros((3, 5), "f4")), order="tf32x3")
        np.testing.assert_allclose(np.asarray(found.copy_to_host()), a @ b, rtol=2.0**-20)


def test_more_lines_of_planes_than_boxes_number_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch for 128 rows of C, and one before that splits them; B is split once."""
    monkeypatch.setattr(planes, "MOST_LINES", 2 * 3 * 128)
    products.forget()
    a, b = drawn((300, 600), "f4", 1), drawn((600, 33), "f4", 2)
    taken: Any = {"order": "tf32x3"}
    with tw.simulated_gpu("h100") as gpu:
        found = tw.matmul(There(a), There(b), cuda.to_device(np.zeros((300, 33), "f4")), **taken)
        assert gpu.launches == 1 + 3 * 2
        c = np.asarray(found.copy_to_host())
    assert tw.plan(a.shape, b.shape, "float32", device="h100", **taken).parts == 3 * 2
    assert same_bits(c, tw.matmul(a, b, device="simulated:h100", **taken))
    monkeypatch.undo()
    products.forget()
    assert same_bits(c, tw.matmul(a, b, device="simulated:h100", **taken))


@pytest.mark.parametrize(("name", "kind"), [
    ("hopper_digits", "int32"), ("hopper_tf32x3", "float32"),
    pytest.param("hopper_digits", "uint32", marks=pytest.mark.volume),
    pytest.param("hopper_digits16", "int16", marks=pytest.mark.volume),
])  # fmt: skip
def test_operands_are_split_on_the_gpu(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one launch each, in any layout: with the bits of operands that the host split."""
    record = catalogue.find(name)
    one = estimates.Candidate(record, "int32" if kind == "uint32" else kind)
    chosen = ranking.Choice((one,), (ranking.Ranked(name, 1e-6, "memory", 1.0, "estimated"),))
    monkeypatch.setattr(ranking, "chosen", lambda *_: chosen)
    products.forget()
    asked: Any = {"order": "tf32x3" if kind == "float32" else "canonical"}
    cases = [(((33, 40), (40, 35)), lay) for lay in LAYOUTS] + [
        (shapes, "gaps") for shapes in (((2, 3, 4), (4, 5)), ((1, 1), (1, 1)), ((5, 129), (129, 1)), ((1, 9), (9, 2)))
    ]
    with tw.simulated_gpu("h100") as gpu:
        for shapes, lay in cases:
            a, b = (LAYOUTS[lay](random_bits(shape, kind, seed)) for seed, shape in enumerate(shapes))
            before = gpu.launches
            found = tw.matmul(There(a), There(b), cuda.to_device(np.zeros(np.matmul(a, b).shape, kind)), **asked)
            assert gpu.launches == before + 2 + len(a.reshape(-1, *a.shape[-2:]))
            c = np.asarray(found.copy_to_host())
            assert same_bits(c, tw.matmul(a, b, device="simulated:h100", **asked)), (shapes, lay)
            if kind != "float32":
                assert same_bits(c, np.matmul(a, b)), (shapes, lay)
    products.forget()
    quick.forget()
