"""Products by the catalogue's kernels: the CPU engine's bits for all operands, on the simulated GPU and
through the launcher of a real one, with the simulated driver.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright import machine
from tilewright.errors import ArgumentValueError, DeviceError, MissingExtraError
from tilewright.frontends import session
from tilewright.frontends.driver_binding import Binding
from tilewright.multiply.backends import estimates, ranking
from tilewright.multiply.backends.cuda import device as real
from tilewright.multiply.backends.inventory import opened
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import same_bits
from tilewright.simulate.device import host_side, launching, linking, views

Array = npt.NDArray[Any]
DTYPES = ("float32", "float64", "int32", "uint32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "bool")
#: Shapes of A and B: tiles' edges, one row and one column, vectors, batches that broadcast, nothing.
SHAPES = {
    "one": ((1, 1), (1, 1)),
    "edges": ((33, 17), (17, 31)),
    "blocks": ((64, 40), (40, 64)),
    "row": ((1, 70), (70, 5)),
    "vectors": ((9,), (9,)),
    "vector and matrices": ((9,), (2, 9, 4)),
    "matrices and vector": ((3, 4, 9), (9,)),
    "batches": ((3, 1, 5, 6), (2, 6, 7)),
    "no sums": ((4, 0), (0, 3)),
    "no rows": ((0, 4), (4, 3)),
    "no matrices": ((0, 4, 5), (5, 3)),
}


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Numbers that round and cancel, wrap, and both zeros among the floats."""
    random = np.random.default_rng(seed)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iu":
        bounds = np.iinfo(kind)
        return random.integers(bounds.min, bounds.max, shape, kind, endpoint=True)
    if kind.kind == "b":
        return random.random(shape) < 0.2
    values = random.standard_normal(shape) * (random.random(shape) < 0.8)
    return (values * np.where(random.random(shape) < 0.5, 1, -1)).astype(kind)


def same(found: Any, expected: Any) -> bool:
    found, expected = np.asarray(found), np.asarray(expected)
    return (
        found.dtype == expected.dtype
        and found.shape == expected.shape
        and bool((found.tobytes() == expected.tobytes()) if found.dtype.kind not in "f" else same_bits(found, expected))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", SHAPES)
def test_the_bits_are_the_cpu_engines(case: str, dtype: str) -> None:
    a, b = (drawn(shape, dtype, seed) for seed, shape in enumerate(SHAPES[case]))
    assert same(tw.matmul(a, b, device="simulated"), tw.matmul(a, b))


@pytest.mark.parametrize("asked", [
    {"dtype": "int32"}, {"dtype": "float32"}, {"acc_dtype": "int32"}, {"dtype": "float64", "order": "fast"},
    {"dtype": "float16", "casting": "unsafe"}, {"dtype": "float32", "acc_dtype": "float64"},
], ids=str)  # fmt: skip
def test_other_dtypes_of_sums_and_results(asked: dict[str, Any]) -> None:
    a, b = drawn((20, 33), "int8"), drawn((33, 9), "int8", 1)
    assert same(tw.matmul(a, b, device="simulated", **asked), tw.matmul(a, b, **asked))


def test_mixed_operands_are_converted_as_the_engine_reads_them() -> None:
    long, single = drawn((6, 7), "int64"), drawn((7, 8), "float32")
    assert same(tw.matmul(long, single, device="simulated"), tw.matmul(long, single))
    assert same(tw.matmul(long, single, dtype="float32", device="simulated"), tw.matmul(long, single, dtype="float32"))


@pytest.mark.parametrize("shape", [(40, 50), (2, 40, 50)], ids=str)
def test_any_strides_and_any_out(shape: tuple[int, ...]) -> None:
    whole = drawn((*shape[:-2], 120, 120), "float32")
    a, b = whole[..., 80::-2, 1:100:3], whole[..., 3:36, 7:109:2].swapaxes(-1, -2)[..., :33].swapaxes(-1, -2)
    assert a.shape[-1] == b.shape[-2]
    read_only = a.copy()
    read_only.flags.writeable = False
    expected = tw.matmul(a, b)
    for left in (a, np.asfortranarray(a), read_only):
        before = whole.copy()
        assert same(tw.matmul(left, b, device="simulated"), expected)
        assert (whole == before).all()
    for out in (
        np.full(expected.shape, np.nan, np.float32),
        np.full((*expected.shape[:-1], 2 * expected.shape[-1]), np.nan, np.float32)[..., ::2],
        np.full(expected.shape, np.nan, np.float64),
    ):
        assert tw.matmul(a, b, out, device="simulated") is out
        assert (out == expected).all()
    square = drawn((20, 20), "float32", 5)
    product = tw.matmul(square, square)
    assert same(tw.matmul(square, square, square, device="simulated"), product)


def test_negative_zeros_and_infinities_stay() -> None:
    a = np.float32([[-0.0, 0.0], [np.inf, 1.0], [np.nan, 1]])
    b = np.float32([[1.0, -1.0, 0.0], [-0.0, 0.0, 5.0]])
    found, expected = tw.matmul(a, b, device="simulated"), tw.matmul(a, b)
    assert same(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[:2].all()


def test_more_rows_than_a_grid_has_are_launched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SimpleNamespace(grid_extents=(2**31 - 1, 2, 65_535))
    monkeypatch.setattr(estimates, "launch_limits", lambda: limits)
    ranking.chosen.cache_clear()
    a, b = drawn((100, 40), "float32"), drawn((40, 70), "float32", 1)
    asked: list[Any] = []
    products: Any = opened("simulated")
    launch = products.launch

    def counting(program: Any, grid: Any, *rest: Any, **options: Any) -> Any:
        asked.append(grid)
        return launch(program, grid, *rest, **options)

    out = np.empty((100, 70), np.float32)
    kind = Kind(*["float32"] * 4)
    replace(products, launch=counting).multiply_into(a, b, out, kind)
    assert len(asked) > 1
    assert max(grid[1] for grid in asked) == 2
    assert same(out, tw.matmul(a, b))
    plan = tw.plan((100, 40), (40, 70), "float32", device="simulated")
    assert plan.parts >= sum(grid[0] * grid[1] for grid in asked)
    ranking.chosen.cache_clear()  # of these limits


def test_a_plan_says_kernel_tile_and_work() -> None:
    plan = tw.plan((3, 100, 200), (200, 300), "float32", device="simulated:a100")
    assert (plan.path, plan.tile, plan.parts, plan.threads) == ("shared_memory_16", (16, 16), 19 * 19, 256), (
        "the three are one, of 300 rows"
    )
    assert (plan.kernel, plan.order) == (catalogue.find("shared_memory_16"), "canonical")
    assert plan.flops == 2 * 3 * 100 * 300 * 200
    assert plan.buffer_bytes == 4 * (300 * 200 + 200 * 300 + 300 * 300)
    assert "shared_memory_16: CUDA C++: shared memory" in str(plan)
    a, b = drawn((3, 100, 200), "float32"), drawn((200, 300), "float32", 1)
    assert same(plan(a, b), tw.matmul(a, b))
    assert tw.plan((4, 0), (0, 3), "float16", device="simulated").flops == 0


OWN = tw.Algebra(add=lambda x, y: tw.maximum(x, y) ^ 1, multiply=lambda x, y: x - y, zero=3)


@pytest.mark.parametrize(("algebra", "dtype"), [
    ("min-plus", "float32"), ("log-sum-exp", "float64"), ("max-times", "float16"), (OWN, "uint8"), ("xor-and", "bool"),
    *(pytest.param(*case, marks=pytest.mark.volume) for case in (("max-min", "int16"), ("min-max", "int64"))),
], ids=lambda x: getattr(x, "name", x) or "own")  # fmt: skip
def test_algebras_have_the_bits_of_the_processor(algebra: Any, dtype: str) -> None:
    a, b = drawn((2, 66, 19), dtype), drawn((19, 67), dtype, 1)
    expected = tw.matmul(a, b, algebra=algebra)
    assert same(tw.matmul(a, b, algebra=algebra, device="simulated"), expected)
    if dtype == "bool":
        assert same(expected, np.logical_xor.reduce(a[..., None] & b, axis=-2))
    nothing = tw.matmul(a[..., :0], b[:0], algebra=algebra, device="simulated")
    assert same(nothing, tw.matmul(a[..., :0], b[:0], algebra=algebra))


def test_sums_of_64_bits_wrap() -> None:
    a, b = drawn((9, 70), "int64"), drawn((70, 8), "uint64", 1).astype(np.int64)
    with np.errstate(over="ignore"):
        assert same(tw.matmul(a, b, device="simulated"), a @ b)


def scaled(total: Any, row: Any, column: Any, mask: Any) -> Any:
    """Operands along each axis, of other dtypes, and functions whose bits would differ if any step were fused."""
    return tw.astype(tw.where(mask, tw.sigmoid(total * row + column), total - row), "bfloat16")


def test_epilogues_have_the_bits_of_the_processor() -> None:
    a, b = drawn((2, 66, 19), "float16"), drawn((19, 67), "float16", 1)
    row, column = drawn((67,), "float32", 2)[::-1], drawn((2, 66, 1), "float16", 3)
    asked: dict[str, Any] = {
        "epilogue": scaled, "epilogue_args": (row, column, drawn((66, 67), "bool", 4)), "alpha": 0.3,
    }  # fmt: skip
    expected = tw.matmul(a, b, **asked)
    assert expected.dtype.name == "bfloat16"
    assert same(tw.matmul(a, b, device="simulated", **asked), expected)
    assert same(tw.matmul(a[..., :0], b[:0], device="simulated", **asked), tw.matmul(a[..., :0], b[:0], **asked))


def test_an_epilogue_may_return_booleans() -> None:
    a, b = drawn((3, 5), "float32"), drawn((5, 70), "float32", 1)
    wanted, out = tw.matmul(a, b) < 0.5, np.ones((3, 140), np.bool_)[:, ::2]
    found = tw.matmul(a, b, device="simulated", epilogue=lambda total: total < 0.5)
    tw.matmul(a, b, device="simulated", epilogue=lambda total: total < 0.5, out=out)
    assert found.dtype == np.bool_
    assert (found == wanted).all()
    assert (out == wanted).all()
    assert wanted.any()
    assert not wanted.all()


def test_tensor_cores_have_epilogues_if_the_order_allows_them() -> None:
    a, b, row = drawn((33, 40), "float16"), drawn((40, 50), "float16", 1), drawn((50,), "float32", 2)
    asked: dict[str, Any] = {"order": "fast", "device": "simulated:a100"}
    assert tw.plan(a.shape, b.shape, "float16", epilogue=tw.relu, **asked).kernel.source == "TC"
    sums = tw.matmul(a, b, epilogue=lambda total: tw.astype(total, "float64"), **asked).astype(np.float32)
    found = tw.matmul(a, b, epilogue=lambda total, x: tw.relu(total + x), epilogue_args=(row,), **asked)
    assert same(found, np.maximum(sums + row, 0).astype(np.float16))


@pytest.mark.parametrize("spaced", [False, True])
def test_earlier_values_of_c_are_scaled_and_added(spaced: bool) -> None:
    a, b, held = drawn((40, 19), "int32"), drawn((19, 67), "int32", 1), drawn((40, 134), "int32", 2)
    outs = [np.array(held)[:, ::2] if spaced else np.array(held[:, :67]) for _ in range(2)]
    for out, device in zip(outs, (None, "simulated"), strict=True):
        assert tw.matmul(a, b, out, alpha=-3, beta=7, device=device) is out
    assert same(outs[1], outs[0])


def test_products_without_a_kernel_are_refused() -> None:
    one = np.ones((2, 2), np.complex64)
    with pytest.raises(DeviceError, match=r"NVIDIA A100.*, simulated: .*not in complex64; convert the operands"):
        tw.matmul(one, one, device="simulated:a100")
    with pytest.raises(DeviceError, match="not in complex64"):
        tw.plan((2, 2), (2, 2), "complex64", device="simulated:a100")


def test_large_products_of_booleans_use_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.multiply.engine.lowering._WORDS_WORK", 1)
    p, q = drawn((70, 80), "bool"), drawn((80, 66), "bool", 1)
    assert same(tw.matmul(p, q, device="simulated"), p @ q)


@pytest.mark.parametrize("name", ["simulated:t4", "simulated:RTX 4090", "simulated: nvidia-t4", "Simulated:h100"])
def test_a_gpu_is_named_as_its_record_is(name: str) -> None:
    backend: Any = opened(name)
    assert backend.gpu is machine.gpu(name.partition(":")[2].strip())
    a, b = drawn((5, 6), "float32"), drawn((6, 7), "float32", 1)
    assert same(tw.matmul(a, b, device=name), tw.matmul(a, b))


def test_without_a_name_settings_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_GPU", "t4")
    found: Any = opened("simulated")
    assert (found.gpu.key, found.cc) == ("t4", (7, 5))


@pytest.mark.parametrize(("name", "words"), [
    ("simulated:h10", r"a GPU must be one of .*\(got 'h10'\); did you mean h100"),
    ("simulated:v100", r"compute capability 7.5 or more \(got NVIDIA V100.*, 7.0\)"),
    ("cuda:1", r"`device` must be cpu, cuda, .* simulated or simulated:NAME \(got 'cuda:1'\)"),
])  # fmt: skip
def test_names_that_mean_no_device(name: str, words: str) -> None:
    with pytest.raises(ArgumentValueError, match=words):
        tw.matmul([[1.0]], [[1.0]], device=name)


@pytest.mark.skipif(real.available(), reason="there is a GPU: tests/hardware multiplies on it")
def test_without_a_gpu_cuda_says_so() -> None:
    with pytest.raises(DeviceError, match=r"a launch on a real GPU needs one \(no NVIDIA driver") as caught:
        tw.matmul([[1.0]], [[1.0]], device="cuda")
    assert 'device="simulated"' in str(caught.value)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The simulated driver in place of cuda.core, which needs a driver, and of the driver's bindings.

    Its own classes stand for cuda.core's in numba-cuda too; what they lack is made of the driver's calls here.
    """
    with session.simulated_gpu("a100") as inner:
        driver = Binding(inner)

        class Stream(host_side.CoreStream):
            def close(self) -> None:
                driver.cuStreamDestroy(self.handle)

        class Memory(views.HeldMemory):
            def close(self, stream: Any) -> None:
                driver.cuMemFree(self.handle)

            def __del__(self) -> None:
                """Nothing is freed automatically."""

        class Device(host_side.Device):
            def create_stream(self) -> Stream:
                return Stream(driver.cuStreamCreate(0)[1])

            def allocate(self, size: int, *, stream: Any = None) -> Any:
                return Memory(inner, size)

        core = SimpleNamespace(
            Device=functools.partial(Device, inner), ObjectCode=linking.ObjectCode,
            LaunchConfig=launching.LaunchConfig, launch=launching.Launcher(inner).launch,
        )  # fmt: skip
        modules = {"cuda.core": core, "cuda.bindings.driver": driver}

        def no_assembler(*given: Any) -> bytes:
            raise MissingExtraError("the simulated driver runs PTX", "gpu")

        monkeypatch.setattr(real, "require", lambda module, purpose: modules[module])
        monkeypatch.setattr(real, "unavailable", lambda: "")
        monkeypatch.setattr(real.assembler, "cubin", no_assembler)
        yield inner


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "uint8"])
@pytest.mark.parametrize("case", ["edges", "vectors", "batches", "no sums"])
def test_the_launcher_of_a_real_gpu_gives_the_same_bits(gpu: Any, case: str, dtype: str) -> None:
    a, b = (drawn(shape, dtype, seed) for seed, shape in enumerate(SHAPES[case]))
    tw.matmul(a, b, device="cuda")  # the variables of its program stay
    before, held = gpu.launches, gpu.memory.allocated_bytes
    found = tw.matmul(a, b, device="cuda")
    expected = tw.matmul(a, b)
    assert same(found, expected)
    assert gpu.launches - before == (case != "no sums"), "on the driver, and one launch for a batch"
    assert gpu.memory.allocated_bytes == held, "all memory is freed"


def test_a_real_gpu_has_a_plan_and_its_name_in_refusals(gpu: Any) -> None:
    assert tw.plan((100, 200), (200, 300), device="cuda").path == "shared_memory_16"
    with pytest.raises(DeviceError, match=r"NVIDIA A100.*: kernels for GPUs sum in .*, not in complex128"):
        tw.matmul([[1j]], [[1.0]], device="cuda")


def test_algebras_and_epilogues_of_a_real_gpu_give_the_same_bits(gpu: Any) -> None:
    a, b, row = drawn((9, 8), "float32"), drawn((8, 7), "float32", 1), drawn((7,), "float32", 2)
    asked: dict[str, Any] = {
        "algebra": "min-plus", "epilogue": lambda least, x: tw.relu(least) + x, "epilogue_args": (row,),
    }  # fmt: skip
    assert same(tw.matmul(a, b, device="cuda", **asked), tw.matmul(a, b, **asked))
