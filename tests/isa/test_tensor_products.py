"""Products in tensor memory: where descriptors find matrices, where results lie, and their bits.

Where an element lies in shared memory is worked out from the canonical layouts as CUTLASS writes them, shape and
stride, and from its `Swizzle<bits, base, shift>`; where a result lies from its `tmem_frg`. Sums are compared with exact
fractions by the published models. Source: NVIDIA/cutlass, cute/arch/mma_sm100_desc.hpp, cute/atom/mma_traits_sm100.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import oracle_matrix
import pytest
from oracle_matrix import in_groups, value_of
from tensor_kernels import AWAIT, noise, run, text
from test_matrix_scaled import scale, summed

import tilewright as tw
from tilewright.errors import KernelError
from tilewright.programs import Program

#: Number in the descriptor, bits and base of `Swizzle`, and units of 16 bytes in an atom's line.
MODES = {"none": (0, 0, 4, 1), "32": (6, 1, 4, 2), "64": (4, 2, 4, 4), "128": (2, 3, 4, 8), "128/32": (1, 2, 5, 8)}
#: Number of a format in the instruction descriptor.
NUMBERS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
SHARED_BYTES, B_START, DEFAULT_D = 65536, 32768, 128
RULES = {"f16": (16, 25, 23), "bf16": (16, 25, 23), "tf32": (8, 25, 23)}


@dataclass
class Case:
    """A product of bit patterns `a` (m, k) and `b` (n, k)."""

    kind: str
    a: np.ndarray
    b: np.ndarray
    types: tuple[str, str] = ("f16", "f16")
    mode: str = "none"
    mn_major: tuple[bool, bool] = (False, False)
    instruction: int = 0  #: Bits of the instruction descriptor besides shape, types and `mn_major`.
    name: str = ""  #: Of the instruction, behind the kind.
    operands: str = ""  #: Behind `adds`, or before it with a comma at the end.
    before: str = ""
    adds: bool = True
    held: bool = False
    d: int = DEFAULT_D
    d_type: int = 1
    metadata: str = ""  #: Where they lie, of a sparse A, with a comma in front.
    changes: dict[str, int] = field(default_factory=dict)  #: Exclusive ors of `a`, `b` and `instruction`.

    def descriptor(self) -> int:
        m, n = len(self.a), len(self.b)
        a, b = (NUMBERS[t] for t in self.types)
        bits = self.d_type << 4 | a << 7 | b << 10 | self.mn_major[0] << 15 | self.mn_major[1] << 16
        return (bits | n >> 3 << 17 | m >> 4 << 24 | self.instruction) ^ self.changes.get("instruction", 0)


def put(shared: np.ndarray, start: int, lines: np.ndarray, mode: str, *, mn_major: bool) -> int:
    """Leave a matrix (lines, bytes along k) in shared memory; its descriptor without the address of `shared`."""
    number, bits, base, units = MODES[mode]
    count, size = lines.shape[1] * lines.dtype.itemsize, lines.dtype.itemsize
    t, deep = 16 // size, 4 if mode == "128/32" else 8
    atom = units * 16 * deep
    steps = lines.shape[1] // deep if mn_major else max(count // (16 * units), 1)
    if mn_major:
        leading, stride = (steps * atom, atom) if units > 1 else (atom, steps * atom)
    else:
        leading, stride = (128, steps * 128) if units == 1 else (0, atom)
    for (line, k), value in np.ndenumerate(lines):
        if mn_major:
            by_line, by_step = (stride, leading) if units == 1 else (leading, stride)
            at = line % (t * units) * size + line // (t * units) * by_line + k % deep * units * 16 + k // deep * by_step
        else:
            along = k % t * size + k // t * leading if units == 1 else k * size
            at = line % 8 * units * 16 + line // 8 * stride + along
        at += start
        mask = ((1 << bits) - 1) << (7 if bits else 0)
        at ^= (at & mask) >> (7 - base)
        shared[at : at + size] = np.frombuffer(value.tobytes(), np.uint8)
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | number << 61


def multiply(case: Case, tensor: np.ndarray) -> np.ndarray:
    """Tensor memory behind the product."""
    shared = np.zeros(SHARED_BYTES, np.uint8)
    a = 0 if case.held else put(shared, 0, case.a, case.mode, mn_major=case.mn_major[0])
    b = put(shared, B_START, case.b, case.mode, mn_major=case.mn_major[1])
    a, b = a ^ case.changes.get("a", 0), b ^ case.changes.get("b", 0)
    words = np.array([a, b, case.descriptor()], np.uint64)
    left = "[%move+384]" if case.held else "%l0"
    adds = "%yes" if case.adds else "%no"
    extra = f"{case.operands} {adds}" if case.operands.endswith(",") else f"{adds}{case.operands}"
    body = f"""
    cvt.u64.u32 %l3, %s; shr.u64 %l3, %l3, 4;
    ld.global.b64 %l0, [%given]; ld.global.b64 %l1, [%given+8]; ld.global.b32 %r0, [%given+16];
    add.u64 %l0, %l0, %l3; add.u64 %l1, %l1, %l3; add.u32 %move, %tensor, 0;
    {case.before}
    @%q tcgen05.mma.{case.name.partition("|")[0]}cta_group::1.kind::{case.kind}{case.name.partition("|")[2]}
        [%move+{case.d}], {left}, %l1{case.metadata}, %r0, {extra};
    {AWAIT}"""
    return run(
        PROGRAMS.setdefault(body, Program.from_ptx(text(body, shared_bytes=SHARED_BYTES))), tensor, shared, words
    )


PROGRAMS: dict[str, Program] = {}


def lanes_of(m: int) -> np.ndarray:
    """Lanes of D's rows: `tmem_frg_1sm` has 16 rows of 64 in each warp's lanes."""
    row = np.arange(m)
    return row if m == 128 else row // 16 * 32 + row % 16


def of_d(tensor: np.ndarray, m: int, n: int, d: int = DEFAULT_D) -> np.ndarray:
    return tensor[lanes_of(m)][:, d : d + n]


def small(rng: np.random.Generator, shape: tuple[int, int], dtype: type) -> np.ndarray:
    """Integers whose products add up exactly, as patterns of a float type."""
    import ml_dtypes

    values = rng.integers(-4, 5, shape).astype(np.float32)
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
             "e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
    made = values.astype(kinds[dtype])
    return made.view({4: np.uint32, 2: np.uint16, 1: np.uint8}[made.dtype.itemsize])


def values(patterns: np.ndarray, type_: str) -> np.ndarray:
    return np.vectorize(lambda x: value_of(int(x), type_))(patterns)


K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}
KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4"}


@pytest.mark.parametrize(
    ("type_", "mode", "mn_major", "m", "n"),
    [
        ("f16", "none", (False, False), 128, 32),
        ("f16", "32", (False, True), 64, 16),
        ("bf16", "64", (False, False), 64, 8),
        ("f16", "128", (True, True), 128, 128),
        ("bf16", "none", (True, True), 64, 24),
        ("tf32", "128/32", (True, True), 64, 32),
        ("tf32", "32", (False, False), 128, 16),
        ("e4m3", "128", (True, False), 128, 16),
        ("e5m2", "32", (False, False), 64, 8),
        ("e4m3", "64", (True, True), 64, 64),
        ("f16", "64", (True, False), 128, 8),
        ("tf32", "128", (True, True), 64, 32),
    ],
)
def test_layouts(type_: str, mode: str, mn_major: tuple[bool, bool], m: int, n: int) -> None:
    """Every swizzle, K-major and MN-major; nothing but D changes."""
    rng = np.random.default_rng(m + n)
    a, b = small(rng, (m, K[type_]), type_), small(rng, (n, K[type_]), type_)
    if mn_major[0] or mn_major[1]:  # an MN-major atom's rows are full
        wide = MODES[mode][3] * 16 // a.dtype.itemsize
        assert not (mn_major[0] and m % wide) and not (mn_major[1] and n % wide), "choose whole atoms"
    tensor = noise(4)
    tensor[:, DEFAULT_D : DEFAULT_D + n] = rng.integers(-9, 9, (128, n)).astype(np.float32).view(np.uint32)
    c = of_d(tensor, m, n).view(np.float32)
    found = multiply(Case(KIND[type_], a, b, (type_, type_), mode, mn_major), tensor)
    truth = values(a, type_) @ values(b, type_).T + c
    after = tensor.copy()
    after[lanes_of(m)[:, None], np.arange(DEFAULT_D, DEFAULT_D + n)] = truth.astype(np.float32).view(np.uint32)
    assert np.array_equal(found, after)


def random_bits(rng: np.random.Generator, shape: tuple[int, int], type_: str) -> np.ndarray:
    dtype = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}.get(type_, np.uint8)
    bits = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, shape, dtype=dtype)
    if type_ in ("bf16", "tf32"):  # exponents that meet
        top = 8 * np.dtype(dtype).itemsize - 1
        bits = bits & ~dtype(0x7F << (top - 7)) | dtype(0x3C << (top - 7))
    return bits


#: So many products of a form: in `make volume` 100,000 results and more of each are compared.
ROUNDS = pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.volume)])


@ROUNDS
@pytest.mark.parametrize("type_", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
def test_bits_are_those_of_the_published_models(type_: str, rounds: int) -> None:
    """Random bits, infinities and NaNs among them."""
    m, n, k = 64, 16, K[type_]
    for number in range(rounds):
        rng = np.random.default_rng(11 + number)
        a, b = random_bits(rng, (m, k), type_), random_bits(rng, (n, k), type_)
        tensor = noise(5)
        tensor[:, DEFAULT_D : DEFAULT_D + n] = rng.standard_normal((128, n)).astype(np.float32).view(np.uint32)
        found = of_d(multiply(Case(KIND[type_], a, b, (type_, type_)), tensor), m, n)
        c = of_d(tensor, m, n)
        truth = in_groups(a[:, None], b, c, (type_, type_, "f32"), RULES.get(type_, (32, 25, 23)))
        np.testing.assert_array_equal(found, truth, str(number))


@ROUNDS
def test_float16_results_take_a_column_each(rounds: int) -> None:
    for number in range(rounds):
        rng = np.random.default_rng(12 + number)
        a, b = random_bits(rng, (64, 16), "f16") & 0xBFFF, random_bits(rng, (16, 16), "f16") & 0xBFFF
        tensor = noise(6 + number)
        found = of_d(multiply(Case("f16", a, b, d_type=0), tensor), 64, 16)
        c = of_d(tensor, 64, 16) & 0xFFFF
        truth = in_groups(a[:, None], b, c, ("f16", "f16", "f16"), (16, 25, 10))
        np.testing.assert_array_equal(found, truth, str(number))


@pytest.mark.parametrize("seed", [13, *(pytest.param(seed, marks=pytest.mark.volume) for seed in range(100, 125))])
@pytest.mark.parametrize(("types", "saturates"), [(("s8", "u8"), False), (("u8", "u8"), True), (("s8", "s8"), True)])
def test_integers(types: tuple[str, str], saturates: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((128, 32), (32, 32)))
    tensor = noise(7)
    tensor[::2, DEFAULT_D:] = 0x7FFFFF00
    found = of_d(multiply(Case("i8", a, b, types, d_type=2, instruction=saturates << 3), tensor), 128, 32)
    x, y = (m.view(np.int8) if t == "s8" else m for m, t in zip((a, b), types, strict=True))
    truth = x.astype(np.int64) @ y.astype(np.int64).T + of_d(tensor, 128, 32).view(np.int32)
    if saturates:
        truth = truth.clip(-(1 << 31), (1 << 31) - 1)
    assert np.array_equal(found, truth.astype(np.uint64).astype(np.uint32))


def padded(codes: np.ndarray, bits: int) -> np.ndarray:
    """Elements of 6 or 4 bits, 16 in 16 bytes: those side by side come first, the rest is filled with ones."""
    found = np.full(codes.shape, 0xFF, np.uint8)
    for index in np.ndindex(len(codes), codes.shape[1] // 16):
        group = codes[index[0], 16 * index[1] :][:16]
        whole = sum(int(code) << bits * i for i, code in enumerate(group))
        found[index[0], 16 * index[1] : 16 * index[1] + 2 * bits] = list(whole.to_bytes(2 * bits, "little"))
    return found


@ROUNDS
@pytest.mark.parametrize("types", [("e2m1", "e4m3"), ("e3m2", "e2m3"), ("e5m2", "e2m1")])
def test_elements_of_6_and_4_bits(types: tuple[str, str], rounds: int) -> None:
    bits, n = {"e2m1": 4, "e2m3": 6, "e3m2": 6}, 16
    for number in range(rounds):
        rng = np.random.default_rng(14 + number)
        codes = [
            rng.integers(0, 1 << bits.get(t, 8), (lines, 32), dtype=np.uint8) & 0xBF
            for t, lines in zip(types, (64, n), strict=True)
        ]
        a, b = (padded(c, bits[t]) if t in bits else c for c, t in zip(codes, types, strict=True))
        tensor = noise(8)
        tensor[:, DEFAULT_D:] = rng.standard_normal((128, 384)).astype(np.float32).view(np.uint32)
        found = of_d(multiply(Case("f8f6f4", a, b, types, "32"), tensor), 64, n)
        patterns = [c.astype(int) << 2 if t == "e2m1" else c.astype(int) for c, t in zip(codes, types, strict=True)]
        truth = in_groups(patterns[0][:, None], patterns[1], of_d(tensor, 64, n), (*types, "f32"), (32, 25, 23))
        np.testing.assert_array_equal(found, truth, str(number))


@pytest.mark.parametrize(
    ("kind", "name", "types", "blocks", "scales", "bytes_"),
    [
        ("mxf8f6f4", "|.block_scale", ("e4m3", "e5m2"), 1, "ue8m0", (3, 1)),
        ("mxf8f6f4", "|.block_scale.scale_vec::1X", ("e2m1", "e4m3"), 1, "ue8m0", (0, 2)),
        ("mxf4", "|.block_scale.block32", ("e2m1", "e2m1"), 2, "ue8m0", (2, 0)),
        ("mxf4nvf4", "|.block_scale.block16", ("e2m1", "e2m1"), 4, "ue4m3", (0, 0)),
        ("mxf4nvf4", "|.block_scale.scale_vec::2X", ("e2m1", "e2m1"), 2, "ue8m0", (0, 2)),
    ],
)
@pytest.mark.parametrize("seed", [15, *(pytest.param(seed, marks=pytest.mark.volume) for seed in range(100, 120))])
def test_scales(
    kind: str, name: str, types: tuple[str, str], blocks: int, scales: str, bytes_: tuple[int, int], seed: int
) -> None:
    """Scales lie in tensor memory, 32 rows a column, for each warp's lanes again."""
    rng, steps = np.random.default_rng(seed), (7, 3) if seed == 15 else (1, 1)
    m, n, four = 128, 40, kind != "mxf8f6f4"
    k = 64 if four else 32
    codes = [
        rng.integers(0, 16 if t == "e2m1" else 256, (lines, k), dtype=np.uint8) & 0xBF
        for t, lines in zip(types, (m, n), strict=True)
    ]
    packed = [
        c[:, ::2] | c[:, 1::2] << 4 if four else padded(c, 4) if t == "e2m1" else c
        for c, t in zip(codes, types, strict=True)
    ]
    tensor = noise(9)
    tensor[:, DEFAULT_D : DEFAULT_D + n] = rng.standard_normal((128, n)).astype(np.float32).view(np.uint32)
    low, high = (40, 90) if scales == "ue4m3" else (120, 134)
    words = [rng.integers(low, high, (lines, 4), dtype=np.uint8) for lines in (m, 64)]
    for first, of in ((400, words[0]), (404, words[1])):
        for line in range(len(of)):
            for warp in range(4):
                tensor[32 * warp + line % 32, first + line // 32] = int(of[line].view(np.uint32)[0])
    number = bytes_[0] << 29 | bytes_[1] << 4 | (scales == "ue8m0") << 23
    numbers = (0 if four else None, number)
    case = Case(
        kind, packed[0], packed[1], types, "32", d_type=0, instruction=numbers[1], name=name,
        operands="[%tensor+400], [%tensor+404],",
    )  # fmt: skip
    if four:
        case.changes["instruction"] = 4 << 7 | 4 << 10  # e2m1 has another number of these kinds
    found = of_d(multiply(case, tensor), m, n)
    c = of_d(tensor, m, n)
    real = [
        np.vectorize(lambda x, t=t: value_of(int(x) << 2 if t == "e2m1" else int(x), t))(p)
        for p, t in zip(codes, types, strict=True)
    ]
    for row in range(0, m, steps[0]):
        for column in range(0, n, steps[1]):
            factors = [
                (x, y, oracle_matrix.exponent_of(x, types[0]) + oracle_matrix.exponent_of(y, types[1]))
                for x, y in zip(real[0][row], real[1][column], strict=True)
            ]
            each = []
            for block in range(blocks):
                s, t = (
                    scale(int(w[line, first + block]), scales)
                    for w, line, first in zip(words, (row, column), bytes_, strict=True)
                )
                each += [(s[0] * t[0], s[1] + t[1])] * (k // blocks)
            assert found[row, column] == summed(factors, each, int(c[row, column]), together=four), (row, column)


def test_a_in_tensor_memory_and_lanes_left_alone() -> None:
    """A's rows lie in lanes, two halves a column; of a mask of lanes D keeps what it was; D is divided beforehand."""
    rng = np.random.default_rng(16)
    a, b = small(rng, (128, 16), "f16"), small(rng, (16, 16), "f16")
    tensor = noise(10)
    tensor[:, 384:392] = a.view(np.uint32)
    tensor[:, DEFAULT_D : DEFAULT_D + 16] = rng.integers(-9, 9, (128, 16)).astype(np.float32).view(np.uint32)
    off = rng.integers(0, 1 << 32, 4, dtype=np.uint32)
    before = "".join(f"mov.b32 %r{i + 1}, {int(x)};\n" for i, x in enumerate(off))
    product = values(a, "f16") @ values(b, "f16").T
    c = of_d(tensor, 128, 16).view(np.float32)
    for operands, shrinks in (("{%r1, %r2, %r3, %r4},", 0), (", 3", 3)):
        found = multiply(Case("f16", a, b, held=True, before=before, operands=operands), tensor)
        truth = (product + c * 2.0**-shrinks).astype(np.float32).view(np.uint32)
        for lane in range(128):
            is_off = operands[0] == "{" and int(off[lane // 32]) >> lane % 32 & 1
            assert np.array_equal(of_d(found, 128, 16)[lane], (of_d(tensor, 128, 16) if is_off else truth)[lane])


@pytest.mark.parametrize(("m", "parts"), [(128, 1), (64, 2), (32, 4)])
def test_stationary_products(m: int, parts: int) -> None:
    """`.ws`: columns of D are parted among lanes where rows leave some free."""
    rng = np.random.default_rng(17)
    a, b = small(rng, (m, 16), "f16"), small(rng, (64, 16), "f16")
    tensor = noise(18)
    found = multiply(Case("f16", a, b, name="ws.|", adds=False), tensor)
    truth = (values(a, "f16") @ values(b, "f16").T).astype(np.float32).view(np.uint32)
    after = tensor.copy()
    for part in range(parts):
        wide = 64 // parts
        after[part * m : part * m + m, DEFAULT_D : DEFAULT_D + wide] = truth[:, part * wide : part * wide + wide]
    assert np.array_equal(found, after)


def test_signs_and_the_upper_half_of_warps() -> None:
    """Negated factors; of 64 rows D may begin with the 17th lane."""
    rng = np.random.default_rng(19)
    a, b = small(rng, (64, 16), "bf16"), small(rng, (8, 16), "bf16")
    tensor = noise(20)
    case = Case("f16", a, b, ("bf16", "bf16"), adds=False, d=DEFAULT_D + (16 << 16), instruction=1 << 13)
    found = multiply(case, tensor)
    truth = -(values(a, "bf16") @ values(b, "bf16").T)
    lanes = lanes_of(64) + 16
    assert np.array_equal(found[lanes][:, DEFAULT_D : DEFAULT_D + 8].view(np.float32), truth.astype(np.float32))
    assert np.array_equal(np.delete(found, lanes, 0), np.delete(tensor, lanes, 0))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"b": 1 << 46}, "bits 46 to 48 of a matrix descriptor must be 1"),
        ({"a": 3 << 61}, "the swizzle of a matrix descriptor"),
        ({"a": 1 << 61}, "the swizzle of a matrix descriptor"),
        ({"b": 1 << 52}, "strides must be offsets"),
        ({"b": 0x3000}, "shared"),
        ({"a": 0x3FFF << 32}, "shared"),
        ({"instruction": 1 << 2}, "must be 1 with .sp and 0 without"),
        ({"instruction": 3 << 7}, "types"),
        ({"instruction": 2 << 4}, "types"),
        ({"instruction": 1 << 28}, "shape"),
        ({"instruction": 2 << 17}, "shape"),
    ],
)
def test_descriptors_are_looked_at(changes: dict[str, int], said: str) -> None:
    a, b = np.zeros((128, 16), np.uint16), np.zeros((16, 16), np.uint16)
    with pytest.raises(KernelError, match=said):
        multiply(Case("f16", a, b, changes=changes), noise())


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ({"name": "ws.", "changes": {"instruction": 0x17 << 24}}, "TW415"),  # 496 rows
        ({"changes": dict.fromkeys("ab", 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32)}, "TW103"),
    ],
)
def test_a_check_hears_of_products_whose_descriptors_are_right(
    monkeypatch: pytest.MonkeyPatch, case: dict[str, Any], code: str
) -> None:
    """Instruments compute with what descriptors say, so a wrong one must not come to them."""
    found: list[tw.Finding] = []
    monkeypatch.setattr("tensor_kernels.launch", lambda *what, **options: found.extend(tw.check(*what, **options)))
    multiply(Case("f16", np.zeros((128, 16), np.uint16), np.zeros((16, 16), np.uint16), **case), noise())
    assert [one.code for one in found] == [code]


@pytest.mark.parametrize("d", [500, 512, 1 << 16, 16 << 16, 200 << 16, 0xFFFF])
def test_results_outside_of_what_is_allocated(d: int) -> None:
    a, b = np.zeros((128, 16), np.uint16), np.zeros((16, 16), np.uint16)
    with pytest.raises(KernelError, match="must be inside allocated columns"):
        multiply(Case("f16", a, b, d=d), noise())
