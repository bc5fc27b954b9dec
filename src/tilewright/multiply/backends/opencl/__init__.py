"""Products on OpenCL: kernels for AMD, Intel and Arm GPUs and for processors, from the same expressions as all others.

`devices` finds the devices, `source` writes a product's OpenCL C, `programs` builds it, `tiles` chooses the tile, and
`product` runs it on arrays of the host or of the device.
"""

from __future__ import annotations

from tilewright.multiply.backends.opencl.devices import OpenclDevice, choose, devices, missing
from tilewright.multiply.backends.opencl.product import host_products

__all__ = ["OpenclDevice", "choose", "devices", "host_products", "missing"]
