"""Findings for the errors with which the machine itself ends a launch.

Instruments see most of these first, and report more. The machine detects these without any instrument: accesses outside
its memory, misaligned accesses, and barriers that cannot complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import KernelError
from tilewright.observe.instruments.findings import Finding, codes, split
from tilewright.simulate.observer import Launch
from tilewright.simulate.state import LOCAL_WINDOW, SHARED_WINDOW

#: Generic addresses of shared and local memory have windows of their own.
_WINDOWS = {SHARED_WINDOW >> 32: "bounds shared", LOCAL_WINDOW >> 32: "bounds local"}


def code_of(error: KernelError) -> str | None:
    """The code of an error; None if it is not such a fault.

    >>> [code_of(KernelError("k", fault="bounds generic", address=at)) for at in (0, (1 << 32) + 64)]
    ['TW101', 'TW103']
    """
    window = (error.address or 0) >> 32
    fault = _WINDOWS.get(window, error.fault) if error.fault == "bounds generic" else error.fault
    return next((row.code for row in codes().values() if fault in row.faults), None)


def findings(error: KernelError, launch: Launch, found: Sequence[Finding]) -> list[Finding]:
    r"""The finding for an error; none if it is not such a fault, or if an instrument found it at the same line.

    >>> from tilewright.errors import MemoryAccessError
    >>> from tilewright.programs import Program
    >>> program = Program.from_ptx(".version 8.0\n.target sm_90\n.visible .entry k() { ret; }")
    >>> error = MemoryAccessError("k: misaligned at ...", line="a.py:7", fault="misaligned", summary="misaligned")
    >>> [(f.code, f.line) for f in findings(error, Launch("k", program, (1, 1, 1), (1, 1, 1), 0), [])]
    [('TW102', 7)]
    """
    code = code_of(error)
    if code is None:
        return []
    details: dict[str, Any] = {"error": error.summary}
    details |= {"how": "fault"} if "fault" in codes()[code].says else {}
    details |= {} if error.address is None else {"address": error.address}
    details |= {"space": "local"} if code == "TW104" else {}
    rows = []
    for place, opcode, ptx_line in ((error.line, error.opcode, error.ptx_line), *error.others):
        source, line = split(place)
        finding = Finding(
            code=code,
            kernel=launch.name,
            source=source if line else "",
            line=line,
            opcode=opcode,
            ptx_line=ptx_line,
            block=error.block,
            thread=error.thread,
            launch=launch.index,
            details=details,
        )
        if not any(code in (one.code, codes()[one.code].refines) and one.where == finding.where for one in found):
            rows.append(finding)
    return rows
