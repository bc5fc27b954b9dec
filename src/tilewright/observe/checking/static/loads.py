"""TW418: uses of registers that `tcgen05.ld` fills, in a warp that never waits for its loads.

A load fills its registers some time after it is issued; `tcgen05.wait::ld` waits for all loads of the warp. No operand
connects the wait with the load, so compilers move uses of the registers before the wait (Triton's stores are there),
and the vendor's assembler makes those uses wait. So a use counts only if no wait can follow the load at all.

Source: PTX ISA, 9.7.16.8.3 (tcgen05.ld), 9.7.16.8.5 (tcgen05.wait); machine code of ptxas 13.5 for sm_100a, whose LDTM
sets a scoreboard that the first use waits for.
"""

from __future__ import annotations

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.translate.analysis.graph import Op

#: Most registers that a finding names.
_SHOWN = 4


def findings(values: Values, kernel: str) -> list[Finding]:
    """A finding for each use of a load's registers before any wait."""
    found: list[Finding] = []
    for load in filter(_is_load, values.ops):
        if any(map(_is_wait, values.after(load))):
            continue
        uses = [op for register in load.writes for op in values.readers.get(register, ())]
        if uses:
            first = min(uses, key=lambda op: op.instruction.ptx_line)
            registers = sorted({*first.reads} & {*load.writes})[:_SHOWN]
            details = {"registers": registers, "others": [values.where(load.instruction.ptx_line)]}
            found.append(values.finding("TW418", first, kernel, details))
    return found


def _is_load(op: Op) -> bool:
    return op.form.row.kind == "columns" and op.form.row.writes


def _is_wait(op: Op) -> bool:
    return op.form.row.kind == "columns" and op.form.has("wait::ld")
