"""Special registers: the table of their names, widths, shapes and values, and the class of a launch.

The graph reads the names from it, the shapes the shapes, and the emitter the values.

Source: PTX ISA, chapter 10 (Special Registers). Lanes of a warp are consecutive threads, x fastest, then y, then z.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from tilewright.simulate.code import LANES, Code, Value
from tilewright.simulate.events import Instrument
from tilewright.simulate.machine import launch_limits
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import RANK_SHIFT, SLOT, WARP
from tilewright.simulate.translate.analysis.layout import RESERVED, RESERVED_BYTES, RESERVED_OFFSETS, Layout
from tilewright.simulate.translate.analysis.shape import (
    AFFINE,
    ALIGN_MAX,
    ANY_UNIFORM,
    UNIFORM,
    VECTOR,
    Shape,
    constant,
)

#: Assumed bound of a grid's extent in threads, and of 32-bit parameters, in a "small" launch: products of two such
#: numbers fit a signed 32-bit register, so index arithmetic provably does not wrap.
SMALL = 1 << 15
#: The same for a 64-bit parameter.
SMALL_WIDE = (1 << 31) - 1
#: Bytes of a thread's stack, unless the launch sets them; a GPU's default is 1,024.
STACK_BYTES = 8 << 10
#: Assumed bounds of an axis in blocks. With the lowest, the bound also holds for threads of up to 32 results each.
_BLOCKS_MOST = (SMALL >> 5, SMALL)
#: Shared memory is allocated in these units. Source: PTX ISA, 10.28 (%total_smem_size).
SHARED_UNIT_BYTES = 128
_ENVIRONMENT_REGISTERS = 32


@dataclass(frozen=True)
class LaunchClass:
    """The facts of a launch that a translation may assume; part of the cache key."""

    block: tuple[int, int, int]  #: Threads of a block.
    #: For each axis: a bound of its blocks; 0: only the hardware's.
    blocks_most: tuple[int, int, int] = (0, 0, 0)
    #: Byte offset and bits of parameters whose value is in [0, SMALL], or of 64-bit ones in [0, SMALL_WIDE].
    small_params: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    #: Byte offset and value of 64-bit parameters that are an array's last stride, if that is one element.
    unit_strides: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    #: Blocks of a cluster along each axis; None if the launch has none; then each block is its own cluster.
    cluster: tuple[int, int, int] | None = None
    stack_bytes: int = STACK_BYTES  #: Stack of a thread, if the kernel uses it.
    gives_way: bool = False  #: Whether warps may give way to others before strong accesses.

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(
        block: tuple[int, int, int],
        grid: tuple[int, int, int],
        small_params: frozenset[tuple[int, int]] = frozenset(),
        unit_strides: frozenset[tuple[int, int]] = frozenset(),
        cluster: tuple[int, int, int] | None = None,
        stack_bytes: int = STACK_BYTES,
        *,
        gives_way: bool = False,
    ) -> LaunchClass:
        """The class of a launch. There are few classes, so that launches of other sizes can use its translation."""
        return LaunchClass(
            block, _class_bounds(grid, block), small_params, unit_strides, cluster, stack_bytes, gives_way
        )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def clustered(self) -> bool:
        """Whether clusters have more than one block."""
        return math.prod(self.cluster or ()) > 1

    @property
    def warps(self) -> int:
        """Warps of a block, the last perhaps partial."""
        return -(-self.threads // LANES)


def _class_bounds(grid: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, int, int]:
    """For each axis a bound of its blocks; 0: only the hardware's."""
    x, y, z = (
        next((most for bound in _BLOCKS_MOST if blocks <= (most := min(bound, SMALL // threads))), 0)
        for blocks, threads in zip(grid, block, strict=True)
    )
    return x, y, z


class Emits(Protocol):
    """The parts of the emitter that a value needs."""

    code: Code
    launch: LaunchClass
    layout: Layout
    instruments: Sequence[Instrument]

    def context(self, field: str, type_: str = "i64") -> Value:
        """A field of the launch's record."""

    def field(self, record: str, offset: int, type_: str) -> Value:
        """A field of another record."""

    def constant_array(self, type_: str, items: Sequence[int]) -> str:
        """The address of constants."""


@dataclass(frozen=True)
class Special:
    """One special register, or one vector of them."""

    widths: tuple[int, ...]  #: Bits it may be read in, the natural width first; 1 is a predicate.
    shape: Callable[[LaunchClass, int], Shape]  #: ``shape(launch, axis) -> Shape``.
    #: ``value(emitter, axis) -> Value`` of its own width; if affine, its value in lane 0.
    value: Callable[[Emits, int], Value]
    axes: str = ""  #: Letters of the components; "" for a scalar, whose axis is 0. A fourth component, `w`, reads as 0.


def find(name: str) -> tuple[Special, int] | None:
    """The register of a name (`%tid.x`, `%laneid`) and its axis; None for an unknown name."""
    head, dot, axis = name.partition(".")
    special = SPECIAL_REGISTERS.get(head)
    if special is None or bool(dot) != bool(special.axes):
        return None
    if special.axes and axis == "w":
        return _UNUSED, 0
    if dot and (len(axis) != 1 or axis not in special.axes):
        return None
    return special, max(special.axes.find(axis), 0) if dot else 0


def elements(operand: tree.Operand) -> tree.Operand:
    """The four elements of a vector such as `%tid`, for an instruction that takes them; other operands unchanged."""
    if isinstance(operand, tree.Register) and operand.name in SPECIAL_REGISTERS:
        return tree.Vector(tuple(tree.Register(f"{operand.name}.{axis}") for axis in "xyzw"))
    return operand


def why_unknown(name: str) -> str:
    """The error text for a name that is neither declared nor in the table, with the known names."""
    head, dot, axis = name.partition(".")
    special = SPECIAL_REGISTERS.get(head)
    if special is None:
        near = difflib.get_close_matches(head, SPECIAL_REGISTERS, n=3, cutoff=0.7) or list(SPECIAL_REGISTERS)
        return f"register '{name}' is not declared, and is no special register; known ones: {', '.join(near)}"
    if not special.axes:
        return f"special register '{head}' has no components (got '{name}'); read '{head}'"
    known = ", ".join(f"{head}.{letter}" for letter in special.axes)
    what = f"no component '.{axis}'" if dot else "no value as a whole"
    return f"special register '{head}' has {what} (got '{name}'); read one of {known}"


def special_shape(name: str, launch: LaunchClass) -> Shape:
    """The shape of a special register."""
    special, axis = _known(name)
    return special.shape(launch, axis)


def special_value(emitter: Emits, name: str) -> Value:
    """The value of a special register; if affine, its value in lane 0."""
    special, axis = _known(name)
    return special.value(emitter, axis)


def _known(name: str) -> tuple[Special, int]:
    found = find(name)
    assert found is not None, name  # the graph has checked it
    return found


# -- thread and block indices -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def thread_indices(block: tuple[int, int, int]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """tid.x, tid.y, tid.z of every lane: [axis][warp][lane].

    Lanes past the block's end never run. They get values that make the last warp like the first, so that blocks of any
    number of threads are affine.
    """
    x, y, _ = block
    threads = block[0] * block[1] * block[2]
    warps = [range(first, first + LANES) for first in range(0, threads, LANES)]
    axes = (
        [[t if x == threads else t % x for t in warp] for warp in warps],
        [[t // x % y if x < threads else 0 for t in warp] for warp in warps],
        [[t // (x * y) if x * y < threads else 0 for t in warp] for warp in warps],
    )
    live = threads - (len(warps) - 1) * LANES
    for rows in axes:
        if len(rows) > 1:
            rows[-1][live:] = [rows[-1][0] + v - rows[0][0] for v in rows[0][live:]]
    return (_frozen(axes[0]), _frozen(axes[1]), _frozen(axes[2]))


def _frozen(rows: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in rows)


def _tid_shape(launch: LaunchClass, axis: int) -> Shape:
    return _index_shape(launch.block, axis)


@functools.lru_cache(maxsize=256)
def _index_shape(block: tuple[int, int, int], axis: int) -> Shape:
    rows = thread_indices(block)[axis]
    differences = {tuple(v - row[0] for v in row) for row in rows}
    low, high = 0, max(max(row) for row in rows)
    if high == 0:
        return constant(0)
    if len(differences) > 1:
        return Shape(VECTOR, (), low, high)
    lane_offsets = differences.pop()
    align = min((row[0] & -row[0] or ALIGN_MAX) for row in rows)
    return Shape(AFFINE if any(lane_offsets) else UNIFORM, lane_offsets if any(lane_offsets) else (), low, high, align)


def _tid(emitter: Emits, axis: int) -> Value:
    code = emitter.code
    rows = thread_indices(emitter.launch.block)[axis]
    index = _warpid(emitter, axis)
    if _tid_shape(emitter.launch, axis).kind == VECTOR:
        table = emitter.constant_array("i32", [v for row in rows for v in row])
        row = code.mul(index, code.const("i32", LANES))
        pointer = code.op(f"getelementptr i32, ptr {table}, i32 {row.text}", "ptr")
        return code.op(f"load <{LANES} x i32>, ptr {pointer.text}, align 4", "i32", LANES)
    if all(row[0] == rows[0][0] for row in rows):
        return code.const("i32", rows[0][0])
    table = emitter.constant_array("i32", [row[0] for row in rows])
    pointer = code.op(f"getelementptr i32, ptr {table}, i32 {index.text}", "ptr")
    return code.op(f"load i32, ptr {pointer.text}, align 4", "i32")


def _blocks_most(launch: LaunchClass, axis: int) -> int:
    """The greatest number of blocks along an axis."""
    return launch.blocks_most[axis] or launch_limits().grid_extents[axis]


def _ctaid_shape(launch: LaunchClass, axis: int) -> Shape:
    return Shape(UNIFORM, (), 0, max(_blocks_most(launch, axis) - 1, 0))


def _nctaid_shape(launch: LaunchClass, axis: int) -> Shape:
    return Shape(UNIFORM, (), 1, max(_blocks_most(launch, axis), 1))


def _narrow(emitter: Emits, value: Value) -> Value:
    return emitter.code.cast("trunc", value, "i32")


def _ctaid(emitter: Emits, axis: int) -> Value:
    return _narrow(emitter, emitter.field("%slot", SLOT[f"ctaid_{'xyz'[axis]}"], "i64"))


def _nctaid(emitter: Emits, axis: int) -> Value:
    return _narrow(emitter, emitter.context(f"grid_{'xyz'[axis]}"))


def _cluster(launch: LaunchClass) -> tuple[int, int, int]:
    return launch.cluster or (1, 1, 1)


def _up_to(most: Callable[[LaunchClass, int], int]) -> Callable[[LaunchClass, int], Shape]:
    """The shape of a uniform register from 0 to a bound."""
    return lambda launch, axis: Shape(UNIFORM, (), 0, max(most(launch, axis), 0))


def _clusterid(emitter: Emits, axis: int) -> Value:
    size = _cluster(emitter.launch)[axis]
    return emitter.code.binary("udiv", _ctaid(emitter, axis), emitter.code.const("i32", size))


def _nclusterid(emitter: Emits, axis: int) -> Value:
    size = _cluster(emitter.launch)[axis]
    return emitter.code.binary("udiv", _nctaid(emitter, axis), emitter.code.const("i32", size))


def _cluster_rank(emitter: Emits, axis: int) -> Value:
    start = emitter.field("%slot", SLOT["shared_start"], "i64")
    return _narrow(emitter, emitter.code.binary("lshr", start, emitter.code.const("i64", RANK_SHIFT)))


def _cluster_ctaid(emitter: Emits, axis: int) -> Value:
    size = _cluster(emitter.launch)[axis]
    return emitter.code.binary("urem", _ctaid(emitter, axis), emitter.code.const("i32", size))


def _warpid(emitter: Emits, axis: int) -> Value:
    return emitter.field("%warp", WARP["index"], "i32")


# -- clocks and sizes ---------------------------------------------------------------------------------------------


def _clock(emitter: Emits, axis: int) -> Value:
    """Warp instructions so far: monotonic, and the same in every run with the same seed."""
    fuel = emitter.code.op("load i64, ptr %fuel", "i64")
    spent = emitter.code.sub(emitter.context("quantum"), fuel)
    return emitter.code.add(emitter.context("instructions"), spent)


def _clock_low(emitter: Emits, axis: int) -> Value:
    return _narrow(emitter, _clock(emitter, axis))


def _clock_high(emitter: Emits, axis: int) -> Value:
    return _narrow(emitter, emitter.code.binary("lshr", _clock(emitter, axis), emitter.code.const("i64", 32)))


def _shared_in_units(emitter: Emits, axis: int) -> Value:
    code = emitter.code
    gaps = emitter.layout.shared_gap_bytes + max((i.gap_bytes for i in emitter.instruments), default=0)
    used = code.sub(_narrow(emitter, emitter.context("shared_bytes")), code.const("i32", gaps))
    raised = code.add(used, code.const("i32", SHARED_UNIT_BYTES - 1))
    return code.and_(raised, code.const("i32", -SHARED_UNIT_BYTES))


def _reserved(name: str) -> Callable[[Emits, int], Value]:
    """An offset in the reserved shared memory, which the layout placed."""

    def value(emitter: Emits, axis: int) -> Value:
        return emitter.code.const("i32", emitter.layout.places[RESERVED][1] + RESERVED_OFFSETS[name])

    return value


def _workspace_high(emitter: Emits, axis: int) -> Value:
    code = emitter.code
    return _narrow(emitter, code.binary("lshr", emitter.context("grid_workspace"), code.const("i64", 32)))


# -- the table ----------------------------------------------------------------------------------------------------


def _of_launch(number: Callable[[LaunchClass, int], int], *widths: int, axes: str = "") -> Special:
    """A register that a launch's class fixes."""

    def value(emitter: Emits, axis: int) -> Value:
        return emitter.code.const(f"i{widths[0]}", number(emitter.launch, axis))

    return Special(widths, lambda launch, axis: constant(number(launch, axis)), value, axes)


def _fixed(number: int, *widths: int, axes: str = "") -> Special:
    """A register with one value in every launch."""
    return _of_launch(lambda _launch, _axis: number, *widths, axes=axes)


def _varying(value: Callable[[Emits, int], Value], bits: int = 32) -> Special:
    """A uniform register with unknown bounds."""
    return Special((bits,), lambda _launch, _axis: ANY_UNIFORM, value)


def _lane_mask(mask: Callable[[int], int]) -> Special:
    def value(emitter: Emits, axis: int) -> Value:
        return emitter.code.constants("i32", [mask(lane) for lane in range(LANES)])

    return Special((32,), lambda _launch, _axis: Shape(VECTOR), value)


#: Also readable with 16 bits, because they once were 16-bit registers. Source: PTX ISA, 10.1, 10.2, 10.6, 10.7, "legacy
#: PTX 1.x code".
_INDEX = (32, 16)

#: The fourth component of every vector of indices.
_UNUSED = _fixed(0, *_INDEX)
_MONITORS = 8  # performance counters, which count nothing here

#: Every special register. A launch is the only grid here, on the only multiprocessor.
SPECIAL_REGISTERS: Mapping[str, Special] = MappingProxyType(
    {
        "%tid": Special(_INDEX, _tid_shape, _tid, "xyz"),
        "%ntid": _of_launch(lambda launch, axis: launch.block[axis], *_INDEX, axes="xyz"),
        "%laneid": Special(
            (32,),
            lambda launch, axis: Shape(AFFINE, tuple(range(LANES)), 0, LANES - 1, ALIGN_MAX),
            lambda emitter, axis: emitter.code.const("i32", 0),
        ),
        "%warpid": Special((32,), lambda launch, axis: Shape(UNIFORM, (), 0, launch.warps - 1), _warpid),
        "%nwarpid": _of_launch(lambda launch, _axis: launch.warps, 32),
        "%ctaid": Special(_INDEX, _ctaid_shape, _ctaid, "xyz"),
        "%nctaid": Special(_INDEX, _nctaid_shape, _nctaid, "xyz"),
        "%clusterid": Special((32,), _ctaid_shape, _clusterid, "xyz"),
        "%nclusterid": Special((32,), _nctaid_shape, _nclusterid, "xyz"),
        "%cluster_ctaid": Special((32,), _up_to(lambda launch, x: _cluster(launch)[x] - 1), _cluster_ctaid, "xyz"),
        "%cluster_nctaid": _of_launch(lambda launch, axis: _cluster(launch)[axis], 32, axes="xyz"),
        "%cluster_ctarank": Special((32,), _up_to(lambda launch, _: math.prod(_cluster(launch)) - 1), _cluster_rank),
        "%cluster_nctarank": _of_launch(lambda launch, _axis: math.prod(_cluster(launch)), 32),
        "%is_explicit_cluster": _of_launch(lambda launch, _axis: int(launch.cluster is not None), 1),
        "%smid": _fixed(0, 32),
        "%nsmid": _fixed(1, 32),
        "%gridid": _fixed(0, 64, 32, 16),
        "%lanemask_eq": _lane_mask(lambda lane: 1 << lane),
        "%lanemask_le": _lane_mask(lambda lane: (2 << lane) - 1),
        "%lanemask_lt": _lane_mask(lambda lane: (1 << lane) - 1),
        "%lanemask_ge": _lane_mask(lambda lane: -1 << lane),
        "%lanemask_gt": _lane_mask(lambda lane: -2 << lane),
        "%clock": _varying(_clock_low),
        "%clock_hi": _varying(_clock_high),
        "%clock64": _varying(_clock, 64),
        "%globaltimer": _varying(_clock, 64),
        "%globaltimer_lo": _varying(_clock_low),
        "%globaltimer_hi": _varying(_clock_high),
        "%total_smem_size": _varying(_shared_in_units),
        "%aggr_smem_size": _varying(
            lambda emitter, axis: emitter.code.add(
                _shared_in_units(emitter, axis), emitter.code.const("i32", RESERVED_BYTES)
            )
        ),
        "%dynamic_smem_size": _varying(lambda emitter, axis: _narrow(emitter, emitter.context("dynamic_shared_bytes"))),
        "%current_graph_exec": _fixed(0, 64),
        **{name: _varying(_reserved(name)) for name in RESERVED_OFFSETS},
        **{f"%pm{index}": _fixed(0, 32) for index in range(_MONITORS)},
        **{f"%pm{index}_64": _fixed(0, 64) for index in range(_MONITORS)},
        **{f"%envreg{index}": _fixed(0, 32) for index in range(_ENVIRONMENT_REGISTERS)},
        # The address of a cooperative launch's workspace. Source: CUDA, cooperative_groups/details/driver_abi.h.
        "%envreg1": _varying(_workspace_high),
        "%envreg2": _varying(lambda emitter, axis: _narrow(emitter, emitter.context("grid_workspace"))),
    }
)
