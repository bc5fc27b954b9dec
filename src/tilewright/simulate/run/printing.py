"""Output of kernels: vprintf's records, formatted as C's printf would.

Source: CUDA C++ Programming Guide, "Formatted Output"; C17 7.21.6.1. Arguments are packed by natural alignment, floats
widened to double.
"""

from __future__ import annotations

import math
import re
import struct
import warnings
from collections.abc import Callable, Iterable

from tilewright.simulate.run.traps import PrintRecord
from tilewright.simulate.state import PRINT_ARGUMENTS

#: The text at a device address; None outside memory.
ReadText = Callable[[int], str | None]

_DIRECTIVE = re.compile(r"%([-+ #0']*)(\d+|\*)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_WIDE = {"l", "ll", "j", "z", "t"}
#: Largest width or precision; C17 7.21.6.1 guarantees 4095 characters in all.
_WIDEST = 4095
#: What a launch prints at most: a short line can name wide columns and long texts.
_PRINTED_CHARACTERS = 64 << 20
#: Replaces a text outside memory.
_NOWHERE = "(not in memory)"


class Printout:
    """What a launch prints."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str]] = []  # with their blocks
        self._room = _PRINTED_CHARACTERS

    def add(self, records: Iterable[PrintRecord], lost: int, kernel: str) -> None:
        """Format one host thread's records; so many lines more did not fit in its buffer."""
        for record in records:
            if self._room < 0:
                lost += 1
            elif (text := record.texts.get(record.format_address)) is not None:
                self._lines.append((record.block, format_text(text, record.arguments, record.texts.get)))
                self._room -= len(self._lines[-1][1])
        if lost:
            warnings.warn(f"{kernel}: the print buffer was full; {lost:,} lines were lost", stacklevel=2)

    def text(self) -> str:
        """All lines, block by block."""
        return "".join(text for _, text in sorted(self._lines, key=lambda line: line[0]))


def format_text(text: str, arguments: bytes, read_text: ReadText) -> str:
    """Format packed arguments as printf does.

    >>> format_text("%d and %.1f", (7).to_bytes(8, "little") + struct.pack("<d", 2.5), lambda a: None)
    '7 and 2.5'
    """
    at = taken = 0

    def take(size: int) -> bytes:
        nonlocal at, taken
        taken += 1
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
        if kind == "%" or taken >= PRINT_ARGUMENTS:
            return "%" if kind == "%" else match[0]
        columns = bounded(width) or 0
        digits = bounded(precision)
        if columns < 0:  # a negative `*` is a minus flag and a width
            flags, columns = flags + "-", -columns
        if digits is not None and digits < 0:
            digits = None
        size = 8 if length in _WIDE else 4
        if kind in "diouxX":
            signed = kind in "di"
            return _whole(_narrow(integer(size, signed=signed), length, signed=signed), kind, flags, columns, digits)
        if kind == "c":
            return _aligned("", chr(integer(4, signed=False) & 0xFF), flags, columns, zeros=False)
        if kind == "p":
            address = integer(8, signed=False)
            return _aligned("", f"0x{address:x}" if address else "(nil)", flags, columns, zeros=False)
        if kind == "s":
            address = integer(8, signed=False)
            found = read_text(address) if address else "(null)"
            return _aligned("", (_NOWHERE if found is None else found)[:digits], flags, columns, zeros=False)
        (number,) = struct.unpack("<d", take(8))
        return _real(number, kind, flags, columns, digits)

    return _DIRECTIVE.sub(replace, text)


def _aligned(prefix: str, body: str, flags: str, columns: int, *, zeros: bool) -> str:
    """A text in its columns; zeros go between prefix and body."""
    if "-" in flags:
        return (prefix + body).ljust(columns)
    if zeros and "0" in flags:
        return prefix + body.rjust(columns - len(prefix), "0")
    return (prefix + body).rjust(columns)


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _whole(value: int, kind: str, flags: str, columns: int, digits: int | None) -> str:
    """An integer in any base; a precision is the least number of digits."""
    prefix = _sign(value < 0, flags) if kind in "di" else ""
    body = format(abs(value), kind if kind in "oxX" else "d")
    if digits == 0 and value == 0:
        body = ""
    body = body.rjust(digits or 0, "0")
    if "#" in flags and kind == "o" and not body.startswith("0"):
        body = "0" + body
    if "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    return _aligned(prefix, body, flags, columns, zeros=digits is None)


def _real(value: float, kind: str, flags: str, columns: int, digits: int | None) -> str:
    """A floating-point number; infinities and NaNs are never filled with zeros."""
    prefix, size = _sign(math.copysign(1, value) < 0, flags), abs(value)
    if not math.isfinite(size):
        body = "inf" if math.isinf(size) else "nan"
        return _aligned(prefix, body.upper() if kind.isupper() else body, flags, columns, zeros=False)
    if kind in "aA":
        prefix, body = prefix + "0x", _hexadecimal(size, flags, digits)
        if kind == "A":
            prefix, body = prefix.upper(), body.upper()
    else:
        body = f"%{'#' * ('#' in flags)}.{6 if digits is None else digits}{kind}" % size
    return _aligned(prefix, body, flags, columns, zeros=True)


def _hexadecimal(value: float, flags: str, digits: int | None) -> str:
    """Mantissa and binary exponent: as many digits as needed, or rounded to even."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    exponent, mantissa = bits >> 52, bits & ((1 << 52) - 1)
    whole = mantissa | (exponent != 0) << 52
    power = max(exponent, 1) - 1023 if whole else 0
    if digits is None:
        fraction = f"{mantissa:013x}".rstrip("0")
    else:
        cut = max(52 - 4 * digits, 0)
        half = (1 << cut) >> 1
        rest = whole & ((1 << cut) - 1)
        kept = whole >> cut
        kept += rest > half or (rest == half and half > 0 and kept & 1)
        whole = kept << cut
        fraction = f"{whole & ((1 << 52) - 1):013x}".ljust(digits, "0")[:digits]
    point = "." if fraction or "#" in flags else ""
    return f"{whole >> 52:x}{point}{fraction}p{power:+d}"


def _narrow(value: int, length: str | None, *, signed: bool) -> int:
    """An h or hh argument truncated to its width."""
    bits = {"h": 16, "hh": 8}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
