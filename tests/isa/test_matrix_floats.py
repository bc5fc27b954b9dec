"""Products of matrices of floats, against fractions, on each architecture whose rules are published."""

from __future__ import annotations

import random

import numpy as np
import oracle_matrix
import pytest
from fragments import extents, gathered, spread
from matrix_batch import run

#: A GPU of each compute capability that the oracle knows.
GPUS = {"7.0": "v100", "7.5": "t4", "8.0": "a100", "8.9": "l4", "9.0": "h100", "10.0": "b200"}
#: Shapes, and types of A, B, and C and D.
FORMS = [("m16n8k16", "f16", "f16", "f32")]


def patterns(name: str, count: int, rng: random.Random, style: str) -> list[int]:
    """Bit patterns of a format: of all kinds, near each other, or of any exponent."""
    exponent_bits, fraction_bits, _ = oracle_matrix.FORMATS[name]
    width = 1 + exponent_bits + fraction_bits
    most = (1 << exponent_bits) - 1
    specials = [0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, (most << fraction_bits) - 1]
    rare = [most << fraction_bits, (most << fraction_bits) | 1, (1 << (width - 1)) - 1]
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
        bits |= rng.getrandbits(1) << (width - 1)
        found.append(bits << 13 | rng.getrandbits(13) if name == "tf32" else bits)
    return found


def matrices(name: str, shape: tuple[int, int, int], rng: random.Random, style: str) -> np.ndarray:
    """Matrices of a format: (cases, rows, columns)."""
    cases, rows, columns = shape
    each = [patterns(name, rows * columns, rng, style) for _ in range(cases)]
    return np.array(each, np.uint64).reshape(shape)


STYLES = ("near", "wide", "any", "specials")


def wrong(form: tuple[str, str, str, str], capability: str, cases: int, style: str) -> list[str]:
    """Where a form differs from the oracle."""
    shape, of_a, of_b, of_c = form
    m, n, k = extents(shape)
    rng = random.Random(f"{form} {capability} {style}")
    a = matrices(of_a, (cases, m, k), rng, style)
    b = matrices(of_b, (cases, k, n), rng, style)
    c = matrices(of_c, (cases, m, n), rng, style)
    bits = {"f16": 16, "f32": 32, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
    name = f"mma.sync.aligned.{shape}.row.col.{of_c}.{of_a}.{of_b}.{of_c}"
    operands = [spread(a, shape, "a", bits[of_a]), spread(b, shape, "b", bits[of_b]), spread(c, shape, "c", bits[of_c])]
    d = gathered(run(name, operands, operands[2].shape[1], 32, GPUS[capability]), shape, "d", bits[of_c])
    found = []
    for case, row, column in np.ndindex(d.shape):
        factors = [int(x) for x in a[case, row]], [int(x) for x in b[case, :, column]]
        wanted = oracle_matrix.dot(*factors, int(c[case, row, column]), (of_a, of_b, of_c), capability)
        if int(d[case, row, column]) != wanted:
            terms = [list(map(hex, x)) for x in factors]
            found.append(f"{name} {style} [{row}, {column}]: {d[case, row, column]:#x}, must be {wanted:#x}; {terms}, "
                         f"c {c[case, row, column]:#x}")  # fmt: skip
    return found


def known(form: tuple[str, str, str, str], capability: str) -> bool:
    """Whether the oracle has a rule."""
    return ("fp8" if form[1] in ("e4m3", "e5m2") else form[1]) in oracle_matrix.RULES[capability]


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
