"""The OpenCL device that tests run on."""

from __future__ import annotations

import shutil

import pytest

from tilewright.errors import DeviceError, MissingExtraError
from tilewright.gpu.opencl import OpenclDevice, choose


@pytest.fixture(scope="session")
def device() -> OpenclDevice:
    try:
        found = choose("opencl")
    except (DeviceError, MissingExtraError) as error:
        pytest.skip(f"no OpenCL device: {error}")
    if found.platform.startswith("Portable") and shutil.which("ld") is None:
        pytest.skip("PoCL links its kernels with `ld`, which is not installed")
    return found
