"""An interpreter of machine code: it runs one thread of a straight line from the vendor's assembler, by its listing.

If the assembler writes several machine instructions for one of PTX, their result is an oracle for the instruction by
another author than this project. The interpreter knows only what such lines need: integers, predicates, and loads
and stores of words at constant offsets. Anything else is an error.

Source: CUDA Binary Utilities, "Turing Instruction Set" (names); what each does shows in `nvdisasm` listings of PTX
whose meaning the PTX manual gives.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tilewright.simulate.programs.assembler import find_assembler

_WORD = 0xFFFFFFFF
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+) )?([A-Z][\w.]*) ?([^;]*);")
#: Instructions for the whole warp that equal others for one thread.
_UNIFORM = {"UMOV": "MOV", "ULOP3": "LOP3"}
_OFFSET = re.compile(r"\[.*?(?:\+(0x[0-9a-f]+))?\]$")


def listing(text: str, target: str, folder: Path) -> str:
    """The machine code of a PTX text, as the vendor prints it."""
    source, binary = folder / "line.ptx", folder / "line.cubin"
    source.write_text(text)
    assembler = find_assembler()
    command = [assembler, f"-arch={target}", source, "-o", binary]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr + made.stdout
    printer = Path(assembler).with_name("nvdisasm")
    return subprocess.run([printer, "--no-dataflow", binary], capture_output=True, text=True, check=True).stdout


def _signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


class Thread:
    """A thread's registers, its memory by byte offsets, and its stores."""

    def __init__(self, memory: Mapping[int, int]) -> None:
        self.memory = memory
        self.stored: dict[int, int] = {}
        self.registers: dict[str, int] = {}
        self.predicates = {"PT": True}

    def run(self, text: str) -> dict[int, int]:
        """Run a listing to its end; returns the stores by place."""
        for guard, name, rest in _LINE.findall(text):
            if name == "EXIT":
                return self.stored
            if not guard or self.predicate(guard):
                operands = [part.strip().replace(".reuse", "") for part in rest.split(",")] if rest.strip() else []
                self.step(name, operands)
        raise AssertionError("the code does not end")

    def predicate(self, text: str) -> bool:
        return not self.predicates[text[1:]] if text[0] == "!" else self.predicates[text]

    def value(self, text: str) -> int:
        """The word that an operand stands for."""
        if text[0] in "-~":
            inner = self.value(text[1:])
            return (-inner if text[0] == "-" else ~inner) & _WORD
        if text[0] == "|":
            return abs(_signed(self.value(text[1:-1]))) & _WORD
        if text[0].isdigit():
            return int(text, 0) & _WORD
        if text in ("RZ", "URZ") or text[0] == "c":  # banks hold addresses, which do not matter
            return 0
        return self.registers[text]

    def pair(self, text: str) -> int:
        """64 bits of a register and the next."""
        return 0 if text == "RZ" else self.registers[text] | self.registers[f"R{int(text[1:]) + 1}"] << 32

    def put(self, name: str, value: int) -> None:
        if name != "RZ":
            self.registers[name] = value & _WORD

    def step(self, name: str, operands: list[str]) -> None:
        """One instruction."""
        opcode, *parts = name.split(".")
        opcode = _UNIFORM.get(opcode, opcode)
        getattr(self, f"_{opcode.lower()}")(parts, operands)

    def _nop(self, parts: list[str], operands: list[str]) -> None:
        """Nothing."""

    def _uldc(self, parts: list[str], operands: list[str]) -> None:
        """The base of all addresses; only offsets matter."""

    def _ldg(self, parts: list[str], operands: list[str]) -> None:
        found = _OFFSET.match(operands[1])
        assert found is not None
        self.put(operands[0], self.memory[int(found[1] or "0", 0)])

    def _stg(self, parts: list[str], operands: list[str]) -> None:
        found = _OFFSET.match(operands[0])
        assert found is not None
        self.stored[int(found[1] or "0", 0)] = self.value(operands[1])

    def _mov(self, parts: list[str], operands: list[str]) -> None:
        self.put(operands[0], self.value(operands[1]))

    def _vabsdiff4(self, parts: list[str], operands: list[str]) -> None:
        assert not parts
        a, b, c = map(self.value, operands[1:4])
        self.put(operands[0], c + sum(abs((a >> at & 255) - (b >> at & 255)) for at in (0, 8, 16, 24)))

    def _sel(self, parts: list[str], operands: list[str]) -> None:
        self.put(operands[0], self.value(operands[1 if self.predicate(operands[3]) else 2]))

    def _prmt(self, parts: list[str], operands: list[str]) -> None:
        low, selector, high = map(self.value, operands[1:4])
        both, result = high << 32 | low, 0
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = both >> 8 * (nibble & 7) & 255
            result |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * i
        self.put(operands[0], result)

    def _lop3(self, parts: list[str], operands: list[str]) -> None:
        carried = operands[0][0] == "P"
        target, *rest = operands[carried:]
        a, b, c, table = map(self.value, rest[:4])
        terms = [(table >> n & 1) and [~a, a][n >> 2] & [~b, b][n >> 1 & 1] & [~c, c][n & 1] for n in range(8)]
        result = 0
        for term in terms:
            result |= term
        self.put(target, result)
        if carried:
            self.predicates[operands[0]] = result & _WORD != 0

    def _iadd3(self, parts: list[str], operands: list[str]) -> None:
        outs = [o for o in operands[1:3] if re.match(r"P[T\d]", o)]
        terms = operands[1 + len(outs) : 4 + len(outs)]
        total = sum(map(self.value, terms))
        if "X" in parts:  # the numbers' upper words: ~ stands where the lower ones have a minus
            total += sum(self.predicate(o) for o in operands[4 + len(outs) :])
        else:  # minus x is ~x and a one, which carries where x is 0
            total += sum(1 << 32 for o in terms if o[0] == "-" and self.value(o) == 0)
        self.put(operands[0], total)
        for number, out in enumerate(outs):
            if out != "PT":
                self.predicates[out] = total >> 32 > number

    def _viadd(self, parts: list[str], operands: list[str]) -> None:
        self.put(operands[0], self.value(operands[1]) + self.value(operands[2]))

    def _imad(self, parts: list[str], operands: list[str]) -> None:
        outs = [o for o in operands[1:2] if re.match(r"P[T\d]", o)]
        a, b = (self.value(o) if "U32" in parts else _signed(self.value(o)) for o in operands[1 + len(outs) :][:2])
        c, *more = operands[3 + len(outs) :]
        if "WIDE" in parts:
            total = a * b % (1 << 64) + self.pair(c)
            self.put(f"R{int(operands[0][1:]) + 1}", total >> 32)
            for out in outs:
                self.predicates[out] = bool(total >> 64)
        elif "HI" in parts:
            total = (a * b >> 32) + self.value(c)
        else:
            total = a * b + self.value(c) + sum(self.predicate(o) for o in more)
        self.put(operands[0], total)

    def _iabs(self, parts: list[str], operands: list[str]) -> None:
        self.put(operands[0], abs(_signed(self.value(operands[1]))))

    def _imnmx(self, parts: list[str], operands: list[str]) -> None:
        a, b = (self.value(o) if "U32" in parts else _signed(self.value(o)) for o in operands[1:3])
        self.put(operands[0], min(a, b) if self.predicate(operands[3]) else max(a, b))

    def _i2i(self, parts: list[str], operands: list[str]) -> None:
        kind, source, mode = parts
        assert source == "S32" and mode == "SAT", parts
        bits = int(kind[1:])
        low, high = (0, (1 << bits) - 1) if kind[0] == "U" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        self.put(operands[0], max(low, min(high, _signed(self.value(operands[1])))))

    def _shf(self, parts: list[str], operands: list[str]) -> None:
        low, by, high = map(self.value, operands[1:4])
        bits = int(parts[1][1:])
        by = by % bits if "W" in parts else min(by, bits)
        whole = high << 32 | low
        if parts[1][0] == "S":
            whole = _signed(whole, 64)
        moved = whole << by if parts[0] == "L" else whole >> by
        self.put(operands[0], moved >> 32 if "HI" in parts else moved)

    def _lea(self, parts: list[str], operands: list[str]) -> None:
        outs = [o for o in operands[1:2] if re.match(r"P[T\d]", o)]
        a, b, *rest = operands[1 + len(outs) :]
        low = self.value(a)
        high = (_signed(low) >> 31) & _WORD if "SX32" in parts else self.value(rest.pop(0)) if "HI" in parts else 0
        by, *more = rest
        moved = (high << 32 | low) << self.value(by)
        total = (moved >> 32 if "HI" in parts else moved) & _WORD
        total += self.value(b) + sum(self.predicate(o) for o in more)
        self.put(operands[0], total)
        for out in outs:
            self.predicates[out] = bool(total >> 32)

    def _isetp(self, parts: list[str], operands: list[str]) -> None:
        compare = parts[0]
        a, b = (self.value(o) if "U32" in parts else _signed(self.value(o)) for o in operands[2:4])
        strict = {"LT": a < b, "LE": a < b, "GT": a > b, "GE": a > b, "EQ": False, "NE": a != b}[compare]
        equal = compare in ("LE", "GE", "EQ") if "EX" not in parts else self.predicate(operands[5])
        result = strict or (a == b and equal)
        condition = self.predicate(operands[4])
        assert operands[1] == "PT" and {"AND", "OR"} & set(parts), operands
        if operands[0] != "PT":
            self.predicates[operands[0]] = result and condition if "AND" in parts else result or condition
