"""NVIDIA GPUs, as a backend."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.multiply.backends.protocol import Device

if TYPE_CHECKING:
    from tilewright.multiply.backends.cuda.arrays import CudaArrays
    from tilewright.multiply.backends.launched import LaunchedProducts


def describe() -> list[Device]:
    """Every GPU that the driver lists, or the reason why there is none."""
    from tilewright.multiply.backends.cuda import device

    reason = device.unavailable()
    if reason:
        return [Device("cuda", "", "gpu", missing=f"{reason}; kernels run on the simulated GPU")]
    return [_described(handle) for handle in _handles()]


def _handles() -> Any:
    from tilewright.simulate.programs.optional import require

    return require("cuda.core", "Listing GPUs").Device.get_all_devices()


def _described(handle: Any) -> Device:
    capability = ".".join(str(part) for part in handle.compute_capability)
    units = int(handle.properties.multiprocessor_count)
    return Device(
        "cuda",
        str(handle.name),
        "gpu",
        units,
        commands=("tw.matmul", "ladder", "tw.cuda.launch"),
        features=(f"sm {capability}",),
    )


def arrays_of(a: Any, b: Any) -> CudaArrays:
    """The arrays of a product on the current GPU.

    Raises ArgumentTypeError: one of them is not on it.
    """
    from tilewright.multiply.backends.cuda.arrays import CudaArrays

    return CudaArrays.of(a, b)


def known_product(
    a: Any, b: Any, out: Any, key: Hashable, follow: Callable[[Any, Any, Any, Sequence[Any]], Any], more: Sequence[Any]
) -> Any:
    """The product of arrays on a GPU whose layouts were multiplied before; None if the rules must be followed.

    `key` says what is asked for, `follow` makes it by every rule, of (A, B, out, the epilogue's arrays), and `more` are
    the epilogue's arrays.
    """
    from tilewright.multiply.backends.cuda import quick

    return quick.multiply(a, b, out, quick.Rules(key, follow), more)


def opened(device: str) -> LaunchedProducts:
    """The products of the current GPU.

    Raises DeviceError: there is none.
    """
    # It imports the catalogue, which listing devices does not need.
    from tilewright.multiply.backends.cuda import current, device as real
    from tilewright.multiply.backends.cuda.resident import Resident
    from tilewright.multiply.backends.launched import LaunchedProducts

    real.check_available()
    found = current.device()
    return LaunchedProducts(
        found.name,
        found.compute_capability,
        real.launch,
        found.record,
        identity=found.identity,
        resident=Resident if found.identity else None,
    )
