"""Whether a block uses tensor memory correctly while its products and copies are in flight.

- The result of a product or a copy may be read once a thread has seen the phase of an mbarrier complete at which a
  later `tcgen05.commit` arrived. Products of the same warp may read it at once, since they run in order.
- What `tcgen05.st` writes may be read by others once its warp has executed `tcgen05.wait::st`.
- The shared memory and tensor memory that a product or a copy uses must not change before it is complete.
- A cell must be written before it is read.

A completed phase that one thread has seen counts for all threads of the block; whether these are ordered after it is
not checked here. Clusters are not checked.

Source: PTX ISA, 9.7.16.6.2 (pipelined instructions), 9.7.16.6.3 (completion mechanisms).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.shadow import records
from tilewright.observe.instruments.shadow.found import recorded
from tilewright.simulate.events import CFunction, EventKind, Facts, Handler, Instrument, Site, Storage
from tilewright.simulate.isa import table

_SHARED = header(Path(__file__).with_name("tensor_memory.h"))
_PARTS = (bitcode(Path(__file__).with_name("tensor_memory.c")), records.PART)
_ASKED = CFunction("tw_tensor_memory_asked", EventKind.MBARRIER, _PARTS)
_PLAIN = {
    EventKind.TENSOR_MOVE: "tw_tensor_memory_move",
    EventKind.TENSOR_COPY: "tw_tensor_memory_copy",
    EventKind.TENSOR_PRODUCT: "tw_tensor_memory_product",
}
#: The code of each kind, and the name of its sentence.
_CODES = {
    _SHARED.numbers["TW_TENSOR_EARLY"]: ("TW416", "product"),
    _SHARED.numbers["TW_TENSOR_STORED"]: ("TW416", "store"),
    _SHARED.numbers["TW_TENSOR_UNSET"]: ("TW206", ""),
    _SHARED.numbers["TW_TENSOR_CHANGED"]: ("TW417", "shared"),
    _SHARED.numbers["TW_TENSOR_OVER"]: ("TW417", "tensor"),
}


class TensorMemory(Instrument):
    """Find reads of tensor memory that come too early, and writes of what products in flight use."""

    parameters = ()

    def __init__(self, kernel: str = "") -> None:
        self.name = "tensor memory"
        self._kernel = kernel

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Uses of tensor memory, writes of shared memory, and operations on mbarriers."""
        if site.kind in _PLAIN:
            return Handler(_PLAIN[site.kind], needs=_PARTS)
        if site.kind is EventKind.ACCESS and site.space == "shared" and site.access != "load":
            return Handler("tw_tensor_memory_stored", needs=_PARTS)
        form = table().find(site.opcode)
        if form is None:
            return None
        if site.kind is EventKind.TENSOR_MEMORY:
            return Handler(f"tw_tensor_memory_{'allocated' if form.has('alloc') else 'waited'}", needs=_PARTS)
        if site.kind is EventKind.MBARRIER and form.has("commit"):
            return Handler("tw_tensor_memory_commit", needs=_PARTS)
        if site.kind is EventKind.MBARRIER and form.row.kind == "await":
            parity = int(form.has("parity"))
            return _ASKED.handler(f"tw.tensor.memory.asked.{parity}", [f"i32 {parity}"])
        return None

    def begin(self, facts: Facts) -> Storage:
        """Memory for the records, and for the cells and units of each block."""
        self._facts = facts
        self._table = records.empty()
        size = _SHARED.structs["tw_use"].bytes
        units = -(-facts.shared_bytes // _SHARED.numbers["TW_TENSOR_UNIT_BYTES"])
        launch = np.concatenate([records.launch_words(self._table, facts), np.array([units], np.uint64)])
        return Storage(launch, np.zeros(_SHARED.structs["tw_tensor_block"].bytes + units * size, np.uint8))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[Finding, ...]:
        """Turn the records into findings."""
        return tuple(self._finding(one, sites) for one in records.read(self._table))

    def _finding(self, record: records.Record, sites: list[Site]) -> Finding:
        code, how = _CODES[record.kind]
        site, other = sites[record.row], sites[record.other] if record.other < len(sites) else None
        details: dict[str, Any] = {"how": how} if how else {}
        if other is not None and how:
            details |= {"other": other.opcode, "others": [other.source or f"line {other.ptx_line} of the PTX"]}
        return recorded(code, record, site, self._facts, self._kernel, details)
