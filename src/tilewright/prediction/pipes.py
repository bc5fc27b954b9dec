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
from tilewright.prediction import opcodes

#: Pipes of a partition, by number: `tw_sm_partition.pipes`.
MULTIPLY, SECOND_MULTIPLY, INTEGER, DOUBLE, SPECIAL, UNIFORM, BRANCH, HALF = range(8)
_LANES = 16
#: Their numbers, by what `opcodes.toml` calls them.
_NUMBERS = {
    "float32": MULTIPLY, "multiply": MULTIPLY, "integer": INTEGER, "float64": DOUBLE, "special": SPECIAL,
    "uniform": UNIFORM, "branch": BRANCH, "float16": HALF,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """What an instruction takes of a partition."""

    pipes: int  #: Those that can take it, a bit each; 0: none is needed.
    interval: int  #: Clocks until the pipe takes another.


def taken(name: str, gpu: Gpu) -> Taken:
    """What an opcode (without modifiers) takes.

    Raises CompileError: the model knows nothing of what it does.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> taken("FFMA", gpu("a100")), taken("FFMA", gpu("a6000"))
    (Taken(pipes=1, interval=2), Taken(pipes=3, interval=2))
    """
    pipe = opcodes.row(name).pipe
    if pipe == "memory":
        return Taken(0, 1)
    if pipe not in _NUMBERS:
        raise CompileError(
            f"a predicted kernel must use no tensor cores, textures or bulk copies (got {name}, of {pipe}), whose "
            "times the model does not know; predict one without"
        )
    lanes = {
        "float64": gpu.fp64_per_clock / gpu.schedulers,
        "float16": gpu.fp16_per_clock / 2 / gpu.schedulers,  # two a lane
        "multiply": gpu.int32_per_clock / gpu.schedulers,
        "special": (gpu.special_per_clock or _LANES) / gpu.schedulers,
        "branch": WARP_LANES,
    }.get(pipe, _LANES)
    second = pipe == "float32" and gpu.fp32_per_clock > _LANES * gpu.schedulers
    return Taken(1 << _NUMBERS[pipe] | second << SECOND_MULTIPLY, max(1, round(WARP_LANES / lanes)))
