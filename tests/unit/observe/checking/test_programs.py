"""Programs of several launches, checked as a whole on the simulated GPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_programs import added, checked
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

import tilewright as tw
from tilewright.frontends.session import simulated_gpu


@cuda.jit
def filled(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def rest_filled(x, start, value):
    i = start + cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def past_the_end(x):
    x[cuda.grid(1)] = 1


@cuda.jit
def past_the_tile(x):
    tile = cuda.shared.array(32, np.float32)
    tile[cuda.threadIdx.x + 100_000] = x[0]
    cuda.syncthreads()
    x[0] = tile[0]


def line_of(text: str, file: str = __file__) -> int:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_one_launch_may_read_another_s_results() -> None:
    def program() -> None:
        x, y, out = (cuda.device_array(64, np.float32) for _ in range(3))
        filled[2, 32](x, 1)
        filled[2, 32](y, 2)
        added[2, 32](x, y, out)
        assert out.copy_to_host().tolist() == [3.0] * 64

    assert checked(program) == ()


def test_the_launch_and_the_array_that_was_not_set_are_reported() -> None:
    def program() -> None:
        x, y, out = (cuda.device_array(64, np.float32) for _ in range(3))
        filled[2, 32](x, 1)
        added[2, 32](x, y, out)

    (found,) = checked(program)
    assert (found.code, found.launch, found.details["array"]) == ("TW201", 1, "y")
    file = inspect.getfile(added.py_func)
    assert (found.source, found.line) == (file, line_of("out[i] = x[i] + y[i]", file))
    assert (found.block, found.thread, found.count) == ((0, 0, 0), (0, 0, 0), 64)


def test_a_remainder_by_another_launch_is_no_floor_division() -> None:
    def program(*, whole: bool) -> None:
        x = cuda.device_array(100, np.float32)
        filled[100 // 32, 32](x, 1)
        if whole:
            rest_filled[1, 32](x, 96, 1)

    assert checked(lambda: program(whole=True)) == ()
    (found,) = checked(lambda: program(whole=False))
    assert (found.code, found.line) == ("TW501", line_of("filled[100 // 32, 32](x, 1)"))
    assert found.details["defined_at"] == f"{__file__}:{line_of('def filled(x, value):')}"


def test_the_same_finding_of_many_launches_is_one() -> None:
    def program() -> None:
        x = cuda.to_device(np.zeros(32, np.float32))
        for _ in range(3):
            past_the_end[1, 64](x)

    (found,) = checked(program)
    assert (found.code, found.launch, found.count, found.thread) == ("TW101", 0, 96, (32, 0, 0))


@cuda.jit
def sum_unguarded(a, b, c):
    i = cuda.grid(1)
    c[i] = a[i] + b[i]


@cuda.jit
def shifted(x, out, by):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i + by]


class Alias:
    """A device array as another library sees it: an address."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__)


def freed_alias(size: int) -> Any:
    """An array whose memory was freed."""
    alias = cuda.as_cuda_array(Alias(cuda.to_device(np.ones(size, np.float32))))
    cuda.current_context().memory_manager.deallocations.clear()
    return alias


def on_host(size: int) -> Any:
    return np.ones(size, np.float32)


def several_sizes(make: Callable[[int], Any], *sizes: int) -> None:
    for size in sizes:
        sum_unguarded[4, 32](make(size), make(size), make(size))
        cuda.current_context().memory_manager.deallocations.clear()


OVERRUN = [("TW101", "a", 28), ("TW101", "b", 28), ("TW101", "c", 28)]
#: A program, and code, array and count of what must be found.
LIFELESS: dict[str, tuple[Callable[[], None], list[tuple[str, str, int]]]] = {
    "host arrays": (lambda: several_sizes(on_host, 128, 100), OVERRUN),
    "device arrays": (lambda: several_sizes(lambda n: cuda.to_device(on_host(n)), 1000, 100), OVERRUN),
    "ever smaller": (lambda: several_sizes(on_host, *range(5000, 200, -400), 100), OVERRUN),
    "beyond the zone": (
        lambda: (several_sizes(on_host, 100_000), shifted[1, 32](on_host(100), on_host(32), 30_000)),
        [("TW101", "x", 32)],
    ),
    "freed": (lambda: shifted[1, 32](freed_alias(1000), on_host(32), 0), [("TW105", "x", 32)]),
    "freed, past its end": (lambda: shifted[1, 32](freed_alias(1000), on_host(32), 990), [("TW105", "x", 32)]),
    "freed beside live ones": (
        lambda: sum_unguarded[4, 32](freed_alias(128), on_host(128), on_host(100)),
        [("TW101", "c", 28), ("TW105", "a", 128)],
    ),
    "freed, and others made since": (
        lambda: shifted[1, 32](freed_alias(32), cuda.to_device(on_host(32)), 0),
        [("TW105", "x", 32)],
    ),
}


@pytest.mark.parametrize("kind", LIFELESS)
def test_an_overrun_and_a_use_of_freed_memory_are_reported_separately(kind: str) -> None:
    program, due = LIFELESS[kind]
    found = [one for one in checked(program) if one.code != "TW501"]  # some grids are too small as well
    assert sorted((one.code, one.details.get("array"), one.count) for one in found) == due


@cuda.jit
def waits(x):
    cuda.cg.this_grid().sync()
    x[0] = 1


#: Launches that a GPU refuses or ends -> code of the driver's error, and of the finding.
FAILING: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "threads": (lambda x: filled[1, 1025](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW502"),
    "a dimension of a block": (lambda x: filled[1, (1, 1, 65)](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW502"),
    "grid": (lambda x: filled[(1, 65536), 32](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW504"),
    "shared memory": (lambda x: filled[1, 32, 0, 300_000](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW505"),
    "an empty grid": (lambda x: filled[31 // 32, 32](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW507"),
    "an empty block": (lambda x: filled[1, (32, 0)](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW507"),
    "blocks that wait": (waits[4000, 1024], "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "TW508"),
    "consent": (lambda x: filled[1, 32, 0, 49_153](x, 1), "CUDA_ERROR_INVALID_VALUE", "TW505"),
    "address": (past_the_end[1 << 20, 64], "CUDA_ERROR_ILLEGAL_ADDRESS", "TW101"),
    "shared address": (past_the_tile[1, 32], "CUDA_ERROR_ILLEGAL_ADDRESS", "TW103"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_launch_that_fails_is_a_finding_and_the_usual_error_of_the_program(kind: str) -> None:
    """A program that takes another path after a failed launch takes the same path under check."""
    launch, code, found = FAILING[kind]
    shown: list[str] = []

    def program() -> None:
        x = cuda.to_device(np.zeros(32, np.float32))
        for step in (launch, lambda x: filled[1, 32](x, 2), lambda x: shown.append(str(x.copy_to_host().tolist()))):
            try:
                step(x)
            except CudaAPIError as error:
                shown.append(error.code.name)

    with simulated_gpu():
        program()
    without, shown[:] = list(shown), []
    broken = code == "CUDA_ERROR_ILLEGAL_ADDRESS"  # the device does no more work
    assert without == [code, *([code, code] if broken else [str([2.0] * 32)])]
    assert [one.code for one in checked(program)] == [found]
    assert shown == without


def test_dynamic_shared_memory_that_was_not_allowed() -> None:
    def program(shared_bytes: int) -> None:
        x = cuda.device_array(32, np.float32)
        with nullcontext() if shared_bytes <= 49_152 else pytest.raises(CudaAPIError):
            filled[1, 32, 0, shared_bytes](x, 1)

    assert checked(lambda: program(49_152)) == ()
    (found,) = checked(lambda: program(49_153))
    assert found.code == "TW505"
    assert "this kernel may use more than 49,152 only if" in found.message
    assert "cudaFuncAttributeMaxDynamicSharedMemorySize, 49153)`" in found.remedy
    (found,) = checked(lambda: program(300_000))
    assert "may have 232,448 on the NVIDIA H100" in found.message and "cudaFuncSetAttribute" not in found.remedy


def test_simulated_gpu_can_check() -> None:
    with tw.simulated_gpu("a100", check=True) as gpu:
        x = cuda.to_device(np.zeros(32, np.float32))
        past_the_end[1, 64](x)
        assert [one.code for one in gpu.findings] == ["TW101"]
    assert [one.code for one in gpu.findings] == ["TW101"]
    with tw.simulated_gpu() as gpu:
        filled[1, 32](cuda.device_array(32, np.float32), 1)
    assert gpu.findings == ()


@cuda.jit
def copied(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


def test_a_finding_in_a_host_array_with_gaps_explains_its_copy() -> None:
    """numba-cuda copies only its elements, but reads them by the host's strides."""
    given, out = np.arange(200, dtype=np.float32), np.zeros(100, np.float32)
    (found,) = checked(lambda: copied[1, 128](given[::2], out))
    assert found.code == "TW101"
    assert "whose strides (8,) reach past its allocation: pass a host array with gaps as numpy.asc" in (found.message)
    assert checked(lambda: copied[1, 128](np.ascontiguousarray(given[::2]), out)) == ()
