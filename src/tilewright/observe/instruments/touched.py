"""Which bytes of global memory a launch reads and writes.

Two maps, of reads and of writes, with one byte for each byte of global memory in use. `touched.c` sets them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.observe.instruments.areas import areas
from tilewright.simulate.events import (
    GLOBAL_BASE,
    CFunction,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    words,
)

_SHARED = header(Path(__file__).with_name("touched.h"))
_PARTS = (bitcode(Path(__file__).with_name("touched.c")),)
_FREE = CFunction("tw_touched_free", EventKind.ACCESS, _PARTS)
_AFFINE = CFunction("tw_touched_affine", EventKind.ACCESS, _PARTS, affine=True, inline=True)
_ROWS = CFunction("tw_touched_rows", EventKind.ACCESS, _PARTS, strided=True, inline=True)
_READS, _WRITES = _SHARED.numbers["TW_TOUCHED_READS"], _SHARED.numbers["TW_TOUCHED_WRITES"]
_HOW = {"load": _READS, "store": _WRITES, "atomic": _READS | _WRITES}


@dataclass(frozen=True, slots=True)
class TouchedResult:
    """The bytes that a launch touched: uint8 maps from GLOBAL_BASE on, 1 for a byte that was read or written."""

    read: npt.NDArray[np.uint8] = field(repr=False)
    written: npt.NDArray[np.uint8] = field(repr=False)

    def of(
        self, bytes_: npt.NDArray[np.uint8], address: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> npt.NDArray[np.bool_]:
        """Which elements of an array were touched, in the array's shape, by their first bytes.

        `bytes_` is `read` or `written`; `address` that of element [0, 0, ...].
        """
        span = sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=True)) + 1
        if 0 in shape or address - GLOBAL_BASE + span > bytes_.size:  # freed memory, beyond all memory in use
            return np.zeros(shape, bool)
        return np.ndarray(shape, np.uint8, bytes_.data, address - GLOBAL_BASE, strides).astype(bool)


class Touched(Instrument):
    """Record which bytes of global memory are read and written, by all instructions or those of some PTX lines.

    >>> from tilewright.programs import Program
    >>> from tilewright.simt import Memory, launch
    >>> text = '''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry second(.param .u64 x) {
    ...   .reg .b64 %rd1;
    ...   ld.param.u64 %rd1, [x]; st.global.u32 [%rd1+4], 7; ret;
    ... }'''
    >>> x = Memory().empty(4, np.int32)
    >>> touched = launch(Program.from_ptx(text), 1, 1, (x,), instruments=[Touched()]).results["touched"]
    >>> touched.of(touched.written, x.address, x.shape, x.strides).tolist()
    [False, True, False, False]
    """

    parameters = ("_lines",)

    def __init__(self, name: str = "touched", lines: frozenset[int] | None = None) -> None:
        self.name = name
        self._lines = lines
        self._maps = np.zeros((2, 0), np.uint8)

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to global memory."""
        if site.kind is not EventKind.ACCESS or site.space != "global" or not self._is_asked(site):
            return None
        if offsets is not None:
            return _in_rows(_AFFINE, site, offsets, (0,) * len(offsets))
        how = _HOW[site.access]
        return _FREE.handler(f"tw.touched.free.{how}", [f"i32 {how}"])

    def strided(self, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler | None:
        """Accesses to global memory, row by row."""
        return _in_rows(_ROWS, site, offsets, rows) if site.space == "global" and self._is_asked(site) else None

    def _is_asked(self, site: Site) -> bool:
        return self._lines is None or site.ptx_line in self._lines

    def begin(self, facts: Facts) -> Storage:
        """Two maps of zeros; the host allocates their pages as they are written."""
        size = facts.global_bytes
        self._maps = areas().take(2 * size).reshape(2, size)
        launch = np.zeros(1, _SHARED.structs["tw_touched"].dtype)
        reads, writes = (part.ctypes.data for part in self._maps)
        launch[0] = (GLOBAL_BASE, size, reads, writes)
        return Storage(launch)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> TouchedResult:
        """The maps; the result owns their memory."""
        read, written = self._maps
        self._maps = np.zeros((2, 0), np.uint8)
        return TouchedResult(read, written)


def _in_rows(function: CFunction, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler:
    """A handler for constant offsets from a base and multiples of a stride; a table has the runs of bytes."""
    size, how = site.bytes_per_lane, _HOW[site.access]
    runs = [
        word
        for number in sorted(set(rows))
        for first, end in _runs([at for at, row in zip(offsets, rows, strict=True) if row == number], size)
        for word in (number, first, end - first)
    ]
    facts = {"runs": runs, "offsets": offsets, "rows": rows}
    digest = hashlib.sha256(repr((function.name, facts, size, how)).encode()).hexdigest()
    symbol = f"tw.touched.{digest[:16]}"
    tables = "".join(f"@{symbol}.{name} = private constant {words(each)}, align 64\n" for name, each in facts.items())
    constants = [
        f"ptr @{symbol}.runs",
        f"i64 {len(runs) // 3}",
        f"ptr @{symbol}.offsets",
        f"ptr @{symbol}.rows",
        f"i64 {size}",
        f"i32 {how}",
    ]
    return function.handler(symbol, constants, tables)


def _runs(offsets: Sequence[int], size: int) -> list[tuple[int, int]]:
    """The bytes that lanes touch, as disjoint intervals.

    >>> _runs([8, 0, 4, 32], 4)
    [(0, 12), (32, 36)]
    """
    found: list[tuple[int, int]] = []
    for first in sorted(set(offsets)):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], first + size)
        else:
            found.append((first, first + size))
    return found
