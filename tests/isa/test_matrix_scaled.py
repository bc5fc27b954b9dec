"""Products with scales, and sparse ones of 6 and 4 bits: fragments are CUTLASS's, sums those of MMA-Sim.

Source: NVIDIA/cutlass, cute/atom/mma_traits_sm120.hpp and mma_traits_sm120_sparse.hpp; microsoft/MMA-Sim (2026),
arithmetic/fdpa.py: `st_fdpa` with F = 25, and `gst_fdpa` with G = 16 and F = 35. Every term here is a double without
rounding: products of elements have 8 bits, sums of 16 of them 12, and scales 8 more.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import oracle_matrix
import pytest
from cute_layouts import Modes, offsets, registers
from matrix_batch import run
from oracle_matrix import exponent_of, value_of
from test_matrix_floats import matrices
from test_matrix_sparse import chosen, indices, product as sparse_product

from tilewright.errors import PtxError

QUADS = (4, 8)
#: By bits of an element and whether A is sparse: threads and values of A without its zeros, of B, and of the metadata.
A = {8: (((4, 64), (8, 1)), ((4, 16), (2, 8), (2, 256))), 4: (((4, 128), (8, 1)), ((8, 16), (2, 8), (2, 512)))}
B = {
    (8, False): (((4, 32), (8, 1)), ((4, 8), (2, 128))), (8, True): (((4, 32), (8, 1)), ((4, 8), (4, 128))),
    (4, False): (((4, 64), (8, 1)), ((8, 8), (2, 256))), (4, True): (((4, 64), (8, 1)), ((8, 8), (4, 256))),
}  # fmt: skip
METADATA = {8: (((2, 8), (2, 512), (8, 1)), ((32, 16),)), 4: (((2, 8), (2, 1024), (8, 1)), ((64, 16),))}
CHUNK = {8: (4, 2), 4: (8, 4)}
C: tuple[Modes, Modes] = (((4, 32), (8, 1)), ((2, 16), (2, 8)))
#: Threads of the scales: a stride of 0 stands for threads of which the selector takes one.
SCALES_A, SCALES_B = ((2, 8), (2, 0), (8, 1)), ((4, 0), (8, 1))

#: Kind, its scales as the name has them, how many a row has, their type, types of A and B, whether A is sparse.
FORMS = [
    ("mxf8f6f4", ".scale_vec::1X", 1, "ue8m0", "e4m3", "e5m2", False),
    ("mxf8f6f4", "", 1, "ue8m0", "e2m1", "e4m3", False),
    ("mxf8f6f4", ".scale_vec::1X", 1, "ue8m0", "e3m2", "e2m3", False),
    ("mxf4", "", 2, "ue8m0", "e2m1", "e2m1", False),
    ("mxf4nvf4", ".scale_vec::2X", 2, "ue8m0", "e2m1", "e2m1", False),
    ("mxf4nvf4", ".scale_vec::4X", 4, "ue8m0", "e2m1", "e2m1", False),
    ("mxf4nvf4", ".scale_vec::4X", 4, "ue4m3", "e2m1", "e2m1", False),
    ("mxf8f6f4", ".scale_vec::1X", 1, "ue8m0", "e5m2", "e2m1", True),
    ("mxf4", ".scale_vec::2X", 2, "ue8m0", "e2m1", "e2m1", True),
    ("mxf4nvf4", ".scale_vec::4X", 4, "ue4m3", "e2m1", "e2m1", True),
]


def scale(bits: int, type_: str) -> tuple[float, int]:
    """The value of a scale, and the exponent by which it aligns products."""
    if type_ == "ue4m3":
        value = value_of(bits & 0x7F, "e4m3")
        return value, exponent_of(value, "e4m3") if math.isfinite(value) else 0
    return (math.nan if bits == 255 else math.ldexp(1.0, bits - 127)), bits - 127


def summed(
    factors: Sequence[tuple[float, float, int]], scales: Sequence[tuple[float, int]], c: int, *, together: bool
) -> int:
    """D's bits: each factor pair has its product's exponent, and each of `scales` belongs to as many of them."""
    start = value_of(c, "f32")
    special = [x * y * s for (x, y, _), (s, _) in zip(factors, scales, strict=True) if not math.isfinite(x * y * s)]
    if special or not math.isfinite(start):
        found = sum([*special, start] if not math.isfinite(start) else special)
        return oracle_matrix.bits_of(found, "f32")
    terms = [(start, exponent_of(start, "f32"))]
    each = 16 if together else 1
    for i in range(0, len(factors), each):
        total = math.fsum(x * y for x, y, _ in factors[i : i + each])
        value, exponent = scales[i]
        terms.append((total * value, exponent + (0 if together else factors[i][2])))
    unit = max([-126, *(e for value, e in terms if value)]) - (35 if together else 25)
    whole = sum(math.trunc(math.ldexp(value, -unit)) for value, _ in terms)
    return oracle_matrix.rounded(whole, unit, "f32", 23)


def scales_of(words: np.ndarray, threads: Modes, selector: int, byte: int, blocks: int, lines: int) -> np.ndarray:
    """The bytes (lines, blocks) that selectors take from the lanes' words."""
    found = np.zeros((lines, blocks), int)
    for lane, line in enumerate(offsets(threads)):
        if (lane // 2 % 2 if lines == 16 else lane % 4) == selector:
            found[line] = [int(words[lane]) >> 8 * (byte + i) & 255 for i in range(blocks)]
    return found


def elements(name: str, bits: int, shape: tuple[int, int], rng: random.Random, style: str) -> np.ndarray:
    if bits == 8:
        return matrices(name, (1, *shape), rng, style)[0]
    return np.array([rng.randrange(16) for _ in range(math.prod(shape))]).reshape(shape)


def bytes_of_scales(rng: random.Random, type_: str, style: str) -> np.ndarray:
    """Words of four scales for each lane."""
    near = range(120, 136) if type_ == "ue8m0" else range(0x28, 0x48)
    drawn = near if style == "near" else range(254) if style == "wide" else range(256)
    found = np.array([rng.choice(drawn) for _ in range(128)], np.uint8)
    if style == "wide" and type_ == "ue4m3":
        found[found & 0x7F == 0x7F] = 1
    return found.view(np.uint32)


def value(pattern: int, name: str, bits: int) -> float:
    return value_of(pattern << 2 if bits == 4 else pattern, name)


@pytest.mark.parametrize(("rounds", "each"), [(1, 1), pytest.param(8, 38, marks=pytest.mark.volume)])
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f[0]}{f[1]}-{f[3]}-{f[4]}-{f[5]}{'-sp' * f[6]}")
def test_scaled_products(form, rounds, each):
    kind, vec, blocks, type_, of_a, of_b, sparse = form
    bits = 8 if kind == "mxf8f6f4" else 4
    k, rng = 256 // bits * (1 + sparse), random.Random(str(form))
    for _ in range(rounds):
        byte_a, byte_b = (rng.randrange(0, 4, blocks) for _ in range(2))
        thread_a, thread_b = rng.randrange(2), rng.randrange(4)
        cases = []
        for style in ("near", "wide", "any") * each:
            a, b = elements(of_a, bits, (16, k // (1 + sparse)), rng, style), elements(of_b, bits, (8, k), rng, style)
            c = matrices("f32", (1, 16, 8), rng, style)[0]
            there = chosen(rng, CHUNK[bits], 16, k) if sparse else np.arange(k)[None].repeat(16, axis=0)
            cases.append((a, b, c, there, bytes_of_scales(rng, type_, style), bytes_of_scales(rng, type_, style)))
        operands = [
            [registers(a, *A[bits], bits) for a, *_ in cases],
            [registers(b, *B[bits, sparse], bits) for _, b, *_ in cases],
            [registers(c, *C, 32) for _, _, c, *_ in cases],
        ]
        if sparse:
            operands.append([metadata(there, bits)[None] for _, _, _, there, *_ in cases])
        operands += [[case[i][None] for case in cases] for i in (4, 5)]
        order = "{0}, {1}, {2}, {3}" + ", {4}, 0" * sparse
        first = 4 + sparse
        order += f", {{{first}}}, {{{{{byte_a}, {thread_a}}}}}, {{{first + 1}}}, {{{{{byte_b}, {thread_b}}}}}"
        name = f"mma{'.sp::ordered_metadata' * sparse}.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale{vec}"
        found = run(f"{name}.f32.{of_a}.{of_b}.f32.{type_}", [np.stack(o) for o in operands], 4, 32, order=order)
        for d, (a, b, c, there, words_a, words_b) in zip(found, cases, strict=True):
            of_rows = scales_of(words_a, SCALES_A, thread_a, byte_a, blocks, 16)
            of_columns = scales_of(words_b, SCALES_B, thread_b, byte_b, blocks, 8)
            for lane, i in itertools.product(range(32), range(4)):
                column, row = divmod(offsets(C[0])[lane] + offsets(C[1])[i], 16)
                factors, scales = [], []
                for number, at in enumerate(there[row]):
                    x, y = value(int(a[row, number]), of_a, bits), value(int(b[column, at]), of_b, bits)
                    exponent = 0 if not math.isfinite(x * y) else exponent_of(x, of_a) + exponent_of(y, of_b)
                    factors.append((x, y, exponent))
                    pair = [scale(int(s[at * blocks // k]), type_) for s in (of_rows[row], of_columns[column])]
                    scales.append((pair[0][0] * pair[1][0], pair[0][1] + pair[1][1]))
                wanted = summed(factors, scales, int(c[row, column]), together=bits == 4)
                assert int(d[i, lane]) == wanted, (row, column)


def metadata(there: np.ndarray, bits: int) -> np.ndarray:
    """The register of each lane."""
    nibbles, (threads, values) = indices(there, CHUNK[bits]), METADATA[bits]
    found = np.zeros(32, np.uint64)
    for lane, start in enumerate(offsets(threads)):
        for number, offset in enumerate(offsets(values)[:: CHUNK[bits][0]]):
            k, row = divmod(start + offset, 16)
            found[lane] |= np.uint64(int(nibbles[row, k // CHUNK[bits][0]]) << 4 * number)
    return found.astype(np.uint32)


@pytest.mark.parametrize("rounds", [1, pytest.param(400, marks=pytest.mark.volume)])
@pytest.mark.parametrize(
    ("of_a", "of_b", "of_c"), [("e2m1", "e4m3", "f32"), ("e5m2", "e3m2", "f16"), ("e4m3", "e5m2", "f16")]
)
def test_sparse_products_of_small_floats(of_a, of_b, of_c, rounds):
    form, rng = ("m16n8k64", of_a, of_b, of_c, (4, 2), 4), random.Random(f"{of_a}{of_b}")
    for style in ("near", "specials") * rounds:
        places = chosen(rng, (4, 2), 16, 64)
        a, b = matrices(of_a, (1, 16, 32), rng, style), matrices(of_b, (1, 64, 8), rng, style)
        c = matrices(of_c, (1, 16, 8), rng, style)
        words = {"prefix": "mma.sp::ordered_metadata", "finite": ".kind::f8f6f4"}
        d = sparse_product(form, a, b, c, places, 0, "rtx5090", **words)
        factors = a[0][:, None], b[0][np.array(places)].swapaxes(1, 2)
        np.testing.assert_array_equal(d[0], oracle_matrix.dot(*factors, c[0], (of_a, of_b, of_c), "12.0"), style)


@pytest.mark.parametrize("ids", ["{1, 0}, {6}, {{0, 0}}", "{0, 2}, {6}, {{0, 0}}", "{0, 0}, {6}, {{0, 4}}"])
def test_invalid_selectors(ids):
    words = [np.zeros((1, count, 32), np.uint32) for count in (4, 2, 4, 1, 1)]
    order = "{0}, {1}, {2}, {3}, {4}, {" + ids.replace("{6}", "{5}").replace("}, {5}", "}}, {5}", 1)
    with pytest.raises(PtxError, match="chooses scales by a byte"):
        run("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", words, 4, 32,
            order=order)  # fmt: skip
