"""Products of sparse matrices: fragments are made from whole matrices as the manual describes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import oracle_matrix
import pytest
from fragments import gathered, spread
from matrix_batch import run
from test_matrix_floats import GPUS, matrices

from tilewright.simulate import isa

#: Shape, types of A, B, C; the manual's chunk (elements, stored elements), and how many lanes a selector names.
FORMS = [
    *(("m16n8k16", t, t, c, (4, 2), 1) for t, c in (("f16", "f16"), ("f16", "f32"), ("bf16", "f32"))),
    *(("m16n8k32", t, t, c, (4, 2), 2) for t, c in (("f16", "f16"), ("f16", "f32"), ("bf16", "f32"))),
    ("m16n8k8", "tf32", "tf32", "f32", (2, 1), 1),
    ("m16n8k16", "tf32", "tf32", "f32", (2, 1), 2),
    ("m16n8k64", "e4m3", "e5m2", "f32", (4, 2), 4),
    ("m16n8k64", "e5m2", "e4m3", "f32", (4, 2), 4),
    *(("m16n8k32", a, b, "s32", (4, 2), 2) for a in ("s8", "u8") for b in ("s8", "u8")),
    *(("m16n8k64", a, b, "s32", (4, 2), 4) for a in ("s8", "u8") for b in ("s8", "u8")),
    *(("m16n8k64", a, b, "s32", (8, 4), 2) for a in ("s4", "u4") for b in ("s4", "u4")),
    *(("m16n8k128", a, b, "s32", (8, 4), 4) for a in ("s4", "u4") for b in ("s4", "u4")),
]
BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 8,
    "e2m3": 8,
    "e2m1": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "s32": 32,
}
IDS = ["-".join(map(str, form[:4])) for form in FORMS]
#: The dense shape whose A has the layout of a sparse A, by bits of an element.
DENSE = {
    ("m16n8k16", 16): "m16n8k8",
    ("m16n8k32", 16): "m16n8k16",
    ("m16n8k8", 32): "m16n8k4",
    ("m16n8k16", 32): "m16n8k8",
    ("m16n8k32", 8): "m16n8k16",
    ("m16n8k64", 8): "m16n8k32",
    ("m16n8k64", 4): "m16n8k32",
    ("m16n8k128", 4): "m16n8k64",
}


def chosen(rng: random.Random, chunk: tuple[int, int], rows: int, k: int) -> np.ndarray:
    """The k of stored elements, (rows, stored k), ascending; in pairs for 4 bits."""
    size, there = chunk
    unit = 2 if size == 8 else 1
    found = []
    for _ in range(rows):
        row = []
        for start in range(0, k, size):
            units = sorted(rng.sample(range(size // unit), there // unit))
            row += [start + unit * x + i for x in units for i in range(unit)]
        found.append(row)
    return np.array(found)


def indices(places: np.ndarray, chunk: tuple[int, int]) -> np.ndarray:
    """Four bits for each chunk of each row."""
    size, there = chunk
    found = np.zeros((len(places), places.shape[1] // there), np.uint64)
    for row, column in np.ndindex(found.shape):
        inside = [int(x) % size for x in places[row, column * there : (column + 1) * there]]
        if size == 2:
            found[row, column] = 0b1110 if inside[0] else 0b0100
        else:
            first, second = (inside[0], inside[1]) if size == 4 else (inside[0] // 2, inside[2] // 2)
            found[row, column] = first | second << 2
    return found


def metadata(bits: np.ndarray, lanes: int, selector: int, wide: bool) -> np.ndarray:
    """The metadata register of each lane; unselected lanes have random bits."""
    registers = np.random.default_rng(0).integers(0, 2**32, 32, dtype=np.uint64)

    def word(nibbles: np.ndarray) -> int:
        return sum(int(x) << 4 * i for i, x in enumerate(nibbles))

    for g in range(8):
        upper, lower = bits[g], bits[g + 8]
        if lanes == 1:  # all of two rows
            registers[4 * g + selector] = word(np.concatenate([upper, lower]))
        elif wide:  # the first lane has the left half of both rows, the second the right half
            for right in range(2):
                half = slice(4 * right, 4 * right + 4)
                registers[4 * g + 2 * selector + right] = word(np.concatenate([upper[half], lower[half]]))
        else:  # lanes in turn have a row each, of eight chunks
            for pair in range(lanes // 2):
                part, at = slice(8 * pair, 8 * pair + 8), 4 * g + 2 * (selector + pair)
                registers[at], registers[at + 1] = word(upper[part]), word(lower[part])
    return registers.astype(np.uint32)


def b_registers(b: np.ndarray, bits: int) -> np.ndarray:
    """B as registers: lane l has chunk l % 4 of column l // 4, of every four chunks."""
    each = 32 // bits
    k = b.shape[1]
    words = np.zeros((len(b), k // (4 * each), 32), np.uint32)
    for register, lane in np.ndindex(words.shape[1:]):
        for i in range(each):
            row = (4 * register + lane % 4) * each + i
            words[:, register, lane] |= (b[:, row, lane // 4].astype(np.uint64) << i * bits).astype(np.uint32)
    return words


def product(form, a, b, c, places, selector, gpu=None, prefix="mma.sp", finite=""):
    """D of the simulated GPU, as bit patterns; A has its stored elements."""
    shape, of_a, of_b, of_c, chunk, lanes = form
    nibbles = indices(places, chunk)
    e = metadata(nibbles, lanes, selector, BITS[of_a] >= 16)[None, None]
    operands = [spread(a, DENSE[shape, BITS[of_a]], "a", BITS[of_a]), b_registers(b, BITS[of_b]),
                spread(c, shape, "c", BITS[of_c])]  # fmt: skip
    name = f"{prefix}.sync.aligned.{shape}.row.col{finite}.{of_c}.{of_a}.{of_b}.{of_c}"
    registers = run(name, [*operands, e], operands[2].shape[1], 32, gpu, tail=f", {selector}")
    return gathered(registers, shape, "d", BITS[of_c])


def extents(shape: str) -> int:
    return int(shape.split("k")[1])


@pytest.mark.parametrize("finite", ["", ".satfinite"])
@pytest.mark.parametrize("form", [f for f in FORMS if f[3] == "s32"], ids=[i for i in IDS if i.endswith("s32")])
@pytest.mark.parametrize("rounds", [1, pytest.param(400, marks=pytest.mark.volume)])
def test_integers(form, finite, rounds):
    shape, of_a, of_b, _, chunk, lanes = form
    k, bits = extents(shape), BITS[of_a]
    rng, numbers = random.Random(str(form)), np.random.default_rng(k)
    ranges = {"s": (-(1 << (bits - 1)), 1 << (bits - 1)), "u": (0, 1 << bits)}
    for number in range(max(rounds, 4 // lanes)):
        selector = number % (4 // lanes)
        places = chosen(rng, chunk, 16, k)
        a = numbers.integers(*ranges[of_a[0]], (1, 16, k // 2))
        b = numbers.integers(*ranges[of_b[0]], (1, k, 8))
        c = numbers.integers(-(2**31), 2**31, (1, 16, 8))
        c[0, 0], c[0, 1] = 2**31 - 1, -(2**31)
        dense = np.zeros((1, 16, k), np.int64)
        np.put_along_axis(dense[0], places, a[0], axis=1)
        exact = dense @ b + c
        wanted = np.clip(exact, -(2**31), 2**31 - 1) if finite else exact
        patterns = [(x & (1 << width) - 1).astype(np.uint64) for x, width in ((a, bits), (b, bits), (c, 32))]
        d = product(form, *patterns, places, selector, finite=finite)
        np.testing.assert_array_equal(d, (wanted & 0xFFFFFFFF).astype(np.uint64))


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.0", "12.0"])
@pytest.mark.parametrize("form", [f for f in FORMS if f[3] != "s32"], ids=[i for i in IDS if not i.endswith("s32")])
@pytest.mark.parametrize("rounds", [4, pytest.param(264, marks=pytest.mark.volume)])
def test_floats_are_sums_of_the_products_of_stored_elements(form, capability, rounds):
    shape, of_a, of_b, of_c, chunk, lanes = form
    if of_a in ("e4m3", "e5m2") and capability == "8.0":
        assert isa.table().find(f"mma.sp.sync.aligned.{shape}.row.col.{of_c}.{of_a}.{of_b}.{of_c}")  # as 8.9 has it
        return
    k, rng = extents(shape), random.Random(f"{form} {capability}")
    for number, style in zip(range(rounds), itertools.cycle(("near", "wide", "any", "specials"))):
        selector = number % (4 // lanes)
        places = chosen(rng, chunk, 16, k)
        a, b = matrices(of_a, (1, 16, k // 2), rng, style), matrices(of_b, (1, k, 8), rng, style)
        c = matrices(of_c, (1, 16, 8), rng, style)
        d = product(form, a, b, c, places, selector, GPUS[capability])
        factors = a[0][:, None], b[0][np.array(places)].swapaxes(1, 2)
        np.testing.assert_array_equal(d[0], oracle_matrix.dot(*factors, c[0], (of_a, of_b, of_c), capability), style)


def test_ordered_metadata_give_the_same():
    form = FORMS[4]
    rng = random.Random(1)
    places = chosen(rng, (4, 2), 16, 32)
    a, b = matrices("f16", (1, 16, 16), rng, "near"), matrices("f16", (1, 32, 8), rng, "near")
    c = matrices("f32", (1, 16, 8), rng, "near")
    plain, ordered = (product(form, a, b, c, places, 1, prefix=p) for p in ("mma.sp", "mma.sp::ordered_metadata"))
    np.testing.assert_array_equal(plain, ordered)
