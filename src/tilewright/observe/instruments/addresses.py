"""The accesses of each lane of each warp, in order: for pictures of small launches.

The other instruments count, or keep sectors. This one keeps every lane's address, 280 bytes a request, and so suits
only a few blocks of a launch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.simulate.events import EventKind, Facts, Handler, Instrument, Site, Storage

_SHARED = header(Path(__file__).with_name("addresses.h"))
_HEAD = _SHARED.structs["tw_address_records"].dtype
RECORD = _SHARED.structs["tw_address_record"].dtype
_PARTS = (bitcode(Path(__file__).with_name("addresses.c")),)
_ACCESS = Handler("tw_addresses_access", needs=_PARTS)
_BARRIER = Handler("tw_addresses_barrier", needs=_PARTS)
#: Most requests that are kept, about 280 MB. The host allocates that memory as it is written.
MOST_REQUESTS = 1_000_000


@dataclass(frozen=True, slots=True)
class AddressesResult:
    """The addresses that :class:`Addresses` recorded."""

    sites: tuple[Site, ...]  #: Accesses and barriers of the kernel.
    #: One entry a request or barrier: `block`, `warp` in the block, `row` (its site), `mask` and `addresses`, which are
    #: valid for the lanes in the mask. Entries of one block are in the order in which its warps ran.
    records: npt.NDArray[np.void] = field(repr=False)
    complete: bool  #: False where the records did not all fit.


class Addresses(Instrument):
    """Keep the address of every lane, request by request.

    `space`: `global` or `shared`. `blocks`: number of blocks to record, from the first block of the grid on.
    `most_requests`: capacity in requests.

    >>> from tilewright.programs import Program
    >>> from tilewright.simt import Memory, launch
    >>> text = '''
    ... .version 8.0 .target sm_90 .address_size 64
    ... .visible .entry odd(.param .u64 x) {
    ...   .reg .b32 %r<2>; .reg .b64 %rd<4>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2;
    ...   st.global.u32 [%rd3+4], %r1; ret;
    ... }'''
    >>> x = Memory().empty(8, np.int32)
    >>> run = launch(Program.from_ptx(text), 1, 4, (x,), instruments=[Addresses("global")])
    >>> found = run.results["addresses.global"]
    >>> (found.records[0]["addresses"][:4] - x.address).tolist(), int(found.records[0]["mask"])
    ([4, 12, 20, 28], 15)
    """

    parameters = ()

    def __init__(self, space: str, blocks: int = 1, most_requests: int = MOST_REQUESTS) -> None:
        self.name = f"addresses.{space}"
        self.space = space
        self._blocks, self._most = blocks, most_requests
        self._memory = np.zeros(0, np.uint8)

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to the space, and barriers."""
        if site.kind is EventKind.ACCESS and site.space == self.space:
            return _ACCESS
        return _BARRIER if site.kind is EventKind.ARRIVE else None

    def begin(self, facts: Facts) -> Storage:
        """Memory for the records; the host allocates its pages as they are written."""
        self._memory = np.empty(_HEAD.itemsize + self._most * RECORD.itemsize, np.uint8)
        self._memory[: _HEAD.itemsize].view(_HEAD)[0] = (0, self._most, self._blocks, 0)
        return Storage(self._memory)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> AddressesResult:
        """The records; the result owns their memory."""
        memory, self._memory = self._memory, np.zeros(0, np.uint8)
        taken = int(memory[: _HEAD.itemsize].view(_HEAD)[0]["taken"])
        records = memory[_HEAD.itemsize :].view(RECORD)[: min(taken, self._most)]
        return AddressesResult(tuple(sites), records, taken <= self._most)
