"""Conversions of half precision by integer arithmetic, against NumPy's, which use none of our code."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from tilewright.ground.native import halves
from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.compiler import Compiler, compiler

Array = np.ndarray[Any, Any]
NAMES = {
    "__extendhfsf2": ("half", "float"), "__truncsfhf2": ("float", "half"), "__truncdfhf2": ("double", "half"),
    "__truncsfbf2": ("float", "bfloat"), "__truncdfbf2": ("double", "bfloat"),
}  # fmt: skip
NUMPY: dict[str, Any] = {"half": np.float16, "float": np.float32, "double": np.float64, "bfloat": np.uint16}


def convert(symbol: str, values: Array) -> Array:
    """Each value converted by our function, under a name unknown to LLVM."""
    source, target = NAMES[symbol]
    renamed = re.sub(r"@(?:__|tw_)(\w+)", r"@ours_\1", str(llvm.parse_bitcode(bitcode(halves.SOURCE))))
    loop = f"""
define void @each(ptr %in, ptr %out, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %from = getelementptr {source}, ptr %in, i64 %i
  %x = load {source}, ptr %from
  %y = call {target} @ours_{symbol[2:]}({source} %x)
  %to = getelementptr {target}, ptr %out, i64 %i
  store {target} %y, ptr %to
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""
    library = compiler().link(compiler().compile(renamed + loop), ("each",))
    out = np.empty(len(values), NUMPY[target])
    each = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.addresses["each"])
    each(values.ctypes.data, out.ctypes.data, len(values))
    return out


def hard(symbol: str) -> Array:
    """Every half as an operand; else results, points between them, their neighbours, and random bits."""
    words = np.arange(1 << 16, dtype=np.uint16)
    every = words.view(np.float16)
    if NAMES[symbol][1] == "bfloat":
        every = (words.astype(np.uint32) << 16).view(np.float32)
    if symbol == "__extendhfsf2":
        return every
    wide = NUMPY[NAMES[symbol][0]]
    exact = np.sort(every[np.isfinite(every)].astype(wide))
    middle = exact[1:] / 2 + exact[:-1] / 2
    near = [np.nextafter(middle, np.array(end, wide)) for end in (-np.inf, np.inf)]
    size = np.dtype(wide).itemsize
    random = np.random.default_rng(1)
    bits = random.integers(0, 1 << 8 * size, 200_000, np.dtype(f"u{size}")).view(wide)
    small = np.ldexp(random.normal(size=200_000), random.integers(-30, 20, 200_000)).astype(wide)
    # One part in 2^29 beside a midpoint: lost if a double were rounded to a float first.
    beside = middle * (1 + np.array(2.0**-29, wide)) if size == 8 else middle
    ends = np.array([65504, 65519.99, 65520, 65536, 3e38, 3.4e38, np.inf, -np.inf, np.nan, 0.0, -0.0], wide)
    return np.concatenate([exact, middle, *near, bits, small, beside, -beside, ends])


@pytest.mark.parametrize("symbol", halves.SYMBOLS)
def test_every_value_is_rounded_as_others_round_it(symbol: str) -> None:
    """As NumPy does. NumPy has no bfloat16: there ml_dtypes is the oracle from float, and a search from double."""
    values = hard(symbol)
    found = convert(symbol, values)
    if found.dtype == np.uint16:
        found, truth = found.view(ml_dtypes.bfloat16), _nearest_bfloat(values)
    else:
        with np.errstate(all="ignore"):
            truth = values.astype(found.dtype)
    unsigned = np.dtype(f"u{found.dtype.itemsize}")
    same = (found.view(unsigned) == truth.view(unsigned)) | (np.isnan(found) & np.isnan(truth))
    assert values[~same].tolist() == []
    assert (np.signbit(found) == np.signbit(truth)).all()


def _nearest_bfloat(values: Array) -> Array:
    """The nearest bfloat16, ties to even."""
    if values.dtype == np.float32:
        with np.errstate(all="ignore"):
            return values.astype(ml_dtypes.bfloat16)
    size = np.abs(values)
    words = np.arange(0x7F81, dtype=np.uint32) << 16  # 0 up to infinity
    grid = words.view(np.float32).astype(np.float64)
    grid[-1] = 2.0**128  # where the next value would be
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    with np.errstate(invalid="ignore"):
        low, high = size - grid[above - 1], grid[above] - size
    nearest = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    nearest = np.where(np.isinf(size), 0x7F80, np.where(np.isnan(size), 0x7FC0, nearest))
    return (nearest.astype(np.uint16) | np.signbit(values).astype(np.uint16) << 15).view(ml_dtypes.bfloat16)


def test_the_values_show_a_double_rounded_twice() -> None:
    values = hard("__truncdfhf2")
    with np.errstate(all="ignore"):
        truth, twice = values.astype(np.float16), values.astype(np.float32).astype(np.float16)
    assert (twice != truth)[~np.isnan(truth)].any()


@pytest.mark.parametrize("exports", [(), ("f",)])
def test_a_conversion_without_an_instruction_is_linked(exports: tuple[str, ...]) -> None:
    """LLVM adds the call only when it makes machine code, so until then there is none to see."""
    text = "define half @f(double %x) {\n  %y = fptrunc double %x to half\n  ret half %y\n}"
    old = Compiler("")
    assert old.link(old.compile(text, exports=exports), ("f",)).addresses["f"]


def test_modules_without_halves_are_left_alone() -> None:
    assert not halves.needed("%y = fadd float %x, %x", "x86_64-unknown-linux-gnu", "")
    assert not halves.needed("%y = fpext half %x to float", "x86_64-unknown-linux-gnu", "+f16c,+avx512fp16")
