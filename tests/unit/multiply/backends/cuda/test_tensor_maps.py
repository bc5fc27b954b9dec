"""Tensor maps, structures and clusters by cuda.core and cuda.bindings, on the simulated libcuda.

The oracle is the simulated GPU's own launch, which encodes maps without a driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from family import gpu_of

import tilewright as tw
from tilewright.errors import DeviceError, LaunchError, MissingExtraError
from tilewright.gpu.tensor_maps import ImageMap, TensorMap
from tilewright.ladder import operands
from tilewright.multiply.backends import estimates, inventory, ranking
from tilewright.multiply.backends.cuda import current, device, products, quick, tensor_maps
from tilewright.multiply.backends.cuda.resident import Resident
from tilewright.multiply.backends.cuda.tensor_maps import of_driver
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import same_bits
from tilewright.programs import Program
from tilewright.show.rates import tuner
from tilewright.show.rates.turns import Ready, Spread
from tilewright.simulate.programs import assembler

cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
Array = npt.NDArray[Any]
IMAGES = np.zeros((3, 7, 9, 16), np.float16)


@pytest.fixture
def gpu() -> Iterator[Any]:
    with tw.simulated_gpu("h100") as found:
        yield found


@pytest.mark.parametrize("map_", [
    TensorMap(np.zeros(64, np.uint8), (32,)),
    TensorMap(np.zeros((100, 64), np.float32), (16, 8), swizzle=32),
    TensorMap(np.zeros((100, 64), np.float64), (16, 8), steps=(3, 1), fill="nan"),
    TensorMap(np.zeros((2, 3, 4, 5, 32), np.int64), (2, 1, 3, 2, 4)),
    TensorMap(np.zeros((40, 64), np.float16), (7, 64), swizzle=128),
    ImageMap(IMAGES, 8, 100, low=(0, -1), high=(-2, 1), steps=(1, 1, 2, 1), fill="nan"),
], ids=lambda map_: f"{type(map_).__name__} {map_.array.dtype} {map_.array.ndim}")  # fmt: skip
def test_the_driver_gets_the_map_s_fields(gpu: Any, map_: Any) -> None:
    """The library reads the call's parameters in C's order and writes the simulated GPU's layout."""
    assert of_driver(map_).encoded(1 << 36) == map_.encoded(1 << 36)


def test_a_map_is_encoded_once_for_each_address(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    encode = tensor_maps._encoded
    monkeypatch.setattr(tensor_maps, "_encoded", lambda one: (asked.append(one.address), encode(one))[1])
    map_ = of_driver(TensorMap(np.zeros((100, 64), np.float32), (16, 8)))
    found = [map_.encoded(address) for address in (256, 512, 256, 512)]
    assert asked == [256, 512]
    assert (found[:2] == found[2:], found[0] == found[1]) == (True, False)
    for address in range(0, 16 * 200, 16):
        map_.encoded(address)
    assert len(map_._known) <= tensor_maps._MOST


def test_a_refusal_by_the_driver_is_an_error(gpu: Any) -> None:
    map_ = of_driver(TensorMap(np.zeros((100, 64), np.float32), (16, 8)))
    with (
        pytest.warns(match="multiple of 16"),
        pytest.raises(DeviceError, match="encoding a tensor map failed: the driver reports CUDA_ERROR_INVALID_VALUE"),
    ):
        map_.encoded(8)


@pytest.mark.parametrize("name", [one.name for one in catalogue.records() if one.operands == "boxes"])
def test_kernels_that_take_maps_give_the_simulated_gpus_bits(name: str) -> None:
    record = catalogue.find(name)
    gpu = gpu_of(record)
    m, n, k = 70, 90, 72
    a, b = operands(m, n, k, record.dtypes[0])
    program = record.program(record.dtypes[0])
    found = []
    with tw.simulated_gpu(gpu):
        for opened in (inventory.opened("cuda"), inventory.opened(f"simulated:{gpu}")):
            c = record.blank(m, n, record.dtypes[0])
            opened.run(record, program, a, b, c)  # type: ignore[attr-defined]  # both launch
            found.append(c)
    assert found[0].any()
    assert same_bits(*found)


def test_a_product_on_a_gpu_takes_maps(gpu: Any) -> None:
    a, b = (x.astype("f2") for x in operands(70, 90, 72, "float32"))
    asked: dict[str, Any] = {"order": "fast", "device": "cuda"}
    assert tw.plan(a.shape, b.shape, "float16", **asked).path.startswith("hopper")
    assert same_bits(tw.matmul(a, b, **asked), tw.matmul(a, b, **asked | {"device": "simulated:h100"}))


@pytest.fixture
def vendors_names(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """cuda.core's own names for arrays on the GPU, as with a real GPU; the simulated libcuda runs no machine code."""
    import cuda.bindings.driver
    import cuda.core

    def refused(*_: Any) -> Any:
        raise MissingExtraError("the simulated GPU runs PTX", "gpu")

    monkeypatch.setattr(current, "names", lambda: cuda.core)
    monkeypatch.setattr(current, "driver", lambda: cuda.bindings.driver)
    monkeypatch.setattr(assembler, "cubin", refused)
    return gpu


class There:
    """A copy on the GPU, by the interface."""

    def __init__(self, array: Array) -> None:
        self.held = cuda.to_device(array)
        self.__cuda_array_interface__ = self.held.__cuda_array_interface__ | {"typestr": array.dtype.str}


@pytest.mark.parametrize("order", ["canonical", "fast"])
def test_arrays_on_a_gpu_go_through_cuda_core(vendors_names: Any, order: Any) -> None:
    assert not current.is_replaced()
    a, b = (x.astype("f2") for x in operands(70, 90, 72, "float32"))
    expected = tw.matmul(a, b, order=order, device="simulated:h100")
    x, y = There(a), There(b)
    for _ in range(2):  # by the rules, and past them
        out = There(np.zeros((70, 90), "f2"))
        before = vendors_names.launches
        tw.matmul(x, y, out, order=order)
        assert vendors_names.launches > before
        assert same_bits(out.held.copy_to_host(), expected)
    with cuda.pinned(np.zeros(1)):  # another address: maps are encoded for it
        other = There(a[::-1].copy())
        tw.matmul(other, y, out, order=order)
    assert same_bits(out.held.copy_to_host(), expected[::-1])


def test_a_tuner_times_by_events_and_arrays_on_the_gpu_take_the_quickest(
    vendors_names: Any, cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operands are copied before the turns, and stay on the GPU."""

    def race(contenders: Sequence[Ready]) -> list[Spread]:
        before = vendors_names.launches
        with monkeypatch.context() as nothing:
            for name in ("cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemAlloc"):
                nothing.delattr(current.driver(), name)
            assert all(one.timed is not None and one.timed() > 0 for one in contenders)
        assert vendors_names.launches == before + len(contenders)
        return [Spread(one, one, one) for one in (2e-3, 1e-3)]

    here, extents = current.device(), (40, 24, 20)
    before = products._ready(Kind(*["float32"] * 4), *extents, here, (False, False)).record.name
    found = tuner.tune("cuda", extents, np.dtype("float32"), few=2, race=race)
    assert found.tried[0].ranked.name == before
    assert found.best is not None and found.best.kernel == found.tried[1].ranked.name
    assert products._ready(found.kind, *extents, here, (False, False)).record.name == found.best.kernel
    assert here.identity.startswith("cuda NVIDIA H100") and here.identity.split()[-1].isdecimal()
    products.forget()


@pytest.mark.parametrize(("name", "kind"), [
    ("results_8", "float32"), ("tensor_core", "float16"), ("split_k", "float16"), ("transposed", "float16"),
    ("hopper_tn", "bfloat16"), ("tensor_core_s8", "int8"), ("hopper_s8", "int8"), ("hopper_digits", "int32"),
    ("hopper_tf32x3", "float32"),
])  # fmt: skip
def test_products_of_operands_that_stay_on_a_gpu_are_right(vendors_names: Any, name: str, kind: str) -> None:
    record, (a, b) = catalogue.find(name), operands(70, 96, 128, kind)
    x, y = (np.asarray(one, order="F" if turned else "C") for one, turned in zip((a, b), record.columns, strict=True))
    made = Resident(record, record.program(kind, (9, 0)), x, y, record.blank(70, 96, kind).dtype)
    for _ in range(2):
        assert made() > 0
        assert record.wrong_elements(made.product(), a, b) == 0


def test_results_on_a_gpu_are_stored_by_boxes_if_possible(vendors_names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """C by copies of boxes, by lanes where its rows are 180 bytes, and by lanes where it begins 2 bytes further."""
    record = catalogue.find("hopper_stores")
    stored: list[bool] = []
    last = type(record)._last
    estimate = ranking.Ranked(record.name, 1e-6, "memory", 1.0, "estimated")
    chosen = ranking.Choice((estimates.Candidate(record, "float16"),), (estimate,))
    monkeypatch.setattr(ranking, "chosen", lambda *_: chosen)
    monkeypatch.setattr(type(record), "_last", lambda *given: (found := last(*given), stored.append(bool(found[1])))[0])
    loaded: Any = current.loaded
    loaded.cache_clear()  # by earlier tests, for a closed GPU
    quick.forget()
    for n, skipped in (96, 0), (90, 0), (96, 1):
        a, b = (x.astype("f2") for x in operands(70, n, 72, "float32"))
        x, y, around = There(a), There(b), There(np.full(70 * n + 8, 77, "f2"))
        begin = around.__cuda_array_interface__["data"][0] + 2 * skipped
        there = {"shape": (70, n), "strides": None, "data": (begin, False)}
        out = SimpleNamespace(held=around, __cuda_array_interface__=around.__cuda_array_interface__ | there)
        tw.matmul(x, y, out, order="fast")
        found = around.held.copy_to_host()
        assert stored[-1] == (n == 96 and not skipped), (n, skipped)
        assert record.wrong_elements(found[skipped : skipped + 70 * n].reshape(70, n), a, b) == 0, (n, skipped)
        assert (np.delete(found, np.s_[skipped : skipped + 70 * n]) == 77).all(), (n, skipped)
    quick.forget()


STRUCTURE = """
struct Given { double x; int n[4]; };
extern "C" __global__ void k(double *out, const Given given) { *out = given.x * given.n[threadIdx.x + 2]; }
"""


def test_a_structure_by_value(gpu: Any) -> None:
    class Given(ctypes.Structure):
        _fields_ = (("x", ctypes.c_double), ("n", ctypes.c_int * 4))

    out = np.zeros(1)
    run = device.launch(Program.from_cuda(STRUCTURE, "k", (9, 0)), 1, 1, (out, Given(1.5, (1, 2, 3, 4))))
    assert (out[0], run.seconds >= 0) == (4.5, True)


COPIED = """
extern "C" __global__ void k(const unsigned long long *map, unsigned long long *out) {
    out[threadIdx.x] = map[threadIdx.x];
}
"""


def test_a_map_in_memory_is_the_drivers(gpu: Any) -> None:
    """As kernels of Numba take it: an array of 16 words on the GPU."""
    out, array = np.zeros(16, np.uint64), np.zeros((100, 64), np.float32)
    map_ = TensorMap(array, (16, 8), swizzle=32)
    device.launch(Program.from_cuda(COPIED, "k", (9, 0)), 1, 16, (map_, out))
    assert out.tobytes() == map_.encoded(int(out[0]))
    assert out[0]


CLUSTERED = """
extern "C" __global__ void k(int *out%s) {
    int rank, blocks;
    asm("mov.u32 %%0, %%%%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %%0, %%%%cluster_nctarank;" : "=r"(blocks));
    out[blockIdx.x] = 10 * blocks + rank;
}
"""


@pytest.mark.parametrize("more", [("", ()), (", const struct { int x[6]; } unused", (bytes(24),))])
def test_a_launch_names_clusters(gpu: Any, more: tuple[str, tuple[bytes, ...]]) -> None:
    """By cuda.core, and by the driver's own call where a parameter is a structure."""
    source = CLUSTERED % ", const Unused unused" if more[0] else CLUSTERED % ""
    program = Program.from_cuda(f"struct Unused {{ int x[6]; }};\n{source}", "k", (9, 0))
    out = np.zeros(4, np.int32)
    device.launch(program, 4, 1, (out, *more[1]), cluster=2)
    assert out.tolist() == [20, 21, 20, 21]
    device.launch(program, 4, 1, (out, *more[1]))
    assert out.tolist() == [10] * 4
    with pytest.raises(LaunchError, match="the grid must be a multiple of the cluster"):
        device.launch(program, 4, 1, (out, *more[1]), cluster=3)


def test_a_cooperative_launch_is_requested() -> None:
    """From the driver's own call; cuda.core makes its own request."""
    from cuda.bindings import driver

    config = SimpleNamespace(grid=(2, 3, 1), block=(32, 1, 1), cluster=(2, 1, 1), shmem_size=5, is_cooperative=True)
    made = current._driver_config(driver, SimpleNamespace(handle=7), config)
    assert [made.gridDimX, made.gridDimY, made.sharedMemBytes, made.numAttrs] == [4, 3, 5, 2]
    assert int(made.attrs[1].id) == int(driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
    assert made.attrs[1].value.cooperative == 1
