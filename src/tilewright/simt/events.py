"""What an instrument can subscribe to, and what it must say about itself.

An instrument observes a run and never changes it. The translator asks each instrument which sites it wants and
emits a call to the instrument's own handler there and nowhere else, so a run without instruments holds no code
for them. A handler is a piece of LLVM IR that adds to 64-bit counters; each site has its own row of counters, each
host thread its own copy, and the machine adds the copies up before `collect` sees them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


class EventKind(enum.Enum):
    """The kinds of event."""

    #: One warp runs a straight line of instructions once. Handler:
    #: ``define void @NAME(ptr %counters, i32 %mask)``.
    RUN = "run"
    #: One warp executes one memory instruction. Handler:
    #: ``define void @NAME(ptr %counters, ptr %addresses, i32 %mask, i32 %bytes)``;
    #: `addresses` points to 32 i64 byte addresses in the site's own state space, `bytes` is the width per lane.
    ACCESS = "access"


@dataclass(frozen=True, slots=True)
class Site:
    """One place of a kernel where an event happens.

    Attributes
    ----------
    kind : EventKind
    ptx_line : int
        Line of the PTX text, from 1.
    source : str
        `file:line` of the user's source, or "" where there is no line table.
    opcode : str
        The instruction as written, such as `ld.global.f32`; for RUN, that of the first instruction.
    instructions : int
        How many PTX instructions a RUN site stands for; 1 for ACCESS.
    space : str
        `global` (constants too), `shared`, `local`; "" for RUN. A generic access has a site for each of them, told
        of the lanes whose addresses lie there, with the addresses of that space.
    access : str
        `load`, `store`, `atomic`; "" for RUN.
    bytes_per_lane : int
        Width of one lane's access, 1 to 16; 0 for RUN.
    """

    kind: EventKind
    ptx_line: int
    source: str
    opcode: str
    instructions: int = 1
    space: str = ""
    access: str = ""
    bytes_per_lane: int = 0


@runtime_checkable
class Instrument(Protocol):
    """What the machine needs to know of an instrument.

    Attributes
    ----------
    name : str
        Key of the instrument's result in `Run.results`, unlike that of any other in a launch.
    slots : int
        64-bit counters a site.
    handlers : dict of EventKind to (str, str)
        For each kind it subscribes to: the handler's symbol (without `@`) and the LLVM IR module text defining it.
        Symbols must start with `tw.` and be unique to the instrument.
    """

    name: str
    slots: int
    handlers: dict[EventKind, tuple[str, str]]

    def wants(self, site: Site) -> bool:
        """Whether code for this site is to be generated; it may depend on the site and the instrument's attributes."""
        ...

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> Any:
        """Turn counters of shape (len(sites), slots) into the instrument's result."""
        ...
