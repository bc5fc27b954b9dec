"""The table of names: all exist, all are restored."""

from __future__ import annotations

import gc
import signal
import sys
import time
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda.core.errors import NumbaPerformanceWarning
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.utils import stream_list

import tilewright as tw
from tilewright.errors import DeviceError
from tilewright.frontends import imported
from tilewright.frontends.driver_binding import CALLS
from tilewright.frontends.frontend import replacing
from tilewright.frontends.numba import names
from tilewright.frontends.this_process import ThisProcess
from tilewright.ground.native import replaced_names
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import current_gpu, installed_gpu

NAMES = [(module, name) for module, name, _ in names.rows(SimulatedGpu(ThisProcess()), names.Finalizers())]


@cuda.jit
def add_one(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_numba_cuda_has_the_name(module: str, name: str) -> None:
    replaced_names.owner_of(module, name)


def test_warnings_about_the_speed_of_a_gpu_are_silent_on_a_simulated_one_alone() -> None:
    """Others are not, and the program's filters stay as they are."""
    from numba.cuda.core import config

    before = (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters = list(warnings.filters)
        with tw.simulated_gpu():
            add_one[1, 32](np.zeros(32))
            add_one[2, 32](cuda.to_device(np.zeros(32)))
            assert warnings.filters == filters
            warnings.warn("mine", NumbaPerformanceWarning, stacklevel=1)
    assert [str(one.message) for one in caught] == ["mine"]
    assert (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY) == before == (1, 1)


def test_a_missing_name_is_reported() -> None:
    with pytest.raises(AttributeError, match="launch_everything"):
        replaced_names.owner_of("numba.cuda.dispatcher", "_Kernel.launch_everything")


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_driver_call_is_one_of_the_driver_s(name: str) -> None:
    from cuda.bindings import driver

    assert hasattr(driver, name)


def state() -> list[Any]:
    """The object under each name, and the state of numba-cuda's driver."""
    found = []
    for module, name in NAMES:
        owner, last = replaced_names.owner_of(module, name)
        found.append(vars(owner)[last])
    return [*found, dict(vars(numba_driver.driver))]


def test_everything_is_restored() -> None:
    before = state()
    with tw.simulated_gpu():
        assert all(now is not then for now, then in zip(state()[:-1], before[:-1], strict=True))
        add_one[1, 32](np.zeros(3))
    assert state() == before


def test_everything_is_restored_after_an_error() -> None:
    before = state()
    with pytest.raises(KeyError), tw.simulated_gpu():
        raise KeyError
    assert state() == before
    with pytest.raises(DeviceError, match="got none installed"):
        current_gpu()


def test_everything_is_restored_where_a_package_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(gpu: SimulatedGpu) -> Any:
        raise DeviceError("another version")

    table: Any = ModuleType("failing_table")
    table.rows, before = rows, state()
    monkeypatch.setitem(sys.modules, "failing_table", table)
    monkeypatch.setattr(imported, "replacing", lambda: {**replacing(), "json": "failing_table"})
    with pytest.raises(DeviceError, match="another version") as raised, tw.simulated_gpu():
        pass
    assert (state(), installed_gpu()) == (before, None), raised  # which holds what the call had made


def test_arrays_that_outlive_the_gpu_free_nothing(recwarn: pytest.WarningsRecorder, capfd: Any) -> None:
    with tw.simulated_gpu():
        device = cuda.to_device(np.arange(5))
        managed = cuda.managed_array(5, np.float32)
        managed[:] = 7
        pinned = cuda.pinned_array(5, np.float32)
        pinned[:] = 8
    assert managed.tolist() == [7] * 5
    assert pinned.tolist() == [8] * 5
    del device, managed, pinned
    gc.collect()
    assert capfd.readouterr().err == ""


def test_a_kernel_is_loaded_again_on_each_gpu() -> None:
    x = np.zeros(4, np.int64)
    for name in ("h100", "a100", "h100"):
        with tw.simulated_gpu(name) as gpu:
            add_one[1, 32](x)
            assert len(gpu.libraries) == 1
            assert gpu.libraries.popitem()[1].module.target.startswith("sm_9" if name == "h100" else "sm_80")
    assert x.tolist() == [3] * 4


def test_ctrl_c_while_an_argument_is_typed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.cuda import dispatcher

    real, struck = dispatcher.typeof, []

    def typed(value: Any, purpose: Any) -> Any:
        if not struck:
            struck.append(value)
            signal.raise_signal(signal.SIGINT)
        return real(value, purpose)

    monkeypatch.setattr(dispatcher, "typeof", typed)
    with tw.simulated_gpu(), pytest.raises(KeyboardInterrupt):
        add_one[1, 32](np.zeros((1, 2, 1, 2, 1), np.int8))  # of a type unknown to C so far
        for _ in range(500):
            time.sleep(0.01)
    assert struck


@pytest.mark.parametrize("compiled_by", ["the simulated GPU", "a program"])
def test_ctrl_c_while_registries_are_read_leaves_the_compiler_intact(compiled_by: str) -> None:
    from numba.cuda.descriptor import cuda_target

    class Striking(list[Any]):
        struck = False

        def __getitem__(self, index: Any) -> Any:
            if not self.struck:
                self.struck = True
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    def launch() -> None:
        turn, x = time.monotonic(), np.zeros(1)  # a kernel that no cache has

        @cuda.jit
        def kernel(x):
            x[0] = turn

        if compiled_by == "a program":
            tw.simt.launch(kernel, 1, 1, (x,))
        else:
            with tw.simulated_gpu():
                kernel[1, 1](x)

    launch()
    loader = next(iter(cuda_target.target_context._registries.values()))
    seen, striking = loader._registrations["functions"], Striking()
    loader._registrations["functions"] = stream_list(striking)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch()
        assert striking.struck
        launch()
    finally:
        loader._registrations["functions"] = seen


def test_an_unknown_gpu_is_refused_before_anything_is_replaced() -> None:
    before = state()
    with pytest.raises(tw.errors.ArgumentValueError, match="a GPU must be one of"), tw.simulated_gpu("voodoo"):
        pass
    assert state() == before


def test_device_functions_of_a_session_are_joined_with_kernels_compiled_without_one() -> None:
    function = cuda.jit(device=True)(lambda x: x + 1)  # Numba keeps what it compiled of it

    def kernel(x):
        x[0] = function(x[0])

    def again(x):
        x[0] = function(function(x[0]))

    x = np.zeros(1)
    with tw.simulated_gpu():
        cuda.jit(kernel)[1, 1](x)
    tw.simt.launch(cuda.jit(lineinfo=True)(again), 1, 1, (x,))
    assert tw.check(kernel, 1, 1, (x,)) == ()
    with tw.simulated_gpu():
        cuda.jit(again)[1, 1](x)
    assert x[0] == 6
