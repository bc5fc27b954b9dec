"""Whether the threads of a block reach its barriers together, and the lanes of a warp its warp operations.

Every thread counts the whole-block barriers that it reaches. Lanes that arrive without all the others of their warp are
in divergent code. At the end of a block, threads that reached fewer barriers than others have exited early or passed a
barrier by; likewise warps that executed fewer products than others of their warpgroup.

Source: PTX ISA, 9.7.13.1 (bar: "bar{.cta}.sync is equivalent to barrier{.cta}.sync.aligned", which all threads of a
warp must execute together), 9.7.9 (shfl.sync, vote.sync: the executing thread must be in `membermask`, and behaviour is
undefined if one of the lanes it names does not execute the same instruction), 9.7.14.5.14 (mma: "all threads in the
warp must execute the same mma instruction", and none may have exited), 9.7.15.5.2 (wgmma.mma_async: "all
threads in the warpgroup must execute the same wgmma.mma_async instruction"; a warpgroup is four warps, of which the
first has a rank that is a multiple of 4).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.shadow import records
from tilewright.observe.instruments.shadow.found import recorded
from tilewright.simulate.events import CFunction, EventKind, Facts, Handler, Instrument, Site, Storage
from tilewright.simulate.isa import table

_SHARED = header(Path(__file__).with_name("convergence.h"))
_DIVERGENT, _LEFT, _NOT_NAMED, _NOT_THERE, _NOT_TOGETHER, _NOT_ALL_WARPS = (
    _SHARED.numbers[f"TW_{name}"]
    for name in ("DIVERGENT", "LEFT", "NOT_NAMED", "NOT_THERE", "NOT_TOGETHER", "NOT_ALL_WARPS")
)
_PARTS = (bitcode(Path(__file__).with_name("convergence.c")), records.PART)
_MEMBERS = CFunction("tw_convergence_members", EventKind.VALUE, _PARTS)
#: The code of each kind, and the name of its sentence.
_CODES = {
    _DIVERGENT: ("TW401", {}),
    _LEFT: ("TW402", {}),
    _NOT_NAMED: ("TW404", {"how": "not named"}),
    _NOT_THERE: ("TW404", {"how": "not there"}),
    _NOT_TOGETHER: ("TW414", {"how": "lanes"}),
    _NOT_ALL_WARPS: ("TW414", {"how": "warps"}),
}


class Convergence(Instrument):
    """Find barriers in divergent code, threads that leave before a barrier, and wrong masks of warp operations."""

    parameters = ()

    def __init__(self, kernel: str = "") -> None:
        self.name = "convergence"
        self._kernel = kernel

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Barriers, ends, and warp operations with a mask."""
        form = table().find(site.opcode)
        if form is not None and site.kind is EventKind.ARRIVE:
            return Handler("tw_convergence_arrive" + "_aligned" * form.aligned, needs=_PARTS)
        if site.kind is EventKind.TOGETHER:
            is_product = form is not None and form.row.kind == "warpgroup"
            return Handler(f"tw_convergence_{'product' if is_product else 'together'}", needs=_PARTS)
        if site.kind is EventKind.EXIT:
            return Handler("tw_convergence_exit", needs=_PARTS)
        if form is not None and site.kind is EventKind.VALUE and form.row.members is not None:
            return _MEMBERS.handler(f"tw.convergence.members.{form.row.members}", [f"i32 {form.row.members}"])
        return None

    def begin(self, facts: Facts) -> Storage:
        """Memory for the counts of each block's threads, and for the records."""
        self._facts = facts
        self._table = records.empty()
        return Storage(
            records.launch_words(self._table, facts), np.zeros(_SHARED.structs["tw_convergence"].bytes, np.uint8)
        )

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[Finding, ...]:
        """The findings. A barrier that threads passed by is not also reported as divergent."""
        found = records.read(self._table)
        left = {sites[one.row].source or one.row for one in found if one.kind == _LEFT}
        return tuple(
            recorded(code, one, sites[one.row], self._facts, self._kernel, dict(details))
            for one in found
            for code, details in [_CODES[one.kind]]
            if one.kind != _DIVERGENT or (sites[one.row].source or one.row) not in left
        )
