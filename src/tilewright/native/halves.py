"""Conversions of 16-bit floats in integers, for processors that lack one of their instructions.

LLVM calls these by the names that compilers' run-time libraries give them, and no such library is sure to be loaded.
Before F16C (2012) all of half's are called, without AVX-512 FP16 the one from double, and without AVX-512 BF16 those to
bfloat. They round once, to nearest and ties to even, and make NaNs quiet, as the instructions do.

Source: IEEE 754-2019, 3.4 (formats: binary16 has a bias of 15 and 10 fraction bits, binary32 127 and 23) and 4.3.1;
bfloat16 is binary32 with 7 fraction bits; LLVM's RuntimeLibcalls for the names.
"""

from __future__ import annotations

#: What a module calls where its processor lacks the instruction.
SYMBOLS = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2")
#: By LLVM's name of a type, the feature of processors that have instructions for all of its conversions.
_NATIVE = {"half": "+avx512fp16", "bfloat": "+avx512bf16"}

# Extending: the bits of a half, shifted, are those of a float 2^112 times too small, subnormal or not. Infinities and
# NaNs get the float's exponent instead.
#
# Truncating a float: from 2^-14 up the exponent is lowered by 112 and the fraction rounded by an addition that carries
# into it; below, adding 0.5, whose last place is the half's, rounds.
#
# Truncating a double: a float that is odd where it is inexact (rounded to odd) rounds as the double does.
TEXT = f"""
define float @{SYMBOLS[0]}(half %x) nounwind {{
  %h = bitcast half %x to i16
  %w = zext i16 %h to i32
  %low = and i32 %w, 32767
  %shifted = shl i32 %low, 13
  %small = bitcast i32 %shifted to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %fraction = and i32 %low, 1023
  %some = icmp ne i32 %fraction, 0
  %quiet = select i1 %some, i32 4194304, i32 0
  %marked = or i32 %shifted, %quiet
  %wide = or i32 %marked, 2139095040
  %special = icmp uge i32 %low, 31744
  %size = select i1 %special, i32 %wide, i32 %finite
  %top = and i32 %w, 32768
  %sign = shl i32 %top, 16
  %bits = or i32 %size, %sign
  %y = bitcast i32 %bits to float
  ret float %y
}}

define half @{SYMBOLS[1]}(float %x) nounwind {{
  %b = bitcast float %x to i32
  %a = and i32 %b, 2147483647
  %size = bitcast i32 %a to float
  %moved = fadd float %size, 0.5
  %moved.bits = bitcast float %moved to i32
  %subnormal = sub i32 %moved.bits, 1056964608
  %lower = sub i32 %a, 939524096
  %last = lshr i32 %lower, 13
  %odd = and i32 %last, 1
  %up = add i32 %odd, 4095
  %rounded = add i32 %lower, %up
  %normal = lshr i32 %rounded, 13
  %tiny = icmp ult i32 %a, 947912704
  %finite = select i1 %tiny, i32 %subnormal, i32 %normal
  %beyond = icmp uge i32 %a, 1199570944
  %limited = select i1 %beyond, i32 31744, i32 %finite
  %nan = icmp ugt i32 %a, 2139095040
  %fraction = lshr i32 %a, 13
  %kept = and i32 %fraction, 1023
  %payload = or i32 %kept, 32256
  %magnitude = select i1 %nan, i32 %payload, i32 %limited
  %top = lshr i32 %b, 16
  %sign = and i32 %top, 32768
  %bits = or i32 %magnitude, %sign
  %h = trunc i32 %bits to i16
  %y = bitcast i16 %h to half
  ret half %y
}}

define internal float @to_odd(double %x) nounwind {{
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %x
  %size = call double @llvm.fabs.f64(double %x)
  %back.size = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %back.size, %size
  %step = zext i1 %above to i32
  %near.bits = bitcast float %near to i32
  %cut = sub i32 %near.bits, %step
  %mark = zext i1 %inexact to i32
  %odd.bits = or i32 %cut, %mark
  %odd = bitcast i32 %odd.bits to float
  ret float %odd
}}

define half @{SYMBOLS[2]}(double %x) nounwind {{
  %odd = call float @to_odd(double %x)
  %y = call half @{SYMBOLS[1]}(float %odd)
  ret half %y
}}

define bfloat @{SYMBOLS[3]}(float %x) nounwind {{
  %b = bitcast float %x to i32
  %upper = lshr i32 %b, 16
  %odd = and i32 %upper, 1
  %up = add i32 %odd, 32767
  %rounded = add i32 %b, %up
  %near = lshr i32 %rounded, 16
  %quiet = or i32 %upper, 64
  %nan = fcmp uno float %x, %x
  %bits = select i1 %nan, i32 %quiet, i32 %near
  %h = trunc i32 %bits to i16
  %y = bitcast i16 %h to bfloat
  ret bfloat %y
}}

define bfloat @{SYMBOLS[4]}(double %x) nounwind {{
  %odd = call float @to_odd(double %x)
  %y = call bfloat @{SYMBOLS[3]}(float %odd)
  ret bfloat %y
}}

declare double @llvm.fabs.f64(double)
"""


def needed(ir: str, triple: str, features: str) -> bool:
    """Whether an LLVM module may call a conversion that its processor has no instruction for.

    Examples
    --------
    >>> needed("%y = fpext half %x to float", "x86_64-unknown-linux-gnu", "+avx2")
    True
    >>> needed("%y = fpext half %x to float", "aarch64-unknown-linux-gnu", "+neon")
    False
    """
    present = features.split(",")
    return triple.startswith("x86_64") and any(type_ in ir and x not in present for type_, x in _NATIVE.items())
