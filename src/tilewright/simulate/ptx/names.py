"""Names inside one function: nested scopes, flattened into unique names.

PTX blocks `{ }` have their own registers, variables and labels; the tree has no blocks. The first owner of a name keeps
it, and later ones become `name$1`, `name$2` ... A register of a range (`%r<10>`) is declared when it is first used.

Source: PTX ISA, sections 5.4.6 (parameterized variable names) and 11.2 (scopes of `{ }`).
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field

from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import Immediate, Operand, Register, Symbol, Vector

#: Components of a vector register, and their colour aliases. Source: PTX ISA, section 6.4.4.
COMPONENTS = "xyzw"
ALIASES = dict(zip("rgba", COMPONENTS, strict=True))


@dataclass(slots=True)
class _Scope:
    names: dict[str, Operand] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str, int]] = field(default_factory=dict)  # prefix -> count, type, vector
    declared: set[str] = field(default_factory=set)


class Names:
    """The scopes of one function, innermost last."""

    def __init__(self, tokens: Tokens, registers: dict[str, str], *module: Container[str]) -> None:
        self._tokens = tokens
        self._registers = registers
        self._module = module
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}
        self._scopes = [_Scope()]
        self._outside: dict[str, Operand] = {}

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._scopes)

    def open(self, labels: list[int]) -> None:
        """Enter a block that defines the labels at these tokens."""
        self._scopes.append(_Scope())
        for index in labels:
            self.declare(self._tokens.texts[index], index)

    def close(self) -> None:
        """Leave the innermost block."""
        self._scopes.pop()

    def keep(self, name: str) -> None:
        """Declare a parameter of the function, under its own name."""
        self._claim(name)
        self._taken.add(name)
        self._scopes[-1].names[name] = Symbol(name)

    def declare(self, name: str, index: int | None = None) -> str:
        """Declare a variable or label here; returns its unique name. `index` is the token that an error names."""
        self._claim(name, index)
        unique = self._unique(name)
        self._scopes[-1].names[name] = Symbol(unique)
        return unique

    def register(self, name: str, type_: str, vector: int) -> Operand:
        """Declare a register here; a vector becomes one register for each component."""
        self._claim(name)
        return self._bind(self._scopes[-1], name, type_, vector)

    def register_range(self, prefix: str, count: int, type_: str, vector: int) -> None:
        """Declare `prefix<count>` here."""
        self._claim(prefix + "<>")
        self._scopes[-1].ranges[prefix] = (count, type_, vector)

    def resolve(self, word: str) -> Operand:
        """The thing that a word names: a register, a variable, a label, a special register, or a name of the module."""
        for scope in reversed(self._scopes):
            found = scope.names.get(word)
            if found is not None:
                return found
            if scope.ranges and (found := self._from_range(scope, word)) is not None:
                return found
        found = self._outside.get(word)
        if found is None:
            found = self._outside[word] = self._foreign(word)
        return found

    def _claim(self, name: str, index: int | None = None) -> None:
        declared = self._scopes[-1].declared
        if name in declared:
            self._tokens.error(f"'{name.removesuffix('<>')}' is declared twice in one block; rename one", index)
        declared.add(name)

    def _unique(self, name: str) -> str:
        unique = name
        while unique in self._taken or any(unique in names for names in self._module):
            self._last[name] = self._last.get(name, 0) + 1
            unique = f"{name}${self._last[name]}"
        self._taken.add(unique)
        return unique

    def _bind(self, scope: _Scope, name: str, type_: str, vector: int) -> Operand:
        if vector == 1:
            unique = self._unique(name)
            self._registers[unique] = type_
            operand: Operand = Register(unique)
            scope.names[name] = operand
            return operand
        parts = []
        for component, alias in zip(COMPONENTS[:vector], ALIASES, strict=False):
            unique = self._unique(f"{name}${component}")
            self._registers[unique] = type_
            parts.append(Register(unique))
            scope.names[f"{name}.{component}"] = scope.names[f"{name}.{alias}"] = parts[-1]
        scope.names[name] = Vector(tuple(parts))
        return scope.names[name]

    def _from_range(self, scope: _Scope, word: str) -> Operand | None:
        """Declare a member of a range on its first use."""
        base, dot, _ = word.partition(".")
        stem = base.rstrip("0123456789")
        for cut in range(len(stem), min(len(base), len(stem) + 20)):
            known = scope.ranges.get(base[:cut])
            if known is None or (base[cut] == "0" and cut + 1 < len(base)):
                continue
            if len(base) - cut < 20 and int(base[cut:]) < known[0]:
                if base not in scope.names:
                    self._bind(scope, base, known[1], known[2])
                return scope.names.get(word) if dot else scope.names[base]
        return None

    def _foreign(self, word: str) -> Operand:
        """A word that the function does not declare."""
        if word[0] == "%" or word == "_":
            return Register(word)
        if word == "WARP_SZ":
            return Immediate(32)
        if not any(word in names for names in self._module):
            self._tokens.error(f"'{word}' is not declared here; declare it before its first use")
        return Symbol(word)


def labels_by_block(texts: list[str], start: int) -> dict[int, list[int]]:
    """Labels of each block, for the function body that opens at `start`.

    Keys are the token indices of opening braces; values are those of the labels.
    """
    blocks: dict[int, list[int]] = {}
    open_blocks: list[int] = []
    for index in range(start, len(texts)):
        text = texts[index]
        if text == "{":
            open_blocks.append(index)
        elif text == "}":
            open_blocks.pop()
            if not open_blocks:
                break
        elif text == ":" and open_blocks and re.match(r"[A-Za-z_$%][\w$]*\Z", texts[index - 1], re.ASCII):
            blocks.setdefault(open_blocks[-1], []).append(index - 1)
    return blocks
