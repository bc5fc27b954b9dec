"""How many wavefronts each shared-memory instruction takes, and how many it would take without bank conflicts.

The model: 32 banks of 4 bytes. Lanes on the same word are served together. Accesses of up to 4 bytes are served by
whole warps, of 8 bytes by half warps, of 16 bytes by quarter warps. A group with an active lane takes as many
wavefronts as the busiest bank has distinct words. Without conflicts every such group takes one, which is the ideal: 1,
2 and 4 wavefronts for a full warp of 4-, 8- and 16-byte lanes.

Accesses to the shared memory of another block of the cluster are counted in rows of `shared::cluster`: requests and
lanes only. No source says how many wavefronts they take, so ignore the wavefronts of these rows.

Source: CUDA C++ Programming Guide, compute capability 5.x and later, "Shared Memory"; Nsight Compute, source metrics
`memory_l1_wavefronts_shared`, `memory_l1_wavefronts_shared_ideal` and `derived__memory_l1_wavefronts_shared_excessive`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.observe.instruments.counting import LANES, by_offsets
from tilewright.simulate.events import EventKind, Handler, Instrument, Site

#: Successive 32-bit words are in successive banks. Source: CUDA C++ Programming Guide, as above.
BANK_BYTES = 4

_PART = bitcode(Path(__file__).with_name("banks.c"))
_BY_ADDRESS = Handler("tw_banks_access", needs=(_PART,))


def counts(addresses: Sequence[int], size: int) -> list[int]:
    """The counts of one request of all lanes: requests, lanes, wavefronts and ideal wavefronts.

    >>> counts([8 * lane for lane in range(32)], 4)
    [1, 32, 2, 1]
    """
    unit = max(size, BANK_BYTES)
    group = LANES * BANK_BYTES // unit
    wavefronts = 0
    for first in range(0, LANES, group):
        units = {address // unit for address in addresses[first : first + group]}
        wavefronts += max(Counter(number % group for number in units).values())
    return [1, LANES, wavefronts, LANES // group]


@dataclass(frozen=True, slots=True)
class BanksRow:
    """One shared-memory instruction on the block's own memory or another block's; some have a row for each."""

    site: Site
    requests: int  #: Warps that executed it with at least one active lane.
    lanes: int  #: Active lanes, summed over the requests.
    wavefronts: int  #: Wavefronts by the model above.
    ideal_wavefronts: int  #: The same without conflicts: one for each group of lanes with an active lane.

    @property
    def excess_wavefronts(self) -> int:
        """Wavefronts that bank conflicts add."""
        return self.wavefronts - self.ideal_wavefronts


@dataclass(frozen=True, slots=True)
class BanksResult:
    """The counts of :class:`Banks`; `rows` has one entry a shared-memory instruction, in the kernel's order."""

    rows: tuple[BanksRow, ...]

    def total(self, access: str, quantity: str) -> int:
        """Sum of one quantity (`requests`, `wavefronts`, `excess_wavefronts` ...) over one kind of access.

        That is `load`, `store` or `atomic`; atomics count as if they were stores, lanes on one word not serialised.
        """
        return sum(int(getattr(row, quantity)) for row in self._own(access))

    def _own(self, access: str) -> list[BanksRow]:
        return [row for row in self.rows if (row.site.space, row.site.access) == ("shared", access)]

    @property
    def shared_bank_conflicts(self) -> int:
        """Excess wavefronts of loads and stores together."""
        return self.total("load", "excess_wavefronts") + self.total("store", "excess_wavefronts")


class Banks(Instrument):
    """Count shared-memory wavefronts and bank conflicts, instruction by instruction.

    Requests without an active lane are not counted, nor are generic accesses.

    Examples
    --------
    >>> from tilewright.simulate.events import EventKind, Site
    >>> load = Site(EventKind.ACCESS, 7, "k.py:3", "ld.shared.f32", 1, "shared", "load", 4)
    >>> result = Banks().collect([load], np.array([[1, 32, 2, 1]], np.uint64))
    >>> result.total("load", "wavefronts"), result.shared_bank_conflicts
    (2, 1)
    """

    name = "banks"
    slots = 4

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Accesses to shared memory."""
        if site.kind is not EventKind.ACCESS or site.space not in ("shared", "shared::cluster"):
            return None
        if offsets is None:
            return _BY_ADDRESS
        # Conflicts do not change when all addresses move by a lane's width or by a word, so the base does not matter.
        size = site.bytes_per_lane
        moved = tuple(offset - offsets[0] + offsets[0] % BANK_BYTES for offset in offsets)
        modulus = BANK_BYTES if size < BANK_BYTES else 1
        return by_offsets(
            "tw_banks_affine", _PART, moved, size, modulus, lambda base: counts([base + at for at in moved], size)
        )

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> BanksResult:
        """Turn the counters into rows."""
        return BanksResult(tuple(BanksRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True)))
