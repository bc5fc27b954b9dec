"""Errors by which the machine ends a launch, as findings.

Instruments see most of these first, and tell more. What is here is what the machine itself refuses, whatever else is
looked at: accesses outside of its memory, misaligned ones, and barriers that cannot complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import KernelError
from tilewright.instruments.findings import Finding
from tilewright.simt.observer import Launch
from tilewright.simt.ptx.frames import within
from tilewright.simt.translate.state import LOCAL_WINDOW, SHARED_WINDOW

#: KernelError.fault -> code.
CODES = {
    "misaligned": "TW102",
    "bounds global": "TW101",
    "bounds const": "TW101",
    "bounds param": "TW101",
    "bounds generic": "TW101",
    "bounds shared": "TW103",
    "bounds local": "TW104",
    "deadlock": "TW401",
    "barrier": "TW401",
    "barrier count": "TW403",
    "not cooperative": "TW509",
    "assertion": "TW801",
}
#: A generic address lies in a window of its own where it is one of shared or local memory.
_WINDOWS = {SHARED_WINDOW >> 32: "bounds shared", LOCAL_WINDOW >> 32: "bounds local"}
#: Codes of instruments that tell the same, and more; of any other its own.
_KNOWN = {"TW101": ("TW101", "TW105", "TW107"), "TW401": ("TW401", "TW402")}


def code_of(error: KernelError) -> str | None:
    """The code of an error; None where it is no fault of these.

    Examples
    --------
    >>> [code_of(KernelError("k", fault="bounds generic", address=at)) for at in (0, (1 << 32) + 64)]
    ['TW101', 'TW103']
    """
    window = (error.address or 0) >> 32
    return CODES.get(_WINDOWS.get(window, error.fault) if error.fault == "bounds generic" else error.fault)


def findings(error: KernelError, launch: Launch, found: Sequence[Finding]) -> list[Finding]:
    r"""The finding of an error; none where it is no fault of these, or an instrument found it at the same line.

    Examples
    --------
    >>> from tilewright.errors import MemoryAccessError
    >>> from tilewright.gpu import Program
    >>> program = Program.from_ptx(".version 8.0\n.target sm_90\n.visible .entry k() { ret; }")
    >>> error = MemoryAccessError("k: misaligned", line="a.py:7", fault="misaligned", block=(0, 0, 0))
    >>> [(f.code, f.line) for f in findings(error, Launch("k", program, (1, 1, 1), (1, 1, 1), 0), [])]
    [('TW102', 7)]
    """
    code = code_of(error)
    if code is None:
        return []
    details = {} if error.address is None else {"address": error.address}
    rows = []
    for place, opcode, ptx_line in ((error.line, error.opcode, error.ptx_line), *error.others):
        source, _, line = place.rpartition(":")
        finding = Finding(
            code=code, message=_words(error), kernel=launch.name, source=source, line=int(line) if source else 0,
            opcode=opcode, ptx_line=ptx_line, block=error.block, thread=error.thread, launch=launch.index,
            details=details,
        )  # fmt: skip
        if not any(one.code in _KNOWN.get(code, (code,)) and one.where == finding.where for one in found):
            rows.append(finding)
    return rows


def _words(error: KernelError) -> str:
    """The message without the kernel's name and the place, which a finding has apart."""
    text = str(error).removeprefix(f"{error.kernel}: ")
    place = f" in block {error.block}, thread {error.thread}, at {error.line}"
    return text.replace(place + f", in {within(error.inner)}" * bool(error.inner), "")
