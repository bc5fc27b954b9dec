"""A kernel for each intrinsic, written from its record: operands come from arguments, results go to them."""

from __future__ import annotations

import linecache
from types import MappingProxyType
from typing import Any

from tilewright.gpu.operands import Address, Constant, Record, Registers
from tilewright.programs import Program

#: Register type -> the dtype of arrays that hold values of it.
DTYPES = MappingProxyType(
    {
        "b32": "uint32", "u32": "uint32", "s32": "int32", "b64": "uint64", "u64": "uint64", "f32": "float32",
        "f64": "float64", "pred": "uint32",
    }
)  # fmt: skip
#: How the names begin of those that `test_on_the_machine` runs in these kernels, each compiled and assembled there.
RUN = ("ld_global", "st_global", "mma_", "movmatrix_trans", "elect_sync")
#: Bytes of the shared array that shared addresses are in.
SHARED_BYTES = 2048


def _of_registers(operand: Registers) -> str:
    """Values of an operand: element `[which, lane]` of the array of its name."""
    parts = [f"{operand.name}[{which}, lane]" for which in range(operand.count)]
    return parts[0] if operand.count == 1 else f"({', '.join(parts)})"


def source(record: Record) -> str:
    """The kernel's Python text; `offsets[which, lane]` has the indices of addresses, in their order."""
    names, calls, lines, addresses = [], [], [], 0
    for operand in record.operands:
        if isinstance(operand, Constant):
            calls.append(str(operand.least))
        elif isinstance(operand, Registers):
            names.append(operand.name)
            calls.append(_of_registers(operand))
        else:
            array = f"shared_{operand.name}" if operand.space == "shared" else operand.name
            if operand.space == "shared":
                lines.append(f"{array} = cuda.shared.array({SHARED_BYTES}, np.uint8, alignment=128)")
            names.append(operand.name)
            calls += [array, f"offsets[{addresses}, lane]"]
            addresses += 1
    result = record.result
    call = f"{record.name}({', '.join(calls)})"
    if result is None:
        lines.append(call)
    else:
        names.append(result.name)
        lines.append(f"values = {call}")
        lines += [f"{result.name}[{i}, lane] = values" + f"[{i}]" * (result.count > 1) for i in range(result.count)]
    head = f"def kernel({', '.join([*dict.fromkeys(names), 'offsets'])}):"
    return "\n    ".join([head, "lane = cuda.threadIdx.x", *lines]) + "\n"


def signature(record: Record) -> str:
    """Numba's signature of the kernel."""
    types: dict[str, str] = {}
    for operand in (*record.operands, *([record.result] if record.result else [])):
        if isinstance(operand, Address):
            types[operand.name] = "uint8[::1]"
        elif isinstance(operand, Registers):
            types[operand.name] = f"{DTYPES[operand.type]}[:, ::1]"
    return f"void({', '.join([*types.values(), 'int64[:, ::1]'])})"


def kernel(record: Record) -> Any:
    """The kernel as a Python function."""
    import numpy as np
    from numba import cuda

    from tilewright.gpu import intrinsics

    text, name = source(record), f"<kernel of {record.name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"np": np, "cuda": cuda, record.name: getattr(intrinsics, record.name)}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def assembled(record: Record) -> Program:
    """The kernel's program, which must have the instruction once, and assemble for the least GPU."""
    program = Program.from_python(kernel(record), signature(record), record.cc)
    assert program.ptx.count(record.opcode) == 1
    assert program.resources().registers_per_thread > 0
    return program
