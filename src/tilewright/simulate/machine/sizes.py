"""Bytes and seconds as text, and bytes from text."""

from __future__ import annotations

import re

from tilewright.errors import ArgumentValueError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WRITTEN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([KMGTP])(i?)B?|B)?", re.ASCII | re.IGNORECASE)


def size_text(count: int) -> str:
    """Bytes in the largest power of 1024 that they fill.

    >>> size_text(2048), size_text(512), size_text(2560), size_text(3 << 30), size_text(0)
    ('2 KiB', '512 B', '2.5 KiB', '3 GiB', '0 B')
    """
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / 1024**power:,.1f}".removesuffix(".0") + f" {_UNITS[power]}"


def size_bytes(name: str, size: int | str) -> int:
    """The bytes of a user's size: a number, or text such as "2GB" (powers of 1000) or "512 MiB" (powers of 1024).

    Raises ArgumentValueError: it is neither, or not positive; `name` is its name in the message.

    >>> size_bytes("memory", "2GB"), size_bytes("memory", "1.5 KiB"), size_bytes("memory", 4096)
    (2000000000, 1536, 4096)
    """
    found = _WRITTEN.fullmatch(size.strip()) if isinstance(size, str) else None
    count = 0
    if found is not None:
        power = " KMGTP".index((found[2] or " ").upper())
        count = int(float(found[1]) * (1024 if found[3] else 1000) ** power)
    elif isinstance(size, int) and not isinstance(size, bool):
        count = size
    if count <= 0:
        raise ArgumentValueError(f"{name} must be a positive number of bytes (got {size!r}); try 2GB or 512MiB")
    return count


def duration_text(seconds: float) -> str:
    """Seconds as readable text.

    >>> duration_text(12.3), duration_text(150), duration_text(9000)
    ('12 s', '2 min', '2 h 30 min')
    """
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600:,} h {whole % 3600 // 60} min"
