"""The instruction table: the form of a row, and the search for an instruction's row.

A row states a family of forms the way the manual prints it::

    @row("add{.sat}.s32 d, a, b;", section="9.7.1.1")
    def add(code, form, a, b): ...

In a syntax, `{.x}` is optional, `{.x, .y}` an optional choice, `.name` a placeholder when `where` gives its values
("type": "u16 s16 ...") and a literal modifier otherwise. Operands take the type `.type` unless `types` says otherwise
for that operand letter: a type name ("u32"), the name of another placeholder ("atype"), or a double-width
"2*type". The parser, the translator, the support page and the tests all read these rows.

The vendor's assembler accepts the dotted parts of most names in any order, as its own headers write them
(`max.s32.relu`, `atom.add.acquire.gpu.u64`). Only types keep their order, and the first `fixed` parts come first, in
the syntax's order (`mul.hi`, `bar.red`). A test asks the assembler about every row.
"""

from __future__ import annotations

import difflib
import enum
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.simulate.isa.kinds import COSTS, KINDS
from tilewright.simulate.isa.roles import Role, role_of
from tilewright.simulate.ptx import tree

if TYPE_CHECKING:
    from tilewright.simulate.code import Code, Value

#: What a row's meaning receives and returns: (code, form, *source values) -> destination value(s).
Meaning = Callable[..., Any]

_TYPE = re.compile(r"[usb]\d+(x2)?|b?f\d+(x2)?|tf32|pred|u?e\dm\d(x2)?|b\dx16(_p\d+)?")
_SPACE = re.compile(r"(global|shared|local|const|param)(::\w+)?")
_LAYOUT, _LOGIC = re.compile("row|col"), re.compile("xor|and|popc")
_PUNCTUATION = re.compile(r"\{\.\w+\}|[{}\[\]\s!-]")  # of an operand: everything that is not part of its name


class Linear(enum.StrEnum):
    """The integer functions for which `translate.transfer` knows the shape of the result."""

    NONE = ""
    MOVE = "move"
    ADD = "add"
    SUB = "sub"
    NEG = "neg"
    MUL = "mul"
    MUL_WIDE = "mul.wide"
    MAD = "mad"
    MAD_WIDE = "mad.wide"
    SHL = "shl"
    SHR = "shr"
    AND = "and"
    OR = "or"
    CVT = "cvt"


@dataclass(frozen=True)
class Row:
    """One family of instruction forms."""

    syntax: str  #: As the manual prints it.
    section: str  #: Section of the PTX ISA manual.
    #: The meaning, called as its kind describes. Kinds that the translator places have no callable meaning.
    emit: Meaning
    #: Placeholder -> allowed values (without dots).
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Operand letter -> type expression, if it is not `.type`.
    types: Mapping[str, str] = field(default_factory=dict)
    #: For operands that are lists in braces: a function from the bound form to the number of registers of each letter.
    counts: Callable[[Form], Mapping[str, int]] | None = None
    updates: bool = False  #: Whether its first operand is both written and read, as the first source.
    kind: str = "lane"  #: Who places the instruction: one of `KINDS`.
    #: How the result's shape follows from the operands' shapes; `NONE`: by the general rule.
    linear: Linear = Linear.NONE
    #: The unit that executes it, one of `COSTS`; for instruments that find what bounds a kernel.
    cost: str = "integer"
    note: str = ""  #: A note for readers of the support page.
    #: Number of dotted parts that must come first in a name, in order; the others may have any order.
    fixed: int = 0

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        assert isinstance(self.linear, Linear) and self.kind in KINDS and self.cost in COSTS, self.syntax

    @functools.cached_property
    def opcode(self) -> str:
        """The part before the first dot."""
        return re.split(r"[.{ ;]", self.syntax, maxsplit=1)[0]

    @functools.cached_property
    def role(self) -> Role:
        """Its role in programs."""
        return role_of(self.opcode)

    @functools.cached_property
    def operand_text(self) -> str:
        """The operands as the syntax has them, braces and all."""
        return self.syntax[len(_head(self.syntax)) :].strip("; ")

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """Operand names in the syntax's order, `d|p` for pairs, without braces, brackets and `!`."""
        return tuple(_PUNCTUATION.sub("", part) for part in self.operand_text.split(",") if part.strip())

    @functools.cached_property
    def operand_counts(self) -> tuple[int, int]:
        """The least and the greatest number of operands; operands in braces are optional."""
        tail = self.operand_text.replace("{!}", "")
        optional = re.findall(r"\{[^}]*\}", tail)
        plain = re.sub(r"\{[^}]*\}", "", tail)
        least = len([part for part in plain.split(",") if part.strip(" []|")])
        return least, least + sum(group.count(",") for group in optional)

    @functools.cached_property
    def writes(self) -> bool:
        """Whether the first operand is written: the manual calls destinations d and p."""
        return self.kind != "control" and bool(self.operands) and self.operands[0][0] in "dp"

    @functools.cached_property
    def access(self) -> str:
        """Its memory access: "load", "store", "atomic" (both), "copy" (both, at two addresses), or ""."""
        access = KINDS[self.kind].access
        if access == "move":
            return "load" if self.writes else "store"
        return "atomic" if access == "store" and "op" in self.where else access

    @property
    def loads(self) -> bool:
        """Whether it returns a value from memory: loads, and atomics with a result."""
        return bool(self.access) and self.writes

    @property
    def stores(self) -> bool:
        """Whether it changes memory at its one address: stores and atomics."""
        return self.access in ("store", "atomic")

    @property
    def members(self) -> int | None:
        """The index of the source that is the mask of participating lanes; None if there is none."""
        sources = self.operands[self.writes :]
        return sources.index("membermask") if "membermask" in sources else None

    @functools.cached_property
    def together(self) -> bool:
        """Whether a whole warp must execute it together, by its name: not a barrier, and without a member mask."""
        parts = self.syntax.partition(" ")[0].split(".")
        return {"sync", "aligned"} <= set(parts) and self.kind != "barrier" and self.members is None

    @property
    def takes_carry(self) -> bool:
        """Whether the carry flag is among its sources: addc, subc, madc."""
        return self.kind == "carry" and self.opcode.endswith("c")

    def operand_names(self, count: int) -> tuple[str, ...]:
        """The names of `count` operands: those in braces are left out, the last first."""
        if count >= len(self.operands):
            return self.operands
        names = list(self.operands)
        for optional in reversed(re.findall(r"\{, ?(\w+)\}", self.operand_text)):
            if len(names) > count:
                names.remove(optional)
        return tuple(names)

    @functools.cached_property
    def parts(self) -> tuple[tuple[Mapping[str, tuple[str, ...]], bool], ...]:
        """For each dotted part: its values by placeholder (a literal is its own), and whether it is optional."""
        found = []
        for text, optional in _components(self.syntax):
            names = [name.strip().lstrip(".") for name in text.split(",")]
            found.append(({name: self.where.get(name, (name,)) for name in names}, optional))
        return tuple(found)

    @functools.cached_property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """For each dotted part of a name: its values, with their dots; "" if it is optional."""
        return tuple(
            ("",) * optional + tuple("." + value for values in part.values() for value in values)
            for part, optional in self.parts
        )

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """All values of all dotted parts; a name with another word is not one of its forms."""
        return frozenset(value for part, _ in self.parts for values in part.values() for value in values)

    @functools.cached_property
    def ordered(self) -> tuple[frozenset[int], ...]:
        """For each dotted part: the others with which it keeps its order.

        Types keep their order among themselves; so do layouts, state spaces, bitwise operations, and parts with a
        common value.
        """
        values = [{v for values in part.values() for v in values} for part, _ in self.parts]
        kinds = [
            next((k for k in (_TYPE, _SPACE, _LAYOUT, _LOGIC) if all(map(k.fullmatch, of))), None) for of in values
        ]
        numbers = range(len(values))
        return tuple(
            frozenset(u for u in numbers if u != i and ((kinds[i] and kinds[i] is kinds[u]) or values[i] & values[u]))
            for i in numbers
        )

    def forms(self) -> Iterable[str]:
        """Every dotted name this row accepts, for tests and the support page."""
        for choice in itertools.product(*self.choices):
            yield self.opcode + "".join(choice)


@dataclass(frozen=True)
class Form:
    """An instruction's row with its placeholders bound; `name` has its parts in the syntax's order.

    `form["type"]` is the bound value ("s32") or "" when an optional part is absent; `form.has("sat")` says whether a
    literal modifier is present; `form.type_of("a")` gives the PTX type of an operand.
    """

    row: Row
    name: str
    bound: Mapping[str, str]

    def __getitem__(self, placeholder: str) -> str:
        return self.bound.get(placeholder, "")

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The dotted parts, each with its dot."""
        return tuple("." + part for part in self.name.split(".")[1:])

    def has(self, modifier: str) -> bool:
        """Whether `.modifier` is among the name's dotted parts."""
        return modifier in self.name.split(".")[1:]

    @property
    def aligned(self) -> bool:
        """Whether all lanes of a warp must reach this barrier together.

        Source: PTX ISA, 9.7.13.1: `bar` is `barrier` with `.aligned`.
        """
        return self.row.opcode == "bar" or self.has("aligned")

    @property
    def lists(self) -> Mapping[str, int]:
        """The number of registers of each operand that is a list in braces, by its letter."""
        if self.row.counts is not None:
            return self.row.counts(self)
        count = int(self["vec"][1:] or 1)
        return dict.fromkeys(("d", "a" if self.row.role is Role.COPY else "b"), count) if count > 1 else {}

    def names_of(self, operands: Sequence[tree.Operand]) -> tuple[str, ...]:
        """The names of operands; an optional list is present if the operand is in braces."""
        names = self.row.operand_names(len(operands))
        if len(operands) == len(self.row.operands):
            return names
        for name in self.lists:
            may_be_left_out = f"{{, {name}}}" in self.row.operand_text
            if may_be_left_out and not isinstance(operands[self.row.operands.index(name)], tree.Vector):
                return tuple(n for n in self.row.operands if n != name)[: len(operands)]
        return names

    def type_of(self, operand: str) -> str:
        """PTX type (no dot) of an operand letter."""
        expression = self.row.types.get(operand, "type")
        wide = expression.startswith("2*")
        expression = expression.removeprefix("2*")
        type_ = self.bound.get(expression) or (self.bound.get("type", "") if expression == "type" else expression)
        if not wide:
            return type_
        head = type_.rstrip("0123456789")
        return f"{head}{int(type_[len(head) :]) * 2}"


def _components(syntax: str) -> list[tuple[str, bool]]:
    """The dotted parts of a syntax: (text, optional)."""
    opcode = re.match(r"[a-z0-9_]+", syntax)
    assert opcode is not None
    text = _head(syntax)[opcode.end() :]
    parts: list[tuple[str, bool]] = []
    for match in re.finditer(r"\{([^}]*)\}|(\.[A-Za-z0-9_:]+)", text):
        if match[1] is not None:
            parts.append((match[1], True))
        else:
            parts.append((match[2], False))
    return parts


def _head(syntax: str) -> str:
    """The dotted name of a syntax, up to the first space outside braces."""
    depth = 0
    for index, character in enumerate(syntax):
        depth += (character == "{") - (character == "}")
        if depth == 0 and character in " ;":
            return syntax[:index]
    return syntax


def _no_meaning(*_: Any) -> Any:
    """The meaning of instructions that the translator places."""
    raise NotImplementedError("placed by the translator")


class Table:
    """All rows, indexed by opcode.

    Lookup tries the dotted parts in the syntax's order, then in any order that the row allows; it binds a part only
    once.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._by_opcode: dict[str, list[Row]] = {}
        self._cache: dict[str, Form | None] = {}

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        self._by_opcode.setdefault(row.opcode, []).append(row)

    def row(
        self,
        *syntaxes: str,
        section: str,
        types: Mapping[str, str] | None = None,
        counts: Callable[[Form], Mapping[str, int]] | None = None,
        updates: bool = False,
        kind: str = "lane",
        linear: str = "",
        cost: str = "integer",
        note: str = "",
        fixed: int = 0,
        **where: str,
    ) -> Callable[[Meaning], Meaning]:
        """Decorate a meaning with one or more syntaxes; keyword arguments give placeholder values, space-separated."""
        values = {name: tuple(text.split()) for name, text in where.items()}

        def register(emit: Meaning) -> Meaning:
            for syntax in syntaxes:
                self.add(
                    Row(
                        syntax,
                        section,
                        emit,
                        values,
                        types or {},
                        counts,
                        updates,
                        kind,
                        Linear(linear),
                        cost,
                        note,
                        fixed,
                    )
                )
            return emit

        return register

    def placed(self, *syntaxes: str, **stated: Any) -> None:
        """Add rows that the translator places; they have no callable meaning."""
        self.row(*syntaxes, **stated)(_no_meaning)

    def find(self, name: str) -> Form | None:
        """The form for a dotted name, or None."""
        if name not in self._cache:
            opcode, *parts = name.split(".")
            self._cache[name] = next(
                (
                    Form(row, _spelt(row, bound), bound)
                    for bind in (_bind, _bind_in_any_order)
                    for row in self._by_opcode.get(opcode, ())
                    if row.words.issuperset(parts) and (bound := bind(row, parts)) is not None
                ),
                None,
            )
        return self._cache[name]

    def neighbours(self, name: str, count: int = 4) -> list[str]:
        """Known forms nearest to an unknown name, for error messages; or those of a similar opcode."""
        opcode, *parts = name.split(".")
        rows = self._by_opcode.get(opcode)
        if rows is None:  # A similar opcode has the same first letter: mbarrier is not barrier, cp is not rcp.
            likely = [known for known in self._by_opcode if known[0] == opcode[:1]]
            near = difflib.get_close_matches(opcode, likely, n=count, cutoff=0.8)
            return [self._by_opcode[known][0].syntax.rstrip(";") for known in near]
        names = dict.fromkeys(_nearest(row, parts) for row in rows)
        return difflib.get_close_matches(name, names, n=count, cutoff=0.0)


def _nearest(row: Row, parts: list[str]) -> str:
    """The form of a row that shares most dotted parts with a name; its other parts are the most similar."""
    left = ["." + part for part in parts]
    chosen = []
    for choice in row.choices:
        shared = next((part for part in left if part in choice), None)
        if shared is not None:
            left.remove(shared)
        chosen.append(shared)
    for index, choice in enumerate(row.choices):
        if chosen[index] is None:
            alike = [near for part in left for near in difflib.get_close_matches(part, choice, n=1, cutoff=0.6)]
            chosen[index] = (alike or choice)[0] if choice[0] else ""
    return row.opcode + "".join(part or "" for part in chosen)


def _bind(row: Row, parts: list[str]) -> dict[str, str] | None:
    """Match dotted parts against a row's components by backtracking; None if they do not match."""

    def step(i: int, j: int) -> dict[str, str] | None:
        if i == len(row.parts):
            return {} if j == len(parts) else None
        part, optional = row.parts[i]
        if j < len(parts):
            for name, values in part.items():
                for value in values:
                    if value == parts[j] and (rest := step(i + 1, j + 1)) is not None:
                        return {name: value, **rest}
        return step(i + 1, j) if optional else None

    return step(0, 0)


def _bind_in_any_order(row: Row, parts: list[str]) -> dict[str, str] | None:
    """Match dotted parts against a row's components in any order; None if they do not match."""

    def step(j: int, used: tuple[int, ...]) -> dict[str, str] | None:
        if j == len(parts):
            return {} if all(i in used or optional for i, (_, optional) in enumerate(row.parts)) else None
        for i, (part, _) in enumerate(row.parts):
            before = used if i < row.fixed else row.ordered[i].intersection(used)
            if i in used or any(u > i for u in before):
                continue
            for name, values in part.items():
                if parts[j] in values and (rest := step(j + 1, (*used, i))) is not None:
                    return {name: parts[j], **rest}
        return None

    return step(0, ())


def _spelt(row: Row, bound: Mapping[str, str]) -> str:
    """The name of a form in the order of its row's syntax."""
    return ".".join([row.opcode, *(bound[name] for part, _ in row.parts for name in part if name in bound)])


def lower(code: Code, form: Form, *sources: Value) -> tuple[Value, ...]:
    """Run a `lane` row's meaning and return its destinations as a tuple."""
    result = form.row.emit(code, form, *sources)
    return result if isinstance(result, tuple) else (result,)
