"""Run one matrix instruction on the simulated GPU, one warp for each case, with registers as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.programs import Program
from tilewright.simt import launch


def text(name: str, counts: Sequence[int], widths: Sequence[int], given: int, tail: str, order: str) -> str:
    """A kernel of one instruction: operands with these numbers of registers and bits; the first is D.

    `tail` is what follows them; `order`, if given, has their numbers in braces where they stand.
    """
    loads, operands, lines, offset = [], [], [], 0
    for operand, (count, bits) in enumerate(zip(counts, widths, strict=True)):
        names = [f"%r{bits}_{operand}_{i}" for i in range(count)]
        lines.append(f".reg .b{bits} " + ", ".join(names) + ";")
        operands.append("{" + ", ".join(names) + "}")
        if operand:
            for register in names:
                loads.append(f"mad.lo.u32 %at, %lane, {bits // 8}, {offset}; cvt.u64.u32 %wide, %at; "
                             f"add.u64 %wide, %wide, %in; ld.global.b{bits} {register}, [%wide];")  # fmt: skip
                offset += 32 * bits // 8
    assert offset == given, "registers are as many as the instruction takes"
    bits = widths[0]
    stores = [
        f"mad.lo.u32 %at, %lane, {bits // 8}, {32 * i * bits // 8}; cvt.u64.u32 %wide, %at; "
        f"add.u64 %wide, %wide, %out; st.global.b{bits} [%wide], %r{bits}_0_{i};"
        for i in range(counts[0])
    ]
    taken = counts[0] * 32 * bits // 8
    return "\n".join([
        ".version 8.7\n.target sm_120\n.address_size 64",
        ".visible .entry k(.param .u64 p_in, .param .u64 p_out) {",
        ".reg .b32 %lane, %at, %block; .reg .b64 %in, %out, %wide;",
        *lines,
        "ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; mov.u32 %lane, %tid.x; mov.u32 %block, %ctaid.x;",
        f"mad.wide.u32 %in, %block, {given}, %in; mad.wide.u32 %out, %block, {taken}, %out;",
        *loads,
        f"{name} {order.format(*operands) if order else ', '.join(operands)}{tail};",
        *stores,
        "ret;\n}",
    ])  # fmt: skip


def run(
    name: str,
    operands: Sequence[np.ndarray],
    results: int,
    bits: int,
    gpu: str | None = None,
    tail: str = "",
    order: str = "",
) -> np.ndarray:
    """D's registers (cases, registers, 32 lanes); operands are registers in the same form, uint32 or uint64."""
    cases = len(operands[0])
    given = np.concatenate([np.ascontiguousarray(x).reshape(cases, -1).view(np.uint8) for x in operands], axis=1)
    counts = [results, *(x.shape[1] for x in operands)]
    widths = [bits, *(x.dtype.itemsize * 8 for x in operands)]
    out = np.zeros((cases, results, 32), f"u{bits // 8}")
    program = Program.from_ptx(text(name, counts, widths, given.shape[1], tail, order))
    launch(program, cases, 32, (np.ascontiguousarray(given).reshape(-1), out.reshape(-1)), gpu=gpu)
    return out
