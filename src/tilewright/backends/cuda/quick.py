"""The fast path for arrays of a GPU whose layouts have been multiplied before.

The rules are followed once, for placeholders (`arrays.Noted`), and the launches are kept. A call then puts in the
addresses and launches. It allocates no memory but a result that is not given, and waits for nothing, so a graph can
capture it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.backends.cuda import current, products
from tilewright.backends.cuda.arrays import Noted, library_of, negated, of_jax, stream_of, view
from tilewright.backends.cuda.launches import EPILOGUE, OPERANDS, RESULT, Launches
from tilewright.errors import TilewrightError
from tilewright.programs.host_arrays import span

#: Shape, strides and dtype, as in the interface, and the library's name of a dtype that NumPy lacks.
_Layout = tuple[tuple[int, ...], tuple[int, ...] | None, str, str]
#: Most launches of a product that are kept.
_MOST = 64


@dataclass(frozen=True, slots=True)
class Rules:
    """How products that are asked for alike are made by every rule."""

    key: Hashable  #: What is asked for.
    #: (a, b, out, the epilogue's arrays) -> the product.
    multiply: Callable[[Any, Any, Any, Sequence[Any]], Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The launches of a product, and the conditions on addresses."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    launches: Launches
    #: First byte of each array and the one after its last, relative to its address: A, B, the result, the epilogue's.
    spans: tuple[tuple[int, int], ...]
    align: int


def multiply(a: Any, b: Any, out: Any, rules: Rules, more: Sequence[Any] = ()) -> Any:
    """Launch the product of two arrays of a GPU; None if the rules must be followed.

    `more` are the arrays that an epilogue reads.
    """
    try:
        x, y = a.__cuda_array_interface__, b.__cuda_array_interface__
        z = None if out is None else out.__cuda_array_interface__
        rest = [one.__cuda_array_interface__ for one in more] if more else []
    except (AttributeError, RuntimeError):
        return None
    of_more = tuple(map(_layout, more, rest)) if rest else ()
    of_out = None if z is None else _layout(out, z)
    kept = _kept(_layout(a, x), _layout(b, y), of_out, of_more, current.identity(), rules)
    if kept is None or negated(a) or negated(b) or negated(out) or of_jax(out) or any(map(negated, more)):
        return None
    library = library_of(a)
    if z is None:
        if library is None:
            return None
        out = library.empty(sys.modules[library.name], a, kept.shape, kept.dtype)
        z = out.__cuda_array_interface__
    at = x["data"][0], y["data"][0], z["data"][0]
    of_epilogue = tuple([one["data"][0] for one in rest]) if rest else ()
    if z["data"][1] or _unfit(kept, (*at, *of_epilogue)):
        return None
    said = (x.get("stream"), y.get("stream"))
    if rest:
        said += tuple([one.get("stream") for one in rest])
    kept.launches.issue(current.stream(stream_of(library, said)), at, of_epilogue)
    return out


def forget() -> None:
    """Forget all layouts, so that later calls use what a tuner has found since."""
    _kept.cache_clear()
    products.forget()


def _layout(value: Any, interface: dict[str, Any]) -> _Layout:
    kind = interface["typestr"]
    return interface["shape"], interface.get("strides"), kind, str(getattr(value, "dtype", kind)) if "V" in kind else ""


def _unfit(kept: _Kept, at: tuple[int, ...]) -> bool:
    """Whether an array is not aligned as the launches need it, or the result overlaps another."""
    low, high = kept.spans[2]
    first, last = at[2] + low, at[2] + high
    for place, address in enumerate(at):  # plain loops: every product comes here
        low, high = kept.spans[place]
        if address % kept.align or (place != 2 and address + low < last and first < address + high):
            return True
    return False


@functools.lru_cache(maxsize=1024)
def _kept(
    a: _Layout, b: _Layout, out: _Layout | None, more: tuple[_Layout, ...], device: Any, rules: Rules
) -> _Kept | None:
    """The launches for some layouts; None if the rules refuse them, or do more than launch."""
    if len(more) > len(EPILOGUE):
        return None
    x, y = Noted(OPERANDS[0], *a), Noted(OPERANDS[1], *b)
    z = None if out is None else Noted(RESULT, *out)
    starts = (*OPERANDS, RESULT, *EPILOGUE[: len(more)])
    rest = [Noted(start, *layout) for start, layout in zip(EPILOGUE, more, strict=False)]
    try:
        made = rules.multiply(x, y, z, rest)
        views = [view("", one) for one in (x, y, made, *rest)]
    except TilewrightError:
        return None  # the caller raises the error, since it knows the operands' names
    if made.launches is None or len(made.launches.made) > _MOST:
        return None
    spans = tuple(
        (low - start, high - start) for start, (low, high) in zip(starts, (span(x.pointer) for x in views), strict=True)
    )
    align = max(made.launches.align, *(one.dtype.itemsize for one in views))
    return _Kept(views[2].shape, views[2].dtype, made.launches, spans, align)
