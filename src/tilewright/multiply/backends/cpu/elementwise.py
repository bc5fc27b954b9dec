"""Elementwise expressions as LLVM text, at any vector width, from the rows of `primitives`.

No instruction has a fast-math flag and only `fma` is fused, so every width and host gives NumPy's bits for the same
expression.

Source: LLVM Language Reference, "Fast-Math Flags".
"""

from __future__ import annotations

from tilewright.ground.native.text import mangle
from tilewright.multiply.backends.cpu.elements import filled, narrow, real, spread, vector, widen
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression, Instruction, number
from tilewright.multiply.problem.primitives import PRIMITIVES, letter


def register(name: str) -> str:
    """The LLVM type that holds a dtype: its type in memory, and i1 for booleans."""
    return "i1" if name == "bool" else element(name).memory


def literal(value: float | int | bool, name: str) -> str:
    """A constant as LLVM writes it: floats by their bits, as a double's."""
    if name == "bool":
        return "true" if value else "false"
    return real(value) if element(name).is_float else str(int(value))


def emit_expression(ir: Ir, expression: Expression, values: list[str], width: int) -> str:
    """The result of an expression of values in registers."""
    found: list[str] = []
    for step in expression.instructions:
        if step.op == "parameter":
            found.append(values[len(found)])
        elif step.op == "constant":
            found.append(spread(register(step.dtype), literal(number(step), step.dtype), width))
        elif step.op == "copy":
            found.append(found[step.args[0]])
        elif step.op == "cast":
            source = expression.instructions[step.args[0]].dtype
            found.append(emit_cast(ir, found[step.args[0]], source, step.dtype, width))
        else:
            of = expression.instructions[step.args[-1]].dtype
            found.append(_operation(ir, step, of, [found[i] for i in step.args], width))
    return found[-1]


def _operation(ir: Ir, step: Instruction, of: str, args: list[str], width: int) -> str:
    """One row's lines, filled in for operands of a dtype."""
    type_ = register(of)
    words = {
        "T": vector(type_, width),
        "R": vector(register(step.dtype), width),
        "M": vector("i1", width),
        "S": mangle(type_, width),
        "Z": spread(type_, 0, width),
        "O": spread(type_, "true" if type_ == "i1" else 1, width),
        "Q": spread(type_, real(float("nan")), width),
        "A": spread(type_, "true" if type_ == "i1" else -1, width),
    }
    lines = ("bitcast T $0 to R",) if step.op == "bits" else PRIMITIVES[step.op].lines(letter(of))
    return filled(ir, lines, args, words, width)


def emit_cast(ir: Ir, value: str, source: str, target: str, width: int) -> str:
    """Cast a value: floats round once, and saturate to integers; integers wrap; to bool any value but 0 is true."""
    if source == target:
        return value
    if element(source).carried is not None:
        value, source = widen(ir, element(source), value, "float", width), "float32"
        return emit_cast(ir, value, source, target, width)
    have, made, kind = vector(register(source), width), element(target), letter(source)
    want = vector(register(target), width)
    if target == "bool":
        return ir.op(f"{'fcmp une' if kind == 'f' else 'icmp ne'} {have} {value}, {_zero(source, width)}")
    if kind == "f":
        if made.carried is not None and source == "float64":
            value, source = _to_float_odd(ir, value, width), "float32"
        return narrow(ir, value, register(source), made, width)
    if made.is_float:
        # One rounding to the wider floats, to 16 bits through float64; a boolean is exact in any.
        wide = target if made.carried is None else "float32" if kind == "b" else "float64"
        found = ir.op(f"{'sitofp' if kind == 's' else 'uitofp'} {have} {value} to {vector(register(wide), width)}")
        return emit_cast(ir, found, wide, target, width)
    if kind != "b" and element(source).bytes >= made.bytes:
        return value if element(source).bytes == made.bytes else ir.op(f"trunc {have} {value} to {want}")
    return ir.op(f"{'sext' if kind == 's' else 'zext'} {have} {value} to {want}")


def _zero(name: str, width: int) -> str:
    return spread(register(name), "0.0" if letter(name) == "f" else 0, width)


def _to_float_odd(ir: Ir, value: str, width: int) -> str:
    """A double as a float rounded to odd, so that a second rounding gives the same as a single one.

    Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    single, double, whole, mask = (vector(t, width) for t in ("float", "double", "i32", "i1"))
    near = ir.op(f"fptrunc {double} {value} to {single}")
    back = ir.op(f"fpext {single} {near} to {double}")
    inexact = ir.op(f"fcmp one {double} {back}, {value}")
    symbol = f"llvm.fabs.{f'v{width}' if width > 1 else ''}f64"
    sizes = [ir.invoke(symbol, double, f"{double} {x}") for x in (back, value)]
    above = ir.op(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    finite = ir.op(f"fcmp olt {double} {sizes[1]}, {spread('double', real(float('inf')), width)}")
    bits = ir.op(f"bitcast {single} {near} to {whole}")
    outside = ir.op(f"sext {mask} {above} to {whole}")
    inside = ir.op(f"add {whole} {bits}, {outside}")
    odd = ir.op(f"or {whole} {inside}, {spread('i32', 1, width)}")
    moved = ir.op(f"and {mask} {inexact}, {finite}")
    chosen = ir.op(f"select {mask} {moved}, {whole} {odd}, {whole} {bits}")
    return ir.op(f"bitcast {whole} {chosen} to {single}")
