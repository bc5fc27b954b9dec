"""A kernel's machine code from the vendor's disassembler: instructions, control bits, PTX lines.

The upper bits of each 128-bit instruction control its scheduling: for how many clocks the warp stalls, which of six
dependence counters the result and the operands free, and which counters the instruction waits for.

Sources: CUDA Binary Utilities, `nvdisasm`; Jia, Maggioni, Staiger, Scarpazza, Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking, arXiv 1804.06826, section 2.1 (layout of the control bits); Huerta, Abaie
Shoushtary, Cruz, Gonzalez, Dissecting and Modeling the Architecture of Modern GPU Cores, MICRO 2025, section 4 (their
meaning).
"""

from __future__ import annotations

import re
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.ground.native import secure_files, store
from tilewright.ground.native.memo import bounded
from tilewright.simulate.programs import assembler
from tilewright.simulate.programs.toolkits import vendor_program

_SECONDS = 60
#: The number that means no dependence counter.
NO_COUNTER = 7
_PTX_LINE = re.compile(r'\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_LABEL = re.compile(r"(\.L_x_\d+):")
_CODE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*([^;]*);\s*/\* 0x[0-9a-f]{16} \*/")
_UPPER = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_COMMA = re.compile(r",\s*(?![^\[]*\])")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of machine code."""

    opcode: str  #: With its modifiers, such as `LDS.128`.
    guard: str  #: The predicate, such as `@!P0`; "" for none.
    operands: tuple[str, ...]
    ptx_line: int  #: The PTX line that it comes from, from 1; 0 if the assembler gives none.
    target: int | None  #: Index of the instruction that it may branch to.
    stall: int  #: Clocks until the warp's next instruction.
    yields: bool  #: Whether another warp issues first.
    sets: int  #: Dependence counter that its result frees; `NO_COUNTER` for none.
    frees: int  #: Dependence counter that reading its operands frees; `NO_COUNTER` for none.
    waits: int  #: A bit for each dependence counter that it waits for.
    reuse: int  #: A bit for each operand that stays for the next instruction.

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def always(self) -> bool:
        """Whether it has no predicate, neither its own nor that of a branch."""
        return not self.guard and not any(re.fullmatch(r"!?U?P\d", operand) for operand in self.operands[:1])


def find_disassembler() -> Path:
    """The `nvdisasm` program; raises MissingExtraError: there is none."""
    return vendor_program("nvdisasm", "the vendor's disassembler", "Reading a kernel's machine code")


@bounded(64)
def disassembled(ptx: str, entry: str, cc: tuple[int, int]) -> tuple[Instruction, ...]:
    """The machine code that the vendor's assembler makes of a kernel for a compute capability; cached on disk.

    Raises MissingExtraError: the assembler or the disassembler is not installed; CompileError: one of them failed.
    """
    program = find_disassembler()
    cache = store.room(secure_files.RESOURCES)
    versions = (assembler.version(assembler.find_assembler()), assembler.version(program))
    key = store.digest("machine code", ptx, entry, str(cc), *versions)
    kept = store.read(cache, key, lambda header: str(header["entry"]))
    text = zlib.decompress(kept[1]).decode() if kept else _section(_text(program, ptx, entry, cc), entry)
    code = _read(text)
    if not code:
        raise CompileError(f"{entry}: the disassembler shows no code of that name; install the assembler and it again")
    if not kept:
        store.write(cache, key, {"entry": entry}, zlib.compress(text.encode()))
    return code


def _text(program: Path, ptx: str, entry: str, cc: tuple[int, int]) -> str:
    """The disassembler's output for a kernel."""
    with secure_files.working_folder() as folder:
        image = folder / "kernel.cubin"
        secure_files.write(image, assembler.cubin(ptx, entry, cc))
        # Its analysis of data flow takes a quarter of the time; of branches to computed places it says where they go.
        command = [str(program), "--print-code", "--print-line-info-ptx", "--print-instruction-encoding"]
        command += ["--no-dataflow", str(image)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, umask=0o077)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"{entry}: {program} cannot be run ({error}); install it again") from error
    if done.returncode:
        raise CompileError(f"{entry}: the disassembler refused the machine code:\n{done.stderr.strip()}")
    return done.stdout


def _section(text: str, entry: str) -> str:
    """The part of the output for one kernel."""
    _, _, found = text.partition(f"\n.text.{entry}:\n")
    return found.partition("\n//--------------------- ")[0]


def _read(text: str) -> tuple[Instruction, ...]:
    found: list[tuple[str, str, str, int, int]] = []  # opcode, guard, operands, PTX line, upper half
    labels: dict[str, int] = {}
    line = 0
    for row in text.splitlines():
        if match := _PTX_LINE.match(row):
            line = int(match[1])
        elif match := _LABEL.match(row):
            labels[match[1]] = len(found)
        elif match := _CODE.match(row):
            found.append((match[3], match[2] or "", match[4].strip(), line, 0))
        elif (match := _UPPER.match(row)) and found:
            found[-1] = (*found[-1][:4], int(match[1], 16))
    return tuple(_instruction(*one, labels) for one in found)


def _instruction(opcode: str, guard: str, operands: str, line: int, upper: int, labels: dict[str, int]) -> Instruction:
    target = _TARGET.search(operands)
    return Instruction(
        opcode=opcode,
        guard="" if guard in ("@PT", "@UPT") else guard,
        operands=tuple(_COMMA.split(operands)) if operands else (),
        ptx_line=line,
        target=labels.get(target[1]) if target else None,
        stall=upper >> 41 & 15,
        yields=not upper >> 45 & 1,
        sets=upper >> 46 & 7,
        frees=upper >> 49 & 7,
        waits=upper >> 52 & 63,
        reuse=upper >> 58 & 15,
    )
