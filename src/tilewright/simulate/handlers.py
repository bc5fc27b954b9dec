"""Handlers: an instrument's code for a site, as LLVM text, as C, or as a call of C with constants of its own."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ArgumentValueError
from tilewright.ground.native.header import header
from tilewright.simulate.state import SLOT, WARP

#: The first parameters of every handler: the block's and the warp's record (see FIELDS), the instrument's own memory of
#: the launch and of the block (see Storage), its counters of the site, and the number of that site.
WHERE = "ptr %slot, ptr %warp, ptr %launch, ptr %block, ptr %counters, i32 %row"
#: Byte offsets a handler may read: `slot.block`, the block's linear index (i64); `slot.ctaid_x` ... (i64);
#: `slot.shared`, the host address of the block's shared memory;
#: `warp.index`, the warp's number in its block (i32); `warp.live`, the lanes that have not exited (i32).
FIELDS = {
    **{f"slot.{name}": SLOT[name] for name in ("block", "ctaid_x", "ctaid_y", "ctaid_z", "shared")},
    **{f"warp.{name}": WARP[name] for name in ("index", "live")},
}
#: Bytes between elements of a vector access, or between operands, in `values`; and the number of elements.
VALUES_STRIDE_BYTES = header(Path(__file__).parent / "runtime" / "instrument.h").numbers["TW_VALUES_STRIDE_BYTES"]
VALUES_MAX = 8
#: LLVM's types as C writes them.
_IN_C = {"i1": "bool", "i32": "uint32_t", "i64": "uint64_t", "ptr": "const void *"}


class EventKind(enum.Enum):
    """The kinds of event; after WHERE, a handler takes `i32 %mask`, the lanes, and its kind's parameters."""

    #: A warp runs a straight line of instructions once.
    RUN = "run"
    #: A warp executes one memory instruction; called before the access. With `affine`: `i64 %base`, to which a lane's
    #: constant offset is added. With `strided` also `i64 %stride`, of which each lane adds a constant multiple. Else
    #: `ptr %addresses`, 32 i64 byte addresses in the site's state space, and `i32 %bytes`, the width of a lane's
    #: access. With `values`, for stores: `ptr %values`, 32 elements each.
    ACCESS = "access"
    #: A conditional branch: `i32 %taken`, those of the lanes that take it.
    BRANCH = "branch"
    #: Lanes have arrived at a barrier: `i32 %barrier`, its number, `i32 %threads`, its thread count (0: all of the
    #: block), and `i32 %waits`, 0 if they only arrive.
    ARRIVE = "arrive"
    #: Lanes go on after they have waited at a barrier, or after their turn ended there.
    RELEASE = "release"
    #: Lanes arrive at their cluster's barrier without waiting. The wait is an event of barrier number 16.
    CLUSTER = "cluster"
    #: `bar.warp.sync`: `ptr %members`, 32 i32: for each lane the mask of the lanes that it is ordered with.
    SYNC = "sync"
    #: Lanes execute an instruction that the whole warp must execute together and that has no member mask.
    TOGETHER = "together"
    #: A fence; the opcode has its scope.
    FENCE = "fence"
    #: Lanes commit the asynchronous copies that they issued since their last group to a new group.
    COMMIT = "commit"
    #: Lanes wait until all but their latest groups are complete: `i32 %groups`, the number that may be pending.
    WAIT = "wait"
    #: Lanes have initialised, changed or tested mbarriers; called after the change. `ptr %places`, 32 i64 offsets in
    #: shared memory; `ptr %operands`: for a test 32 i64, states or parities, else 32 i32, counts or bytes.
    MBARRIER = "mbarrier"
    #: Bulk copies of lanes: `ptr %targets` and `ptr %origins`, 32 i64 offsets in their arenas, or for a tensor's side
    #: pointers to its maps; `ptr %sizes`, 32 i32; and `ptr %barriers`, 32 i64 offsets of the mbarriers that the bytes
    #: were counted at, or null.
    BULK = "bulk"
    #: Copies of boxes by lanes: `ptr %maps`, 32 pointers to tensor maps, `ptr %corners`, 32 i32 coordinates of each
    #: axis, and `i32 %rank`. The event BULK follows, for the shared memory of the copy.
    TENSOR = "tensor"
    #: A product reads a matrix in shared memory: `i64 %descriptor`, `i32 %bits` of an element, `i32 %mn_major`, 1 for
    #: an MN-major matrix, `i32 %lines`, and `i32 %of_warp`, 1 if each warp reads 16 of the lines. The event ACCESS
    #: follows, for the bytes.
    DESCRIPTOR = "descriptor"
    #: Tensor memory is allocated, or a warp waits for its moves there; the opcode says which. Called before the change.
    TENSOR_MEMORY = "tensor_memory"
    #: Registers of a warp move to or from tensor memory: `i32 %address`, `i32 %columns`, the number of columns, `i32
    #: %shape`, `i32 %apart`, the columns between its halves, and `i32 %does`, with numbers of `runtime/records.h`.
    TENSOR_MOVE = "tensor_move"
    #: Lanes copy lines of shared memory to tensor memory: `ptr %addresses`, 32 i32, `ptr %matrices`, 32 i64
    #: descriptors, `i32 %lines` and `i32 %bytes` of a line.
    TENSOR_COPY = "tensor_copy"
    #: Lanes issue products: `ptr %operands`, a `struct tw_tensor_operands`, `i32 %kind` and `i32 %does`. The event
    #: ACCESS follows, for the shared memory that is read.
    TENSOR_PRODUCT = "tensor_product"
    #: Lanes commit the bulk copies that they issued since their last group to a new group.
    BULK_COMMIT = "bulk_commit"
    #: Lanes wait until all but their latest `i32 %groups` groups of bulk copies are complete, or have read.
    BULK_WAIT = "bulk_wait"
    #: Lanes allocate memory on their stacks or, when they restore a pointer, release it: `ptr %starts` and `ptr %ends`,
    #: 32 i64 offsets in their local memory.
    STACK = "stack"
    #: Lanes exit.
    EXIT = "exit"
    #: An arithmetic instruction that an instrument selects by opcode: `ptr %values`, its source operands as
    #: bits, 32 i64 each; called before the result is written.
    VALUE = "value"


#: A handler's parameters after WHERE, by kind; those of ACCESS depend on the handler.
_PARAMETERS = {
    EventKind.RUN: "i32 %mask",
    EventKind.BRANCH: "i32 %mask, i32 %taken",
    EventKind.ARRIVE: "i32 %mask, i32 %barrier, i32 %threads, i32 %waits",
    EventKind.RELEASE: "i32 %mask",
    EventKind.CLUSTER: "i32 %mask",
    EventKind.SYNC: "i32 %mask, ptr %members",
    EventKind.TOGETHER: "i32 %mask",
    EventKind.FENCE: "i32 %mask",
    EventKind.COMMIT: "i32 %mask",
    EventKind.WAIT: "i32 %mask, i32 %groups",
    EventKind.MBARRIER: "i32 %mask, ptr %places, ptr %operands",
    EventKind.BULK: "i32 %mask, ptr %targets, ptr %origins, ptr %sizes, ptr %barriers",
    EventKind.TENSOR: "i32 %mask, ptr %maps, ptr %corners, i32 %rank",
    EventKind.DESCRIPTOR: "i32 %mask, i64 %descriptor, i32 %bits, i32 %mn_major, i32 %lines, i32 %of_warp",
    EventKind.TENSOR_MEMORY: "i32 %mask",
    EventKind.TENSOR_MOVE: "i32 %mask, i32 %address, i32 %columns, i32 %shape, i32 %apart, i32 %does",
    EventKind.TENSOR_COPY: "i32 %mask, ptr %addresses, ptr %matrices, i32 %lines, i32 %bytes",
    EventKind.TENSOR_PRODUCT: "i32 %mask, ptr %operands, i32 %kind, i32 %does",
    EventKind.BULK_COMMIT: "i32 %mask",
    EventKind.BULK_WAIT: "i32 %mask, i32 %groups",
    EventKind.STACK: "i32 %mask, ptr %starts, ptr %ends",
    EventKind.EXIT: "i32 %mask",
    EventKind.VALUE: "i32 %mask, ptr %values",
}


@dataclass(frozen=True, slots=True)
class Handler:
    """The code for one site."""

    #: The function's name without `@`: `tw.` or `tw_` and then the instrument's name. Equal symbols must have
    #: equal text.
    symbol: str
    #: LLVM IR of a module that defines the symbol as `define void @SYMBOL(WHERE, ...)`; see :func:`parameters`. Empty
    #: if it is written in C (`simulate/runtime/instrument.h`): then its bitcode is in `needs`.
    text: str = ""
    affine: bool = False  #: For ACCESS: takes a base, not addresses; only for sites with constant offsets.
    values: bool = False  #: For ACCESS: also takes the stored values.
    ahead_bytes: int = 0  #: For ACCESS with `affine`: bytes that the machine adds to the base.
    #: LLVM modules, as text or bitcode, that define the called functions; handlers may share them.
    needs: tuple[str | bytes, ...] = ()
    #: For RUN and ACCESS: what an event of all lanes adds to the site's counters, if that is constant. The machine then
    #: counts how often the straight line ran, multiplies at the end of the launch, and calls the handler only if lanes
    #: are switched off. Empty: the handler is always called.
    each: tuple[int, ...] = ()
    strided: bool = False  #: For ACCESS: takes a base and a stride, not addresses; see :meth:`Instrument.strided`.


def parameters(kind: EventKind, *, affine: bool = False, values: bool = False, strided: bool = False) -> str:
    """The parameter list of a handler, as its definition must write it.

    >>> parameters(EventKind.ACCESS, affine=True).removeprefix(WHERE)
    ', i32 %mask, i64 %base'
    """
    if kind is not EventKind.ACCESS:
        return f"{WHERE}, {_PARAMETERS[kind]}"
    place = "i64 %base, i64 %stride" if strided else "i64 %base" if affine else "ptr %addresses, i32 %bytes"
    return f"{WHERE}, i32 %mask, {place}" + (", ptr %values" if values else "")


@dataclass(frozen=True, slots=True)
class CFunction:
    """A C function that handlers call with their own parameters followed by constants."""

    name: str
    kind: EventKind  #: The kind of the handlers' events.
    parts: tuple[bytes, ...]  #: The bitcode of the function, and of what it calls.
    #: `affine`, `values`, `strided`: as in :class:`Handler`.
    affine: bool = False
    values: bool = False
    strided: bool = False
    inline: bool = False  #: Whether handlers are always inlined into the kernel.

    def handler(self, symbol: str, constants: Sequence[str], tables: str = "", ahead_bytes: int = 0) -> Handler:
        """A handler with its own `symbol`; constants are LLVM text such as `i32 4`, or `ptr @x` of `tables`.

        Raises ArgumentValueError: the function has other parameters.
        """
        listed = parameters(self.kind, affine=self.affine, values=self.values, strided=self.strided)
        passed = ", ".join([listed, *constants])
        check_c(self.name, passed, self.parts)
        text = f"""{tables}
declare void @{self.name}({", ".join(_types(passed))})
define void @{symbol}({listed}){" alwaysinline" * self.inline} {{
  call void @{self.name}({passed})
  ret void
}}
"""
        return Handler(symbol, text, self.affine, self.values, ahead_bytes, self.parts, strided=self.strided)


def check_c(name: str, listed: str, parts: Sequence[str | bytes]) -> None:
    """Refuse a C function that its bitcode lacks, or whose parameters do not match the call.

    Raises ArgumentValueError.
    """
    from tilewright.ground.native.functions import signatures

    defined = {symbol: types for part in parts for symbol, types in signatures(part).items()}
    wanted = _prototype(name, "void", listed.removeprefix(WHERE).split(", ")[1:])
    if name not in defined:
        raise ArgumentValueError(
            f"a handler in C must be a function that its bitcode defines (got '{name}'; defined are "
            f"{', '.join(sorted(defined)) or 'none'}); correct the name, or define `{wanted}` and compile it"
        )
    result, *types = defined[name]
    if [result, *types] != ["void", *_types(listed)]:
        given, where = types, len(_types(WHERE))
        named = given[:where] == _types(WHERE)
        came = _prototype(name, result, given[where:] if named else given, where=named)
        raise ArgumentValueError(
            f"'{name}' must have the parameters that its event passes, `{wanted}`, got `{came}`; correct the C and "
            "compile it, or correct the event or the handler's options"
        )


def check_names(parts: Iterable[str | bytes]) -> None:
    """Refuse a name that two C files define, which may belong to two instruments.

    Raises ArgumentValueError.
    """
    from tilewright.ground.native.functions import signatures, variables

    defined: set[str] = set()
    for part in parts:
        if isinstance(part, bytes):
            names = {*signatures(part), *(name for name, is_own in variables(part).items() if is_own)}
            if twice := sorted(defined & names):
                raise ArgumentValueError(
                    "a function or variable of instruments in C must be defined once "
                    f"(got '{twice[0]}' in two files of bitcode); make it static, or rename one"
                )
            defined |= names


def _types(listed: str) -> list[str]:
    return [one.split()[0] for one in listed.split(", ")]


def _prototype(name: str, result: str, listed: Sequence[str], *, where: bool = True) -> str:
    """A C function's head, from parameters with LLVM's types, with or without their names."""
    parts = (one.partition(" %") for one in listed)  # a constant has no name
    written = [f"{_IN_C.get(type_.split()[0], type_)} {name}".rstrip() for type_, _, name in parts]
    return f"{_IN_C.get(result, result)} {name}({', '.join(['TW_WHERE'] * where + written)})".replace("* ", "*")


def words(items: Sequence[int]) -> str:
    """LLVM text of a constant of 64-bit integers.

    >>> words([1, -2])
    '[2 x i64] [i64 1, i64 -2]'
    """
    return f"[{len(items)} x i64] [{', '.join(f'i64 {item}' for item in items)}]"
