"""Records of copies of boxes of a tensor, which tensor maps describe.

Source: PTX ISA 9.1, 9.7.9.27 (cp.async.bulk.tensor), 9.7.9.16 (prefetch), 9.7.13.4 (fence.proxy.tensormap).
"""

from __future__ import annotations

from tilewright.simulate.intrinsics.asynchronous import BARRIER
from tilewright.simulate.intrinsics.operands import Address, Record, Registers

_TENSORS = "Copies of a tensor's boxes"
_MAP = Address("map", "generic", 64, "a tensor map in global memory: an array of 16 `uint64`")
_NINE = (9, 0)


def _corner(rank: int) -> Registers:
    return Registers("corner", "u32", rank, words="the box's first element, innermost axis first; may be negative")


def _load(rank: int) -> Record:
    return Record(
        f"cp_async_bulk_tensor_{rank}d_load",
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[target], [map, {corner}], [barrier];",
        _NINE,
        (Address("target", "shared", 128), _MAP, _corner(rank), BARRIER),
        "One thread starts a copy of a box to shared memory; the mbarrier counts its bytes.",
        _TENSORS,
    )


def _from_shared(rank: int, name: str, opcode: str, what: str) -> Record:
    """A copy or reduction from shared memory to a tensor."""
    return Record(
        name,
        f"{opcode}.bulk_group [map, {{corner}}], [source];",
        _NINE,
        (_MAP, _corner(rank), Address("source", "shared", 128)),
        f"One thread starts to {what}; it belongs to a group of bulk stores.",
        _TENSORS,
    )


def _store(rank: int) -> Record:
    name, opcode = f"cp_async_bulk_tensor_{rank}d_store", f"cp.async.bulk.tensor.{rank}d.global.shared::cta"
    return _from_shared(rank, name, opcode, "copy a box back, without elements outside the tensor")


def _add(rank: int) -> Record:
    name = f"cp_reduce_async_bulk_tensor_{rank}d_add"
    opcode = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add"
    return _from_shared(rank, name, opcode, "add a box to the tensor, each element atomically")


def _prefetch(rank: int) -> Record:
    return Record(
        f"cp_async_bulk_prefetch_tensor_{rank}d",
        f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global [map, {{corner}}];",
        _NINE,
        (_MAP, _corner(rank)),
        "One thread starts a prefetch of a box into the L2 cache.",
        _TENSORS,
    )


_RANKS = range(1, 6)
RECORDS = (
    *map(_load, _RANKS),
    *map(_store, _RANKS),
    *map(_add, _RANKS),
    *map(_prefetch, _RANKS),
    Record("prefetch_tensormap", "prefetch.tensormap [map];", _NINE, (_MAP,), "Prefetches a tensor map.", _TENSORS),
    Record(
        "fence_proxy_tensormap_acquire",
        "fence.proxy.tensormap::generic.acquire.sys [map], 128;",
        _NINE,
        (_MAP,),
        "Makes a tensor map that the host wrote visible; one thread of each block, once before its copies.",
        _TENSORS,
    ),
)
