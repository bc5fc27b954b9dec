"""Atomic operations on memory.

Source: PTX ISA, sections 9.7.13.5 (atom) and 9.7.13.6 (red).

A meaning of kind `atomic` is for one lane: ``emit(code, form, pointer, *sources)`` with scalar values returns the old
value, also for `red`. A vector form takes and returns one value for each element; each element is atomic by itself, as
in the manual. The translator checks bounds and alignment and calls the meaning for each executing lane.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.packed import by_half
from tilewright.simulate.isa.rounding import narrow, widen
from tilewright.simulate.isa.table import Form, Meaning, Table

rows = Table()

#: LLVM orderings. Source: PTX ISA, chapter 8, Memory Consistency Model; absent means relaxed.
_ORDER = {"": "monotonic", "relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_SEM = "relaxed acquire release acq_rel"
_SCOPES = "cta cluster gpu sys"
_SPACES = "global shared shared::cta shared::cluster"


def _order(form: Form) -> str:
    return _ORDER[form["sem"]]


def _row(name: str, *, spaces: str = _SPACES, **where: str) -> Callable[[Meaning], Meaning]:
    """Register ``atom{...}.name d, [a], b;`` and ``red{...}.name [a], b;``.

    Both also with a cache hint before the vector and type, which only global addresses take.
    """
    operation, *types = re.split(r"(?=\.vec|\.type)", name)
    hinted = f"{operation}.L2::cache_hint{''.join(types)}"

    def register(emit: Meaning) -> Meaning:
        for tail, policy, space in (name, "", spaces), (hinted, ", policy", "global"):
            if where["op"] != "exch":
                red = f"red{{.sem}}{{.scope}}{{.space}}.{tail} [a], b{policy};"
                _atomic(red, "9.7.13.6", sem="relaxed release", space=space, **where)(emit)
            atom = f"atom{{.sem}}{{.scope}}{{.space}}.{tail} d, [a], b{policy};"
            _atomic(atom, "9.7.13.5", space=space, **where)(emit)
        return emit

    return register


def _atomic(
    syntax: str, section: str, sem: str = _SEM, space: str = _SPACES, **where: str
) -> Callable[[Meaning], Meaning]:
    """Register one syntax with the qualifiers that all atomic operations have."""
    values: dict[str, Any] = {"sem": sem, "scope": _SCOPES, "space": space} | where
    return rows.row(syntax, section=section, types={"policy": "b64"}, kind="atomic", cost="memory", **values)


#: The ordering of a failed compare-and-swap, where it differs from that of a successful one.
_FAILURES = {"release": "monotonic", "acq_rel": "acquire"}


def _swap_loop(
    code: Code, symbol: str, pointer: Value, b: Value, order: str, update: Callable[[Code, Value, Value], Value]
) -> Value:
    """Old value, after replacing it by ``update(code, old, b)`` with compare-and-swap.

    The loop is a function of the module, so that the caller's basic block stays one. Floats enter and leave it as bits:
    hosts pass a bfloat as a float, and narrowing it again flushes subnormals.
    """
    bits = f"i{b.bits}"
    inner = Code()
    inner.place("loop")
    inner.line(f"%old = phi {bits} [ %first, %entry ], [ %seen, %loop ]")
    old, operand = (inner.cast("bitcast", Value(name, bits), b.type) for name in ("%old", "%b"))
    new = inner.cast("bitcast", update(inner, old, operand), bits)
    pair = _compared(inner, Value("%pointer", "ptr"), Value("%old", bits), new, order)
    inner.line(f"%seen = extractvalue {pair}, 0")
    inner.line(f"br i1 {inner.op(f'extractvalue {pair}, 1', 'i1').text}, label %end, label %loop")
    for name, declaration in inner.declarations.items():
        code.declare(name, declaration)
    lines = ["entry:", f"%first = load atomic {bits}, ptr %pointer monotonic, align {b.bits // 8}", "br label %loop"]
    lines += [*inner.lines, "end:"]
    result = _called(
        code, symbol, lines, Value("%old", bits), {"%pointer": pointer, "%b": code.cast("bitcast", b, bits)}
    )
    return code.cast("bitcast", result, b.type)


def _compared(code: Code, pointer: Value, b: Value, c: Value, order: str) -> Value:
    """The old value in memory, and whether it was b."""
    return code.op(f"cmpxchg {pointer}, {b}, {c} {order} {_FAILURES.get(order, order)}", f"{{ {b.type}, i1 }}")


def _called(code: Code, symbol: str, lines: Sequence[str], result: Value, arguments: Mapping[str, Value]) -> Value:
    """Call a function of the module that returns `result`; `arguments` are by the parameters' names."""
    parameters = ", ".join(f"{value.type} {name}" for name, value in arguments.items())
    body = "\n  ".join([*lines, f"ret {result}"])
    code.declare(symbol, f"define internal {result.type} @{symbol}({parameters}) noinline {{\n  {body}\n}}")
    return code.op(f"call {result.type} @{symbol}({', '.join(map(str, arguments.values()))})", result.type)


def _modify(code: Code, operation: str, pointer: Value, b: Value, order: str) -> Value:
    return code.op(f"atomicrmw {operation} {pointer}, {b} {order}", b.type)


# -- integers and bits --------------------------------------------------------------------------------------------

_OPERATIONS = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


_later = functools.partial(
    rows.row,
    "red.async.sem.scope{.space}.op.type [a], b;",
    section="9.7.13.7",
    kind="atomic",
    cost="memory",
    fixed=1,
    sem="relaxed release",
    scope="gpu sys",
    space="global",
    note="done when it is issued; the manual has only sums",
)


@_later(op="and or xor", type="b32")
@_later(op="add", type="u32 s32 u64 s64")
@_later(op="inc dec", type="u32")
@_later(op="min max", type="u32 s32")
@_later("red.async.mmio.release.sys{.space}.op.type [a], b;", op="add", type="u32 s32 u64 s64")
@_row("op.type", op="and or xor", type="b32 b64")
@_row("op.type", op="add", type="u32 s32 u64")
@_row("op.type", op="inc dec", type="u32")
@_row("op.type", op="min max", type="u32 s32 u64 s64")
@_row("op.type", op="exch", type="b32 b64 b128")
def modify(code: Code, form: Form, pointer: Value, b: Value, *policy: Value) -> Value:
    """Combine memory with b; inc wraps to 0 past b, dec wraps to b below 0 and from above b."""
    operation = _OPERATIONS.get(form["op"], form["op"])
    if operation in {"min", "max"}:
        operation = ("" if form["type"][0] == "s" else "u") + operation
    return _modify(code, operation, pointer, b, _order(form))


@_atomic("atom{.sem}{.scope}{.space}.cas.type d, [a], b, c;", "9.7.13.5", type="b16 b32 b64 b128")
def compare_and_swap(code: Code, form: Form, pointer: Value, b: Value, c: Value) -> Value:
    """Store c if memory holds b.

    For 128 bits on AArch64, LLVM 22 makes a loop and forgets that the loop changes the flags that an earlier comparison
    set. LLVM knows that a call changes them, so this is a call.
    """
    order = _order(form)
    if b.bits < 128:
        return code.op(f"extractvalue {_compared(code, pointer, b, c, order)}, 0", b.type)
    inner = Code()
    pair = _compared(inner, Value("%pointer", "ptr"), Value("%b", b.type), Value("%c", b.type), order)
    old = inner.op(f"extractvalue {pair}, 0", b.type)
    return _called(code, f"tw.atom.cas.b128.{order}", inner.lines, old, {"%pointer": pointer, "%b": b, "%c": c})


# -- floats -------------------------------------------------------------------------------------------------------


def _without_subnormals(code: Code, a: Value) -> Value:
    """Subnormal numbers replaced by zeros of their sign."""
    least = code.float_const("float", 2.0**-126)
    small = code.fcmp("olt", code.call("llvm.fabs", "float", a), least)
    return code.select(small, code.call("llvm.copysign", "float", code.zero(a), a), a)


def _flushing_sum(code: Code, old: Value, b: Value) -> Value:
    """Single-precision sum as global memory computes it: subnormals are zero, before and after."""
    return _without_subnormals(code, code.binary("fadd", _without_subnormals(code, old), _without_subnormals(code, b)))


@_row("op.type", op="add", type="f32 f64")
def add_float(code: Code, form: Form, pointer: Value, b: Value, *policy: Value) -> Value:
    """Sum rounded to nearest even; with .global, single precision treats subnormals as zeros, as the manual says."""
    if form["type"] == "f32" and form["space"] == "global":
        return _swap_loop(code, f"tw.atom.add.f32.ftz.{_order(form)}", pointer, b, _order(form), _flushing_sum)
    return _modify(code, "fadd", pointer, b, _order(form))


def _half_operation(operation: str) -> Callable[[Code, Value, Value], Value]:
    """An operation on 16-bit floats, in single precision: rounding twice is exact for a sum (2 * 11 + 2 <= 24)."""

    def apply(code: Code, a: Value, b: Value) -> Value:
        x, y = (widen(code, v, "float") for v in (a, b))
        if operation == "add":
            return narrow(code, code.binary("fadd", x, y), a.type)
        return narrow(code, code.call(f"llvm.{operation}imumnum", "float", x, y), a.type)

    return apply


def _half_in_memory(code: Code, form: Form, pointer: Value, b: Value) -> Value:
    """One 16-bit float, or two packed ones, combined with memory."""
    operation, element = _half_operation(form["op"]), "half" if form["type"].startswith("f") else "bfloat"
    symbol = f"tw.atom.{form['op']}.{form['type']}.{_order(form)}"
    if not form["type"].endswith("x2"):
        return _swap_loop(code, symbol, pointer, b, _order(form), operation)

    def packed(inner: Code, old: Value, more: Value) -> Value:
        return by_half(inner, lambda x, y: operation(inner, x, y), old, more, type_=element)

    return _swap_loop(code, symbol, pointer, b, _order(form), packed)


@_row("op.noftz.type", op="add", type="f16 f16x2 bf16 bf16x2")
def add_half(code: Code, form: Form, pointer: Value, b: Value, *policy: Value) -> Value:
    """Sum of 16-bit floats; subnormals are kept."""
    return _half_in_memory(code, form, pointer, b)


# -- vectors ------------------------------------------------------------------------------------------------------


def _each(
    code: Code, pointer: Value, values: tuple[Value, ...], one: Callable[[Value, Value], Value]
) -> tuple[Value, ...]:
    """Apply an atomic operation to neighbouring elements."""
    olds = []
    for i, value in enumerate(values):
        at = code.op(f"getelementptr i8, {pointer}, i64 {i * value.bits // 8}", "ptr")
        olds.append(one(at, value))
    return tuple(olds)


def _elements(form: Form, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The elements of b, without a cache policy after them."""
    return values[: int(form["vec"][1:])]


@_row("op.vec.type", spaces="global", op="add", vec="v2 v4", type="f32")
def add_vector(code: Code, form: Form, pointer: Value, *values: Value) -> tuple[Value, ...]:
    """Sums of two or four floats."""
    return _each(code, pointer, _elements(form, values), lambda at, b: add_float(code, form, at, b))


@_row("op.noftz.vec.type", spaces="global", op="add min max", vec="v2 v4 v8", type="f16 bf16")
@_row("op.noftz.vec.type", spaces="global", op="add min max", vec="v2 v4", type="f16x2 bf16x2")
def half_vector(code: Code, form: Form, pointer: Value, *values: Value) -> tuple[Value, ...]:
    """Sums or extremes of 16-bit floats; a number wins over NaN, and -0 is below +0."""
    return _each(code, pointer, _elements(form, values), lambda at, b: _half_in_memory(code, form, at, b))
