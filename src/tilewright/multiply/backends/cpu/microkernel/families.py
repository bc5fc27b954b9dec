"""The step `c = c (+) a (x) b` of each family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ground.native.text import mangle
from tilewright.multiply.backends.cpu.contexts import KernelKey
from tilewright.multiply.backends.cpu.elements import vector
from tilewright.multiply.backends.cpu.elementwise import emit_expression, literal
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.microkernel.dot import Dot, dot_of, emit_dot
from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.expression import Instruction, number

#: (ir, register type, width, c, a, b) -> new c
Step = Callable[[Ir, str, int, str, str, str], str]


@dataclass(frozen=True)
class Family:
    """A step, and the start value of the sums."""

    name: str
    step: Step
    zero: str


def _fma(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
    full = vector(type_, width)
    return ir.invoke(f"llvm.fma.{mangle(type_, width)}", full, f"{full} {a}", f"{full} {b}", f"{full} {c}")


def _integer(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
    full = vector(type_, width)
    return ir.op(f"add {full} {c}, {ir.op(f'mul {full} {a}, {b}')}")


def _dot(dot: Dot) -> Step:
    def step(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
        return emit_dot(ir, width, dot, c, a, b)

    return step


def _semiring(algebra: Semiring) -> Family:
    """A step is the algebra's own expressions, of any register type and width: add(c, multiply(a, b))."""

    def step(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
        product = emit_expression(ir, algebra.multiply, [b, a] if algebra.swapped else [a, b], width)
        return emit_expression(ir, algebra.add, [c, product], width)

    zero = number(Instruction("constant", (), algebra.dtype, algebra.zero))
    return Family("semiring", step, literal(zero, algebra.dtype))


def family_of(key: KernelKey) -> Family:
    """The family that a kernel's key names."""
    if key.algebra is not None:
        return _semiring(key.algebra)
    dot = dot_of(key)
    if dot is not None:
        return Family(key.family, _dot(dot), "0")
    return Family("fma", _fma, "0.0") if key.family in ("fma", "lanes") else Family("integer", _integer, "0")
