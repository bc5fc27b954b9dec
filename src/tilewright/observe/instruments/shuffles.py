"""Whether a lane stores a value shuffled from a lane that the mask does not name, or that is not active.

Such a value is undefined, but harmless if nobody uses it: the upper lanes of a sum by `shfl_down` read from beyond
their half warp, and only the lowest lane's sum is stored. So each warp keeps a mask of the lanes that hold such a
value, one mask for each chain of shuffles that take each other's results. A finding is made when one of these lanes
stores the value.

Source: PTX ISA, 9.7.9.6 (shfl.sync: a source lane that is inactive or not in `membermask` gives an undefined result).
"""

from __future__ import annotations

from dataclasses import dataclass
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
from tilewright.simulate.isa import Role, role_of

_SHARED = header(Path(__file__).with_name("shuffles.h"))
_PARTS = (bitcode(Path(__file__).with_name("shuffles.c")), records.PART)
_MOVE = CFunction("tw_shuffles_move", EventKind.VALUE, _PARTS)
#: Chains of a kernel that are tracked.
CHAINS = _SHARED.numbers["TW_CHAINS"]


@dataclass(frozen=True, slots=True)
class Link:
    """A shuffle whose result is used by every lane that gets it."""

    chain: int  #: Number of its chain, below CHAINS.
    fresh: bool  #: Whether the value that it moves comes from no shuffle, so no lane of it is undefined.


class Shuffles(Instrument):
    """Find shuffles from lanes outside of their mask whose results are stored.

    Shuffles are given by PTX line; so are stores and atomics, with the chains that their values come from.
    """

    def __init__(self, kernel: str, links: dict[int, Link], stores: dict[int, tuple[int, ...]]) -> None:
        self.name = "shuffles"
        self._kernel, self._links, self._stores = kernel, links, stores

    def key(self) -> Any:
        """The PTX lines that the code depends on."""
        return sorted(self._links.items()), sorted(self._stores.items())

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Shuffles, and stores of their results."""
        if site.kind is EventKind.VALUE and site.ptx_line in self._links and role_of(site.opcode) is Role.SHUFFLE:
            link = self._links[site.ptx_line]
            parts = site.opcode.split(".")
            facts = _SHARED.numbers[f"TW_{parts[-2].upper()}"], int("sync" in parts), link.chain, int(link.fresh)
            return _MOVE.handler(f"tw.shuffles.{'.'.join(map(str, facts))}", [f"i32 {fact}" for fact in facts])
        if site.kind is EventKind.ACCESS and site.access != "load" and site.ptx_line in self._stores:
            chains, affine = sum(1 << chain for chain in self._stores[site.ptx_line]), offsets is not None
            name = "affine" if affine else "store"
            function = CFunction(f"tw_shuffles_{name}", EventKind.ACCESS, _PARTS, affine=affine)
            return function.handler(f"tw.shuffles.{name}.{chains}", [f"i32 {chains}"])
        return None

    def begin(self, facts: Facts) -> Storage:
        """Memory for the masks: at first no lane holds an undefined value."""
        self._facts = facts
        self._table = records.empty()
        return Storage(records.launch_words(self._table, facts), np.zeros(_SHARED.structs["tw_chains"].bytes, np.uint8))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> tuple[Finding, ...]:
        """The findings, each at its shuffle."""
        return tuple(
            recorded("TW405", one, sites[one.row], self._facts, self._kernel, {}) for one in records.read(self._table)
        )
