"""The OpenCL device that tests run on."""

from __future__ import annotations

import pytest

from tilewright.multiply.backends.opencl import OpenclDevice


@pytest.fixture(scope="session")
def device(opencl_device: OpenclDevice) -> OpenclDevice:
    return opencl_device
