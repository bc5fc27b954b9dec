"""The semiring family: a step is the algebra's own expressions, emitted for any register type and width."""

from __future__ import annotations

from tilewright.backends.cpu.elementwise import emit_expression, literal
from tilewright.backends.cpu.ir import Ir
from tilewright.problem.algebra import Semiring
from tilewright.problem.expression import Instruction, number


def emit_step(algebra: Semiring, ir: Ir, width: int, total: str, a: str, b: str) -> str:
    """One step of every lane: add(total, multiply(a, b))."""
    factors = [b, a] if algebra.swapped else [a, b]
    product = emit_expression(ir, algebra.multiply, factors, width)
    return emit_expression(ir, algebra.add, [total, product], width)


def zero_text(algebra: Semiring) -> str:
    """What sums start from, as LLVM writes it."""
    return literal(number(Instruction("constant", (), algebra.dtype, algebra.zero)), algebra.dtype)
