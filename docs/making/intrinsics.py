"""The page of the intrinsics, from their records: `make docs` writes it."""

import itertools
from pathlib import Path

from tilewright.simulate.intrinsics.documentation import kind
from tilewright.simulate.intrinsics.intrinsics import records
from tilewright.simulate.intrinsics.operands import Operand, Record, Registers

PAGE = Path(__file__).resolve().parents[1] / "intrinsics.md"
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
    return f"{kind(operand)} ({detail})" if detail else kind(operand)


if __name__ == "__main__":
    PAGE.write_text(page(records()), encoding="utf-8")
