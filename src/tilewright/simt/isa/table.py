"""The instruction table: how a row is written, and how an instruction finds its row.

A row states a family of forms the way the manual prints it::

    @row("add{.sat}.s32 d, a, b;", section="9.7.1.1")
    def add(code, form, a, b): ...

In a syntax, `{.x}` is optional, `{.x, .y}` an optional choice, `.name` a placeholder when `where` gives its values
("type": "u16 s16 ...") and a literal modifier otherwise. Operands take the type `.type` unless `types` says otherwise
for that operand letter: a type name ("u32"), the name of another placeholder ("atype"), or a double-width
"2*type". The parser, the translator, the support page and the tests all read these rows.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.simt.translate.code import Code, Value

#: What a row's meaning receives and returns: (code, form, *source values) -> destination value(s).
Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One family of instruction forms.

    Attributes
    ----------
    syntax : str
        As the manual prints it.
    section : str
        Section of the PTX ISA manual.
    where : dict
        Placeholder -> allowed values (without dots).
    types : dict
        Operand letter -> type expression, where it is not `.type`.
    kind : str
        `lane` (each lane for itself: meaning gets source values, returns destination values), or a kind the
        translator knows how to place: `memory`, `atomic`, `warp`, `barrier`, `control`, `special`, `nothing`.
    linear : str
        How the result depends on operands that are linear in the lane: "add", "sub", "mul", "mad", "shl", "move",
        "widen", "narrow"; "" when only the general path applies. `mul` needs one uniform operand.
    cost : str
        `integer`, `half`, `float`, `double`, `transcendental`, `convert`, `memory`, `control`, `warp`.
    emit : callable
        The meaning. For `lane` rows ``emit(code, form, *sources) -> Value | tuple[Value, ...]``.
    """

    syntax: str
    section: str
    emit: Meaning
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    kind: str = "lane"
    linear: str = ""
    cost: str = "integer"
    note: str = ""

    @property
    def opcode(self) -> str:
        """The part before the first dot."""
        return re.split(r"[.{ ;]", self.syntax, maxsplit=1)[0]

    @functools.cached_property
    def operand_text(self) -> str:
        """The operands as the syntax has them, braces and all."""
        return self.syntax[len(_head(self.syntax)) :].strip("; ")

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """Operand names in the syntax's order, `d|p` for pairs, without braces, brackets and `!`."""
        return tuple(re.sub(r"[{}\[\]\s!]", "", part) for part in self.operand_text.split(",") if part.strip())

    @functools.cached_property
    def operand_counts(self) -> tuple[int, int]:
        """The least and the most operands; those in braces may be left out."""
        tail = self.operand_text.replace("{!}", "")
        optional = re.findall(r"\{[^}]*\}", tail)
        plain = re.sub(r"\{[^}]*\}", "", tail)
        least = len([part for part in plain.split(",") if part.strip(" []|")])
        return least, least + sum(max(1, group.count(",")) for group in optional)

    @property
    def writes(self) -> bool:
        """Whether the first operand is written: the manual calls destinations d and p."""
        return self.kind != "control" and bool(self.operands) and self.operands[0][0] in "dp"

    def operand_names(self, count: int) -> tuple[str, ...]:
        """The names that `count` operands stand for: those in braces are left out from the end."""
        names = list(self.operands)
        for optional in reversed(re.findall(r"\{, ?(\w+)\}", self.operand_text)):
            if len(names) > count:
                names.remove(optional)
        return tuple(names)

    @functools.cached_property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """What each dotted part of a name can be, with its dot; "" where it may be left out."""
        options: list[tuple[str, ...]] = []
        for text, optional in _components(self.syntax):
            names = [name.strip().lstrip(".") for name in text.split(",")]
            values = tuple("." + value for name in names for value in self.where.get(name, (name,)))
            options.append((("",) if optional else ()) + values)
        return tuple(options)

    def forms(self) -> Iterable[str]:
        """Every dotted name this row accepts, for tests and the support page."""
        for choice in itertools.product(*self.choices):
            yield self.opcode + "".join(choice)


@dataclass(frozen=True)
class Form:
    """An instruction's row with its placeholders bound.

    `form["type"]` is the bound value ("s32") or "" when an optional part is absent; `form.has("sat")` tells whether a
    literal modifier is present; `form.type_of("a")` gives the PTX type of an operand.
    """

    row: Row
    name: str
    bound: Mapping[str, str]

    def __getitem__(self, placeholder: str) -> str:
        return self.bound.get(placeholder, "")

    def has(self, modifier: str) -> bool:
        """Whether `.modifier` is among the name's dotted parts."""
        return modifier in self.name.split(".")[1:]

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


class Table:
    """All rows, indexed by opcode.

    Lookup compares dotted parts in the syntax's order; a part may be bound only once.
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
        kind: str = "lane",
        linear: str = "",
        cost: str = "integer",
        note: str = "",
        **where: str,
    ) -> Callable[[Meaning], Meaning]:
        """Decorate a meaning with one or more syntaxes; keyword arguments give placeholder values, space-separated."""
        values = {name: tuple(text.split()) for name, text in where.items()}

        def register(emit: Meaning) -> Meaning:
            for syntax in syntaxes:
                self.add(Row(syntax, section, emit, values, types or {}, kind, linear, cost, note))
            return emit

        return register

    def find(self, name: str) -> Form | None:
        """The form for a dotted name, or None."""
        if name not in self._cache:
            opcode, *parts = name.split(".")
            self._cache[name] = next(
                (
                    Form(row, name, bound)
                    for row in self._by_opcode.get(opcode, ())
                    if (bound := _bind(row, parts)) is not None
                ),
                None,
            )
        return self._cache[name]

    def neighbours(self, name: str, count: int = 4) -> list[str]:
        """Known forms nearest to an unknown name, for error messages."""
        import difflib

        opcode = name.split(".", maxsplit=1)[0]
        rows = self._by_opcode.get(opcode)
        if not rows:
            close = difflib.get_close_matches(opcode, self._by_opcode, n=count, cutoff=0.5)
            return [row.syntax for o in close for row in self._by_opcode[o][:1]]
        parts = set(name.split("."))
        # Some opcodes have thousands of forms: those that share the most parts are compared letter by letter.
        names = {form for row in rows for form in itertools.islice(row.forms(), 4000)}
        likely = heapq.nsmallest(64, names, key=lambda form: (-len(parts & set(form.split("."))), len(form), form))
        return difflib.get_close_matches(name, likely, n=count, cutoff=0.0)


def _bind(row: Row, parts: list[str]) -> dict[str, str] | None:
    """Match dotted parts against a row's components by backtracking; None when they do not fit."""
    components = [
        ([name.strip().lstrip(".") for name in text.split(",")], optional) for text, optional in _components(row.syntax)
    ]

    def step(i: int, j: int) -> dict[str, str] | None:
        if i == len(components):
            return {} if j == len(parts) else None
        names, optional = components[i]
        if j < len(parts):
            for name in names:
                if parts[j] in row.where.get(name, (name,)):
                    rest = step(i + 1, j + 1)
                    if rest is not None:
                        return {name: parts[j], **rest}
        return step(i + 1, j) if optional else None

    return step(0, 0)


def lower(code: Code, form: Form, *sources: Value) -> tuple[Value, ...]:
    """Run a `lane` row's meaning and return its destinations as a tuple."""
    result = form.row.emit(code, form, *sources)
    return result if isinstance(result, tuple) else (result,)
