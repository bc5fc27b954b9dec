"""The documentation of the intrinsics, from their records: the docstring of each, and the page of all."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

from tilewright.gpu.operands import Address, Constant, Operand, Record, Registers

_HEAD = """\
# Intrinsics for kernels of numba-cuda

PTX instructions as functions: they work in any kernel of `numba.cuda`, on a real GPU as on the simulated one, and need
the [extra](install.md) `gpu`. This page is printed from their records by `make docs`.

```py
from tilewright.gpu.intrinsics import ldmatrix_x4, mma_m16n8k16_f32_f16
```

- An array element is passed as to `cuda.atomic.add`: the array and its index, an integer or a tuple of integers.
  Indices are not negative.
- Several registers are a tuple, or a row of a local array: `sums[j, :] = mma_m16n8k16_f32_f16(a, b, sums[j])`. Operands
  called *32 bits* take any value of that width, such as two halves or four bytes; results are `uint32`. Vector loads
  return elements of the array's dtype if these have the width.
- Rows for `ldmatrix` and targets of copies must be aligned: `cuda.shared.array(shape, dtype, alignment=16)`; boxes to
  128 bytes, swizzled ones to 1,024.
- Accumulators of `wgmma` stay in a tuple: `sums = wgmma_m64n64k16_f32_bf16(sums, a, b, True, 0, 0)`. They start from a
  tuple outside the kernel, `ZEROS = (np.float32(0),) * 32`. A local array would be written before the product is done.
- The layout of a matrix in shared memory is a number from `matrix_layout(swizzle, leading, stride)`, which also works
  outside the kernel. A tensor map is an array of 16 `uint64` from the driver's `cuTensorMapEncodeTiled`;
  `tilewright.simt.launch` and `check` take a `TensorMap` instead.
"""


def _kind(operand: Operand) -> str:
    """An operand in words, for the page."""
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
        lines += [f"{name} : {_kind(operand)}", *_sentence(operand)]
    if record.result is not None:
        lines += ["", "Returns", "-------", _kind(record.result), *_sentence(record.result)]
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


def page(records: tuple[Record, ...]) -> str:
    """The page of the documentation, in Markdown."""
    lines = [_HEAD]
    for section, group in itertools.groupby(records, lambda record: record.section):
        lines += [f"## {section}", "", "| call | takes | returns | PTX | from |", "|---|---|---|---|---|"]
        lines += [_row(record) for record in group]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(record: Record) -> str:
    takes = "; ".join(f"`{operand.name}`: {_detailed(operand)}" for operand in record.operands)
    returns = "" if record.result is None else _detailed(record.result)
    cells = (f"`{record.call()}`: {record.words}", takes, returns, f"`{record.form}`", ".".join(map(str, record.cc)))
    return f"| {' | '.join(_cell(text) for text in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _detailed(operand: Operand) -> str:
    detail = operand.words
    if isinstance(operand, Registers) and operand.like:
        detail = f"of the dtype of `{operand.like}`"
    return f"{_kind(operand)} ({detail})" if detail else _kind(operand)
