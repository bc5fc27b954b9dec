"""The vendor's assembler as an oracle: it folds constants, and shares no author with this project.

The assembler folds instructions with constant operands. The result is a constant in the machine code, which is moved to
a register and stored. Stores are volatile, so they come in the order of the text, and each is one word. Only moves of
constants are understood; what is computed when the kernel runs has no answer here.

Source: the encodings are those that `nvdisasm --print-instruction-encoding` shows for sm_75 to sm_100.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import vendor
from harness import array_type, signature

from tilewright.simulate.isa import Form
from tilewright.simulate.programs.assembler import find_assembler

_ZERO = 255  # the register that reads as 0
_ALWAYS = 7  # the guard of an instruction without one
_STORES = {0x386, 0x986}
#: Opcode -> (lowest bits of a move's second word, their mask). The constant is the first word's upper half.
_MOVES = {0x802: (0xF00, 0xFF00), 0x424: (0x78E00FF, 0xFFFFFFFF), 0x431: (0xFF, 0xFF), 0x435: (0xFF, 0xFF)}
#: The same of moves between registers: 0x202 moves its operand b, 0x224 its operand c.
_COPIES = {0x202: (0xF00, 0xFF00), 0x224: (0x78E0000, 0xFFFFFF00)}
#: 0 + 0 + carry, the carry being true.
_ONE = {0x210: 0x3FFE4FF, 0x224: 0x7FE04FF}
#: Clears a pair of registers.
_CLEAR_PAIR = 0x805

#: The first of these that knows a form folds it.
EDITIONS = (("9.1", "sm_75"), ("9.1", "sm_90"), ("9.1", "sm_100a"))
_SCRATCH = ".reg .b64 %out; .reg .b32 %word, %high;"

Case = tuple[Form, Sequence[int]]


def width_of(ptx_type: str) -> int:
    """Bits of the register that holds a type, 1 for a predicate."""
    return 1 if ptx_type == "pred" else max(16, array_type(ptx_type).itemsize * 8)


def _named(bits: int, name: str) -> str:
    return f".reg .{'pred' if bits == 1 else f'b{bits}'} {name};"


def _word(bits: int, name: str) -> Iterator[str]:
    """Store a value, a word a statement."""
    if bits == 1:
        yield f"selp.u32 %word, 1, 0, {name}; st.volatile.global.u32 [%out], %word;"
    elif bits == 16:
        yield f"cvt.u32.u16 %word, {name}; st.volatile.global.u32 [%out], %word;"
    elif bits == 32:
        yield f"st.volatile.global.u32 [%out], {name};"
    else:
        yield f"mov.b64 {{%word, %high}}, {name}; st.volatile.global.u32 [%out], %word;"
        yield "st.volatile.global.u32 [%out], %high;"


def _statements(form: Form, operands: Sequence[int]) -> tuple[list[str], list[int]]:
    """One instruction in a block of its own, and how many words each of its results is."""
    types, carry = signature(form), form.row.kind == "carry"
    lines, names = ["{"], []
    for index, (letter, type_, value) in enumerate(zip(types.sources, types.source_types, operands, strict=True)):
        if letter == "immLut":
            names.append(str(value & 0xFF))
        elif letter == "carry":  # with -1 added, 1 overflows and 0 does not
            lines.append(f"mov.u32 %word, {value}; add.cc.u32 %word, %word, -1;")
        else:
            bits, name = width_of(type_), f"%s{index}"
            made = f"setp.ne.u32 {name}, {value}, 0;" if bits == 1 else f"mov.b{bits} {name}, {value:#x};"
            lines.append(_named(bits, name) + made)
            names.append(name)
    widths = [width_of(t) for t in types.destination_types[: -1 if carry else None]]
    results = [f"%d{index}" for index in range(len(widths))]
    lines += [_named(bits, name) for bits, name in zip(widths, results, strict=True)]
    lines.append(f"{form.name} {', '.join(['|'.join(results), *names])};")
    if carry:
        lines.append(_named(32, "%carry") + "addc.u32 %carry, 0, 0;")
        widths, results = [*widths, 32], [*results, "%carry"]
    stores = [list(_word(bits, name)) for bits, name in zip(widths, results, strict=True)]
    return [*lines, *(line for store in stores for line in store), "}"], [len(store) for store in stores]


def editions_of(forms: Sequence[Form], folder: Path) -> dict[str, tuple[str, str]]:
    """For each form's name the edition that folds it; forms unknown to all editions are left out."""
    found: dict[str, tuple[str, str]] = {}
    for edition in EDITIONS:
        waiting = [form for form in forms if form.name not in found]
        texts = [_statements(form, [0] * len(signature(form).sources))[0] for form in waiting]
        refused = vendor.refusals([f"{{ {_SCRATCH} {' '.join(text)} }}" for text in texts], folder, edition)
        found |= {form.name: edition for index, form in enumerate(waiting) if index not in refused}
    return found


def folded(cases: Sequence[Case], folder: Path, edition: tuple[str, str]) -> list[list[int | None]]:
    """The results of each case, None if the assembler did not fold it."""
    version, target = edition
    lines = [f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 out) {{"]
    lines.append(f"{_SCRATCH} ld.param.u64 %out, [out];")
    words = []
    for form, operands in cases:
        text, counts = _statements(form, operands)
        lines += text
        words.append(counts)
    source, binary = folder / "folded.ptx", folder / "folded.cubin"
    source.write_text("\n".join([*lines, "ret; }\n"]))
    command = [find_assembler(), f"-arch={target}", source, "-o", binary]
    subprocess.run(command, capture_output=True, text=True, check=True)
    stored = iter(_stored(_code(binary.read_bytes())))
    answers = []
    for counts in words:
        results = [[next(stored) for _ in range(count)] for count in counts]
        answers.append([None if None in r else sum(w << 32 * i for i, w in enumerate(r)) for r in results])
    assert next(stored, None) is None, "a store that belongs to no case"
    return answers


def _code(elf: bytes) -> bytes:
    """The kernel's machine code."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", elf, start + index * size) for index in range(count)]
    for name, _, _, _, offset, length in sections:
        at = sections[names][4] + name
        if elf[at : at + 7] == b".text.k":
            return elf[offset : offset + length]
    raise AssertionError("no section .text.k")


def _stored(code: bytes) -> Iterator[int | None]:
    """The words that a straight line of machine code stores, None where one is no constant."""
    registers: dict[int, int] = {_ZERO: 0}
    for at in range(0, len(code), 16):
        first, second = struct.unpack_from("<QQ", code, at)
        opcode, target, constant = first & 0xFFF, first >> 16 & 0xFF, first >> 32
        always = first >> 12 & 0xF == _ALWAYS
        if opcode in _STORES:
            yield registers.get(constant & 0xFF) if always else None
            continue
        value = _moved(opcode, first, second, registers) if always else None
        if opcode == _CLEAR_PAIR and always:
            registers[target] = registers[target + 1] = 0
        elif value is not None:
            registers[target] = value
        else:  # other instructions: up to four registers from the target on are unknown
            for changed in range(target, target + 4):
                registers.pop(changed, None)
        registers[_ZERO] = 0


def _moved(opcode: int, first: int, second: int, registers: dict[int, int]) -> int | None:
    """The value that a move writes; None for another instruction."""
    if _ONE.get(opcode) == second & 0xFFFFFFFF and first >> 24 & 0xFF == first >> 32 & 0xFF == _ZERO:
        return 1
    for table in (_MOVES, _COPIES):
        bits, mask = table.get(opcode, (1, 0))
        if second & mask == bits and (opcode in (0x202, 0x802) or first >> 24 & 0xFF == _ZERO):
            if table is _MOVES:
                return first >> 32
            return registers.get(first >> 32 & 0xFF if opcode == 0x202 else second & 0xFF)
    return None
