"""Records of asynchronous copies, of mbarriers, which track their completion, and of fences.

Source: PTX ISA 9.1, 9.7.9.25 (asynchronous copies), 9.7.13.4 (fences), 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from typing import Literal

from tilewright.simulate.intrinsics.operands import Address, Constant, Operand, Record, Registers

_COPIES = "Asynchronous copies"
_BARRIERS = "mbarriers"
_FENCES = "Fences"

_BYTES = Registers("bytes", "u32", words="how many bytes")
_STATE = Registers("state", "b64", words="what `mbarrier_arrive` returned")
_PARITY = Registers("parity", "u32", words="0 for the first phase, then 1, then 0")
BARRIER = Address("barrier", "shared", 8, "an element of 8 bytes of shared memory")
_DONE = Registers("done", "pred", words="whether that phase has ended")


def _copy(level: Literal["ca", "cg"], size: int, filled: bool) -> Record:
    """A copy of `size` bytes; with `filled`, only some are read and the rest is zero."""
    operands: tuple[Operand, ...] = (Address("target", "shared", size), Address("source", "global", size))
    words = f"Starts a copy of {size} bytes"
    if filled:
        operands += (Registers("valid", "u32", words="how many bytes are read; the others become 0"),)
        words += ", of which `valid` are read; the others become 0"
    words += " (past the L1 cache)." if level == "cg" else "."
    return Record(
        f"cp_async_{level}_{size}" + "_zfill" * filled,
        f"cp.async.{level}.shared.global [target], [source], {size}" + ", valid" * filled + ";",
        (8, 0),
        operands,
        words,
        _COPIES,
    )


_KINDS: tuple[tuple[Literal["ca", "cg"], int], ...] = (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16))

_GROUPS = (
    Record(
        "cp_async_commit_group", "cp.async.commit_group;", (8, 0), (),
        "Closes a group with the thread's copies since the last group.", _COPIES,
    ),
    Record(
        "cp_async_wait_group", "cp.async.wait_group pending;", (8, 0),
        (Constant("pending", 0, 1023, "how many of the newest groups may still be in flight"),),
        "Waits for the thread's groups except the newest; after a barrier, other threads see the data too.", _COPIES,
    ),
    Record(
        "cp_async_wait_all", "cp.async.wait_all;", (8, 0), (), "Waits for all copies of the thread.", _COPIES,
    ),
    Record(
        "cp_async_mbarrier_arrive_noinc", "cp.async.mbarrier.arrive.noinc.shared.b64 [barrier];", (8, 0), (BARRIER,),
        "Arrives at the mbarrier when all earlier copies of the thread have completed.", _COPIES,
    ),
)  # fmt: skip

#: Element types for additions, as in the instruction's name.
_ADDED = ("u32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16")


def _add(type_: str) -> Record:
    return Record(
        f"cp_reduce_async_bulk_add_{type_.removeprefix('noftz.')}",
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{type_} [target], [source], bytes;",
        (9, 0),
        (Address("target", "global", 16), Address("source", "shared", 16), _BYTES),
        "One thread starts to add elements to global memory, each atomically, in a group of bulk stores.",
        _COPIES,
    )


_BULK = (
    *map(_add, _ADDED),
    Record(
        "cp_async_bulk_prefetch", "cp.async.bulk.prefetch.L2.global [source], bytes;", (9, 0),
        (Address("source", "global", 16), _BYTES), "One thread starts a prefetch into the L2 cache.", _COPIES,
    ),
    Record(
        "cp_async_bulk_load",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [target], [source], bytes, [barrier];",
        (9, 0), (Address("target", "shared", 16), Address("source", "global", 16), _BYTES, BARRIER),
        "One thread starts a copy of any multiple of 16 bytes; the mbarrier counts them as they arrive.", _COPIES,
    ),
    Record(
        "cp_async_bulk_store", "cp.async.bulk.global.shared::cta.bulk_group [target], [source], bytes;",
        (9, 0), (Address("target", "global", 16), Address("source", "shared", 16), _BYTES),
        "One thread starts a copy of any multiple of 16 bytes back.", _COPIES,
    ),
    Record(
        "cp_async_bulk_commit_group", "cp.async.bulk.commit_group;", (9, 0), (),
        "Closes a group with the thread's bulk stores since the last group.", _COPIES,
    ),
    Record(
        "cp_async_bulk_wait_group", "cp.async.bulk.wait_group pending;", (9, 0),
        (Constant("pending", 0, 1023, "how many of the newest groups may still be in flight"),),
        "Waits until the writes of all other groups are visible.", _COPIES,
    ),
    Record(
        "cp_async_bulk_wait_group_read", "cp.async.bulk.wait_group.read pending;", (9, 0),
        (Constant("pending", 0, 1023, "how many of the newest groups may still be in flight"),),
        "Waits until all other groups have read their sources, which may then be overwritten.", _COPIES,
    ),
)  # fmt: skip

_MBARRIERS = (
    Record(
        "mbarrier_init", "mbarrier.init.shared.b64 [barrier], count;", (8, 0),
        (BARRIER, Registers("count", "u32", words="arrivals that end a phase")),
        "Initialises an mbarrier; one thread does it, and after a block barrier the others may use it.", _BARRIERS,
    ),
    Record(
        "mbarrier_inval", "mbarrier.inval.shared.b64 [barrier];", (8, 0), (BARRIER,),
        "Invalidates an mbarrier, so that its memory may be reused.", _BARRIERS,
    ),
    Record(
        "mbarrier_arrive", "mbarrier.arrive.shared.b64 state, [barrier];", (8, 0), (BARRIER,),
        "Arrives once; threads that wait see what this thread wrote before.", _BARRIERS,
        Registers("state", "b64", words="the phase, for `mbarrier_test_wait`"),
    ),
    Record(
        "mbarrier_arrive_expect_tx", "mbarrier.arrive.expect_tx.shared.b64 state, [barrier], bytes;", (9, 0),
        (BARRIER, _BYTES), "Arrives once, and makes the phase wait for `bytes` bytes of bulk copies.", _BARRIERS,
        Registers("state", "b64", words="the phase, for `mbarrier_test_wait`"),
    ),
    Record(
        "mbarrier_expect_tx", "mbarrier.expect_tx.relaxed.cta.shared.b64 [barrier], bytes;", (9, 0),
        (BARRIER, _BYTES), "Makes the phase wait for `bytes` more bytes, without an arrival.", _BARRIERS,
    ),
    Record(
        "mbarrier_test_wait", "mbarrier.test_wait.shared.b64 done, [barrier], state;", (8, 0), (BARRIER, _STATE),
        "Whether the phase of `state` has ended; does not wait.", _BARRIERS, _DONE,
    ),
    Record(
        "mbarrier_test_wait_parity", "mbarrier.test_wait.parity.shared.b64 done, [barrier], parity;", (8, 0),
        (BARRIER, _PARITY), "Whether the phase of this parity has ended; does not wait.", _BARRIERS, _DONE,
    ),
    Record(
        "mbarrier_try_wait", "mbarrier.try_wait.shared.b64 done, [barrier], state;", (9, 0), (BARRIER, _STATE),
        "Whether the phase of `state` has ended; waits for a time. Call it in a loop.", _BARRIERS, _DONE,
    ),
    Record(
        "mbarrier_try_wait_parity", "mbarrier.try_wait.parity.shared.b64 done, [barrier], parity;", (9, 0),
        (BARRIER, _PARITY), "Whether the phase of this parity has ended; waits a while. Call it in a loop.", _BARRIERS,
        _DONE,
    ),
)  # fmt: skip

_ORDER = (
    Record(
        "fence_mbarrier_init", "fence.mbarrier_init.release.cluster;", (9, 0), (),
        "Makes mbarriers that the thread initialised visible to the blocks of its cluster.", _FENCES,
    ),
    Record(
        "fence_proxy_async", "fence.proxy.async;", (9, 0), (),
        "Orders the thread's loads and stores with asynchronous copies of the same memory.", _FENCES,
    ),
    Record(
        "fence_proxy_async_shared", "fence.proxy.async.shared::cta;", (9, 0), (),
        "The same, for shared memory only.", _FENCES,
    ),
    Record(
        "griddepcontrol_wait", "griddepcontrol.wait;", (9, 0), (),
        "Waits for the launches that this launch depends on.", _FENCES,
    ),
    Record(
        "griddepcontrol_launch_dependents", "griddepcontrol.launch_dependents;", (9, 0), (),
        "Allows launches that depend on this one to start.", _FENCES,
    ),
)  # fmt: skip

RECORDS = (
    *(_copy(*kind, filled) for kind in _KINDS for filled in (False, True)),
    *_GROUPS,
    *_BULK,
    *_MBARRIERS,
    *_ORDER,
)
