"""Products by a warp of a sparse matrix, which stores half of the elements of each row.

Source: PTX ISA, section 9.7.14.6 (mma.sp). The metadata give the places of the stored elements, and the selector the
lanes that have the metadata (`runtime/matrices_sparse.c`). Indices may be in any order, so `.sp::ordered_metadata` is
the same as `.sp`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simulate.isa.matrix import element_bits, extents
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import FORMATS, SPARSE

rows = Table()

_LANES = 32


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of a lane for each matrix; A without its zeros."""
    m, n, k = extents(form)
    sizes = {"a": m * k // 2, "b": k * n, "c": m * n, "d": m * n}
    return {letter: size * element_bits(form[f"{letter}type"]) // (32 * _LANES) for letter, size in sizes.items()}


def _numbers(form: Form) -> tuple[int, ...]:
    *_, k = extents(form)
    formats = FORMATS[form["atype"]], FORMATS[form["btype"]]
    return *formats, k, element_bits(form["atype"]), SPARSE["half"] * (form["dtype"] == "f16")


_TYPES = dict.fromkeys(("a", "b", "c", "d", "e", "selector"), "b32")
_sparse = functools.partial(
    rows.row,
    section="9.7.14.6.3",
    types=_TYPES,
    counts=_counts,
    kind="matrix",
    cost="tensor",
    sparsity="sp sp::ordered_metadata",
)
_floats = functools.partial(
    _sparse,
    "mma.sparsity.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c, e, selector;",
    note="the stored products, in groups as the launch's GPU sums those of a dense matrix",
)


@_floats(shape="m16n8k16 m16n8k32", dtype="f16", atype="f16", btype="f16", ctype="f16")
@_floats(shape="m16n8k16 m16n8k32", dtype="f32", atype="f16", btype="f16", ctype="f32")
@_floats(shape="m16n8k16 m16n8k32", dtype="f32", atype="bf16", btype="bf16", ctype="f32")
@_floats(shape="m16n8k8 m16n8k16", dtype="f32", atype="tf32", btype="tf32", ctype="f32")
@_floats(shape="m16n8k64", dtype="f32", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f32")
def mma_sparse_floats(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C."""
    return "tw_mma_sparse", _numbers(form)


#: Only in the spelling that says that the metadata are ordered.
_bytes = functools.partial(
    rows.row,
    section="9.7.14.6.3",
    types=_TYPES,
    counts=_counts,
    kind="matrix",
    cost="tensor",
    shape="m16n8k64",
    note="the stored products, in groups as the launch's GPU sums those of a dense matrix",
)
_ORDERED = "mma.sp::ordered_metadata.sync.aligned.shape.row.col"
_OPERANDS = "d, a, b, c, e, selector"
_small = functools.partial(_bytes, f"{_ORDERED}.kind::f8f6f4.dtype.atype.btype.ctype {_OPERANDS};")
_EIGHT, _NARROW = "e4m3 e5m2", "e3m2 e2m3 e2m1"


@_bytes(f"{_ORDERED}.dtype.atype.btype.ctype {_OPERANDS};", dtype="f16", atype=_EIGHT, btype=_EIGHT, ctype="f16")
@_small(dtype="f16", atype=_EIGHT, btype=_EIGHT, ctype="f16")
@_small(dtype="f32", atype=_EIGHT, btype=_EIGHT, ctype="f32")
def mma_sparse_bytes(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C of 8-bit floats."""
    return "tw_mma_sparse", _numbers(form)


@_small(dtype="f16", atype=_NARROW, btype=f"{_NARROW} {_EIGHT}", ctype="f16")
@_small(dtype="f32", atype=_NARROW, btype=f"{_NARROW} {_EIGHT}", ctype="f32")
@_small(dtype="f16", atype=_EIGHT, btype=_NARROW, ctype="f16")
@_small(dtype="f32", atype=_EIGHT, btype=_NARROW, ctype="f32")
def mma_sparse_small(form: Form) -> tuple[str, tuple[int, ...]]:
    """Sparse products of elements of 6 and 4 bits."""
    return "tw_mma_sparse_small", _numbers(form)


_integers = functools.partial(
    _sparse,
    "mma.sparsity.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c, e, selector;",
    dtype="s32",
    ctype="s32",
    note="exact on every GPU",
)


@_integers(shape="m16n8k32 m16n8k64", atype="s8 u8", btype="s8 u8")
@_integers(shape="m16n8k64 m16n8k128", atype="s4 u4", btype="s4 u4")
def mma_sparse_integers(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C, which wraps or saturates."""
    *_, k = extents(form)
    flags = SPARSE["signed_a"] * (form["atype"][0] == "s") + SPARSE["signed_b"] * (form["btype"][0] == "s")
    flags += SPARSE["saturates"] * form.has("satfinite") + SPARSE["integers"]
    return "tw_mma_sparse", (0, 0, k, element_bits(form["atype"]), flags)
