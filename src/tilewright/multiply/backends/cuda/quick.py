"""The fast path for arrays of a GPU whose layouts have been multiplied before.

The rules are followed once, for placeholders (`arrays.Noted`), and the launches are kept. A call then puts in the
addresses and launches. It allocates only a result that is not given and the launches' own memory, in the stream, and
waits only for arrays that have DLPack alone or are JAX's; a graph can capture the others.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, TilewrightError
from tilewright.multiply.backends.cuda import current, products
from tilewright.multiply.backends.cuda.arrays import (
    Library,
    Noted,
    interface,
    library_of,
    negated,
    of_jax,
    stream_of,
    view,
)
from tilewright.multiply.backends.cuda.launches import EPILOGUE, OPERANDS, RESULT, Launches
from tilewright.simulate.programs.array_arguments import span

#: Shape, strides and dtype, as in the interface, the library's name of a dtype that NumPy lacks, and the bytes by which
#: the address exceeds a multiple of `_APART`.
_Layout = tuple[tuple[int, ...], tuple[int, ...] | None, str, str, int]
#: No kernel needs addresses at multiples of more bytes.
_APART = 16
#: Most launches of a product that are kept, each about 600 bytes; without them the rules take 35 us a launch.
_MOST = 1024


class Rules:
    """How products that are asked for alike are made by every rule; equal where their keys are.

    `key`: what is asked for. `multiply`: (a, b, out, the epilogue's arrays) -> the product. It is called once at most,
    and then dropped: it may hold the caller's arrays.
    """

    __slots__ = ("key", "multiply")

    def __init__(self, key: Hashable, multiply: Callable[[Any, Any, Any, Sequence[Any]], Any]) -> None:
        self.key = key
        self.multiply: Callable[[Any, Any, Any, Sequence[Any]], Any] | None = multiply

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self.key == other.key


@dataclass(frozen=True, slots=True)
class _Kept:
    """The launches of a product, and the memory that its arrays cover."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    launches: Launches
    lead: int  #: Bytes by which the result's address exceeds a multiple of `_APART`.
    #: First byte of each array and the one after its last, relative to its address: A, B, the result, the epilogue's.
    spans: tuple[tuple[int, int], ...]


def multiply(a: Any, b: Any, out: Any, rules: Rules, more: Sequence[Any]) -> Any:
    """Launch the product of two arrays of a GPU; None if the rules must be followed.

    `more` are the arrays that an epilogue reads.
    """
    library, values = library_of(a), [a, b, *more] if out is None else [a, b, out, *more]
    if of_jax(out) or ("torch" in sys.modules and any(map(negated, values))):
        return None
    if library is not None and library.records(sys.modules[library.name]):
        return None
    found = _interfaces(library, values)
    if found is None:
        return None
    made = out is None
    layouts: Any = tuple([_layout(value, described) for value, described in found])
    kept = None if None in layouts else _kept(layouts, out is not None, current.identity(), rules)
    if kept is None:
        return None
    if out is None:
        if library is None:
            return None
        out = library.empty(sys.modules[library.name], a, kept.shape, kept.dtype)
        found.insert(2, (out, out.__cuda_array_interface__))
    at = [described["data"][0] or 0 for _, described in found]
    if found[2][1]["data"][1] or at[2] % _APART != kept.lead or _overlaps(kept.spans, at):
        return None
    said = [described.get("stream") for _, described in found]
    stream = current.stream(stream_of(library, said))
    kept.launches.issue(stream, [one - one % _APART for one in at])
    if any("lent" in described for _, described in found):
        current.wait(stream)
    return library.result(sys.modules[library.name], out) if made and library is not None else out


def forget() -> None:
    """Forget all layouts, so that later calls use what a tuner has found since."""
    _kept.cache_clear()
    products.forget()


def _interfaces(library: Library | None, values: list[Any]) -> list[tuple[Any, dict[str, Any]]] | None:
    """Arrays with their interfaces; None if one has none, or does not mean what its interface says."""
    try:
        if sys.modules.get("jax") is None or not any(map(of_jax, values)):
            return [(one, one.__cuda_array_interface__) for one in values]
    except AttributeError:
        pass  # DLPack may describe it
    except RuntimeError:  # torch's, of a tensor that requires a gradient
        values = [library.plain(sys.modules[library.name], one) for one in values] if library else values
    try:
        return [(one, interface(one, library)) for one in values]
    except (ArgumentTypeError, AttributeError, RuntimeError):
        return None


def _layout(value: Any, described: dict[str, Any]) -> _Layout | None:
    """An array's layout; None if it has a mask."""
    if described.get("mask") is not None:
        return None
    kind, steps, at = described["typestr"], described.get("strides"), described["data"][0]
    name = str(getattr(value, "dtype", kind)) if "V" in kind else ""
    return tuple(described["shape"]), None if steps is None else tuple(steps), kind, name, (at or 0) % _APART


def _overlaps(spans: Sequence[tuple[int, int]], at: Sequence[int]) -> bool:
    """Whether the result overlaps another array."""
    low, high = spans[2]
    first, last = at[2] + low, at[2] + high
    for place, address in enumerate(at):  # plain loops: every product comes here
        low, high = spans[place]
        if place != 2 and address + low < last and first < address + high:
            return True
    return False


@functools.lru_cache(maxsize=512)
def _kept(layouts: tuple[_Layout, ...], into: bool, device: Any, rules: Rules) -> _Kept | None:
    """The launches for some layouts, the third of them the result's if `into`; None if the rules refuse them."""
    follow, rules.multiply = rules.multiply, None
    starts = (*OPERANDS, RESULT, *EPILOGUE) if into else (*OPERANDS, *EPILOGUE)
    if follow is None or len(layouts) > len(starts):
        return None
    noted = [Noted(start + one[-1], *one[:-1]) for start, one in zip(starts, layouts, strict=False)]
    x, y, *more = noted
    z = more.pop(0) if into else None
    try:
        made = follow(x, y, z, more)
        views = [view("", one) for one in (x, y, made, *more)]
    except TilewrightError:
        return None  # the caller raises the error, since it knows the operands' names
    if made.launches is None or len(made.launches.made) > _MOST:
        return None
    spans = []
    for one in views:
        low, high = span(one.pointer)
        spans.append((low - one.pointer.ctypes.data, high - one.pointer.ctypes.data))
    return _Kept(views[2].shape, views[2].dtype, made.launches, views[2].pointer.ctypes.data % _APART, tuple(spans))
