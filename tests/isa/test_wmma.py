"""Products of fragments: matrices in memory in every layout, against NumPy's products of small whole numbers."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate import isa

TILES = ("m16n16k16", "m32n8k16", "m8n32k16")
#: NumPy's type of an element in memory, by that of PTX; s4, u4 and b1 are packed.
TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
    "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}  # fmt: skip
BITS = {"s4": 4, "u4": 4, "b1": 1}
#: (shape, the types of A and B, of C and of D), and the product's name without them.
PRODUCTS = [
    *((shape, "f16", c, d, "") for shape in TILES for c in ("f16", "f32") for d in ("f16", "f32")),
    *((shape, "bf16", "f32", "f32", "") for shape in TILES),
    *((shape, type_, "s32", "s32", "") for shape in TILES for type_ in ("s8", "u8")),
    ("m16n16k8", "tf32", "f32", "f32", ""),
    ("m8n8k4", "f64", "f64", "f64", ""),
    ("m8n8k32", "s4", "s32", "s32", ""),
    ("m8n8k32", "u4", "s32", "s32", ""),
    ("m8n8k128", "b1", "s32", "s32", ".xor.popc"),
    ("m8n8k128", "b1", "s32", "s32", ".and.popc"),
]
HEAD = """.version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {
.reg .b32 %a<8>, %b<8>, %c<8>, %d<8>, %t, %v, %i, %s; .reg .f64 %fa<8>, %fb<8>, %fc<8>, %fd<8>;
.reg .b64 %pa, %pb, %pc, %pd, %l, %w; .reg .pred %p;
.shared .align 128 .b8 s[8192];
ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %pd, [d]; mov.u32 %t, %tid.x;
"""


def extents(shape: str) -> dict[str, tuple[int, int]]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return {"a": (int(m), int(k)), "b": (int(k), int(n)), "c": (int(m), int(n)), "d": (int(m), int(n))}


def registers(form: isa.Form, letter: str, fragment: str) -> str:
    count = form.lists[letter]
    return "{" + ", ".join(f"%{'f' if form.type_of(letter) == 'f64' else ''}{fragment}{i}" for i in range(count)) + "}"


def move(fragment: str, layout: str, shape: str, type_: str, address: str, stride: int | str, space: str = ".global"):
    """A load of a, b or c, or a store of d."""
    kind = "store" if fragment == "d" else "load"
    name = f"wmma.{kind}.{fragment}.sync.aligned.{layout}.{shape}{space}.{type_}"
    held = registers(isa.table().find(name), "b" if fragment == "d" else "d", fragment)
    stride = f", {stride}" if stride else ""
    return f"{name} {address}, {held}{stride};" if fragment == "d" else f"{name} {held}, {address}{stride};"


def product(shape: str, inner: str, c: str, d: str, op: str, layouts: tuple[str, str], more: str = "") -> str:
    types = f"{d}.{c}" if inner == "f16" else f"{d}.{inner}.{inner}.{c}"
    name = f"wmma.mma{op}.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types}{more}"
    form = isa.table().find(name)
    return f"{name} " + ", ".join(registers(form, letter, letter) for letter in "dabc") + ";"


def numbers(rng: np.random.Generator, shape: tuple[int, int], type_: str) -> np.ndarray:
    if type_ == "b1":
        return rng.integers(0, 2, shape)
    low = 0 if type_[0] == "u" else -4
    return rng.integers(low, 4, shape)


def stored(matrix: np.ndarray, type_: str, layout: str, pitch: int) -> np.ndarray:
    """A matrix in memory, its lines `pitch` elements apart, with other values between them."""
    lines = matrix if layout == "row" else matrix.T
    memory = np.full((lines.shape[0], pitch), 1, np.int64)
    memory[:, : lines.shape[1]] = lines
    if type_ not in BITS:
        return memory.astype(TYPES[type_])
    bits = BITS[type_]
    packed = (memory.reshape(-1, 8 // bits) & (1 << bits) - 1) << np.arange(0, 8, bits)
    return packed.sum(axis=1).astype(np.uint8)


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, op: str) -> np.ndarray:
    if not op:
        return a @ b + c
    pairs = a[:, :, None] ^ b[None] if "xor" in op else a[:, :, None] & b[None]
    return pairs.sum(axis=1) + c


def run(case: tuple[str, str, str, str, str], layouts: tuple[str, str, str, str], more: int, seed: int = 0) -> None:
    """Load, multiply, store; lines have `more` pieces of 16 bytes between them."""
    shape, inner, c_type, d_type, op = case
    types = {"a": inner, "b": inner, "c": c_type, "d": d_type}
    rng, size = np.random.default_rng(seed), extents(shape)
    values = {name: numbers(rng, size[name], types[name]) for name in "abc"}
    bits = {name: BITS.get(t) or 8 * np.dtype(TYPES[t]).itemsize for name, t in types.items()}
    pitch = {
        name: size[name][layout == "row"] + more * 128 // bits[name]
        for name, layout in zip("abcd", layouts, strict=True)
    }
    memory = {
        name: stored(values[name], types[name], layout, pitch[name])
        for name, layout in zip("abc", layouts, strict=False)
    }
    m, n = size["d"]
    d = np.zeros(((m, n) if layouts[3] == "row" else (n, m))[0] * pitch["d"], TYPES[d_type])
    strides = {name: pitch[name] if more else 0 for name in "abcd"}
    body = [
        move(name, layout, shape, types[name], f"[%p{name}]", strides[name])
        for name, layout in zip("abc", layouts, strict=False)
    ]
    body += [
        product(shape, inner, c_type, d_type, op, layouts[:2]),
        move("d", layouts[3], shape, d_type, "[%pd]", strides["d"]),
    ]
    launch(Program.from_ptx(HEAD + "\n".join(body) + "\nret; }"), 1, 32, (*memory.values(), d))
    lines = d.reshape(-1, pitch["d"])
    got = lines[:, : size["d"][1]] if layouts[3] == "row" else lines[:, : size["d"][0]].T
    np.testing.assert_array_equal(got.astype(np.float64), expected(*values.values(), op), err_msg=str((case, layouts)))
    assert not lines[:, (n if layouts[3] == "row" else m) :].any(), "what lies between the lines is written"


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: "-".join(filter(None, case)))
def test_products(case):
    small = case[1] in BITS
    layouts = [("row", "col")] * 2 if small else itertools.product(("row", "col"), repeat=2)
    # Each is loaded or stored by itself: every layout of it by either pitch, not each with every other.
    for (of_a, of_b), sums in zip(layouts, ("row", "col", "col", "row"), strict=False):
        run(case, (of_a, of_b, sums, sums), 1 if sums == "row" else 0)


def test_integers_wrap_or_saturate():
    for more, want in (("", -(1 << 31)), (".satfinite", (1 << 31) - 1)):
        a, b, c, d = np.ones((16, 16), np.int8), np.eye(16, dtype=np.int8), np.full((16, 16), (1 << 31) - 1, "i4"), None
        d = np.zeros_like(c)
        text = [move(x, "row", "m16n16k16", "s8" if x in "ab" else "s32", f"[%p{x}]", 16) for x in "abc"]
        text += [
            product("m16n16k16", "s8", "s32", "s32", "", ("row", "row"), more),
            move("d", "row", "m16n16k16", "s32", "[%pd]", 16),
        ]
        launch(Program.from_ptx(HEAD + "\n".join(text) + "\nret; }"), 1, 32, (a, b, c, d))
        assert (d == want).all()


@pytest.mark.parametrize(
    ("rounding", "of_ones", "of_minus_ones"),
    [("", 1.0, -1.0), (".rn", 1.0, -1.0), (".rz", 1.0, -1.0 + 2**-53),
     (".rm", 1.0, -1.0), (".rp", 1.0 + 2**-52, -1.0 + 2**-53)],
)  # fmt: skip
def test_float64_is_rounded_as_the_name_says(rounding, of_ones, of_minus_ones):
    a, b, d = np.full((8, 4), 2.0**-40), np.zeros((4, 8)), np.zeros((8, 8))
    b[2] = 2.0**-40  # 2^-80 is added once
    c = np.repeat([[1.0], [-1.0]], 4, axis=0) * np.ones((8, 8))
    text = [move(x, "row", "m8n8k4", "f64", f"[%p{x}]", 0) for x in "abc"]
    name = f"wmma.mma.sync.aligned.row.row.m8n8k4{rounding}.f64.f64.f64.f64"
    form = isa.table().find(name)
    text += [
        f"{name} " + ", ".join(registers(form, letter, letter) for letter in "dabc") + ";",
        move("d", "row", "m8n8k4", "f64", "[%pd]", 0),
    ]
    launch(Program.from_ptx(HEAD + "\n".join(text) + "\nret; }"), 1, 32, (a, b, c, d))
    assert (d[:4] == of_ones).all()
    assert (d[4:] == of_minus_ones).all()


#: Copy a matrix of 512 bytes into shared memory; leave its address in %l.
SHARED = """mul.wide.u32 %w, %t, 16; add.u64 %l, %pa, %w; cvt.u32.u64 %i, %w; mov.u32 %s, s; add.u32 %s, %s, %i;
ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%l]; st.shared.v4.u32 [%s], {%a0, %a1, %a2, %a3}; bar.warp.sync 0xffffffff;
mov.u64 %l, s;
"""


@pytest.mark.parametrize(("space", "window"), [(".shared", ""), (".shared::cta", ""), ("", "cvta.shared.u64 %l, %l;")])
def test_fragments_of_shared_memory(space, window):
    a = np.random.default_rng(1).integers(-9, 9, (16, 16)).astype(np.float16)
    out = np.zeros((16, 16), np.float16)
    text = [
        SHARED, window, move("c", "row", "m16n16k16", "f16", "[%l]", 16, space),
        *(f"mov.b32 %d{i}, %c{i};" for i in range(4)), move("d", "col", "m16n16k16", "f16", "[%l]", 16, space),
        "bar.warp.sync 0xffffffff;", move("c", "row", "m16n16k16", "f16", "[%l]", 16, space),
        *(f"mov.b32 %d{i}, %c{i};" for i in range(4)), move("d", "row", "m16n16k16", "f16", "[%pd]", 16),
    ]  # fmt: skip
    program = Program.from_ptx(HEAD + "\n".join(text) + "\nret; }")
    launch(program, 1, 32, (a, a, a, out))
    np.testing.assert_array_equal(out, a.T)
    assert list(tw.check(program, 1, 32, (a, a, a, out))) == []
    counts = tw.profile(program, 1, 32, (a, a, a, out)).totals
    assert (counts.shared_loads.requests, counts.shared_loads.wavefronts) == (2, 8)


@pytest.mark.parametrize(
    ("change", "said"),
    [("add.u64 %pa, %pa, 8;", "misaligned global load of 16 bytes"),
     ("add.u64 %pa, %pa, 1073741824;", "out of bounds global load of 16 bytes")],
)  # fmt: skip
def test_faults(change, said):
    a = np.zeros((16, 16), np.float16)
    text = HEAD + change + move("a", "row", "m16n16k16", "f16", "[%pa]", 16) + " ret; }"
    with pytest.raises(tw.KernelError, match=said):
        launch(Program.from_ptx(text), 1, 32, (a, a, a, a))


def test_check_finds_lines_beyond_the_array():
    a = np.zeros((16, 16), np.float16)
    text = HEAD + move("a", "row", "m16n16k16", "f16", "[%pa]", 24) + " ret; }"
    found = tw.check(Program.from_ptx(text), 1, 32, (a, a, a, a))
    assert [f.opcode.rpartition(".")[0] for f in found if f.code == "TW101"] == [
        "wmma.load.a.sync.aligned.row.m16n16k16.global"
    ]


#: A product of float16 or tf32 by `wmma`, and by the products of `mma` that the assembler makes of it.
PARTS = {
    "f16": ("m16n16k16", ".f32.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 1),
    "tf32": ("m16n16k8", ".f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 2),
}


@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("type_", PARTS)
def test_bits_are_those_of_the_products_that_it_consists_of(type_, gpu):
    shape, types, part, of_a, of_b, steps = PARTS[type_]
    k = extents(shape)["a"][1]
    rng = np.random.default_rng(6)
    dtype = TYPES[type_]
    a, b = ((rng.standard_normal(s) * 2.0 ** rng.integers(-6, 6, s)).astype(dtype) for s in ((16, k), (k, 16)))
    if type_ == "tf32":
        a, b = ((each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (a, b))
    c = rng.standard_normal((16, 16)).astype(np.float32)
    loads = [move(x, "row", shape, t, f"[%p{x}]", 0) for x, t in (("a", type_), ("b", type_), ("c", "f32"))]
    stores = move("d", "row", shape, "f32", "[%pd]", 0)
    form = isa.table().find(f"wmma.mma.sync.aligned.row.row.{shape}{types}")
    whole = f"{form.name} " + ", ".join(registers(form, x, x) for x in "dabc") + ";"
    parts = [f"mov.b32 %d{i}, %c{i};" for i in range(8)]
    for tile, step in itertools.product(range(2), range(steps)):
        lists = [
            [f"%a{step * of_a + i}" for i in range(of_a)],
            [f"%b{(tile * steps + step) * of_b + i}" for i in range(of_b)],
            [f"%d{4 * tile + i}" for i in range(4)],
        ]
        braces = ["{" + ", ".join(names) + "}" for names in lists]
        parts.append(f"{part} {braces[2]}, {braces[0]}, {braces[1]}, {braces[2]};")
    results = []
    for body in ([whole], parts):
        d = np.zeros((16, 16), np.float32)
        launch(Program.from_ptx(HEAD + "\n".join([*loads, *body, stores]) + "\nret; }"), 1, 32, (a, b, c, d), gpu=gpu)
        results.append(d)
    np.testing.assert_array_equal(*(d.view(np.uint32) for d in results))
    np.testing.assert_allclose(results[0], a.astype(np.float64) @ b.astype(np.float64) + c, rtol=1e-3, atol=1e-2)
