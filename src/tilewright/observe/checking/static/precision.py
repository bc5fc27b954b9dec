"""TW601 and TW604: float64 arithmetic in a kernel of float32 arrays, and float64 data stored as float32.

Both follow from the kernel's PTX. The rule depends on where a float64 value comes from:

- From no float64 memory and no float64 argument: a constant, a Python float or an accumulator made it float64, and
  arithmetic on it is TW601.
- From float64 data: the caller wants float64, and narrowing it into a float32 tile is TW604. The dtype of a global
  array is the caller's choice, so a store to it is not reported.

Comparisons do not count as arithmetic. Neither does the inner code of a library, on its own lines or in a known idiom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.multiply.problem.dtypes import DTYPES
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.isa import Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.frames import package
from tilewright.simulate.translate.analysis.graph import Op, registers_of

_ARITHMETIC = (Role.SUM, Role.PRODUCT, Role.MULTIPLY_ADD, Role.FUNCTION, Role.LEAST, Role.GREATEST)
#: float64 constants that libdevice's float32 functions multiply by, to lose no accuracy: pi / 2^65, for the reduction
#: of large angles (sinf, cosf, tanf, sincosf). Source: the PTX of these functions, libdevice.10.bc.
_LIBRARY_CONSTANTS = (0x3BF921FB54442D19,)
_NAMES = {f".{record.ptx}": record.name for record in DTYPES if record.ptx and record.is_float and record.bytes < 8}
_TILES = ("shared", "local")


def findings(values: Values, kernel: str, dtypes: Sequence[np.dtype[Any]], file: str = "") -> list[Finding]:
    """The findings of a kernel launched with arrays of these dtypes.

    `file` defines the kernel: it counts as the user's even inside an installed package.
    """
    kinds = {part for dtype in dtypes for part in _parts(dtype)}
    found = _narrowed(values, kernel)
    if "f8" not in kinds and kinds & {"f2", "f4"}:
        found += _arithmetic(values, kernel, sorted({str(d) for d in dtypes if d.kind in "fc"}), file)
    return found


def _parts(dtype: np.dtype[Any]) -> set[str]:
    """The number types in a dtype: for complex64 also `f4`, for a record those of its fields."""
    if dtype.subdtype is not None:
        return _parts(dtype.subdtype[0])
    if dtype.names:
        return {part for name in dtype.names for part in _parts(dtype[name])}
    if dtype.kind == "c":
        return {f"f{dtype.itemsize // 2}"}
    return {f"{dtype.kind}{dtype.itemsize}"}


def _arithmetic(values: Values, kernel: str, dtypes: Sequence[str], file: str) -> list[Finding]:
    """TW601, one finding for each line."""
    lines: dict[tuple[str, int], list[Op]] = {}
    for op in values.ops:
        if _is_double(op) and not _is_library(values, op, file) and not _from_data(values, op.reads):
            lines.setdefault(values.key(op), []).append(op)
    found = []
    for ops in lines.values():
        opcodes = list(dict.fromkeys(op.instruction.name for op in ops))
        details = {"instructions": len(ops), "opcodes": opcodes, "dtypes": list(dtypes)}
        found.append(values.finding("TW601", ops[0], kernel, details, count=len(ops)))
    return found


def _is_double(op: Op) -> bool:
    return op.form.row.role in _ARITHMETIC and op.form.has("f64")


def _is_library(values: Values, op: Op, file: str) -> bool:
    """Whether an instruction is part of a library."""
    if any(isinstance(s, tree.Immediate) and s.value in _LIBRARY_CONSTANTS for s in op.sources):
        return True
    return package(next(iter(values.frames(op)), "")) not in ("", package(file))


def _from_data(values: Values, registers: Iterable[str]) -> bool:
    """Whether a value comes from float64 memory or a float64 argument."""
    return any(
        op.form.row.loads and (op.form.has("f64") or any(values.type_of(r) == "f64" for r in op.writes))
        for op in values.origins(registers)
    )


def _narrowed(values: Values, kernel: str) -> list[Finding]:
    """TW604, one finding for each line: float64 data narrowed and stored in shared or local memory."""
    found: dict[tuple[str, int], Finding] = {}
    for op in values.ops:
        space = next((space for space in _TILES if op.form.has(space)), "")
        if op.form.row.access != "store" or not space:
            continue
        stored = [r for operand in op.sources[1:] for r in registers_of(operand)]
        for origin in values.origins(stored, through=lambda o: o.form.row.role in (Role.COPY, Role.CHOOSE)):
            if _narrows(origin) and _from_data(values, origin.reads):
                details = {"dtype": _NAMES[origin.instruction.modifiers[-2]], "space": space}
                found.setdefault(values.key(op), values.finding("TW604", op, kernel, details))
    return list(found.values())


def _narrows(op: Op) -> bool:
    types = op.instruction.modifiers[-2:]
    return op.form.row.role is Role.CONVERT and types[-1] == ".f64" and types[0] in _NAMES
