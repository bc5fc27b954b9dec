"""The interface between the machine and its instruments.

An instrument observes a run and never changes it. The translator asks each instrument for its handler of every site and
emits a call of the handler at that site only, so a run without instruments has no code for them. A handler is LLVM IR,
or C compiled to it. What depends only on the site, such as the lanes' constant offsets, is computed when the handler is
made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import KernelError
from tilewright.simulate.handlers import (
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
from tilewright.simulate.ptx.tree import Module
from tilewright.simulate.state import GLOBAL_BASE
from tilewright.simulate.translate.analysis.layout import RESERVED, Layout, align_up


@dataclass(frozen=True, slots=True)
class Site:
    """One place of a kernel where an event happens."""

    kind: EventKind
    ptx_line: int  #: Line of the PTX text, from 1.
    source: str  #: `file:line` of the user's source, or "" without a line table.
    opcode: str  #: The instruction as written, such as `ld.global.f32`; for RUN, the first instruction.
    instructions: int = 1  #: Number of PTX instructions of a RUN site; else 1.
    #: `global` (also for constants), `shared`, `shared::cluster` (another block of the cluster), `local`; "" for no
    #: memory access. A generic access has one site for each space. Each is called with the lanes whose addresses are in
    #: that space, and with addresses of that space; those of other blocks have the block's rank from bit 24 on.
    space: str = ""
    access: str = ""  #: `load`, `store`, `atomic`; "" for no memory access.
    bytes_per_lane: int = 0  #: Width of one lane's access, 1 to 32; 0 for no memory access.
    asynchronous: bool = False  #: Whether a store's bytes are visible only after a later wait.
    #: The instructions of a RUN site in order: PTX line, opcode as written, and source; else empty.
    steps: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a launch that an instrument gets before it starts."""

    module: Module
    entry: str
    layout: Layout  #: The places of variables.
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster_blocks: int  #: Blocks of a cluster; 1 without clusters.
    #: `shared_bytes`, `dynamic_shared_bytes`: shared memory of a block in all, and its dynamic part.
    shared_bytes: int
    dynamic_shared_bytes: int
    global_bytes: int  #: Bytes of global memory in use; device addresses start at GLOBAL_BASE.
    module_address: int  #: Device address of the module's variables; 0 if there are none.
    global_address: int  #: Host address of the byte at GLOBAL_BASE.
    #: `params_address`, `params_bytes`: device address of the launch's parameters, which generic loads may read, and
    #: their size.
    params_address: int
    params_bytes: int
    #: `callback(function, arguments, otherwise)`: the host address of a C function with `arguments` parameters of type
    #: i64, which returns the i32 of the Python function. If that raises, the launch stops and raises the same; the C
    #: function returns `otherwise`, which must lead to no finding. The address is valid during the launch.
    callback: Callable[[Callable[..., int], int, int], int]


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that an instrument's handlers use during a launch."""

    launch: npt.NDArray[Any] | None = None  #: What `%launch` points to; all host threads share it.
    block: npt.NDArray[np.uint8] | None = None  #: At the start of a block, `%block` points to a copy of this.
    #: Bytes behind that, which keep what the block before left there; one instrument of a launch may have some.
    behind: int = 0


class Instrument:
    """The base class of instruments."""

    name: str  #: Key of the instrument's result in `Run.results`; must be unique in a launch.
    slots: int = 0  #: 64-bit counters a site. Each host thread has its own; the machine sums them.
    gap_bytes: int = 0  #: Unused bytes that the instrument needs between variables of shared and of local memory.
    #: Attributes that the instrument's code depends on besides its class and name; None for all.
    parameters: tuple[str, ...] | None = None

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Code for a site, or None; it may depend on the site, its offsets and the instrument's attributes.

        `offsets` are the lanes' constant byte offsets from the base of an access, None if the offsets are not constant.
        """
        raise NotImplementedError

    def strided(self, site: Site, offsets: tuple[int, ...], rows: tuple[int, ...]) -> Handler | None:
        """Code for an access whose lanes are in rows with a stride known only at run time; None: use `handler`.

        A lane's address is the base plus its entry of `offsets` plus its entry of `rows` times the stride; lane 0 has
        row 0.
        """
        return None

    def together(self, sites: Sequence[Site], offsets: Sequence[tuple[int, ...]]) -> Handler | None:
        """Code for several loads with one base in a straight line without writes; None: one handler for each.

        It is called before the first load, with the row of the first site; the rows of the other sites follow.
        """
        return None

    def key(self) -> Any:
        """The values on which the instrument's code depends besides its class; must be picklable."""
        return vars(self) if self.parameters is None else (self.name, *(getattr(self, x) for x in self.parameters))

    def begin(self, facts: Facts) -> Storage:
        """Memory for a launch that is about to start."""
        return Storage()

    def failed(self, error: KernelError, block: npt.NDArray[np.uint8]) -> None:
        """Read the memory of the block in which a launch failed; `collect` is called after it."""

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
