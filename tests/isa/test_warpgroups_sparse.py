"""Products of a warpgroup whose A is sparse: the places of metadata follow from CUTLASS's layouts.

Source: NVIDIA/cutlass, cute/atom/mma_traits_sm90_gmma_sparse.hpp (`ELayout_64x64`, `ELayout_64x32`, `ELayout_64x16`).
"""

from __future__ import annotations

import functools
import itertools
import random

import numpy as np
import oracle_matrix
import pytest
import vendor
from cute_layouts import offsets
from test_matrix_floats import matrices
from test_matrix_sparse import chosen, indices
from test_warpgroups import B_START, BITS, FORMS, MODES, SHARED_BYTES, gathered, put, run, spread, text

from tilewright import check
from tilewright.errors import PtxError
from tilewright.programs import Program

#: By bits of an element: strides, in rows and then 64 rows a step of k, of a thread's number (2, 2, 8, 4) and of its
#: elements; 0 stands for threads of which a selector takes one. A chunk of the elements has four bits.
LAYOUTS = {
    8: (((2, 8), (2, 2048), (8, 1), (4, 16)), ((32, 64),)),
    16: (((2, 1024), (2, 0), (8, 1), (4, 16)), ((16, 64), (2, 8))),
    32: (((2, 512), (2, 0), (8, 1), (4, 16)), ((8, 64), (2, 8))),
}
CHUNK = {8: (4, 2), 16: (4, 2), 32: (2, 1)}


def metadata(nibbles: np.ndarray, bits: int, selector: int) -> np.ndarray:
    """The register of each thread; those not selected are random."""
    threads, elements = map(offsets, LAYOUTS[bits])
    chunk, _ = CHUNK[bits]
    registers = np.random.default_rng(selector).integers(0, 2**32, 128, dtype=np.uint64)
    for thread, start in enumerate(threads):
        if bits > 8 and thread // 2 % 2 != selector:
            continue
        registers[thread] = 0
        for number, element in enumerate(elements[::chunk]):
            k, row = divmod(start + element, 64)
            registers[thread] |= np.uint64(int(nibbles[row, k // chunk]) << 4 * number)
    return registers.astype(np.uint32)


def held(a: np.ndarray) -> np.ndarray:
    """A's registers: those of the dense product of half the length, 32 bytes of each row."""
    thread, i = np.arange(128)[:, None], np.arange(4)[None, :]
    words = np.ascontiguousarray(a).view(np.uint32)
    return words[thread // 32 * 16 + thread % 32 // 4 + i % 2 * 8, thread % 4 + i // 2 * 4]


def product(types, a, b, c, there, *, selector=0, units=(4, 4), mn_major=(False, False), in_registers=False, words="",
            signs=(1, 1)):  # fmt: skip
    """D as bit patterns: `there` has the k of each element of A."""
    of_a, of_b, of_c = types
    bits, columns, wide = a.dtype.itemsize * 8, b.shape[1], 16 if of_c == "f16" else 32
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left = put(shared, 0, a, units[0], mn_major=mn_major[0])
    right = put(shared, B_START, b.T.copy(), units[1], mn_major=mn_major[1])
    given = spread(c, wide)
    rows = [given, held(a)] if in_registers else [given]
    registers = np.concatenate([*rows, metadata(indices(there, CHUNK[bits]), bits, selector)[:, None]], axis=1)
    name = f"wgmma.mma_async.sp.sync.aligned.m64n{columns}k{512 // bits}{words}.{of_c}.{of_a}.{of_b}"
    literals = f", {signs[0]}, {signs[1]}" * (of_c != "s32")
    turned = mn_major[1:] if in_registers else mn_major
    literals += "".join(f", {x:d}" for x in turned) * (bits == 16)
    factor = "{%a0, %a1, %a2, %a3}" if in_registers else f"{left}"
    rest = f"{right}, %a{4 * in_registers}, {selector}, %yes{literals}"
    d = run(text(name, given.shape[1], factor, rest), shared, registers, given.shape[1])
    return gathered(d, columns, wide)


def small(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.integers(-8, 9, shape).astype(np.float16)


def dense(a: np.ndarray, there: np.ndarray, k: int) -> np.ndarray:
    full = np.zeros((len(a), k), a.dtype)
    np.put_along_axis(full, there, a, axis=1)
    return full


@pytest.mark.parametrize(
    ("mode", "in_registers", "mn_major"),
    [("none", False, (False, False)), ("64", True, (False, True)), ("128", False, (True, False)),
     ("128", False, (False, True)), ("none", False, (True, True))],
)  # fmt: skip
def test_layouts_and_selectors(mode, in_registers, mn_major):
    units, rng = MODES[mode][0], np.random.default_rng(len(mode))
    a, b, c = small(rng, (64, 16)), small(rng, (32, 24)), small(rng, (64, 24)).astype(np.float32)
    for selector, sign in (0, 1), (1, -1):
        there = chosen(random.Random(selector), CHUNK[16], 64, 32)
        d = product(
            ("f16", "f16", "f32"), a.view(np.uint16), b.view(np.uint16), c.view(np.uint32), there, selector=selector,
            units=(units, units), mn_major=mn_major, in_registers=in_registers, signs=(1, sign),
        )  # fmt: skip
        wanted = dense(a, there, 32).astype(np.float32) @ b.astype(np.float32)
        assert np.array_equal(d.view(np.float32), sign * wanted + c)


@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.volume)])
@pytest.mark.parametrize("types", FORMS, ids="-".join)
def test_sums_are_those_of_the_products_of_stored_elements(types, rounds):
    of_a, of_b, of_c = types
    bits, wide, columns = BITS[of_a], 16 if of_c == "f16" else 32, 8
    k, rng = 512 // bits, random.Random(f"sparse {types}")
    styles = ("near", "wide", "any", "specials")
    first = 2 * (FORMS.index(types) % 2)  # of four styles two in one round, for any two types all
    for number, style in zip(range(2 * rounds), itertools.cycle(styles[first:] + styles[:first])):
        ((a,), (b,), (c,)) = (
            matrices(name, shape, rng, style).astype(f"u{size // 8}")
            for name, shape, size in (
                (of_a, (1, 64, k // 2), bits), (of_b, (1, k, columns), bits), (of_c, (1, 64, columns), wide)
            )
        )  # fmt: skip
        there = chosen(rng, CHUNK[bits], 64, k)
        d = product(types, a, b, c, there, selector=number % 2 if bits > 8 else 0, in_registers=bool(number % 2))
        factors = a[:, None], b[np.array(there)].swapaxes(1, 2)
        np.testing.assert_array_equal(d, oracle_matrix.of_warpgroup(*factors, c, types), style)


@pytest.mark.parametrize("rounds", [1, pytest.param(66, marks=pytest.mark.volume)])
@pytest.mark.parametrize(("of_a", "of_b", "words"), [("s8", "u8", ""), ("u8", "s8", ".satfinite")])
def test_integers_are_exact(of_a, of_b, words, rounds):
    rng = np.random.default_rng(8)
    for _ in range(rounds):
        integers_are_exact(of_a, of_b, words, rng)


def integers_are_exact(of_a: str, of_b: str, words: str, rng: np.random.Generator) -> None:
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((64, 32), (64, 24)))
    c = rng.choice([0, 5, -7, 2**31 - 1000, -(2**31) + 1000], (64, 24))
    there = chosen(random.Random(int(rng.integers(2**31))), CHUNK[8], 64, 64)
    d = product((of_a, of_b, "s32"), a, b, c.astype(np.int32).view(np.uint32), there, words=words).view(np.int32)
    numbers = [x.view(np.int8 if of == "s8" else np.uint8).astype(np.int64) for x, of in ((a, of_a), (b, of_b))]
    wanted = dense(numbers[0], there, 64) @ numbers[1] + c
    assert (np.abs(wanted) >= 2**31).any()
    wanted = np.clip(wanted, -(2**31), 2**31 - 1) if words else wanted.astype(np.int32)
    assert np.array_equal(d, wanted)


@pytest.mark.parametrize(("place", "is_read"), [(B_START + 48, True), (B_START + 80, False)])
def test_checks_hear_of_all_of_b(place, is_read):
    """Lines of B are 64 bytes long, of the 128 that an atom has; thread 0 writes there before the wait."""
    ones = np.ones((64, 16), np.float16).view(np.uint16)
    shared = np.zeros(SHARED_BYTES, np.uint8)
    left, right = put(shared, 0, ones, 8), put(shared, B_START, np.ones((8, 32), np.float16).view(np.uint16), 8)
    write = f"mov.u32 %t, %tid.x; setp.eq.u32 %q, %t, 0; @%q st.shared.b32 [%s+{place}], %t"
    rest = f"{right}, %a0, 0, %yes, 1, 1, 0, 0; {write}"
    source = text("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", 4, f"{left}", rest)
    arguments = (shared, np.full(128 * 5, 0x44444444, np.uint32), np.zeros(128 * 4, np.uint32))
    found = {finding.code for finding in check(Program.from_ptx(source), 1, 128, arguments, gpu="h100")}
    assert ("TW307" in found) == is_read, found


WHOLE = [("s8", "u8", "s32"), ("u8", "u8", "satfinite.s32")]
GAPS = (8, 24, 40, 48, 256)


def lines() -> list[str]:
    """Forms as the table spells them, and neighbours: other lengths, selectors, columns, types, words, operands."""
    found = []
    for (of_a, of_b, of_c), columns, selector in itertools.product([*FORMS, *WHOLE], GAPS, ("0", "1", "2", "%w32_1")):
        bits = BITS.get(of_a, 8)
        count = columns // (4 if of_c == "f16" else 2)
        d = "{" + ", ".join(f"%w32_{i % 9}" for i in range(count)) + "}"
        turned = ", 0, 1" * (bits == 16)
        rest = ", 1, -1" * (of_a in BITS) + turned
        for words, length in ((".sp", 512), (".sp", 256), (".sp::ordered_metadata", 512)):
            if (words, length) != (".sp", 512) and (selector, columns) != ("0", 8):
                continue
            name = f"wgmma.mma_async{words}.sync.aligned.m64n{columns}k{length // bits}.{of_c}.{of_a}.{of_b}"
            found.append(f"{name} {d}, %w64_0, %w64_1, %w32_1, {selector}, %p0{rest};")
        if selector == "0":
            name = f"wgmma.mma_async.sp.sync.aligned.m64n{columns}k{512 // bits}.{of_c}.{of_a}.{of_b}"
            in_registers = ", 1, -1" * (of_a in BITS) + ", 1" * (bits == 16)
            found.append(f"{name} {d}, {{%w32_0, %w32_1, %w32_2, %w32_3}}, %w64_1, %w32_1, 0, %p0{in_registers};")
            found.append(f"{name} {d}, %w64_0, %w64_1, %w64_2, 0, %p0{rest};")
            found.append(f"{name} {d}, %w64_0, %w64_1, %p0{rest};")
    return found


@functools.cache
def refused_here(line: str) -> bool:
    """Whether this machine does not translate an instruction."""
    from tilewright.simt import launch

    source = vendor.kernel([line], ("8.7", "sm_90a"))
    try:
        launch(Program.from_ptx(source), 1, 128, (), gpu="h100")
    except PtxError:
        return True
    except Exception:  # what it did was wrong, and it was translated
        return False
    return False


def test_metadata_of_the_widest_fit_their_array():
    """They once overran the array of registers on the host's stack."""
    widest = [line for line in lines() if "n256k32.f32.f16.f16" in line and ".sp.sync" in line]
    assert [refused_here(line) for line in widest[:2]] == [False, False]


@pytest.mark.skipif(not vendor.present(), reason="needs the vendor's assembler")
@pytest.mark.parametrize("share", [16, pytest.param(1, marks=pytest.mark.volume)])
def test_the_vendors_assembler_takes_and_refuses_the_same(tmp_path, share):
    asked = lines()
    asked = random.Random(1).sample(asked, len(asked) // share)
    there = vendor.taken(asked, tmp_path, ("8.7", "sm_90a"))
    assert {i for i, line in enumerate(asked) if not refused_here(line)} == set(there)
    assert 0 < len(there) < len(asked)
