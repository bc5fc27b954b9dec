"""printf with formats that no compiler would accept."""

from __future__ import annotations

import struct

import pytest

from tilewright.simulate.run.printing import format_text


@pytest.mark.parametrize(
    ("text", "arguments", "printed"),
    [
        ("%.*d|", struct.pack("<ii", -5, 7), "7|"),
        ("%*d|", struct.pack("<ii", -5, 7), "7    |"),
        ("%.f|", struct.pack("<d", 2.5), "2|"),
        ("%.0f|", struct.pack("<d", 3.5), "4|"),
        ("%5%|%", b"", "%|%"),
        ("%d %s", b"", "0 (null)"),
    ],
)
def test_odd_formats_print_as_in_c(text: str, arguments: bytes, printed: str) -> None:
    assert format_text(text, arguments, lambda address: None) == printed


@pytest.mark.parametrize("text", ["%2000000000d", "%*d", "%.2000000000f", "%.*d", "%99999999999999999999s"])
def test_a_width_does_not_fill_the_hosts_memory(text: str) -> None:
    packed = struct.pack("<iid", 2_000_000_000, 2_000_000_000, 1.0)
    assert len(format_text(text, packed, lambda address: None)) < 10_000


def test_more_arguments_than_a_gpu_takes_are_printed_as_they_are_written() -> None:
    """Else a format of 64 KB would make 40 MB of each line."""
    numbers = struct.pack("<40i", *range(40))
    printed = format_text(" ".join(["%d"] * 40), numbers, lambda address: None)
    assert printed.split() == [*map(str, range(32)), *["%d"] * 8]
    assert len(format_text("%4095d" * 10_000 + "%%", numbers, lambda address: None)) < 200_000
    assert format_text("%*d" * 17, numbers, lambda address: None).endswith("%*d")  # a width is an argument
