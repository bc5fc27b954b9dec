"""Which pipe of a multiprocessor's partition takes a machine instruction, and for how long.

A pipe of 16 lanes takes a warp's instruction in two clocks. Where a GPU does 128 float32 multiply-adds a clock, each of
its four partitions has two such pipes, of which one multiplies integers too.

Sources: the vendor's white papers (Volta, Turing, Ampere, Ada, Hopper, Blackwell: figures of the multiprocessor); CUDA
C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions"; Huerta and others, MICRO 2025, section 5.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import CompileError
from tilewright.machine import WARP_LANES, Gpu

#: Pipes of a partition, by number: `tw_sm_partition.pipes`.
MULTIPLY, SECOND_MULTIPLY, INTEGER, DOUBLE, SPECIAL, UNIFORM, BRANCH, HALF = range(8)
_LANES = 16
_FLOAT32 = frozenset("FFMA FADD FMUL FMUL32I FADD32I FFMA32I".split())
_FLOAT64 = frozenset("DFMA DADD DMUL DSETP".split())
_FLOAT16 = frozenset("HFMA2 HADD2 HMUL2 HMNMX2 HSETP2".split())
#: How the names of tensor cores', textures' and bulk copies' instructions begin, of which the model knows nothing.
_UNKNOWN = tuple("HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA BGMMA UTC UTMA UBLKCP SYNCS TEX TLD SUST SULD".split())
_MULTIPLIES = frozenset("IMAD IMUL IDP XMAD".split())
SPECIALS = frozenset("MUFU I2F F2I F2F I2I FRND POPC FLO BREV S2R S2UR I2FP F2FP R2UR".split())
_BRANCHES = frozenset(
    "BRA CALL JMP RET EXIT BSSY BSYNC BREAK NOP WARPSYNC YIELD DEPBAR BAR ERRBAR MEMBAR NANOSLEEP".split()
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What an instruction takes of a partition."""

    pipes: int  #: Those that can take it, a bit each; 0: none is needed.
    interval: int  #: Clocks until the pipe takes another.


def taken(name: str, gpu: Gpu) -> Taken:
    """What an opcode (without modifiers) takes.

    Raises CompileError: the model does not know it.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> taken("FFMA", gpu("a100")), taken("FFMA", gpu("a6000"))
    (Taken(pipes=1, interval=2), Taken(pipes=3, interval=2))
    """
    if name.startswith(_UNKNOWN):
        raise CompileError(
            f"a predicted kernel must use no tensor cores, textures or bulk copies (got {name}), whose times the model "
            "does not know; predict one without"
        )
    if name in _FLOAT32:
        both = gpu.fp32_per_clock > _LANES * gpu.schedulers
        return Taken(1 << MULTIPLY | both << SECOND_MULTIPLY, _clocks(_LANES))
    if name in _FLOAT64:
        return Taken(1 << DOUBLE, _clocks(gpu.fp64_per_clock / gpu.schedulers))
    if name in _FLOAT16:  # two a lane
        return Taken(1 << HALF, _clocks(gpu.fp16_per_clock / 2 / gpu.schedulers))
    if name in _MULTIPLIES:
        return Taken(1 << MULTIPLY, _clocks(gpu.int32_per_clock / gpu.schedulers))
    if name in SPECIALS:
        return Taken(1 << SPECIAL, _clocks((gpu.special_per_clock or _LANES) / gpu.schedulers))
    if name in _BRANCHES:
        return Taken(1 << BRANCH, 1)
    if name.startswith("U"):
        return Taken(1 << UNIFORM, 2)
    return Taken(1 << INTEGER, _clocks(_LANES))


def _clocks(lanes: float) -> int:
    return max(1, round(WARP_LANES / lanes))
