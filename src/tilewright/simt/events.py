"""What an instrument can subscribe to, and what it must say about itself.

An instrument observes a run and never changes it. The translator asks each instrument for its handler of every site
and emits a call of it there and nowhere else, so a run without instruments holds no code for them. A handler is a
piece of LLVM IR, or C compiled to it; what depends only on the site, such as constant offsets of the lanes, is worked
out when it is made.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.native.header import header
from tilewright.ptx.tree import Module
from tilewright.simt.translate.layout import RESERVED, Layout, align_up
from tilewright.simt.translate.state import GLOBAL_BASE, SLOT, WARP

#: The parameters that every handler begins with: the block's and the warp's record (see FIELDS), the instrument's own
#: memory of the launch and of the block (see Storage), its counters of the site, and the site's number among them.
WHERE = "ptr %slot, ptr %warp, ptr %launch, ptr %block, ptr %counters, i32 %row"
#: Byte offsets a handler may read: `slot.block`, the block's linear index (i64); `slot.ctaid_x` ... (i64);
#: `slot.shared`, the host address of its shared memory;
#: `warp.index`, of the warp in its block (i32); `warp.live`, the lanes that have not exited (i32).
FIELDS = {
    **{f"slot.{name}": SLOT[name] for name in ("block", "ctaid_x", "ctaid_y", "ctaid_z", "shared")},
    **{f"warp.{name}": WARP[name] for name in ("index", "live")},
}
#: Bytes between the elements of a vector access, and between operands, where a handler reads `values`; and how many.
VALUES_STRIDE_BYTES = header(Path(__file__).parent / "runtime" / "instrument.h").numbers["TW_VALUES_STRIDE_BYTES"]
VALUES_MAX = 8


class EventKind(enum.Enum):
    """The kinds of event; after WHERE each handler takes `i32 %mask`, the lanes concerned, and what its kind says."""

    #: One warp runs a straight line of instructions once.
    RUN = "run"
    #: One warp executes one memory instruction; called before memory is touched. With `affine`: `i64 %base`, to which
    #: a lane's constant offset is added; with `strided` `i64 %stride` too: each lane adds a constant multiple of
    #: it; else `ptr %addresses`, 32 i64 byte addresses in the site's own state space. And `i32 %bytes`, the width of
    #: a lane's access. With `values`, of stores: `ptr %values`, 32 elements each.
    ACCESS = "access"
    #: A conditional branch: `i32 %taken`, those of the lanes that take it.
    BRANCH = "branch"
    #: Lanes have come to a barrier: `i32 %barrier`, its number, `i32 %threads`, how many it takes (0: all of the
    #: block), and `i32 %waits`, 0 where they only arrive.
    ARRIVE = "arrive"
    #: Lanes go on that have come to a barrier and waited there, or whose turn was over meanwhile.
    RELEASE = "release"
    #: `bar.warp.sync`: `ptr %members`, 32 i32: the lanes that each of these names and is ordered with.
    SYNC = "sync"
    #: A fence; the opcode has its scope.
    FENCE = "fence"
    #: Lanes end.
    EXIT = "exit"
    #: An instruction that computes, asked for by its opcode: `ptr %values`, its source operands as integers' or floats'
    #: bits, 32 i64 each; called before the result is written.
    VALUE = "value"


#: What a handler takes after WHERE, by kind; ACCESS depends on the handler.
_PARAMETERS = {
    EventKind.RUN: "i32 %mask",
    EventKind.BRANCH: "i32 %mask, i32 %taken",
    EventKind.ARRIVE: "i32 %mask, i32 %barrier, i32 %threads, i32 %waits",
    EventKind.RELEASE: "i32 %mask",
    EventKind.SYNC: "i32 %mask, ptr %members",
    EventKind.FENCE: "i32 %mask",
    EventKind.EXIT: "i32 %mask",
    EventKind.VALUE: "i32 %mask, ptr %values",
}


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
        How many PTX instructions a RUN site stands for; else 1.
    space : str
        `global` (constants too), `shared`, `local`; "" where no memory is accessed. A generic access has a site for
        each of them, called with the lanes whose addresses lie there, with the addresses of that space.
    access : str
        `load`, `store`, `atomic`; "" where no memory is accessed.
    bytes_per_lane : int
        Width of one lane's access, 1 to 32; 0 where no memory is accessed.
    steps : tuple of (int, str, str)
        Of a RUN site, each of its instructions in order: PTX line, opcode as written, and source; else empty.
    """

    kind: EventKind
    ptx_line: int
    source: str
    opcode: str
    instructions: int = 1
    space: str = ""
    access: str = ""
    bytes_per_lane: int = 0
    steps: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Handler:
    """The code for one site.

    Attributes
    ----------
    symbol : str
        The function's name without `@`; starts with `tw.` or `tw_` and the instrument's name. Equal
        symbols must have equal text.
    text : str
        LLVM IR of a module that defines it as `define void @SYMBOL(WHERE, ...)`; see :func:`parameters`. Empty where
        it is written in C (`simt/runtime/instrument.h`): then its bitcode stands in `needs`.
    affine : bool
        Of ACCESS: takes a base instead of addresses; only for sites with constant offsets.
    values : bool
        Of ACCESS: takes the values that are stored.
    ahead_bytes : int
        Of ACCESS with `affine`: what is added to the base that the handler is given.
    needs : tuple of str or bytes
        LLVM modules, as text or bitcode, that define what is called; many handlers may need one.
    each : tuple of int
        Of RUN and ACCESS: what an event of all lanes adds to the site's counters, where that is always the same. The
        machine then counts how often the straight line ran, multiplies when the launch has ended, and calls the
        handler only where lanes are switched off. Empty: it is called each time.
    strided : bool
        Of ACCESS: takes a base and a stride instead of addresses; see :meth:`Instrument.strided`.
    """

    symbol: str
    text: str = ""
    affine: bool = False
    values: bool = False
    ahead_bytes: int = 0
    needs: tuple[str | bytes, ...] = ()
    each: tuple[int, ...] = ()
    strided: bool = False


def parameters(kind: EventKind, *, affine: bool = False, values: bool = False, strided: bool = False) -> str:
    """The parameter list of a handler, as its definition must write it.

    Examples
    --------
    >>> parameters(EventKind.ACCESS, affine=True).removeprefix(WHERE)
    ', i32 %mask, i64 %base'
    """
    if kind is not EventKind.ACCESS:
        return f"{WHERE}, {_PARAMETERS[kind]}"
    place = "i64 %base, i64 %stride" if strided else "i64 %base" if affine else "ptr %addresses, i32 %bytes"
    return f"{WHERE}, i32 %mask, {place}" + (", ptr %values" if values else "")


def calling(
    function: str,
    constants: Sequence[str],
    symbol: str,
    kind: EventKind,
    part: bytes,
    *more: bytes,
    affine: bool = False,
    values: bool = False,
    ahead_bytes: int = 0,
    tables: str = "",
    inline: bool = False,
    strided: bool = False,
) -> Handler:
    """A handler that calls a C function with all that it is given, and then with constants of its own.

    Parameters
    ----------
    function : str
        The C function's name.
    constants : sequence of str
        LLVM text of each, such as `i32 4` or, of the `tables`, `ptr @x`.
    symbol : str
        The handler's name, unlike that of a handler with other constants.
    kind : EventKind
    part, *more : bytes
        The bitcode of the function, and of what it calls.
    affine, values, ahead_bytes, strided
        As of a :class:`Handler`.
    tables : str, optional
        LLVM text of globals.
    inline : bool
        Whether it always becomes part of the kernel.

    Examples
    --------
    >>> print(calling("tw_f", ["i32 4"], "tw.x.4", EventKind.RUN, b"").text.replace(WHERE, "WHERE").strip())
    declare void @tw_f(ptr, ptr, ptr, ptr, ptr, i32, i32, i32)
    define void @tw.x.4(WHERE, i32 %mask) {
      call void @tw_f(WHERE, i32 %mask, i32 4)
      ret void
    }
    """
    listed = parameters(kind, affine=affine, values=values, strided=strided)
    passed = ", ".join([listed, *constants])
    types = ", ".join(one.split()[0] for one in passed.split(", "))
    text = f"""{tables}
declare void @{function}({types})
define void @{symbol}({listed}){" alwaysinline" * inline} {{
  call void @{function}({passed})
  ret void
}}
"""
    return Handler(symbol, text, affine, values, ahead_bytes, (part, *more), strided=strided)


def words(items: Sequence[int]) -> str:
    """LLVM text of a constant of 64-bit integers.

    Examples
    --------
    >>> words([1, -2])
    '[2 x i64] [i64 1, i64 -2]'
    """
    return f"[{len(items)} x i64] [{', '.join(f'i64 {item}' for item in items)}]"


@dataclass(frozen=True, slots=True)
class Facts:
    """What an instrument may know of a launch before it begins.

    Attributes
    ----------
    module : tilewright.ptx.tree.Module
    entry : str
    layout : tilewright.simt.translate.layout.Layout
        Where variables lie.
    grid, block : (int, int, int)
    shared_bytes, dynamic_shared_bytes : int
        Of a block, in all and of it dynamic.
    global_bytes : int
        Bytes of global memory in use; device addresses begin at GLOBAL_BASE.
    module_address : int
        Device address of the module's variables; 0 where there are none.
    global_address : int
        Host address of the byte there.
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
    shared_bytes: int
    dynamic_shared_bytes: int
    global_bytes: int
    module_address: int
    global_address: int
    callback: Callable[[Callable[..., int], int, int], int]


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that an instrument's handlers use during a launch.

    Attributes
    ----------
    launch : array or None
        What `%launch` points to; all host threads share it.
    block : array of uint8 or None
        What `%block` points to holds a copy of this when a block begins.
    """

    launch: npt.NDArray[Any] | None = None
    block: npt.NDArray[np.uint8] | None = None


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
        """Code for an access whose lanes lie in rows of a stride that only the run knows; None: `handler` has it.

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
    "EventKind",
    "Facts",
    "Handler",
    "Instrument",
    "Site",
    "Storage",
    "align_up",
    "calling",
    "parameters",
    "words",
]
