"""Values of special registers (PTX ISA, chapter 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.simt.translate.code import LANES, Value
from tilewright.simt.translate.shapes import VECTOR
from tilewright.simt.translate.special import special_shape, thread_indices
from tilewright.simt.translate.state import SLOT, WARP

if TYPE_CHECKING:
    from tilewright.simt.translate.emitter import Emitter

#: Registers of a launch without clusters: each block is a cluster of one.
_FIXED = {
    "%smid": 0, "%nsmid": 1, "%gridid": 0, "%envreg0": 0, "%aggr_smem_size": 0, "%is_explicit_cluster": 0,
    "%cluster_ctarank": 0, "%cluster_nctarank": 1, "%current_graph_exec": 0,
}  # fmt: skip
_LANE_MASKS = {
    "%lanemask_eq": lambda lane: 1 << lane,
    "%lanemask_le": lambda lane: (2 << lane) - 1,
    "%lanemask_lt": lambda lane: (1 << lane) - 1,
    "%lanemask_ge": lambda lane: -1 << lane,
    "%lanemask_gt": lambda lane: -2 << lane,
}


def special_value(emitter: Emitter, name: str) -> Value:
    """The value of a special register; for a pattern, its value in lane 0."""
    code = emitter.code
    head, _, axis_name = name.partition(".")
    if not axis_name and head in ("%tid", "%ntid", "%ctaid", "%nctaid"):
        axis_name = "x"
    axis = "xyz".find(axis_name) if axis_name else 0
    match head:
        case "%tid":
            return _thread_index(emitter, axis)
        case "%ntid":
            return code.const("i32", emitter.launch.block[axis])
        case "%ctaid" | "%clusterid":
            return _narrow(emitter, emitter.field("%slot", SLOT[f"ctaid_{'xyz'[axis]}"], "i64"))
        case "%nctaid" | "%nclusterid":
            return _narrow(emitter, emitter.context(f"grid_{'xyz'[axis]}"))
        case "%laneid":
            return code.const("i32", 0)
        case "%warpid":
            return emitter.field("%warp", WARP["index"], "i32")
        case "%nwarpid":
            return code.const("i32", emitter.launch.warps)
        case "%total_smem_size":
            return _narrow(emitter, emitter.context("shared_bytes"))
        case "%dynamic_smem_size":
            return _narrow(emitter, emitter.context("dynamic_shared_bytes"))
        case "%cluster_ctaid":
            return code.const("i32", 0)
        case "%cluster_nctaid":
            return code.const("i32", 1)
        case "%clock64" | "%globaltimer":
            return _clock(emitter)
        case "%clock" | "%globaltimer_lo":
            return code.cast("trunc", _clock(emitter), "i32")
        case "%clock_hi" | "%globaltimer_hi":
            high = code.binary("lshr", _clock(emitter), code.const("i64", 32))
            return code.cast("trunc", high, "i32")
    if head in _LANE_MASKS:
        return code.pattern("i32", [_LANE_MASKS[head](lane) for lane in range(LANES)])
    return code.const("i32", _FIXED.get(head, 0))


def _narrow(emitter: Emitter, value: Value) -> Value:
    return emitter.code.cast("trunc", value, "i32")


def _thread_index(emitter: Emitter, axis: int) -> Value:
    code = emitter.code
    rows = thread_indices(emitter.launch.block)[axis]
    index = emitter.field("%warp", WARP["index"], "i32")
    if special_shape(f"%tid.{'xyz'[axis]}", emitter.launch).kind == VECTOR:
        table = emitter.constant_array("i32", [v for row in rows for v in row])
        row = code.mul(index, code.const("i32", LANES))
        pointer = code.op(f"getelementptr i32, ptr {table}, i32 {row.text}", "ptr")
        return code.op(f"load <{LANES} x i32>, ptr {pointer.text}, align 4", "i32", LANES)
    if all(row[0] == rows[0][0] for row in rows):
        return code.const("i32", rows[0][0])
    table = emitter.constant_array("i32", [row[0] for row in rows])
    pointer = code.op(f"getelementptr i32, ptr {table}, i32 {index.text}", "ptr")
    return code.op(f"load i32, ptr {pointer.text}, align 4", "i32")


def _clock(emitter: Emitter) -> Value:
    """Warp instructions so far: monotonic, and the same in every run with the same seed."""
    fuel = emitter.code.op("load i64, ptr %fuel", "i64")
    spent = emitter.code.sub(emitter.context("quantum"), fuel)
    return emitter.code.add(emitter.context("instructions"), spent)
