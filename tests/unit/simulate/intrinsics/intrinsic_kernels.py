"""A kernel for each intrinsic, written from its record: operands come from arguments, results go to them."""

from __future__ import annotations

import functools
import linecache
from types import MappingProxyType
from typing import Any

from tilewright.programs import Program
from tilewright.simulate.intrinsics.operands import Address, Constant, Record, Registers

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
#: More values than these go as a row of their array, and come into one by `put`: Numba takes seconds for a line each.
SINGLE = 16


def _of_registers(operand: Registers) -> str:
    """Values of an operand: element `[which, lane]` of the array of its name, or a row of many."""
    if operand.count > SINGLE:
        return f"{operand.name}[lane]"
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
    if result is not None and result.count > SINGLE:
        lines.append(f"put({result.name}, lane, values)")
    elif result is not None:
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


@functools.cache
def put() -> Any:
    """What writes the values of a tuple into a row."""
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic

    def define(typingctx: Any, array: Any, row: Any, values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            view = context.make_array(array)(context, builder, arguments[0])
            number = context.cast(builder, arguments[1], row, types.intp)
            for which, value in enumerate(cgutils.unpack_tuple(builder, arguments[2])):
                place = [number, context.get_constant(types.intp, which)]
                builder.store(value, cgutils.get_item_pointer(context, builder, array, view, place))
            return context.get_dummy_value()

        return types.void(array, row, values), generate

    return intrinsic(define)


def kernel(record: Record) -> Any:
    """The kernel as a Python function."""
    import numpy as np
    from numba import cuda

    from tilewright.gpu import intrinsics

    text, name = source(record), f"<kernel of {record.name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"np": np, "cuda": cuda, "put": put(), record.name: getattr(intrinsics, record.name)}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def assembled(record: Record) -> Program:
    """The kernel's program, which must have the instruction once, and assemble for the least GPU."""
    program = Program.from_python(kernel(record), signature(record), record.cc)
    assert program.ptx.count(record.opcode) == 1
    assert program.resources().registers_per_thread > 0
    return program
