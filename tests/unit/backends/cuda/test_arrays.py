"""Arrays that lie on a GPU, a simulated one: numba-cuda's, CuPy's where it is installed, others by the interface."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.backends.cuda import quick
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.kernels import catalogue
from tilewright.problem.reference import same_bits

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


def launched(gpu: Any, *operands: Array, **asked: Any) -> Array:
    """The product of copies on the GPU, and of those again by the way past the rules; both are the same bits."""
    there = [cuda.to_device(x) for x in operands]
    found = [tw.matmul(*there, **asked) for _ in range(2)]
    by_rules = tw.matmul(*there, axes=None, casting="equiv", **asked)
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


def test_one_launch_a_matrix_and_no_memory_beside_the_result(gpu: Any) -> None:
    a, b, out = (cuda.to_device(drawn(*shape)) for shape in ((3, 20, 30), (30, 9), (3, 20, 9)))
    tw.matmul(a, b, out)
    launches, held = gpu.launches, gpu.memory.allocated_bytes
    assert tw.matmul(a, b, out=(out,)) is out
    assert (gpu.launches - launches, gpu.memory.allocated_bytes) == (3, held)
    assert same_bits(out.copy_to_host(), tw.matmul(drawn(3, 20, 30), drawn(30, 9)))


def test_tensor_cores_multiply_halves_within_their_bound(gpu: Any) -> None:
    a, b = drawn(70, 40, kind="float16"), drawn(40, 50, kind="float16")
    there = cuda.to_device(a), cuda.to_device(b)
    found = tw.matmul(*there, order="fast").copy_to_host()
    assert catalogue.find("tensor_core").bound.outside(found, a, b) == 0
    assert same_bits(tw.matmul(*there).copy_to_host(), tw.matmul(a, b))


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda x: {"b": x["b"].copy_to_host()}, ArgumentTypeError, "`b` must be on the GPU as the other operand does"),
    (lambda x: {"b": cuda.to_device(drawn(31, 9))}, ArgumentValueError, "`b.shape"),
    (lambda x: {"out": cuda.device_array((20, 8), "f4")}, ArgumentValueError, r"`out` must have the product's shape"),
    (lambda x: {"out": cuda.device_array((20, 9), "f8")}, ArgumentValueError, r"dtype float32 \(got .* float64\)"),
    (lambda x: {"out": np.zeros((20, 9), "f4")}, ArgumentTypeError, "`out` must be on the GPU"),
    (lambda x: {"out": Foreign(x["out"], data=(x["out"].__cuda_array_interface__["data"][0], True))},
     ArgumentValueError, "`out` must be writable"),
    (lambda x: {"out": Foreign(x["out"], strides=(0, 4))}, ArgumentValueError, "`out` must have a place for each"),
    (lambda x: {"a": Foreign(x["a"], typestr=">f4")}, ArgumentTypeError, "`a` must be in this machine's byte order"),
    (lambda x: {"a": Foreign(x["a"], typestr="|V4"), "out": None}, ArgumentTypeError,
     "`a` must be of numbers that kernels read .got .V4.; convert"),
    (lambda x: {"a": cuda.to_device(np.zeros((20, 30), [("x", "f4")]))}, ArgumentTypeError,
     "`a` must be of numbers that kernels read"),
    (lambda x: {"a": Foreign(x["a"], stream=5), "b": Foreign(x["b"], stream=7)},
     ArgumentValueError, r"must be made on the stream that is current \(got streams \[5, 7\]\)"),
    (lambda x: {"a": Foreign(x["a"]), "out": None}, ArgumentTypeError, "`out` must be given for arrays of"),
    (lambda x: {"device": "cpu"}, ArgumentValueError, "`device` must be left out for arrays that are on one"),
    (lambda x: {"a": cuda.to_device(drawn(20, 30, kind="complex64")), "out": None}, ArgumentTypeError,
     "`a` must be real on a GPU"),
    (lambda x: {"epilogue": lambda s, row: s + row, "epilogue_args": [np.ones(9, "f4")]}, ArgumentTypeError,
     "^`epilogue_args` must be on the GPU as the other operand does"),
], ids=lambda x: x.split("`")[1] if isinstance(x, str) and "`" in x else None)  # fmt: skip
def test_what_is_refused(gpu: Any, change: Any, error: type, words: str) -> None:
    given = {"a": cuda.to_device(drawn(20, 30)), "b": cuda.to_device(drawn(30, 9))}
    given["out"] = cuda.to_device(np.full((20, 9), 7, "f4"))
    out, launches = given["out"], gpu.launches
    tw.matmul(given["a"], given["b"], cuda.device_array((20, 9), "f4"))  # these layouts are known
    given |= change(given)
    with pytest.raises(error, match=words):
        tw.matmul(given.pop("a"), given.pop("b"), given.pop("out"), **given)
    assert (out.copy_to_host() == 7).all()
    assert gpu.launches == launches + 1


def test_the_callers_stream_has_the_launch_and_nothing_waits(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = cuda.stream()
    a, b = (cuda.to_device(drawn(8, 8), stream=stream) for _ in range(2))
    out, asked, calls = cuda.device_array((8, 8), "f4", stream=stream), [], []
    dispatcher: Any = sys.modules["numba.cuda.dispatcher"]
    original = dispatcher.launch
    monkeypatch.setattr(dispatcher, "launch", lambda to, *rest: (asked.append(int(to.handle)), original(to, *rest)))
    binding: Any = sys.modules["numba.cuda.cudadrv.driver"].binding
    for name in ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemAlloc"):
        monkeypatch.setattr(binding, name, lambda *given, name=name: calls.append(name), raising=False)
    for _ in range(2):
        tw.matmul(Foreign(a, stream=int(stream.handle)), Foreign(b, stream=int(stream.handle)), out)
    assert asked == [int(stream.handle)] * 2
    assert calls == []


def test_a_known_layout_passes_few_functions_and_no_rules(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = (cuda.to_device(drawn(8, 8)) for _ in range(3))
    monkeypatch.setattr(sys.modules["numba.cuda.dispatcher"], "launch", lambda *given: None)
    entered: list[str] = []

    def see(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("tilewright.") and not name.startswith("tilewright.drivers"):
            entered.append(name)

    def through(**asked: Any) -> list[str]:
        tw.matmul(a, b, out, **asked)
        entered.clear()
        sys.setprofile(see)
        try:
            tw.matmul(a, b, out, **asked)
        finally:
            sys.setprofile(None)
        return list(entered)

    assert "tilewright.engine.promotion" in through(casting="equiv"), "the measure sees rules"
    quick = through()
    rules = {"tilewright.engine.promotion", "tilewright.backends.ranking", "tilewright.backends.cuda.products"}
    assert rules.isdisjoint(quick)
    assert 0 < len(quick) < 40, quick  # each is some tenths of a microsecond: `benchmarks/device_calls.py` has the time


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


def test_an_array_of_a_gpu_that_is_gone_is_refused_in_words(gpu: Any) -> None:
    with tw.simulated_gpu("t4"):
        old = cuda.to_device(drawn(4, 4))
    with pytest.raises(
        ArgumentTypeError, match=r"`a` must be on the GPU that is current \(a device array must be used"
    ):
        tw.matmul(old, cuda.to_device(drawn(4, 4)))


def test_a_tensor_that_has_a_gradient_is_refused_in_words() -> None:
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
