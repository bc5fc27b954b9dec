"""Floats without arithmetic of their own: their exact conversions to float32, and from it by a single rounding.

Texts are as in `primitives`: LLVM's lines, in which T is the type in memory, F a float, I an integer of 32 bits, and B
a truth value, all of one width, `{x}` an integer in every lane; C's are functions of OpenCL C.

Source: IEEE 754-2019, table 3.5 (binary16); bfloat16 is binary32 with 8 significand bits; Micikevicius et al., FP8
formats for deep learning, arXiv 2209.05433 (E4M3, E5M2). OpenCL 1.2 Specification, section 6.12.7 (vload_half and
vstore_half). Subnormals by one addition: Giesen, Float to half conversions, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Carried:
    """The conversions of one dtype."""

    #: `c_widen`, `c_narrow`: functions `from_NAME` and `to_NAME`.
    c_widen: str
    c_narrow: str
    c_vector: str  #: Reads a vector of `{width}` floats from the address `{at}`.
    #: `llvm_widen`, `llvm_narrow`: lines for types that LLVM lacks, or whose conversions would be library calls; empty
    #: for `fpext` and `fptrunc`.
    llvm_widen: tuple[str, ...] = ()
    llvm_narrow: tuple[str, ...] = ()


HALF = Carried(
    "inline float from_float16(ushort x) { return vload_half(0, (const half *)&x); }",
    "inline ushort to_float16(float x) { ushort r; vstore_half_rte(x, 0, (half *)&r); return r; }",
    "vload_half{width}(0, (const global half *)({at}))",
)
#: To bfloat16 in integers: nearest, ties to even; a NaN stays one.
UPPER_HALF = Carried(
    "inline float from_bfloat16(ushort x) { return as_float((uint)x << 16); }",
    """inline ushort to_bfloat16(float x) {
    uint bits = as_uint(x);
    return isnan(x) ? (bits >> 16 | 0x40) : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}""",
    "as_float{width}(convert_uint{width}(vload{width}(0, {at})) << 16)",
    ("zext T $0 to I", "shl I #0, {16}", "bitcast I #1 to F"),
    (
        "bitcast F $0 to I", "lshr I #0, {16}", "and I #1, {1}", "add I #2, {32767}", "add I #0, #3", "lshr I #4, {16}",
        "or I #1, {64}", "fcmp uno F $0, $0", "select B #7, I #6, I #5", "trunc I #8 to T",
    ),
)  # fmt: skip

#: Of a float32: its significand's bits and its exponent's bias; its quiet NaN.
_BITS, _BIAS, _NAN = 23, 127, 0x7FC00000


def byte(name: str, significand: int, bias: int, infinite: int, nan: int) -> Carried:
    """The conversions of a float of 8 bits: a sign, an exponent, and `significand` bits.

    Magnitudes from `infinite` on are an infinity and NaN, or only NaN if `infinite` is `nan`; a too large value becomes
    `infinite`. Subnormals are rounded by adding a number whose last place is theirs.
    """
    shift, one, rebias = _BITS - significand, 1 << _BITS, (_BIAS - bias) << _BITS
    least, places = rebias + one, rebias + ((_BITS - significand + 1) << _BITS)
    magic, filled = f"as_float{{w}}((uint{{w}}){least:#x}u)", f"((u & 127) << {shift})"
    widen = (
        f"as_float{{w}}((u & 128) << 24 | ((u & 127) < {1 << significand}"
        f" ? as_uint{{w}}(as_float{{w}}({filled} + {least:#x}u) - {magic})"
        f" : (u & 127) == {infinite} ? (uint{{w}}){_NAN if infinite == nan else 0x7F800000:#x}u"
        f" : (u & 127) > {infinite} ? (uint{{w}}){_NAN:#x}u : {filled} + {rebias:#x}u))"
    )
    vector = widen.replace("u &", "convert_uint{w}(vload{w}(0, {at})) &").replace("{w}", "{width}")
    return Carried(
        f"inline float from_{name}(uchar x) {{ const uint u = x; return {widen.replace('{w}', '')}; }}",
        f"""inline uchar to_{name}(float x) {{
    const uint bits = as_uint(x), size = bits & 0x7FFFFFFF;
    const uint small = as_uint(as_float(size) + as_float({places:#x}u)) - {places:#x}u;
    const uint large = (size - {rebias:#x}u + {(1 << (shift - 1)) - 1:#x}u + (size >> {shift} & 1)) >> {shift};
    const uint most = isnan(x) ? {nan}u : {infinite}u;
    return (size < {least:#x}u ? small : size > 0x7F800000u || large > most ? most : large) | bits >> 24 & 128;
}}""",
        vector,
        (
            "zext T $0 to I", "and I #0, {127}", f"shl I #1, {{{shift}}}", f"add I #2, {{{rebias}}}",
            f"add I #2, {{{least}}}", "bitcast I #4 to F", f"bitcast I {{{least}}} to F", "fsub F #5, #6",
            "bitcast F #7 to I", f"icmp ult I #1, {{{1 << significand}}}", "select B #9, I #8, I #3",
            f"icmp uge I #1, {{{infinite}}}", f"icmp ugt I #1, {{{infinite - (infinite == nan)}}}",
            f"select B #12, I {{{_NAN}}}, I {{{0x7F800000}}}", "select B #11, I #13, I #10",
            "and I #0, {128}", "shl I #15, {24}", "or I #14, #16", "bitcast I #17 to F",
        ),
        (
            "bitcast F $0 to I", f"and I #0, {{{0x7FFFFFFF}}}", "bitcast I #1 to F", f"bitcast I {{{places}}} to F",
            "fadd F #2, #3", "bitcast F #4 to I", f"sub I #5, {{{places}}}",
            f"lshr I #1, {{{shift}}}", "and I #7, {1}", f"sub I #1, {{{rebias - (1 << (shift - 1)) + 1}}}",
            "add I #8, #9", f"lshr I #10, {{{shift}}}", "fcmp uno F $0, $0",
            f"select B #12, I {{{nan}}}, I {{{infinite}}}",
            "icmp ugt I #11, #13", "or B #12, #14", "select B #15, I #13, I #11",
            f"icmp ult I #1, {{{least}}}", "select B #17, I #6, I #16",
            "lshr I #0, {24}", "and I #19, {128}", "or I #18, #20", "trunc I #21 to T",
        ),
    )  # fmt: skip


FLOAT8_E4M3 = byte("float8_e4m3fn", 3, 7, 0x7F, 0x7F)
FLOAT8_E5M2 = byte("float8_e5m2", 2, 15, 0x7C, 0x7E)
