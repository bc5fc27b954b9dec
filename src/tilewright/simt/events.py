"""What an instrument can subscribe to, and what it must say about itself.

An instrument observes a run and never changes it. The translator asks each instrument for its handler of every site
and emits a call of it there and nowhere else, so a run without instruments holds no code for them. A handler is a
piece of LLVM IR, or C compiled to it; what depends only on the site, such as constant offsets of the lanes, is worked
out when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import KernelError
from tilewright.ptx.tree import Module
from tilewright.simt.handlers import (
    FIELDS,
    VALUES_MAX,
    VALUES_STRIDE_BYTES,
    WHERE,
    CFunction,
    EventKind,
    Handler,
    parameters,
    words,
)
from tilewright.simt.translate.layout import RESERVED, Layout, align_up
from tilewright.simt.translate.state import GLOBAL_BASE


@dataclass(frozen=True, slots=True)
class Site:
    """One place of a kernel where an event happens."""

    kind: EventKind
    ptx_line: int  #: Line of the PTX text, from 1.
    source: str  #: `file:line` of the user's source, or "" where there is no line table.
    opcode: str  #: The instruction as written, such as `ld.global.f32`; for RUN, that of the first instruction.
    instructions: int = 1  #: How many PTX instructions a RUN site means; else 1.
    #: `global` (constants too), `shared`, `shared::cluster` (of another block of the cluster), `local`; "" where no
    #: memory is accessed. A generic access has a site for each of them, called with the lanes whose addresses are
    #: there, with the addresses of that space: those of other blocks have the rank from bit 24 on.
    space: str = ""
    access: str = ""  #: `load`, `store`, `atomic`; "" where no memory is accessed.
    bytes_per_lane: int = 0  #: Width of one lane's access, 1 to 32; 0 where no memory is accessed.
    asynchronous: bool = False  #: Of a store: its bytes are there when a later wait is over, not at once.
    #: Of a RUN site, each of its instructions in order: PTX line, opcode as written, and source; else empty.
    steps: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What an instrument may know of a launch before it begins.

    Attributes
    ----------
    module : tilewright.ptx.tree.Module
    entry : str
    layout : tilewright.simt.translate.layout.Layout
        Where variables are.
    grid, block : (int, int, int)
    cluster_blocks : int
        Of a cluster; 1 where the launch has none.
    shared_bytes, dynamic_shared_bytes : int
        Of a block, in all and of it dynamic.
    global_bytes : int
        Bytes of global memory in use; device addresses begin at GLOBAL_BASE.
    module_address : int
        Device address of the module's variables; 0 where there are none.
    global_address : int
        Host address of the byte there.
    params_address, params_bytes : int
        Device address of the launch's parameters, which generic loads may read, and their bytes.
    callback : callable
        `callback(function, arguments, otherwise)`: host address of a C function of so many i64 that gives the i32 of a
        Python function. Where that raises, the launch stops, raises it too, and until then the C function gives
        `otherwise`, which must lead to no finding. It lives as long as the launch.
    """

    module: Module
    entry: str
    layout: Layout
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster_blocks: int
    shared_bytes: int
    dynamic_shared_bytes: int
    global_bytes: int
    module_address: int
    global_address: int
    params_address: int
    params_bytes: int
    callback: Callable[[Callable[..., int], int, int], int]


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that an instrument's handlers use during a launch."""

    launch: npt.NDArray[Any] | None = None  #: What `%launch` points to; all host threads share it.
    block: npt.NDArray[np.uint8] | None = None  #: What `%block` points to holds a copy of this when a block begins.


class Instrument:
    """What the machine needs to know of an instrument; each one derives from this.

    Attributes
    ----------
    name : str
        Key of the instrument's result in `Run.results`, unlike that of any other in a launch.
    slots : int
        64-bit counters a site, which each host thread has for itself and the machine adds up.
    gap_bytes : int
        Unused bytes wanted between variables of shared and of local memory.
    """

    name: str
    slots: int = 0
    gap_bytes: int = 0

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Code for a site, or None; it may depend on the site, its offsets and the instrument's attributes.

        `offsets` are the lanes' constant byte offsets from the base of an access, None where addresses differ freely.
        """
        raise NotImplementedError

    def strided(self, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler | None:
        """Code for an access whose lanes are in rows of a stride that only the run knows; None: `handler` has it.

        A lane's address is the base plus its offset plus so many strides as `rows` says of it, 0 of lane 0.
        """
        return None

    def together(self, sites: Sequence[Site], offsets: Sequence[tuple[int, ...]]) -> Handler | None:
        """Code for loads with one base in a straight line, between which nothing is written; None: for each alone.

        It is called before the first of them, with the row of the first site, and those of the others follow.
        """
        return None

    def key(self) -> Any:
        """What the code made for this instrument depends on besides its class; can be pickled."""
        return vars(self)

    def begin(self, facts: Facts) -> Storage:
        """Memory for a launch that is about to begin."""
        return Storage()

    def failed(self, error: KernelError, block: npt.NDArray[np.uint8]) -> None:
        """Look at the memory of the block in which a launch has failed; `collect` comes after it."""

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> Any:
        """Turn counters of shape (len(sites), slots), summed over host threads, into the instrument's result."""
        raise NotImplementedError


__all__ = [
    "FIELDS",
    "GLOBAL_BASE",
    "RESERVED",
    "VALUES_MAX",
    "VALUES_STRIDE_BYTES",
    "WHERE",
    "CFunction",
    "EventKind",
    "Facts",
    "Handler",
    "Instrument",
    "Site",
    "Storage",
    "align_up",
    "parameters",
    "words",
]
