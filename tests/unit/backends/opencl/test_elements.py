"""Every primitive and cast as OpenCL C, against what NumPy makes of it."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from bitwise import same_bits

from tilewright.backends.opencl import OpenclDevice, host_products
from tilewright.backends.opencl.elements import cast, literal
from tilewright.problem.dtypes import DTYPES
from tilewright.problem.expression import Builder, Expression, Instruction, as_numpy
from tilewright.problem.kind import Kind
from tilewright.problem.primitives import PRIMITIVES, letter

Array = npt.NDArray[np.generic]
_COMPUTED = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_ALL = (*(d.name for d in DTYPES), "bool")
#: Of `_COMPUTED`, one of each letter and both widths of a float: OpenCL C names functions alike for the other widths.
_FEW = ("float32", "float64", "int8", "uint64", "bool")
#: Each pair is a program that the device's compiler takes a second for.
_EXTENTS = ["few", pytest.param("all", marks=pytest.mark.volume)]


def specials(name: str) -> Array:
    """Values at which operations differ: extremes, zeros of both signs, subnormals, halves, NaN."""
    rng = np.random.default_rng(1)
    if name == "bool":
        return np.array([True, False] * 4)
    made = as_numpy(name)
    if letter(name) == "f":
        tiny, large = (float(f) for f in (np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max))
        fixed = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, tiny, -tiny, large, np.inf, -np.inf, np.nan, 300.7, -129.5]
        edges = [127.5, 128.0, 255.5, 32767.5, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1 + 2.0**-11]
        odd = [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 65519.99, 65520.0, 2.0**-25, 2.0**-25 + 2.0**-60]
        with np.errstate(over="ignore"):
            return np.array([*fixed, *edges, *odd, *rng.standard_normal(8)]).astype(made)
    info = np.iinfo(made)
    fixed = [v for v in (0, 1, -1, 2, 3, -3, info.min, info.max, info.max - 1, 2049) if info.min <= v <= info.max]
    return np.concatenate([np.array(fixed, made), rng.integers(info.min, info.max, 6, made, endpoint=True)])


def computed(device: OpenclDevice, expression: Expression, values: list[Array]) -> Array:
    """An expression on a device: the finish of a product whose sum nobody reads."""
    builder = Builder()
    names = ["sum", *(name for name, _ in expression.parameters)]
    kinds = ["float32", *(kind for _, kind in expression.parameters)]
    places = [builder.add("parameter", (), kind, name) for name, kind in zip(names, kinds, strict=True)]
    finish = builder.finished(builder.insert(expression, places[1:]), len(names))
    size = values[0].size
    out: Array = np.empty((size, 1), as_numpy(finish.dtype))
    one = np.ones((size, 1), np.float32)
    kind = Kind("float32", "float32", finish.dtype, "float32", finish=finish)
    host_products(device).multiply_into(one, one[:1], out, kind, more=[v.reshape(size, 1) for v in values])
    return out.reshape(size)


def step(op: str, kinds: list[str], result: str) -> Expression:
    builder = Builder()
    args = tuple(builder.add("parameter", (), kind, f"x{i}") for i, kind in enumerate(kinds))
    return builder.finished(builder.add(op, args, result), len(kinds))


@pytest.mark.parametrize("extent", _EXTENTS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_gives_numpys_bits(device: OpenclDevice, name: str, extent: str) -> None:
    row = PRIMITIVES[name]
    for kind in (k for k in {"few": _FEW, "all": _COMPUTED}[extent] if letter(k) in row.kinds):
        kinds = [kind] * row.arity
        pools = [specials(kind)] * row.arity
        if name == "where":
            kinds[0], pools[0] = "bool", np.array([True, False])
        if name.endswith("_shift"):
            pools[1] = np.arange(8 * as_numpy(kind).itemsize, dtype=as_numpy(kind))
        if row.arity == 3 and name != "where":
            pools = [pool[::2] for pool in pools]
        values = [np.array(column) for column in zip(*itertools.product(*pools), strict=True)]
        values = [v.astype(as_numpy(k)) for v, k in zip(values, kinds, strict=True)]
        expression = step(name, kinds, "bool" if row.result == "bool" else kind)
        expected = expression.evaluate(*values)
        assert same_bits(computed(device, expression, values), expected), (name, kind)


@pytest.mark.parametrize("extent", _EXTENTS)
@pytest.mark.parametrize("source", _ALL)
def test_a_cast_gives_numpys_bits(device: OpenclDevice, source: str, extent: str) -> None:
    values = specials(source)
    first = _ALL.index(source)
    stride = {"few": 3, "all": 1}[extent]  # each third target: of several letters and widths, and all in turn
    for target in (_ALL[(first + i) % len(_ALL)] for i in range(1, len(_ALL), stride)):
        expression = step("cast", [source], target)
        expected = expression.evaluate(values)
        assert same_bits(computed(device, expression, [values]), expected), (source, target)


def test_constants_are_written_by_their_bits() -> None:
    told = [literal(Instruction("constant", (), d, t)) for d, t in (("float32", (0.1).hex()), ("int8", "-1"))]
    assert told == ["0x1.999999999999ap-4f", "(char)0xffu"]
    assert literal(Instruction("constant", (), "float64", (-np.inf).hex())) == "(double)-INFINITY"


def test_an_integer_goes_to_a_half_by_way_of_a_double() -> None:
    assert cast("x", "int64", "bfloat16") == "to_bfloat16(to_odd(convert_double_rte(x)))"
