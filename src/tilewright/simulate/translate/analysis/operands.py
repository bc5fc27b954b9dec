"""The check of an instruction's operands: registers that exist and have the width of their type.

Source: PTX ISA, 9.4 (Type Information for Instructions and Operands), 9.4.1 (Operand Size Exceeding Instruction-Type
Size), 6.4.1 (Addresses as Operands) and chapter 10 (Special Registers). Where the manual is unclear, the vendor's
assembler decides: a test compares it with this module for every form of the table.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import NoReturn

from tilewright.errors import PtxError
from tilewright.simulate.isa import Form, Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.translate.analysis import special

#: Widths that a register can be declared with; 1 is a predicate.
_WIDTHS = (1, 8, 16, 32, 64, 128)
#: Operands whose registers may be wider than their type: loads extend them, stores truncate them.
_MAY_BE_WIDER = {"load": "d", "store": "b"}
#: Formats whose conversions need registers of exactly their width: a rule of the assembler, not in the manual.
_EXACT_FORMATS = re.compile(r"\.(bf16|tf32|e\dm\d)")
#: Instructions that read special registers.
_READ_SPECIALS = (Role.COPY, Role.CONVERT)
#: The destination that discards a result.
SINK = "_"
_LIST = "the name sets their number: .v2, .v4 or .v8, or the shape and types of a matrix"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The widths that a register may have, the text for a message, and the remedy."""

    widths: tuple[int, ...]
    text: str
    remedy: str = "declare the register with this width, or convert with cvt"


_ANY = _Rule(_WIDTHS, "")
#: Narrow addresses are zero-extended.
_ADDRESS = _Rule((8, 16, 32, 64), "8 to 64 bits wide")


@functools.cache
def _exactly(bits: int) -> _Rule:
    return _Rule((1,), "a predicate", "make one with setp") if bits == 1 else _Rule((bits,), f"{bits} bits wide")


@functools.cache
def _at_least(bits: int) -> _Rule:
    return _Rule(tuple(w for w in _WIDTHS if w >= bits), f"at least {bits} bits wide")


@functools.cache
def _bits(type_: str) -> int:
    """Width of a PTX type in bits: 32 for `.f16x2`, 1 for `.pred`."""
    bits = 1
    for number in re.findall(r"\d+", type_):
        bits *= int(number)
    return bits


@functools.cache
def _in_brackets(syntax: str) -> frozenset[str]:
    """The addresses in a row's syntax: the operands in brackets, perhaps also in braces."""
    return frozenset(re.findall(r"\[\}?(\w+)", syntax))


def _in_braces(count: int) -> str:
    return f"{count} register{'s' * (count > 1)} in braces"


def check_operands(instruction: tree.Instruction, form: Form, registers: dict[str, str], path: str) -> None:
    """Check that an instruction's registers exist and fit its form.

    Raises PtxError: a register is neither declared nor special, or has another width than its operand; braces have the
    wrong number of registers; a special register is written, or the instruction cannot read it.
    """
    check = _Check(instruction, form, registers, path)
    if instruction.guard is not None:
        check.register("guard", instruction.guard.register, _exactly(1))
    names = form.names_of(instruction.operands)
    for name, operand in zip(names, instruction.operands, strict=False):
        check.operand(name, operand)


class _Check:
    """The check of one instruction."""

    def __init__(self, instruction: tree.Instruction, form: Form, registers: dict[str, str], path: str) -> None:
        self.instruction = instruction
        self.form = form
        self.registers = registers
        self.path = path

    def operand(self, name: str, operand: tree.Operand) -> None:
        """Check one operand, named as in the row's syntax (`d|p` for a pair)."""
        first, _, second = name.partition("|")
        count = self.form.lists.get(first, 0)
        whole = isinstance(operand, tree.Register) and operand.name == SINK and self.form.row.kind == "atomic"
        alone = "|" in self.form.type_of(first)  # one register may be used for the list
        if count and not whole and not alone and not isinstance(operand, tree.Vector | tree.Address):
            self.fail(f"operand {first}", _in_braces(count), "no braces", _LIST)
        bracketed = first in _in_brackets(self.form.row.syntax)
        if bracketed and "|" not in self.form.type_of(first) and not isinstance(operand, tree.Address | tree.Vector):
            self.fail(f"operand {first}", "an address in brackets", operand_text(operand), "write it as [...]")
        match operand:
            case tree.Register() | tree.Negated():
                register = operand.operand if isinstance(operand, tree.Negated) else operand
                self.register(f"operand {first}", register, self.rule(first))
            case tree.Pair(left, right):
                self.register(f"operand {first}", left, self.rule(first))
                self.register(f"operand {second or first}", right, self.rule(second or first))
            case tree.Address() if not bracketed:
                remedy = "load the value from memory first"
                self.fail(f"operand {first}", "a register or a literal", operand_text(operand), remedy)
            case tree.Address(tree.Register() as base):
                rule = self.rule(first, address=True) if first in self.form.row.types else _ADDRESS  # a handle's is one
                self.register(f"the address {first}", base, rule)
            case tree.Vector(items):
                self.vector(first, items)
            case tree.CallArguments(returns, target, arguments):
                for item in (*returns, target, *arguments):
                    if isinstance(item, tree.Register):
                        self.register("an argument", item, _ANY)

    def vector(self, name: str, items: tuple[tree.Operand, ...]) -> None:
        """Check operands in braces: a vector's elements, or the parts that `mov` packs and unpacks."""
        rule, bits = self.rule(name), _bits(self.form["type"])
        if self.form.row.role is Role.COPY and not self.form["vec"]:
            if bits % len(items):
                self.fail(f"operand {name}", f"pieces of {bits} bits", f"{len(items)} in braces", "give 2 or 4")
            rule = _exactly(bits // len(items))
        elif len(items) != (count := self.form.lists.get(name, 1)):
            rule_text = _in_braces(count) if name in self.form.lists else "one register"
            self.fail(f"operand {name}", rule_text, f"{len(items)} in braces", _LIST)
        for item in items:
            if isinstance(item, tree.Register):
                self.register(f"an element of operand {name}", item, rule)

    def rule(self, name: str, *, address: bool = False) -> _Rule:
        """The row's rule for an operand's width; with two types, an address has the first, if it may be an address."""
        row, type_ = self.form.row, self.form.type_of(name)
        if row.kind == "isspacep" and name == "a":  # an address without brackets
            return _ADDRESS
        if not type_:
            return _ANY
        if "|" in type_ and name in _in_brackets(row.syntax):
            return _exactly(_bits(type_.split("|")[not address]))
        if "|" in type_:
            first, second = (_exactly(_bits(each)) for each in type_.split("|"))
            return _Rule(first.widths + second.widths, f"{first.text}, or {second.text}")
        converts = row.role is Role.CONVERT and not _EXACT_FORMATS.search(self.form.name)
        plain = row.kind == "memory" and not self.form.has("async")
        surface = row.kind == "surface" and name in ("d", "b")
        if converts or surface or (plain and name in _MAY_BE_WIDER[row.access]):
            return _at_least(_bits(type_))
        return _exactly(_bits(type_))

    def register(self, what: str, register: tree.Register, rule: _Rule) -> None:
        """Check that a register exists and has one of a rule's widths."""
        declared = self.registers.get(register.name)
        if declared is not None:
            if _bits(declared) not in rule.widths:
                self.fail(what, rule.text, f"{register.name}, {declared}", rule.remedy)
            return
        if register.name == SINK:
            return
        found = special.find(register.name)
        if found is None:
            raise PtxError(f"{self.where}: {special.why_unknown(register.name)}")
        if self.form.row.role not in _READ_SPECIALS:
            self.fail(what, "a declared register", f"{register.name}", "read a special register with mov or cvt")
        if not set(found[0].widths) & set(rule.widths):
            widths = " or ".join("a predicate" if w == 1 else f"{w} bits" for w in found[0].widths)
            self.fail(what, rule.text, f"{register.name}, {widths}", rule.remedy)

    @property
    def where(self) -> str:
        """The line of the text."""
        return f"{self.path}:{self.instruction.ptx_line}"

    def fail(self, what: str, rule: str, got: str, remedy: str) -> NoReturn:
        """Refuse an operand."""
        raise PtxError(f"{self.where}: {what} of '{self.instruction.name}' must be {rule} (got {got}); {remedy}")
