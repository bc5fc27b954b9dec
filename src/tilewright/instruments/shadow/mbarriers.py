"""The handlers of mbarriers: what each instruction says of itself, and a call of `mbarriers.c`."""

from __future__ import annotations

from pathlib import Path

from tilewright.instruments.shadow import cells, records
from tilewright.native.bitcode import bitcode
from tilewright.simt.events import CFunction, EventKind, Handler, Site
from tilewright.simt.isa import Form, table

_PARTS = (*(bitcode(Path(__file__).with_name(name)) for name in ("mbarriers.c", "clocks.c")), records.PART)
_CHANGE = CFunction("tw_shadow_mbarrier", EventKind.MBARRIER, _PARTS)
#: What an instruction is, by a word of its name; any other counts bytes.
_DOES = {
    "init": cells.MAKES,
    "inval": cells.ENDS,
    "arrive": cells.ARRIVES,
    "arrive_drop": cells.ARRIVES,
    "test_wait": cells.TESTS,
    "try_wait": cells.TESTS,
}
_HOW = {"relaxed": cells.RELAXED, "parity": cells.OF_PARITY, "expect_tx": cells.EXPECTS}


def is_of_mbarriers(form: Form | None) -> bool:
    """Whether an instruction makes, changes or tests mbarriers.

    >>> [is_of_mbarriers(table().find(name)) for name in ("mbarrier.init.b64", "bar.sync", "frobnicate")]
    [True, False, False]
    """
    return form is not None and form.row.kind in ("mbarrier", "await")


def handler(site: Site) -> Handler | None:
    """The handler of an mbarrier's event, or of the end of lanes in a kernel that has mbarriers."""
    if site.kind is EventKind.EXIT:
        return Handler("tw_shadow_mbarrier_exit", needs=_PARTS)
    form = table().find(site.opcode)
    if form is None:
        return None
    does = next((number for word, number in _DOES.items() if form.has(word)), cells.COUNTS)
    does |= sum(bit for word, bit in _HOW.items() if form.has(word))
    return _CHANGE.handler(f"tw.memory.mbarrier.{does}", [f"i32 {does}"])
