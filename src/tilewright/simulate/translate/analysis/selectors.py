"""Operands with a selector or a minus, which become part of the instruction's form."""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.errors import PtxError
from tilewright.simulate.isa import Form
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text


def selected(item: tree.Instruction, form: Form, path: str) -> tuple[tree.Instruction, Form]:
    """The instruction with plain operands, and its form with the selectors (`asel` for `a`) and the `negated` operands.

    Raises PtxError: the instruction does not take such an operand.
    """
    if not any(isinstance(operand, tree.Selected) for operand in item.operands):
        return item, form
    bound, operands = dict(form.bound), []
    for name, operand in zip(form.row.operand_names(len(item.operands)), item.operands, strict=False):
        if not isinstance(operand, tree.Selected):
            operands.append(operand)
            continue
        patterns = form.row.where.get(f"{name}sel", ())
        fits = not operand.part or any(re.fullmatch(pattern, operand.part) for pattern in patterns)
        if not fits or (operand.negated and f"{{-}}{name}" not in form.row.syntax):
            rule = f", or a part of it: .{', .'.join(patterns)}" if patterns else ""
            raise PtxError(
                f"{path}:{item.ptx_line}: '{item.name}' takes a register as {name}{rule} (got {operand_text(operand)})"
            )
        bound |= {f"{name}sel": operand.part} if operand.part else {}
        bound["negated"] = bound.get("negated", "") + name * operand.negated
        operands.append(operand.operand)
    return replace(item, operands=tuple(operands)), replace(form, bound=bound)
