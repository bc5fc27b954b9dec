"""Products of matrices by a warp in fragments whose layout the manual leaves open (PTX ISA 9.7.14.4, wmma).

Here a fragment is that of the `mma` instructions that a product consists of: two tiles of 16 x 8 results, or one of
8 x 8. With 8 rows and 32 columns they compute the transposed product. Fragments of float16 have eight registers; if
fewer hold the matrix, the later ones repeat the first, as on GPUs since sm_75.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.simulate.isa.table import Form, Table

rows = Table()

_TILES = "m16n16k16 m32n8k16 m8n32k16"
#: By the bits of an element: m, n and k of the `mma` of a fragment's tiles.
_INNER = {16: (16, 8, 16), 8: (16, 8, 16), 32: (16, 8, 8), 64: (8, 8, 4), 4: (8, 8, 32), 1: (8, 8, 128)}
_HALF_REGISTERS = 8


@dataclass(frozen=True)
class Fragment:
    """The layout of a matrix in a warp: row and column of each element of each register of each lane."""

    rows: int
    columns: int
    bits: int  #: Bits of an element.
    #: Row and column by register, lane and element of the register.
    places: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]


def bits_of(type_: str) -> int:
    """Bits of an element in memory and registers."""
    return 32 if type_ == "tf32" else int(re.sub(r"\D", "", type_))


def _extents(shape: str) -> tuple[int, int, int]:
    m, n, k = map(int, re.findall(r"\d+", shape))
    return m, n, k


def _tile(matrix: str, bits: int, extents: tuple[int, int, int]) -> list[list[list[tuple[int, int]]]]:
    """One tile's places. Source: PTX ISA, 9.7.14.5.1 to 9.7.14.5.13: g is the groupID, t the threadID_in_group."""
    m, n, k = extents
    each, high = max(1, 32 // bits), m // 8

    def place(register: int, lane: int, i: int) -> tuple[int, int]:
        g, t = lane // 4, lane % 4
        if matrix == "a":
            return g + 8 * (register % high), register // high * 4 * each + t * each + i
        if matrix == "b":
            return register * 4 * each + t * each + i, g
        element = register * each + i
        return g + 8 * (element // 2), 2 * t + element % 2

    elements = {"a": m * k, "b": k * n, "c": m * n}[matrix]
    return [
        [[place(register, lane, i) for i in range(each)] for lane in range(32)]
        for register in range(elements // (32 * each))
    ]


@functools.cache
def fragment(shape: str, matrix: str, type_: str, inner_type: str) -> Fragment:
    """The fragment of matrix `a`, `b` or `c` of a shape; `inner_type` is the type of A's and B's elements.

    Raises ValueError: no such shape has this type.
    """
    m, n, k = _extents(shape)
    inner = _INNER.get(bits_of(inner_type), (8, 8, 0))
    if k != inner[2] or m * n < inner[0] * inner[1]:
        raise ValueError(f"no fragment of {shape} has elements of {inner_type}")
    bits, turned = bits_of(type_), m < inner[0]
    part = {"a": "b", "b": "a", "c": "c"}[matrix] if turned else matrix
    tiles = {
        "a": (n if turned else m) // inner[0],
        "b": (m if turned else n) // inner[1],
        "c": m * n // (inner[0] * inner[1]),
    }
    found = []
    for number in range(tiles[part]):
        down, right = (
            (number * inner[0], 0) if part == "a" or (part == "c" and tiles["a"] > 1) else (0, number * inner[1])
        )
        for register in _tile(part, bits, inner):
            moved = [[(row + down, column + right) for row, column in lane] for lane in register]
            found.append(tuple(tuple((c, r) if turned else (r, c) for r, c in lane) for lane in moved))
    if inner_type == "f16" and matrix != "c":
        found *= _HALF_REGISTERS // len(found)
    extents = {"a": (m, k), "b": (k, n), "c": (m, n)}[matrix]
    return Fragment(*extents, bits, tuple(found))


#: The type of A's and B's elements, for shapes that fix it; for two tiles all types give the same layout of sums.
_OF_SHAPE = {"m16n16k8": "tf32", "m8n8k4": "f64", "m8n8k32": "s4", "m8n8k128": "b1"}


def moved(form: Form) -> Fragment:
    """The fragment that a load or store moves."""
    matrix = form.row.syntax.split(".")[2]
    inner = form["etype"] if matrix in "ab" else _OF_SHAPE.get(form["shape"], "")
    return fragment(form["shape"], "c" if matrix == "d" else matrix, form["etype"], inner or "s8")


def _moved_count(form: Form) -> Mapping[str, int]:
    return {"d" if form.row.writes else "b": len(moved(form).places)}


_moves = functools.partial(
    rows.placed,
    counts=_moved_count,
    kind="fragment",
    cost="memory",
    fixed=2,
    space="global shared shared::cta",
    layout="row col",
    note="each line is one access of 16 bytes by one lane",
)


def _add_moves() -> None:
    """Loads of A, B and C and stores of D, of the shapes that each type has."""
    factors = ((_TILES, "f16 bf16 s8 u8"), ("m16n16k8", "tf32"), ("m8n8k4", "f64"))
    small = (("m8n8k32", "s4 u4"), ("m8n8k128", "b1"))
    sums = ((_TILES, "f16"), (f"{_TILES} m16n16k8", "f32"), (f"{_TILES} m8n8k32 m8n8k128", "s32"), ("m8n8k4", "f64"))
    for matrix, kinds in ("a", factors), ("b", factors), ("c", sums), ("d", sums), ("a", small), ("b", small):
        for shapes, types in kinds:
            layout = ("row" if matrix == "a" else "col") if kinds is small else "layout"
            name = f"{'store' if matrix == 'd' else 'load'}.{matrix}.sync.aligned.{layout}.shape{{.space}}.etype"
            operands = "[a], b{, stride}" if matrix == "d" else "d, [a]{, stride}"
            register = "f64" if types == "f64" else "b32"
            section = "9.7.14.4.4" if matrix == "d" else "9.7.14.4.3"
            held = {"d": register, "b": register, "stride": "u32"}
            _moves(f"wmma.{name} {operands};", section=section, shape=shapes, etype=types, types=held)


_add_moves()


@dataclass(frozen=True)
class Tiles:
    """The `mma` products that a product consists of."""

    inner: str  #: The name of their form.
    turned: bool  #: Whether they multiply the transposed matrices.
    across: int  #: Number of tiles down (of its A) and across (of its B).
    down: int
    steps: int  #: Number of successive products along k for one tile.


def _factors(form: Form) -> tuple[str, str]:
    """The types of A's elements, and of C's."""
    return form["atype"] or "f16", form["ctype"]


def _product_counts(form: Form) -> Mapping[str, int]:
    inner, sums = _factors(form)
    types = {"a": inner, "b": inner, "c": sums, "d": form["dtype"]}
    return {
        letter: len(fragment(form["shape"], "c" if letter == "d" else letter, type_, inner).places)
        for letter, type_ in types.items()
    }


def _tiles(form: Form, name: str) -> Tiles:
    """The products of a form; for tf32 the assembler makes two along k (HMMA.1684), for all others one."""
    type_ = _factors(form)[0]
    m, n, _ = _extents(form["shape"])
    high, wide, k = _INNER[bits_of(type_)]
    turned, steps = m < high, 2 if type_ == "tf32" else 1
    down, across = (n, m) if turned else (m, n)
    inner = f"mma.sync.aligned.m{high}n{wide}k{k // steps}.row.col{name}"
    return Tiles(inner, turned, across // wide, down // high, steps)


_product = functools.partial(
    rows.row,
    section="9.7.14.4.5",
    types=dict.fromkeys("abcd", "b32"),
    counts=_product_counts,
    kind="product",
    cost="tensor",
    note="bits as those of the mma products that it consists of",
)
_layouts = functools.partial(_product, fixed=1, alayout="row col", blayout="row col")
_typed = functools.partial(
    _layouts, "wmma.mma.sync.aligned.alayout.blayout.shape.dtype.atype.btype.ctype{.satfinite} d, a, b, c;"
)


@_layouts(
    "wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype d, a, b, c;",
    shape=_TILES,
    dtype="f16 f32",
    ctype="f16 f32",
)
def halves(form: Form) -> Tiles:
    """D = A B + C of float16; summed in float32 unless both C and D are float16."""
    sums = "f16" if form["dtype"] == form["ctype"] == "f16" else "f32"
    return _tiles(form, f".{sums}.f16.f16.{sums}")


_PLAIN = "wmma.mma.sync.aligned.alayout.blayout.shape{}.dtype.atype.btype.ctype d, a, b, c;"
_plain, _rounded = (functools.partial(_layouts, _PLAIN.format(part)) for part in ("", "{.rnd}"))


@_plain(shape=_TILES, dtype="f32", atype="bf16", btype="bf16", ctype="f32")
@_plain(shape="m16n16k8", dtype="f32", atype="tf32", btype="tf32", ctype="f32")
@_rounded(
    shape="m8n8k4",
    rnd="rn rz rm rp",
    dtype="f64",
    atype="f64",
    btype="f64",
    ctype="f64",
    types=dict.fromkeys("abcd", "f64"),
)
def floats(form: Form) -> Tiles:
    """D = A B + C of floats."""
    types = ".".join(form[part] for part in ("dtype", "atype", "btype", "ctype"))
    return _tiles(form, f".{form['rnd']}.{types}" if form["rnd"] else f".{types}")


_small = functools.partial(
    _product, "wmma.mma.sync.aligned.row.col.shape.dtype.atype.btype.ctype{.satfinite} d, a, b, c;", fixed=1
)


@_typed(shape=_TILES, dtype="s32", atype="s8", btype="s8", ctype="s32")
@_typed(shape=_TILES, dtype="s32", atype="u8", btype="u8", ctype="s32")
@_small(shape="m8n8k32", dtype="s32", atype="s4", btype="s4", ctype="s32")
@_small(shape="m8n8k32", dtype="s32", atype="u4", btype="u4", ctype="s32")
def integers(form: Form) -> Tiles:
    """D = A B + C, which wraps or saturates."""
    return _tiles(form, f"{'.satfinite' * form.has('satfinite')}.s32.{form['atype']}.{form['btype']}.s32")


@_product(
    "wmma.mma.op.popc.sync.aligned.row.col.shape.dtype.atype.btype.ctype d, a, b, c;",
    fixed=3,
    shape="m8n8k128",
    op="xor and",
    dtype="s32",
    atype="b1",
    btype="b1",
    ctype="s32",
)
def bits(form: Form) -> Tiles:
    """The number of bits that differ between a row and a column, or that are set in both."""
    return _tiles(form, f".s32.b1.b1.s32.{form['op']}.popc")
