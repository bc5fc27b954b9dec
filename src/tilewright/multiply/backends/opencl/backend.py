"""OpenCL devices, as a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.errors import DeviceError, MissingExtraError
from tilewright.multiply.backends import opencl
from tilewright.multiply.backends.opencl.product import HostProducts
from tilewright.multiply.backends.protocol import Device

if TYPE_CHECKING:
    from tilewright.multiply.backends.opencl.arrays import OpenclArrays


def describe() -> list[Device]:
    """Every device of every platform, and the reasons for missing ones."""
    try:
        found = opencl.devices()
    except (DeviceError, MissingExtraError) as error:
        return [Device("opencl", "", "gpu", missing=str(error))]
    others = [Device("opencl", "", "gpu", missing=reason) for reason in opencl.missing()]
    return [_described(i, device) for i, device in enumerate(found)] + others


def _described(number: int, device: opencl.OpenclDevice) -> Device:
    has = {
        "float64": device.doubles,
        "shares the host's memory": device.unified,
        "exact float32 division": device.divides,
    }
    kind = "processor" if device.kind == "cpu" else device.kind
    features = (device.platform, *(name for name, present in has.items() if present))
    lacks = () if device.doubles else ("no float64",)
    return Device(
        f"opencl:{number}",
        device.name,
        kind,
        device.units,
        device.memory_bytes,
        ("tw.matmul", "ladder"),
        features + lacks,
    )


def opened(device: str) -> HostProducts:
    """The products of the device that a name chooses."""
    return opencl.host_products(opencl.choose(device))


def arrays_of(a: Any, b: Any) -> OpenclArrays:
    """The arrays of one product."""
    # That module imports pyopencl, which is loaded if a caller has its arrays.
    from tilewright.multiply.backends.opencl.arrays import OpenclArrays

    return OpenclArrays.of(a, b)
