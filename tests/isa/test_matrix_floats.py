"""Products of matrices of floats, against exact numbers, on each architecture whose rules are published."""

from __future__ import annotations

import random

import numpy as np
import oracle_matrix
import pytest
from fragments import extents, gathered, spread
from matrix_batch import run
from narrow_hosts import use_host

#: A GPU of each compute capability that the oracle knows.
GPUS = {"7.0": "v100", "7.5": "t4", "8.0": "a100", "8.9": "l4", "9.0": "h100", "10.0": "b200", "12.0": "rtx5090"}
#: Shapes, and types of A, B, and C and D.
FORMS = [
    *((shape, "f16", "f16", c) for shape in ("m16n8k8", "m16n8k16") for c in ("f16", "f32")),
    *((shape, "bf16", "bf16", "f32") for shape in ("m16n8k8", "m16n8k16")),
    *((shape, "tf32", "tf32", "f32") for shape in ("m16n8k4", "m16n8k8")),
    *(
        (shape, a, b, c)
        for shape in ("m16n8k16", "m16n8k32")
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
        for c in ("f16", "f32")
    ),
]


def patterns(name: str, count: int, rng: random.Random, style: str) -> list[int]:
    """Bit patterns of a format: of all kinds, near each other, or of any exponent."""
    exponent_bits, fraction_bits, _ = oracle_matrix.FORMATS[name]
    width, finite = 1 + exponent_bits + fraction_bits, name in oracle_matrix.FINITE
    most = (1 << exponent_bits) - 1 + finite
    specials = [0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, (most << fraction_bits) - 1]
    rare = (
        [(1 << (width - 1)) - 1] if finite else [most << fraction_bits, most << fraction_bits | 1, (1 << width - 1) - 1]
    )
    centre = rng.randrange(1, most)
    found = []
    for _ in range(count):
        kind = rng.random()
        if style == "specials" and kind < 0.02:
            bits = rng.choice(rare)
        elif style != "near" and kind < 0.15:
            bits = rng.choice(specials)
        elif style == "wide":
            bits = rng.randrange(most << fraction_bits)
        else:
            field = min(max(centre + rng.randrange(-3, 4), 0), most - 1)
            bits = field << fraction_bits | rng.getrandbits(fraction_bits)
        if exponent_bits == 4 and bits == 0x7F and style != "specials":  # the one NaN
            bits = 0x7E
        bits |= rng.getrandbits(1) << (width - 1)
        if name == "tf32":
            bits = bits << 13 | rng.getrandbits(13)
        elif finite:  # the other bits of its byte are ignored
            bits = (bits | rng.getrandbits(8) << width) & 0xFF
            bits = (bits << 2 | rng.getrandbits(2)) & 0xFF if name == "e2m1" else bits
        found.append(bits)
    return found


def matrices(name: str, shape: tuple[int, int, int], rng: random.Random, style: str) -> np.ndarray:
    """Matrices of a format: (cases, rows, columns)."""
    cases, rows, columns = shape
    each = [patterns(name, rows * columns, rng, style) for _ in range(cases)]
    return np.array(each, np.uint64).reshape(shape)


STYLES = ("near", "wide", "any", "specials")


def wrong(form: tuple[str, str, str, str], capability: str, cases: int, style: str, kind: str = "") -> list[str]:
    """Where a form differs from the oracle."""
    shape, of_a, of_b, of_c = form
    m, n, k = extents(shape)
    rng = random.Random(f"{form} {capability} {style}")
    a = matrices(of_a, (cases, m, k), rng, style)
    b = matrices(of_b, (cases, k, n), rng, style)
    c = matrices(of_c, (cases, m, n), rng, style)
    bits = {"f16": 16, "f32": 32, "bf16": 16, "tf32": 32, **dict.fromkeys(("e4m3", "e5m2", *oracle_matrix.FINITE), 8)}
    name = f"mma.sync.aligned.{shape}.row.col{kind}.{of_c}.{of_a}.{of_b}.{of_c}"
    operands = [spread(a, shape, "a", bits[of_a]), spread(b, shape, "b", bits[of_b]), spread(c, shape, "c", bits[of_c])]
    d = gathered(run(name, operands, operands[2].shape[1], 32, GPUS[capability]), shape, "d", bits[of_c])
    across = b.swapaxes(1, 2)
    wanted = oracle_matrix.dot(a[:, :, None], across[:, None], c, (of_a, of_b, of_c), capability).astype(d.dtype)
    found = []
    for case, row, column in np.argwhere(d != wanted):
        terms = [list(map(hex, line.tolist())) for line in (a[case, row], across[case, column])]
        found.append(f"{name} {style} [{row}, {column}]: {d[case, row, column]:#x}, must be "
                     f"{wanted[case, row, column]:#x}; {terms}, c {c[case, row, column]:#x}")  # fmt: skip
    return found


def known(form: tuple[str, str, str, str], capability: str) -> bool:
    """Whether the oracle has a rule."""
    if form[1] in ("e4m3", "e5m2"):
        return capability in ("8.9", "9.0", "10.0", "12.0")
    return form[1] in oracle_matrix.RULES[capability]


CASES = [
    pytest.param(form, capability, id=f"{'-'.join(form)}-{capability}")
    for form in FORMS
    for capability in GPUS
    if known(form, capability)
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("form", "capability"), CASES)
def test_products_are_those_of_the_published_formula(form, capability, style):
    assert wrong(form, capability, 1, style) == []


@pytest.mark.volume
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("form", "capability"), CASES)
def test_a_hundred_thousand_products(form, capability, style):
    runs = len(STYLES) * sum(known(form, other) for other in GPUS)
    assert wrong(form, capability, -(-100_000 // (16 * 8 * runs)), style) == []


# -- elements of 8, 6 and 4 bits --------------------------------------------------------------------------------------

SMALL = ("e4m3", "e5m2", *oracle_matrix.FINITE)
KIND = ".kind::f8f6f4"


@pytest.mark.parametrize("of_c", ["f16", "f32"])
@pytest.mark.parametrize("of_b", SMALL)
@pytest.mark.parametrize("of_a", SMALL)
@pytest.mark.parametrize("cases", [1, pytest.param(196, marks=pytest.mark.volume)])
def test_small_floats_are_added_as_those_of_8_bits(of_a, of_b, of_c, cases):
    for style in STYLES:
        assert wrong(("m16n8k32", of_a, of_b, of_c), "12.0", cases, style, KIND) == []


def test_small_floats_have_one_rule_on_every_gpu_and_those_of_8_bits_their_own():
    for capability in ("8.9", "10.0"):
        assert wrong(("m16n8k32", "e2m1", "e3m2", "f32"), capability, 1, "wide", KIND) == []
        assert wrong(("m16n8k16", "e4m3", "e5m2", "f32"), capability, 1, "wide", KIND) == []


def test_small_floats_are_where_the_manual_has_them():
    sixes, ones = np.full((1, 16, 32), 0x1C, np.uint64), np.full((1, 32, 8), 0x08, np.uint64)  # 6 of e2m1, 1 of e2m3
    c = np.zeros((1, 16, 8), np.uint64)
    operands = [spread(sixes, "m16n8k32", "a", 8), spread(ones, "m16n8k32", "b", 8), spread(c, "m16n8k32", "c", 32)]
    for name in ("m16n8k32.row.col.kind::f8f6f4", "kind::f8f6f4.m16n8k32.row.col"):  # the assembler takes both
        d = run(f"mma.sync.aligned.{name}.f32.e2m1.e2m3.f32", operands, 4, 32, "rtx5090")
        assert (d.view(np.float32) == 6 * 32).all()


# -- m8n8k4 -----------------------------------------------------------------------------------------------------------

LAYOUTS = [(a, b) for a in ("row", "col") for b in ("row", "col")]
RESULTS = [("f32", "f32"), ("f32", "f16"), ("f16", "f16")]


def quad_places(matrix: str, layout: str, bits: int) -> np.ndarray:
    """Row and column of each element of each lane in m8n8k4, as the manual has it: (32 lanes, elements, 2)."""
    found = []
    for lane in range(32):
        x = lane % 4 if lane < 16 else lane % 4 + 4
        if matrix == "a":
            found.append([(x, i) if layout == "row" else (i % 4 + x - lane % 4, lane % 4) for i in range(4)])
        elif matrix == "b":
            found.append([(lane % 4, i + x - lane % 4) if layout == "row" else (i, x) for i in range(4)])
        elif bits == 16:
            found.append([(x, i) for i in range(8)])
        else:
            x = lane % 2 if lane < 16 else lane % 2 + 4
            found.append([(x + (i & 2), (i & 4) + (lane & 2) + (i & 1)) for i in range(8)])
    return np.array(found)


def quad_spread(matrices: np.ndarray, matrix: str, layout: str, bits: int) -> np.ndarray:
    """Four matrices a case (cases, 4, rows, columns) as registers; lanes 4g to 4g + 3 and those 16 on have number g."""
    at = quad_places(matrix, layout, bits)
    number = np.arange(32)[:, None] % 16 // 4
    elements = matrices[:, number, at[..., 0], at[..., 1]].astype(np.uint64)
    each = 32 // bits
    words = (elements.reshape(len(matrices), 32, -1, each) << np.arange(0, 32, bits, dtype=np.uint64)).sum(axis=-1)
    return words.transpose(0, 2, 1).astype(np.uint32)


def quad_gathered(registers: np.ndarray, bits: int) -> np.ndarray:
    """D of four matrices a case."""
    at, number = quad_places("d", "row", bits), np.arange(32)[:, None] % 16 // 4
    words = registers.transpose(0, 2, 1).astype(np.uint64)[..., None]
    elements = words >> np.arange(0, 32, bits, dtype=np.uint64) & np.uint64((1 << bits) - 1)
    found = np.full((len(registers), 4, 8, 8), np.uint64(0xDEAD))
    found[:, number, at[..., 0], at[..., 1]] = elements.reshape(len(registers), 32, -1)
    return found


#: Layouts change no sum: all kinds of values in one layout, one kind in each other layout.
LAID_OUT = [
    pytest.param(
        layouts, style, id=f"{'-'.join(layouts)}-{style}", marks=[] if i in (0, j + 1) else [pytest.mark.volume]
    )
    for i, layouts in enumerate(LAYOUTS) for j, style in enumerate(STYLES)
]  # fmt: skip


@pytest.mark.parametrize("capability", ["7.0", "7.5", "8.0", "9.0"])
@pytest.mark.parametrize("results", RESULTS, ids="-".join)
@pytest.mark.parametrize(("layouts", "style"), LAID_OUT)
@pytest.mark.parametrize("cases", [1, pytest.param(25, marks=pytest.mark.volume)])
def test_four_products_of_eight_lanes(layouts, results, capability, style, cases):
    of_d, of_c = results
    rng = random.Random(f"{layouts} {results} {capability} {style}")
    a, b = (matrices("f16", (4 * cases, *shape), rng, style).reshape(cases, 4, *shape) for shape in ((8, 4), (4, 8)))
    c = matrices(of_c, (4 * cases, 8, 8), rng, style).reshape(cases, 4, 8, 8)
    widths = {"f16": 16, "f32": 32}
    operands = [quad_spread(a, "a", layouts[0], 16), quad_spread(b, "b", layouts[1], 16),
                quad_spread(c, "c", "row", widths[of_c])]  # fmt: skip
    name = f"mma.sync.aligned.m8n8k4.{'.'.join(layouts)}.{of_d}.f16.f16.{of_c}"
    d = quad_gathered(run(name, operands, widths[of_d] // 4, 32, GPUS[capability]), widths[of_d])
    for case, group, row, column in np.ndindex(d.shape):
        factors = [int(x) for x in a[case, group, row]], [int(x) for x in b[case, group, :, column]]
        wanted = oracle_matrix.quad(*factors, int(c[case, group, row, column]), results, capability)
        assert int(d[case, group, row, column]) == wanted, (group, row, column, factors, c[case, group, row, column])


# -- other hosts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["avx2", "sse"])
@pytest.mark.parametrize("form", [FORMS[2], FORMS[3], FORMS[5], FORMS[7], FORMS[8], FORMS[16]], ids="-".join)
def test_narrow_hosts_give_the_same_bits(form, host, monkeypatch):
    use_host(monkeypatch.setattr, host)
    for style in STYLES:
        for capability in ("8.9", "9.0"):
            assert wrong(form, capability, 1, style) == []


@pytest.mark.parametrize("host", ["avx2", "sse"])
def test_m8n8k4_on_narrow_hosts(host, monkeypatch):
    use_host(monkeypatch.setattr, host)
    test_four_products_of_eight_lanes(("row", "col"), ("f32", "f32"), "9.0", "any", 1)
    test_four_products_of_eight_lanes(("col", "row"), ("f16", "f16"), "7.0", "specials", 1)
