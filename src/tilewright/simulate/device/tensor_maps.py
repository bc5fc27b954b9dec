"""Driver calls that make tensor maps: 128 bytes in the simulated GPU's own layout, which its kernels take.

Errors have the driver's codes; a warning names the violated rule.

Source: CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.errors import warn
from tilewright.simulate.device.contexts import binding
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.state import TENSOR_MAP_RECORD
from tilewright.simulate.tensor_maps.encoding import AXES_MOST, SWIZZLES, TYPES, UNIT_BYTES, Encoding

_TYPE, _SWIZZLE = "CU_TENSOR_MAP_DATA_TYPE_", "CU_TENSOR_MAP_SWIZZLE_"


def cuTensorMapEncodeTiled(
    gpu: SimulatedGpu,
    type_: Any,
    rank: int,
    address: Any,
    extents: Any,
    strides: Any,
    box: Any,
    steps: Any,
    interleave: Any,
    swizzle: Any,
    promotion: Any,
    fill: Any,
) -> Any:
    """A map of a tensor, for copies of boxes."""
    call = "cuTensorMapEncodeTiled"
    tensor = _tensor(call, type_, rank, address, extents, strides, steps, (interleave, swizzle, fill))
    return _made(gpu, call, replace(tensor, box=_numbers(box, rank)))


def cuTensorMapEncodeIm2col(
    gpu: SimulatedGpu,
    type_: Any,
    rank: int,
    address: Any,
    extents: Any,
    strides: Any,
    low: Any,
    high: Any,
    channels: int,
    pixels: int,
    steps: Any,
    interleave: Any,
    swizzle: Any,
    promotion: Any,
    fill: Any,
) -> Any:
    """A map of images, for copies of pixels."""
    call, inner = "cuTensorMapEncodeIm2col", max(int(rank) - 2, 0)
    tensor = _tensor(call, type_, rank, address, extents, strides, steps, (interleave, swizzle, fill))
    if int(pixels) < 1:
        raise _invalid(call, f"pixelsPerColumn must be at least 1 (got {int(pixels)})")
    box = (int(channels), *(1,) * (len(tensor.extents) - 1))
    images = replace(tensor, box=box, pixels=int(pixels), low=_numbers(low, inner), high=_numbers(high, inner))
    return _made(gpu, call, images)


def cuTensorMapReplaceAddress(gpu: SimulatedGpu, tensor: Any, address: Any) -> None:
    """Change the address of a map's tensor."""
    call, start = "cuTensorMapReplaceAddress", int(address or 0)
    if start % UNIT_BYTES:
        raise _invalid(call, f"the address must be a multiple of {UNIT_BYTES} bytes (got {start:#x})")
    words = np.array([int(word) for word in tensor.opaque], np.uint64)
    words.view(TENSOR_MAP_RECORD)["address"] = start
    gpu.tensors.add(start)
    tensor.opaque = [binding().cuuint64_t(int(word)) for word in words]


def _tensor(
    call: str, type_: Any, rank: int, address: Any, extents: Any, strides: Any, steps: Any, modes: tuple[Any, ...]
) -> Encoding:
    """The fields of both kinds of map, without a box."""
    real, (interleave, swizzle, fill) = binding(), modes
    name = _name(call, real.CUtensorMapDataType, type_).removeprefix(_TYPE)
    if name not in TYPES or name.endswith("FTZ"):
        raise _refused(call, f"element type {name} is not implemented; use another one")
    if int(interleave) != int(real.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE):
        raise _refused(call, "interleaved layouts are not implemented; use CU_TENSOR_MAP_INTERLEAVE_NONE")
    if int(swizzle) >= len(SWIZZLES):
        name = _name(call, real.CUtensorMapSwizzle, swizzle).removeprefix(_SWIZZLE)
        raise _refused(call, f"swizzle {name} is not implemented; use one of NONE, 32B, 64B, 128B")
    whole = _numbers(extents, rank)
    if not 1 <= int(rank) <= AXES_MOST or len(whole) != int(rank):
        raise _invalid(call, f"the rank must be 1 to {AXES_MOST}, and globalDim as long (got {rank}, {len(whole)})")
    return Encoding(
        name,
        int(address or 0),
        whole,
        _numbers(strides, rank - 1),
        (),
        _numbers(steps, rank),
        SWIZZLES[int(swizzle)],
        bool(int(fill)),
    )


def _name(call: str, kinds: Any, given: Any) -> str:
    """The driver's name of a number."""
    names = {int(kind): kind.name for kind in kinds}
    if int(given) not in names:
        raise _invalid(call, f"{kinds.__name__} has no {int(given)}")
    return str(names[int(given)])


def _numbers(given: Sequence[Any] | None, count: int) -> tuple[int, ...]:
    """The first `count` numbers of a list, or all if there are fewer."""
    return tuple(int(x) for x in (given or ())[: max(int(count), 0)])


def _made(gpu: SimulatedGpu, call: str, encoding: Encoding) -> Any:
    if rule := encoding.broken_rule():
        raise _invalid(call, rule)
    gpu.tensors.add(encoding.address)
    made = binding().CUtensorMap()
    made.opaque = [binding().cuuint64_t(int(word)) for word in np.frombuffer(encoding.encoded(), np.uint64)]
    return made


def _invalid(call: str, rule: str) -> DriverError:
    warn(f"{call}: {rule}")
    return DriverError("CUDA_ERROR_INVALID_VALUE", f"{call}: {rule}")


def _refused(call: str, why: str) -> DriverError:
    warn(f"{call}: {why}")
    return DriverError("CUDA_ERROR_NOT_SUPPORTED", f"{call}: {why}")
