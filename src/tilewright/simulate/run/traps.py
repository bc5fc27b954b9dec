"""The cause of a `trap`: an assertion, a grid barrier in a launch that is not cooperative, or a `trap` in the source.

A failed assertion prints a message before it traps (`simulate/programs/device_ptx/assertion.ptx`). The message has the
source line, as the compiler formats it.

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
from tilewright.simulate.events import Site
from tilewright.simulate.programs.device_runtime import ASSERTION_ARGUMENTS, GRID_HANDLE
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.state import PRINT_RECORD, PRINT_TEXT
from tilewright.simulate.translate.analysis.layout import align_up

#: The header of CUDA C++ whose grid groups trap if the launch is not cooperative.
_GROUPS = "cooperative_groups.h"
#: The register that a kernel reads only for its grid's barrier, as C++ does.
_WORKSPACE = "%envreg2"
#: What a record consists of begins at multiples of this.
_UNIT_BYTES = 8


@dataclass(frozen=True, slots=True)
class PrintRecord:
    """The record of one call of vprintf: its block and thread (linear), the format's device address, argument bytes."""

    block: int
    thread: int
    format_address: int
    arguments: bytes
    texts: dict[int, str]  #: The format and the texts that it prints, by address; none for addresses outside memory.


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
    raw, at = buffer.view(np.uint8), 0
    while at < used_bytes:
        block, thread, address, size, count = raw[at : at + PRINT_RECORD.itemsize].view(PRINT_RECORD)[0].item()
        behind = raw[at + PRINT_RECORD.itemsize : at + size].tobytes()
        end = len(behind) - align_up(count, _UNIT_BYTES)
        yield PrintRecord(block, thread, address, behind[end : end + count], _texts(behind[:end]))
        at += size


def _texts(raw: bytes) -> dict[int, str]:
    """The texts of a record, by address."""
    found, at = {}, 0
    while at < len(raw):
        address, count = np.frombuffer(raw, PRINT_TEXT, 1, at)[0].item()
        start = at + PRINT_TEXT.itemsize
        found[address] = raw[start : start + count].decode(errors="replace")
        at = start + align_up(count, _UNIT_BYTES)
    return found


def failed_assertion(records: Iterator[PrintRecord], format_address: int, block: int, thread: int) -> Assertion | None:
    """The last output of a thread that trapped, if that is a failed assertion."""
    last = None
    for record in records:
        if (record.block, record.thread) == (block, thread):
            last = record
    size = struct.calcsize(ASSERTION_ARGUMENTS)
    if last is None or last.format_address != format_address or len(last.arguments) < size:
        return None
    file, line, function, *_, message = struct.unpack_from(ASSERTION_ARGUMENTS, last.arguments)
    text = last.texts.get
    return Assertion(text(message, ""), text(file, ""), line, text(function, ""))


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


def is_end(module: tree.Module, ptx_line: int) -> bool:
    r"""Whether a `trap` ends its function, with no `ret` after it: NVVM's own, in place of undefined code.

    After `__trap()` a function goes on.

    >>> from tilewright.simulate.ptx.parser import parse
    >>> text = ".version 8.0\n.target sm_90\n.visible .entry k() {\ntrap;\nL: ret;\nM:\ntrap;\nN: trap;\n}"
    >>> [is_end(parse(text), line) for line in (4, 7, 8)]
    [False, True, True]
    """
    for function in module.functions.values():
        behind = [item for item in function.body if isinstance(item, tree.Instruction) and item.ptx_line >= ptx_line]
        if behind and behind[0].ptx_line == ptx_line:
            return all(item.opcode == behind[0].opcode and item.guard is None for item in behind)
    return False


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
