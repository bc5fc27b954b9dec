"""Every primitive and cast as OpenCL C, against NumPy's result."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from bitwise import same_bits

from tilewright.multiply.backends.opencl import OpenclDevice, host_products
from tilewright.multiply.problem.c_text import cast, literal
from tilewright.multiply.problem.dtypes import DTYPES
from tilewright.multiply.problem.expression import Builder, Expression, Instruction, as_numpy
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.primitives import PRIMITIVES, letter

Array = npt.NDArray[np.generic]
_COMPUTED = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_ALL = (*(d.name for d in DTYPES), "bool")
#: Of `_COMPUTED`, one of each letter and both widths of a float: OpenCL C names functions alike for the other widths.
_FEW = ("float32", "float64", "int8", "uint64", "bool")


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
    """An expression on a device: the epilogue of a product whose sum is unused."""
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


def operands(name: str, kind: str) -> list[Array]:
    """Three columns of values of a kind, and one of booleans: every combination that tests a primitive."""
    row = PRIMITIVES[name]
    pools = [specials(kind)] * row.arity
    if name == "where":
        pools[0] = np.array([True, False])
    if name.endswith("_shift"):
        pools[1] = np.arange(8 * as_numpy(kind).itemsize, dtype=as_numpy(kind))
    if row.arity == 3 and name != "where":
        pools = [pool[::2] for pool in pools]
    columns = [np.array(column) for column in zip(*itertools.product(*pools), strict=True)]
    truth = columns.pop(0) if name == "where" else np.zeros(len(columns[0]), np.bool_)
    return [*(columns + 3 * columns[:1])[:3], truth]


def one_of(names: list[str], kind: str) -> tuple[Expression, list[Expression]]:
    """Several primitives in one program, where an operand selects one; and each separately."""
    builder, alone = Builder(), []
    result = "bool" if PRIMITIVES[names[0]].result == "bool" else kind
    kinds = [kind] * 3 + ["bool"]
    places = [builder.add("parameter", (), x, f"x{i}") for i, x in enumerate([*kinds, "uint8"])]
    found = None
    for i, name in enumerate(names):
        row = PRIMITIVES[name]
        taken = [3, 0, 1] if name == "where" else [*range(row.arity)]
        apart = Builder()
        given = {i: apart.add("parameter", (), x, f"x{i}") for i, x in enumerate(kinds)}
        alone.append(apart.finished(apart.add(name, tuple(given[x] for x in taken), result), len(kinds)))
        value = builder.add(name, tuple(places[x] for x in taken), result)
        if found is None:
            found = value
        else:
            here = builder.add("equal", (places[4], builder.add("constant", (), "uint8", str(i))), "bool")
            found = builder.add("where", (here, value, found), result)
    assert found is not None
    return builder.finished(found, len(places)), alone


@pytest.mark.parametrize("kind", [x if x in _FEW else pytest.param(x, marks=pytest.mark.volume) for x in _COMPUTED])
def test_primitives_give_numpys_bits(device: OpenclDevice, kind: str) -> None:
    known = [name for name, row in PRIMITIVES.items() if letter(kind) in row.kinds]
    for result in ("same", "bool"):
        names = [name for name in known if (PRIMITIVES[name].result == "bool") == (result == "bool")]
        together, alone = one_of(names, kind)
        values = [operands(name, kind) for name in names]
        which = [np.full(len(x[0]), i, np.uint8) for i, x in enumerate(values)]
        columns = [np.concatenate(column) for column in zip(*values, strict=True)]
        found = computed(device, together, [*columns, np.concatenate(which)])
        ends = np.cumsum([len(x) for x in which])[:-1]
        for name, part, expression, given in zip(names, np.split(found, ends), alone, values, strict=True):
            assert same_bits(part, expression.evaluate(*given)), name


def casts(cases: list[tuple[str, str]], wide: str) -> Expression:
    """Casts of sources to targets in one program, where the last operand selects one, then to a wider dtype."""
    builder, sources = Builder(), sorted({source for source, _ in cases})
    places = {x: builder.add("parameter", (), x, f"x{i}") for i, x in enumerate(sources)}
    which = builder.add("parameter", (), "uint8", f"x{len(sources)}")
    found = builder.add("constant", (), wide, (0.0).hex() if letter(wide) == "f" else "0")
    for i, (source, target) in enumerate(cases):
        value = builder.add("cast", (builder.add("cast", (places[source],), target),), wide)
        here = builder.add("equal", (which, builder.add("constant", (), "uint8", str(i))), "bool")
        found = builder.add("where", (here, value, found), wide)
    return builder.finished(found, len(sources) + 1)


@pytest.mark.parametrize("wide", ["float64", "int64"])
@pytest.mark.parametrize("sources", [_ALL[::3], _ALL[1::3], _ALL[2::3]], ids="-".join)
def test_casts_give_numpys_bits(device: OpenclDevice, sources: tuple[str, ...], wide: str) -> None:
    targets = [x for x in _ALL if (letter(x) == "f") == (wide == "float64")]
    cases = [(x, y) for x in sources for y in targets if x != y]
    values = {x: specials(x) for x in sources}
    columns = [
        np.concatenate([values[x] if x == one else np.zeros(len(values[x]), values[one].dtype) for x, _ in cases])
        for one in sorted(sources)
    ]
    sizes = [len(values[x]) for x, _ in cases]
    which = np.repeat(np.arange(len(cases), dtype=np.uint8), sizes)
    found = computed(device, casts(cases, wide), [*columns, which])
    for (source, target), part in zip(cases, np.split(found, np.cumsum(sizes)[:-1]), strict=True):
        narrow = step("cast", [source], target).evaluate(values[source])
        assert same_bits(part, step("cast", [target], wide).evaluate(narrow)), (source, target)


@pytest.mark.volume
@pytest.mark.parametrize("source", _ALL)
def test_a_cast_is_stored_as_numpys_bits(device: OpenclDevice, source: str) -> None:
    values = specials(source)
    for target in (x for x in _ALL if x != source):
        expression = step("cast", [source], target)
        assert same_bits(computed(device, expression, [values]), expression.evaluate(values)), (source, target)


def test_constants_are_written_by_their_bits() -> None:
    shown = [literal(Instruction("constant", (), d, t)) for d, t in (("float32", (0.1).hex()), ("int8", "-1"))]
    assert shown == ["0x1.999999999999ap-4f", "(char)0xffu"]
    assert literal(Instruction("constant", (), "float64", (-np.inf).hex())) == "(double)-INFINITY"


def test_an_integer_becomes_a_half_through_a_double() -> None:
    assert cast("x", "int64", "bfloat16") == "to_bfloat16(to_odd(convert_double_rte(x)))"
