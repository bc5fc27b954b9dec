"""Products of a warpgroup: layouts of matrix descriptors, and results, against NumPy and the published models.

Where an element lies is worked out from the canonical layouts as CUTLASS writes them, shape and stride, and from its
`Swizzle<bits, 4, 3>`. Source: CUTLASS, cute/arch/mma_sm90_desc.hpp.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import oracle_matrix
import pytest
import vendor
from test_matrix_floats import matrices

from tilewright.errors import KernelError, PtxError
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.programs.assembler import find_assembler

SHARED_BYTES, B_START = 40960, 16384
#: Swizzle: units of 16 bytes in an atom's row, and the number of the mode.
MODES = {"none": (1, 0), "32": (2, 3), "64": (4, 2), "128": (8, 1)}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}


def strides(units: int, *, mn_major: bool, steps: int = 2) -> tuple[int, int]:
    """Leading and stride byte offsets of a matrix with adjacent atoms, `steps` of them along k without a swizzle."""
    atom = 128 * units
    if mn_major:
        return (steps * atom, atom) if units > 1 else (atom, steps * atom)
    return (atom, steps * atom) if units == 1 else (16, atom)


def offset(line: int, element: int, units: int, size: int, *, mn_major: bool, steps: int = 2) -> int:
    """Byte of an element: `element` counts along k."""
    t = 16 // size
    leading, stride = (x // size for x in strides(units, mn_major=mn_major, steps=steps))
    if not mn_major:
        along = element % t + element // t * leading if units == 1 else element
        place = line % 8 * units * t + line // 8 * stride + along
    else:
        wide = units * t
        by_line, by_step = (stride, leading) if units == 1 else (leading, stride)
        place = line % wide + line // wide * by_line + element % 8 * wide + element // 8 * by_step
    place *= size
    mask = (units - 1) << 7
    return place ^ ((place & mask) >> 3)


def put(shared: np.ndarray, start: int, lines: np.ndarray, units: int, *, mn_major: bool = False, skip: int = 0) -> int:
    """Store a matrix (lines, k) of patterns in shared memory; gives its descriptor, from `skip` elements of k on."""
    size = lines.dtype.itemsize
    steps = lines.shape[1] * size // 16
    for (line, element), value in np.ndenumerate(lines):
        at = start + offset(line, element + skip, units, size, mn_major=mn_major, steps=steps)
        shared[at : at + size] = np.frombuffer(value.tobytes(), np.uint8)
    leading, stride = strides(units, mn_major=mn_major, steps=steps)
    mode = next(number for of, number in MODES.values() if of == units)
    return (start + skip * size) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def text(name: str, registers: int, a: str, rest: str, guard: str = "", limit: int = SHARED_BYTES) -> str:
    """A kernel of one product: a copy of shared memory comes first, then D's and A's registers of each thread.

    Metadata of a sparse A are the register behind those.
    """
    d = ", ".join(f"%d{i}" for i in range(registers))
    held = (a + rest).count("%a")
    loads = "".join(f"ld.global.b32 %d{i}, [%in+{4 * i}];\n" for i in range(registers))
    loads += "".join(f"ld.global.b32 %a{i}, [%in+{4 * (registers + i)}];\n" for i in range(held))
    stores = "".join(f"st.global.b32 [%out+{4 * i}], %d{i};\n" for i in range(registers))
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p_shared, .param .u64 p_in, .param .u64 p_out) {{
.shared .align 1024 .b8 shared[{limit}];
.reg .b32 %t, %at, %v, %s, %a<5>, %d<{registers}>;
.reg .b64 %from, %w, %in, %out;
.reg .pred %q, %yes, %no;
ld.param.u64 %from, [p_shared]; ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];
mov.u32 %t, %tid.x; mov.u32 %s, shared; setp.eq.u32 %yes, %t, %t; setp.ne.u32 %no, %t, %t;
mul.wide.u32 %w, %t, {4 * (registers + held)}; add.u64 %in, %in, %w;
mul.wide.u32 %w, %t, {4 * registers}; add.u64 %out, %out, %w;
shl.b32 %at, %t, 2;
copy: setp.ge.u32 %q, %at, {limit}; @%q bra copied;
cvt.u64.u32 %w, %at; add.u64 %w, %w, %from; ld.global.b32 %v, [%w];
add.u32 %t, %s, %at; st.shared.b32 [%t], %v; add.u32 %at, %at, 512; bra copy;
copied: bar.sync 0;
{loads}
wgmma.fence.sync.aligned;
{guard}{name} {{{d}}}, {a}, {rest};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""


def run(source: str, shared: np.ndarray, given: np.ndarray, registers: int) -> np.ndarray:
    """D's registers: (128 threads, registers)."""
    out = np.zeros((128, registers), np.uint32)
    launch(Program.from_ptx(source), 1, 128, (shared, given.reshape(-1), out.reshape(-1)), gpu="h100")
    return out


def places(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of D that a thread holds: the figure of 9.7.15.5.1, "Fragment of D"."""
    thread = np.arange(128)[:, None]
    i = np.arange(columns // 2)[None, :]

    return thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2


def spread(matrix: np.ndarray, bits: int) -> np.ndarray:
    """A matrix (64, columns) of bit patterns as registers."""
    elements = matrix[places(matrix.shape[1])].astype(np.uint32)
    return elements if bits == 32 else elements[:, ::2] | elements[:, 1::2] << 16


def gathered(registers: np.ndarray, columns: int, bits: int) -> np.ndarray:
    """Registers as a matrix of bit patterns."""
    elements = registers
    if bits == 16:
        elements = np.stack([registers & 0xFFFF, registers >> 16], axis=-1).reshape(128, -1)
    found = np.zeros((64, columns), np.uint32)
    found[places(columns)] = elements
    return found


def integers(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.integers(-8, 9, shape).astype(np.float16)


@pytest.mark.parametrize("b_mn_major", [False, True], ids=["b-k-major", "b-mn-major"])
@pytest.mark.parametrize("a_mn_major", [False, True], ids=["a-k-major", "a-mn-major"])
@pytest.mark.parametrize("mode", MODES)
def test_descriptors_find_every_layout(mode, a_mn_major, b_mn_major):
    units = MODES[mode][0]
    rng = np.random.default_rng(units)
    a, b = integers(rng, (64, 16)), integers(rng, (16, 72))
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left = put(shared, 0, a.view(np.uint16), units, mn_major=a_mn_major)
    right = put(shared, B_START, b.T.copy().view(np.uint16), units, mn_major=b_mn_major)
    name = "wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16"
    source = text(name, 36, f"{left}", f"{right}, %no, 1, 1, {a_mn_major:d}, {b_mn_major:d}")
    d = gathered(run(source, shared, np.zeros((128, 36), np.uint32), 36), 72, 32).view(np.float32)
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_descriptor_may_point_into_a_swizzled_line(step):
    rng = np.random.default_rng(step)
    a, b = integers(rng, (64, 16)), integers(rng, (16, 8))
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left = put(shared, 0, a.view(np.uint16), 8, skip=16 * step)
    right = put(shared, B_START, b.T.copy().view(np.uint16), 8, skip=16 * step)
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    given = np.zeros((128, 4), np.uint32)
    d = gathered(run(text(name, 4, f"{left}", f"{right}, %no, 1, 1, 0, 0"), shared, given, 4), 8, 32)
    assert np.array_equal(d.view(np.float32), a.astype(np.float32) @ b.astype(np.float32))


FORMS = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"), ("e5m2", "e5m2", "f32"),
]  # fmt: skip


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.volume)])
@pytest.mark.parametrize("style", ["near", "wide", "any", "specials"])
@pytest.mark.parametrize("types", FORMS, ids="-".join)
def test_sums_are_those_of_the_published_formula(types, style, rounds):
    rng = random.Random(f"{types} {style}")
    for _ in range(rounds):
        sums_are_right(types, style, rng)


def sums_are_right(types: tuple[str, str, str], style: str, rng: random.Random) -> None:
    of_a, of_b, of_c = types
    k, wide, columns = 256 // BITS[of_a], 16 if of_c == "f16" else 32, 8
    ((a,), (b,), (c,)) = (
        matrices(name, shape, rng, style).astype(f"u{bits // 8}")
        for name, shape, bits in (
            (of_a, (1, 64, k), BITS[of_a]), (of_b, (1, k, columns), BITS[of_b]), (of_c, (1, 64, columns), wide)
        )
    )  # fmt: skip
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left, right = put(shared, 0, a, 8), put(shared, B_START, b.T.copy(), 8)
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{of_c}.{of_a}.{of_b}"
    rest = f"{right}, %yes, 1, 1" + ", 0, 0" * (BITS[of_a] == 16)
    given = spread(c, wide)
    d = gathered(run(text(name, given.shape[1], f"{left}", rest), shared, given, given.shape[1]), columns, wide)
    np.testing.assert_array_equal(d, oracle_matrix.of_warpgroup(a[:, None], b.T, c, types))


@pytest.mark.parametrize("rounds", [1, pytest.param(66, marks=pytest.mark.volume)])
@pytest.mark.parametrize("saturates", [False, True], ids=["wraps", "saturates"])
@pytest.mark.parametrize(("of_a", "of_b"), [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")])
def test_integers_are_exact(of_a, of_b, saturates, rounds):
    rng = np.random.default_rng(8)
    for _ in range(rounds):
        integers_are_exact(of_a, of_b, rng, saturates=saturates)


def integers_are_exact(of_a: str, of_b: str, rng: np.random.Generator, *, saturates: bool) -> None:
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((64, 32), (24, 32)))
    c = rng.choice([0, 5, -7, 2**31 - 1000, -(2**31) + 1000], (64, 24))
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left, right = put(shared, 0, a, 2), put(shared, B_START, b, 2)
    name = f"wgmma.mma_async.sync.aligned.m64n24k32{'.satfinite' * saturates}.s32.{of_a}.{of_b}"
    given = spread(c.astype(np.int32).view(np.uint32), 32)
    d = gathered(run(text(name, 12, f"{left}", f"{right}, %yes"), shared, given, 12), 24, 32).view(np.int32)
    numbers = [x.view(np.int8 if of == "s8" else np.uint8).astype(np.int64) for x, of in ((a, of_a), (b, of_b))]
    wanted = numbers[0] @ numbers[1].T + c
    wanted = np.clip(wanted, -(2**31), 2**31 - 1) if saturates else wanted.astype(np.int32)
    assert np.array_equal(d, wanted)
    assert (np.abs(numbers[0] @ numbers[1].T + c) >= 2**31).any()


@pytest.mark.parametrize("rounds", [1, pytest.param(200, marks=pytest.mark.volume)])
def test_bits_set_in_both_are_counted(rounds):
    rng = np.random.default_rng(9)
    for _ in range(rounds):
        a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((64, 32), (8, 32)))
        shared = np.zeros(SHARED_BYTES, np.uint8)
        left, right = put(shared, 0, a, 8), put(shared, B_START, b, 8)
        name = "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"
        d = gathered(run(text(name, 4, f"{left}", f"{right}, %no"), shared, np.zeros((128, 4), np.uint32), 4), 8, 32)
        both = np.unpackbits(a[:, None, :] & b[None, :, :], axis=-1).sum(axis=-1)
        assert np.array_equal(d, both)


@pytest.mark.parametrize("keeps", ["%yes", "%no"])
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_a_in_registers_signs_and_accumulation(signs, keeps):
    rng = np.random.default_rng(5)
    a, b, c = integers(rng, (64, 16)), integers(rng, (16, 8)), integers(rng, (64, 8)).astype(np.float32)
    shared = np.zeros(SHARED_BYTES, np.uint8)
    right = put(shared, B_START, b.T.copy().view(np.uint16), 4)
    thread, i = np.arange(128)[:, None], np.arange(8)[None, :]
    rows = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    held = a.view(np.uint16)[rows, thread % 4 * 2 + i % 2 + i // 4 * 8].astype(np.uint32)
    given = np.concatenate([spread(c.view(np.uint32), 32), held[:, ::2] | held[:, 1::2] << 16], axis=1)
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    source = text(name, 4, "{%a0, %a1, %a2, %a3}", f"{right}, {keeps}, {signs[0]}, {signs[1]}, 0")
    d = gathered(run(source, shared, given, 4), 8, 32).view(np.float32)
    product = np.float32(signs[0] * signs[1]) * (a.astype(np.float32) @ b.astype(np.float32))
    assert np.array_equal(d, product + c * (keeps == "%yes"))


@pytest.mark.parametrize("guard", ["@%yes ", "@%no "])
def test_a_guard_that_all_lanes_share(guard):
    shared, ones = np.zeros(SHARED_BYTES, np.uint8), np.ones((64, 16), np.float16).view(np.uint16)
    left, right = put(shared, 0, ones, 8), put(shared, B_START, ones[:8], 8)
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    source = text(name, 4, f"{left}", f"{right}, %yes, 1, 1, 0, 0", guard)
    given = np.full((128, 4), np.float32(3).view(np.uint32))
    assert set(run(source, shared, given, 4).view(np.float32).flat) == {19.0 if guard == "@%yes " else 3.0}


def test_a_matrix_outside_shared_memory_is_a_fault():
    name = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    source = text(name, 4, "0", f"{0x3FFF}, %no, 1, 1, 0, 0")
    with pytest.raises(KernelError, match=r"out of bounds shared load of 16 bytes .*outside the shared memory"):
        run(source, np.zeros(SHARED_BYTES, np.uint8), np.zeros((128, 4), np.uint32), 4)


@pytest.mark.parametrize(
    ("a", "rest", "message"),
    [
        ("0", "0, %no, 2, 1, 0, 0", "takes a literal 1 or -1"),
        ("0", "0, %no, 1, 1, 0", "takes a literal 1 or -1"),
        ("{%a0, %a1, %a2, %a3}", "0, %no, 1, 1, 0, 0", "takes a literal 1 or -1"),
        ("{%a0, %a1}", "0, %no, 1, 1, 0", r"operand a .* must be 4 registers in braces \(got 2"),
    ],
)
def test_refused_operands(a, rest, message):
    source = text("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 4, a, rest)
    with pytest.raises(PtxError, match=message):
        run(source, np.zeros(SHARED_BYTES, np.uint8), np.zeros((128, 6), np.uint32), 4)


@pytest.mark.skipif(not vendor.present(), reason="needs the vendor's assembler")
@pytest.mark.parametrize("types", [*FORMS, ("s8", "u8", "s32"), ("u8", "u8", "satfinite.s32")], ids="-".join)
def test_the_vendors_assembler_takes_these_forms(tmp_path: Path, types):
    of_a, of_b, of_c = types
    for columns in (8, 24, 256):
        registers = columns // (4 if of_c == "f16" else 2)
        bits = BITS.get(of_a, 8)
        name = f"wgmma.mma_async.sync.aligned.m64n{columns}k{256 // bits}.{of_c}.{of_a}.{of_b}"
        rest = "%w, %no" + ", 1, -1" * (of_a in BITS) + ", 0, 1" * (bits == 16)
        path = tmp_path / "k.ptx"
        path.write_text(text(name, registers, "%w", rest))
        command = [find_assembler(), "-arch=sm_90a", path, "-o", tmp_path / "k.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
