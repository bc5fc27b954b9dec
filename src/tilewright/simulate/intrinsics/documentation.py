"""The docstring of each intrinsic, from its record."""

from __future__ import annotations

import inspect
from typing import Any

from tilewright.simulate.intrinsics.operands import Address, Constant, Operand, Record


def kind(operand: Operand) -> str:
    """An operand in words."""
    if isinstance(operand, Address):
        space = "global" if operand.space == "generic" else operand.space
        return f"element of {space} memory, aligned to {operand.alignment} bytes"
    if isinstance(operand, Constant):
        return f"constant, {operand.least} to {operand.most}"
    one = {"b32": "32 bits", "b64": "64 bits", "u32": "integer", "u64": "integer", "pred": "bool"}.get(operand.type)
    one = one or {"s32": "int32", "f32": "float32", "f64": "float64"}[operand.type]
    return one if operand.count == 1 else f"{operand.count} x {one}"


def docstring(record: Record) -> str:
    """The text for `help`.

    >>> from tilewright.gpu.intrinsics import find
    >>> docstring(find("ldmatrix_x1")).splitlines()[0]
    'Loads 1 matrix of 8 rows of 16 bytes, whose addresses lanes 0 to 7 give.'
    """
    major, minor = record.cc
    lines = [record.words, "", f"PTX: `{record.form}`, from compute capability {major}.{minor} on."]
    if record.operands:
        lines += ["", "Parameters", "----------"]
    for operand in record.operands:
        name = f"{operand.name}, {operand.name}_index" if isinstance(operand, Address) else operand.name
        lines += [f"{name} : {kind(operand)}", *_sentence(operand)]
    if record.result is not None:
        lines += ["", "Returns", "-------", kind(record.result), *_sentence(record.result)]
    return "\n".join(lines)


def documented(function: Any, record: Record) -> Any:
    """The function of a record, with the record's name, documentation and parameters, for Python's compilers."""
    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = docstring(record)
    function.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for name in ("typingctx", *record.parameters())
        ]
    )
    return function


def _sentence(operand: Operand) -> list[str]:
    return [f"    {operand.words[0].upper()}{operand.words[1:]}."] if operand.words else []
