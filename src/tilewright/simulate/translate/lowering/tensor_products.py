"""Products in tensor memory: the runtime's arguments, for each thread that issues a product.

Source: PTX ISA, 9.7.16.10 (tcgen05.mma). Descriptors are read by the runtime (`runtime/tensor_products.c`).
"""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import PRODUCTS
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import mbarriers
from tilewright.simulate.translate.memory.access import Access
from tilewright.simulate.translate.memory.access_events import notify
from tilewright.simulate.translate.memory.bulk import each_part
from tilewright.simulate.translate.memory.tensor_memory import address_of, where

#: Divisors of the old D, as powers of two. Source: PTX ISA, 9.7.16.10.9.1 (scale-input-d).
_SHRINKS_MOST = 15
#: First operand slot of the words of disabled lanes.
_OFF = 7
#: Slots of the metadata's address and of the descriptor of zero columns; the first slot after them.
_METADATA, _ZEROS, _BEHIND = 15, 16, 17


def emit(emitter: Emitter, op: Op) -> list[Value]:
    """Multiply for each running lane."""
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
        0: address_of(emitter, op, named["to"]),
        1: a,
        2: emitter.read(named["b"], "b64"),
        3: emitter.read(named["instruction"], "b32"),
        4: emitter.read(named["adds"], "pred"),
    }
    if "sa" in named:
        values |= {5: address_of(emitter, op, named["sa"]), 6: address_of(emitter, op, named["sb"])}
    if isinstance(off, tree.Vector):
        values |= {_OFF + i: emitter.read(item, "b32") for i, item in enumerate(off.items)}
    if "meta" in named:
        values[_METADATA] = address_of(emitter, op, named["meta"])
    if does & PRODUCTS["stationary"]:
        values[_ZEROS] = emitter.read(named["zeros"], "b64") if "zeros" in named else code.const("i64", 0)
    for number, value in values.items():
        mbarriers.scratch(emitter, number, code.resize(value, "i64", signed=False))
    numbers = (f"i32 {number}" for number in (kind, does, _shrinks(emitter, op, named.get("shrinks"))))
    mbarriers.or_fault(emitter, "tw_columns_product", *where(emitter, op), "ptr %lanes.scratch", *numbers)
    if emitter.instruments:  # instruments read the operands, so these must be checked first
        _notify(emitter, op, kind, does)
    return []


def _notify(emitter: Emitter, op: Op, kind: int, does: int) -> None:
    """Notify instruments of a product, and of its reads of shared memory, as if each lane read 16 bytes."""
    code = emitter.code
    numbers = (code.const("i32", kind), code.const("i32", does))
    operands = code.op("getelementptr i8, ptr %lanes.scratch, i64 0", "ptr")
    emitter.event(EventKind.TENSOR_PRODUCT, op.instruction, emitter.mask, operands, *numbers)
    access = Access(op, "shared", tree.Immediate(0), 0, 1, "b128", False, False)

    def part(lane: Value, done: str) -> Value:
        number = code.op(f"load i64, ptr {done}", "i64")
        facts = (operands, lane, code.cast("trunc", number, "i32"), *numbers, "ptr %addresses")
        emitter.mask = Value(code.invoke("tw_columns_units", "i32", *facts), "i32")
        notify(emitter, access, code.op(f"load <{LANES} x i64>, ptr %addresses, align 64", "i64", LANES))
        code.put(code.add(number, code.const("i64", 1)), done)
        return code.icmp("ne", emitter.mask, code.const("i32", 0))

    each_part(emitter, part, behind=_BEHIND)


def _shrinks(emitter: Emitter, op: Op, operand: tree.Operand | None) -> int:
    """The power of two that divides the old D, a literal."""
    if operand is None:
        return 0
    if isinstance(operand, tree.Immediate) and 0 <= operand.value <= _SHRINKS_MOST:
        return int(operand.value)
    item = op.instruction
    raise PtxError(
        f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes a literal from 0 to {_SHRINKS_MOST}, the power of "
        f"two that D is divided by (got {operand_text(operand)})"
    )
