"""Tensor descriptors as launch parameters: a tensor map if the compiler requests one, and extents and strides.

Releases of Triton differ in where they keep the functions for this, but not in the parameters.

Source: Triton, `make_tensordesc_arg` of `backends/nvidia/driver.py`, 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from tilewright.simulate.device.launching import driver_error
from tilewright.simulate.tensor_maps.encoding import SWIZZLES, TYPES_OF_PTX, Encoding

#: Flags that a kernel without tensor maps gets, in the releases that have them; with the value that means true.
_FLAGS = (("padding", "nan"), ("round_f32_to_tf32", True))
#: Types that continue `TYPES_OF_PTX`, which tensor maps here cannot have.
_LATER_OF_PTX = (".tf32.ftz", ".b4x16", ".b4x16_p64", ".b6x16_p32")


def parameters(value: Any, described: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Types and values of the parameters for a descriptor; `described` is the compiler's data for its tensor map.

    The type of a tensor map is `nvTmaDesc`, and its value is 128 bytes.

    Raises CudaAPIError: a rule of the driver is violated; NotImplementedError: the descriptor is of images, or of
    packed elements such as `.b4x16_p64`.
    """
    extents, steps = list(value.shape), list(value.strides)
    if described is not None:
        yield "nvTmaDesc", _of(value, described)
    else:
        yield "*", value.base
        yield from (("i64", one) for one in chain(extents, steps))
        yield from (("i1", getattr(value, name) == true) for name, true in _FLAGS if hasattr(value, name))
    yield from (("i32", one) for one in extents)
    yield from (("i64", one) for one in steps)


def _of(value: Any, described: Mapping[str, Any]) -> bytes:
    if described.get("is_im2col"):
        raise NotImplementedError("tensor descriptors of images (im2col) are not implemented; tiled ones are")
    number = described["elem_type"]  # the compiler numbers types as the instruction does
    if number >= len(TYPES_OF_PTX):
        name = _LATER_OF_PTX[number - len(TYPES_OF_PTX)]
        raise NotImplementedError(
            f"tensor descriptors of the element type {name} are not implemented; those of unpacked types are"
        )
    kind = "TFLOAT32" if getattr(value, "round_f32_to_tf32", False) else TYPES_OF_PTX[number]
    return tensor_map(
        kind,
        value.base.data_ptr(),
        described["swizzle"],
        described["elem_size"],
        described["block_size"],
        list(value.shape),
        value.strides,
        nan=getattr(value, "padding", "zero") == "nan",
    )


def tensor_map(
    kind: str,
    address: int,
    swizzle: int,
    element_bytes: int,
    box: Sequence[int],
    extents: Sequence[int],
    steps: Sequence[int],
    *,
    nan: bool,
) -> bytes:
    """The bytes of a tensor map; `swizzle` is the driver's number, the outermost axis is first, steps count elements.

    Raises CudaAPIError: a rule of the driver is violated.
    """
    in_bytes = tuple(int(step) * element_bytes for step in steps[-2::-1])
    encoding = Encoding(
        kind, int(address), tuple(extents[::-1]), in_bytes, tuple(box[::-1]), (1,) * len(box), SWIZZLES[swizzle], nan
    )
    broken = encoding.broken_rule()
    if broken:
        code = "CUDA_ERROR_INVALID_VALUE"
        raise driver_error(code, f"{code}: {broken}")
    return encoding.encoded()
