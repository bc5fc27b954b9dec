"""Stores of NaN and infinity: which instructions stored them, how often, and where first.

A stored value is decoded as the floating-point type of its instruction. An untyped store of 16, 32 or 64
bits counts as float16, float32 or float64, so the caller must know what type the memory has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.observe.instruments.places import PART as PLACES_PART, Place, Places
from tilewright.simulate.events import GLOBAL_BASE, CFunction, EventKind, Facts, Handler, Instrument, Site, Storage

#: Bits of the exponent by element type; all of them set means NaN or infinity. Source: IEEE 754-2019, 3.4.
_EXPONENTS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0_0000_0000_0000}
_UNTYPED = {"b16": "f16", "b32": "f32", "b64": "f64"}


#: The kinds, in the order of a site's counters. `NonfiniteResult.before` and `.after` number them from 1.
KINDS = ("infinity", "NaN")


@dataclass(frozen=True, slots=True)
class FloatArray:
    """An array argument of floats: `address` is that of element [0, 0, ...], strides are in bytes."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NonfiniteRow:
    """One store and one kind of value."""

    site: Site
    type: str  #: The floating-point type as which its values were decoded: `f16`, `f32`, `f64`.
    kind: str  #: One of KINDS.
    count: int  #: Lanes that stored it.
    #: `block`, `thread`: the first instance; None if unknown.
    block: Place | None
    thread: Place | None


@dataclass(frozen=True, slots=True)
class NonfiniteResult:
    """The values that a launch stored, and those that its arrays held."""

    rows: tuple[NonfiniteRow, ...]  #: The stores that wrote NaN or infinity.
    #: `before`, `after`: one for each array, in its shape: 0 where an element is finite, 1 infinity, 2 NaN.
    before: tuple[npt.NDArray[np.uint8], ...]
    after: tuple[npt.NDArray[np.uint8], ...]


class Nonfinite(Instrument):
    """Find the stores to global memory that wrote NaN or infinity; arrays are scanned before and after the launch."""

    slots = len(KINDS)

    parameters = ()

    def __init__(self, arrays: Sequence[FloatArray] = ()) -> None:
        self.name = "nonfinite"
        self.arrays = tuple(arrays)
        self._places = Places()
        self._facts: Facts | None = None
        self._before: tuple[npt.NDArray[np.uint8], ...] = ()

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """The handler of a store to global memory whose values may be floats; None for other sites."""
        kind = stored_type(site.opcode)
        if site.kind is not EventKind.ACCESS or site.access != "store" or site.space != "global" or not kind:
            return None
        bits = int(kind.lstrip("bf"))
        elements, affine = site.bytes_per_lane * 8 // bits, offsets is not None
        name = "affine" if affine else "store"
        parts = (bitcode(Path(__file__).with_name("nonfinite.c")), PLACES_PART)
        function = CFunction(f"tw_nonfinite_{name}", EventKind.ACCESS, parts, affine=affine, values=True)
        constants = [f"i32 {bits}", f"i32 {elements}", f"i64 {_EXPONENTS[kind]}"]
        return function.handler(f"tw.nonfinite.{name}.{kind}.{elements}", constants)

    def begin(self, facts: Facts) -> Storage:
        """Scan the arrays, and allocate a table of the block and thread that first stored each kind."""
        self._facts, self._places = facts, Places()
        self._before = tuple(_kinds(array, facts) for array in self.arrays)
        return Storage(self._places.table)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> NonfiniteResult:
        """The stores that wrote NaN or infinity, and the arrays after the launch."""
        facts = self._facts
        assert facts is not None
        rows = []
        for index, (site, counts) in enumerate(zip(sites, counters.tolist(), strict=True)):
            for number, (kind, count) in enumerate(zip(KINDS, counts, strict=True)):
                first = self._places.first(len(KINDS) * index + number, facts.grid, facts.block)
                if count:
                    rows.append(NonfiniteRow(site, stored_type(site.opcode), kind, count, *(first or (None, None))))
        return NonfiniteResult(tuple(rows), self._before, tuple(_kinds(array, facts) for array in self.arrays))


def _kinds(array: FloatArray, facts: Facts) -> npt.NDArray[np.uint8]:
    """For each element of an array in the machine's memory: 0, or 1 + the number of its kind."""
    span = sum((n - 1) * abs(step) for n, step in zip(array.shape, array.strides, strict=True)) + array.dtype.itemsize
    if 0 in array.shape or not facts.global_address or array.address - GLOBAL_BASE + span > facts.global_bytes:
        return np.zeros(array.shape, np.uint8)
    memory = (ctypes.c_char * facts.global_bytes).from_address(facts.global_address)
    values = np.ndarray(array.shape, array.dtype, memoryview(memory), array.address - GLOBAL_BASE, array.strides)
    return np.where(np.isnan(values), np.uint8(2), np.isinf(values).astype(np.uint8))


def stored_type(opcode: str) -> str:
    """The floating-point type of a store's values; "" if they are not floats. An untyped store counts by its width.

    >>> stored_type("st.global.v4.f32"), stored_type("st.global.b64"), stored_type("st.global.u32")
    ('f32', 'f64', '')
    """
    last = opcode.rsplit(".", 1)[-1]
    return _UNTYPED.get(last, last if last in _EXPONENTS else "")
