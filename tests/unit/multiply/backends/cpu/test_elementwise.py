"""Expressions compiled at every width against NumPy's evaluation of the same expression, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.ground.native.compiler import Compiler, compiler
from tilewright.multiply.backends.cpu.elements import filled, vector
from tilewright.multiply.backends.cpu.elementwise import emit_cast, emit_expression, register
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import DTYPES, dtype
from tilewright.multiply.problem.expression import Expression, as_numpy
from tilewright.multiply.problem.reference import same_bits
from tilewright.problem import functions as tw
from tilewright.problem.functions import trace

Array = np.ndarray[Any, Any]
COUNT = 1 << 10  # a multiple of every width


def without_avx512() -> Compiler:
    """The host's compiler, limited to AVX2."""
    return Compiler(compiler().features.replace("+avx512", "-avx512").replace("+amx", "-amx"))


def function_text(symbol: str, expression: Expression, width: int) -> tuple[str, dict[str, str]]:
    ir = Ir()
    names = [d for _, d in expression.parameters]
    pointers = ", ".join(f"ptr %p{i}" for i in range(len(names)))
    ir.line(f'define void @{symbol}({pointers}, ptr %out) "min-legal-vector-width"="512" {{')
    ir.place("entry")
    with ir.loop("0", str(COUNT), str(width)) as i:
        values = []
        for number, name in enumerate(names):
            memory = "i8" if name == "bool" else register(name)
            size = as_numpy(name).itemsize
            value = ir.load(vector(memory, width), ir.at(f"%p{number}", ir.mul(i, str(size))))
            values.append(emit_cast(ir, value, "uint8", "bool", width) if name == "bool" else value)
        result, name = emit_expression(ir, expression, values, width), expression.dtype
        if name == "bool":
            result, name = emit_cast(ir, result, "bool", "uint8", width), "uint8"
        at = ir.at("%out", ir.mul(i, str(as_numpy(name).itemsize)))
        ir.store(vector(register(name), width), result, at)
    ir.line("ret void")
    ir.line("}")
    return "\n".join(ir.lines), ir.declarations


def compiled(expressions: dict[str, Expression], widths: tuple[int, ...], made: Compiler) -> Callable[..., Array]:
    """Runs an expression by name at a width; one module for all of them."""
    texts, declarations = [], dict[str, str]()
    symbols = {(name, w): f"f{i}_{w}" for i, name in enumerate(expressions) for w in widths}
    for (name, w), symbol in symbols.items():
        text, needed = function_text(symbol, expressions[name], w)
        texts.append(text)
        declarations |= needed
    code = made.compile("\n".join([*texts, *declarations.values()]))
    library = compiler().link(code, tuple(symbols.values()))

    def run(name: str, width: int, arrays: list[Array]) -> Array:
        out = np.empty(COUNT, as_numpy(expressions[name].dtype))
        count = len(arrays) + 1
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(library.addresses[symbols[name, width]])
        call(*[x.ctypes.data for x in arrays], out.ctypes.data)
        return out

    return run


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    2.5,
    -2.5,
    1e-40,
    3e38,
    127.5,
    2.0**31,
    -(2.0**63),
    2.0**64,
]


def values(name: str, seed: int) -> Array:
    """Random and special values of a dtype; each seed gives a value other neighbours."""
    random = np.random.default_rng(seed)
    if name == "bool":
        return random.random(COUNT) < 0.5
    kind = dtype(name)
    if kind.is_float:
        spread = random.normal(size=COUNT) * random.choice([1e-6, 0.1, 1, 30, 1e5], COUNT)
        if name == "float64":
            spread[100:200] = random.normal(size=100) * 10.0 ** random.uniform(-320, 300, 100)
        spread[:256] = np.tile(np.repeat(SPECIAL, 16) if seed % 2 else np.array(SPECIAL * 16), 1)
        with np.errstate(all="ignore"):
            return spread.astype(kind.numpy)
    info = np.iinfo(name)
    found = random.integers(info.min, info.max, COUNT, name, endpoint=True)
    found[:400] = random.integers(max(info.min, -4), 5, 400)
    found[400:464] = np.tile(np.array([info.min, info.max, 0, 1], name), 16)
    found[464:480] = found[464:480] | 1
    return found


def check(cases: dict[str, tuple[Callable[..., Any], tuple[str, ...]]], made: Compiler, *widths: int) -> None:
    expressions = {
        label: trace(function, {f"x{i}": d for i, d in enumerate(names)}) for label, (function, names) in cases.items()
    }
    run = compiled(expressions, widths, made)
    for label, (_, names) in cases.items():
        arrays = [values(d, seed) for seed, d in enumerate(names)]
        truth = expressions[label].evaluate(*arrays)
        for width in widths:
            found = run(label, width, arrays)
            assert found.dtype == truth.dtype, label
            if found.dtype == bool:
                assert (found == truth).all(), (label, width)
            else:
                assert same_bits(found, truth), (
                    label,
                    width,
                    *[x[found != truth][:3] for x in (*arrays, found, truth)],
                )


FLOATS = ("float32", "float64")
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ONE: dict[str, Callable[[Any], Any]] = {
    "exp": tw.exp, "expm1": tw.expm1, "log": tw.log, "log1p": tw.log1p, "tanh": tw.tanh, "sigmoid": tw.sigmoid,
    "erf": tw.erf, "gelu": tw.gelu, "gelu tanh": lambda x: tw.gelu(x, approximate="tanh"), "silu": tw.silu,
    "relu": tw.relu, "sqrt": lambda x: tw.sqrt(abs(x)), "floor": tw.floor, "ceil": tw.ceil, "round": tw.round,
    "clip": lambda x: tw.clip(x, -1, 1), "power": lambda x: x**3 + x**-2, "negative": lambda x: -x,
}  # fmt: skip
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y, "minimum": tw.minimum, "maximum": tw.maximum, "less": lambda x, y: x < y,
    "not greater": lambda x, y: ~(x > y), "at most": lambda x, y: x <= y, "equal": lambda x, y: x == y,
    "differs": lambda x, y: x != y, "where": lambda x, y: tw.where((x < y) & (y < 3), x, y),
    "not contracted": lambda x, y: x * y + x, "fused": lambda x, y: tw.fma(x, y, x),
    "absolute": lambda x, y: abs(x - y),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_functions_have_numpy_s_bits_at_every_width(name: str) -> None:
    check({label: (f, (name,)) for label, f in ONE.items()}, compiler(), 1, 16)


def test_functions_have_the_same_bits_without_avx512() -> None:
    some = ("exp", "log1p", "gelu", "tanh", "round")
    cases = {f"{label} {name}": (ONE[label], (name,)) for label in some for name in FLOATS}
    check(cases, without_avx512(), 8)


@pytest.mark.parametrize("name", FLOATS)
def test_operations_of_floats(name: str) -> None:
    cases = {label: (f, (name, name)) for label, f in TWO.items()}
    check(cases | {"logaddexp": (tw.logaddexp, (name, name))}, compiler(), 1, 8, 16)


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint64", "int64"])
def test_operations_of_integers(name: str) -> None:
    bitwise: dict[str, Callable[[Any, Any], Any]] = {
        "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "not": lambda x, y: ~x & y,
        "floor quotient": lambda x, y: x // y, "remainder": lambda x, y: x % y,
        "shifts": lambda x, y: (x << 3) ^ (y >> 2),
        "square": lambda x, y: x**2 - y,
    }  # fmt: skip
    cases = {label: (f, (name, name)) for label, f in (TWO | bitwise).items() if label != "fused"}
    check(cases, compiler(), 1, 16)


def test_quotients_are_python_s() -> None:
    x, y = np.meshgrid(np.arange(-9, 10), np.array([-4, -3, -1, 1, 2, 5]))
    f = trace(lambda x, y: x // y, {"x": "int64", "y": "int64"})
    g = trace(lambda x, y: x % y, {"x": "int64", "y": "int64"})
    seven = trace(lambda x: (x // 7) * 100 + 7 % x, {"x": "int64"})
    assert (seven.evaluate(y) == (y // 7) * 100 + 7 % y).all()
    assert (f.evaluate(x, y) == x // y).all()
    assert (g.evaluate(x, y) == x % y).all()


def test_every_cast() -> None:
    names = (*(record.name for record in DTYPES), "bool")
    cases = {
        f"{a} to {b}": ((lambda x, b=b: tw.astype(x, b)), (a,)) for a in names for b in names
    }  # fmt: skip
    check(cases, compiler(), 16)


def test_casts_in_the_remainder_s_width_and_without_avx512() -> None:
    pairs = [
        ("float64", "bfloat16"), ("float64", "float16"), ("float32", "int8"), ("float64", "uint64"),
        ("uint64", "float32"),
        ("int64", "float32"), ("float32", "bfloat16"), ("bool", "float32"),
    ]  # fmt: skip
    cases = {f"{a} to {b}": ((lambda x, b=b: tw.astype(x, b)), (a,)) for a, b in pairs}
    check(cases, compiler(), 1)
    check(cases, without_avx512(), 8)


def test_booleans() -> None:
    cases: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
        "and": (lambda x, y: x & y, ("bool", "bool")),
        "xor or": (lambda x, y: (x ^ y) | ~x, ("bool", "bool")),
        "least": (lambda x, y: tw.minimum(x, y) == tw.maximum(x, y), ("bool", "bool")),
        "chosen": (lambda x, y: tw.where(x, y, y * 2), ("bool", "float32")),
        "met": (lambda x, y: tw.astype(x, "int8") + y, ("bool", "float16")),
    }
    check(cases, compiler(), 1, 16)


def test_lines_of_a_table_may_name_their_tenth_result_and_later_ones() -> None:
    ir = Ir()
    lines = ("add T $0, $0", *(f"add T #{i}, $0" for i in range(12)))
    named = filled(ir, lines, ["%x"], {"T": "i32"}, 1)
    assert ir.lines[-1] == f"{named} = add i32 %v12, %x"
