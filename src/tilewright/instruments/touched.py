"""Which bytes of global memory a launch reads and writes.

Two maps with a byte for each byte of global memory in use: one for reads, one for writes. An access sets a lane's bytes
as one integer of its width. All host threads set the same value, so they need no order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.instruments.shadow.states import reserved
from tilewright.simt.events import GLOBAL_BASE, EventKind, Facts, Handler, Instrument, Site, Storage, parameters

_LANES = 32
#: Lanes that are looked at together where they lie in a row.
_ROW = 8
#: Words of the launch's memory: host addresses of the maps of reads and of writes, and bytes of global memory.
_READS, _WRITES, _BYTES = 0, 8, 16
_MAPS = {"load": (_READS,), "store": (_WRITES,), "atomic": (_READS, _WRITES)}
#: Bytes on both sides of a map: lanes of an affine access that are switched off may lie so far outside of memory.
_SLACK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TouchedResult:
    """What a launch touched: uint8 maps from GLOBAL_BASE on, 1 where a byte was read or written."""

    read: npt.NDArray[np.uint8] = field(repr=False)
    written: npt.NDArray[np.uint8] = field(repr=False)

    def of(
        self, bytes_: npt.NDArray[np.uint8], address: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> npt.NDArray[np.bool_]:
        """Which elements of an array were touched: by their first bytes, in the array's shape.

        `bytes_` is `read` or `written`; `address` that of element [0, 0, ...].
        """
        span = sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=True)) + 1
        if 0 in shape or address - GLOBAL_BASE + span > bytes_.size:  # freed memory behind all that is in use
            return np.zeros(shape, bool)
        return np.ndarray(shape, np.uint8, bytes_.data, address - GLOBAL_BASE, strides).astype(bool)


class Touched(Instrument):
    """Note which bytes of global memory are read and written.

    Examples
    --------
    >>> from tilewright.programs import Program
    >>> from tilewright.simt import Memory, launch
    >>> text = '''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry odd(.param .u64 x) {
    ...   .reg .b32 %r<2>; .reg .b64 %rd<4>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2;
    ...   st.global.u32 [%rd3+4], %r1; ret;
    ... }'''
    >>> x = Memory().empty(8, np.int32)
    >>> touched = launch(Program.from_ptx(text), 1, 4, (x,), instruments=[Touched()]).results["touched"]
    >>> touched.of(touched.written, x.address, x.shape, x.strides).tolist()
    [False, True, False, True, False, True, False, True]
    """

    def __init__(self) -> None:
        self.name = "touched"
        self._maps = np.zeros((2, 0), np.uint8)

    def key(self) -> Any:
        """The code depends on nothing."""
        return self.name

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to global memory."""
        if site.kind is not EventKind.ACCESS or site.space != "global":
            return None
        maps, size = _MAPS[site.access], site.bytes_per_lane
        symbol = f"tw.touched.{site.access}.{size}"
        if offsets is None:
            return Handler(symbol, _vector(symbol, maps, size))
        symbol += "." + hashlib.sha256(repr(offsets).encode()).hexdigest()[:16]
        return Handler(symbol, _pattern(symbol, maps, offsets, size), affine=True)

    def begin(self, facts: Facts) -> Storage:
        """Two maps of zeros; pages of them cost nothing until they are touched."""
        size = facts.global_bytes + 2 * _SLACK_BYTES
        self._maps = reserved(2 * size)[: 2 * size].reshape(2, size)
        reads, writes = (part.ctypes.data + _SLACK_BYTES for part in self._maps)
        return Storage(np.array([reads, writes, facts.global_bytes], np.uint64))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> TouchedResult:
        """The maps."""
        reads, writes = (part[_SLACK_BYTES:-_SLACK_BYTES] for part in self._maps)
        return TouchedResult(reads, writes)


def _pieces(size: int) -> list[tuple[int, int]]:
    """(offset, bytes) of the integers that an access of so many bytes is made of, 8 bytes at most each."""
    width = min(size & -size, 8)
    return [(at, width) for at in range(0, size, width)]


def _ones(width: int) -> int:
    return int.from_bytes(b"\1" * width, "little")


def _load_words(maps: tuple[int, ...]) -> str:
    """`%size`, and `%map0` and on: where the maps have the byte at GLOBAL_BASE."""
    names = {"size": ("i64", _BYTES)} | {f"map{index}": ("ptr", at) for index, at in enumerate(maps)}
    return "".join(
        f"  %{name}.p = getelementptr i8, ptr %launch, i64 {at}\n  %{name} = load {kind}, ptr %{name}.p\n"
        for name, (kind, at) in names.items()
    )


def _vector(symbol: str, maps: tuple[int, ...], size: int) -> str:
    """Addresses that differ freely: where each eight lanes lie in a row, four stores; else lane by lane.

    Lanes outside of memory are left out.
    """
    stores = "".join(
        f"  %to{i}.{at} = getelementptr i8, ptr %map{i}, i64 %at.{at}\n"
        f"  store i{8 * width} {_ones(width)}, ptr %to{i}.{at}, align 1\n"
        for i in range(len(maps))
        for at, width in _pieces(size)
    )
    places = "".join(f"  %at.{at} = add i64 %at, {at}\n" for at, _ in _pieces(size))
    return f"""
declare i32 @llvm.cttz.i32(i32, i1)
define void @{symbol}({parameters(EventKind.ACCESS)}) {{
entry:
{_load_words(maps)}
  %last = sub i64 %size, {size}
  %full = icmp eq i32 %mask, -1
  br i1 %full, label %look, label %next
{_rows(len(maps), size)}
next:
  %left = phi i32 [ %mask, %entry ], [ %mask, %look ], [ %rest, %lane ], [ %rest, %set ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %leave, label %lane
lane:
  %index = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %less = sub i32 %left, 1
  %rest = and i32 %left, %less
  %address.p = getelementptr i64, ptr %addresses, i32 %index
  %address = load i64, ptr %address.p
  %at = sub i64 %address, {GLOBAL_BASE}
  %inside = icmp ule i64 %at, %last
  br i1 %inside, label %set, label %next
set:
{places}{stores}
  br label %next
leave:
  ret void
}}
"""


def _rows(count: int, size: int) -> str:
    """Label `look`: set the bytes of lanes in rows of eight inside of memory and go to `leave`, else to `next`."""
    vector = f"<{_ROW} x i64>"
    steps = ", ".join(f"i64 {size * lane}" for lane in range(_ROW))
    look = f"look:\n  %last.row = sub i64 %size, {_ROW * size}\n"
    sets = "rows:\n"
    good = "true"
    for row in range(_LANES // _ROW):
        look += f"""
  %p{row} = getelementptr i64, ptr %addresses, i64 {_ROW * row}
  %v{row} = load {vector}, ptr %p{row}, align 8
  %first{row} = extractelement {vector} %v{row}, i32 0
  %one{row} = insertelement {vector} poison, i64 %first{row}, i32 0
  %all{row} = shufflevector {vector} %one{row}, {vector} poison, <{_ROW} x i32> zeroinitializer
  %wanted{row} = add {vector} %all{row}, <{steps}>
  %same{row} = icmp eq {vector} %v{row}, %wanted{row}
  %is{row} = call i1 @llvm.vector.reduce.and.v{_ROW}i1(<{_ROW} x i1> %same{row})
  %off{row} = sub i64 %first{row}, {GLOBAL_BASE}
  %low{row} = icmp ule i64 %off{row}, %last.row
  %fine{row} = and i1 %is{row}, %low{row}
  %good{row} = and i1 {good}, %fine{row}
"""
        good = f"%good{row}"
        for number in range(count):
            sets += f"  %row{row}.{number} = getelementptr i8, ptr %map{number}, i64 %off{row}\n"
            sets += f"  store <{_ROW * size} x i8> splat (i8 1), ptr %row{row}.{number}, align 1\n"
    return f"{look}  br i1 {good}, label %rows, label %next\n{sets}  br label %leave\n"


def _pattern(symbol: str, maps: tuple[int, ...], offsets: tuple[int, ...], size: int) -> str:
    """Constant offsets from a base: unit strides are one masked store, one place one store."""
    low, high = min(offsets), max(offsets) + size
    sets = "".join(
        _set(number, at, width, tuple(o - low for o in offsets), size)
        for number in range(len(maps))
        for at, width in _pieces(size)
    )
    vector = f"v{_LANES}i{8 * _pieces(size)[0][1]}"
    values = f"<{_LANES} x {vector.removeprefix(f'v{_LANES}')}>"
    return f"""
declare void @llvm.masked.scatter.{vector}.v{_LANES}p0({values}, <{_LANES} x ptr>, <{_LANES} x i1>)
declare void @llvm.masked.store.{vector}.p0({values}, ptr, <{_LANES} x i1>)
define void @{symbol}({parameters(EventKind.ACCESS, affine=True)}) {{
entry:
  %idle = icmp eq i32 %mask, 0
  br i1 %idle, label %leave, label %look
look:
{_load_words(maps)}
  %first = add i64 %base, {low - GLOBAL_BASE}
  %shifted = add i64 %first, {_SLACK_BYTES}
  %last = add i64 %size, {2 * _SLACK_BYTES - (high - low)}
  %inside = icmp ule i64 %shifted, %last
  br i1 %inside, label %set, label %leave
set:
  %lanes = bitcast i32 %mask to <{_LANES} x i1>
{sets}
  br label %leave
leave:
  ret void
}}
"""


def _set(number: int, at: int, width: int, offsets: tuple[int, ...], size: int) -> str:
    """Set one integer of each lane in a map; offsets count from the lowest."""
    name, kind = f"m{number}.{at}", f"i{8 * width}"
    start = f"  %{name}.off = add i64 %first, {at}\n  %{name}.p = getelementptr i8, ptr %map{number}, i64 %{name}.off\n"
    if not any(offsets):
        return f"{start}  store {kind} {_ones(width)}, ptr %{name}.p, align 1\n"
    values = f"<{_LANES} x {kind}> splat ({kind} {_ones(width)})"
    if width == size and offsets == tuple(range(0, _LANES * size, size)):
        return (
            f"{start}  call void @llvm.masked.store.v{_LANES}{kind}.p0({values}, ptr align 1 %{name}.p, "
            f"<{_LANES} x i1> %lanes)\n"
        )
    lanes = ", ".join(f"i64 {offset}" for offset in offsets)
    return (
        f"{start}  %{name}.ps = getelementptr i8, ptr %{name}.p, <{_LANES} x i64> <{lanes}>\n"
        f"  call void @llvm.masked.scatter.v{_LANES}{kind}.v{_LANES}p0({values}, <{_LANES} x ptr> align 1 %{name}.ps, "
        f"<{_LANES} x i1> %lanes)\n"
    )
