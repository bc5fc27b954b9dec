"""Elementwise expressions as LLVM text, at any vector width: the rows of `primitives` filled in.

No instruction carries a fast-math flag and only `fma` is written fused, so every width and host gives the bits that
NumPy gives for the same expression.

Source: LLVM Language Reference, "Fast-Math Flags".
"""

from __future__ import annotations

import re
import struct

from tilewright.cpu.elements import element, narrow, vector, widen
from tilewright.cpu.ir import Ir, suffix
from tilewright.problem.dtypes import dtype
from tilewright.problem.expression import Expression, Instruction, number
from tilewright.problem.primitives import PRIMITIVES, letter

_TOKEN = re.compile(r"\$\d|#\d|\b[TRMSZOAQ]\b")


def register(name: str) -> str:
    """The LLVM type that holds a dtype: its type in memory, and i1 for booleans."""
    return "i1" if name == "bool" else element(name).memory


def literal(value: float | int | bool, name: str) -> str:
    """A constant as LLVM writes it: floats by their bits, as a double's."""
    if name == "bool":
        return "true" if value else "false"
    if dtype(name).is_float:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


def spread(type_: str, text: str, width: int) -> str:
    """A constant in every lane."""
    return text if width == 1 else f"splat ({type_} {text})"


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
    type_, made = register(of), list[str]()
    full = vector(type_, width)
    words = {
        "T": full, "R": vector(register(step.dtype), width), "M": vector("i1", width),
        "S": (f"v{width}" if width > 1 else "") + suffix(type_),
        "Z": spread(type_, "0", width), "O": spread(type_, "true" if type_ == "i1" else "1", width),
        "Q": spread(type_, literal(float("nan"), "float64"), width),
        "A": spread(type_, "true" if type_ == "i1" else "-1", width),
    }  # fmt: skip

    def word(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == "$":
            return args[int(token[1])]
        return made[int(token[1])] if token[0] == "#" else words[token]

    lines = ("bitcast T $0 to R",) if step.op == "bits" else PRIMITIVES[step.op].lines(letter(of))
    for line in lines:
        text = _TOKEN.sub(word, line)
        made.append(_called(ir, full, line, text) if line.startswith("call") else ir.op(text))
    return made[-1]


def _called(ir: Ir, full: str, line: str, text: str) -> str:
    """An intrinsic's call, declared: every operand has the result's type, but for a flag i1."""
    symbol = text[text.index("@") + 1 : text.index("(", text.index("@"))]
    types = ["i1" if part.strip().startswith("i1 ") else full for part in line[line.index("(") + 1 : -1].split(",")]
    ir.declarations.setdefault(symbol, f"declare {full} @{symbol}({', '.join(types)})")
    return ir.op(text)


def emit_cast(ir: Ir, value: str, source: str, target: str, width: int) -> str:
    """A value as another dtype: floats rounded once, to integers saturating; integers wrapped; to bool: not 0."""
    if source == target:
        return value
    if source == "bfloat16":
        value, source = widen(ir, element(source), value, "float", width), "float32"
        return emit_cast(ir, value, source, target, width)
    have = vector(register(source), width)
    if target == "bool":
        if letter(source) == "f":
            return ir.op(f"fcmp une {have} {value}, {spread(register(source), '0.0', width)}")
        return ir.op(f"icmp ne {have} {value}, {spread(register(source), '0', width)}")
    if source == "bool":
        kind = "uitofp" if letter(target) == "f" else "zext"
        if target == "bfloat16":
            value, source = ir.op(f"uitofp {have} {value} to {vector('float', width)}"), "float32"
            return narrow(ir, value, "float", element(target), width)
        return ir.op(f"{kind} {have} {value} to {vector(register(target), width)}")
    if letter(source) == "f":
        return _cast_float(ir, value, source, target, width)
    if letter(target) == "f":
        return _cast_integer(ir, value, source, target, width)
    if dtype(source).bytes == dtype(target).bytes:
        return value
    wider = dtype(source).bytes < dtype(target).bytes
    kind = "trunc" if not wider else "sext" if letter(source) == "s" else "zext"
    return ir.op(f"{kind} {have} {value} to {vector(register(target), width)}")


def _cast_float(ir: Ir, value: str, source: str, target: str, width: int) -> str:
    if source == "float16":
        value, source = widen(ir, element(source), value, "float", width), "float32"
        if target == "float32":
            return value
    if target == "float64":
        return ir.op(f"fpext {vector(register(source), width)} {value} to {vector('double', width)}")
    if source == "float64" and target in ("float16", "bfloat16"):
        value, source = _to_float_odd(ir, value, width), "float32"
    return narrow(ir, value, register(source), element(target), width)


def _cast_integer(ir: Ir, value: str, source: str, target: str, width: int) -> str:
    """Rounded once to the wider floats; to 16 bits by way of float64."""
    have, wide = vector(register(source), width), target if target in ("float32", "float64") else "float64"
    kind = "sitofp" if letter(source) == "s" else "uitofp"
    found = ir.op(f"{kind} {have} {value} to {vector(register(wide), width)}")
    return found if wide == target else _cast_float(ir, found, wide, target, width)


def _to_float_odd(ir: Ir, value: str, width: int) -> str:
    """A double as a float, rounded to odd, so that one more rounding is as a single one.

    Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    single, double, whole, mask = (vector(t, width) for t in ("float", "double", "i32", "i1"))
    near = ir.op(f"fptrunc {double} {value} to {single}")
    back = ir.op(f"fpext {single} {near} to {double}")
    inexact = ir.op(f"fcmp one {double} {back}, {value}")
    symbol = f"llvm.fabs.{f'v{width}' if width > 1 else ''}f64"
    sizes = [ir.intrinsic(symbol, double, f"{double} {x}") for x in (back, value)]
    above = ir.op(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    finite = ir.op(f"fcmp olt {double} {sizes[1]}, {spread('double', literal(float('inf'), 'float64'), width)}")
    bits = ir.op(f"bitcast {single} {near} to {whole}")
    outside = ir.op(f"sext {mask} {above} to {whole}")
    inside = ir.op(f"add {whole} {bits}, {outside}")
    odd = ir.op(f"or {whole} {inside}, {spread('i32', '1', width)}")
    moved = ir.op(f"and {mask} {inexact}, {finite}")
    chosen = ir.op(f"select {mask} {moved}, {whole} {odd}, {whole} {bits}")
    return ir.op(f"bitcast {whole} {chosen} to {single}")
