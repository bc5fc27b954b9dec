"""Dtypes and traced expressions in OpenCL C.

Types and conversions come from the dtypes' records (`problem.dtypes`). Carried floats become float32 before any
arithmetic: reading and writing halves needs no extension. Booleans are bytes in memory. CUDA C++ has the same text with
other names (`kernels.functors`).
"""

from __future__ import annotations

import math
import re

from tilewright.multiply.problem.algebra import Semiring
from tilewright.multiply.problem.dtypes import DTYPES, dtype, element
from tilewright.multiply.problem.expression import STATED, Builder, Expression, Instruction, number
from tilewright.multiply.problem.primitives import PRIMITIVES, letter

_TOKEN = re.compile(r"\$\d|\b[TU]\b")

#: Rounds a double to a float to odd, so that a second rounding gives the same as a single one.
#: Source: Boldo, Melquiond, Emulation of FMA and correctly rounded sums, 2008.
_TO_ODD = """inline float to_odd(double x) {
    float near = convert_float_rte(x);
    double back = near;
    if (back == x || isnan(x) || isinf(x)) return near;
    return as_float((as_uint(near) - (fabs(back) > fabs(x))) | 1);
}"""
#: Helpers of casts to and from carried floats, by name.
_CARRIED = [(x.name, x.carried) for x in DTYPES if x.carried is not None]
HELPERS = {
    **{f"from_{name}": carried.c_widen for name, carried in _CARRIED},
    **{f"to_{name}": carried.c_narrow for name, carried in _CARRIED},
    "to_odd": _TO_ODD,
}


def wrapping_type(name: str) -> str:
    """The unsigned C type in which integers of a dtype wrap: at least 32 bits, so that C does not widen it to `int`.

    >>> wrapping_type("int8"), wrapping_type("int64")
    ('uint', 'ulong')
    """
    return "ulong" if dtype(name).bytes == 8 else "uint"


def literal(step: Instruction) -> str:
    """A constant as C writes it: floats by their bits."""
    value, made = number(step), element(step.dtype).c
    if step.dtype == "bool":
        return "true" if value else "false"
    if letter(step.dtype) != "f":
        bits = dtype(step.dtype).bits
        return f"({made}){int(value) % (1 << bits):#x}u{'l' * (bits == 64)}"
    if math.isnan(value):
        return f"({made})NAN"
    if math.isinf(value):
        return f"({made}){'-' * (value < 0)}INFINITY"
    return f"{float(value).hex()}{'f' * (step.dtype == 'float32')}"


def cast(value: str, source: str, target: str) -> str:
    """A value as another dtype.

    Floats round once, and saturate to integers, NaN to 0; integers wrap; any value but 0 is true.

    >>> cast("x", "float64", "float16")
    'to_float16(to_odd(x))'
    """
    if source == target:
        return value
    if element(source).carried is not None:
        return cast(f"from_{source}({value})", "float32", target)
    if target == "bool":
        return f"({value} != 0)"
    if element(target).carried is not None:
        if source == "float32":
            return f"to_{target}({value})"
        wide = value if source == "float64" else cast(value, source, "float64")
        # A boolean is exact in either.
        return f"to_{target}({cast(value, source, 'float32') if source == 'bool' else f'to_odd({wide})'})"
    made = element(target).c
    if letter(target) == "f":
        return f"({made}){value}" if source == "bool" else f"convert_{made}_rte({value})"
    if source != "bool" and letter(source) == "f":
        return f"(isnan({value}) ? ({made})0 : convert_{made}_sat_rtz({value}))"
    return f"({made}){value}"


def in_vectors(expression: Expression) -> bool:
    """Whether an expression's C text works for vectors too: it has one float type, and no conversions."""
    steps = expression.instructions
    return letter(expression.dtype) == "f" and all(x.dtype == expression.dtype and x.op not in STATED for x in steps)


def function(name: str, expression: Expression, width: int = 1) -> str:
    """An expression as a C function of its parameters, or of vectors of them where `in_vectors` allows.

    >>> from tilewright.problem.functions import trace
    >>> print(function("halved", trace(lambda x: x * 0.5, {"x": "float32"})))
    inline float halved(float v0) {
        const float v1 = 0x1.0000000000000p-1f;
        const float v2 = v0 * v1;
        return v2;
    }
    """
    steps, lanes = expression.instructions, str(width) if width > 1 else ""
    types = {step.dtype: element(step.dtype).c + lanes for step in steps}
    parameters = ", ".join(f"{types[step.dtype]} v{i}" for i, step in enumerate(steps[: expression.arity]))
    lines = [
        f"    const {types[step.dtype]} v{i} = {_step(step, steps, types)};"
        for i, step in enumerate(steps[expression.arity :], expression.arity)
    ]
    head = f"inline {types[expression.dtype]} {name}({parameters}) {{"
    return "\n".join([head, *lines, f"    return v{len(steps) - 1};", "}"])


def _step(step: Instruction, steps: tuple[Instruction, ...], types: dict[str, str]) -> str:
    if step.op == "constant":
        return literal(step)
    args = [f"v{i}" for i in step.args]
    of = steps[step.args[-1]].dtype
    if step.op == "copy":
        return args[0]
    if step.op == "cast":
        return cast(args[0], of, step.dtype)
    if step.op == "bits":
        return f"as_{element(step.dtype).c}({args[0]})"
    words = {"T": types[of], "U": "" if letter(of) in "fb" else wrapping_type(of)}
    text = PRIMITIVES[step.op].c_text(letter(of))
    return _TOKEN.sub(lambda m: args[int(m[0][1])] if m[0][0] == "$" else words[m[0]], text)


def algebra(semiring: Semiring, vector: str = "") -> tuple[list[str], str]:
    """The functions `zero`, `plus` and `times` of an algebra, and its step: `c` and the product of `a` and `b`.

    `vector` is the suffix of functions that take vectors.
    """
    zero = Builder()
    start = zero.finished(zero.add("constant", (), semiring.dtype, semiring.zero), 0)
    functions = [function("zero", start), function("plus", semiring.add), function("times", semiring.multiply)]
    return functions, f"plus{vector}(c, times{vector}({'b, a' if semiring.swapped else 'a, b'}))"


def helpers(text: str) -> list[str]:
    """The helpers that a text uses, in an order in which they can be defined."""
    return [code for name, code in HELPERS.items() if f"{name}(" in text]
