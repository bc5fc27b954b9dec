"""The list of devices that multiply on this machine, and its report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import DeviceError
from tilewright.multiply.backends import inventory, opencl
from tilewright.multiply.backends.opencl import OpenclDevice
from tilewright.multiply.backends.opencl.devices import _line, choose
from tilewright.multiply.backends.protocol import Device

Run = Callable[..., Any]


def record(name: str, platform: str, kind: Any, **has: Any) -> OpenclDevice:
    given = {"doubles": True, "divides": True, "unified": False} | has
    return OpenclDevice(
        name, platform, "Maker", "OpenCL 3.0", kind, 8, 1 << 33, 1 << 31, 1 << 16, 256, (256, 256), 16,
        handle=name, **given,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_broken_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "missing", tuple)


FOUND = (record("Radeon", "AMD APP", "gpu", doubles=False), record("Xeon", "Portable", "cpu", unified=True))


def test_opencl_devices_are_listed_with_what_they_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "devices", lambda: FOUND)
    gpu, processor = (d for d in inventory.devices() if d.device.startswith("opencl"))
    assert (gpu.device, gpu.kind, "no float64" in gpu.features, "float64" in gpu.features) == (
        "opencl:0", "gpu", True, False,
    )  # fmt: skip
    assert (processor.device, processor.kind) == ("opencl:1", "processor")
    assert {"float64", "shares the host's memory", "Portable"} <= set(processor.features)


def test_a_missing_device_has_a_reason_and_advice(monkeypatch: pytest.MonkeyPatch, tilewright: Run) -> None:
    def none() -> Any:
        raise DeviceError("there must be an OpenCL driver with a device (got none); install one")

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(opencl, "devices", none)
    monkeypatch.setattr(
        "tilewright.multiply.backends.cuda.device.unavailable", lambda: "no NVIDIA driver (libcuda.so.1) is installed"
    )
    out = tilewright("devices").out
    assert "opencl: missing: there must be an OpenCL driver with a device (got none); install one" in out
    assert "cuda: missing: no NVIDIA driver (libcuda.so.1) is installed" in out
    missing = {d["device"]: d["missing"] for d in json.loads(tilewright("devices", "--json").out)["devices"]}
    assert missing["cpu"] == missing["simulated"] == ""
    assert missing["opencl"].startswith("there must be")


def test_a_real_gpu_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle:
        name = "NVIDIA H100 80GB HBM3"
        compute_capability = (9, 0)

        class properties:
            multiprocessor_count = 132

    monkeypatch.setattr("tilewright.multiply.backends.cuda.device.unavailable", lambda: "")
    monkeypatch.setattr("tilewright.multiply.backends.cuda.backend._handles", lambda: [Handle])
    found = next(d for d in inventory.devices() if d.device == "cuda")
    assert found == Device("cuda", Handle.name, "gpu", 132, 0, ("tw.matmul", "ladder", "tw.cuda.launch"), ("sm 9.0",))


@pytest.mark.parametrize(("name", "which"), [
    ("opencl", 0), ("opencl:1", 1), ("opencl:xeon", 1), ("OpenCL: portable", 1), ("opencl:AMD", 0), ("opencl:maker", 0),
])  # fmt: skip
def test_a_device_is_chosen_by_number_or_a_part_of_its_name(name: str, which: int) -> None:
    assert choose(name, FOUND) is FOUND[which]


@pytest.mark.parametrize("name", ["opencl:2", "opencl:arc", "cuda", "opencl-1"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"0 AMD APP: Radeon; 1 Portable: Xeon|must be named"):
        choose(name, FOUND)


def test_odd_names_are_reported_as_they_are(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(opencl, "devices", lambda: (record("Arc [a770] [/] é", "of [red]", "gpu"),))
    out = tilewright("devices").out
    assert "Arc [a770] [/] é" in out
    assert "of [red], float64" in out
    assert _line("  Gfx\n\t900\x00 \x1b[31m") == "Gfx 900 [31m"


@pytest.mark.parametrize("columns", ["60", "100", "160"])
def test_every_device_is_reported_at_any_width(tilewright: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(opencl, "devices", lambda: FOUND)
    out = tilewright("devices").out
    assert all(
        any(line.startswith(f"{name} ") for line in out.splitlines()) for name in ("cpu", "opencl:0", "opencl:1")
    )
    assert "…" not in out


@pytest.mark.parametrize(("text", "reason"), [
    ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
    ("import ctypes; ctypes.CDLL('libnone.so.1')", "OSError: libnone.so.1"),
    ("1 / 0", "ZeroDivisionError: division by zero"),
])  # fmt: skip
def test_a_module_that_cannot_be_imported_is_a_missing_device(
    text: str, reason: str, tilewright: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torn_backend.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    row = inventory.Row("torn", "the torn device", "torn_backend", multiplies=True)
    monkeypatch.setattr(inventory, "BACKENDS", (*inventory.BACKENDS, row))
    done = tilewright("devices", "--json")
    assert done.status == 0
    found = {d["device"]: d["missing"] for d in json.loads(done.out)["devices"]}
    assert found["cpu"] == found["simulated"] == ""
    assert f"the torn device cannot be used: its module torn_backend cannot be imported ({reason}" in found["torn"]
    with pytest.raises(DeviceError, match="the torn device cannot be used"):
        inventory.opened("torn")


def test_the_ladder_climbs_on_the_host_alone(tilewright: Run) -> None:
    done = tilewright("ladder", "--device", "cpu", "--sizes", "8", "--dtypes", "float16", "--json")
    assert done.status == 0
    rungs = json.loads(done.out)["rungs"]
    assert [(rung["name"], rung["device"], rung["verified"]) for rung in rungs[:2]] == [
        ("three_loops", "cpu", None), ("cpu_engine", "cpu", True),
    ]  # fmt: skip
    assert {rung["device"] for rung in rungs} == {"cpu"}


def test_the_ladder_climbs_on_the_gpu_that_is_named(tilewright: Run) -> None:
    done = tilewright("ladder", "--device", "simulated:t4", "--sizes", "8", "--kernels", "results_8", "--json")
    about = json.loads(done.out)["machine"]
    assert (done.status, about["gpu"], about["limits"], about["device"]) == (0, "NVIDIA T4", "NVIDIA T4", "simulated")
    assert tilewright("ladder", "--device", "simulated:t4", "--gpu", "h100").status == 2
