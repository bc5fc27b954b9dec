"""Element types in memory and in registers: how each is loaded, converted and stored."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tilewright.cpu.ir import Ir
from tilewright.problem.dtypes import Dtype, dtype

#: Complex dtypes, and the dtype of their parts.
COMPLEX = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True, slots=True)
class Element:
    """One dtype as the engine handles it.

    Attributes
    ----------
    name : str
        NumPy's name.
    memory : str
        LLVM type in memory.
    bytes : int
    kind : str
        `float`, `signed`, `unsigned`, `bool` or `complex`.
    pairs : int
        Numbers of the register type that one element is: 2 for a complex one.
    """

    name: str
    memory: str
    bytes: int
    kind: str
    pairs: int = 1


def element(name: str) -> Element:
    """The element of a dtype.

    Examples
    --------
    >>> element("bfloat16").memory
    'i16'
    """
    if name in COMPLEX:
        size = 2 * dtype(COMPLEX[name]).bytes
        return Element(name, f"i{8 * size}", size, "complex", 2)
    if name == "bool":
        return Element(name, "i8", 1, "bool")
    record: Dtype = dtype(name)
    memory = {"float16": "half", "float32": "float", "float64": "double"}.get(name, f"i{record.bits}")
    return Element(name, memory, record.bytes, record.kind)


def vector(type_: str, width: int) -> str:
    """A vector type, or the scalar for width 1."""
    return type_ if width == 1 else f"<{width} x {type_}>"


def widen(ir: Ir, source: Element, value: str, target: str, width: int) -> str:
    """A value of a dtype in memory as a value of a register type; truth values fill theirs with their bit."""
    if source.kind == "bool":
        full = vector(source.memory, width)
        holds = ir.op(f"icmp ne {full} {value}, {literal(source.memory, 0, width)}")
        return ir.op(f"sext {vector('i1', width)} {holds} to {vector(target, width)}")
    if source.memory == target:
        return value
    have, want = vector(source.memory, width), vector(target, width)
    if source.name == "bfloat16":
        wide = ir.op(f"zext {have} {value} to {vector('i32', width)}")
        bits = ir.op(f"shl {vector('i32', width)} {wide}, {literal('i32', 16, width)}")
        single = ir.op(f"bitcast {vector('i32', width)} {bits} to {vector('float', width)}")
        return single if target == "float" else ir.op(f"fpext {vector('float', width)} {single} to {want}")
    if source.kind == "float":
        return ir.op(f"fpext {have} {value} to {want}")
    if target in ("float", "double"):
        return ir.op(f"{'sitofp' if source.kind == 'signed' else 'uitofp'} {have} {value} to {want}")
    return ir.op(f"{'sext' if source.kind == 'signed' else 'zext'} {have} {value} to {want}")


def narrow(ir: Ir, value: str, source: str, target: Element, width: int) -> str:
    """A register value rounded once, or wrapped, to a dtype in memory."""
    if source == target.memory:
        return value
    have, want = vector(source, width), vector(target.memory, width)
    if target.name == "bfloat16":
        return _to_bfloat(ir, value, source, width)
    if target.kind == "float":
        return ir.op(f"{'fptrunc' if _bits(source) > 8 * target.bytes else 'fpext'} {have} {value} to {want}")
    if source in ("float", "double"):
        return _to_integer(ir, value, source, target, width)
    if _bits(source) > 8 * target.bytes:
        return ir.op(f"trunc {have} {value} to {want}")
    return ir.op(f"sext {have} {value} to {want}")


def _to_integer(ir: Ir, value: str, source: str, target: Element, width: int) -> str:
    """A float cut towards 0 and saturated; 0 for NaN. LLVM's own form of this goes lane by lane on x86."""
    have, want, mask = vector(source, width), vector(target.memory, width), vector("i1", width)
    signed = target.kind == "signed"
    bits = 8 * target.bytes - signed
    ends = (-(1 << bits) if signed else 0), 1 << bits  # both are powers of two: exact floats
    low, high = (_real_literal(source, end, width) for end in ends)
    above_low = ir.op(f"fcmp oge {have} {value}, {low}")  # not so for NaN
    below_high = ir.op(f"fcmp olt {have} {value}, {high}")
    raised = ir.op(f"select {mask} {above_low}, {have} {value}, {have} {low}")
    inside = ir.op(f"select {mask} {below_high}, {have} {raised}, {have} {low}")
    whole = ir.op(f"{'fptosi' if signed else 'fptoui'} {have} {inside} to {want}")
    beyond = ir.op(f"fcmp oge {have} {value}, {high}")
    most = literal(target.memory, (1 << bits) - 1, width) if signed else literal(target.memory, -1, width)
    limited = ir.op(f"select {mask} {beyond}, {want} {most}, {want} {whole}")
    is_nan = ir.op(f"fcmp uno {have} {value}, {value}")
    zero = literal(target.memory, 0, width)
    return ir.op(f"select {mask} {is_nan}, {want} {zero}, {want} {limited}")


def _real_literal(type_: str, value: int, width: int) -> str:
    """A float literal in every lane, in LLVM's hexadecimal form, which is of a double for either type."""
    text = f"0x{struct.pack('>d', float(value)).hex().upper()}"
    return text if width == 1 else f"splat ({type_} {text})"


def _to_bfloat(ir: Ir, value: str, source: str, width: int) -> str:
    """Round a float to bfloat16 in integers: nearest, ties to even; a NaN stays one."""
    integers = vector("i32", width)
    if source == "double":
        value = ir.op(f"fptrunc {vector('double', width)} {value} to {vector('float', width)}")
    bits = ir.op(f"bitcast {vector('float', width)} {value} to {integers}")
    upper = ir.op(f"lshr {integers} {bits}, {literal('i32', 16, width)}")
    odd = ir.op(f"and {integers} {upper}, {literal('i32', 1, width)}")
    bias = ir.op(f"add {integers} {odd}, {literal('i32', 0x7FFF, width)}")
    rounded = ir.op(f"add {integers} {bits}, {bias}")
    high = ir.op(f"lshr {integers} {rounded}, {literal('i32', 16, width)}")
    quiet = ir.op(f"or {integers} {upper}, {literal('i32', 0x40, width)}")
    is_nan = ir.op(f"fcmp uno {vector('float', width)} {value}, {value}")
    chosen = ir.op(f"select {vector('i1', width)} {is_nan}, {integers} {quiet}, {integers} {high}")
    return ir.op(f"trunc {integers} {chosen} to {vector('i16', width)}")


def literal(type_: str, value: int, width: int) -> str:
    """An integer literal in every lane."""
    return str(value) if width == 1 else f"splat ({type_} {value})"


def _bits(type_: str) -> int:
    return {"half": 16, "float": 32, "double": 64}.get(type_) or int(type_[1:])
