"""How a number of bytes is written."""

from __future__ import annotations


def size_text(count: int) -> str:
    """Bytes in the largest power of 1024 that they fill.

    Examples
    --------
    >>> size_text(2048), size_text(512), size_text(2560), size_text(3 << 30), size_text(0)
    ('2 KiB', '512 B', '2.5 KiB', '3 GiB', '0')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(max(count.bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{count / 1024**power:,.1f}".removesuffix(".0") + f" {units[power]}" * bool(count)
