"""The meaning of a `trap`: a failed assertion, a grid barrier in a launch that is not cooperative, or the kernel's own.

A failed assertion prints before it traps (`programs/device_ptx/assertion.ptx`). Its last output has the source line, in
the compiler's words.

Source: CUDA C++ Programming Guide, "Assertion" and "Grid Synchronization".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import AssertionFailedError, KernelError, TrapError
from tilewright.programs.device_runtime import ASSERTION_ARGUMENTS, GRID_HANDLE
from tilewright.ptx import tree
from tilewright.ptx.substitution import parts
from tilewright.simt.events import Site
from tilewright.simt.run.printing import ReadText
from tilewright.simt.translate.state import PRINT_RECORD_BYTES

#: The header of CUDA C++ whose grid groups trap if the launch is not cooperative.
_GROUPS = "cooperative_groups.h"
#: The register that a kernel reads only for its grid's barrier, as C++ does.
_WORKSPACE = "%envreg2"


@dataclass(frozen=True, slots=True)
class PrintRecord:
    """The record of one call of vprintf: its block and thread (linear), the format's device address, argument bytes."""

    block: int
    thread: int
    format_address: int
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Assertion:
    """A failed assertion, as the compiler describes it."""

    message: str
    file: str
    line: int
    function: str


def print_records(buffer: npt.NDArray[np.uint64] | None, used_bytes: int) -> Iterator[PrintRecord]:
    """The records of one host thread's print buffer, in order; records that did not fit are missing."""
    if buffer is None:
        return
    raw, size = buffer.view(np.uint8), PRINT_RECORD_BYTES
    for at in range(0, min(used_bytes, raw.nbytes // size * size), size):
        block, thread, address, count = (int(v) for v in raw[at : at + 32].view(np.uint64))
        yield PrintRecord(block, thread, address, raw[at + 32 : at + 32 + count].tobytes())


def failed_assertion(
    records: Iterator[PrintRecord], format_address: int, block: int, thread: int, read_text: ReadText
) -> Assertion | None:
    """The last output of a thread that trapped, if that is a failed assertion."""
    last = None
    for record in records:
        if (record.block, record.thread) == (block, thread):
            last = record
    size = struct.calcsize(ASSERTION_ARGUMENTS)
    if last is None or last.format_address != format_address or len(last.arguments) < size:
        return None
    file, line, function, *_, message = struct.unpack_from(ASSERTION_ARGUMENTS, last.arguments)
    return Assertion(read_text(message) or "", read_text(file) or "", line, read_text(function) or "")


def at_grid_barrier(module: tree.Module, site: Site, inner: str) -> bool:
    """Whether a trap is a grid barrier in a launch that is not cooperative, as far as the module shows."""
    barrier = module.functions.get(GRID_HANDLE)
    if barrier is None and not any(_WORKSPACE in names for names in map(_registers, module.functions.values())):
        return False
    return _GROUPS in inner or not site.source or (barrier is not None and site.ptx_line >= barrier.ptx_line)


def _registers(function: tree.Function) -> set[str]:
    """Registers in a function's instructions."""
    instructions = (item for item in function.body if isinstance(item, tree.Instruction))
    return {part.name for item in instructions for operand in item.operands for part in parts(operand)}


def error(name: str, assertion: Assertion | None, about: dict[str, Any], *, at_grid_barrier: bool) -> KernelError:
    """The error of a trap.

    `name` is the kernel's, `assertion` the thread's failed assertion, `about` the place, as fields of
    :class:`KernelError`. `at_grid_barrier`: the kernel waits for its grid there, and the launch was not cooperative.
    """
    where = f"in block {about['block']}, thread {about['thread']}, at "
    if assertion is not None:
        about |= {"line": f"{assertion.file}:{assertion.line}"}
        failed, within = f"assertion `{assertion.message}` failed", f", in {assertion.function}"
        about |= {"fault": "assertion", "summary": failed + within}
        return AssertionFailedError(f"{name}: {failed} {where}{about['line']}{within}", **about)
    inner = about["inner"]
    if at_grid_barrier:
        rule = "a barrier of the grid must be that of a cooperative launch (got an ordinary one)"
        remedy = "pass `cooperative=True`"
        about |= {"fault": "not cooperative", "summary": f"{rule}; {remedy}"}
        return TrapError(f"{name}: {rule}, {where}{about['line']}; {remedy}", **about)
    return TrapError(f"{name}: `trap` {where}{about['line']}" + (f", in {inner}" if inner else ""), **about)
