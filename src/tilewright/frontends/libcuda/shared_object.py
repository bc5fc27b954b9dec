"""Makes a shared library without a compiler: each of its functions jumps to an address stored in its data section.

A process loads the library once, and stores the addresses of the implementations. Later requests to the loader for its
name (`DT_SONAME`) then find this library.

Source: System V Application Binary Interface, "Object Files" (chapter 4) and
"Dynamic Linking" (chapter 5); Intel SDM, volume 2, JMP; Arm ARM, ADRP, LDR (immediate), BR.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.multiply.backends.cuda.device import STAND_IN

#: The symbol of the first slot, which the others follow in name order; and the symbol of a function that returns 0.
SLOTS, NOTHING = STAND_IN, "tilewright_nothing"
_PAGE, _STUB_BYTES = 1 << 16, 16  # some arm64 kernels have pages of 64 KiB
#: Machine numbers in ELF files.
MACHINES = {"x86_64": 62, "aarch64": 183}  # EM_X86_64, EM_AARCH64
_DYN, _LOAD, _DYNAMIC, _STACK = 3, 1, 2, 0x6474E551  # ET_DYN; PT_LOAD, PT_DYNAMIC, PT_GNU_STACK
_NOTHING = {
    "x86_64": b"\xf3\x0f\x1e\xfa\x31\xc0\xc3".ljust(_STUB_BYTES, b"\x90"),  # ENDBR64; XOR eax, eax; RET
    "aarch64": struct.pack("<4I", 0xD2800000, 0xD65F03C0, 0xD503201F, 0xD503201F),  # MOV x0, 0; RET; NOP
}
_HEADER_BYTES, _SEGMENT_BYTES, _SYMBOL_BYTES, _SEGMENTS = 64, 56, 24, 4
_NULL, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 0, 4, 5, 6, 10, 11, 14  # DT_*
_GLOBAL_FUNCTION, _GLOBAL_OBJECT = 0x12, 0x11


def shared_object(soname: str, names: Sequence[str], machine: str) -> bytes:
    """The library's bytes.

    `soname`: the name for the loader. `names`: names of its functions, each once. `machine`: the processor, as from
    `platform.machine`: `x86_64` or `aarch64`.

    Raises KeyError: the processor is not supported.
    """
    number = MACHINES[machine]
    strings = _Strings()
    soname_at = strings.add(soname)
    symbols = [*names, NOTHING, SLOTS]
    named_at = [strings.add(name) for name in symbols]
    hash_at = _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES
    hashed = _hash_table(symbols)
    symbols_at = _up(hash_at + len(hashed), 8)
    strings_at = symbols_at + _SYMBOL_BYTES * (len(symbols) + 1)
    code_at = _up(strings_at + len(strings.data), _STUB_BYTES)
    code_end = code_at + _STUB_BYTES * (len(names) + 1)
    data_at = _up(code_end, _PAGE)
    entries = (
        (_SONAME, soname_at),
        (_HASH, hash_at),
        (_SYMTAB, symbols_at),
        (_STRTAB, strings_at),
        (_STRSZ, len(strings.data)),
        (_SYMENT, _SYMBOL_BYTES),
        (_NULL, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    slots_at = data_at + len(dynamic)
    table = bytearray(_SYMBOL_BYTES)
    for at, (name_at, name) in enumerate(zip(named_at, symbols, strict=True)):
        is_code = name != SLOTS
        value = code_at + _STUB_BYTES * at if is_code else slots_at
        kind, size = (_GLOBAL_FUNCTION, _STUB_BYTES) if is_code else (_GLOBAL_OBJECT, 8 * len(names))
        table += struct.pack("<IBBHQQ", name_at, kind, 0, 1, value, size)
    code = b"".join(_stub(machine, code_at + _STUB_BYTES * i, slots_at + 8 * i) for i in range(len(names)))
    code += _NOTHING[machine]
    segments = (
        _segment(_LOAD, 5, 0, code_end),
        _segment(_LOAD, 6, data_at, len(dynamic) + 8 * len(names)),
        _segment(_DYNAMIC, 6, data_at, len(dynamic)),
        _segment(_STACK, 6, 0, 0),
    )
    made = bytearray(slots_at + 8 * len(names))
    parts = (
        (0, _header(number) + b"".join(segments)),
        (hash_at, hashed),
        (symbols_at, table),
        (strings_at, strings.data),
        (code_at, code),
        (data_at, dynamic),
    )
    for at, part in parts:
        made[at : at + len(part)] = part
    return bytes(made)


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = bytearray(1)

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _header(machine: int) -> bytes:
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian, version 1
    return ident + struct.pack(
        "<HHIQQQIHHHHHH", _DYN, machine, 1, 0, _HEADER_BYTES, 0, 0, _HEADER_BYTES, _SEGMENT_BYTES, _SEGMENTS, 0, 0, 0
    )


def _segment(kind: int, flags: int, at: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, _PAGE if kind == _LOAD else 8)


def _hash_table(symbols: Sequence[str]) -> bytes:
    """One bucket for each symbol; symbol 0 is none."""
    buckets, chain = [0] * len(symbols), [0] * (len(symbols) + 1)
    for index, name in enumerate(symbols, 1):
        place = _hash(name) % len(buckets)
        chain[index], buckets[place] = buckets[place], index
    return struct.pack(f"<{2 + len(buckets) + len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _stub(machine: str, at: int, slot: int) -> bytes:
    """A jump to the address in a slot; both are offsets in the library."""
    if machine == "x86_64":
        landing = bytes([0xF3, 0x0F, 0x1E, 0xFA])  # ENDBR64
        return (landing + b"\xff\x25" + struct.pack("<i", slot - (at + 10))).ljust(_STUB_BYTES, b"\x90")
    pages = (slot >> 12) - (at >> 12)
    adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5  # x16
    load = 0xF9400210 | (slot & 0xFFF) >> 3 << 10
    return struct.pack("<4I", adrp, load, 0xD61F0200, 0xD503201F)  # BR x16; NOP
