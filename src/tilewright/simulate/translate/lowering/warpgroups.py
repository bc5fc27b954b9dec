"""Products of a warpgroup: the runtime's arguments, for the 16 rows of each warp.

Source: PTX ISA, 9.7.15.5 (wgmma.mma_async); its descriptors are read by the runtime (`runtime/warpgroups.c`).
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind
from tilewright.simulate.isa.warpgroup import columns, is_sparse
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import WGMMA
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import Access
from tilewright.simulate.translate.memory.access_events import event_site, notify

_REGISTER_BYTES = 4 * LANES
#: Size of the atoms of a matrix in shared memory.
_ATOM_LINES = 8
#: Warps of a warpgroup.
_WARPS = 4
#: Operands that literals negate and transpose.
_LITERALS = ("na", "nb", "t", "u")


def emit_product(emitter: Emitter, op: Op) -> list[Value]:
    """D's registers. All lanes count, active or not."""
    code = emitter.code
    given = op.named
    old, left, right = op.sources[:3]
    assert isinstance(old, tree.Vector)
    for index, item in enumerate(old.items):
        code.store(code.splat(emitter.read(item, "b32")), _place(emitter, index).text)
    held = "null"
    if isinstance(left, tree.Vector):
        held = _place(emitter, len(old.items)).text
        for index, item in enumerate(left.items, len(old.items)):
            code.store(code.splat(emitter.read(item, "b32")), _place(emitter, index).text)
    a = code.const("i64", 0) if isinstance(left, tree.Vector) else _descriptor(emitter, left)
    metadata, selector = "null", 0
    if is_sparse(op.form):
        selector = _selector(emitter, op, given["selector"])
        metadata = "%addresses"  # scratch memory has space only for the lists of registers
        code.store(code.splat(emitter.read(given["e"], "b32")), metadata)
    signs = [operand for name, operand in given.items() if name in _LITERALS]
    keeps = emitter.first_lane(emitter.read(given["scale"], "pred"))
    flags = code.or_(code.cast("zext", keeps, "i32"), code.const("i32", _flags(emitter, op, signs, held == "null")))
    site = emitter.add_site(event_site(emitter, _access(op)))
    where = ("ptr %context", "ptr %warp", f"i32 {site}", "ptr %shared", _place(emitter, 0), f"ptr {held}")
    shape = (f"i32 {columns(op.form)}", *(f"i32 {x}" for x in op.form.row.emit(op.form)), flags)
    on = code.label("on")
    b = _descriptor(emitter, right)
    more = (f"ptr {metadata}", f"i32 {selector}")
    failed = code.invoke("tw_wgmma", "i1", *where, a, b, *shape, *more)
    code.branch_if(Value(failed, "i1"), "fault", on, likely=False)
    code.place(on)
    if emitter.instruments:
        if held == "null":
            _notify(emitter, op, a, signs[2:3], 2 * _ATOM_LINES, of_warp=True)
        for step in range(1 + is_sparse(op.form)):
            _notify(emitter, op, b, signs[2:][-1:], columns(op.form), of_warp=False, step=step)
    places = [_place(emitter, index) for index in range(len(old.items))]
    return [code.op(f"load <{LANES} x i32>, {place}, align 64", "i32", LANES) for place in places]


def _notify(
    emitter: Emitter, op: Op, descriptor: Value, mn_major: list[Any], lines: int, *, of_warp: bool, step: int = 0
) -> None:
    """Notify instruments of 32 bytes along k of a matrix, 16 lines at a time, as if each lane read 16 of them."""
    code, outer = emitter.code, emitter.mask
    is_mn_major = bool(mn_major) and mn_major[0].value == 1
    rest = 0x0000FFFF if is_mn_major else 0x00FF00FF  # units of eight lines
    facts = (_bits(op), int(is_mn_major), _WARPS * lines if of_warp else lines, int(of_warp))
    if step == 0:
        emitter.event(EventKind.DESCRIPTOR, op.instruction, outer, descriptor, *(code.const("i32", x) for x in facts))
    for line in range(0, lines, 2 * _ATOM_LINES):
        shape = tuple(f"i32 {number}" for number in (_bits(op), int(is_mn_major), line, int(of_warp), step))
        code.invoke("tw_wgmma_units", "void", "ptr %context", "ptr %warp", descriptor, *shape, "ptr %addresses")
        offsets = code.op(f"load <{LANES} x i64>, ptr %addresses, align 64", "i64", LANES)
        if line + _ATOM_LINES == lines:
            emitter.mask = code.and_(outer, code.const("i32", rest))
        notify(emitter, _access(op), offsets)
    emitter.mask = outer


def _access(op: Op) -> Access:
    """The access of a lane to a matrix: 16 bytes of an atom's line."""
    return Access(op, "shared", tree.Immediate(0), 0, 1, "b128", False, False)


def _bits(op: Op) -> int:
    """Bits of an element in shared memory."""
    return (256 << is_sparse(op.form)) // int(op.form["shape"].rpartition("k")[2])


def _selector(emitter: Emitter, op: Op, operand: tree.Operand) -> int:
    """Which of four lanes have the metadata: the first or the second pair, or always all four."""
    most = 0 if _bits(op) == 8 else 1
    if not isinstance(operand, tree.Immediate) or not 0 <= operand.value <= most:
        rule = (
            f"a literal from 0 to {most} for the lanes that have the metadata"
            if most
            else ("the literal 0, because all lanes have metadata")
        )
        raise _refused(emitter, op, rule, f"got {operand_text(operand)}")
    return int(operand.value)


def _descriptor(emitter: Emitter, operand: tree.Operand) -> Value:
    return emitter.first_lane(emitter.read(operand, "b64"))


def _flags(emitter: Emitter, op: Op, signs: list[Any], a_in_memory: bool) -> int:
    """The operands that are negated, and those that are transposed."""
    numbers = [x.value if isinstance(x, tree.Immediate) else None for x in signs] or [1, 1]
    mn_major = numbers[2:]
    matrices = (1 + a_in_memory) * bool(mn_major)
    if not set(numbers[:2]) <= {1, -1} or not set(mn_major) <= {0, 1} or len(mn_major) != matrices:
        rule = "a literal 1 or -1 for each factor, and 0 or 1 for each matrix of 16-bit elements in shared memory"
        raise _refused(emitter, op, rule, f"got {', '.join(map(operand_text, signs))}")
    chosen = {
        "half": op.form["dtype"] == "f16",
        "bits": op.form.has("b1"),
        "integers": op.form["atype"] in ("s8", "u8"),
        "saturates": op.form.has("satfinite"),
        "negates_a": numbers[0] == -1,
        "negates_b": numbers[1] == -1,
        "mn_major_a": matrices == 2 and mn_major[0] == 1,
        "mn_major_b": bool(mn_major) and mn_major[-1] == 1,
    }
    return sum(WGMMA[name] for name, is_chosen in chosen.items() if is_chosen)


def _refused(emitter: Emitter, op: Op, rule: str, remedy: str) -> PtxError:
    item = op.instruction
    return PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' takes {rule}; {remedy}")


def _place(emitter: Emitter, register: int) -> Value:
    """The place of a register in scratch memory."""
    return emitter.code.op(f"getelementptr i8, ptr %lanes.scratch, i64 {register * _REGISTER_BYTES}", "ptr")
