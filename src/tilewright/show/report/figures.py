"""Numbers as text."""

from __future__ import annotations

from tilewright.simulate.machine.sizes import size_text

MISSING = "-"
#: Length of the longest bar.
BAR_CELLS = 10


def count(value: int | None) -> str:
    """Return a count with thousands separators.

    >>> count(1234567), count(None)
    ('1,234,567', '-')
    """
    return MISSING if value is None else f"{value:,}"


def short(value: int | None) -> str:
    """Return a count in at most five cells: k, M and G are thousands, millions and 10^9.

    >>> [short(value) for value in (None, 999, 4096, 46_080, 131_072, 12_605_440, 999_950)]
    ['-', '999', '4.1k', '46.1k', '131k', '12.6M', '1.0M']
    """
    if value is None or value < 1000:
        return count(value)
    for scale, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        number = value / scale
        if number < 999.5 or letter == "G":
            return f"{number:.1f}{letter}" if number < 99.95 else f"{number:,.0f}{letter}"
    raise AssertionError("unreachable")


def rate(value: float | None) -> str:
    """Return a rate with three digits.

    >>> rate(0.1234), rate(12.34), rate(1234.5), rate(None)
    ('0.12', '12.3', '1,234', '-')
    """
    if value is None:
        return MISSING
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def amount(value: int, noun: str) -> str:
    """Return a count of things.

    >>> amount(1, "kernel"), amount(2000, "kernel")
    ('1 kernel', '2,000 kernels')
    """
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def seconds(value: float | None) -> str:
    """Return a time with three digits and its unit.

    >>> seconds(0.00001234), seconds(0.0345), seconds(2.5), seconds(150), seconds(567e-9)
    ('12.3 us', '34.5 ms', '2.50 s', '150 s', '567 ns')
    """
    if value is None:
        return MISSING
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if value >= scale or unit == "ns":
            return f"{rate(value / scale)} {unit}"
    raise AssertionError("unreachable")


def between(least: float, most: float) -> str:
    """Return two times, with one unit if it is the same.

    >>> between(13.7e-6, 24.6e-6), between(0.95e-6, 1.5e-6)
    ('13.7 - 24.6 us', '950 ns - 1.50 us')
    """
    first, last = seconds(least), seconds(most)
    number, _, unit = first.partition(" ")
    return f"{number if last.endswith(f' {unit}') else first} - {last}"


def size(value: int | None) -> str:
    """Return a number of bytes with a unit, in powers of 1024.

    >>> size(2560), size(None)
    ('2.5 KiB', '-')
    """
    return MISSING if value is None else size_text(value)


def percent(value: float | None) -> str:
    """Return a fraction as a percentage; only 0 gives 0 %, and only 1 gives 100 %.

    >>> percent(0.75), percent(0.3333), percent(0.0001), percent(0.9999)
    ('75 %', '33 %', '<1 %', '>99 %')
    """
    if value is None:
        return MISSING
    if 0 < value < 0.005 or 0.995 < value < 1:
        return "<1 %" if value < 0.5 else ">99 %"
    return f"{100 * value:.0f} %"


def times(value: float | None) -> str:
    """Return how many times one thing is another, with three digits at most.

    >>> times(1.0), times(4.87), times(26.3), times(1503.0), times(None)
    ('1 x', '4.9 x', '26 x', '1,500 x', '-')
    """
    if value is None:
        return MISSING
    digits = 1 if value < 9.95 else 0 if value < 999.5 else -1 if value < 9995 else -2
    rounded = round(value, digits)
    return f"{rounded:,.0f} x" if rounded == int(rounded) else f"{rounded:.1f} x"


def bar(value: float | None, most: float, cells: int = BAR_CELLS) -> str:
    """Return a bar in eighths of a cell, never empty for a value above 0.

    >>> bar(50, 100), bar(1, 10_000), bar(0, 100)
    ('█████', '▏', '')
    """
    if not value or not most:
        return ""
    eighths = max(1, round(8 * cells * value / most))
    whole, part = divmod(eighths, 8)
    return "█" * whole + " ▏▎▍▌▋▊▉"[part].strip()
