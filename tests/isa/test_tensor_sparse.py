"""Products in tensor memory whose A is sparse: the places of metadata follow from CUTLASS's layouts.

Source: NVIDIA/cutlass, cute/atom/mma_traits_sm100_frag.hpp (`tmem_e_frg`, `tmem_e_frg_ws`) and mma_traits_sm100.hpp, in
which the lowest bit of a column becomes the selector of the instruction descriptor (`sparse_id2_`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from cute_layouts import offsets
from oracle_matrix import in_groups
from tensor_kernels import noise
from test_matrix_sparse import chosen, indices
from test_tensor_products import DEFAULT_D, KIND, RULES, Case, K, multiply, of_d, random_bits, small, values

from tilewright.errors import KernelError

#: The place of metadata, and the bit of the instruction descriptor that says so.
METADATA, SPARSE = 400, 1 << 2
#: Modes of a layout's rows and of its k, and bits of a unit: a position is a lane and 128 times a unit.
Atom = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]], int]
#: Elements of a chunk, and how many of them are stored.
CHUNK = {"tf32": (2, 1)}


def atom(type_: str, m: int) -> Atom:
    """`tmem_atom` for so many rows: fewer than 128 are repeated in the lanes after them."""
    again = [(128 // m, m)] if m < 128 else []
    if type_ in ("f16", "bf16"):
        return [(8, 1), (2, 2048), (m // 16, 16), *again], [(16, 128), (2, 8)], 1
    if type_ == "tf32":
        return [(8, 1), (2, 1024), (m // 16, 16), *again], [(8, 128), (2, 8)], 2
    return [(m, 1), *again], [(64, 128)], 1


def put_metadata(tensor: np.ndarray, type_: str, there: np.ndarray, column: int = METADATA) -> None:
    """Store four bits of each chunk where CUTLASS has them."""
    chunk = CHUNK.get(type_, (4, 2))
    rows, along, bits = atom(type_, len(there))
    nibbles = indices(there, chunk)
    tensor[:, column : column + (2 if len(along) == 1 else 1)] = 0
    for row, of_row in enumerate(offsets(rows)):
        for k, of_k in list(enumerate(offsets(along)))[:: chunk[0]]:
            unit, lane = divmod(of_row + of_k, 128)
            nibble = int(nibbles[row % len(there), k // chunk[0]])
            tensor[lane, column + unit * bits // 32] |= np.uint32(nibble << unit * bits % 32)


def case_of(type_: str, a: np.ndarray, b: np.ndarray, *, selector: int = 0, name: str = "sp.", **more: object) -> Case:
    """A sparse product: `multiply` fills shared memory, metadata are in tensor memory."""
    given = {"types": (type_, type_), "instruction": SPARSE | selector, "metadata": f", [%move+{METADATA}]", **more}
    return Case(KIND.get(type_, "i8"), a, b, name=name, **given)  # type: ignore[arg-type]


def expanded(a: np.ndarray, there: np.ndarray) -> np.ndarray:
    full = np.zeros((len(a), 2 * a.shape[1]), a.dtype)
    np.put_along_axis(full, there, a, axis=1)
    return full


def places(rng: np.random.Generator, type_: str, m: int) -> np.ndarray:
    """The k of each row's stored elements."""
    return chosen(random.Random(int(rng.integers(99))), CHUNK.get(type_, (4, 2)), m, 2 * K.get(type_, 32))


@pytest.mark.parametrize(
    ("type_", "mode", "mn_major", "n", "selector"),
    [
        ("f16", "none", (False, False), 16, 0),
        ("f16", "64", (False, False), 8, 1),
        ("bf16", "128", (True, True), 64, 0),
        ("tf32", "64", (False, False), 16, 1),
        ("tf32", "none", (False, False), 8, 0),
        ("e4m3", "128", (False, True), 128, 0),
        ("e5m2", "64", (False, False), 24, 0),
    ],
)
def test_layouts(type_: str, mode: str, mn_major: tuple[bool, bool], n: int, selector: int) -> None:
    """Metadata of each type, and both selectors of those that have two; nothing but D changes."""
    rng = np.random.default_rng(n)
    a, b, there = small(rng, (128, K[type_]), type_), small(rng, (n, 2 * K[type_]), type_), places(rng, type_, 128)
    tensor = noise(n)
    tensor[:, DEFAULT_D : DEFAULT_D + n] = rng.integers(-9, 9, (128, n)).astype(np.float32).view(np.uint32)
    put_metadata(tensor, type_, there, METADATA + selector)
    found = multiply(case_of(type_, a, b, selector=selector, mode=mode, mn_major=mn_major), tensor)
    truth = expanded(values(a, type_), there) @ values(b, type_).T + of_d(tensor, 128, n).view(np.float32)
    after = tensor.copy()
    after[:, DEFAULT_D : DEFAULT_D + n] = truth.astype(np.float32).view(np.uint32)
    assert np.array_equal(found, after)


@pytest.mark.parametrize("type_", ["f16", "e4m3", "tf32"])
@pytest.mark.parametrize(("m", "parts"), [(128, 1), (64, 2), (32, 4)])
def test_stationary_products(type_: str, m: int, parts: int) -> None:
    """Of `.ws` fewer rows are allowed: each part of the lanes has the metadata for its columns of D."""
    rng = np.random.default_rng(m)
    a, b, there = small(rng, (m, K[type_]), type_), small(rng, (64, 2 * K[type_]), type_), places(rng, type_, m)
    tensor, wide = noise(m), 64 // parts
    put_metadata(tensor, type_, there)
    found = multiply(case_of(type_, a, b, name="ws.sp.", adds=False), tensor)
    truth = (expanded(values(a, type_), there) @ values(b, type_).T).astype(np.float32).view(np.uint32)
    for part in range(parts):
        lanes = found[part * m : part * m + m, DEFAULT_D : DEFAULT_D + wide]
        assert np.array_equal(lanes, truth[:, part * wide : part * wide + wide])


@pytest.mark.parametrize("rounds", [1, pytest.param(200, marks=pytest.mark.volume)])
@pytest.mark.parametrize(
    ("type_", "half"), [("f16", 0), ("f16", 1), ("bf16", 0), ("tf32", 0), ("e4m3", 0), ("e5m2", 0)]
)
def test_bits_are_those_of_the_products_of_stored_elements(type_: str, half: int, rounds: int) -> None:
    """Random bits, infinities and NaNs among them, on some of the results."""
    of_d_type, mask = ("f16", 0xFFFF) if half else ("f32", 0xFFFFFFFF)
    for number in range(rounds):
        rng, n = np.random.default_rng(number), 16
        a, b = random_bits(rng, (128, K[type_]), type_), random_bits(rng, (n, 2 * K[type_]), type_)
        there, tensor = places(rng, type_, 128), noise(number)
        c = rng.standard_normal((128, n)).astype(np.float16 if half else np.float32)
        tensor[:, DEFAULT_D : DEFAULT_D + n] = c.view(np.uint16 if half else np.uint32)
        put_metadata(tensor, type_, there)
        found = of_d(multiply(case_of(type_, a, b, d_type=1 - half), tensor), 128, n)
        rule = RULES.get(type_, (32, 25, 23))
        rule = (rule[0], rule[1], 10) if half else rule
        for row in range(number % 4, 128, 4):
            for column in range(n):
                right = b[column, there[row]].tolist()
                c_bits = int(of_d(tensor, 128, n)[row, column]) & mask
                truth = in_groups(a[row].tolist(), right, c_bits, (type_, type_, of_d_type), rule)
                assert found[row, column] == truth, (number, row, column)


@pytest.mark.parametrize(("types", "saturates"), [(("s8", "u8"), False), (("u8", "s8"), True)])
def test_integers(types: tuple[str, str], saturates: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (128, 32), dtype=np.uint8), rng.integers(0, 256, (32, 64), dtype=np.uint8)
    there, tensor = places(rng, types[0], 128), noise(3)
    tensor[::2, DEFAULT_D:METADATA] = 0x7FFFFF00
    put_metadata(tensor, types[0], there)
    case = case_of(types[0], a, b, types=types, d_type=2, instruction=SPARSE | saturates << 3)
    found = of_d(multiply(case, tensor), 128, 32)
    x, y = (
        m.view(np.int8).astype(np.int64) if t == "s8" else m.astype(np.int64)
        for m, t in zip((a, b), types, strict=True)
    )
    truth = expanded(x, there) @ y.T + of_d(tensor, 128, 32).view(np.int32)
    if saturates:
        truth = truth.clip(-(1 << 31), (1 << 31) - 1)
    assert np.array_equal(found, truth.astype(np.uint64).astype(np.uint32))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"instruction": 0}, "bit 2 of the instruction descriptor"),
        ({"instruction": SPARSE | 2}, "selector"),
        ({"metadata": f", [%move+{METADATA + 1}]"}, "allocated columns"),
        ({"metadata": ", [%move+511]"}, "allocated columns"),
        ({"rows": 64}, "shape"),
        ({"held": True}, "dense"),
        ({"name": "ws.sp.", "operands": ", 1"}, "zero-column mask"),
    ],
)
def test_what_no_source_says_is_refused(more: dict[str, object], said: str) -> None:
    a, b = np.zeros((int(str(more.pop("rows", 128))), 16), np.uint16), np.zeros((64, 32), np.uint16)
    with pytest.raises(KernelError, match=said):
        multiply(case_of("f16", a, b, **more), noise())  # type: ignore[arg-type]
