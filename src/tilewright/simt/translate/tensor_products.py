"""Products in tensor memory: what the runtime is told of one, by each thread that issues it.

Source: PTX ISA, 9.7.16.10 (tcgen05.mma). Descriptors are read by the runtime (`runtime/tensor_products.c`).
"""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.ptx import tree
from tilewright.ptx.printing import operand_text
from tilewright.simt.translate import mbarriers
from tilewright.simt.translate.code import Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.graph import Op
from tilewright.simt.translate.state import PRODUCTS
from tilewright.simt.translate.tensor_memory import address_of, where

#: What D as it was may be divided by, as powers of two. Source: PTX ISA, 9.7.16.10.9.1 (scale-input-d).
_SHRINKS_MOST = 15
#: Where words of disabled lanes begin among the operands.
_OFF = 7


def emit(emitter: Emitter, op: Op) -> list[Value]:
    """Multiply, for each lane that runs."""
    code, named = emitter.code, op.named
    kind, does = op.form.row.emit(op.form)
    left = named["a"]
    if isinstance(left, tree.Address):
        does |= PRODUCTS["a_held"]
        a = address_of(emitter, op, left)
    else:
        a = emitter.read(left, "b64")
    off = named.get("off")
    if isinstance(off, tree.Vector):
        does |= PRODUCTS["disables"]
    values = {
        0: address_of(emitter, op, named["to"]), 1: a, 2: emitter.read(named["b"], "b64"),
        3: emitter.read(named["instruction"], "b32"), 4: emitter.read(named["adds"], "pred"),
    }  # fmt: skip
    if "sa" in named:
        values |= {5: address_of(emitter, op, named["sa"]), 6: address_of(emitter, op, named["sb"])}
    if isinstance(off, tree.Vector):
        values |= {_OFF + i: emitter.read(item, "b32") for i, item in enumerate(off.items)}
    for number, value in values.items():
        mbarriers.scratch(emitter, number, code.resize(value, "i64", signed=False))
    numbers = (f"i32 {number}" for number in (kind, does, _shrinks(emitter, op, named.get("shrinks"))))
    mbarriers.or_fault(emitter, "tw_columns_product", *where(emitter, op), "ptr %lanes.scratch", *numbers)
    return []


def _shrinks(emitter: Emitter, op: Op, operand: tree.Operand | None) -> int:
    """By which power of two D as it was is divided: a literal."""
    if operand is None:
        return 0
    if isinstance(operand, tree.Immediate) and 0 <= operand.value <= _SHRINKS_MOST:
        return int(operand.value)
    item = op.instruction
    raise PtxError(
        f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes a literal from 0 to {_SHRINKS_MOST}, the power of "
        f"two that D is divided by (got {operand_text(operand)})"
    )
