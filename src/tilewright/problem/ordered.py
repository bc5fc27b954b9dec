"""Sums of products in ascending k, compiled: the loops behind the fast reference.

One function a pair of types, emitted as LLVM text. Neighbouring columns of C go side by side in a vector; each
element still sees its own k from 0 upwards, so the order is the canonical one whatever the host's vectors are. A host
without fused multiply-add gets `fma` from its mathematics library, with the same bits.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from tilewright.native.compiler import Compiler, compiler
from tilewright.native.once import once

#: Columns of C summed side by side. B and C are padded to a multiple of it, and B is laid out in panels so wide: rows
#: a power of two apart would share few cache sets.
COLUMNS = 32

_TEXT = """
define void @ordered(ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k) #0 {
entry:
  %columns.some = icmp sgt i64 %n, 0
  %rows.some = icmp sgt i64 %m, 0
  %some = and i1 %columns.some, %rows.some
  br i1 %some, label %columns, label %leave

columns:
  %j = phi i64 [ 0, %entry ], [ %j.next, %columns.end ]
  %b.panel = mul i64 %j, %k
  br label %rows

rows:
  %i = phi i64 [ 0, %columns ], [ %i.next, %store ]
  %a.row = mul i64 %i, %k
  %c.row = mul i64 %i, %n
  %c.at = add i64 %c.row, %j
  %summed = icmp sgt i64 %k, 0
  br i1 %summed, label %steps, label %store

steps:
  %l = phi i64 [ 0, %rows ], [ %l.next, %steps ]
  %sum = phi <WIDTH x TOTAL> [ zeroinitializer, %rows ], [ %sum.next, %steps ]
  %a.at = add i64 %a.row, %l
  %a.ptr = getelementptr PRODUCT, ptr %a, i64 %a.at
  %a.one = load PRODUCT, ptr %a.ptr
  %a.first = insertelement <WIDTH x PRODUCT> poison, PRODUCT %a.one, i32 0
  %x = shufflevector <WIDTH x PRODUCT> %a.first, <WIDTH x PRODUCT> poison, <WIDTH x i32> zeroinitializer
  %b.row = mul i64 %l, WIDTH
  %b.at = add i64 %b.panel, %b.row
  %b.ptr = getelementptr PRODUCT, ptr %b, i64 %b.at
  %y = load <WIDTH x PRODUCT>, ptr %b.ptr, align ALIGN
  STEP
  %l.next = add i64 %l, 1
  %l.more = icmp slt i64 %l.next, %k
  br i1 %l.more, label %steps, label %store

store:
  %result = phi <WIDTH x TOTAL> [ zeroinitializer, %rows ], [ %sum.next, %steps ]
  %c.ptr = getelementptr TOTAL, ptr %c, i64 %c.at
  store <WIDTH x TOTAL> %result, ptr %c.ptr, align ALIGN
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %m
  br i1 %i.more, label %rows, label %columns.end

columns.end:
  %j.next = add i64 %j, WIDTH
  %j.more = icmp slt i64 %j.next, %n
  br i1 %j.more, label %columns, label %leave

leave:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""

_FUSED = """%sum.next = call <WIDTH x TOTAL> @llvm.fma.vWIDTHMANGLED(
    <WIDTH x TOTAL> %x, <WIDTH x TOTAL> %y, <WIDTH x TOTAL> %sum)"""
_FUSED_DECLARATION = """
declare <WIDTH x TOTAL> @llvm.fma.vWIDTHMANGLED(<WIDTH x TOTAL>, <WIDTH x TOTAL>, <WIDTH x TOTAL>)
"""
_ROUNDED = """%product = fmul <WIDTH x PRODUCT> %x, %y
  WIDEN
  %sum.next = fadd <WIDTH x TOTAL> %sum, %wide"""
_INTEGER = """%product = mul <WIDTH x TOTAL> %x, %y
  %sum.next = add <WIDTH x TOTAL> %sum, %product"""


class Kernel(Protocol):
    """`kernel(a, b, c, m, n, k)` on contiguous arrays given by address.

    a is (m, k), b is (n / COLUMNS, k, COLUMNS): panels of neighbouring columns; c is (m, n).
    """

    def __call__(self, a: int, b: int, c: int, m: int, n: int, k: int, /) -> None:
        """Fill c."""


def text(product: str, total: str, *, fused: bool) -> str:
    """The LLVM module of one pair of types.

    Parameters
    ----------
    product : str
        LLVM type of the operands (`float`, `double`, `i32`, `i64`); products are rounded to it unless fused.
    total : str
        LLVM type of the sums; equal to `product` when fused and for integers.
    fused : bool
        One rounding a step, or two.
    """
    module = _TEXT
    if total.startswith("i"):
        step = _INTEGER
    elif fused:
        step, module = _FUSED, module + _FUSED_DECLARATION
    else:
        step = _ROUNDED
    widen = "%wide = fpext <WIDTH x PRODUCT> %product to <WIDTH x TOTAL>"
    if product == total:
        step, widen = step.replace("%wide", "%product"), ""
    mangled = {"float": "f32", "double": "f64"}.get(total, total)
    for name, value in (
        ("STEP", step),
        ("WIDEN", widen),
        ("WIDTH", str(COLUMNS)),
        ("MANGLED", mangled),
        ("PRODUCT", product),
        ("TOTAL", total),
        ("ALIGN", "4"),
    ):
        module = module.replace(name, value)
    return module


@once
def kernel(product: str, total: str, *, fused: bool, native: bool = True) -> Kernel:
    """The compiled function of one pair of types; `native=False` uses no instruction beyond the baseline."""
    made = compiler() if native else Compiler("")
    library = made.link(made.compile(text(product, total, fused=fused), passes=0), ("ordered",))
    words = (ctypes.c_void_p,) * 3 + (ctypes.c_int64,) * 3
    return _keep_alive(ctypes.CFUNCTYPE(None, *words)(library.addresses["ordered"]), library)


def _keep_alive(function: Any, library: Any) -> Kernel:
    """The function, holding on to the library its code lives in."""

    def call(a: int, b: int, c: int, m: int, n: int, k: int, /) -> None:
        assert library is not None
        function(a, b, c, m, n, k)

    return call
