"""Video instructions against the machine code that the vendor's assembler makes of them, and against the manual.

The assembler leaves the manual in two places, where the manual alone is asked: a part of d that is saturated is cut off
from 32 bits that were, and `.po` makes c signed. `fitting` has the third.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import machine_code
import narrow_hosts
import numpy as np
import pytest

from tilewright.errors import PtxError
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate import isa
from tilewright.simulate.isa import video

_TYPES = ("u32", "s32")
_PARTS = ("b0", "b1", "b2", "b3", "h0", "h1")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr")
_TOGETHER = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_MASKS = {2: "h0 h1 h10", 4: "b0 b1 b10 b2 b20 b21 b210 b3 b30 b31 b310 b32 b320 b321 b3210"}
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F80FF01, 0x80017FFE)


def _behind(part: str) -> str:
    return f".{part}" if part else ""


def _types(rng: random.Random, opcode: str) -> str:
    first, second = rng.choice(_TYPES), rng.choice(_TYPES)
    if opcode.startswith("vset"):
        return f"{first}.{second}.{rng.choice(_COMPARISONS)}"
    return f"{rng.choice(_TYPES)}.{first}.{'u32' if opcode in ('vshl', 'vshr') else second}"


def scalar(rng: random.Random, opcode: str) -> str:
    name, target, tail = f"{opcode}.{_types(rng, opcode)}", "%r4", ""
    if opcode != "vset" and rng.random() < 0.5:
        name += ".sat"
    if opcode in ("vshl", "vshr"):
        name += rng.choice((".clamp", ".wrap"))
    match rng.randrange(3):
        case 1:
            name, tail = name + rng.choice((".add", ".min", ".max")), ", %r3"
        case 2:
            target, tail = f"{target}.{rng.choice(_PARTS)}", ", %r3"
    a, b = (_behind(rng.choice(("", "", *_PARTS))) for _ in "ab")
    return f"{name} {target}, %r1{a}, %r2{b}{tail};"


def multiply_add(rng: random.Random) -> str:
    plus = rng.random() < 0.25
    minus = ("", "", "") if plus else rng.choice((("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), "--"))
    a, b = (_behind(rng.choice(("", *_PARTS))) for _ in "ab")
    name = f"vmad.{_types(rng, 'vmad')}{'.po' * plus}{rng.choice(('', '.sat'))}{rng.choice(('', '.shr7', '.shr15'))}"
    return f"{name} %r4, {minus[0]}%r1{a}, {minus[1]}%r2{b}, {minus[2] if len(minus) > 2 else ''}%r3;"


def together(rng: random.Random, opcode: str, count: int) -> str:
    def selector() -> str:
        digits = "".join(str(rng.randrange(2 * count)) for _ in range(count))
        digits = digits.replace("1024", "1042")  # the assembler takes that for a type
        return "" if rng.random() < 0.4 else f".{'h' if count == 2 else 'b'}{digits}"

    name = f"{opcode}{count}.{_types(rng, opcode)}" + rng.choice(
        ("", ".add") if opcode == "vset" else ("", ".sat", ".add")
    )
    mask = _behind(rng.choice(("", *_MASKS[count].split())))
    return f"{name} %r4{mask}, %r1{selector()}, %r2{selector()}, %r3;"


def lines(seed: int, each: int) -> list[str]:
    """`each` instructions of every opcode."""
    rng = random.Random(seed)
    found = [scalar(rng, opcode) for opcode in _SCALAR for _ in range(each)]
    found += [multiply_add(rng) for _ in range(2 * each)]
    return found + [together(rng, opcode, n) for n in (2, 4) for opcode in _TOGETHER for _ in range(each)]


def operands(seed: int, count: int) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    return [
        tuple(rng.choice(_EDGES) if rng.random() < 0.4 else rng.getrandbits(32) for _ in "abc") for _ in range(count)
    ]


def fitting(line: str, words: tuple[int, int, int]) -> tuple[int, int, int]:
    """Operands for which the assembler keeps to the manual.

    It takes a whole word for signed beside a signed operand, and in vmad c and whole words in any case.
    """
    types = line.split(" ", maxsplit=1)[0].split(".")
    if not line.startswith("vmad") and len({t for t in types[-4:] if t in _TYPES} & {"s32"}) == 0:
        return words
    a, b, c = (re.search(rf"%r{n}(\.\w+)?", line) for n in (1, 2, 3))
    low = 0x7FFFFFFF
    return tuple(
        w & low if m and not m[1] and (m is not c or line.startswith("vmad")) else w
        for w, m in zip(words, (a, b, c), strict=True)
    )


def text_of(instructions: list[str], target: str) -> str:
    """Each reads three words and writes one, at offsets of its own."""
    body = "\n".join(
        f"ld.volatile.global.u32 %r1, [%d1+{16 * i}]; ld.volatile.global.u32 %r2, [%d1+{16 * i + 4}];\n"
        f"ld.volatile.global.u32 %r3, [%d1+{16 * i + 8}];\n{line}\nst.volatile.global.u32 [%d1+{16 * i + 12}], %r4;"
        for i, line in enumerate(instructions)
    )
    return (
        f".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n"
        f".reg .b64 %d<3>; .reg .b32 %r<6>; ld.param.u64 %d1, [x];\n{body}\nret; }}\n"
    )


def here(instructions: list[str], given: list[tuple[int, int, int]], *, apart: bool = False) -> list[int]:
    """What the simulated GPU computes; with `apart` each lane has other operands, lane 0 the given ones."""
    text = text_of(instructions, "sm_75")
    stride = 16 * len(given)
    if apart:
        text = text.replace(
            "ld.param.u64 %d1, [x];",
            f"ld.param.u64 %d1, [x]; mov.u32 %r5, %tid.x; mad.wide.u32 %d1, %r5, {stride}, %d1;",
        )
    words = np.zeros((32, len(given), 4), np.uint32)
    words[:, :, :3] = np.array(given, np.uint32)
    if apart:
        words[1:, :, :3] += np.arange(1, 32, dtype=np.uint32)[:, None, None] * np.uint32(0x01030507)
    launch(Program.from_ptx(text), 1, 32 if apart else 1, (words,))
    return words[0, :, 3].tolist()


def there(instructions: list[str], given: list[tuple[int, int, int]], target: str, folder: Path) -> list[int]:
    """What the assembler's machine code computes."""
    memory = {16 * i + 4 * j: word for i, words in enumerate(given) for j, word in enumerate(words)}
    stored = machine_code.Thread(memory).run(machine_code.listing(text_of(instructions, target), target, folder))
    return [stored[16 * i + 12] for i in range(len(given))]


def differences(
    instructions: list[str], given: list[tuple[int, int, int]], got: list[int], wanted: list[int]
) -> list[str]:
    return [
        f"{line} of {', '.join(f'{w:#x}' for w in words)}: {a:#x}, must be {b:#x}"
        for line, words, a, b in zip(instructions, given, got, wanted, strict=True)
        if a != b
    ]


def by_the_manual(line: str) -> bool:
    """Whether the assembler has another meaning."""
    return ".po" in line or (
        ".sat" in line and bool(re.search(r"%r4\.", line)) and not line.split(".", maxsplit=1)[0][-1].isdigit()
    )


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.volume), pytest.param(3, marks=pytest.mark.volume)]
)
def test_as_the_assembler_has_it(seed, tmp_path):
    instructions = [line for line in lines(seed, 8 if seed == 1 else 60) if not by_the_manual(line)]
    given = [fitting(*pair) for pair in zip(instructions, operands(seed, len(instructions)), strict=True)]
    wanted, got = there(instructions, given, "sm_75", tmp_path), here(instructions, given)
    assert differences(instructions, given, got, wanted) == []


# -- by the manual ------------------------------------------------------------------------------------------------


def part_of(word: int, selector: str, type_: str) -> int:
    bits = {"b": 8, "h": 16}.get(selector[:1], 32)
    value = word >> bits * int(selector[1:] or 0) & (1 << bits) - 1
    return value - (1 << bits) if type_ == "s32" and value >> bits - 1 else value


def clamped(value: int, bits: int, type_: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_ == "s32" else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def manual(line: str, words: tuple[int, int, int]) -> int:
    """What a scalar instruction that saturates a part of d gives, or a vmad."""
    name, *rest = re.split(r",? ", line.rstrip(";"))
    opcode, *modifiers = name.split(".")
    dtype, atype, btype = modifiers[:3]
    selectors = [operand.partition(".")[2] for operand in rest]
    minus = [operand[0] == "-" for operand in rest]
    a, b = part_of(words[0], selectors[1], atype), part_of(words[1], selectors[2], btype)
    if opcode == "vmad":
        signed = "s32" in (atype, btype) or minus[1] != minus[2] or minus[3]
        c = part_of(words[2], "", "s32" if signed else "u32") * (-1 if minus[3] else 1)
        total = a * b * (-1 if minus[1] != minus[2] else 1) + c + ("po" in modifiers)
        total >>= next((int(m[3:]) for m in modifiers if m.startswith("shr")), 0)
        return (clamped(total, 32, "s32" if signed else "u32") if "sat" in modifiers else total) & 0xFFFFFFFF
    by = b & 31 if "wrap" in modifiers else min(b, 32)
    shifted = (a << by) % (1 << 34) if opcode == "vshl" else a >> max(by, 0)
    shifted = shifted - (1 << 34) if shifted >> 33 == 1 else shifted
    value = {
        "vadd": a + b, "vsub": a - b, "vabsdiff": abs(a - b), "vmin": min(a, b), "vmax": max(a, b), "vshl": shifted,
        "vshr": shifted,
    }[opcode]  # fmt: skip
    bits = 8 if selectors[0][0] == "b" else 16
    at, mask = bits * int(selectors[0][1:]), (1 << bits) - 1
    return (clamped(value, bits, dtype) & mask) << at | words[2] & ~(mask << at) & 0xFFFFFFFF


def test_as_the_manual_has_it():
    rng = random.Random(7)
    instructions = [multiply_add(rng) for _ in range(120)]
    made = (scalar(rng, rng.choice(_SCALAR[:5] + _SCALAR[6:])) for _ in range(2000))
    instructions += [line for line in made if by_the_manual(line)][:150]
    given = operands(7, len(instructions))
    wanted = [manual(*pair) for pair in zip(instructions, given, strict=True)]
    assert differences(instructions, given, here(instructions, given), wanted) == []


@pytest.mark.parametrize("host", ["own", "avx2", "sse"])
def test_lanes_with_numbers_of_their_own(host, monkeypatch):
    """In vectors, on hosts of each width, the bits are those of one thread alone."""
    instructions = lines(11, 2 if host == "own" else 1)
    given = operands(11, len(instructions))
    alone = here(instructions, given)
    narrow_hosts.use_host(monkeypatch.setattr, host)
    assert differences(instructions, given, here(instructions, given, apart=True), alone) == []


def test_every_row_was_asked():
    table = isa.table()
    asked = {table.find(line.partition(" ")[0]).row.syntax for line in lines(1, 8)}
    assert {row.syntax for row in video.rows.rows} == asked


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vadd.u32.u32.u32 %r4.b4, %r1, %r2, %r3;", r"takes a register as d, or a part of it: .b\[0-3\], .h\[01\]"),
        ("vadd4.u32.u32.u32 %r4, %r1.b801, %r2, %r3;", "',' or ';'|special register|takes a register as a"),
        ("vadd2.u32.u32.u32 %r4, %r1.b10, %r2, %r3;", "takes a register as a"),
        ("vadd.u32.u32.u32 %r4, -%r1, %r2;", r"takes a register as a.*got -%r1"),
        ("add.u32 %r4, %r1.b0, %r2;", r"takes a register as a \(got %r1.b0\)"),
        ("add.u32 %r4, %r1, -%r2;", r"takes a register as b \(got -%r2\)"),
        ("vadd.u32.u32.u32 %r4, %r1, %r2, %r3;", "needs a second operation"),
        ("vadd.u32.u32.u32.add %r4, %r1, %r2;", "takes 4 operands"),
        ("vmad.u32.u32.u32.po %r4, %r1, -%r2, %r3;", "with .po neither"),
        ("vadd.u32.u32 %r4, %r1, %r2;", "is not implemented; known forms: vadd"),
    ],
)
def test_what_is_refused(line, message):
    with pytest.raises(PtxError, match=message):
        here([line], [(1, 2, 3)])
