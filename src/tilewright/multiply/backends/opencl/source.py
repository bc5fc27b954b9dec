"""The OpenCL C of a product: a kernel file after generated macros and functions for its elements.

Kernel files contain loops, tiles and barriers. This module generates how an element is read, a step of the sum and the
finish, from the product's :class:`~tilewright.multiply.problem.kind.Kind` and by the same expressions as on every other
device. Contraction is off, so only `fma` is fused.

Source: OpenCL 1.2 Specification, sections 6.9 (FP_CONTRACT) and 6.12.2 (fma).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.multiply.problem.c_text import algebra, cast, function, helpers, in_vectors, wrapping_type
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.primitives import letter

#: The extents, the first parameters of every kernel.
_SIZES = "const int m, const int n, const int k"
#: Placeholder in a step for the suffix of functions that take vectors.
_OF_VECTORS = "@"
Form = Literal["naive", "tiled", "register_tiled"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A kernel's tile: extents of a work-group's block, of a work-item's part of it, and of its vectors."""

    form: Form  #: The kernel file.
    #: `bm`, `bn`, `bk`: rows and columns of C a work-group computes, and steps of k it holds in local memory.
    bm: int = 16
    bn: int = 16
    bk: int = 16
    #: `tm`, `tn`: rows and columns a work-item computes.
    tm: int = 1
    tn: int = 1
    width: int = 1  #: Elements of a vector: 1, 2, 4, 8 or 16.

    @property
    def items(self) -> tuple[int, int]:
        """Work-items of a group along n and m."""
        return self.bn // self.tn, self.bm // self.tm

    def __str__(self) -> str:
        vectors = f" in vectors of {self.width}" * (self.width > 1)
        return f"{self.form} {self.bm}x{self.bn}x{self.bk} {self.tm}x{self.tn}{vectors}"

    def local_bytes(self, accumulator: str) -> int:
        """Local memory of a group, for sums of a dtype."""
        return 0 if self.form == "naive" else self.bk * (self.bm + self.bn) * element(accumulator).bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The facts about operands' strides that a kernel is compiled for."""

    #: `a_by_columns`, `b_by_columns`: the operand's columns are contiguous rather than its rows.
    a_by_columns: bool = False
    b_by_columns: bool = False
    b_vectors: bool = False  #: Whether B's rows are contiguous, so that vectors can be read along n.


#: Division and square root of float32, on devices that round them correctly and on others, which use doubles: a
#: double's significand has at least twice a float's bits plus two, so rounding twice gives the same as rounding once.
#: Source: Figueroa, When is double rounding innocuous?, SIGNUM Newsletter 30(3), 1995.
_ROUNDED = {
    True: ("#define DIVIDE(T, x, y) ((x) / (y))", "#define SQUARE_ROOT(T, x) sqrt(x)"),
    False: (
        "#define DIVIDE(T, x, y) ((T)((double)(x) / (double)(y)))",
        "#define SQUARE_ROOT(T, x) ((T)sqrt((double)(x)))",
    ),
}


@functools.lru_cache(maxsize=256)
def source(kind: Kind, tile: Tile, layout: Layout, divides: bool = True) -> str:
    """The OpenCL C of a kernel.

    `divides` says whether the device's own division and square root of float32 are rounded correctly.

    >>> text = source(Kind("float32", "float32", "float32", "float32"), Tile("naive"), Layout())
    >>> "return fma(a, b, c);" in text
    True
    """
    body = "\n".join((*_steps(kind, tile), *_operands(kind, tile, layout)))
    if any(f"{name}(" in body for name in ("DIVIDE", "SQUARE_ROOT")):
        body = "\n".join((*_ROUNDED[divides], body))
    file = (Path(__file__).parent / "kernels" / f"{tile.form}.cl").read_text()
    doubles = any("double" in element(x).c for x in _dtypes(kind)) or "double" in body
    pragmas = ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable"] * doubles + ["#pragma OPENCL FP_CONTRACT OFF"]
    sizes = {"BM": tile.bm, "BN": tile.bn, "BK": tile.bk, "TM": tile.tm, "TN": tile.tn, "WIDTH": tile.width}
    flags = {"A_BY_COLUMNS": layout.a_by_columns, "B_BY_COLUMNS": layout.b_by_columns, "B_VECTORS": layout.b_vectors}
    macros = [f"#define {name} {int(value)}" for name, value in (sizes | flags).items()]
    return "\n".join((*pragmas, *macros, *helpers(body), body, file))


def _dtypes(kind: Kind) -> set[str]:
    found = {kind.a, kind.b, kind.out, kind.accumulator}
    for expression in _expressions(kind):
        found.update(step.dtype for step in expression.instructions)
    return found


def _expressions(kind: Kind) -> list[Expression]:
    algebra = [] if kind.algebra is None else [kind.algebra.add, kind.algebra.multiply]
    return algebra + ([] if kind.finish is None else [kind.finish])


def needs_double(kind: Kind, divides: bool = True) -> bool:
    """Whether a device needs 64-bit floats for a kind; devices without correct division divide in them."""
    return "double" in source(kind, Tile("naive"), Layout(), divides)


def _sum_type(kind: Kind) -> str:
    """The C type of running sums: integers of plus-times are unsigned, where overflow is defined."""
    name = kind.accumulator
    if kind.algebra is None and letter(name) in "su":
        return wrapping_type(name)
    return element(name).c


def _steps(kind: Kind, tile: Tile) -> list[str]:
    """The type of sums, their zero and a step, of one sum and of a vector of them."""
    made = _sum_type(kind)
    lines = [f"typedef {made} T;", f"typedef {made}{tile.width if tile.width > 1 else ''} TV;"]
    if kind.algebra is not None:
        functions, step = algebra(kind.algebra, _OF_VECTORS)
        lines += [*functions, "#define ZERO zero()"]
        if tile.width > 1:
            named = {"plus": kind.algebra.add, "times": kind.algebra.multiply}
            lines += [function(f"{name}_vector", of, tile.width) for name, of in named.items()]
        step = f"return {step};"
    elif made.endswith("2"):
        step = (
            "c.x = fma(a.x, b.x, c.x); c.y = fma(a.x, b.y, c.y); "
            "c.x = fma(a.y, -b.y, c.x); c.y = fma(a.y, b.x, c.y); return c;"
        )
        lines.append(f"#define ZERO ({made})(0)")
    else:
        step = "return fma(a, b, c);" if letter(kind.accumulator) == "f" else "return a * b + c;"
        lines.append("#define ZERO ((T)0)")
    lines.append(f"inline T accumulate(T c, T a, T b) {{ {step.replace(_OF_VECTORS, '')} }}")
    if tile.width == 1:
        vector = (
            "#define accumulate_vector accumulate\n"
            "#define LOAD_VECTOR(p) (*(p))\n#define STORE_VECTOR(v, p) (*(p) = (v))"
        )
    else:
        vector = (
            f"inline TV accumulate_vector(TV c, TV a, TV b) {{ {step.replace(_OF_VECTORS, '_vector')} }}\n"
            f"#define LOAD_VECTOR(p) vload{tile.width}(0, p)\n#define STORE_VECTOR(v, p) vstore{tile.width}(v, 0, p)"
        )
    return [*lines, vector]


def _read(name: str, kind: Kind) -> str:
    """An element x of A or B in the type of the sums; a boolean becomes a word of equal bits."""
    if name == "bool":
        return "x != 0 ? (T)-1 : (T)0"
    return "x" if name == kind.accumulator and element(name).pairs == 2 else f"(T){cast('x', name, kind.accumulator)}"


def _operands(kind: Kind, tile: Tile, layout: Layout) -> list[str]:
    """The kernel's parameters, and how elements are read and written."""
    a, b, out = (element(x).c_memory for x in (kind.a, kind.b, kind.out))
    more = [] if kind.finish is None else [step.dtype for step in kind.finish.instructions[1 : kind.finish.arity]]
    arrays = [f"global const {a} *a", f"global const {b} *b", f"global {out} *out"]
    arrays += [f"global const {element(x).c_memory} *x{i}" for i, x in enumerate(more)]
    names = ["a", "b", "out", *(f"x{i}" for i in range(len(more)))]
    strides = [f"const long {name}_row, const long {name}_column" for name in names]
    parameters = ", ".join((*arrays, "global const long *starts", _SIZES, *strides))
    starts = " ".join(f"{x} += starts[(z) * {len(names)} + {i}];" for i, x in enumerate(names))
    others = "".join(f", x{i}[(i) * x{i}_row + (j) * x{i}_column]{' != 0' * (x == 'bool')}" for i, x in enumerate(more))
    total = f"({element(kind.accumulator).c})(value)" if _sum_type(kind) != element(kind.accumulator).c else "(value)"
    if kind.finish is None:
        finished = cast(total, kind.accumulator, kind.out)
        finish = []
    else:
        finished, finish = f"finish({total}{others})", [function("finish", kind.finish)]
    return [
        *finish,
        f"inline T load_a({a} x) {{ return {_read(kind.a, kind)}; }}",
        f"inline T load_b({b} x) {{ return {_read(kind.b, kind)}; }}",
        f"#define PARAMETERS {parameters}",
        f"#define OPERANDS(z) {starts}",
        "#define A(i, p) load_a(a[(i) * a_row + (p) * a_column])",
        "#define B(p, j) load_b(b[(p) * b_row + (j) * b_column])",
        f"#define STORE(i, j, value) (out[(i) * out_row + (j) * out_column] = {finished})",
        f"#define LOAD_B_VECTOR(p, j) {_vector(kind, tile, layout)}",
    ]


def _vector(kind: Kind, tile: Tile, layout: Layout) -> str:
    """A vector of B along n; unused zeros if B has none."""
    if not layout.b_vectors:
        return "((TV)(ZERO))"
    at, width = "b + (p) * b_row + (j)", tile.width if tile.width > 1 else ""
    if not width:
        return "B(p, j)"
    record = element(kind.b)
    how = "vload{width}(0, {at})" if record.carried is None else record.carried.c_vector
    loaded, have = how.format(width=width, at=at), record.c_memory if record.carried is None else "float"
    made = _sum_type(kind)
    return loaded if have == made else f"convert_{made}{width}({loaded})"


def takes_vectors(kind: Kind) -> bool:
    """Whether sums of this kind use vectors: numbers by plus-times, floats by most algebras."""
    if kind.algebra is not None:
        return in_vectors(kind.algebra.add) and in_vectors(kind.algebra.multiply)
    return element(kind.accumulator).pairs == 1
