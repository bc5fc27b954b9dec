"""How a step `c = c (+) a (x) b` is written, by family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.cpu.elements import vector
from tilewright.cpu.ir import Ir, suffix

#: (ir, register type, width, c, a, b) -> new c
Step = Callable[[Ir, str, int, str, str, str], str]


@dataclass(frozen=True)
class Family:
    """A step, and the value that sums start from."""

    name: str
    step: Step
    zero: str


def _fma(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
    full = vector(type_, width)
    lanes = f"v{width}" if width > 1 else ""
    return ir.intrinsic(f"llvm.fma.{lanes}{suffix(type_)}", full, f"{full} {a}", f"{full} {b}", f"{full} {c}")


def _integer(ir: Ir, type_: str, width: int, c: str, a: str, b: str) -> str:
    full = vector(type_, width)
    return ir.op(f"add {full} {c}, {ir.op(f'mul {full} {a}, {b}')}")


def families() -> dict[str, Family]:
    """Every family by name."""
    return {f.name: f for f in (Family("fma", _fma, "0.0"), Family("integer", _integer, "0"))}
