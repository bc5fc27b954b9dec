"""The operands of instructions.

Source: PTX ISA, section 6.4 (operands) and 9.7.12.5 (call).
"""

from __future__ import annotations

import re

from tilewright.simulate.ptx.constants import expression, integer
from tilewright.simulate.ptx.names import Names
from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import (
    Address,
    CallArguments,
    Function,
    Immediate,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    Symbol,
    Variable,
    Vector,
)

_WIDEST = 256  # operands in braces; tcgen05.ld takes 128
_COMPONENTS = frozenset("." + name for name in "xyzwrgba")
#: A name, and an optional selector of its bytes or halves (`.b0`, `.h1`).
_PART = re.compile(r"([A-Za-z_$%][\w$]*)(?:\.([bh][0-7]{1,4}))?\Z", re.ASCII)
_ENDS = frozenset({",", ";", "}", ")", "]"})


class Operands:
    """Parses the operands in a function's body."""

    def __init__(self, tokens: Tokens, names: Names, function: Function, module: Module) -> None:
        self.tokens = tokens
        self.names = names
        self.function = function
        self._variables = module.variables
        self._numbers: dict[str, Immediate] = {}

    def of(self, opcode: str) -> tuple[Operand, ...]:
        """The operands of an instruction, up to its semicolon."""
        tokens = self.tokens
        if opcode == "call":
            return (self._call(),)
        found = [self._selected() or self.operand()]
        while tokens.accept(","):
            found.append(self._selected() or self.operand())
        if opcode == "mov":  # `mov.u64 %rd1, table[3]` takes the address; other opcodes take the element
            found = [
                Symbol(o.base.name, o.offset) if isinstance(o, Address) and isinstance(o.base, Symbol) else o
                for o in found
            ]
        return tuple(found)

    def _selected(self) -> Selected | None:
        """A part of a register, or its negative; None for any other operand, and then nothing is consumed."""
        tokens = self.tokens
        negated = tokens.texts[tokens.at] == "-"
        parts = _PART.match(tokens.texts[tokens.at + negated])
        if parts is None or not (negated or parts[2]):
            return None
        register = self.names.resolve(parts[1])
        if not isinstance(register, Register):
            return None
        tokens.at += 1 + negated
        return Selected(register, parts[2] or "", negated)

    def operand(self) -> Operand:
        """One operand."""
        tokens = self.tokens
        text = tokens.texts[tokens.at]
        first = text[:1]
        if first == "[":
            return self._address()
        if first == "{":
            return self._vector()
        if first == "!" and tokens.texts[tokens.at + 1][:1] not in "(0123456789":
            tokens.at += 1
            return Negated(self.register("a predicate register"))
        if tokens.is_word() and text != "WARP_SZ":
            return self._named()
        return self._immediate()

    def _immediate(self) -> Immediate:
        """A constant expression; plain literals, the usual case, are cached."""
        tokens = self.tokens
        text = tokens.texts[tokens.at]
        plain = tokens.texts[tokens.at + 1] in _ENDS
        if plain and text in self._numbers:
            tokens.at += 1
            return self._numbers[text]
        value = expression(tokens)
        if plain:
            self._numbers[text] = value
        return value

    def _named(self) -> Operand:
        """A register, a pair of registers, a symbol, or a symbol with an offset."""
        tokens = self.tokens
        word = tokens.texts[tokens.at]
        if tokens.texts[tokens.at + 1] in _COMPONENTS:  # `%tid .x`
            tokens.at += 1
            word += tokens.texts[tokens.at]
        found = self.names.resolve(word)
        tokens.at += 1
        following = tokens.texts[tokens.at]
        if following == "|":
            if not isinstance(found, Register):
                tokens.fail("a register on the left of '|'", tokens.at - 1)
            tokens.at += 1
            return Pair(found, self.register("a register"))
        if following in {"+", "-"}:
            if not isinstance(found, Symbol):
                tokens.fail("',' or ';' (only an address takes an offset)")
            return Symbol(found.name, self._offset())
        if following == "[" and isinstance(found, Symbol):
            return self._element(found)
        return found

    def _element(self, array: Symbol) -> Address:
        """`table[3]`, an element of a variable by its index."""
        tokens = self.tokens
        declared = [v for v in (*self.function.variables, *self.function.params) if v.name == array.name]
        variable = declared[0] if declared else self._variables.get(array.name)
        if not isinstance(variable, Variable):
            tokens.error(f"only a variable can be indexed (got '{array.name}')", tokens.at - 1)
        tokens.at += 1
        if tokens.is_word() and tokens.texts[tokens.at] != "WARP_SZ":
            tokens.fail("a constant index (compute the address where the index is a register)")
        index = integer(tokens, "an index, an integer constant")
        tokens.expect("]", "after an index")
        return Address(array, index * variable.element_bytes)

    def register(self, what: str) -> Register:
        """A register, named `what` in the error if it is none."""
        tokens = self.tokens
        if not tokens.is_word():
            tokens.fail(what)
        found = self.names.resolve(tokens.texts[tokens.at])
        if not isinstance(found, Register):
            tokens.fail(what)
        tokens.at += 1
        return found

    def _offset(self) -> int:
        """`+4`, `-4`, `+-4`; several are summed."""
        tokens = self.tokens
        total = 0
        while tokens.texts[tokens.at] in {"+", "-"}:
            sign = 1 if tokens.take() == "+" else -1
            total += sign * integer(tokens, "an offset, an integer constant")
        return total

    def _address(self) -> Address:
        """`[base]`, `[base+4]`, `[64]`, `[tensor, {x, y}]`."""
        tokens = self.tokens
        tokens.at += 1
        base: Register | Symbol | None = None
        if tokens.is_word() and tokens.texts[tokens.at] != "WARP_SZ":
            found = self.names.resolve(tokens.texts[tokens.at])
            if not isinstance(found, Register | Symbol):
                tokens.fail("a register, a variable or an integer as address")
            base = found
            tokens.at += 1
            offset = self._offset()
        else:
            offset = integer(tokens, "a register, a variable or an integer as address")
        coordinates: list[Operand] = []
        while tokens.accept(","):
            if tokens.texts[tokens.at] == "[":
                tokens.fail("a coordinate, or several in braces")
            coordinates.append(self.operand())
        tokens.expect("]", "after an address")
        return Address(base, offset, tuple(coordinates))

    def _vector(self) -> Vector:
        tokens = self.tokens
        tokens.at += 1
        items: list[Operand] = []
        while True:
            at = tokens.at
            item = None if tokens.texts[at] in {"{", "["} else self.operand()
            if item is None or isinstance(item, Vector | Address):  # a name may be a vector or an array's element
                tokens.fail("a register or a constant inside braces", at)
            items.append(item)
            if len(items) > _WIDEST:
                tokens.error(f"braces hold at most {_WIDEST} operands")
            if not tokens.accept(","):
                break
        tokens.expect("}", "after a vector operand")
        return Vector(tuple(items))

    def _call(self) -> CallArguments:
        """`(ret), target, (args), prototype`."""
        tokens = self.tokens
        returns: tuple[Operand, ...] = ()
        if tokens.texts[tokens.at] == "(":
            returns = self._group()
            tokens.expect(",", "after the return values of a call")
        at = tokens.at
        target = self.operand()
        if not isinstance(target, Symbol | Register):
            tokens.fail("the function to call", at)
        arguments: tuple[Operand, ...] = ()
        prototype_label = None
        if tokens.accept(","):
            if tokens.texts[tokens.at] == "(":
                arguments = self._group()
                if tokens.accept(","):
                    prototype_label = self._prototype_label()
            else:
                prototype_label = self._prototype_label()
        return CallArguments(returns, target, arguments, prototype_label)

    def _group(self) -> tuple[Operand, ...]:
        """Operands in parentheses."""
        tokens = self.tokens
        tokens.at += 1
        found: list[Operand] = []
        while not tokens.accept(")"):
            operand = self.operand()
            found += operand.items if isinstance(operand, Vector) else [operand]
            if not tokens.accept(",") and tokens.texts[tokens.at] != ")":
                tokens.fail("',' or ')' in the arguments of a call")
        return tuple(found)

    def _prototype_label(self) -> str:
        at = self.tokens.at
        found = self.names.resolve(self.tokens.name("the label of a prototype or of call targets"))
        if not isinstance(found, Symbol):
            self.tokens.fail("the label of a prototype or of call targets", at)
        return found.name
