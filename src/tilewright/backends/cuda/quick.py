"""The way past every rule for arrays of a GPU whose layouts have been multiplied before.

The rules are followed once, for arrays at addresses that stand for any (`arrays.Noted`), and what would be launched is
kept. A call then puts the addresses in, and launches: no memory is made beside a result
that is not given, and nothing is waited for, so that it can be captured in a graph.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cuda import current, products
from tilewright.backends.cuda.arrays import Noted, library_of, negated, stream_of, view
from tilewright.backends.cuda.launches import OPERANDS, RESULT, Launches
from tilewright.errors import TilewrightError
from tilewright.programs.host_arrays import span

#: Shape, strides and dtype, as the interface has them.
_Layout = tuple[tuple[int, ...], tuple[int, ...] | None, str]
#: (a, b, out) -> their product, by every rule.
Rules = Callable[[Any, Any, Any], Any]
#: More launches than that are not kept.
_MOST = 64


@dataclass(frozen=True, slots=True)
class _Kept:
    """The launches of a product, and what must hold of addresses."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    launches: Launches
    spans: tuple[tuple[int, int], ...]  #: First and last byte of each array, from its address on.
    align: int


def multiply(a: Any, b: Any, out: Any, order: str, rules: Rules) -> Any:
    """The product of two arrays of a GPU, launched; None where the rules must be looked at.

    `rules` multiplies by every rule, in the order of sums.
    """
    try:
        x, y = a.__cuda_array_interface__, b.__cuda_array_interface__
        z = None if out is None else out.__cuda_array_interface__
    except (AttributeError, RuntimeError):
        return None
    kept = _kept(_layout(x), _layout(y), None if z is None else _layout(z), order, current.identity(), rules)
    if kept is None or negated(a) or negated(b) or negated(out):
        return None
    library = library_of(a)
    if z is None:
        if library is None:
            return None
        out = library.empty(sys.modules[library.name], a, kept.shape, kept.dtype)
        z = out.__cuda_array_interface__
    at = x["data"][0], y["data"][0], z["data"][0]
    if z["data"][1] or (at[0] | at[1] | at[2]) % kept.align or _overlap(at, kept.spans):
        return None
    kept.launches.issue(current.stream(stream_of(library, (x.get("stream"), y.get("stream")))), at)
    return out


def forget() -> None:
    """Layouts are looked at again, and take what a tuner found since."""
    _kept.cache_clear()
    products.forget()


def _layout(interface: dict[str, Any]) -> _Layout:
    return interface["shape"], interface.get("strides"), interface["typestr"]


def _overlap(at: tuple[int, int, int], spans: tuple[tuple[int, int], ...]) -> bool:
    low, high = at[2] + spans[2][0], at[2] + spans[2][1]
    of_a = at[0] + spans[0][0] < high and low < at[0] + spans[0][1]
    return of_a or (at[1] + spans[1][0] < high and low < at[1] + spans[1][1])


@functools.lru_cache(maxsize=1024)
def _kept(a: _Layout, b: _Layout, out: _Layout | None, order: str, device: Any, rules: Rules) -> _Kept | None:
    """What the rules make of layouts; None where they refuse them, or do more than launch."""
    if any("V" in one[2] for one in (a, b, out or a)):
        return None  # a dtype that the library alone can name
    x, y = Noted(OPERANDS[0], *a), Noted(OPERANDS[1], *b)
    z = None if out is None else Noted(RESULT, *out)
    try:
        made = rules(x, y, z)
        views = [view("", one) for one in (x, y, made)]
    except TilewrightError:
        return None  # the error is raised where the operands' names are known
    if made.launches is None or len(made.launches.made) > _MOST:
        return None
    starts = (*OPERANDS, RESULT)
    spans = tuple(
        (low - start, high - start) for start, (low, high) in zip(starts, (span(x.pointer) for x in views), strict=True)
    )
    align = max(made.launches.align, *(one.dtype.itemsize for one in views))
    return _Kept(views[2].shape, views[2].dtype, made.launches, spans, align)
