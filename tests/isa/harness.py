"""Compile many instruction forms straight from their rows, without the translator, and run them on arrays.

An array holds bit patterns (unsigned, as wide as the operand's LLVM element; predicates are uint8), so that NaN
payloads and signed zeros are compared exactly. Forms run in shapes: "vector" gives every operand 32 lanes, "scalar" one
lane, and "mixed" 32 lanes to the first operand and one to the rest.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import levels
import numpy as np

from tilewright.ground.native.compiler import Library
from tilewright.simulate.code import LANES, Code, Value, element_type
from tilewright.simulate.isa.table import Form, Row, Table, lower

#: "literal" makes every operand after the first a constant: what instruction operands mostly are, and what folds.
SHAPES = ("vector", "scalar", "mixed")
LITERAL = "literal"
#: All elements of an atomic form update one place of memory.
CONTENDED = "contended"
_FOOTER = """
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{!"branch_weights", i32 1, i32 2000}
"""


@dataclass(frozen=True)
class Signature:
    """Operand letters and PTX types of a form, as its row's syntax prints them."""

    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    destination_types: tuple[str, ...]
    source_types: tuple[str, ...]


def signature(form: Form) -> Signature:
    """Split a form's operands into destinations (`d|p` is two) and sources; the address of an atomic is neither."""
    first, *rest = form.row.operands
    destinations = first.split("|")
    sources = [name.strip("!") for name in rest]
    if form.row.kind == "atomic":
        # `atom d, [a], b` and `red [a], b`: the address is not a value, and a red's old value is compared too. A vector
        # form has as many values of each as elements.
        count = int(form["vec"][1:] or 1)
        destinations = ["d"] * count
        sources = [name for name in sources if name not in "a" and name != "policy" for _ in range(count)]
    if form.row.kind == "carry":
        destinations, sources = [*destinations, "carry"], [*sources, "carry"]
    types = {name: "pred" if name == "carry" else form.type_of(name) for name in {*destinations, *sources}}
    return Signature(
        tuple(destinations),
        tuple(sources),
        tuple(types[name] for name in destinations),
        tuple(types[name] for name in sources),
    )


_WIDE = np.dtype([("low", "<u8"), ("high", "<u8")])


def array_type(ptx_type: str) -> np.dtype:
    """NumPy type of the bit patterns of a PTX type; 128 bits are a pair of uint64."""
    element = element_type(ptx_type)
    bits = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i1": 8}.get(element) or int(element[1:])
    return _WIDE if bits == 128 else np.dtype(f"<u{bits // 8}")


def to_array(patterns: Sequence[int], ptx_type: str) -> np.ndarray:
    """Bit patterns as an array that a form reads."""
    if array_type(ptx_type) == _WIDE:
        return np.array([(p & (1 << 64) - 1, p >> 64) for p in patterns], _WIDE)
    return np.array(patterns, array_type(ptx_type))


def from_array(array: np.ndarray) -> list[int]:
    """A form's results, as bit patterns."""
    if array.dtype == _WIDE:
        return [int(low) | int(high) << 64 for low, high in array]
    return [int(v) for v in array]


def _load(code: Code, pointer: str, index: str, element: str, lanes: int) -> Value:
    """Lanes from an array; `index` counts groups of 32 when lanes is 32, else elements."""
    stored = "i8" if element == "i1" else element
    shape = stored if lanes == 1 else f"<{lanes} x {stored}>"
    address = code.op(f"getelementptr {shape}, ptr {pointer}, i64 {index}", "ptr")
    value = code.op(f"load {shape}, ptr {address.text}, align 1", stored, lanes)
    return code.cast("trunc", value, "i1") if element == "i1" else value


def _store(code: Code, pointer: str, index: str, value: Value, lanes: int) -> None:
    """Write lanes back, splatting a uniform result."""
    value = code.splat(value) if lanes == LANES else value
    if value.type == "i1":
        value = code.cast("zext", value, "i8")
    address = code.op(f"getelementptr {value.ir_type}, ptr {pointer}, i64 {index}", "ptr")
    code.line(f"store {value}, ptr {address.text}, align 1")


def _constant(code: Code, element: str, bits: int) -> Value:
    """A literal from a bit pattern."""
    return code.float_bits(element, bits) if element[0] != "i" else code.const(element, bits)


def _lower_in_shape(
    code: Code, form: Form, shape: str, types: Signature, literals: Sequence[int]
) -> tuple[tuple[Value, ...], int]:
    """Load the sources of one step and run the meaning; the results, and how many elements the step covers."""
    sources = []
    one_lane = shape == "scalar" or form.row.kind == "atomic"
    for i, ptx_type in enumerate(types.source_types):
        element = element_type(ptx_type)
        if shape == LITERAL and i > 0:
            sources.append(_constant(code, element, literals[i - 1]))
        elif shape == "mixed" and i > 0:
            sources.append(_load(code, f"%in{i}", "%first", element, 1))
        else:
            sources.append(_load(code, f"%in{i}", "%index", element, 1 if one_lane else LANES))
    if form.row.kind == "atomic":
        index = "0" if shape == CONTENDED else "%index"
        address = code.op(f"getelementptr {_memory_type(types)}, ptr %memory, i64 {index}", "ptr")
        result = form.row.emit(code, form, address, *sources)
        return (result if isinstance(result, tuple) else (result,)), 1
    if form.row.kind == "warp":
        mask = _load(code, "%memory", "%index", "i32", 1)
        result = form.row.emit(code, form, mask, *sources)
        return (result if isinstance(result, tuple) else (result,)), LANES
    return lower(code, form, *sources), 1 if shape == "scalar" else LANES


def _memory_type(types: Signature) -> str:
    """The type that one atomic form has at its address."""
    return f"[{len(types.destinations)} x {element_type(types.destination_types[0])}]"


def function_text(symbol: str, form: Form, shape: str, literals: Sequence[int] = ()) -> tuple[str, Mapping[str, str]]:
    """One LLVM function that maps the form over arrays, and the declarations it needs."""
    code, types = Code(), signature(form)
    code.place("loop")
    code.line("%index = phi i64 [ 0, %entry ], [ %next, %back ]")
    code.line(f"%first = mul i64 %index, {LANES}")
    results, step = _lower_in_shape(code, form, shape, types, literals)
    lanes = 1 if step == 1 else LANES
    if len(results) < len(types.destinations):
        raise AssertionError(f"{form.name}: {len(results)} results for {types.destinations}")
    results = results[: len(types.destinations)]
    for i, (result, ptx_type) in enumerate(zip(results, types.destination_types, strict=True)):
        if result.type != element_type(ptx_type):
            raise AssertionError(f"{form.name}: {types.destinations[i]} is {result.type}, must hold a {ptx_type}")
        if shape == "scalar" and form.row.kind != "warp" and result.lanes != 1:
            raise AssertionError(f"{form.name}: scalar operands gave {result.lanes} lanes")
        _store(code, f"%out{i}", "0" if shape == CONTENDED else "%index", result, lanes)
    code.branch("back")
    pointers = [f"ptr %in{i}" for i in range(len(types.sources))] + [f"ptr %out{i}" for i in range(len(results))]
    body = "\n  ".join(code.lines)
    text = f"""define void @{symbol}({", ".join(["i64 %count", "ptr %memory", *pointers])}) #0 {{
entry:
  br label %loop
  {body}
back:
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return text, code.declarations


class Compiled:
    """Forms compiled together. `run(form, shape, arrays)` returns the destinations' bit patterns."""

    def __init__(
        self,
        forms: Sequence[Form],
        shapes: Sequence[str] | Callable[[Form], Sequence[str]] = SHAPES,
        *,
        literals: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        pairs = [(f, s) for f in forms for s in (shapes(f) if callable(shapes) else shapes)]
        self.symbols = {(f.name, s): f"f{i}" for i, (f, s) in enumerate(pairs)}
        self.literals = literals or {}
        self._by_name = {f.name: f for f in forms}
        declarations: dict[str, str] = {}
        texts = []
        for (name, shape), symbol in self.symbols.items():
            text, needed = function_text(symbol, self._by_name[name], shape, self.literals.get(name, ()))
            texts.append(text)
            declarations.update(needed)
        self.text = "\n".join([*declarations.values(), *texts, _FOOTER])
        self._library = _compile(self.text, list(self.symbols.values()))

    def run(
        self, name: str, shape: str, arrays: Sequence[np.ndarray], memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        """Run one form over equally long arrays; a multiple of 32 long unless the shape is scalar.

        `memory` is written by atomic forms, and holds one mask (uint32) a group of 32 for warp forms.
        """
        types = signature(self._by_name[name])
        sources = [np.ascontiguousarray(a, array_type(t)) for a, t in zip(arrays, types.source_types, strict=True)]
        kind = self._by_name[name].row.kind
        count = len(sources[0]) if sources else len(memory) * (LANES if kind == "warp" else 1)
        outputs = tuple(np.zeros(count, array_type(t)) for t in types.destination_types)
        pointers = [a.ctypes.data for a in (*sources, *outputs)]
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *([ctypes.c_void_p] * (1 + len(pointers))))
        function = prototype(self._library.addresses[self.symbols[name, shape]])
        scalar = kind == "atomic" or (shape == "scalar" and kind != "warp")
        function(count if scalar else count // LANES, memory.ctypes.data if memory is not None else 0, *pointers)
        return outputs


def _compile(text: str, symbols: list[str]) -> Library:
    """IR text to callable addresses, at the level that rows alone are tested at."""
    compiler = levels.compiler_of_rows()
    return compiler.link(compiler.compile(text, exports=symbols, effort=levels.EFFORT), tuple(symbols))


# -- which forms, and on which values ---------------------------------------------------------------------------


def forms_of(table: Table, rows: Iterable[Row] | None = None) -> list[Form]:
    """Every form of the rows, each bound through the table's own lookup."""
    return [_found(table, name) for row in (table.rows if rows is None else rows) for name in row.forms()]


def assert_covers(forms: list[Form], table: Table) -> None:
    """Fail unless the forms cover every row of a table, without duplicates."""
    assert {id(form.row) for form in forms} == {id(row) for row in table.rows}
    assert len({form.name for form in forms}) == len(forms)


def _found(table: Table, name: str) -> Form:
    form = table.find(name)
    if form is None:
        raise AssertionError(f"{name}: a row announces this form and the table does not find it")
    return form


_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def edge_patterns(ptx_type: str) -> list[int]:
    """Edge values of a type: zeros, ends, powers of two and neighbours; infinities, NaNs."""
    if ptx_type == "pred":
        return [0, 1]
    packed = ptx_type.partition("x")
    if packed[2] and packed[0] in {"f16", "bf16", "u16", "s16"}:
        parts = edge_patterns(packed[0])
        return [low | (parts[(7 * i + 3) % len(parts)] << 16) for i, low in enumerate(parts)]
    if ptx_type in _FLOATS:
        exponent, fraction = _FLOATS[ptx_type]
        infinity, one = ((1 << exponent) - 1) << fraction, ((1 << (exponent - 1)) - 1) << fraction
        tiny, quiet = 1 << fraction, infinity | (1 << (fraction - 1))
        positive = [0, 1, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, one + tiny, infinity - 1, infinity]
        positive += [quiet, infinity | 1, one + (1 << (fraction - 1)), one | 5, 3 * tiny]
        sign = 1 << (exponent + fraction)
        return [p | s for p in positive for s in (0, sign)]
    element = element_type(ptx_type)
    bits = int(element[1:])
    edges = {0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 7, 8, 255, 256}
    for power in range(0, bits, max(1, bits // 16)):
        edges |= {(1 << power) - 1, 1 << power, (1 << power) + 1}
    edges |= {(1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << (bits - 1)) + 1}
    whole = (1 << bits) - 1
    return sorted({e & whole for e in edges} | {-e & whole for e in edges})


def random_patterns(ptx_type: str, rng: random.Random, count: int) -> list[int]:
    """Random bit patterns; half of the integers are of random magnitude, so that small ones occur."""
    if ptx_type == "pred":
        return [rng.getrandbits(1) for _ in range(count)]
    bits = array_type(ptx_type).itemsize * 8
    whole = (1 << bits) - 1
    values = []
    for i in range(count):
        value = rng.getrandbits(bits if i % 2 else rng.randrange(1, bits + 1))
        values.append(value if i % 4 < 2 else -value & whole)
    return values


def critical_patterns(ptx_type: str) -> list[int]:
    """The few values whose pairs show most errors: 0, 1, -1 and the ends; zeros, one, infinities and a NaN."""
    if ptx_type == "pred":
        return [0, 1]
    if ptx_type in _FLOATS:
        exponent, fraction = _FLOATS[ptx_type]
        sign, infinity = 1 << (exponent + fraction), ((1 << exponent) - 1) << fraction
        return [0, sign, ((1 << (exponent - 1)) - 1) << fraction, infinity, infinity | sign, infinity | 1]
    bits = int(element_type(ptx_type)[1:])
    return [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1]


def sample(types: Sequence[str], rng: random.Random, count: int) -> list[list[int]]:
    """`count` operand tuples, transposed: every pair of critical values in the first two operands, then edges against
    edges, then edges and random values mixed.
    """
    critical = [critical_patterns(t) for t in types]
    pairs = list(itertools.product(*critical[:2]))[: count // 2]
    columns = []
    for k, ptx_type in enumerate(types):
        edges = edge_patterns(ptx_type)
        rng.shuffle(edges)
        column = [pair[k] if k < len(pair) else rng.choice(critical[k]) for pair in pairs]
        column += itertools.islice(itertools.cycle(edges), (count - len(column)) // 2)
        rest = random_patterns(ptx_type, rng, count - len(column))
        columns.append(column + [v if rng.random() < 0.7 else rng.choice(edges) for v in rest])
    return columns


Oracle = Callable[..., object]


def rows_in_shape(columns: Sequence[Sequence[int]], shape: str) -> Iterator[tuple[int, ...]]:
    """The operand tuples each element sees: in "mixed", operands after the first are those of the group's lane 0."""
    count = len(columns[0])
    for i in range(count):
        j = i - i % LANES if shape == "mixed" else i
        yield tuple(column[i if k == 0 else j] for k, column in enumerate(columns))


def differences(
    compiled: Compiled, form: Form, shape: str, columns: Sequence[Sequence[int]], oracle: Oracle
) -> list[str]:
    """Run a lane form on columns of bit patterns and describe where it differs from its oracle.

    The oracle receives (name, *patterns) and returns a pattern or a tuple of them; None in a place means that any
    value is allowed there.
    """
    types = signature(form)
    arrays = [to_array(c, t) for c, t in zip(columns, types.source_types, strict=True)]
    outputs = [from_array(a) for a in compiled.run(form.name, shape, arrays)]
    if shape == LITERAL:
        columns = [columns[0], *([v] * len(columns[0]) for v in compiled.literals[form.name])]
    found = []
    for i, operands in enumerate(rows_in_shape(columns, shape)):
        expected = oracle(form.name, *operands)
        expected = expected if isinstance(expected, tuple) else (expected,)
        got = tuple(output[i] for output in outputs)
        if any(e is not None and e != g for e, g in zip(expected, got, strict=True)):
            shown = ", ".join(f"{v:#x}" for v in operands)
            found.append(f"{form.name} {shape} ({shown}): {[hex(g) for g in got]}, must be {expected}")
            if len(found) == 5:
                break
    return found
