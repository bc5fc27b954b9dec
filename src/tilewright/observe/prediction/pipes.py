"""Which pipe of a multiprocessor's partition takes a machine instruction, and for how long.

A pipe of 16 lanes takes a warp's instruction in two clocks. A GPU with 128 float32 multiply-adds per clock has two such
pipes in each of its four partitions; one of them also multiplies integers. A tensor core takes a matrix product for as
long as its multiply-adds need at the GPU's rate for their formats.

Sources: the vendor's white papers (Volta, Turing, Ampere, Ada, Hopper, Blackwell: figures of the multiprocessor); CUDA
C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions"; Huerta and others, MICRO 2025, section 5.1.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.observe.prediction import opcodes
from tilewright.simulate.machine import WARP_LANES, Gpu, limiters as names
from tilewright.simulate.machine.timing import timing

#: Pipes of a partition, by number: `tw_sm_partition.pipes`.
MULTIPLY, SECOND_MULTIPLY, INTEGER, DOUBLE, SPECIAL, UNIFORM, BRANCH, HALF, TENSOR, COLUMNS = range(10)
#: The units that these pipes are, but for tensor cores, whose work the machine counts.
_OF_UNITS = {
    names.ALU: INTEGER,
    names.FP64: DOUBLE,
    names.FP16: HALF,
    names.XU: SPECIAL,
    names.UNIFORM: UNIFORM,
    names.BRANCH: BRANCH,
    names.TENSOR_MEMORY: COLUMNS,
}
UNITS = (names.FMA, *_OF_UNITS)
_LANES = 16
#: The numbers by the names of `opcodes.toml`.
_NUMBERS = {
    "float32": MULTIPLY, "multiply": MULTIPLY, "integer": INTEGER, "float64": DOUBLE, "special": SPECIAL,
    "uniform": UNIFORM, "branch": BRANCH, "float16": HALF, "tensor": TENSOR, "asynchronous tensor": TENSOR,
    "tensor memory": COLUMNS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """The use that an instruction makes of a partition."""

    pipes: int  #: A bit for each pipe that can take it; 0 if it needs none.
    interval: int  #: Clocks until the pipe takes the next instruction.


#: Rows and depth of a matrix product; it has eight columns: 16816, 1688, 884, 16x8x16.
_SHAPE = re.compile(r"(16|8)x?8x?(\d+)")
#: Rows, columns and depth of a warpgroup's product: 64x256x16. Each of its four warps has a quarter of the rows.
_GROUP_SHAPE = re.compile(r"64x(\d+)x(\d+)")
_GROUP_ROWS, _DEPTH_BYTES = 16, 32
#: Moves to and from tensor memory: how often, and registers each time by lanes and bits.
_TIMES = re.compile(r"x\d+")
_REGISTERS = {"16dp128bit": 2, "16dp256bit": 4}
_LANES_OF_TENSOR_MEMORY = 128
#: Bits of an element.
_BITS = {"f16": 16, "f8": 8, "s8": 8, "f4": 4}
#: Instructions with several products: each quarter of the warp has one.
_SEVERAL = {("HMMA", "884"): 4}
#: Element formats by modifier, if they differ from the opcode's row.
_ELEMENTS = {"BF16": "bf16", "TF32": "tf32", "S8": "s8", "U8": "s8", "S4": "s4", "U4": "s4", "E4M3": "f8", "E5M2": "f8"}


def multiply_adds(opcode: str) -> float:
    """Multiply-adds of a warp's matrix product, from the opcode's modifiers; a sparse A halves them.

    Raises CompileError: no modifier gives the shape.

    >>> multiply_adds("HMMA.16816.F32"), multiply_adds("DMMA.8x8x4"), multiply_adds("IMMA.SP.16864.S8.S8")
    (2048.0, 256.0, 4096.0)
    >>> multiply_adds("HGMMA.64x256x16.F32.BF16")
    65536.0
    """
    name, *modifiers = opcode.split(".")
    sparse = 2 if "SP" in modifiers else 1
    if group := group_shape(opcode):
        return _GROUP_ROWS * group[0] * group[1] / sparse
    shape = next((match for one in modifiers if (match := _SHAPE.fullmatch(one))), None)
    if shape is None:
        raise CompileError(f"a matrix product must give its shape (got {opcode}); predict a kernel without it")
    several = _SEVERAL.get((name, shape[0]), 1)
    return several * int(shape[1]) * 8 * int(shape[2]) / sparse


def group_shape(opcode: str) -> tuple[int, int] | None:
    """Columns and depth of a warpgroup's product; None for any other instruction."""
    shape = next((match for one in opcode.split(".") if (match := _GROUP_SHAPE.fullmatch(one))), None)
    return (int(shape[1]), int(shape[2])) if shape else None


def operand_bytes(opcode: str, *, a_in_memory: bool) -> float:
    """Bytes that one warp of a warpgroup's product reads from shared memory: its rows of A, and a quarter of B.

    >>> operand_bytes("HGMMA.64x256x16.F32.BF16", a_in_memory=True)
    2560.0
    """
    columns, _ = group_shape(opcode) or (0, 0)
    return (_GROUP_ROWS * a_in_memory + columns / 4) * _DEPTH_BYTES


def moved_registers(opcode: str) -> int:
    """Registers of a lane that move to or from tensor memory.

    >>> moved_registers("LDTM.x32"), moved_registers("STTM.16dp256bit.x4")
    (32, 16)
    """
    words = opcode.split(".")
    times = next((int(word[1:]) for word in words if _TIMES.fullmatch(word)), 1)
    return times * next((_REGISTERS[word] for word in words if word in _REGISTERS), 1)


def column_clocks(opcode: str, gpu: Gpu) -> float:
    """Clocks that a product in tensor memory takes for a column of D: 128 rows, 32 bytes deep.

    Source: SemiAnalysisAI/microbench-blackwell, umma_throughput: 64.2 clocks for 128 columns of every format on a B200.

    >>> from tilewright.simulate.machine import gpu
    >>> column_clocks("UTCHMMA", gpu("b200")), column_clocks("UTCQMMA", gpu("b200"))
    (0.5, 0.5)
    """
    elements = opcodes.row(opcode.partition(".")[0]).elements
    return _LANES_OF_TENSOR_MEMORY * _DEPTH_BYTES * 8 / _BITS[elements] / _rate(opcode, elements, gpu)


def _rate(opcode: str, elements: str, gpu: Gpu) -> int:
    """Multiply-adds a clock of a multiprocessor."""
    if found := gpu.tensor_per_clock.get(elements, 0):
        return found
    raise CompileError(
        f"a predicted kernel must use formats whose rate is known on {gpu.name} (got {opcode}, of {elements}); "
        "predict it for another GPU"
    )


def _tensor_clocks(opcode: str, gpu: Gpu) -> int:
    """Clocks for which a partition's tensor cores take a matrix product."""
    name, *modifiers = opcode.split(".")
    elements = next((_ELEMENTS[one] for one in modifiers if one in _ELEMENTS), opcodes.row(name).elements)
    # for float64 the rate covers all products
    share = 1.0 if elements == "f64" or group_shape(opcode) else timing(gpu).mma_share
    a_clock = _rate(opcode, elements, gpu) / gpu.schedulers * share
    if "F32" in modifiers or elements in ("bf16", "tf32"):
        a_clock *= gpu.tensor_float32_share
    return max(1, round(multiply_adds(opcode) / a_clock))


def taken(opcode: str, gpu: Gpu) -> Taken:
    """The use of a partition by an opcode with its modifiers.

    Raises CompileError: the model does not support the opcode.

    >>> from tilewright.simulate.machine import gpu
    >>> taken("FFMA", gpu("a100")), taken("FFMA", gpu("a6000"))
    (Taken(pipes=1, interval=2), Taken(pipes=3, interval=2))
    >>> taken("HMMA.16816.F32", gpu("a100")).interval, taken("HMMA.16816.F32", gpu("rtx3090")).interval
    (8, 32)
    """
    name = opcode.partition(".")[0]
    pipe = opcodes.row(name).pipe
    if pipe == "memory":
        return Taken(0, 1)
    if pipe == "orders":  # they queue, and the warp continues
        return Taken(0, 1)
    if pipe not in _NUMBERS:
        raise CompileError(
            f"a predicted kernel must use no textures, bulk reductions or tensor instructions without a published rate "
            f"(got {name}, of {pipe}): the model does not know their times; predict one without"
        )
    if pipe == "tensor memory":
        return Taken(1 << COLUMNS, max(1, round(moved_registers(opcode) / timing(gpu).column_registers)))
    if pipe == "asynchronous tensor":  # it queues, and the warp continues
        return Taken(0, _tensor_clocks(opcode, gpu))
    if pipe == "tensor":
        return Taken(1 << TENSOR, _tensor_clocks(opcode, gpu))
    lanes = {
        "float64": gpu.fp64_per_clock / gpu.schedulers,
        "float16": gpu.fp16_per_clock / 2 / gpu.schedulers,  # two per lane
        "multiply": gpu.int32_per_clock / gpu.schedulers,
        "special": (gpu.special_per_clock or _LANES) / gpu.schedulers,
        "branch": WARP_LANES,
    }.get(pipe, _LANES)
    second = pipe == "float32" and gpu.fp32_per_clock > _LANES * gpu.schedulers
    return Taken(1 << _NUMBERS[pipe] | second << SECOND_MULTIPLY, max(1, round(WARP_LANES / lanes)))


def clocks(masks: npt.NDArray[np.uint32], each: npt.NDArray[np.float64]) -> list[float]:
    """The least clocks of each of `UNITS`, from the pipes that can take each instruction, and the clocks that it takes.

    >>> clocks(np.array([1, 3, 4]), np.array([2.0, 6.0, 5.0]))[:2]
    [4.0, 5.0]
    """
    first, second = 1 << MULTIPLY, 1 << SECOND_MULTIPLY
    alone, either = float(each[masks == first].sum()), float(each[masks == first | second].sum())
    multiply = max(alone, (alone + either) / 2) if either else alone
    return [multiply, *(float(each[masks == 1 << pipe].sum()) for pipe in _OF_UNITS.values())]
