"""Redirects the entry points of the vendor's runtime in a loaded library.

CuPy's modules contain the runtime, and torch brings it as a library. It needs the vendor's driver, so it
cannot run here, and our functions replace all its documented functions. The symbol table has their addresses.

Source: System V Application Binary Interface, "Sections" and "Symbol Table" (chapter 4); Intel SDM, volume 2, JMP, MOV;
Arm ARM, LDR (literal), BR, MOV (wide immediate), RET.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import DeviceError

#: Section types: all symbols of a library, and those that it exports; and the symbol type of a function.
SYMTAB, DYNSYM, _FUNCTION = 2, 11, 2  # SHT_SYMTAB, SHT_DYNSYM, STT_FUNC
_READ_EXECUTE, _READ_WRITE_EXECUTE = 5, 7
_JUMPS = {
    "x86_64": bytes([0xFF, 0x25, 0, 0, 0, 0]),  # JMP [RIP]; the operand follows
    "aarch64": struct.pack("<II", 0x58000050, 0xD61F0200),  # LDR x16 with the next 8 bytes; BR x16
}
_RETURNS_ONE = {
    "x86_64": bytes([0xB8, 1, 0, 0, 0, 0xC3]),  # MOV EAX, 1; RET
    "aarch64": struct.pack("<II", 0x52800020, 0xD65F03C0),  # MOV w0, #1; RET
}


def returns_one() -> bytes:
    """The code of a function that returns 1."""
    return _RETURNS_ONE[platform.machine()]


def functions(library: Path, table: int = SYMTAB) -> dict[str, int]:
    """The functions in a library's symbol table, with local ones, and their offsets."""
    data = library.read_bytes()
    (sections_at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    found: dict[str, int] = {}
    for at in range(sections_at, sections_at + size * count, size):
        _, kind, _, _, offset, length, link, *_ = struct.unpack_from("<IIQQQQIIQQ", data, at)
        if kind != table:
            continue
        (strings_at,) = struct.unpack_from("<Q", data, sections_at + size * link + 0x18)
        for name_at, info, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data[offset : offset + length]):
            if info & 15 == _FUNCTION and value:
                begin = strings_at + name_at
                found[data[begin : data.index(b"\0", begin)].decode()] = value
    return found


def entry_points(library: Path) -> dict[str, int]:
    """The functions of a library: all if it has its whole symbol table, else those that it exports."""
    return functions(library) or functions(library, DYNSYM)


class Redirected:
    """Entry points of a loaded library that jump elsewhere, until :meth:`put_back`.

    `library`: the library's file, as loaded by the process. `targets`: function -> address of its replacement, or the
    code that replaces its begin; functions that the library lacks are ignored.

    Raises DeviceError: the host does not allow changes of code.
    """

    def __init__(self, library: Path, targets: Mapping[str, int | bytes]) -> None:
        known = entry_points(library)
        base, jump = _base(library), _JUMPS[platform.machine()]
        self._before: dict[int, bytes] = {}
        for name, target in targets.items():
            if name in known:
                at = base + known[name]
                code = target if isinstance(target, bytes) else jump + struct.pack("<Q", target)
                self._before[at] = ctypes.string_at(at, len(code))
                _write(at, code)

    def put_back(self) -> None:
        """Restore the original code."""
        while self._before:
            _write(*self._before.popitem())


def mapped_files() -> dict[Path, int]:
    """The files that this process has mapped, with the address of each one's begin; none on hosts without `/proc`."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return {}
    parts = (line.split(maxsplit=5) for line in lines if "/" in line and not line.endswith(" (deleted)"))
    return {Path(path): int(span.partition("-")[0], 16) for span, _, at, _, _, path in parts if int(at, 16) == 0}


def _base(library: Path) -> int:
    """The address at which a library is loaded."""
    found = mapped_files().get(library.resolve())
    if found is not None:
        return found
    raise DeviceError(f"{library} must be loaded in this process (got none of that name); import it first")


def _write(at: int, code: bytes) -> None:
    """Write into the process's code."""
    begin = at & -mmap.PAGESIZE
    length = at + len(code) - begin
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(length), _READ_WRITE_EXECUTE):
        raise DeviceError(
            f"CUDA's runtime must be replaced in memory for the simulated GPU (the system does not allow it, error "
            f"{ctypes.get_errno()}); allow this process to change its code"
        )
    ctypes.memmove(at, code, len(code))
    libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(length), _READ_EXECUTE)
