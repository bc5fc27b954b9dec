"""Registers, spills, stack and shared memory of a kernel, from the vendor's assembler; nothing is estimated.

Source: CUDA Binary Utilities and `ptxas --verbose`.
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
from tilewright.simulate.programs import device_runtime, listing
from tilewright.simulate.programs.toolkits import vendor_program
from tilewright.simulate.ptx import printing

#: Most time for one kernel; heavily unrolled kernels take tens of seconds.
_SECONDS = 300
_UNRESOLVED = "Unresolved extern function"
#: The complaint about a version of PTX that is newer than the assembler, with the newest that it knows.
_TOO_NEW = re.compile(r"Unsupported \S+ [\d.]+; current version is '([\d.]+)'")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that one kernel needs."""

    registers_per_thread: int  #: 32-bit registers.
    #: `spill_store_bytes`, `spill_load_bytes`: traffic of a thread to local memory because registers did not suffice.
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0  #: Stack frame of a thread.
    shared_bytes: int = 0  #: Static shared memory of a block.
    barriers: int = 0  #: Hardware barriers used.


def find_assembler() -> Path:
    """The `ptxas` program; raises MissingExtraError: there is none."""
    return vendor_program("ptxas", "the vendor's assembler", "Reading a kernel's registers")


def resources(ptx: str, entry: str, cc: tuple[int, int]) -> Resources:
    """Assemble PTX and read what a kernel needs; remembered in memory and on disk.

    Raises MissingExtraError: the assembler is not installed; CompileError: the assembler refused the text.
    """
    return _read_report(_asked(ptx, entry, cc)[0], entry)


def cubin(ptx: str, entry: str, cc: tuple[int, int]) -> bytes:
    """Assemble PTX to machine code for a GPU; parameters, errors and what is remembered are those of `resources`."""
    return zlib.decompress(_asked(ptx, entry, cc)[1])


def _asked(ptx: str, entry: str, cc: tuple[int, int]) -> tuple[str, bytes]:
    ptxas = find_assembler()
    try:
        return _assembled(ptx, cc, ptxas)
    except CompileError as error:
        raise CompileError(f"{entry}: {error}") from error


@bounded(512)
def _assembled(ptx: str, cc: tuple[int, int], ptxas: Path) -> tuple[str, bytes]:
    """The assembler's report of all kernels of a text, and its machine code, compressed."""
    cache = store.room(secure_files.RESOURCES)
    key = store.digest("assembled", ptx, str(cc), version(ptxas))
    kept = store.read(cache, key, lambda header: str(header["report"]))
    if kept is not None:
        return kept
    with secure_files.working_folder() as folder:
        output = folder / "kernel.cubin"
        report, code = _assemble(ptxas, ptx, cc, output), zlib.compress(output.read_bytes())
    store.write(cache, key, {"report": report}, code)
    return report, code


@bounded(8)
def version(program: Path) -> str:
    """The version that the assembler, or another of the vendor's programs, reports."""
    done = _run([str(program), "--version"])
    if done.returncode:
        raise CompileError(f"{program} --version failed ({done.stderr.strip() or done.returncode}); install it again")
    return done.stdout


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the assembler, with a time limit.

    Raises CompileError: it takes longer, or cannot be run.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, umask=0o077)
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"the assembler did not finish within {_SECONDS} s; unroll less") from error
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run ({error.strerror}); install it again") from error


def _assemble(ptxas: Path, ptx: str, cc: tuple[int, int], output: Path) -> str:
    """Run the assembler and return its report."""
    source = output.with_suffix(".ptx")
    secure_files.write(source, ptx.encode())
    target = listing.architecture(listing.parsed(ptx), cc)
    command = [str(ptxas), "-v", f"-arch={target}", "-lineinfo", str(source), "-o", str(output)]
    done = _run(command)
    if done.returncode and (
        known := _TOO_NEW.search(done.stderr)
    ):  # a compiler may name a version that it does not need
        ptx = printing.of_version(ptx, known[1])
        secure_files.write(source, ptx.encode())
        done = _run(command)
    if done.returncode and _UNRESOLVED in done.stderr:  # a device-runtime function, which a linker adds
        secure_files.write(source, device_runtime.linked(ptx).encode())
        done = _run(command)
    if done.returncode:
        text = (done.stderr + done.stdout).replace(str(source), "kernel.ptx")
        raise CompileError(f"the assembler rejected it for sm_{cc[0]}{cc[1]}:\n{_marked(text, ptx)}".rstrip())
    return done.stderr + done.stdout


def _marked(text: str, ptx: str) -> str:
    """The assembler's text, with the PTX line of its first error after it."""
    first = re.search(r"line (\d+)", text)
    lines = ptx.splitlines()
    if first is None or not 0 < int(first[1]) <= len(lines):
        return text
    return f"{text.rstrip()}\n  {first[1]} | {lines[int(first[1]) - 1].strip()}"


def _read_report(report: str, entry: str) -> Resources:
    """The figures of one kernel in the assembler's verbose report."""
    _, found, section = report.partition(f"Compiling entry function '{entry}'")
    if not found:
        raise CompileError(f"{entry}: the assembler's report does not contain this kernel:\n{report}")
    section = section.split("Compiling entry function '")[0]
    # Device functions have their own properties; the kernel's come after its name.
    _, named, own = section.partition(f"Function properties for {entry}\n")
    section = own if named else section

    def figure(pattern: str) -> int:
        match = re.search(pattern, section)
        return int(match[1]) if match else 0

    return Resources(
        registers_per_thread=figure(r"Used (\d+) registers"),
        spill_store_bytes=figure(r"(\d+) bytes spill stores"),
        spill_load_bytes=figure(r"(\d+) bytes spill loads"),
        stack_bytes=figure(r"(\d+) bytes stack frame"),
        shared_bytes=figure(r"(\d+) bytes smem"),
        barriers=figure(r"used (\d+) barriers"),
    )
