"""Errors of drivers, with advice what to do; and launches leave nothing behind."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import signal
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CompileError, DeviceError, MissingExtraError
from tilewright.multiply.backends import inventory
from tilewright.multiply.backends.opencl import OpenclDevice, devices, host_products, missing, product, programs
from tilewright.multiply.backends.opencl.devices import _search, binding
from tilewright.multiply.backends.opencl.pocl import is_pocl
from tilewright.multiply.backends.opencl.product import HostProducts
from tilewright.multiply.backends.opencl.source import Form, Tile
from tilewright.multiply.backends.opencl.tiles import chosen, of_form, ranked
from tilewright.multiply.problem.kind import Kind

FLOATS = Kind(*["float32"] * 4)


def test_a_build_error_carries_the_compilers_log_and_the_text(
    device: OpenclDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "source", lambda *_: "kernel void naive() { int x = undefined_name; }")
    a = np.ones((2, 2), np.float32)
    programs._kernels.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"(?s)did not compile for .*undefined_name.*   1 kernel void naive"):
            tw.matmul(a, a, device="opencl")
    finally:
        programs._kernels.cache_clear()


@pytest.mark.parametrize(("code", "shown"), [
    ("MEM_OBJECT_ALLOCATION_FAILURE", r"must fit its memory, [\d,]+ MiB .*multiply parts, or free other buffers"),
    ("DEVICE_NOT_AVAILABLE", "it was lost: choose another device"),
    ("OUT_OF_RESOURCES", "it lacks memory or registers, or was reset: multiply parts"),
    ("INVALID_KERNEL_ARGS", "see the driver's message"),
])  # fmt: skip
def test_drivers_errors_say_what_to_do(device: OpenclDevice, code: str, shown: str) -> None:
    cl = binding()
    kind = cl.MemoryError if code.startswith("MEM") else cl.LogicError
    with pytest.raises(DeviceError, match=shown), programs.driver_errors(device, "multiplying", 1 << 30):
        raise kind(f"clEnqueueNDRangeKernel failed: {code}")


def test_a_device_reports_that_it_continues_no_sums(device: OpenclDevice) -> None:
    assert "multiply the whole of k at once" in host_products(device).refusal(FLOATS._replace(continues=True))
    assert host_products(device).refusal(FLOATS) == ""


def test_a_buffer_over_the_devices_limit_is_refused(device: OpenclDevice) -> None:
    cl, products = binding(), host_products(device)
    with (
        pytest.raises(DeviceError, match="must fit its memory"),
        programs.driver_errors(device, "placing an operand", 1 << 50),
    ):
        cl.Buffer(products.context, cl.mem_flags.READ_WRITE, 1 << 50)


def test_a_device_without_doubles_says_so(device: OpenclDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = dataclasses.replace(device, doubles=False)
    monkeypatch.setattr(product, "describe", lambda _: lacking)
    a = np.ones((2, 2))
    with pytest.raises(DeviceError, match=r"needs 64-bit floats, which the device lacks \(cl_khr_fp64\); use float32"):
        tw.matmul(a, a, device="opencl")
    single = a.astype(np.float32)
    assert (tw.matmul(single, single, device="opencl") == 2).all()
    lacking = dataclasses.replace(lacking, divides=False)
    assert (tw.matmul(single, single, device="opencl") == 2).all()
    with pytest.raises(DeviceError, match="use float32 and leave out divisions and roots, which it does not round"):
        tw.matmul(single, single, epilogue=lambda x: 1 / x, device="opencl")


@pytest.mark.parametrize(("before", "after", "shown"), [
    ("fma(x[0], x[0], x[1])", "x[0] * x[0] + x[1]", r"fma must round once for the canonical order \(got 0.0 for 5.96"),
    ("x[0] * x[0] + x[1]", "fma(x[0], x[0], x[1])", "a product and a sum must round twice"),
    ("x[2] + x[2]", "0", "sums must keep subnormal floats"),
    ("vload_half(0, (const half *)&half_bits)", "0", "halves must keep subnormal values"),
    ("fma(y, y, z)", "(y * y + z)", "fma of doubles must round once"),
    ("y * y + z", "fma(y, y, z)", "a product and a sum of doubles must round twice"),
])  # fmt: skip
def test_another_arithmetic_is_refused(
    device: OpenclDevice, monkeypatch: pytest.MonkeyPatch, before: str, after: str, shown: str
) -> None:
    if "doubles" in shown and not device.doubles:
        pytest.skip(f"not run: {device.name} has no float64")
    original = programs._built
    monkeypatch.setattr(
        programs, "_built", lambda *given: original(*given[:2], given[2].replace(before, after), given[3])
    )
    with pytest.raises(DeviceError, match=shown):
        programs.check_arithmetic.__wrapped__(host_products(device).context, device.handle)


def test_a_device_without_doubles_is_tested_in_floats(device: OpenclDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "describe", lambda _: dataclasses.replace(device, doubles=False))
    programs.check_arithmetic.__wrapped__(host_products(device).context, device.handle)


def test_an_interrupted_product_waits_for_the_device(device: OpenclDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    class Queue:
        finished = 0

        def finish(self) -> None:
            self.finished += 1

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    products, queue, a = HostProducts(device), Queue(), np.ones((4, 4), np.float32)
    monkeypatch.setattr(product, "run", interrupted)
    monkeypatch.setattr(products, "queue", queue)
    with pytest.raises(KeyboardInterrupt):
        products.multiply_into(a, a, a.copy(), FLOATS)
    assert queue.finished == 1


@pytest.fixture
def searched_anew() -> Iterator[None]:
    """Search for devices again, and once more after the test."""
    _search.cache_clear()
    yield
    _search.cache_clear()


def test_without_the_binding_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[opencl\]'"):
        devices()


@pytest.mark.usefixtures("searched_anew")
def test_no_platform_says_what_to_install(monkeypatch: pytest.MonkeyPatch, device: OpenclDevice) -> None:
    monkeypatch.setattr(binding(), "get_platforms", list)
    with pytest.raises(DeviceError, match=r"install your GPU's, or `.*pip install pocl-binary-distribution`"):
        devices()


@pytest.mark.usefixtures("searched_anew")
def test_a_platform_without_devices_is_reported(monkeypatch: pytest.MonkeyPatch, device: OpenclDevice) -> None:
    empty = types.SimpleNamespace(name="Portable Computing Language", get_devices=list)
    monkeypatch.setattr(binding(), "get_platforms", lambda: [empty])
    with pytest.raises(DeviceError, match=r"Portable Computing Language has no devices; .* set POCL_CACHE_DIR"):
        devices()
    broken = types.SimpleNamespace(name="Broken", get_devices=_lost)
    working = types.SimpleNamespace(name="Working", get_devices=lambda: [device.handle])
    monkeypatch.setattr(binding(), "get_platforms", lambda: [broken, working])
    _search.cache_clear()
    assert [found.name for found in devices()] == [device.name]
    assert missing() == ("Broken: DEVICE_NOT_FOUND",)
    assert [found.missing for found in inventory.devices() if found.device == "opencl"] == ["Broken: DEVICE_NOT_FOUND"]


@pytest.mark.usefixtures("searched_anew")
def test_a_device_whose_driver_compiles_nothing_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    known, unknown = (types.SimpleNamespace(kind="cpu", compiles=compiles) for compiles in (True, False))
    module = importlib.import_module("tilewright.multiply.backends.opencl.devices")
    monkeypatch.setattr(module, "describe", lambda handle: handle)
    platform = types.SimpleNamespace(name="Portable Computing Language", get_devices=lambda: [unknown, known])
    monkeypatch.setattr(binding(), "get_platforms", lambda: [platform])
    assert devices() == (known,)
    assert missing() == (
        "Portable Computing Language compiles nothing for this processor, which its LLVM does not know; install a "
        "newer PoCL",
    )


def _lost() -> Any:
    raise binding().Error("DEVICE_NOT_FOUND")


def test_pocl_without_a_linker_is_reported_before_it_ends_the_process(
    device: OpenclDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not is_pocl(device.platform):
        pytest.skip(f"not run: {device.platform} links by itself")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_built", lambda *_: pytest.fail("PoCL would have ended the process"))
    with pytest.raises(DeviceError, match=r"the program `ld` must be in PATH.*install the package binutils"):
        programs.check_arithmetic.__wrapped__(host_products(device).context, device.handle)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not run: this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_refused_and_does_not_hang(device: OpenclDevice) -> None:
    a = np.ones((4, 4), np.float32)
    tw.matmul(a, a, device="opencl")
    child = os.fork()
    if child == 0:
        try:
            tw.matmul(a, a, device="opencl")
        except DeviceError as error:
            os._exit(0 if "forked from" in str(error) else 3)
        finally:
            os._exit(4)
    end = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked process waits for ever")
    assert os.waitstatus_to_exitcode(done[1]) == 0


def test_a_compilers_notes_are_no_warnings(device: OpenclDevice) -> None:
    text = "#warning remark\nkernel void remarked() {}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        programs._built(host_products(device).context, device, text, "remarked")


@pytest.mark.parametrize(("has", "expected"), [
    ({"kind": "gpu"}, Tile("register_tiled", 64, 64, 16, 4, 4, 4)),
    ({"kind": "gpu", "group_items": 64}, Tile("register_tiled", 16, 64, 16, 4, 4, 4)),
    ({"kind": "gpu", "axis_items": (1024, 1)}, Tile("register_tiled", 4, 64, 16, 4, 4, 4)),
    ({"kind": "gpu", "local_bytes": 4096}, Tile("register_tiled", 64, 64, 8, 4, 4, 4)),
])  # fmt: skip
def test_a_tile_fits_the_device(device: OpenclDevice, has: Any, expected: Tile) -> None:
    limits = {"group_items": 256, "local_bytes": 65536, "axis_items": (256, 256)} | has
    fitting = dataclasses.replace(device, **limits)
    assert of_form("register_tiled", fitting, FLOATS) == expected
    assert chosen(device, FLOATS, 512, 3, 512)[0][0].form == "naive"
    found = [tile for tile, _ in ranked(fitting, FLOATS, 512, 512, 512)]
    assert len(found) == len(set(found))
    for cut in found:
        across, down = cut.items
        assert cut.local_bytes("float32") <= fitting.local_bytes
        assert 1 <= across * down <= fitting.group_items
        assert across <= fitting.axis_items[0] and down <= fitting.axis_items[1]


def test_a_reduced_tile_gives_the_same_bits(device: OpenclDevice) -> None:
    a = np.random.default_rng(1).standard_normal((70, 70)).astype(np.float32)
    expected = tw.matmul(a, a)
    cases: list[tuple[dict[str, Any], list[Form]]] = [
        ({"axis_items": (64, 1)}, ["naive", "register_tiled"]),
        ({"group_items": 32}, ["tiled"]),
        ({"group_items": 1, "local_bytes": 1024}, ["naive", "tiled", "register_tiled"]),
    ]
    for limits, forms in cases:
        products = HostProducts(dataclasses.replace(device, **limits))
        for form in forms:
            assert (products.timed(a, a, FLOATS, form)[0] == expected).all(), (limits, form)


def test_unused_contexts_are_released(device: OpenclDevice) -> None:
    cl, array = binding(), pytest.importorskip("pyopencl.array")
    kept = [cl.Context([device.handle]) for _ in range(programs.CONTEXTS + 1)]
    for context in kept:
        x = array.zeros(cl.CommandQueue(context), (4, 4), np.float32)
        tw.matmul(x, x).get()
        tw.matmul(x[:, :0], x[:0]).get()
    del x
    gc.collect()
    assert kept[0].reference_count == 1 < kept[-1].reference_count


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _launches(count: int) -> int:
    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    expected = tw.matmul(a, a)
    for _ in range(count // 5):
        assert (tw.matmul(a, a, device="opencl") == expected).all()
    gc.collect()
    before = resident_bytes()
    for _ in range(count):
        tw.matmul(a, a, device="opencl")
    gc.collect()
    return resident_bytes() - before


def test_launches_keep_no_memory(device: OpenclDevice) -> None:
    # an event, a table and three buffers a launch, of 1,000 bytes and more
    assert _launches(1_000) < 1_000_000


@pytest.mark.volume
def test_ten_thousand_launches_keep_no_memory(device: OpenclDevice) -> None:
    assert _launches(10_000) < 4_000_000
