"""What kernels print: vprintf's records, formatted as C's printf would.

Source: CUDA C++ Programming Guide, "Formatted Output"; C17 7.21.6.1. Arguments are packed by natural alignment, floats
widened to double.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

#: Reads the zero-terminated text at a device address; None outside memory.
ReadText = Callable[[int], str | None]

_DIRECTIVE = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_WIDE = {"l", "ll", "j", "z", "t"}
#: Most characters that a width or a precision asks for; C17 7.21.6.1 promises 4095 in all.
_WIDEST = 4095


def format_text(text: str, arguments: bytes, read_text: ReadText) -> str:
    """The text that printf makes of a format and packed arguments.

    Examples
    --------
    >>> format_text("%d and %.1f", (7).to_bytes(8, "little") + struct.pack("<d", 2.5), lambda a: None)
    '7 and 2.5'
    """
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        piece = arguments[at : at + size].ljust(size, b"\0")
        at += size
        return piece

    def integer(size: int, *, signed: bool) -> int:
        return int.from_bytes(take(size), "little", signed=signed)

    def bounded(count: str | None) -> int | None:
        """A width or precision: as written, or the next argument for a `*`; a precision without digits is 0."""
        if count is None:
            return None
        number = integer(4, signed=True) if count == "*" else int(count[:9] or 0)
        return max(-_WIDEST, min(number, _WIDEST))

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        columns = bounded(width)
        wide = "" if columns is None else str(columns)
        digits = bounded(precision)
        spec = f"%{flags}{wide}" + ("" if digits is None or digits < 0 else f".{digits}")
        size = 8 if length in _WIDE else 4
        if kind in "di":
            return (spec + "d") % _narrow(integer(size, signed=True), length, signed=True)
        if kind in "ouxX":
            return (spec + ("d" if kind == "u" else kind)) % _narrow(integer(size, signed=False), length, signed=False)
        if kind == "c":
            return (spec + "s") % chr(integer(4, signed=False) & 0xFF)
        if kind == "p":
            return str(f"%{flags}{wide}s" % f"0x{integer(8, signed=False):x}")
        if kind == "s":
            found = read_text(integer(8, signed=False))
            return (spec + "s") % ("(null)" if found is None else found)
        (number,) = struct.unpack("<d", take(8))
        if kind in "aA":
            text = float(number).hex()
            return text.upper() if kind == "A" else text
        return str((spec + kind) % number)

    return _DIRECTIVE.sub(replace, text)


def _narrow(value: int, length: str | None, *, signed: bool) -> int:
    """An h or hh argument cut to its width."""
    bits = {"h": 16, "hh": 8}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
