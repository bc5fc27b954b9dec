"""Where the source defines a kernel."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable


def definition(kernel: str, places: Iterable[str]) -> tuple[str, int]:
    """File and line of a kernel's definition, from the `file:line` of its instructions; "" and 0 if there are none."""
    lines = [place.rpartition(":") for place in places]
    plain = re.escape(re.split(r"[<(]", kernel)[0].rpartition("::")[2])
    for file in dict.fromkeys(file for file, _, _ in lines):
        text = "".join(linecache.getlines(file))
        first = min(int(number) for other, _, number in lines if other == file)
        found = [
            text.count("\n", 0, match.start(1)) + 1
            for match in re.finditer(rf"(?:\bdef\s+|\b__global__\b[^;{{}}]*?\b)({plain})\s*\(", text)
        ]
        if found:  # of several functions with this name, the one with this body
            return file, max((line for line in found if line <= first), default=found[0])
    return (lines[0][0], int(lines[0][2])) if lines else ("", 0)
