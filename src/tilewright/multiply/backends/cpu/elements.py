"""Elements in memory and in registers: how each is loaded, converted and stored, by its dtype's record."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import Dtype

_TOKEN = re.compile(r"\$\d|#\d+|\{\d+\}|\b[A-Z]\b")
_FLOAT_BITS = {"half": 16, "float": 32, "double": 64}


def vector(type_: str, width: int) -> str:
    """A vector type, or the scalar for width 1."""
    return type_ if width == 1 else f"<{width} x {type_}>"


def spread(type_: str, text: object, width: int) -> str:
    """A constant in every lane."""
    return str(text) if width == 1 else f"splat ({type_} {text})"


def real(value: float) -> str:
    """A float as LLVM writes it for either type: by the bits of a double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def filled(ir: Ir, lines: Sequence[str], args: Sequence[str], words: Mapping[str, str], width: int) -> str:
    """Emit lines of a table (`primitives`, `dtypes`) with letters and operands filled in; return the last value."""
    made = list[str]()

    def word(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == "{":
            return spread("i32", token[1:-1], width)
        return args[int(token[1])] if token[0] == "$" else made[int(token[1:])] if token[0] == "#" else words[token]

    for line in lines:
        text = _TOKEN.sub(word, line)
        if line.startswith("call"):
            _declare(ir, words["T"], line, text)
        made.append(ir.op(text))
    return made[-1]


def _declare(ir: Ir, full: str, line: str, text: str) -> None:
    """Declare an intrinsic; every operand has the result's type, except a flag of type i1."""
    symbol = text[text.index("@") + 1 : text.index("(", text.index("@"))]
    types = ["i1" if part.strip().startswith("i1 ") else full for part in line[line.index("(") + 1 : -1].split(",")]
    ir.declare(symbol, f"declare {full} @{symbol}({', '.join(types)})")


def widen(ir: Ir, source: Dtype, value: str, target: str, width: int) -> str:
    """Convert a value from its dtype in memory to a register type; a boolean fills all bits."""
    have, want = vector(source.memory, width), vector(target, width)
    if source.kind == "bool":
        holds = ir.op(f"icmp ne {have} {value}, {spread(source.memory, 0, width)}")
        return ir.op(f"sext {vector('i1', width)} {holds} to {want}")
    if source.carried is not None and source.carried.llvm_widen:
        single = filled(ir, source.carried.llvm_widen, [value], _types(source, width), width)
        return single if target == "float" else ir.op(f"fpext {vector('float', width)} {single} to {want}")
    if source.memory == target:
        return value
    if source.kind == "float":
        return ir.op(f"fpext {have} {value} to {want}")
    signed = source.kind == "signed"
    if target in _FLOAT_BITS:
        return ir.op(f"{'sitofp' if signed else 'uitofp'} {have} {value} to {want}")
    return ir.op(f"{'sext' if signed else 'zext'} {have} {value} to {want}")


def narrow(ir: Ir, value: str, source: str, target: Dtype, width: int) -> str:
    """A register value rounded once, or wrapped, to a dtype in memory."""
    have, want = vector(source, width), vector(target.memory, width)
    if target.carried is not None and target.carried.llvm_narrow:
        if source == "double":
            value = ir.op(f"fptrunc {have} {value} to {vector('float', width)}")
        return filled(ir, target.carried.llvm_narrow, [value], _types(target, width), width)
    if source == target.memory:
        return value
    if target.kind == "float":
        return ir.op(f"{'fptrunc' if _bits(source) > target.bits else 'fpext'} {have} {value} to {want}")
    if source in _FLOAT_BITS:
        return _to_integer(ir, value, source, target, width)
    return ir.op(f"{'trunc' if _bits(source) > target.bits else 'sext'} {have} {value} to {want}")


def _types(record: Dtype, width: int) -> dict[str, str]:
    """The types that the letters in a conversion's lines stand for."""
    letters = {"T": record.memory, "F": "float", "I": "i32", "B": "i1"}
    return {letter: vector(type_, width) for letter, type_ in letters.items()}


def _to_integer(ir: Ir, value: str, source: str, target: Dtype, width: int) -> str:
    """A float truncated to an integer and saturated; NaN gives 0. LLVM's own form works lane by lane on x86."""
    have, want, mask = vector(source, width), vector(target.memory, width), vector("i1", width)
    signed = target.kind == "signed"
    bits = target.bits - signed
    ends = (-(1 << bits) if signed else 0), 1 << bits  # both are powers of two: exact floats
    low, high = (spread(source, real(end), width) for end in ends)
    above_low = ir.op(f"fcmp oge {have} {value}, {low}")  # not so for NaN
    below_high = ir.op(f"fcmp olt {have} {value}, {high}")
    raised = ir.op(f"select {mask} {above_low}, {have} {value}, {have} {low}")
    inside = ir.op(f"select {mask} {below_high}, {have} {raised}, {have} {low}")
    whole = ir.op(f"{'fptosi' if signed else 'fptoui'} {have} {inside} to {want}")
    beyond = ir.op(f"fcmp oge {have} {value}, {high}")
    most = spread(target.memory, (1 << bits) - 1 if signed else -1, width)
    limited = ir.op(f"select {mask} {beyond}, {want} {most}, {want} {whole}")
    is_nan = ir.op(f"fcmp uno {have} {value}, {value}")
    return ir.op(f"select {mask} {is_nan}, {want} {spread(target.memory, 0, width)}, {want} {limited}")


def _bits(type_: str) -> int:
    return _FLOAT_BITS.get(type_) or int(type_[1:])
