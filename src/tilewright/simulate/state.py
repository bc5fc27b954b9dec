"""Memory layouts shared by translated code, the runtime and Python: the tables of `simulate/runtime/records.h`.

Everything is a field at a byte offset of one of three records: the *context* (one per host thread), the *slot* (one per
resident block) and the *warp*.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.header import header
from tilewright.simulate.machine.tensor_cores import WAYS, rule_of

_RECORDS: Final = header(Path(__file__).parent / "runtime" / "records.h")
_STRUCTS: Final = _RECORDS.structs


def _numbers(*names: str) -> tuple[int, ...]:
    return tuple(_RECORDS.numbers[f"TW_{name}"] for name in names)


#: Device addresses. A state-space address of shared or local memory is an offset from 0; as a generic address it
#: is in a window of its own. Global addresses are the same in both.
SHARED_WINDOW, LOCAL_WINDOW, GLOBAL_BASE = (
    window << 32 for window in _numbers("SHARED_WINDOW", "LOCAL_WINDOW", "GLOBAL_WINDOW")
)

#: State spaces by their names in an access, for the runtime.
SPACES: Final = {
    name: _RECORDS.numbers[f"TW_SPACE_{name.upper()}"] for name in ("generic", "global", "shared", "local")
}

#: Mapped bytes before and after every arena, more than any affine access spans: inactive lanes may be loaded.
SLACK_BYTES: Final = 64 << 10
AFFINE_SPAN_MAX: Final = 48 << 10

#: What `warp` returns, and values of a warp's `status` field.
DONE, BLOCKED, YIELDED, FAULT, AWAITS, GAVE_WAY = _numbers("DONE", "BLOCKED", "YIELDED", "FAULT", "AWAITS", "GAVE_WAY")

#: Further return values of `tw_run`.
FINISHED, STALLED, DEADLOCK, STOPPED, PAUSED = _numbers("FINISHED", "STALLED", "DEADLOCK", "STOPPED", "PAUSED")

#: Kinds of fault in the fault record.
OUT_OF_BOUNDS, MISALIGNED, TRAP, CALL_DEPTH, BAD_CALL, STOP_REQUEST, STACK_FULL, STACK_POINTER = _numbers(
    "OUT_OF_BOUNDS", "MISALIGNED", "TRAP", "CALL_DEPTH", "BAD_CALL", "STOP_REQUEST", "STACK_FULL", "STACK_POINTER"
)
BARRIER_ID, BARRIER_COUNT, BARRIER_COUNTS, BARRIER_IDS, BARRIER_FORMS, BARRIER_REDUCED = _numbers(
    "BARRIER_ID", "BARRIER_COUNT", "BARRIER_COUNTS", "BARRIER_IDS", "BARRIER_FORMS", "BARRIER_REDUCED"
)

#: Formats of matrix elements by the manual's names, and products with rules of their own.
FORMATS: Final = {
    name: _RECORDS.numbers[f"TW_{name.upper()}"]
    for name in "f16 bf16 tf32 e4m3 e5m2 m8n8k4 wgmma8 f8f6f4 mxf8f6f4 mxf4 e3m2 e2m3 e2m1".split()
}
(_RULES,) = _numbers("RULES")
_WAYS: Final = {way: _RECORDS.numbers[f"TW_{way.upper()}"] for way in WAYS}
_RULE: Final = _STRUCTS["tw_tensor_rule"].dtype

CLUSTER_TWICE, CLUSTER_UNARRIVED, CLUSTER_BLOCKS_MOST, RANK_SHIFT = _numbers(
    "CLUSTER_TWICE", "CLUSTER_UNARRIVED", "CLUSTER_BLOCKS_MOST", "RANK_SHIFT"
)

MBARRIER_COUNT, MBARRIER_SURPLUS, MBARRIER_BYTES, MBARRIER_COMPLETES, MBARRIER_LEFT, BULK_BYTES = _numbers(
    "MBARRIER_COUNT", "MBARRIER_SURPLUS", "MBARRIER_BYTES", "MBARRIER_COMPLETES", "MBARRIER_LEFT", "BULK_BYTES"
)

#: The bits of an mbarrier, and further actions of arrivals.
MBARRIER_PENDING_SHIFT, MBARRIER_BYTES_SHIFT, MBARRIER_PHASE_SHIFT, MBARRIER_MOST = _numbers(
    "MBARRIER_PENDING_SHIFT", "MBARRIER_BYTES_SHIFT", "MBARRIER_PHASE_SHIFT", "MBARRIER_MOST"
)
MBARRIER_DROPS, MBARRIER_EXPECTS, MBARRIER_NO_COMPLETION = _numbers(
    "MBARRIER_DROPS", "MBARRIER_EXPECTS", "MBARRIER_NO_COMPLETION"
)
(TENSOR_MAP, TENSOR_MAGIC) = _numbers("TENSOR_MAP", "TENSOR_MAGIC")
#: Bits of a tensor copy.
TENSOR_STORES, TENSOR_IMAGES, TENSOR_OPERATION_SHIFT = _numbers(
    "TENSOR_STORES", "TENSOR_IMAGES", "TENSOR_OPERATION_SHIFT"
)
#: Operations by which copies combine elements, and types of the elements.
OPERATIONS: Final = {name: _RECORDS.numbers[f"TW_{name.upper()}"] for name in "add min max inc dec and or xor".split()}
_TYPES: Final = {
    "u32": "UINT32", "b32": "UINT32", "s32": "INT32", "u64": "UINT64", "b64": "UINT64", "s64": "INT64",
    "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16",
}  # fmt: skip
ELEMENT_TYPES: Final = {type_: _RECORDS.numbers[f"TW_{name}"] for type_, name in _TYPES.items()}
#: Fields of a tensor map that kernels can change, by their PTX names.
MAP_FIELDS: Final = dict(
    zip(
        "global_address rank box_dim global_dim global_stride element_stride elemtype interleave_layout swizzle_mode "
        "fill_mode".split(),
        _numbers(*(f"MAP_{x}" for x in "ADDRESS RANK BOX EXTENT STRIDE STEP TYPE INTERLEAVE SWIZZLE FILL".split())),
        strict=True,
    )
)
#: Bits of an access to a texture or surface, by name; and, in the driver's numbers, the modes for coordinates out of
#: range and the formats of elements.
_TEXTURES: Final = (
    "layered cube integers gathers gather_shift surface_count_shift surface_stores surface_clamp surface_zero "
    "clamp border elements_signed elements_unsigned elements_float"
)
TEXTURES: Final = {name: _RECORDS.numbers[f"TW_{name.upper()}"] for name in _TEXTURES.split()}
TEXTURE_RECORD: Final = _STRUCTS["tw_texture"].dtype
TEXTURE_NUMBERS: Final = {
    name: _RECORDS.numbers[f"TW_TEXTURE_{name.upper()}"] for name in "magic linear normalized fractions".split()
}
TENSOR_MAP_RECORD: Final = _STRUCTS["tw_tensor_map"].dtype
#: Bits of a product of a warpgroup, by their names in `records.h`.
_DOES: Final = "keeps half negates_a negates_b mn_major_a mn_major_b integers bits saturates"
WGMMA: Final = {name: _RECORDS.numbers[f"TW_WGMMA_{name.upper()}"] for name in _DOES.split()}

#: Shapes of moves between registers and tensor memory by their names, and bits of a move.
_MOVES: Final = {"32x32b": "32X32", "16x64b": "16X64", "16x128b": "16X128", "16x256b": "16X256", "16x32bx2": "16X32X2"}
MOVES: Final = {
    name: _RECORDS.numbers[f"TW_MOVES_{end}"]
    for name, end in {**_MOVES, "stores": "STORES", "halves": "HALVES"}.items()
}
#: Kinds of products in tensor memory by name, and their bits.
_KINDS: Final = "f16 tf32 f8f6f4 i8 mxf8f6f4 mxf4 mxf4nvf4"
KINDS: Final = {name: _RECORDS.numbers[f"TW_KIND_{name.upper()}"] for name in _KINDS.split()}
_PRODUCTS: Final = "a_held pair stationary disables block16 sparse"
PRODUCTS: Final = {name: _RECORDS.numbers[f"TW_TENSOR_{name.upper()}"] for name in _PRODUCTS.split()}
#: Errors of columns of tensor memory and of products there, and reasons why a descriptor is refused.
_COLUMNS: Final = "COUNT ROOM PERMIT FREED OUTSIDE LANES LEFT"
COLUMNS: Final = {name.lower(): _RECORDS.numbers[f"TW_COLUMNS_{name}"] for name in _COLUMNS.split()}
TENSOR_DESCRIPTOR, TENSOR_PEER, TENSOR_BYTES = (
    *_numbers("TENSOR_DESCRIPTOR", "TENSOR_PEER"),
    4 * _RECORDS.numbers["TW_TENSOR_LANES"] * _RECORDS.numbers["TW_TENSOR_COLUMNS"],
)
_WRONG: Final = "version swizzle format shape sparsity mn_major held scales mode metadata zeros"
WRONG: Final = {name: _RECORDS.numbers[f"TW_WRONG_{name.upper()}"] for name in _WRONG.split()}

#: Bits of a product of a sparse matrix.
_SPARSE: Final = "signed_a signed_b saturates half integers"
SPARSE: Final = {name: _RECORDS.numbers[f"TW_SPARSE_{name.upper()}"] for name in _SPARSE.split()}

CONTEXT: Final = _STRUCTS["tw_context"].offsets
CONTEXT_BYTES: Final = _STRUCTS["tw_context"].bytes
#: What a lane prints, a text of it, and the most arguments of a line.
PRINT_RECORD: Final = _STRUCTS["tw_print_record"].dtype
PRINT_TEXT: Final = _STRUCTS["tw_print_text"].dtype
(PRINT_ARGUMENTS,) = _numbers("PRINT_ARGUMENTS")

#: Host stack of a worker thread, and what called functions may fill of it.
HOST_STACK_BYTES: Final = 256 << 20
(CALL_STACK_BYTES,) = _numbers("CALL_STACK_BYTES")

SLOT: Final = _STRUCTS["tw_slot"].offsets
SLOT_BYTES: Final = _STRUCTS["tw_slot"].bytes

#: Barriers of a block: their number, and their offset in the slot; the number of the cluster's barrier.
BARRIERS, CLUSTER_BARRIER = _numbers("BARRIERS", "CLUSTER_BARRIER")
SLOT_BARRIERS: Final = SLOT["barriers"]
BARRIER: Final = _STRUCTS["tw_barrier"].offsets
#: Bits of an instruction at a barrier.
SYNC, ARRIVE, REDUCE = _numbers("SYNC", "ARRIVE", "REDUCE")

WARP: Final = _STRUCTS["tw_warp"].offsets
#: Points follow, one for each barrier instruction of the kernel.
WARP_POINTS: Final = WARP["points"]
POINT: Final = _STRUCTS["tw_point"].offsets
POINT_BYTES: Final = _STRUCTS["tw_point"].bytes


@functools.lru_cache(maxsize=64)
def tensor_rules(capability: tuple[int, int]) -> npt.NDArray[Any]:
    """How GPUs of a compute capability sum the products of matrices: a record for each of `FORMATS` that has one.

    A record's place is the format's number. The array is shared, and must not be changed.
    """
    rules = np.zeros(_RULES, _RULE)
    for name, number in FORMATS.items():
        if number >= _RULES:
            continue
        found = rule_of(capability, name)
        rules[number] = _WAYS[found.way], found.group, found.fraction, found.floor, found.kept
    return rules
