"""Products of arrays on a simulated GPU: numba-cuda's, CuPy's if it is installed, others by the interface."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from tilewright.multiply.backends.cuda import arrays, current, launches, owned, quick
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.reference import same_bits

cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
Array = npt.NDArray[Any]


def drawn(*shape: int, kind: str = "float32") -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (100 * values).astype(kind) if np.dtype(kind).kind in "iu" else values.astype(kind)


class Foreign:
    """An array of a library that Tilewright does not know."""

    def __init__(self, array: Any, **more: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | more


class Named(Foreign):
    """An array with a dtype that NumPy lacks; it names the dtype."""

    def __init__(self, array: Any, dtype: str, **more: Any) -> None:
        super().__init__(array, **more)
        self.dtype = dtype


class Unknown(tuple):  # type: ignore[type-arg]
    """Arguments that may change unseen: a call with them takes every rule."""


def launched(gpu: Any, *operands: Array, **asked: Any) -> Array:
    """The product of copies on the GPU, once by the rules and once past them; both have the same bits."""
    there = [cuda.to_device(x) for x in operands]
    found = [tw.matmul(*there, **asked) for _ in range(2)]
    by_rules = tw.matmul(*there, epilogue_args=Unknown(), **asked)
    results = [x.copy_to_host() for x in (*found, by_rules)]
    assert all(type(x) is type(there[0]) for x in found)
    assert all(same_bits(results[0], x) for x in results[1:])
    for array, before in zip(there, operands, strict=True):
        assert same_bits(array.copy_to_host(), before), "operands stay as they are"
    return results[0]


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "uint32"])
@pytest.mark.parametrize("shapes", [
    ((20, 30), (30, 9)), ((30,), (30, 9)), ((20, 30), (30,)), ((30,), (30,)), ((3, 1, 20, 30), (2, 30, 9)),
    ((1, 1), (1, 1)), ((2, 20, 30), (30,)),
], ids=str)  # fmt: skip
def test_the_bits_are_those_of_the_host(gpu: Any, shapes: tuple[Any, Any], kind: str) -> None:
    a, b = (drawn(*shape, kind=kind) for shape in shapes)
    found, expected = launched(gpu, a, b), np.asarray(tw.matmul(a, b))
    assert same_bits(found, expected)
    assert found.dtype == expected.dtype


def test_a_product_without_steps_is_zero_and_one_without_results_is_none(gpu: Any) -> None:
    some, out = cuda.to_device(drawn(4, 3)), cuda.to_device(np.full((2, 4, 3), 7, "f4"))
    a, b = (Foreign(some, shape=shape, strides=None, data=(0, False)) for shape in ((2, 4, 0), (0, 3)))
    for _ in range(2):
        assert tw.matmul(a, b, out) is out
        assert (out.copy_to_host() == 0).all()
    tw.matmul(a, b, out, algebra="min-plus")
    assert (out.copy_to_host() == np.inf).all()
    tw.matmul(a, b, out, epilogue=lambda total: total + 3)
    assert (out.copy_to_host() == 3).all()
    launches = gpu.launches
    nothing = Foreign(some, shape=(0, 3), strides=None, data=(0, False))
    assert tw.matmul(Foreign(some, shape=(0, 4), strides=None, data=(0, False)), some, nothing) is nothing
    assert gpu.launches == launches


@pytest.mark.parametrize("kind", ["float16", "int8", "bool", "float64"])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({}, id="plain"),
        pytest.param({"epilogue": lambda total: total + 3}, id="epilogue"),
        pytest.param({"dtype": "float32"}, id="dtype"),
    ],
)
def test_dtypes_that_are_converted_have_products_without_steps(gpu: Any, kind: str, asked: Any) -> None:
    asked = {} if kind == "bool" and "epilogue" in asked else asked
    a, b = np.zeros((4, 0), kind), np.zeros((0, 3), kind)
    asked = {} if kind == "float64" and "dtype" in asked else asked
    for order in ("canonical", "fast"):
        assert same_bits(launched(gpu, a, b, order=order, **asked), np.asarray(tw.matmul(a, b, **asked)))


def test_integers_are_cast_to_any_dtype_if_asked_and_floats_to_no_integers(gpu: Any) -> None:
    a, b = drawn(20, 30, kind="int8"), drawn(30, 9, kind="int16")
    for dtype in ("uint8", "uint32", "float16"):
        expected = tw.matmul(a, b, dtype=dtype, casting="unsafe")
        assert same_bits(launched(gpu, a, b, dtype=dtype, casting="unsafe"), np.asarray(expected)), dtype
    with pytest.raises(ArgumentTypeError, match="same_kind"):
        launched(gpu, drawn(20, 30), drawn(30, 9), dtype="int8", casting="unsafe")


def test_one_launch_for_a_batch_and_no_memory_besides_the_result(gpu: Any) -> None:
    a, b, out = (cuda.to_device(drawn(*shape)) for shape in ((3, 20, 30), (30, 9), (3, 20, 9)))
    tw.matmul(a, b, out)
    launches, held = gpu.launches, gpu.memory.allocated_bytes
    assert tw.matmul(a, b, out=(out,)) is out
    assert (gpu.launches - launches, gpu.memory.allocated_bytes) == (1, held)
    assert same_bits(out.copy_to_host(), tw.matmul(drawn(3, 20, 30), drawn(30, 9)))


@pytest.mark.parametrize(("kind", "asked"), [
    ("int8", {"dtype": "int32"}), ("float16", {"dtype": "float32", "order": "fast"}),
])  # fmt: skip
def test_the_kernel_writes_a_result_of_another_dtype(gpu: Any, kind: str, asked: Any) -> None:
    a, b = drawn(70, 48, kind=kind), drawn(48, 56, kind=kind)
    there, out = [cuda.to_device(x) for x in (a, b)], cuda.device_array((70, 56), asked["dtype"])
    tw.matmul(*there, out, **asked)
    launches, held = gpu.launches, gpu.memory.allocated_bytes
    tw.matmul(*there, out, **asked)
    assert (gpu.launches - launches, gpu.memory.allocated_bytes) == (1, held)
    assert tw.plan(a.shape, b.shape, kind, device="cuda", **asked).kernel.tensor
    if kind == "int8":
        assert (out.copy_to_host() == a.astype(np.int32) @ b).all()
    else:
        assert catalogue.find("tensor_core").bound.outside(out.copy_to_host(), a, b) == 0


def test_tensor_cores_multiply_halves_within_their_bound(gpu: Any) -> None:
    a, b = drawn(70, 40, kind="float16"), drawn(40, 50, kind="float16")
    there = cuda.to_device(a), cuda.to_device(b)
    found = tw.matmul(*there, order="fast").copy_to_host()
    assert catalogue.find("tensor_core").bound.outside(found, a, b) == 0
    assert same_bits(tw.matmul(*there).copy_to_host(), tw.matmul(a, b))


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda x: {"b": x["b"].copy_to_host()}, ArgumentTypeError, "`b` must be on the GPU like the other arrays"),
    (lambda x: {"b": cuda.to_device(drawn(31, 9))}, ArgumentValueError, "`b.shape"),
    (lambda x: {"out": cuda.device_array((20, 8), "f4")}, ArgumentValueError, r"`out` must have the product's shape"),
    (lambda x: {"out": cuda.device_array((20, 9), "f8")}, ArgumentValueError, r"dtype float32 \(got .* float64\)"),
    (lambda x: {"out": np.zeros((20, 9), "f4")}, ArgumentTypeError, "`out` must be on the GPU"),
    (lambda x: {"out": Foreign(x["out"], data=(x["out"].__cuda_array_interface__["data"][0], True))},
     ArgumentValueError, "`out` must be writable"),
    (lambda x: {"out": Foreign(x["out"], strides=(0, 4))}, ArgumentValueError, "`out` must have separate memory"),
    (lambda x: {"a": Foreign(x["a"], mask=x["a"])}, ArgumentTypeError, "`a` must be without a mask"),
    (lambda x: {"a": Foreign(x["a"], typestr=">f4")}, ArgumentTypeError, "`a` must be in this machine's byte order"),
    (lambda x: {"a": Foreign(x["a"], typestr="|V4"), "out": None}, ArgumentTypeError,
     "`a` must be of numbers that kernels read .got .V4.; convert"),
    (lambda x: {"a": Foreign(x["a"], typestr="<f1"), "out": None}, ArgumentTypeError,
     "`a` must be of numbers that kernels read .got '<f1'.; convert"),
    (lambda x: {"a": cuda.to_device(np.zeros((20, 30), [("x", "f4")]))}, ArgumentTypeError,
     "`a` must be of numbers that kernels read"),
    (lambda x: {"a": Foreign(x["a"], stream=5), "b": Foreign(x["b"], stream=7)},
     ArgumentValueError, r"must be made on the stream that is current \(got streams \[5, 7\]\)"),
    (lambda x: {"a": Foreign(x["a"]), "out": None}, ArgumentTypeError, "`out` must be given for arrays of"),
    (lambda x: {"device": "cpu"}, ArgumentValueError, "`device` must be left out for arrays that are on one"),
    (lambda x: {"a": cuda.to_device(drawn(20, 30, kind="complex64")), "out": None}, ArgumentTypeError,
     "`a` must be real on a GPU"),
    (lambda x: {"epilogue": lambda s, row: s + row, "epilogue_args": [np.ones(9, "f4")]}, ArgumentTypeError,
     "^`epilogue_args` must be on the GPU like the other arrays"),
], ids=lambda x: x.split("`")[1] if isinstance(x, str) and "`" in x else None)  # fmt: skip
def test_arrays_that_are_refused(gpu: Any, change: Any, error: type, words: str) -> None:
    given = {"a": cuda.to_device(drawn(20, 30)), "b": cuda.to_device(drawn(30, 9))}
    given["out"] = cuda.to_device(np.full((20, 9), 7, "f4"))
    out, launches = given["out"], gpu.launches
    tw.matmul(given["a"], given["b"], cuda.device_array((20, 9), "f4"))  # these layouts are known
    given |= change(given)
    with pytest.raises(error, match=words):
        tw.matmul(given.pop("a"), given.pop("b"), given.pop("out"), **given)
    assert (out.copy_to_host() == 7).all()
    assert gpu.launches == launches + 1


def test_the_device_of_the_arrays_may_be_named(gpu: Any) -> None:
    a, b = cuda.to_device(drawn(20, 30)), cuda.to_device(drawn(30, 9))
    expected = tw.matmul(a, b).copy_to_host()
    hits = quick._kept.cache_info().hits
    assert same_bits(tw.matmul(a, b, device="cuda").copy_to_host(), expected)
    assert quick._kept.cache_info().hits > hits, "by the fast path too"


def test_arrays_without_their_gpu_are_refused(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class CUDAError(Exception):
        """cuda.core's."""

    def device() -> None:
        raise CUDAError("CUDA_ERROR_NO_DEVICE: no CUDA-capable devices were detected")

    a = cuda.to_device(drawn(8, 8))
    monkeypatch.setattr(current, "names", lambda: SimpleNamespace(Device=device))
    with pytest.raises(DeviceError, match=r"need that GPU .*CUDA_ERROR_NO_DEVICE.*`with tilewright.simulated_gpu"):
        tw.matmul(a, a)


def test_the_callers_stream_has_the_launch_and_nothing_waits(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = cuda.stream()
    a, b = (cuda.to_device(drawn(8, 8), stream=stream) for _ in range(2))
    out, asked, calls = cuda.device_array((8, 8), "f4", stream=stream), [], []
    core, binding = current.names(), current.driver()
    original = core.launch
    monkeypatch.setattr(core, "launch", lambda to, *rest: (asked.append(int(to.handle)), original(to, *rest)))
    for name in ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemAlloc"):
        monkeypatch.setattr(binding, name, lambda *given, name=name: calls.append(name), raising=False)
    for _ in range(2):
        tw.matmul(Foreign(a, stream=int(stream.handle)), Foreign(b, stream=int(stream.handle)), out)
    assert asked == [int(stream.handle)] * 2
    assert calls == []


class ByDlpack:
    """An array with only DLPack: NumPy's capsule of the same memory, marked as on a GPU."""

    def __init__(self, array: Any, device: int = 2) -> None:
        self.array, self.device = array, device
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        self.streams.append(stream)
        of, like = self.array.__cuda_array_interface__, np.empty(self.array.shape, self.array.dtype)
        strides = like.strides if of["strides"] is None else of["strides"]
        capsule = launches.pointer(of["data"][0], like.shape, strides, like.dtype).__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor begins with its address and the kind of its device, 32 bits (dlpack.h).
        ctypes.c_int32.from_address(address(capsule, b"dltensor") + 8).value = self.device
        return capsule


@pytest.mark.parametrize("device", [2, 13], ids=["cuda", "managed"])
def test_arrays_with_only_dlpack(gpu: Any, device: int) -> None:
    a, b, row = drawn(20, 30), drawn(9, 30).T, drawn(9)
    x, y, bias = (ByDlpack(cuda.to_device(one), device) for one in (a, b, row))
    into = cuda.to_device(np.zeros((20, 9), "f4"))
    out = ByDlpack(into, device)
    assert tw.matmul(x, y, out) is out
    assert same_bits(into.copy_to_host(), tw.matmul(a, b))
    beside = tw.matmul(cuda.to_device(a), y, epilogue=lambda s, r: s + r, epilogue_args=[bias])
    assert type(beside) is type(into), "A's library makes the result"
    assert same_bits(beside.copy_to_host(), tw.matmul(a, b, epilogue=lambda s, r: s + r, epilogue_args=[row]))
    assert {*x.streams, *y.streams, *out.streams, *bias.streams} == {1}, "they are made ready for the default stream"


@pytest.mark.parametrize(("change", "words"), [
    (lambda x: {"out": None}, "`out` must be given for arrays of"),
    (lambda x: {"b": ByDlpack(x["b"].array, 1)}, "`b` must be on the GPU like the other arrays"),
    (lambda x: {"b": Unshared()}, r"`b` must be an array that DLPack can share \(got Unshared: not today\)"),
    (lambda x: {"b": Foreign(x["b"].array, stream=5)}, r"on the stream that is current \(got streams \[0, 5\]\)"),
], ids=["no out", "the host's", "refused", "another stream"])  # fmt: skip
def test_arrays_that_dlpack_cannot_describe_are_refused(gpu: Any, change: Any, words: str) -> None:
    given = {"a": ByDlpack(cuda.to_device(drawn(20, 30))), "b": ByDlpack(cuda.to_device(drawn(30, 9)))}
    given |= {"out": cuda.to_device(np.zeros((20, 9), "f4"))} | change(given)
    before = gpu.launches
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match=words):
        tw.matmul(*given.values())
    assert gpu.launches == before


class Unshared:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("not today")


def consumed(made: Any) -> SimpleNamespace:
    """A stand-in for `jax.dlpack.from_dlpack`: cuda.core reads the capsule, and owns what it says."""
    from cuda.core.utils import StridedMemoryView

    found = StridedMemoryView.from_dlpack(made, stream_ptr=7)
    described = {"data": (found.ptr, False), "shape": found.shape, "typestr": found.dtype.str, "version": 3}
    return SimpleNamespace(strides=found.strides, device=found.device_id, held=found, described=described)


@pytest.fixture
def fresh_libraries() -> Iterator[None]:
    """What was found of types of arrays is forgotten before the test and after it."""
    arrays._library.cache_clear()
    yield
    arrays._library.cache_clear()


@pytest.mark.usefixtures("fresh_libraries")
@pytest.mark.parametrize("of", [Foreign, ByDlpack])
def test_a_product_of_jax_s_arrays_is_jax_s(gpu: Any, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: JAX for the CPU makes no arrays on a GPU. Calls past the rules do as the first does."""
    types = (Foreign, ByDlpack)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=types, dlpack=SimpleNamespace(from_dlpack=consumed)))
    a, b = drawn(20, 30), drawn(30, 9)
    expected = np.asarray(tw.matmul(a, b))
    x, y = of(cuda.to_device(a)), of(cuda.to_device(b))
    for asked in ({}, {}, {"casting": "safe", "epilogue_args": Unknown()}):
        made: Any = tw.matmul(x, y, **asked)
        assert made.strides in (None, (9, 1))
        assert made.device == 0
        assert same_bits(cuda.from_cuda_array_interface(made.described).copy_to_host(), expected)
    operands = gpu.memory.allocated_bytes
    del made
    gc.collect()
    assert gpu.memory.allocated_bytes == operands - 3 * 256, "with the last reference"
    out = cuda.to_device(np.zeros((20, 9), "f4"))
    assert same_bits(tw.matmul(x, y, out).copy_to_host(), expected)
    kept, before = of(out), gpu.launches
    for _ in range(2):
        with pytest.raises(ArgumentTypeError, match=r"`out` must be an array that may be written \(got JAX's"):
            tw.matmul(x, y, kept)
    assert gpu.launches == before


@pytest.mark.usefixtures("fresh_libraries")
def test_the_library_of_arrays_that_were_seen_before_it(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = Foreign(cuda.to_device(drawn(3, 4)))
    assert arrays.library_of(x) is None
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=Foreign))
    found = arrays.library_of(x)
    assert found is not None and found.name == "jax"


def test_memory_of_a_result_is_freed_on_any_thread(gpu: Any) -> None:
    """The thread's context, here none, stays as it was."""
    from tilewright.multiply.backends.cuda import current

    cuda.current_context()
    before = gpu.memory.allocated_bytes
    held = [owned.Owned((8, 8), np.dtype("f4"))]
    assert gpu.memory.allocated_bytes > before

    def drop() -> int:
        held.clear()
        gc.collect()
        return int(current.driver().cuCtxGetCurrent()[1])

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(drop).result() == 0
    assert gpu.memory.allocated_bytes == before


class OfTheHost:
    """The host's memory as a product's is handed over."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return owned.capsule(self, self.array.ctypes.data, (1, 0), self.array.shape, self.array.dtype)


@pytest.mark.parametrize("kind", ["float32", "int8", "uint16", "bool", "float16", "bfloat16"])
def test_jax_reads_the_capsules(kind: str) -> None:
    jax = pytest.importorskip("jax", reason="not run: JAX is not installed")
    array = np.arange(6).astype(getattr(jax.numpy, kind)).reshape(2, 3)
    held = OfTheHost(array)
    there = weakref.ref(held)
    made = jax.dlpack.from_dlpack(held)
    del held
    assert made.dtype == array.dtype
    assert (np.asarray(made) == array).all()
    del made
    unused = OfTheHost(array)
    beside, capsule = weakref.ref(unused), unused.__dlpack__()
    del unused
    assert beside() is not None
    del capsule
    gc.collect()
    assert there() is beside() is None


#: Modules that a call enters if it follows the rules.
RULES = {
    "tilewright.multiply.engine.shapes",
    "tilewright.multiply.backends.ranking",
    "tilewright.multiply.backends.cuda.products",
}


def entered(*given: Any, **asked: Any) -> list[str]:
    """The modules whose functions the second of two equal calls enters, one for each call of a function."""
    found: list[str] = []

    def see(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if (
            event == "call"
            and name.startswith("tilewright.")
            and not name.startswith(("tilewright.frontends", "tilewright.simulate.device"))
        ):
            found.append(name)

    tw.matmul(*given, **asked)
    sys.setprofile(see)
    try:
        tw.matmul(*given, **asked)
    finally:
        sys.setprofile(None)
    return found


def test_a_known_layout_passes_few_functions_and_no_rules(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = (cuda.to_device(drawn(8, 8)) for _ in range(3))
    monkeypatch.setattr(current.names(), "launch", lambda *given: None)
    assert not RULES.isdisjoint(entered(a, b, out, epilogue_args=Unknown())), "the measure sees rules"
    quick = entered(a, b, out)
    assert RULES.isdisjoint(quick)
    assert 0 < len(quick) < 60, quick  # each takes tenths of a microsecond: `benchmarks/device_calls.py` has the time


@pytest.mark.parametrize("asked", [
    {"dtype": "float16"}, {"alpha": 2, "beta": -0.5}, {"algebra": "min-plus"}, {"casting": "safe"},
    {"algebra": tw.Algebra(add=tw.minimum, multiply=lambda x, y: x + y, zero=np.inf)}, {"acc_dtype": "float64"},
    {"epilogue": lambda s, row, n: tw.relu(s + row) * n, "epilogue_args": (drawn(9), 3)},
    {"epilogue": lambda s, column: s + column, "epilogue_args": {"column": drawn(20, 1)}},
], ids=["dtype", "scale", "algebra", "casting", "own algebra", "acc_dtype", "epilogue", "named"])  # fmt: skip
def test_a_repeated_call_skips_the_rules(gpu: Any, asked: Any) -> None:
    def there(x: Any) -> Any:
        return cuda.to_device(x) if isinstance(x, np.ndarray) else x

    more = asked.get("epilogue_args", ())
    changed = {
        "epilogue_args": {n: there(x) for n, x in more.items()} if isinstance(more, dict) else [*map(there, more)]
    }
    for seed in range(2):
        a, b, c = drawn(20, 30) + seed, drawn(30, 9), drawn(20, 9).astype(asked.get("dtype", "f4"))
        out = cuda.to_device(c)
        arguments = cuda.to_device(a), cuda.to_device(b), out
        if seed:
            assert RULES.isdisjoint(entered(*arguments, **asked | changed))
            out.copy_to_device(c)
        tw.matmul(*arguments, **asked | changed)
        expected = c.copy()
        tw.matmul(a, b, expected, **asked)
        assert same_bits(out.copy_to_host(), expected)


def test_a_thread_that_has_used_no_gpu_multiplies_known_layouts(gpu: Any) -> None:
    a, c = cuda.to_device(drawn(8, 8)), cuda.to_device(np.zeros((8, 8), "f4"))
    tw.matmul(a, a, c, alpha=2)
    with ThreadPoolExecutor(1) as threads:  # the launch takes memory, which needs a context
        assert threads.submit(tw.matmul, a, a, c, alpha=2).result() is c


def test_a_caller_s_own_context_stays_current(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's own context is made current only in a thread that has none; the simulated GPU has no second one."""
    from tilewright.simulate.device import host_side

    a, changed = cuda.to_device(drawn(8, 8)), []
    monkeypatch.setattr(host_side.Device, "set_current", changed.append)
    for _ in range(3):
        tw.matmul(a, a)
    assert not changed


def test_a_repeated_call_for_many_matrices_skips_the_rules(gpu: Any) -> None:
    a, b, c = (cuda.to_device(drawn(100, 4, 4) + place) for place in range(3))
    before = gpu.launches
    assert RULES.isdisjoint(entered(a, b, c))
    assert gpu.launches == before + 2
    assert same_bits(c.copy_to_host(), tw.matmul(drawn(100, 4, 4), drawn(100, 4, 4) + 1))


def test_a_repeated_call_with_a_library_s_dtype_skips_the_rules(gpu: Any) -> None:
    ml = pytest.importorskip("ml_dtypes", reason="not run: ml_dtypes is not installed")
    a, b = (drawn(*shape).astype(ml.bfloat16) for shape in ((20, 30), (30, 9)))
    expected = np.asarray(tw.matmul(a, b))
    held = [cuda.to_device(x.view(f"u{x.itemsize}")) for x in (a, b, np.zeros_like(expected))]
    x, y, out = (
        Named(one, like.dtype.name, typestr=like.dtype.str) for one, like in zip(held, (a, b, expected), strict=True)
    )
    assert RULES.isdisjoint(entered(x, y, out))
    assert held[2].copy_to_host().tobytes() == expected.tobytes()


def test_a_different_call_is_not_taken_for_the_same(gpu: Any) -> None:
    a, b, rows = drawn(20, 30), drawn(30, 9), [drawn(9), drawn(9) + 1]
    x, y, z = cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.zeros((20, 9), "f4"))
    for scale in (1, 2, 2.5):
        for row in rows:
            asked = {"epilogue": lambda s, r, n, scale=scale: scale * s + r * n, "alpha": scale}
            for number in (2, 3.0):
                tw.matmul(x, y, z, epilogue_args=[cuda.to_device(row), number], **asked)
                assert same_bits(z.copy_to_host(), tw.matmul(a, b, epilogue_args=[row, number], **asked))
    for scale in (2, 3):
        tw.matmul(x, y, z, alpha=scale)
        assert same_bits(z.copy_to_host(), tw.matmul(a, b, alpha=scale))
    kept = [1.0]  # may change unseen
    for value in (1.0, 5.0):
        kept[0] = value
        tw.matmul(x, y, z, epilogue=lambda s: s * kept[0])
        assert same_bits(z.copy_to_host(), tw.matmul(a, b, epilogue=lambda s, value=value: s * value))
    # The result overlaps an operand of the epilogue; with the same layouts it did not before.
    for beside in (cuda.to_device(drawn(9)), Foreign(z, shape=(9,), strides=None)):
        before = beside.copy_to_host() if beside is not z and hasattr(beside, "copy_to_host") else z.copy_to_host()[0]
        tw.matmul(x, y, z, epilogue=lambda s, r: s + r, epilogue_args=[beside])
        assert same_bits(z.copy_to_host(), tw.matmul(a, b, epilogue=lambda s, r: s + r, epilogue_args=[before]))


def test_layouts_are_kept_for_their_gpu_and_their_order(gpu: Any) -> None:
    a, b = drawn(6, 5), drawn(5, 4)
    expected = tw.matmul(a, b)
    quick._kept.cache_clear()
    assert same_bits(launched(gpu, a, b), expected)
    with tw.simulated_gpu("t4") as other:
        before = other.launches
        assert same_bits(tw.matmul(cuda.to_device(a), cuda.to_device(b)).copy_to_host(), expected)
        assert other.launches == before + 1
    assert quick._kept.cache_info().misses == 2
    with pytest.raises(ArgumentValueError, match="`order` must be one of"):
        tw.matmul(cuda.to_device(a), cuda.to_device(b), order="quick")


def test_an_array_of_a_closed_gpu_is_refused(gpu: Any) -> None:
    with tw.simulated_gpu("t4"):
        old = cuda.to_device(drawn(4, 4))
    with pytest.raises(
        ArgumentTypeError, match=r"`a` must be on the GPU that is current \(a device array must be used"
    ):
        tw.matmul(old, cuda.to_device(drawn(4, 4)))


def test_a_tensor_that_has_a_gradient_is_refused() -> None:
    class Tracked:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")

    with pytest.raises(ArgumentTypeError, match="`a` must be without a gradient"):
        tw.matmul(Tracked(), SimpleNamespace())


@pytest.mark.parametrize("name", ["t4", "h100"])
def test_arrays_of_the_host_go_to_the_simulated_gpu_in_place(name: str) -> None:
    a, b = (np.random.default_rng(seed).integers(-9, 9, (70, 70)).astype("f4") for seed in (0, 1))
    with tw.simulated_gpu(name) as other:
        for order in ("canonical", "fast"):
            there = tw.plan(a.shape, b.shape, "f4", device="cuda", order=order)
            assert there.path == tw.plan(a.shape, b.shape, "f4", device=f"simulated:{name}", order=order).path
            before = other.launches
            assert (tw.matmul(a, b, device="cuda", order=order) == a @ b).all()  # sums that float32 holds
            assert other.launches == before + 1


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="not run: CuPy is not installed")
def test_cupys_arrays_give_cupys(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import numpy as np
import tilewright as tw
with tw.simulated_gpu("a100"):
    import cupy
    a, b = np.random.rand(20, 30).astype("f4"), np.random.rand(30, 9).astype("f4")
    x, y = cupy.asarray(a), cupy.asarray(b)
    with cupy.cuda.Stream(non_blocking=True):
        c = tw.matmul(x + 1, y)
        assert isinstance(c, cupy.ndarray) and (c.get() == tw.matmul(a + 1, b)).all()
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_kept_launches_hold_no_arrays(gpu: Any) -> None:
    """The caller may free an epilogue's arrays, as it may operands."""
    x, y, row = cuda.to_device(drawn(20, 30)), cuda.to_device(drawn(30, 9)), Foreign(cuda.to_device(drawn(9)))
    tw.matmul(x, y, epilogue=lambda s, r: s + r, epilogue_args=[row])
    there = weakref.ref(row)
    del row
    gc.collect()
    assert there() is None


class Rounded(float):
    """A number whose text shows only a part of it."""

    def __repr__(self) -> str:
        return "1.0"


def test_numbers_whose_text_is_alike_are_not_taken_for_the_same(gpu: Any) -> None:
    x, y = cuda.to_device(drawn(20, 30)), cuda.to_device(drawn(30, 9))
    for value in (1.0, 1.25):
        for asked in (
            {"epilogue": lambda s, n: s * n, "epilogue_args": [Rounded(value)]}, {"alpha": Rounded(value)},
        ):  # fmt: skip
            expected = tw.matmul(drawn(20, 30), drawn(30, 9), **asked)
            assert same_bits(tw.matmul(x, y, **asked).copy_to_host(), expected)


def test_matrices_and_rows_in_descending_order_are_multiplied_again(gpu: Any) -> None:
    """Their later elements are at lower addresses than the array's own."""
    a, b = drawn(3, 20, 30), drawn(3, 30, 9)
    x, y, into = cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.zeros((3, 20, 9), "f4"))
    for back in (np.s_[::-1], np.s_[:, ::-1], np.s_[:, :, ::-1]):
        given = []
        for array, there in ((a, x), (b, y)):
            view = array[back]
            first = there.__cuda_array_interface__["data"][0] + view.ctypes.data - array.ctypes.data
            given.append(Foreign(there, data=(first, False), strides=view.strides))
        for _ in range(2):
            tw.matmul(*given, into)
            assert same_bits(into.copy_to_host(), tw.matmul(a[back], b[back]))
