"""PoCL on processors that its LLVM does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tilewright.multiply.backends.opencl import OpenclDevice, pocl

#: Gives the device the name that LLVM 14 has for a Zen 5, as PoCL's own start does there.
_UNKNOWN_PROCESSOR = """
import ctypes, sys
import numpy as np
import pyopencl as cl
import tilewright as tw
from tilewright.multiply.backends.opencl import pocl

(device,) = [d for p in cl.get_platforms() if pocl.is_pocl(p.name) for d in p.get_devices()][:1]
name = ctypes.create_string_buffer(b"generic")
ctypes.c_void_p.from_address(device.int_ptr + pocl._NAME_BYTE).value = ctypes.addressof(name)
if sys.argv[1] == "pyopencl":
    cl.Program(cl.Context([device]), "kernel void f(global int *x) { x[0] = 1; }").build()
else:
    a = np.arange(35, dtype=np.float32).reshape(5, 7)
    print((tw.matmul(a, a.T, device="opencl:portable") == a @ a.T).all(), pocl.processor(device))
"""


@pytest.fixture
def wheel(device: OpenclDevice) -> OpenclDevice:
    if not pocl.is_pocl(device.platform) or pocl._library(device.handle) != pocl._WHEEL:
        pytest.skip(f"not run: the first OpenCL device is of {device.platform} {device.driver}, not of PoCL's wheel")
    return device


def child(way: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _UNKNOWN_PROCESSOR, way], capture_output=True, text=True, check=False, timeout=120
    )


def test_an_unknown_processor_gets_the_nearest_one(wheel: OpenclDevice) -> None:
    refused = child("pyopencl")
    assert refused.returncode == 1 and "unknown target CPU 'generic'" in refused.stderr, refused.stderr
    done = child("tilewright")
    assert done.stdout.split() == ["True", pocl.host_processor()], done.stderr


def test_a_known_processor_keeps_its_name(wheel: OpenclDevice) -> None:
    recognized = pocl.named(wheel.handle.version)
    assert pocl.processor(wheel.handle) == (recognized or pocl.host_processor())


@pytest.mark.parametrize("lacking", [{"avx512vl"}, {"fma", "avx512bw"}, {"avx", "avx2", "avx512f"}])
def test_a_processor_has_nothing_that_the_host_lacks(lacking: set[str]) -> None:
    every = {feature for _, needed in pocl._PROCESSORS for feature in needed}
    assert pocl.nearest(dict.fromkeys(every, True)) == pocl._PROCESSORS[0][0]
    chosen = pocl.nearest({feature: feature not in lacking for feature in every})
    better = [name for name, needed in pocl._PROCESSORS if lacking.isdisjoint(needed)]
    assert chosen == better[0] != pocl._PROCESSORS[0][0]


def test_another_driver_s_name_is_left_alone(wheel: OpenclDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl, "_WHEEL", "libpocl-of-another-release.so")
    monkeypatch.setattr(pocl, "_copied", lambda _: pytest.fail("the record of another release was written"))
    assert pocl.processor(wheel.handle) == pocl.named(wheel.handle.version)
