"""`tilewright ladder --device opencl`: S4's driver."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tilewright import ladder
from tilewright.errors import DeviceError
from tilewright.multiply.backends.opencl import OpenclDevice
from tilewright.multiply.backends.opencl.product import HostProducts
from tilewright.multiply.kernels import catalogue
from tilewright.show.ladder import story
from tilewright.show.ladder.climber import mismatches

Run = Callable[..., Any]


def test_the_drivers_figures_are_printed(tilewright: Run, device: OpenclDevice) -> None:
    done = tilewright("ladder", "--device", "opencl", "--sizes", "40", "--json")
    assert done.status == 0
    document = json.loads(done.out)
    assert document["machine"]["device"] == "opencl"
    assert document["machine"]["gpu"].startswith(device.name)
    rungs = {rung["name"]: rung for rung in document["rungs"]}
    assert list(rungs) == [
        "three_loops", "cpu_engine", "opencl_naive", "opencl_tiled", "opencl_register_tiled", "np_dot",
    ]  # fmt: skip
    for name in list(rungs)[2:5]:
        rung = rungs[name]
        assert (rung["verified"], rung["close"], rung["device"]) == (True, True, "opencl")
        assert rung["seconds"] > 0 and rung["translate_seconds"] >= 0
    table = tilewright("ladder", "--device", "opencl", "--sizes", "40").out
    assert "compiled" in table and "again" in table and "np.dot" in table
    assert "5 of 5 trusted kernels give the canonical product" in table


# `tests/test_rungs.py` has every rung and dtype without the command.
@pytest.mark.parametrize("dtype", [
    pytest.param(dtype, marks=[] if dtype in ("float32", "int8") else [pytest.mark.volume])
    for dtype in catalogue.find("opencl_naive").dtypes
])  # fmt: skip
def test_every_rung_is_exact_for_every_dtype(tilewright: Run, device: OpenclDevice, dtype: str) -> None:
    # Shapes of the CUDA ladder's tests: partial tiles in every extent, and k that is no multiple of the tile.
    for shape in ("33x17x70", "64x64x64", "100x50x25"):
        done = tilewright("ladder", "--device", "opencl", "--sizes", shape, "--dtypes", dtype, "--json")
        assert done.status == 0
        rungs = {rung["name"]: rung for rung in json.loads(done.out)["rungs"]}
        for form in ("naive", "tiled", "register_tiled"):
            rung = rungs[f"opencl_{form}"]
            assert (rung["verified"], rung["mismatches"], rung["dtype"]) == (True, 0, dtype), (form, shape)


def test_a_dtype_that_no_kernel_takes_is_reported(tilewright: Run, device: OpenclDevice) -> None:
    done = tilewright("ladder", "--device", "opencl", "--dtypes", "complex64")
    assert done.status == 2
    assert "--dtypes must be one of float32, float64, int32, float16, int8" in done.err


def test_a_wrong_product_is_neither_exact_nor_close(monkeypatch: pytest.MonkeyPatch, device: OpenclDevice) -> None:
    original = HostProducts.timed

    def wrong(self: Any, *arguments: Any) -> Any:
        c, first, second = original(self, *arguments)
        c[0, 0] += 1
        return c, first, second

    monkeypatch.setattr(HostProducts, "timed", wrong)
    a, b = ladder.operands(8, 8, 8, "float32")
    (rung, *_) = ladder.climb(a, b, records=[catalogue.find("opencl_naive")], device="opencl").rungs
    assert (rung.verified, rung.mismatches, rung.close) == (False, 1, False)


def test_kernels_that_do_not_run_there_are_reported(device: OpenclDevice) -> None:
    a, b = ladder.operands(8, 8, 8, "float32")
    rung = ladder.climb(a, b, records=[catalogue.find("tiled")], device="opencl").rungs[0]
    assert (rung.verified, rung.note) == (None, "not run: NVIDIA GPUs run it")
    rung = ladder.climb(a, b, records=[catalogue.find("opencl_tiled")]).rungs[0]
    assert (rung.verified, rung.note) == (None, "not run: OpenCL devices run it")


def test_one_record_by_name(device: OpenclDevice) -> None:
    record = catalogue.find("opencl_register_tiled")
    a, b = ladder.operands(33, 31, 40, "int16")
    assert mismatches(ladder.multiply(record, a, b), record.reference(a, b)) == 0


def test_wrong_use(tilewright: Run, device: OpenclDevice) -> None:
    done = tilewright("ladder", "--device", "opencl:nothing-of-the-kind")
    assert done.status == 2
    assert "an OpenCL device must be one of this machine's (got 'nothing-of-the-kind')" in done.err
    assert tilewright("ladder", "--device", "opencl", "--gpu", "h100").status == 2
    assert "must be one of 0 to" in tilewright("ladder", "--device", "opencl:99").err


def test_the_first_screen_has_them_where_a_device_works(monkeypatch: pytest.MonkeyPatch, device: OpenclDevice) -> None:
    pairs = {"float32": ladder.operands(33, 17, 70, "float32")}
    rungs = story.kernels_of_other_devices(pairs)
    assert [(r.name, r.verified, r.device) for r in rungs] == [
        (record.name, True, "opencl") for record in catalogue.records() if record.backend == "opencl"
    ]

    def broken(*_: object) -> None:
        raise DeviceError("no linker")

    monkeypatch.setattr(HostProducts, "timed", broken)
    assert story.kernels_of_other_devices(pairs) == []
