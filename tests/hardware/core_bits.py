"""Bits of tensor cores: products of random registers by every form of `mma`, `wmma` and `wgmma`.

Python's generator draws registers from the form's name, so a recording needs only the results: the simulated
GPU multiplies the same registers again when the recording is read. A quarter of the warps has elements near each
other, a quarter any exponent, a quarter all kinds of bit patterns, and the last quarter also infinities and NaNs.
"""

from __future__ import annotations

import base64
import random
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import matrix_batch
import numpy as np
import oracle_matrix
import test_warpgroups
from fragments import extents, gathered, spread
from test_matrix_floats import STYLES, matrices, patterns
from test_operand_widths import names_of

from tilewright.programs import Program
from tilewright.simulate import isa

#: `(program, grid, block, arguments)`.
Launch = Callable[[Program, int, int, tuple[Any, ...]], Any]
_NAMES = 12  #: Most registers of a row.
_WARPS = 2  #: Warps of each style.
#: Two of every four elements are present. Source: PTX ISA, 9.7.14.6.1; of tf32 one of two.
_PAIRS, _ONES = (0x4, 0x8, 0x9, 0xC, 0xD, 0xE), (0x4, 0xE)
#: Forms whose sums show to which exponent tiny terms are aligned.
FLOORS = (("m16n8k16", "bf16"), ("m16n8k8", "tf32"))
_LEAST = range(-126, -141, -1)


def names(cc: tuple[int, int]) -> Iterator[str]:
    """The forms that a compute capability may have; its assembler refuses some."""
    for row in isa.table().rows:
        plain = row.kind in ("matrix", "product") and "block_scale" not in row.syntax
        if row.opcode in ("mma", "wmma") and plain and ("kind::" not in row.syntax or cc >= (12, 0)):
            yield from names_of(row, _NAMES)
    if cc[0] == 9:
        for types in test_warpgroups.FORMS:
            yield f"wgmma {'.'.join(types)}"
            yield f"wgmma.sp {'.'.join(types)}"


def run(name: str, cc: tuple[int, int], launch: Launch) -> np.ndarray:
    """D's registers for random operands."""
    return _of_warpgroup(name, launch) if name.startswith("wgmma") else _of_warps(name, cc, launch)


def encoded(registers: np.ndarray) -> str:
    """Registers in a recording's form."""
    return base64.b64encode(registers.tobytes()).decode()


def _of_warps(name: str, cc: tuple[int, int], launch: Launch) -> np.ndarray:
    form = isa.table().find(name)
    assert form is not None and form.row.counts is not None, name
    rng, counts, sparse = random.Random(name), form.row.counts(form), re.search(r"\.sp\b", name) is not None
    of = {letter: form[f"{letter}type"] or "f16" for letter in "abcd"}
    widths = {letter: 64 if type_ == "f64" else 32 for letter, type_ in of.items()}
    operands = [_drawn(of[one], (counts[one], 32), rng, widths[one]) for one in "abc"]
    order = ""
    if sparse:
        options = _ONES if of["a"] == "tf32" else _PAIRS
        words = [sum(rng.choice(options) << 4 * at for at in range(8)) for _ in range(4 * _WARPS * 32)]
        operands.append(np.array(words, np.uint32).reshape(-1, 1, 32))
        order = "{0}, {1}, {2}, {3}, %r32_4_0, 0"
    cases, taken = len(operands[0]), counts["d"]
    given = np.concatenate([np.ascontiguousarray(x).reshape(cases, -1).view(np.uint8) for x in operands], axis=1)
    registers = [taken, *(x.shape[1] for x in operands)]
    bits = [widths["d"], *(8 * x.dtype.itemsize for x in operands)]
    text = matrix_batch.text(name, registers, bits, given.shape[1], "", order)
    target = f"sm_{cc[0]}{cc[1]}" + "a" * (cc >= (12, 0))
    out = np.zeros((cases, taken, 32), f"u{widths['d'] // 8}")
    program = Program.from_ptx(text.replace(".target sm_120", f".target {target}"))
    launch(program, cases, 32, (np.ascontiguousarray(given).reshape(-1), out.reshape(-1)))
    return out


def _drawn(type_: str, shape: tuple[int, int], rng: random.Random, width: int) -> np.ndarray:
    """Random registers of a type, for the warps of every style."""
    found = []
    for style in STYLES:
        for _ in range(_WARPS * shape[0] * shape[1]):
            if type_ == "f64":
                exponent = rng.randrange(-3, 4) if style == "near" else rng.randrange(-500, 500)
                (word,) = struct.unpack("<Q", struct.pack("<d", rng.uniform(-2, 2) * 2.0**exponent))
            elif type_ in oracle_matrix.FORMATS:
                bits = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32}.get(type_, 8)
                word = sum(x << bits * at for at, x in enumerate(patterns(type_, width // bits, rng, style)))
            else:
                word = rng.getrandbits(width)
            found.append(word)
    return np.array(found, f"u{width // 8}").reshape(-1, *shape)


def _of_warpgroup(name: str, launch: Launch) -> np.ndarray:
    of_a, of_b, of_c = types = tuple(name.split()[1].split("."))
    bits, columns = test_warpgroups.BITS, 8
    sparse, wide, found = name.startswith("wgmma.sp"), 16 if of_c == "f16" else 32, []
    k, rng = 256 // bits[of_a], random.Random(name)
    for style in STYLES:
        ((a,), (b,), (c,)) = (
            matrices(one, shape, rng, style).astype(f"u{size // 8}")
            for one, shape, size in zip(
                types,
                ((1, 64, k), (1, k * (1 + sparse), columns), (1, 64, columns)),
                (bits[of_a], bits[of_b], wide),
                strict=True,
            )
        )
        shared = np.zeros(test_warpgroups.SHARED_BYTES, np.uint8)
        left = test_warpgroups.put(shared, 0, a, 8)
        right = test_warpgroups.put(shared, test_warpgroups.B_START, b.T.copy(), 8)
        rest = f"{right}{', %a0, 0' * sparse}, %yes, 1, 1" + ", 0, 0" * (bits[of_a] == 16)
        given = test_warpgroups.spread(c, wide)
        full = f"wgmma.mma_async{'.sp' * sparse}.sync.aligned.m64n{columns}k{k * (1 + sparse)}.{of_c}.{of_a}.{of_b}"
        out = np.zeros((128, given.shape[1]), np.uint32)
        if sparse:
            options = _ONES if of_a == "tf32" else _PAIRS
            words = [[sum(rng.choice(options) << 4 * at for at in range(8))] for _ in range(128)]
            given = np.concatenate([given, np.array(words, np.uint32)], axis=1)
        program = Program.from_ptx(test_warpgroups.text(full, out.shape[1], f"{left}", rest))
        launch(program, 1, 128, (shared, given.reshape(-1), out.reshape(-1)))
        found.append(out)
    return np.stack(found)


# -- the floor of the alignment ---------------------------------------------------------------------------------------


def tiny(shape: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A and B with products around 2^-146, and a C of zeros: the truncated bits show the floor of the alignment."""
    m, n, k = extents(shape)
    rng, cases = random.Random(f"tiny {name}"), 16
    shift = 13 if name == "tf32" else 0
    _, fraction, bias = oracle_matrix.FORMATS[name]

    def elements(rows: int, columns: int) -> np.ndarray:
        found = [
            (rng.getrandbits(1) << 8 + fraction | bias - rng.randrange(71, 76) << fraction | rng.getrandbits(fraction))
            << shift
            for _ in range(cases * rows * columns)
        ]
        return np.array(found, np.uint64).reshape(cases, rows, columns)

    return elements(m, k), elements(k, n), np.zeros((cases, m, n), np.uint64)  # C would be a term of exponent -126


def tiny_sums(shape: str, name: str, cc: tuple[int, int], launch: Launch) -> np.ndarray:
    """D of these operands, by rows and columns."""
    bits = 32 if name == "tf32" else 16
    given = zip(tiny(shape, name), "abc", (bits, bits, 32), strict=True)
    operands = [spread(x, shape, of, size) for x, of, size in given]
    raw = np.concatenate([np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8) for x in operands], axis=1)
    full = f"mma.sync.aligned.{shape}.row.col.f32.{name}.{name}.f32"
    text = matrix_batch.text(full, [4, *(x.shape[1] for x in operands)], [32] * 4, raw.shape[1], "", "")
    out = np.zeros((len(raw), 4, 32), np.uint32)
    program = Program.from_ptx(text.replace(".target sm_120", f".target sm_{cc[0]}{cc[1]}"))
    launch(program, len(raw), 32, (np.ascontiguousarray(raw).reshape(-1), out.reshape(-1)))
    return gathered(out, shape, "d", 32)


def floors(d: np.ndarray, shape: str, name: str, capability: str) -> dict[int, int]:
    """For each exponent to which tiny terms may be aligned, how many sums it does not explain."""
    a, b, c = tiny(shape, name)
    kept, found = oracle_matrix._LEAST, {}
    try:
        for least in _LEAST:
            oracle_matrix._LEAST = least
            factors = a[:, :, None], b.swapaxes(1, 2)[:, None]
            found[least] = int((d != oracle_matrix.dot(*factors, c, (name, name, "f32"), capability)).sum())
    finally:
        oracle_matrix._LEAST = kept
    return found
