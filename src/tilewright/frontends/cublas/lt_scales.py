"""The factors of narrow floats in cuBLASLt: a number, a vector, or a number for each block of a row along k.

Elements are multiplied by their block's factor, in float32, before they are multiplied with each other.

Source: cuBLAS, "Narrow Precision Data Types Usage": block scaling, quantization, layouts of scaling factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.device.gpu import SimulatedGpu

#: Values of a `cublasLtMatmulMatrixScale_t`.
SCALAR, VEC16, VEC32, OUTER, VEC128, BLOCK128, PER_BATCH = range(7)
#: How many elements of a row have one factor.
BLOCKS: Mapping[int, int] = MappingProxyType({VEC16: 16, VEC32: 32, VEC128: 128, BLOCK128: 128})
#: Bytes of a tile of factors: of 128 rows, 4 for each.
_TILE = 512
#: The numbers of float4 by its three low bits, and the limits between them.
_FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_BETWEEN = (_FLOAT4[1:] + _FLOAT4[:-1]) / 2


def factors(gpu: SimulatedGpu, mode: int, address: int, outer: int, inner: int) -> Array:
    """What each element of a matrix of so many rows and columns is multiplied by; rows are those of op(A) or of B^T."""
    if mode == OUTER:
        return read(gpu, array_at(gpu, address, np.float32, (outer, 1)))
    size = BLOCKS.get(mode, inner)
    count = -(-inner // size) if size else 0
    if mode in (VEC16, VEC32):
        found = _numbers(mode, read(gpu, _tiles(gpu, address, outer, count))[_places(outer, count)])
    elif mode == VEC128:
        found = read(gpu, array_at(gpu, address, np.float32, (outer, count), (4, 4 * outer)))
    elif mode == BLOCK128:
        shape, steps = (-(-outer // size), count), (4 * -(-count // 4) * 4, 4)
        found = read(gpu, array_at(gpu, address, np.float32, shape, steps)).repeat(size, axis=0)[:outer]
    else:
        return read(gpu, array_at(gpu, address, np.float32, (1, 1)))
    return found.repeat(size, axis=1)[:, :inner]


def quantized(gpu: SimulatedGpu, mode: int, address: int, values: Array, largest: float) -> Array:
    """Store the factors of blocks along columns; the values divided by them, so that none is above the largest."""
    rows, columns = values.shape
    size = BLOCKS[mode]
    count = -(-rows // size)
    padded = np.zeros((count * size, columns), np.float32)
    padded[:rows] = np.abs(values)
    wanted = padded.reshape(count, size, columns).max(axis=1) / np.float32(largest)
    codes = _rounded_up(wanted) if mode == VEC32 else _float8(np.minimum(wanted, 448)).view(np.uint8)
    used = _numbers(mode, codes)
    with np.errstate(divide="ignore"):
        inverse = np.where(used == 0, np.float32(0), 1 / used)
    tiles = _tiles(gpu, address, columns, count)
    stored = np.zeros_like(tiles)
    stored[_places(columns, count)] = codes.T
    write(gpu, tiles, stored)
    found: Array = values * inverse.repeat(size, axis=0)[:rows]
    return found


def _tiles(gpu: SimulatedGpu, address: int, outer: int, count: int) -> Array:
    return array_at(gpu, address, np.uint8, (-(-outer // 128) * -(-count // 4) * _TILE,))


def _places(outer: int, count: int) -> Array:
    """Where the factors of each row lie in their tiles."""
    i, j = np.ogrid[:outer, :count]
    tile = i // 128 * -(-count // 4) + j // 4
    found: Array = tile * _TILE + i % 32 * 16 + i % 128 // 32 * 4 + j % 4
    return found


def _numbers(mode: int, codes: Array) -> Array:
    """The factors: powers of two, or positive floats of 8 bits."""
    if mode == VEC16:
        return (codes & 0x7F).view(element("float8_e4m3fn").numpy).astype(np.float32)
    return np.where(codes == 255, np.float32(np.nan), np.ldexp(np.float32(1), codes.astype(np.int32) - 127))


def _float8(values: Array) -> Array:
    return values.astype(element("float8_e4m3fn").numpy)


def _rounded_up(values: Array) -> Array:
    """The exponents of powers of two that are not below these numbers."""
    bits = values.astype(np.float32).view(np.uint32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    up = np.where(exponent > 0, (exponent < 254) & (fraction > 0), fraction > 0x400000)
    return (exponent + up).astype(np.uint8)


def float4_of(values: Array) -> Array:
    """The bits of numbers in float4: to nearest, no larger than the largest; NaN is the largest.

    >>> float4_of(np.array([0.25, 0.75, -2.4, 100], np.float32)).tolist()
    [0, 2, 12, 7]
    """
    size = np.abs(values)
    at = np.searchsorted(_BETWEEN, size)
    ties = (size == _BETWEEN[np.minimum(at, 6)]) & (at % 2 == 1)
    bits = np.where(np.isnan(values), 7, at + ties + 8 * np.signbit(values))
    return bits.astype(np.uint8)


def of_float4(bits: Array) -> Any:
    """The numbers of float4 by their bits.

    >>> of_float4(np.array([7, 9], np.uint8)).tolist()
    [6.0, -0.5]
    """
    return np.where(bits & 8, -_FLOAT4[bits & 7], _FLOAT4[bits & 7])
