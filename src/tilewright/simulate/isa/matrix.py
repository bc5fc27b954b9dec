"""Products of matrices by a warp.

Source: PTX ISA, section 9.7.14.5 (mma). A meaning of kind `matrix` returns the runtime function that computes the form
(`runtime/matrices.c`, `runtime/matrices_exact.c`), and the numbers to call it with.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from tilewright.simulate.isa.rounding import MODES
from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import FORMATS

rows = Table()

_LANES = 32
#: Flags of `tw_mma_integer`.
SIGNED_A, SIGNED_B, SATURATE = 1, 2, 4


def element_bits(type_: str) -> int:
    """Bits that an element occupies: 32 for tf32, 8 for floats of 6 and 4 bits."""
    return 32 if type_ == "tf32" else 8 if type_[0] == "e" else int(re.sub(r"\D", "", type_))


def extents(form: Form) -> tuple[int, int, int]:
    """Rows of A, columns of B, and the length of the dot products."""
    m, n, k = re.findall(r"\d+", form["shape"])
    return int(m), int(n), int(k)


def _counts(form: Form) -> Mapping[str, int]:
    """Registers of a lane for each matrix."""
    m, n, k = extents(form)
    products = 4 if form["atype"] == "f16" and form["shape"] == "m8n8k4" else 1
    found = {}
    for letter, elements in {"a": m * k, "b": k * n, "c": m * n, "d": m * n}.items():
        bits = element_bits(form[f"{letter}type"])
        found[letter] = products * elements * bits // (max(bits, 32) * _LANES)
    return found


_matrix = functools.partial(
    rows.row,
    section="9.7.14.5.14",
    types={"a": "b32", "b": "b32", "c": "b32", "d": "b32"},
    counts=_counts,
    kind="matrix",
    cost="tensor",
    note="exact on every GPU",
)
_floats = functools.partial(_matrix, note="the bits are those of the launch's GPU")
_quads = functools.partial(
    _floats,
    "mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype d, a, b, c;",
    shape="m8n8k4",
    alayout="row col",
    blayout="row col",
    atype="f16",
    btype="f16",
)
_plain = functools.partial(_floats, "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;")
_small = functools.partial(_floats, "mma.sync.aligned.shape.row.col.kind::f8f6f4.dtype.atype.btype.ctype d, a, b, c;")
_NARROW = "e3m2 e2m3 e2m1"


def _float_numbers(form: Form) -> tuple[int, ...]:
    *_, k = extents(form)
    return FORMATS[form["atype"]], FORMATS[form["btype"]], k, int(form["dtype"] == "f16")


@_quads(dtype="f32", ctype="f16 f32")
@_quads(dtype="f16", ctype="f16")
def mma_quads(form: Form) -> tuple[str, tuple[int, ...]]:
    """Four products of shape 8 x 8 x 4, each by eight lanes."""
    layouts = (form["alayout"] == "row") + 2 * (form["blayout"] == "col")
    return "tw_mma_quads", (layouts, int(form["dtype"] == "f16"), int(form["ctype"] == "f16"))


@_plain(shape="m16n8k8 m16n8k16", dtype="f16", atype="f16", btype="f16", ctype="f16")
@_plain(shape="m16n8k8 m16n8k16", dtype="f32", atype="f16", btype="f16", ctype="f32")
@_plain(shape="m16n8k8 m16n8k16", dtype="f32", atype="bf16", btype="bf16", ctype="f32")
@_plain(shape="m16n8k4 m16n8k8", dtype="f32", atype="tf32", btype="tf32", ctype="f32")
@_plain(shape="m16n8k16 m16n8k32", dtype="f16", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f16")
@_plain(shape="m16n8k16 m16n8k32", dtype="f32", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f32")
@_small(shape="m16n8k16 m16n8k32", dtype="f16", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f16")
@_small(shape="m16n8k16 m16n8k32", dtype="f32", atype="e4m3 e5m2", btype="e4m3 e5m2", ctype="f32")
def mma_floats(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C, in groups of products summed as the launch's GPU sums them."""
    return "tw_mma_float", _float_numbers(form)


@_small(shape="m16n8k32", dtype="f16", atype=_NARROW, btype=f"{_NARROW} e4m3 e5m2", ctype="f16")
@_small(shape="m16n8k32", dtype="f32", atype=_NARROW, btype=f"{_NARROW} e4m3 e5m2", ctype="f32")
@_small(shape="m16n8k32", dtype="f16", atype="e4m3 e5m2", btype=_NARROW, ctype="f16")
@_small(shape="m16n8k32", dtype="f32", atype="e4m3 e5m2", btype=_NARROW, ctype="f32")
def mma_narrow_floats(form: Form) -> tuple[str, tuple[int, ...]]:
    """Products of elements of 6 and 4 bits."""
    return "tw_mma_small", _float_numbers(form)


@_matrix(
    "mma.sync.aligned.shape.row.col{.rnd}.dtype.atype.btype.ctype d, a, b, c;",
    types={"a": "f64", "b": "f64", "c": "f64", "d": "f64"},
    shape="m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    rnd="rn rz rm rp",
    dtype="f64",
    atype="f64",
    btype="f64",
    ctype="f64",
    note="fused multiply-adds in ascending k, each rounded",
)
def mma_doubles(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C of float64."""
    m, _, k = extents(form)
    return "tw_mma_double", (m, k, MODES[form["rnd"] or "rn"])


_integers = functools.partial(
    _matrix, "mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c;", dtype="s32", ctype="s32"
)


@_integers(shape="m8n8k16 m16n8k16 m16n8k32", atype="s8 u8", btype="s8 u8")
@_integers(shape="m8n8k32 m16n8k32 m16n8k64", atype="s4 u4", btype="s4 u4")
def mma_integers(form: Form) -> tuple[str, tuple[int, ...]]:
    """D = A B + C, which wraps or saturates."""
    m, _, k = extents(form)
    flags = SIGNED_A * (form["atype"][0] == "s") + SIGNED_B * (form["btype"][0] == "s")
    return "tw_mma_integer", (m, k, element_bits(form["atype"]), flags + SATURATE * form.has("satfinite"))


@_matrix(
    "mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype.op.popc d, a, b, c;",
    shape="m8n8k128 m16n8k128 m16n8k256",
    dtype="s32",
    atype="b1",
    btype="b1",
    ctype="s32",
    op="xor and",
)
def mma_bits(form: Form) -> tuple[str, tuple[int, ...]]:
    """The number of bits that differ between a row and a column, or that are set in both."""
    m, _, k = extents(form)
    return "tw_mma_bits", (m, k, int(form["op"] == "and"))
