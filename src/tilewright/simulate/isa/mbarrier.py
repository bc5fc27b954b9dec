"""Barriers in shared memory (PTX ISA 9.7.13.15): rows that the translator places, and the state's fields.

An arrival at a `.shared::cluster` address, which may be in another block, returns no state; its destination is `_`.
"""

from __future__ import annotations

import functools

from tilewright.simulate.code import Code, Value
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import MBARRIER_MOST, MBARRIER_PENDING_SHIFT

rows = Table()

_OWN = "shared shared::cta"
_ANY = f"{_OWN} shared::cluster"
_SCOPES = "cta cluster"
_TYPES = {"d": "b64", "count": "u32", "bytes": "u32", "state": "b64", "parity": "u32", "hint": "u32"}

_placed = functools.partial(rows.placed, kind="mbarrier", cost="memory", types=_TYPES, fixed=1)
_awaits = functools.partial(rows.placed, kind="await", cost="memory", types=_TYPES | {"d": "pred"}, space=_OWN)

_placed("mbarrier.init{.space}.b64 [a], count;", section="9.7.13.15.9", space=_OWN)
_placed("mbarrier.inval{.space}.b64 [a];", section="9.7.13.15.10", space=_OWN)

_placed(
    "cp.async.mbarrier.arrive{.noinc}{.space}.b64 [a];",
    section="9.7.13.15.15",
    space=_OWN,
    fixed=3,
    note="the thread's copies are complete: without .noinc the counts do not change",
)

#: A name has both an order and a scope, or neither.
for _order in ("", ".sem.scope"):
    _placed(
        f"mbarrier.expect_tx{_order}{{.space}}.b64 [a], bytes;",
        f"mbarrier.complete_tx{_order}{{.space}}.b64 [a], bytes;",
        section="9.7.13.15.11",
        sem="relaxed",
        scope=_SCOPES,
        space=_ANY,
    )
    for _section, _word in (("9.7.13.15.13", "arrive"), ("9.7.13.15.14", "arrive_drop")):
        _arrives = functools.partial(_placed, section=_section, scope=_SCOPES, space=_ANY)
        _note = "with .shared::cluster, d is _"
        _arrives(f"mbarrier.{_word}{_order}{{.space}}.b64 d, [a]{{, count}};", sem="release relaxed", note=_note)
        _arrives(
            f"mbarrier.{_word}.expect_tx{_order}{{.space}}.b64 d, [a], bytes;",
            sem="release relaxed",
            note=_note,
            fixed=2,
        )
        _arrives(
            f"mbarrier.{_word}.noComplete{_order}{{.space}}.b64 d, [a], count;",
            sem="release",
            scope="cta",
            space=_OWN,
        )
    _tests = functools.partial(_awaits, section="9.7.13.15.16", sem="acquire relaxed", scope=_SCOPES)
    for _word, _hint in (("test_wait", ""), ("try_wait", "{, hint}")):
        _note = "a failed test ends the warp's turn"
        _tests(f"mbarrier.{_word}{_order}{{.space}}.b64 d, [a], state{_hint};", fixed=1, note=_note)
        _tests(f"mbarrier.{_word}.parity{_order}{{.space}}.b64 d, [a], parity{_hint};", fixed=2, note=_note)


@rows.row("mbarrier.pending_count.b64 d, a;", section="9.7.13.15.17", types={"d": "u32", "a": "b64"}, fixed=1)
def pending_count(code: Code, form: Form, a: Value) -> Value:
    """The number of pending arrivals in a state."""
    pending = code.binary("lshr", a, code.const("i64", MBARRIER_PENDING_SHIFT))
    return code.resize(code.and_(pending, code.const("i64", MBARRIER_MOST)), "i32", signed=False)
