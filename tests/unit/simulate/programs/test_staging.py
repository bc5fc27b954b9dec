"""Arguments on a device made of byte arrays: which share memory, which are copied back, which copies are released."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.errors import ArgumentTypeError
from tilewright.simulate.programs.array_arguments import Region, stage

STEP = 1 << 30


class Device:
    """Allocation i is at (i + 1) * STEP."""

    def __init__(self) -> None:
        self.copies: list[npt.NDArray[np.uint8]] = []

    def resident(self, array: Any) -> int:
        return int(array.address)

    def copied(self, region: Region) -> tuple[int, npt.NDArray[np.uint8]]:
        copy: npt.NDArray[np.uint8] = np.zeros(max(region.lead_bytes + region.size_bytes, 1), np.uint8)
        for array in region.arrays:
            region.elements(array, copy)[...] = array
        self.copies.append(copy)
        return len(self.copies) * STEP, copy


class Resident:
    address, dtype, shape, strides = 77, np.dtype(np.int8), (3,), (1,)


def test_arrays_that_share_elements_are_one_copy_and_are_copied_back() -> None:
    device, base = Device(), np.arange(24, dtype=np.int32)
    low, high, apart, there = base[:8], base[20:3:-4], np.ones(3), Resident()
    staged = stage((low, (high, apart), 5, there, low), device)
    assert staged.address_of(low) == staged.address_of(high) - 20 * 4 == STEP
    assert (staged.address_of(apart), staged.address_of(there), len(device.copies)) == (2 * STEP, 77, 2)
    assert device.copies[0].view(np.int32)[[0, 7, 8, 20]].tolist() == [0, 7, 8, 20]
    device.copies[0].view(np.int32)[:] *= -1
    device.copies[1].view(float)[:] = 4
    staged.copy_back()
    written = {*range(8), 20, 16, 12, 8, 4}
    assert base.tolist() == [-i if i in written else i for i in range(24)]
    assert apart.tolist() == [4, 4, 4]


def test_input_only_arrays_are_not_copied_back() -> None:
    device, once = Device(), np.ones(1, np.int32)
    read_only, every = np.ones(4, np.int32), np.lib.stride_tricks.as_strided(once, (9,), (0,))
    read_only.flags.writeable = False
    staged = stage((read_only, every, np.empty((0, 3))), device)
    for copy in device.copies:
        copy[:] = 7
    staged.copy_back()
    assert (read_only.tolist(), once.tolist()) == ([1] * 4, [1])


def test_large_copies_are_released_when_all_their_arrays_are_written() -> None:
    device, large = Device(), np.zeros(1 << 19)
    given: list[tuple[int, int]] = []
    staged = stage((large[:10], large, np.zeros(4)), device)
    device.copies[0][:] = 0xFF

    def clear(address: int, size: int) -> None:
        assert np.isnan(large).all(), "written by then"
        given.append((address, size))

    staged.copy_back(clear)
    assert given == [(STEP, large.nbytes)]


def test_python_objects_are_never_copied() -> None:
    with pytest.raises(ArgumentTypeError, match=r"plain dtype \(got object\)"):
        stage((np.array([None]),), Device())
