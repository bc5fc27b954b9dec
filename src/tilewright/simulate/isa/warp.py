"""Forms in which lanes of a warp exchange values.

Source: PTX ISA, sections 9.7.13.8 to 9.7.13.14 (vote, match, activemask, redux, elect). Shuffles are in `shuffle`.

A meaning of kind `warp` is called as ``emit(code, form, mask, *sources)``; `mask` is a scalar i32 with a bit for every
lane that executes. A value of an inactive lane never reaches a result. If member masks differ from lane to lane, each
lane sees the lanes of its own mask: several groups may execute one instruction together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tilewright.ground.native.text import mangle
from tilewright.simulate.code import LANES, Code, Value
from tilewright.simulate.isa.table import Form, Table

rows = Table()

_MEMBERS = {"membermask": "b32"}
_warp = functools.partial(rows.row, kind="warp", cost="warp", types=_MEMBERS)

#: The NaN that single-precision arithmetic returns. Source: PTX ISA, section 9.7.3, canonical NaN.
_CANONICAL_NAN = 0x7FFFFFFF


def lanes_of(code: Code, mask: Value) -> Value:
    """The bits of a mask as 32 predicates."""
    return code.op(f"bitcast {mask} to <{LANES} x i1>", "i1", LANES)


def _mask_of(code: Code, predicates: Value) -> Value:
    """32 predicates as the bits of a mask."""
    return code.op(f"bitcast {code.splat(predicates)} to i32", "i32")


def laneid(code: Code) -> Value:
    """Each lane's own number."""
    return code.constants("i32", list(range(LANES)))


def _by_lane(
    code: Code, symbol: str, arguments: list[Value], result: str, body: Callable[[Code, Value, list[Value]], Value]
) -> Value:
    """Call a function of the module that computes one lane after another: `body(code, index, arguments)`.

    A module has the function once, so that a rare form does not make a kernel's code much larger.
    """
    parameters = [Value(f"%p{i}", a.type, a.lanes) for i, a in enumerate(arguments)]
    inner = Code()
    inner.place("loop")
    inner.line("%i = phi i32 [ 0, %entry ], [ %next, %loop ]")
    inner.line(f"%before = phi <{LANES} x {result}> [ zeroinitializer, %entry ], [ %after, %loop ]")
    value = body(inner, Value("%i", "i32"), parameters)
    inner.line(f"%after = insertelement <{LANES} x {result}> %before, {value}, i32 %i")
    inner.line("%next = add i32 %i, 1")
    inner.line(f"%more = icmp ult i32 %next, {LANES}")
    inner.line("br i1 %more, label %loop, label %done")
    inner.place("done")
    inner.line(f"ret <{LANES} x {result}> %after")
    text = "\n  ".join(["entry:", "br label %loop", *inner.lines])
    for name, declaration in inner.declarations.items():
        code.declare(name, declaration)
    signature = f"<{LANES} x {result}> @{symbol}({', '.join(str(p) for p in parameters)})"
    code.declare(symbol, f"define internal {signature} {{\n{text}\n}}")
    call = ", ".join(str(a) for a in arguments)
    return code.op(f"call <{LANES} x {result}> @{symbol}({call})", result, LANES)


# -- votes --------------------------------------------------------------------------------------------------------


def _votes(code: Code, mask: Value, a: Value, members: Value | None) -> tuple[Value, Value]:
    """Masks of the lanes that take part, and of those among them for which a holds."""
    voters = mask if members is None else code.and_(mask, members)
    return voters, code.and_(_mask_of(code, a), voters)


@_warp("vote.sync.mode.type d, {!}a, membermask;", section="9.7.13.9", mode="all any uni", type="pred")
@_warp("vote.mode.type d, {!}a;", section="9.7.13.8", mode="all any uni", type="pred")
def vote(code: Code, form: Form, mask: Value, a: Value, members: Value | None = None) -> Value:
    """Whether a predicate holds in all lanes, in any, or has the same value in all."""
    voters, ayes = _votes(code, mask, a, members)
    none = code.icmp("eq", ayes, code.const("i32", 0))
    match form["mode"]:
        case "any":
            return code.not_(none)
        case "all":
            return code.icmp("eq", ayes, voters)
        case _:
            return code.or_(none, code.icmp("eq", ayes, voters))


@_warp("vote.sync.ballot.type d, {!}a, membermask;", section="9.7.13.9", types=_MEMBERS | {"a": "pred"}, type="b32")
@_warp("vote.ballot.type d, {!}a;", section="9.7.13.8", types={"a": "pred"}, type="b32")
def ballot(code: Code, form: Form, mask: Value, a: Value, members: Value | None = None) -> Value:
    """A mask of the lanes in which a predicate holds."""
    return _votes(code, mask, a, members)[1]


@_warp("activemask.type d;", section="9.7.13.11", type="b32")
def activemask(code: Code, form: Form, mask: Value) -> Value:
    """A mask of the lanes that execute."""
    return mask


@_warp("elect.sync d|p, membermask;", section="9.7.13.14", types={"d": "b32", "p": "pred"} | _MEMBERS)
def elect(code: Code, form: Form, mask: Value, members: Value) -> tuple[Value, Value]:
    """Choose one lane, here the lowest: d is its number, p holds in it alone."""
    leader = code.call("llvm.cttz", "i32", code.and_(mask, members), flags="i1 false")
    return leader, code.icmp("eq", laneid(code), leader)


# -- match --------------------------------------------------------------------------------------------------------


def _equal_lanes(code: Code, mask: Value, a: Value, members: Value) -> tuple[Value, Value]:
    """Masks, for each lane, of the lanes that take part, and of those among them with the same value."""

    def one(inner: Code, index: Value, parameters: list[Value]) -> Value:
        values = parameters[0]
        return _mask_of(inner, inner.icmp("eq", values, inner.splat(inner.lane(values, index))))

    equal = _by_lane(code, f"tw.match.{mangle(a.type, LANES)}", [code.splat(a)], "i32", one)
    voters = code.splat(code.and_(mask, members))
    return voters, code.and_(equal, voters)


@_warp("match.any.sync.type d, a, membermask;", section="9.7.13.10", types={"d": "b32"} | _MEMBERS, type="b32 b64")
def match_any(code: Code, form: Form, mask: Value, a: Value, members: Value) -> Value:
    """A mask of the lanes that hold the same value."""
    return _equal_lanes(code, mask, a, members)[1]


@_warp(
    "match.all.sync.type d{|p}, a, membermask;",
    section="9.7.13.10",
    types={"d": "b32", "p": "pred"} | _MEMBERS,
    type="b32 b64",
)
def match_all(code: Code, form: Form, mask: Value, a: Value, members: Value) -> tuple[Value, Value]:
    """The mask of all lanes if all hold the same value, else 0; p says whether they do."""
    voters, equal = _equal_lanes(code, mask, a, members)
    same = code.icmp("eq", equal, voters)
    return code.select(same, voters, code.const("i32", 0)), same


# -- redux --------------------------------------------------------------------------------------------------------

_IDENTITY = {"add": 0, "or": 0, "xor": 0, "and": -1, "umin": -1, "umax": 0, "smin": 2**31 - 1, "smax": -(2**31)}


def _reduce(code: Code, operation: str, values: Value, voters: Value) -> Value:
    """Reduce the values of the lanes in a mask."""
    kept = code.select(lanes_of(code, voters), values, code.const("i32", _IDENTITY[operation]))
    return Value(code.invoke(f"llvm.vector.reduce.{operation}.v{LANES}i32", "i32", kept), "i32")


def _reduce_for_each(code: Code, operation: str, mask: Value, values: Value, members: Value) -> Value:
    """Reduce over each lane's own member mask; once, when all lanes name the same one."""
    values, voters = code.splat(values), code.and_(mask, members)
    if voters.lanes == 1:
        return _reduce(code, operation, values, voters)

    def one(inner: Code, index: Value, parameters: list[Value]) -> Value:
        return _reduce(inner, operation, parameters[0], inner.lane(parameters[1], index))

    return _by_lane(code, f"tw.redux.{operation}", [values, voters], "i32", one)


@_warp("redux.sync.op.type d, a, membermask;", section="9.7.13.12", op="add min max", type="u32 s32")
@_warp("redux.sync.op.type d, a, membermask;", section="9.7.13.12", op="and or xor", type="b32")
def redux(code: Code, form: Form, mask: Value, a: Value, members: Value) -> Value:
    """Sum, extreme or bitwise combination of the lanes' values."""
    operation = form["op"]
    if operation in {"min", "max"}:
        operation = form["type"][0] + operation
    return _reduce_for_each(code, operation, mask, a, members)


@_warp("redux.sync.op{.abs}{.NaN}.type d, a, membermask;", section="9.7.13.12", op="min max", type="f32")
def redux_float(code: Code, form: Form, mask: Value, a: Value, members: Value) -> Value:
    """Extreme of floats, with -0 below +0; NaNs count only with .NaN, or when there is nothing else.

    Floats are reduced as integers of the same order: negative ones with the bits of their magnitude inverted.
    """
    bits = code.cast("bitcast", code.splat(a), "i32")
    magnitude = code.and_(bits, code.const("i32", 0x7FFFFFFF))
    numbers = _mask_of(code, code.icmp("ule", magnitude, code.const("i32", 0x7F800000)))
    if form.has("abs"):
        bits = magnitude
    key = _ordered(code, bits)
    voters = code.and_(mask, members)
    valid = code.and_(voters, numbers)
    best = _reduce_for_each(code, f"s{form['op']}", code.and_(mask, numbers), key, members)
    # With .NaN a single NaN decides; without, the result is NaN only if no number takes part.
    spoiled = code.icmp("ne", valid, voters) if form.has("NaN") else code.icmp("eq", valid, code.const("i32", 0))
    result = code.select(spoiled, code.const("i32", _CANONICAL_NAN), _ordered(code, best))
    return code.cast("bitcast", result, "float")


def _ordered(code: Code, bits: Value) -> Value:
    """Map a float's bits to a signed integer of the same order; the map is its own inverse."""
    sign = code.binary("ashr", bits, code.const("i32", 31))
    return code.xor(bits, code.binary("lshr", sign, code.const("i32", 1)))
