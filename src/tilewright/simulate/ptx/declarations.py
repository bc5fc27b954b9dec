"""Variables and parameters: `.global .align 4 .v2 .f32 a[3][2] = {...}`.

Source: PTX ISA, sections 5.2 (types), 5.4 (variables: vectors, arrays, initializers, alignment) and 11.7
(attributes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.simulate.ptx.constants import bits_as, expression, integer
from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import Operand, Symbol, Variable

#: State spaces in which a variable can be declared.
SPACES = {".global": "global", ".shared": "shared", ".const": "const", ".local": "local", ".param": "param"}

#: Linkage directives that may precede a declaration. Source: PTX ISA, section 11.6.
LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})

_TYPE = re.compile(
    r"\.(?:[sub](?:8|16|32|64)|b128|b1|b4|f16|f16x2|bf16|bf16x2|f32|f32x2|f64|tf32|[su]8x4|[su]16x2"
    r"|e\dm\d(?:x\d)?|pred|texref|samplerref|surfref)"
)
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
#: Elements of one initialiser, and zeros of all that fill rows of nested braces: a short text cannot exhaust memory.
_MOST_ELEMENTS, _MOST_ZEROS = 1 << 24, 1 << 22
_MOST_ALIGNMENT = 1 << 20
_MOST_NAMES = 1 << 16  # of all declarations `name<count>`, but for registers
_DEPTH = 16  # nesting of braces in an initialiser

Resolve = Callable[[str], Operand]


@dataclass(slots=True)
class Specification:
    """The part of a declaration before the name."""

    type: str = ""
    vector: int = 1
    align: int = 0
    is_pointer: bool = False


def specification(tokens: Tokens) -> Specification:
    """Alignment, vector, pointer attributes and type, in the order they come."""
    found = Specification()
    while tokens.texts[tokens.at][:1] == ".":
        text = tokens.texts[tokens.at]
        if text == ".align":
            tokens.at += 1
            found.align = _alignment(tokens)
        elif text == ".ptr":
            _skip_pointer(tokens)
            found.is_pointer = True
        elif text == ".attribute":
            skip_parentheses(tokens)
        elif text in _VECTORS:
            tokens.at += 1
            found.vector = _VECTORS[text]
        elif _TYPE.fullmatch(text) and not found.type:
            tokens.at += 1
            found.type = text
        else:
            tokens.fail("a type" if not found.type else "a name")
    if not found.type:
        tokens.fail("a type such as .b32")
    return found


def variables(tokens: Tokens, space: str, resolve: Resolve, linkage: str = "") -> list[Variable]:
    """The variables of one declaration; the cursor starts after the state space and ends after the semicolon."""
    found: list[Variable] = []
    spec = specification(tokens)
    while True:
        found += _declarator(tokens, space, spec, resolve, linkage)
        if not tokens.accept(","):
            break
    tokens.expect(";", "after a declaration")
    return found


def parameters(tokens: Tokens) -> tuple[Variable, ...]:
    """A parenthesised list of parameters; those in registers have the space "reg"."""
    found: list[Variable] = []
    tokens.expect("(")
    while not tokens.accept(")"):
        found.append(_parameter(tokens))
        if not tokens.accept(",") and tokens.texts[tokens.at] != ")":
            tokens.fail("',' or ')' in a parameter list")
    return tuple(found)


def linkage(tokens: Tokens) -> str:
    """The linkage before a declaration, without its dot: the last if there are several, "" if there is none."""
    found = ""
    while (text := tokens.texts[tokens.at]) in LINKAGE:
        found = text[1:]
        tokens.at += 1
    return found


def renamed(variable: Variable, name: str) -> Variable:
    """The variable under another name."""
    return variable if variable.name == name else replace(variable, name=name)


def skip_parentheses(tokens: Tokens) -> None:
    """Move past `.attribute(...)` or its like."""
    tokens.at += 1
    tokens.expect("(")
    while tokens.texts[tokens.at] != ")":
        if not tokens.take():
            tokens.fail("')'")
    tokens.at += 1


def _parameter(tokens: Tokens) -> Variable:
    line = tokens.line()
    kind = tokens.texts[tokens.at]
    if kind not in {".param", ".reg"}:
        tokens.fail("a parameter (.param or .reg)")
    tokens.at += 1
    spec = specification(tokens)
    name = tokens.name("a parameter's name")
    if kind == ".reg":
        return Variable(name, "reg", spec.type, 1, spec.vector, 0, ptx_line=line)
    dimensions = _dimensions(tokens)
    count = math.prod(dimensions) if dimensions else 1
    return Variable(name, "param", spec.type, count, spec.vector, spec.align, ptx_line=line, is_pointer=spec.is_pointer)


def _declarator(tokens: Tokens, space: str, spec: Specification, resolve: Resolve, linkage: str) -> list[Variable]:
    """One name with its dimensions and initialiser, or `name<count>`."""
    line = tokens.line()
    name = tokens.name("a variable's name")
    plain = Variable(name, space, spec.type, 1, spec.vector, spec.align, linkage=linkage, ptx_line=line)
    if tokens.accept("<"):
        count = _count(tokens, _MOST_NAMES - tokens.names)
        tokens.names += count
        return [replace(plain, name=f"{name}{index}") for index in range(count)]
    dimensions = _dimensions(tokens)
    initial: list[int | Symbol] = []
    if tokens.accept("="):
        if math.prod(dimensions) * spec.vector > _MOST_ELEMENTS:
            tokens.error(f"an initialised array has at most {_MOST_ELEMENTS} elements; leave this one uninitialised")
        inner = dimensions if spec.vector == 1 else [*dimensions, spec.vector]
        initial = _initialiser(tokens, spec.type, inner, resolve, 0)
    count = math.prod(dimensions)
    if dimensions and dimensions[0] == 0 and initial:
        row = max(1, math.prod(dimensions[1:]) * spec.vector)
        count = -(-len(initial) // row) * (row // spec.vector)
    if len(initial) > count * spec.vector:
        tokens.error(f"'{name}' has {count * spec.vector} elements but {len(initial)} initial values")
    return [replace(plain, count=count, initial=tuple(initial))]


def _dimensions(tokens: Tokens) -> list[int]:
    """`[3][2]`; an empty first dimension is 0."""
    found: list[int] = []
    while tokens.accept("["):
        if tokens.accept("]"):
            if found:
                tokens.error("only the first dimension of an array may be left empty", tokens.at - 1)
            found.append(0)
            continue
        at = tokens.at
        size = integer(tokens, "an array's size, an integer constant")
        if not 0 <= size < 1 << 40:
            tokens.error(f"an array's size must be from 0 to 2**40 (got {size})", at)
        if size * math.prod(found) >= 1 << 60:  # before a product has more digits than a message can hold
            tokens.error("an array must have fewer than 2**60 elements in all", at)
        found.append(size)
        tokens.expect("]", "after an array's size")
    return found


def _initialiser(tokens: Tokens, type_: str, dimensions: list[int], resolve: Resolve, depth: int) -> list[int | Symbol]:
    """A value, or values in braces; a row that is too short is filled with zeros when another follows."""
    if not tokens.accept("{"):
        return [_value(tokens, type_, resolve)]
    if depth >= _DEPTH:
        tokens.error(f"an initialiser nested more than {_DEPTH} deep")
    row = math.prod(dimensions[1:])
    found: list[int | Symbol] = []
    while not tokens.accept("}"):
        nested = tokens.texts[tokens.at] == "{"
        if nested and row:
            _fill(tokens, found, row)
        found += _initialiser(tokens, type_, dimensions[1:], resolve, depth + 1)
        if nested and row and tokens.texts[tokens.at] == ",":
            _fill(tokens, found, row)
        if len(found) > _MOST_ELEMENTS:
            tokens.error(f"an initialiser has at most {_MOST_ELEMENTS} values")
        if not tokens.accept(",") and tokens.texts[tokens.at] != "}":
            tokens.fail("',' or '}' in an initialiser")
    return found


def _fill(tokens: Tokens, found: list[int | Symbol], row: int) -> None:
    """Fill the last row with zeros."""
    zeros = -len(found) % row
    tokens.zeros += zeros
    if tokens.zeros > _MOST_ZEROS:
        tokens.error(
            f"the initialisers of a module must leave at most {_MOST_ZEROS:,} elements of their rows to be zero (got "
            f"{tokens.zeros:,}); write the elements in the kernel"
        )
    found += [0] * zeros


def _value(tokens: Tokens, type_: str, resolve: Resolve) -> int | Symbol:
    """One value: a constant, an address, `generic(address)` or `mask(address)`."""
    if tokens.is_word() and tokens.texts[tokens.at] != "WARP_SZ":
        return _address(tokens, resolve)
    value = expression(tokens)
    if value.kind == "int" and tokens.texts[tokens.at] == "(":
        tokens.at += 1
        symbol = _address(tokens, resolve)
        tokens.expect(")", "after a masked address")
        return replace(symbol, mask=value.value)
    return bits_as(value, type_)


def _address(tokens: Tokens, resolve: Resolve) -> Symbol:
    """`name`, `name+8` or `generic(name)+8`."""
    at = tokens.at
    name = tokens.name("a constant or the name of a variable")
    if name == "generic" and tokens.accept("("):
        symbol = replace(_address(tokens, resolve), generic=True) if tokens.is_word() else None
        if symbol is None:
            tokens.fail("the name of a variable")
        tokens.expect(")", "after generic(")
    else:
        found = resolve(name)
        if not isinstance(found, Symbol):
            tokens.error(f"an initialiser takes constants and addresses (got '{name}')", at)
        symbol = found
    while tokens.texts[tokens.at] in {"+", "-"}:
        sign = 1 if tokens.take() == "+" else -1
        symbol = replace(symbol, offset=symbol.offset + sign * integer(tokens, "an offset, an integer constant"))
    return symbol


def _alignment(tokens: Tokens) -> int:
    at = tokens.at
    value = integer(tokens, "an alignment in bytes")
    if value < 1 or value & (value - 1) or value > _MOST_ALIGNMENT:
        tokens.error(f"an alignment must be a power of two, at most {_MOST_ALIGNMENT:,} (got {value:,})", at)
    return value


def _count(tokens: Tokens, most: int) -> int:
    """The count of `name<count>`, up to the closing bracket."""
    at = tokens.at
    text = tokens.take()
    if not text.isdigit() or len(text) > 12:
        tokens.fail("how many, an integer", at)
    if int(text) > most:
        tokens.error(f"'<count>' must declare at most {most:,} more names (got {text}); use an array", at)
    tokens.expect(">", "after a count")
    return int(text)


def count(tokens: Tokens) -> int:
    """The count of a register range, up to the closing bracket."""
    return _count(tokens, 1 << 32)


def _skip_pointer(tokens: Tokens) -> None:
    """`.ptr .global .align 16`: what a parameter points to, which the machine does not need."""
    tokens.at += 1
    if tokens.texts[tokens.at] in {".global", ".shared", ".const", ".local", ".generic"}:
        tokens.at += 1
    if tokens.accept(".align"):
        _alignment(tokens)
