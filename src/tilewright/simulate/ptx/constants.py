"""Literals and constant expressions.

Source: PTX ISA, section 4.5 (constants: integer, floating-point, predicate, and constant expressions).
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable

from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import Immediate

_LITERAL = re.compile(
    r"0[fF](?P<single>[0-9a-fA-F]{8})|0[dD](?P<double>[0-9a-fA-F]{16})"
    r"|0[xX](?P<hex>[0-9a-fA-F]+)U?|0[bB](?P<binary>[01]+)U?|0(?P<octal>[0-7]+)U?|(?P<decimal>0|[1-9]\d*)U?"
    r"|(?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\.?\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
)
_RADIX = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_LONGEST = 80  # characters of a literal, far above 64 binary digits; keeps int() fast on nonsense
_DEPTH = 64  # nesting of parentheses and unary operators

#: Binary operators by precedence, loosest first. Source: PTX ISA, table "Operator Precedence".
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_PRECEDENCE = {text: level for level, texts in enumerate(_LEVELS) for text in texts}
_PLAIN: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_LOGIC: dict[str, Callable[[bool, bool], bool]] = {"&&": operator.and_, "||": operator.or_}
#: The kind of an unsigned value (.u64) inside an expression. Outside, it is an "int" like a signed value.
_UNSIGNED = "u64"
_ALL = (1 << 64) - 1
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _literal(tokens: Tokens) -> Immediate:
    """The literal at the cursor."""
    text = tokens.texts[tokens.at]
    match = _LITERAL.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or match.lastgroup is None:
        tokens.fail("a number")
    kind, digits = match.lastgroup, match[match.lastgroup]
    if kind == "single":
        value = Immediate(int(digits, 16), "f32")
    elif kind == "double":
        value = Immediate(int(digits, 16), "f64")
    elif kind == "float":
        value = Immediate(double_bits(float(digits)), "f64")
    else:
        whole = int(digits, _RADIX[kind])
        if whole >> 64:
            tokens.error(f"integer constants have at most 64 bits (got {text})")
        value = Immediate(whole, _UNSIGNED if whole >> 63 or text[-1] == "U" else "int")
    tokens.at += 1
    return value


def expression(tokens: Tokens) -> Immediate:
    """The constant expression at the cursor, most often a plain literal."""
    value = _ternary(tokens, 0)
    return Immediate(value.value) if value.kind == _UNSIGNED else value


def _ternary(tokens: Tokens, depth: int) -> Immediate:
    condition = _binary(tokens, 0, depth)
    if tokens.texts[tokens.at] != "?":
        return condition
    tokens.at += 1
    _check_depth(tokens, depth)
    yes = _ternary(tokens, depth + 1)
    tokens.expect(":", "of the ternary operator")
    no = _ternary(tokens, depth + 1)
    return yes if number(condition) else no


def integer(tokens: Tokens, what: str) -> int:
    """A constant expression that must be an integer."""
    start = tokens.at
    value = expression(tokens)
    if value.kind != "int":
        tokens.fail(what, start)
    return value.value


def number(value: Immediate) -> float | int:
    """The Python number that an immediate means."""
    if value.kind in {"int", _UNSIGNED}:
        return value.value
    form = "<f" if value.kind == "f32" else "<d"
    return float(struct.unpack(form, value.value.to_bytes(4 if form == "<f" else 8, "little"))[0])


def double_bits(value: float) -> int:
    """Bits of a double."""
    return int.from_bytes(struct.pack("<d", value), "little")


def single_bits(value: float) -> int:
    """Bits of the float32 nearest to a double; infinity where it is beyond float32's range."""
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def bits_as(value: Immediate, type_: str) -> int:
    """An initialiser's bits in a variable of a type: floats are converted to the type's width, integers kept."""
    if type_ == ".f32":
        return value.value if value.kind == "f32" else single_bits(_as_float(value))
    if type_ == ".f64":
        return value.value if value.kind == "f64" else double_bits(_as_float(value))
    return value.value


def _as_float(value: Immediate) -> float:
    return float(number(value))


def _binary(tokens: Tokens, level: int, depth: int) -> Immediate:
    """Operators of `level` and tighter, by precedence climbing."""
    left = _unary(tokens, depth)
    while (found := _PRECEDENCE.get(tokens.texts[tokens.at], -1)) >= level:
        at = tokens.at
        symbol = tokens.take()
        _check_depth(tokens, depth)
        left = _apply(tokens, at, symbol, left, _binary(tokens, found + 1, depth + 1))
    return left


def _unary(tokens: Tokens, depth: int) -> Immediate:
    """A literal, a name of a constant, or a unary operator, cast or parenthesis around an expression."""
    text = tokens.texts[tokens.at]
    if text[:1].isdigit() or (text[:1] == "." and text[1:2].isdigit()):
        return _literal(tokens)
    if text == "WARP_SZ":
        tokens.at += 1
        return Immediate(32)
    if text not in {"-", "+", "~", "!", "("}:
        tokens.fail("a constant")
    _check_depth(tokens, depth)
    tokens.at += 1
    if text == "(" and tokens.texts[tokens.at] in {".s64", ".u64"}:
        cast = tokens.take()
        tokens.expect(")", "after the type of a cast")
        at = tokens.at
        value = _unary(tokens, depth + 1)
        if value.kind not in {"int", _UNSIGNED}:
            tokens.fail("an integer constant after a cast", at)
        return _whole(value.value, cast == ".u64")
    if text == "(":
        value = _ternary(tokens, depth + 1)
        tokens.expect(")", "of a constant expression")
        return value
    return _prefix(tokens, text, _unary(tokens, depth + 1))


def _prefix(tokens: Tokens, symbol: str, value: Immediate) -> Immediate:
    """Apply a unary operator."""
    if symbol == "+":
        return value
    if symbol == "!":
        return Immediate(int(not number(value)))
    if value.kind in {"f32", "f64"}:
        if symbol == "~":
            tokens.error("'~' takes an integer constant")
        return Immediate(value.value ^ (1 << (31 if value.kind == "f32" else 63)), value.kind)
    if symbol == "~":
        return _whole(~value.value, True)
    return _whole(-value.value, value.kind == _UNSIGNED)


def _apply(tokens: Tokens, at: int, symbol: str, a: Immediate, b: Immediate) -> Immediate:
    """Apply a binary operator to two constants, in 64 bits."""
    unsigned = _UNSIGNED in {a.kind, b.kind}
    if not {a.kind, b.kind} <= {"int", _UNSIGNED}:
        return _apply_float(tokens, at, symbol, _as_float(a), _as_float(b))
    x, y = a.value, b.value
    if unsigned or symbol == "%":
        x, y = x & _ALL, y & _ALL
    if symbol in _COMPARE:
        value, unsigned = int(_COMPARE[symbol](x, y)), False
    elif symbol in _LOGIC:
        value, unsigned = int(_LOGIC[symbol](bool(x), bool(y))), False
    elif symbol in {"<<", ">>"}:  # only the amount's low six bits are used, as in the vendor's assembler
        amount = y & 63
        value, unsigned = a.value << amount if symbol == "<<" else a.value >> amount, a.kind == _UNSIGNED
    elif symbol in _PLAIN:
        value = _PLAIN[symbol](x, y)
    elif y == 0:
        tokens.error("constant expression divides by zero", at)
    elif symbol == "%":
        value, unsigned = x % y, True
    else:
        value = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return _whole(value, unsigned)


def _apply_float(tokens: Tokens, at: int, symbol: str, x: float, y: float) -> Immediate:
    """Apply an arithmetic operator to doubles."""
    if symbol in _COMPARE:
        return Immediate(int(_COMPARE[symbol](x, y)))
    if symbol in _LOGIC:
        return Immediate(int(_LOGIC[symbol](bool(x), bool(y))))
    if symbol == "/" and y == 0:
        tokens.error("constant expression divides by zero", at)
    arithmetic: dict[str, Callable[[float, float], float]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
    }
    if symbol not in arithmetic:
        tokens.error(f"'{symbol}' takes integer constants", at)
    return Immediate(double_bits(arithmetic[symbol](x, y)), "f64")


def _whole(value: int, unsigned: bool) -> Immediate:
    """An integer wrapped to 64 bits."""
    value &= _ALL
    if unsigned:
        return Immediate(value, _UNSIGNED)
    return Immediate(value - (1 << 64) if value >> 63 else value)


def _check_depth(tokens: Tokens, depth: int) -> None:
    if depth >= _DEPTH:
        tokens.error(f"constant expression nested more than {_DEPTH} deep")
