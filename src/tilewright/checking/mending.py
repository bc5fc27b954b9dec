"""Where the barrier that a race lacks goes, in the words of the kernel's language.

The order of the two accesses in the PTX says which one can overtake the other. Where both are in a loop and the later
access has the earlier line, it is that of the loop's next step: the barrier belongs at the end of the loop. The source
says where statements, loops and branches end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.checking import statements
from tilewright.checking.statements import Statement
from tilewright.checking.text import overtaking
from tilewright.checking.text.values import Values
from tilewright.instruments.findings import Finding, codes, of_races, split, words
from tilewright.programs import mangling
from tilewright.ptx import tree
from tilewright.ptx.substitution import parts
from tilewright.simt.translate.graph import Op

#: Codes whose remedy is a barrier of the block, or of the warp.
_RACES = {"TW301": "barrier", "TW302": "barrier", "TW304": "warp_barrier"}
#: Most lines that may be the other access of a race whose site is not known.
_LINES = 3
#: Most instructions that are looked at for the other access of a race.
_CANDIDATES = 16
#: Most remedies that are named for one finding.
_REMEDIES = 2


@dataclass(frozen=True, slots=True)
class _Advice:
    """One remedy and the order of accesses that it is for: keys of `[races]`, with the fields of their texts."""

    remedy: str
    order: str
    fields: dict[str, Any]


def mended(found: Sequence[Finding], values: Values | None) -> list[Finding]:
    """The findings of a launch in the kernel's language; those that are races also with the place of their barrier."""
    found = [_with_other(one, values) for one in found]
    advice = {n: list(_advice(one, values)) for n, one in enumerate(found)}
    ends: dict[int, int] = {}  # a loop's barrier goes after the last access of all that race in it
    for one in (one for several in advice.values() for one in several if "loop" in one.fields):
        ends[one.fields["loop"]] = max(ends.get(one.fields["loop"], 0), one.fields["after"])
    return [_mended(one, [_last(each, ends) for each in advice[n]], values) for n, one in enumerate(found)]


def _last(advice: _Advice, ends: dict[int, int]) -> _Advice:
    if ends.get(advice.fields.get("loop", 0), 0) <= advice.fields.get("after", 0):
        return advice
    return replace(advice, remedy="loop", fields=advice.fields | {"after": ends[advice.fields["loop"]]})


def _mended(finding: Finding, advice: Sequence[_Advice], values: Values | None) -> Finding:
    details = {name: value for name, value in finding.details.items() if name not in ("pairs", "symbol")}
    language = statements.language(finding.source, finding.line)
    if language != "numba" and "{" in codes()[finding.code].advice:
        details["language"] = language
    if finding.code in _RACES:
        details |= _variable(finding, language) | _volatile(finding, values)
    if advice:
        known = words(language)
        here, texts = {**known, "here": known[_RACES[finding.code]]}, of_races()
        remedies = {
            texts["remedies"][one.remedy].format_map(here | one.fields)
            + (texts["remedies"]["whole"].format_map(one.fields) if "guard" in one.fields else ""): None
            for one in advice
        }
        steps = {texts["orders"][one.order].format_map(one.fields): None for one in advice if one.order}
        details["remedy"] = " ".join([*remedies][:_REMEDIES])
        details |= {"steps": [*steps][:_REMEDIES]} if steps else {}
    return replace(finding, details=details)


def _advice(finding: Finding, values: Values | None) -> Iterator[_Advice]:
    """The remedies of a race, those for what happens within one step first."""
    if values is None or finding.code not in _RACES or not finding.source:
        return
    known = []
    for line, other, access, other_access in finding.details.get("pairs", ()):
        of_warp = finding.code == "TW304"
        found = overtaking.orders(values, line, other, of_warp=of_warp)
        if any(order.around for order in found) and all(_changes(values, each) for each in (line, other)):
            found = [order for order in found if order.around]  # two buffers: those of one step are apart
        for order in found:
            verbs = (other_access, access) if order.turned else (access, other_access)
            if _is_update(values, line, other):
                verbs = ("write", "write")
            known.append((order.around, _of_order(order, verbs)))
        if not found:
            known.append((False, _of_branches(finding)))
    ordered = [advice for _, advice in sorted(known, key=lambda one: one[0]) if advice is not None]
    if any(one.remedy == "line" for one in ordered) and any(_is_of_loop(one) for one in ordered):
        ordered = [_both(ordered)]
    yield from ordered


def _changes(values: Values, line: int) -> bool:
    """Whether the address of an instruction changes from one step of a loop to the next."""
    registers = [name for op in values.at(line) for name in values.address_registers(op)]
    written = {*registers, *(name for op in values.origins(registers) for name in op.writes)}
    return any(len(values.writers.get(name, ())) > 1 for name in written)


def _is_update(values: Values, line: int, other: int) -> bool:
    """Whether two instructions read and write one element, as `s[i] += 1` does: other threads have the same index."""
    addresses = [
        [operand for operand in op.instruction.operands if isinstance(operand, tree.Address)]
        for op in (*values.at(line), *values.at(other))
    ]
    return line != other and all(each == addresses[0] and len(each) == 1 for each in addresses)


def _with_other(finding: Finding, values: Values | None) -> Finding:
    """A race with the lines of its other access, if shadow memory kept only that these are several instructions.

    They access the same variables, and no barrier keeps a thread from going from one to the other.
    """
    if values is None or finding.code not in _RACES or finding.details.get("others") or not finding.source:
        return finding
    access, other_access = finding.details["access"], finding.details["other_access"]
    pairs, lines = [], set()
    own = {name for op in values.at(finding.ptx_line) for name in _symbols(values, op)}
    for op in values.ops:
        row, line = op.form.row, op.instruction.ptx_line
        does = row.loads if other_access == "read" else row.stores
        if not does or not op.form.has(finding.details["space"]) or _symbols(values, op) != own:
            continue
        if not _is_update(values, finding.ptx_line, line):  # an update is of each thread's own element
            if overtaking.orders(values, finding.ptx_line, line, of_warp=finding.code == "TW304"):
                pairs.append([finding.ptx_line, line, access, other_access])
                lines.add(values.place(op))
    if not 0 < len(lines) <= _LINES:
        return finding
    others = [f"{file}:{number}" for file, number in sorted(lines)]
    return replace(finding, details=finding.details | {"others": others, "pairs": pairs[:_CANDIDATES]})


def _symbols(values: Values, op: Op) -> set[str]:
    """The variables from whose addresses an instruction's own is computed."""
    ops = [op, *values.origins(values.address_registers(op))]
    return {
        part.name
        for one in ops
        for operand in one.instruction.operands
        for part in parts(operand)
        if isinstance(part, tree.Symbol) and part.name in values.module.variables
    }


def _both(ordered: Sequence[_Advice]) -> _Advice:
    """One remedy for a line that races within a step and with the next step."""
    loop = next(one for one in ordered if _is_of_loop(one))
    return replace(loop, remedy=f"line_in_{loop.remedy}")


def _is_of_loop(advice: _Advice) -> bool:
    return advice.remedy.startswith("loop")


def _of_order(order: overtaking.Order, verbs: tuple[str, str]) -> _Advice | None:
    """The remedy where a thread makes the second access after the first without a barrier in between."""
    (file, first), (other, second) = _in_one_function(order.first, order.second)
    if file != other or not first or not second:
        return None
    fields: dict[str, Any] = {"first": first, "second": second, "first_access": verbs[0], "second_access": verbs[1]}
    here, there = statements.around(file, first), statements.around(file, second)
    common = [one for one, same in zip(here, there, strict=False) if one == same]
    loop = next((one for one in reversed(common) if one.kind == "loop"), None)
    again = first == second and verbs == ("write", "read")  # a statement reads before it writes
    if loop is not None and (order.around or first > second or again):
        return _of_loop(loop, here[common.index(loop) + 1 :], fields)
    if first == second:
        return _Advice("writes" if verbs == ("write", "write") else "line", "line", fields)
    if first > second:
        return None
    return _between(common, here, there, fields)


def _of_loop(loop: Statement, inside: Sequence[Statement], fields: dict[str, Any]) -> _Advice:
    last = inside[0] if inside else Statement(loop.last, loop.last)
    fields |= {"loop": loop.first, "after": last.last}
    if fields["first"] == fields["second"] and fields["first_access"] == fields["second_access"] == "write":
        return _Advice("writes", "line", fields)
    if last.kind in ("loop", "if"):
        return _Advice("loop_after", "loop", fields | {"inside": last.first, "kind": _named(last)})
    return _Advice("loop", "loop", fields)


def _between(
    common: Sequence[Statement], here: Sequence[Statement], there: Sequence[Statement], fields: dict[str, Any]
) -> _Advice:
    """The remedy between two lines, the first of which comes first."""
    mine, other = here[len(common) :], there[len(common) :]
    guards = [one.first for one in common if one.kind == "if"]
    guard = {"guard": guards[-1]} if guards else {}
    if mine and mine[0].kind in ("loop", "if") and other:
        after = {"after": mine[0].last, "before": other[0].first, "inside": mine[0].first, "kind": _named(mine[0])}
        return _Advice("after", "straight", fields | after | guard)
    fields |= {"first": mine[0].last if mine else fields["first"]} | guard
    if other:
        fields["before"] = other[0].first
    return _Advice("between", "straight", fields)


def _named(statement: Statement) -> str:
    return statement.kind if statement.kind == "loop" else f"`{statement.kind}`"


def _of_branches(finding: Finding) -> _Advice | None:
    """The remedy for two accesses neither of which follows the other."""
    file, other = split(next(iter(finding.details["others"]), ""))
    if file != finding.source or other == finding.line:
        return None
    first, second = sorted((finding.line, other))
    return _Advice("branches", "", {"first": first, "second": second})


def _in_one_function(first: Sequence[str], second: Sequence[str]) -> tuple[tuple[str, int], tuple[str, int]]:
    """The places of two accesses in the outermost function where they differ: their lines, or those of calls."""
    one, other = first[::-1], second[::-1]
    depth = 0
    while depth + 1 < min(len(one), len(other)) and one[depth] == other[depth]:
        depth += 1
    return split(one[depth] if one else ""), split(other[depth] if other else "")


def _variable(finding: Finding, language: str) -> dict[str, str]:
    """The array of a race: by its name in the PTX if the language keeps it, else the only one that both lines index."""
    symbol = finding.details.get("symbol", "")
    if language == "cuda" and symbol:
        name = mangling.variable(symbol)
        return {"variable": name} if name else {}
    if not finding.source:
        return {"variable": symbol} if symbol else {}
    places = [(finding.source, finding.line), *map(split, finding.details.get("others", ()))]
    shared = finding.details.get("space") == "shared"
    common = set.intersection(*(statements.indexed(file, line, shared=shared) for file, line in places))
    return {"variable": common.pop()} if len(common) == 1 else {}


def _volatile(finding: Finding, values: Values | None) -> dict[str, bool]:
    """Whether both accesses are volatile, which orders nothing."""
    lines = {line for pair in finding.details.get("pairs", ()) for line in pair[:2]}
    names = [op.instruction.name for line in lines for op in values.at(line)] if values else []
    return {"volatile": True} if names and all(re.search(r"\bvolatile\b", name) for name in names) else {}
