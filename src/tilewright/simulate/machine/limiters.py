"""The names of what can limit a kernel: one table, with Nsight Compute's word and a plain phrase for each.

A *unit* works: its time is a share of the kernel's, and no kernel is faster than its busiest unit. A *stall* is what
warps wait for while no unit works fully.

Source: Nsight Compute, Profiling Guide, "Metrics Decoder" (pipelines) and "Statistical Sampler" (warp stall reasons).
"""

from __future__ import annotations

from types import MappingProxyType

ISSUE, FMA, ALU, FP64, FP16, XU, UNIFORM, BRANCH = "Issue", "FMA", "ALU", "FP64", "FP16", "XU", "Uniform", "CBU"
TENSOR, TENSOR_MEMORY = "Tensor", "Tensor Memory"
LSU, TAGS, L1, L2, DRAM = "LSU", "L1/TEX Tags", "L1/TEX", "L2", "DRAM"
LONG, SHORT, WAIT, BARRIER = "Long Scoreboard", "Short Scoreboard", "Wait", "Barrier"
PIPE, DISPATCH, MIO = "Math Pipe Throttle", "Dispatch Stall", "MIO Throttle"
GMMA, MBARRIER, NO_WARPS = "GMMA", "Mbarrier", "No Warps"

#: Units, with what they do.
UNITS = MappingProxyType(
    {
        ISSUE: "instruction issue",
        FMA: "float32 arithmetic",
        ALU: "integer arithmetic",
        FP64: "float64 arithmetic",
        FP16: "float16 arithmetic",
        XU: "special functions",
        UNIFORM: "arithmetic of whole warps",
        BRANCH: "branches",
        TENSOR: "tensor cores",
        TENSOR_MEMORY: "moves of tensor memory",
        LSU: "memory instructions",
        TAGS: "lookups in L1",
        L1: "shared memory and L1",
        L2: "second-level cache",
        DRAM: "memory",
    }
)
#: Stalls, with what a warp waits for.
STALLS = MappingProxyType(
    {
        LONG: "waits for global or local memory",
        SHORT: "waits for shared memory or special functions",
        WAIT: "waits for arithmetic just issued",
        PIPE: "waits for an arithmetic pipe",
        DISPATCH: "waits for register ports",
        MIO: "waits for the queue of memory instructions",
        BARRIER: "waits for other warps at barriers",
        GMMA: "waits for products of a warpgroup",
        MBARRIER: "waits for mbarriers: copies, products or other warps",
        NO_WARPS: "no warp left to run",
    }
)


def phrase(name: str) -> str:
    """The meaning of a name of the table.

    >>> phrase("L1/TEX"), phrase("Long Scoreboard")
    ('shared memory and L1', 'waits for global or local memory')
    """
    return UNITS[name] if name in UNITS else STALLS[name]
