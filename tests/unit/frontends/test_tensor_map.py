"""Tensor maps by the driver's calls: valid maps, and refused ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver
from numba import cuda

import tilewright as tw
from tilewright.errors import TilewrightWarning
from tilewright.gpu.intrinsics import (
    cp_async_bulk_commit_group,
    cp_async_bulk_tensor_2d_load,
    cp_async_bulk_tensor_2d_store,
    cp_async_bulk_wait_group,
    mbarrier_arrive_expect_tx,
    mbarrier_init,
    mbarrier_try_wait_parity,
)
from tilewright.gpu.tensor_maps import ImageMap, TensorMap
from tilewright.simulate.device.gpu import SimulatedGpu

TYPES, SWIZZLES = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
INTERLEAVES, PROMOTIONS = driver.CUtensorMapInterleave, driver.CUtensorMapL2promotion
FILLS = driver.CUtensorMapFloatOOBfill
NONE = INTERLEAVES.CU_TENSOR_MAP_INTERLEAVE_NONE


def longs(*numbers: int) -> list[Any]:
    return [driver.cuuint64_t(x) for x in numbers]


def words(*numbers: int) -> list[Any]:
    return [driver.cuuint32_t(x) for x in numbers]


#: Arguments of a map of 100 x 64 floats in boxes of 16 x 8.
RIGHT: dict[str, Any] = {
    "type": TYPES.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "rank": 2, "address": 1 << 36, "extents": longs(64, 100),
    "strides": longs(256), "box": words(8, 16), "steps": words(1, 1), "interleave": NONE,
    "swizzle": SWIZZLES.CU_TENSOR_MAP_SWIZZLE_32B,
    "promotion": PROMOTIONS.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    "fill": FILLS.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
}  # fmt: skip


def tiled(**changes: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = driver.cuTensorMapEncodeTiled(*(RIGHT | changes).values())
    return found


def raw(tensor: Any) -> bytes:
    return np.array([int(word) for word in tensor.opaque], np.uint64).tobytes()


def test_a_map_is_the_one_that_a_launch_makes_by_the_same_rules(gpu: SimulatedGpu) -> None:
    code, made = tiled()
    assert code == driver.CUresult.CUDA_SUCCESS
    x = np.zeros((100, 64), np.float32)
    assert raw(made) == TensorMap(x, (16, 8), swizzle=32).encoded(1 << 36)
    assert driver.cuTensorMapReplaceAddress(made, (1 << 36) + 64) == (driver.CUresult.CUDA_SUCCESS,)
    assert raw(made) == TensorMap(x, (16, 8), swizzle=32).encoded((1 << 36) + 64)


def test_a_map_of_images(gpu: SimulatedGpu) -> None:
    code, made = driver.cuTensorMapEncodeIm2col(
        TYPES.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, 1 << 36, longs(16, 9, 7, 3), longs(32, 288, 2016), [-1, 0], [1, -2],
        8, 100, words(1, 2, 1, 1), NONE, SWIZZLES.CU_TENSOR_MAP_SWIZZLE_NONE,
        PROMOTIONS.CU_TENSOR_MAP_L2_PROMOTION_NONE, FILLS.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    )  # fmt: skip
    assert code == driver.CUresult.CUDA_SUCCESS
    x = np.zeros((3, 7, 9, 16), np.float16)
    same = ImageMap(x, 8, 100, low=(0, -1), high=(-2, 1), steps=(1, 1, 2, 1), fill="nan")
    assert raw(made) == same.encoded(1 << 36)


INVALID = {
    "rank": ({"rank": 6}, "the rank must be 1 to 5"),
    "fewer extents": ({"extents": longs(64)}, r"globalDim as long \(got 2, 1\)"),
    "address": ({"address": (1 << 36) + 8}, "the address must be a multiple of 16 bytes"),
    "extents": ({"extents": longs(64, 0)}, r"globalDim must be 1 to 2\^32"),
    "strides": ({"strides": longs(264)}, r"globalStrides must be multiples of 16 bytes below 2\^40"),
    "no strides": ({"strides": longs()}, r"strides must have 1 numbers \(got 0\)"),
    "wide": ({"strides": longs(1 << 40)}, "globalStrides must be"),
    "box": ({"box": words(8, 257)}, "boxDim must be 1 to 256"),
    "row": ({"box": words(6, 16)}, r"multiple of 16 bytes \(got 24\)"),
    "swizzle": ({"box": words(16, 16)}, r"at most the swizzle, 32 bytes \(got 64\)"),
    "steps": ({"steps": words(1, 9)}, "elementStrides must be 1 to 8"),
    "fill": (
        {"type": TYPES.CU_TENSOR_MAP_DATA_TYPE_INT32,
         "fill": FILLS.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA},
        "only floats can be filled with NaN",
    ),
}  # fmt: skip
LATER = {
    "type": ({"type": TYPES.CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B}, "element type 16U4_ALIGN8B is not implemented"),
    "flushed": ({"type": TYPES.CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ}, "element type FLOAT32_FTZ is not implemented"),
    "interleave": ({"interleave": INTERLEAVES.CU_TENSOR_MAP_INTERLEAVE_16B}, "interleaved layouts are not implemented"),
    "atoms": ({"swizzle": SWIZZLES.CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B}, "swizzle 128B_ATOM_32B is not implemented"),
}


@pytest.mark.parametrize("case", [*INVALID, *LATER])
def test_wrong_maps_have_the_driver_s_code_and_a_warning(gpu: SimulatedGpu, case: str) -> None:
    changes, words_ = (INVALID | LATER)[case]
    with pytest.warns(TilewrightWarning, match=f"^cuTensorMapEncodeTiled: .*{words_}"):
        (code,) = tiled(**changes)
    assert code.name == ("CUDA_ERROR_INVALID_VALUE" if case in INVALID else "CUDA_ERROR_NOT_SUPPORTED")


@cuda.jit
def moved(source: Any, target: Any, x: Any) -> None:
    tile = cuda.shared.array((16, 8), np.float32, alignment=128)
    full = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        mbarrier_init(full, 0, 1)
        mbarrier_arrive_expect_tx(full, 0, 512)
        cp_async_bulk_tensor_2d_load(tile, (0, 0), source, 0, (8, 96), full, 0)
        while not mbarrier_try_wait_parity(full, 0, 0):
            pass
        cp_async_bulk_tensor_2d_store(target, 0, (0, 90), tile, (0, 0))
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group(0)
        x[0, 1] = 5.0


def on_device(array: Any, fill: Any) -> Any:
    """A map of a device array, on the device."""
    code, made = tiled(
        address=array.device_ctypes_pointer.value, swizzle=SWIZZLES.CU_TENSOR_MAP_SWIZZLE_NONE, fill=fill
    )
    assert code == driver.CUresult.CUDA_SUCCESS
    return cuda.to_device(np.array([int(word) for word in made.opaque], np.uint64))


def test_a_program_copies_boxes_by_maps_that_it_makes() -> None:
    """The target is also an argument, and checked: it stays the map's memory."""
    given = np.random.default_rng(1).random((100, 64), np.float32)
    with tw.simulated_gpu("h100", check=True) as gpu:
        x, y = cuda.to_device(given), cuda.to_device(np.zeros_like(given))
        nans = FILLS.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
        moved[1, 32](on_device(x, nans), on_device(y, nans), y)
        found = y.copy_to_host()
        assert gpu.findings == ()
    wanted = np.zeros_like(given)
    wanted[90:94, :8] = given[96:, 8:16]
    wanted[94:, :8] = np.nan
    wanted[0, 1] = 5
    assert np.array_equal(found, wanted, equal_nan=True)


def test_the_driver_s_own_call_is_restored_afterwards() -> None:
    before = driver.cuTensorMapEncodeTiled
    with tw.simulated_gpu("h100"):
        assert driver.cuTensorMapEncodeTiled is not before
    assert driver.cuTensorMapEncodeTiled is before
