"""Records of vector loads and stores, of barriers, and of `elect`.

Source: PTX ISA 9.1, 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13 (barriers, elect).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from tilewright.simulate.intrinsics.operands import Address, Record, Registers

_LOADS = "Vector loads and stores"
_BARRIERS = "Named barriers and warps"
_SPACES: tuple[Literal["global", "shared"], ...] = ("global", "shared")
#: Vectors: (number of elements, their type).
_VECTORS: tuple[tuple[int, Literal["b32", "b64"]], ...] = ((2, "b32"), (4, "b32"), (2, "b64"))
_BITS = MappingProxyType({"b32": 32, "b64": 64})


def _bytes(count: int, type_: Literal["b32", "b64"]) -> int:
    return count * _BITS[type_] // 8


def _load(space: Literal["global", "shared"], count: int, type_: Literal["b32", "b64"]) -> Record:
    return Record(
        f"ld_{space}_v{count}_{type_}",
        f"ld.{space}.v{count}.{type_} {{value}}, [source];",
        (7, 5),
        (Address("source", space, _bytes(count, type_)),),
        f"Loads {_bytes(count, type_)} bytes by one instruction.",
        _LOADS,
        Registers("value", type_, count, "source"),
    )


def _store(space: Literal["global", "shared"], count: int, type_: Literal["b32", "b64"]) -> Record:
    return Record(
        f"st_{space}_v{count}_{type_}",
        f"st.{space}.v{count}.{type_} [target], {{value}};",
        (7, 5),
        (Address("target", space, _bytes(count, type_)), Registers("value", type_, count)),
        f"Stores {_bytes(count, type_)} bytes by one instruction.",
        _LOADS,
    )


_BARRIER = Registers("barrier", "u32", words="number of the block's barrier, 0 to 15; `cuda.syncthreads()` uses 0")
_THREADS = Registers("threads", "u32", words="how many threads arrive or wait, in full warps")

RECORDS = (
    *(_load(space, *vector) for space in _SPACES for vector in _VECTORS),
    *(_store(space, *vector) for space in _SPACES for vector in _VECTORS),
    Record(
        "barrier_sync", "barrier.cta.sync.aligned barrier, threads;", (7, 5), (_BARRIER, _THREADS),
        "Waits until `threads` threads have arrived at the barrier.", _BARRIERS,
    ),
    Record(
        "barrier_arrive", "barrier.cta.arrive.aligned barrier, threads;", (7, 5), (_BARRIER, _THREADS),
        "Arrives without waiting: threads that wait see what this thread wrote before.", _BARRIERS,
    ),
    Record(
        "elect_sync", "elect.sync _|chosen, mask;", (9, 0),
        (Registers("mask", "b32", words="the warp's lanes that take part: 0xFFFFFFFF for all"),),
        "True in one lane of the mask.", _BARRIERS, Registers("chosen", "pred"),
    ),
)  # fmt: skip
