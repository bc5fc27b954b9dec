"""Repairs of a race, in the words of the kernel's language: its own elements, an atomic, or a barrier and its place.

The order of the two accesses in the PTX says which one can overtake the other. Where both are in a loop and the later
access has the earlier line, it is that of the loop's next step: the barrier belongs at the end of the loop. The source
says where statements, loops and branches end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.observe.checking import arrays, statements
from tilewright.observe.checking.statements import Statement
from tilewright.observe.checking.static import overtaking
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding, codes, of_races, split, words
from tilewright.observe.instruments.shadow.accesses import is_narrow
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op

#: Races, and what a barrier for them is called in `[words]`; between blocks there is none.
_RACES = {"TW301": "barrier", "TW302": "barrier", "TW303": "fence", "TW304": "warp_barrier", "TW311": "warp_barrier"}
#: Those between lanes of a warp.
_OF_WARP = ("TW304", "TW311")
#: Most lines that may be the other access of a race whose site is not known, and most instructions.
_LINES, _CANDIDATES = 3, 16
#: How instructions begin that locks and flags are made of; and those that have a scope.
_ORDERING = ("atom", "fence", "membar", "ld.acquire", "st.release")
_SCOPED = ("atom", "red.", "fence", "membar", "ld.", "st.")
#: Most remedies that are named for one finding.
_REMEDIES = 2
#: The name of a remedy and the fields of its text; those with `order` say also which access overtakes which.
_Advice = dict[str, Any]


def mended(found: Sequence[Finding], values: Values | None) -> list[Finding]:
    """The findings of a launch in the kernel's language; those that are races also with what mends them."""
    found = [_with_other(one, values) for one in found]
    advice = [_advice(one, values) for one in found]
    in_loops = [one for several in advice for one in several if "loop" in one]
    for one in in_loops:  # a loop's barrier goes after the last access of all that race in it
        last = max(in_loops, key=lambda other: (other["loop"] == one["loop"], other["after"]))
        one |= {"after": last["after"], "where": last["where"]}
    return [_mended(one, each, values) for one, each in zip(found, advice, strict=True)]


def _mended(finding: Finding, advice: Sequence[_Advice], values: Values | None) -> Finding:
    details = {name: value for name, value in finding.details.items() if name not in ("pairs", "symbol")}
    language = statements.language(finding.source, finding.line)
    if language != "numba" and "{" in codes()[finding.code].advice:
        details["language"] = language
    lines = {line for pair in finding.details.get("pairs", ()) for line in pair[:2]}
    names = [op.instruction.name for line in lines for op in values.at(line)] if values else []
    if finding.code in _RACES and names and all(re.search(r"\bvolatile\b", name) for name in names):
        details["volatile"] = True  # which orders nothing
    details |= arrays.variable(finding, values, language)
    if advice:
        known, texts, orders = words(language), *of_races().values()
        here = {**known, "here": known[_RACES[finding.code]]}
        parts = [(one["remedy"], *["whole"] * ("guard" in one and finding.code != "TW311")) for one in advice]
        said = [
            "".join(texts[part] for part in each).format_map(here | one)
            for each, one in zip(parts, advice, strict=True)
        ]
        steps = [orders[one["order"]].format_map(one) for one in advice if "order" in one]
        details["remedy"] = " ".join([*dict.fromkeys(said)][:_REMEDIES])
        details |= {"steps": [*dict.fromkeys(steps)][:_REMEDIES]} if steps else {}
    return replace(finding, details=details)


def _advice(finding: Finding, values: Values | None) -> list[_Advice]:
    """The remedies of a race, those for what happens within one step first."""
    pairs = finding.details.get("pairs", ()) if values is not None and finding.source else ()
    if values is None or not pairs or finding.code not in _RACES or finding.details.get("how") == "copies":
        return []
    known: list[tuple[bool, _Advice]] = []
    for line, other, *verbs in pairs:
        if finding.code == "TW303" and "scoped" in finding.details:
            known.append((False, {"remedy": "scopes"}))
        elif own := _of_element(finding, values, line, other, verbs):
            known.append((False, own))
        elif finding.code != "TW303":
            found = overtaking.orders(values, line, other, of_warp=finding.code in _OF_WARP)
            if any(order.around for order in found) and all(_changes(values, each) for each in (line, other)):
                found = [order for order in found if order.around]  # two buffers: those of one step are apart
            advice = [(order.around, _of_order(order, verbs[::-1] if order.turned else verbs)) for order in found]
            known += [(around, one) for around, one in advice if one]
    if finding.code == "TW303" and not known:
        names = [op.instruction.name for op in values.ops]
        if any(name.startswith(_SCOPED) and is_narrow(name) for name in names):
            return [{"remedy": "scopes"}]
        return [{"remedy": "locks" if any(name.startswith(_ORDERING) for name in names) else "blocks"}]
    ordered = [advice for _, advice in sorted(known, key=lambda one: one[0])]
    loop = next((one for one in ordered if one["remedy"] == "loop"), None)
    both = loop and any(one["remedy"] == "line" for one in ordered)
    return [loop | {"remedy": "loop_and_line"}] if loop and both else ordered


def _of_element(finding: Finding, values: Values, line: int, other: int, verbs: Sequence[str]) -> _Advice | None:
    """The remedy where several threads write one element at one line of one function, or add to it."""
    stores = [op for each in (line, other) for op in values.at(each) if op.form.row.stores]
    read = [(op, one) for op in stores for one in values.origins(op.reads) if one.form.row.loads]
    own = {one.instruction.ptx_line for op, one in read if _addresses(op) == _addresses(one)}
    places = {values.frames(op) for each in (line, other) for op in values.at(each)}
    if own & {line, other} or (verbs == ["write", "write"] and len(places) == 1):
        who = "blocks" if finding.code == "TW303" else "threads"
        return {"remedy": "update" if own else "store", "first": finding.line, "who": who}
    return None


def _changes(values: Values, line: int) -> bool:
    """Whether the address of an instruction changes from one step of a loop to the next."""
    registers = [name for op in values.at(line) for name in values.address_registers(op)]
    written = {*registers, *(name for op in values.origins(registers) for name in op.writes)}
    return any(len(values.writers.get(name, ())) > 1 for name in written)


def _addresses(op: Op) -> list[tree.Operand]:
    return [operand for operand in op.instruction.operands if isinstance(operand, tree.Address)]


def _is_one_element(values: Values, line: int, other: int) -> bool:
    """Whether two instructions read and write one element, as `s[i] += 1` does: other threads have the same index."""
    addresses = [_addresses(op) for op in (*values.at(line), *values.at(other))]
    return line != other and all(each == addresses[0] and len(each) == 1 for each in addresses)


def _with_other(finding: Finding, values: Values | None) -> Finding:
    """A race with the lines of its other access, if shadow memory kept only that these are several instructions.

    They access the same variables, and no barrier keeps a thread from going from one to the other.
    """
    if values is None or finding.code not in _RACES or finding.details.get("others") or not finding.source:
        return finding
    mine, verbs = finding.ptx_line, [finding.details["access"], finding.details["other_access"]]
    pairs, lines = [], set()
    own = {name for op in values.at(mine) for name in values.symbols(op)}
    for op in values.ops:
        row, line = op.form.row, op.instruction.ptx_line
        does = row.loads if verbs[1] == "read" else row.stores
        if not does or not op.form.has(finding.details["space"]) or values.symbols(op) != own:
            continue
        if not _is_one_element(values, mine, line):  # an update is of each thread's own element
            if overtaking.orders(values, mine, line, of_warp=finding.code in _OF_WARP):
                pairs.append([mine, line, *verbs])
                lines.add(values.place(op))
    if not 0 < len(lines) <= _LINES:
        return finding
    others = [f"{file}:{number}" for file, number in sorted(lines)]
    return replace(finding, details=finding.details | {"others": others, "pairs": pairs[:_CANDIDATES]})


def _of_order(order: overtaking.Order, verbs: Sequence[str]) -> _Advice | None:
    """The remedy where a thread makes the second access after the first without a barrier in between."""
    (file, first), (other, second) = _in_one_function(order.first, order.second)
    if file != other or not first or not second:
        return None
    fields: _Advice = {"first": first, "second": second, "first_access": verbs[0], "second_access": verbs[1]}
    here, there = statements.around(file, first), statements.around(file, second)
    common = [one for one, same in zip(here, there, strict=False) if one == same]
    loop = next((one for one in reversed(common) if one.kind == "loop"), None)
    again = first == second and [*verbs] == ["write", "read"]  # a statement reads before it writes
    if loop is not None and (order.around or first > second or again):
        last = [*here[common.index(loop) + 1 :], Statement(loop.last, loop.last)][0]
        return fields | {"remedy": "loop", "order": "loop", "loop": loop.first, "after": last.last} | _outside(last)
    if first == second:
        return fields | {"remedy": "line", "order": "line"}
    if first > second:
        return None
    guards = [one.first for one in common if one.kind == "if"]
    fields |= {"order": "straight"} | ({"guard": guards[-1]} if guards else {})
    mine, other_part = here[len(common) :], there[len(common) :]
    if mine and mine[0].kind in ("loop", "if") and other_part:
        return fields | {"remedy": "after", "after": mine[0].last, "before": other_part[0].first} | _outside(mine[0])
    return fields | {"remedy": "between", "first": mine[0].last if mine else first}


def _outside(statement: Statement) -> _Advice:
    """The place of the barrier behind a statement."""
    kind = {"loop": "loop", "if": "`if`"}.get(statement.kind)
    return {"where": f"outside the {kind} at line {statement.first}" if kind else "in the loop's body"}


def _in_one_function(first: Sequence[str], second: Sequence[str]) -> tuple[tuple[str, int], tuple[str, int]]:
    """The places of two accesses in the outermost function where they differ: their lines, or those of calls."""
    one, other = first[::-1], second[::-1]
    depth = 0
    while depth + 1 < min(len(one), len(other)) and one[depth] == other[depth]:
        depth += 1
    return split(one[depth] if one else ""), split(other[depth] if other else "")
