"""Products of matrices by a warp.

Source: PTX ISA, section 9.7.14.5 (mma). A meaning of kind `matrix` gives the function of the runtime that computes the
form, and the numbers that it is called with (`runtime/matrices.c`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from tilewright.simt.isa.table import Form, Table
from tilewright.simt.translate.state import FORMATS

rows = Table()

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
_RESULT_BITS = {"f16": 16, "f32": 32}


def _extents(form: Form) -> tuple[int, int, int]:
    """Rows of A, columns of B, and the length of their products."""
    m, n, k = re.findall(r"\d+", form["shape"])
    return int(m), int(n), int(k)


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of 32 bits that a lane holds of each matrix."""
    m, n, k = _extents(form)
    sizes = {"d": m * n * _RESULT_BITS[form["dtype"]], "c": m * n * _RESULT_BITS[form["ctype"]]}
    sizes |= {"a": m * k * _BITS[form["atype"]], "b": k * n * _BITS[form["btype"]]}
    return {letter: bits // (32 * 32) for letter, bits in sizes.items()}


_REGISTERS = {"a": "b32", "b": "b32", "c": "b32", "d": "b32"}
_mma = functools.partial(
    rows.row, section="9.7.14.5.14", types=_REGISTERS, counts=_counts, kind="matrix", cost="tensor"
)


@_mma(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;",
    shape="m16n8k16", dtype="f32", atype="f16", btype="f16", ctype="f32",
)  # fmt: skip
def mma(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C of floats, in groups of products as the launch's GPU adds them."""
    *_, k = _extents(form)
    halves = form["dtype"] == "f16"
    return "tw_mma_float", (FORMATS[form["atype"]], FORMATS[form["btype"]], k, int(halves))
