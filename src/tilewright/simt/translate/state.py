"""Memory layouts shared by translated code, the scheduler and Python: one table of offsets each.

Everything is a field at a byte offset of one of three records: the *context* (one per host thread), the *slot* (one per
resident block) and the *warp*.
"""

from __future__ import annotations

from typing import Final

#: Device addresses. A state-space address of shared or local memory is an offset from 0; as a generic address it
#: lies in a window of its own. Global addresses are the same in both.
SHARED_WINDOW: Final = 1 << 32
LOCAL_WINDOW: Final = 2 << 32
GLOBAL_BASE: Final = 1 << 36

#: Mapped bytes before and after every arena, wider than any pattern: lanes that are switched off may be loaded.
SLACK_BYTES: Final = 64 << 10
PATTERN_SPAN_MAX: Final = 48 << 10

#: What `warp` returns, and what a warp's `status` field holds.
READY, DONE, BLOCKED, YIELDED, FAULT = -1, 0, 1, 2, 3

#: What `run` returns besides: the grid is finished, a block waits for another, nothing can move, told to stop, enough
#: was run for now.
FINISHED, STALLED, DEADLOCK, STOPPED, PAUSED = 10, 11, 12, 13, 14

#: Kinds of fault in the fault record.
OUT_OF_BOUNDS, MISALIGNED, TRAP, CALL_DEPTH, BAD_CALL, STOP_REQUEST = 1, 2, 3, 4, 5, 6
BARRIER_ID, BARRIER_COUNT, BARRIER_COUNTS, BARRIER_IDS, BARRIER_FORMS, BARRIER_REDUCED = 7, 8, 9, 10, 11, 12

_CONTEXT = (
    "global_base",  # host address of the arena's first byte
    "global_limit",  # bytes of the arena in use
    "module_base",  # device address of the module's variables
    "params",  # host address of the parameter block
    "params_address",  # device address of the parameter block
    "counters",  # host address of this thread's counters
    "observed_launch",  # host address of a table: each instrument's own memory of the launch
    "observed_initial",  # host address of what instruments' memory of a block begins with
    "observed_bytes",  # bytes of that
    "stop",  # host address of an i32 that asks everyone to stop
    "next_block",  # host address of the shared block counter
    "blocks",  # number of blocks
    "order_factor",  # the i-th block to run is (i * factor + shift) modulo the number of blocks
    "order_shift",
    "grid_x",
    "grid_y",
    "grid_z",
    "quantum",  # instructions a warp may run before it must return
    "instructions",  # warp instructions run by this thread
    "instruction_limit",  # of this thread
    "pause_at",  # instructions after which `run` returns, to be called again
    "warp_function",
    "warps",
    "threads",
    "warp_bytes",  # bytes of one warp record
    "warp_order",  # host address of i32 permutation of warps
    "points",  # barrier points whose arrivals are counted
    "shared_bytes",  # arena of one block
    "shared_fill",  # the byte that fresh shared memory holds
    "reserved_offset",  # of shared memory that begins with zeros
    "reserved_bytes",
    "local_bytes",  # local arena of one thread
    "may_stall",  # 1 when other blocks may be needed for progress
    "print_buffer",
    "print_bytes",
    "print_used",
    "call_depth",
    "dynamic_shared_bytes",
    "grid_workspace",  # device address of a cooperative launch's workspace; 0 in any other launch
    "stack_low",  # host address below which called functions must not go
    "fault_kind",
    "fault_site",
    "fault_lanes",
    "fault_address",
    "fault_got",  # of a barrier: the value that is wrong, and the one it should agree with
    "fault_other",
    "fault_block",
    "fault_warp",
    "fault_lane",
)
#: One printed record: block, sequence, format address, argument bytes that follow, and room for them.
PRINT_ARGUMENT_BYTES: Final = 256
PRINT_RECORD_BYTES: Final = 32 + PRINT_ARGUMENT_BYTES

CONTEXT: Final[dict[str, int]] = {name: 8 * i for i, name in enumerate(_CONTEXT)}
CONTEXT_BYTES: Final = 8 * len(_CONTEXT)

#: Host stack of a worker, and how much of it called functions may fill; the rest is for one frame.
HOST_STACK_BYTES: Final = 256 << 20
CALL_STACK_BYTES: Final = 96 << 20

_SLOT = (
    "active",  # a block is in progress
    "block",  # its linear index
    "ctaid_x",
    "ctaid_y",
    "ctaid_z",
    "shared",  # host address of its shared arena
    "local",  # host address of its local arena
    "warp_records",
    "gone",  # bit mask of the warps all of whose threads have exited
    "observed",  # host address of a table: each instrument's own memory of the block
    "observed_area",  # host address of that memory, all instruments' together
)
SLOT: Final[dict[str, int]] = {name: 8 * i for i, name in enumerate(_SLOT)}

#: Barriers of a block: their number. Source: PTX ISA, 9.7.13.1 ("sixteen barriers numbered 0..15").
BARRIERS: Final = 16
#: What instructions of one barrier do, as bits.
SYNC, ARRIVE, REDUCE = 1, 2, 4
_BARRIER = (
    "arrived",  # threads that arrived in this generation, in whole warps; 0: it has not begun
    "count",  # threads it takes; 0: all that have not exited
    "joined",  # bit mask of the warps that arrived
    "forms",  # bits of the forms by which they did
    "votes",  # threads whose predicate was true
    "voters",  # threads that gave one
    "site",  # where the first warp arrived
    "spare",
)
BARRIER: Final[dict[str, int]] = {name: 4 * i for i, name in enumerate(_BARRIER)}
BARRIER_BYTES: Final = 4 * len(_BARRIER)
#: they follow the slot's named fields
SLOT_BARRIERS: Final = 8 * len(_SLOT)
BARRIERS_BYTES: Final = BARRIERS * BARRIER_BYTES
SLOT_BYTES: Final = SLOT_BARRIERS + BARRIERS_BYTES

_WARP = (
    "status",
    "live",  # lanes that have not exited
    "loop_site",  # one more than the site of the branch back or barrier at which it last returned; 0 before
    "loop_lanes",  # and the lanes that were there
    "resume",  # where to go on: 0 start, block + 1, or -1 for the dispatcher
    "index",
    "mask",
    "votes",  # result of the last barrier's reduction: how many predicates were true
    "voters",  # of how many
    "barrier",  # where it waits
    "depth",
)
WARP: Final[dict[str, int]] = {name: 4 * i for i, name in enumerate(_WARP)}
#: points follow, one for each barrier instruction of the kernel
WARP_POINTS: Final = 4 * len(_WARP)
_POINT = (
    "blocked",  # lanes that wait here
    "ready",  # lanes that may go on
    "predicate",  # lanes whose predicate is true
    "id",
    "count",  # 0: all threads
    "form",
    "site",
)
POINT: Final[dict[str, int]] = {name: 4 * i for i, name in enumerate(_POINT)}
POINT_BYTES: Final = 4 * len(_POINT)
