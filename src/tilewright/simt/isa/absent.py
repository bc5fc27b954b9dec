"""Forms that the vendor's assembler takes and no row has: by words of their names, with the reason.

The support page and error messages read this list. A test asks the assembler for the names of its instructions and for
the forms around those of the table for sm_50 to sm_75: each is a row's or has its line here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Absent:
    """Instructions that are refused."""

    #: Words of their names, space-separated: `cp` means all of cp.async, `addc.sat` for addc.s32.sat too.
    names: str
    section: str  #: Section of the PTX ISA manual; "" for what it does not have.
    reason: str


ABSENT = (
    Absent(
        "tcgen05.mma.sp.block_scale",
        "9.7.16.10.9.2",
        "which elements of a sparse A share a scale, the manual shows in figures alone",
    ),
    Absent("tcgen05.mma.ashift", "9.7.16.10.9.1", "which rows of A are shifted is not said"),
    Absent("tcgen05.shift", "9.7.16.10.8", "what becomes of the last row is not said"),
    Absent("tcgen05.ld.red", "9.7.16.8.3", "compute capabilities 10.3 and 11.0 have it, and 10.0 has not"),
    Absent(
        "tcgen05.cp.4x256b tcgen05.cp.b8x16",
        "9.7.16.9",
        "which lanes four lines go to, and where 6 and 4 bits lie in a byte of tensor memory, is not said",
    ),
    Absent(
        "wmma.f64.m16n16k16 wmma.f64.m32n8k16 wmma.f64.m8n32k16 wmma.f64.m16n16k8 wmma.m16n16k8.f16 wmma.m16n16k8.s32 "
        "wmma.m8n8k32.f16 wmma.m8n8k32.f32 wmma.m8n8k128.f16 wmma.m8n8k128.f32",
        "9.7.14.4",
        "no product of the shape has sums of the type",
    ),
    Absent(
        "wmma.f16.satfinite", "9.7.14.4", "PTX 6.5 took it away: no manual since says what it makes of sums of floats"
    ),
    Absent(
        "mma.m16n8k16.tf32", "", "the manual does not have it, and the assembler takes the name and makes no code of it"
    ),
    Absent(
        "tex.2dms tex.a2dms tex.base tex.f16 tex.f16x2 tld4.a2d tld4.cube tld4.acube txq",
        "9.7.10",
        "of textures there are those with one level, one sample and 32 bits, that objects name; none is asked about",
    ),
    Absent(
        "tex.level.s32 tex.grad.s32 tex.grad.cube tex.grad.acube",
        "9.7.10",
        "levels and gradients go with coordinates in float32, and gradients with textures that are no cubes",
    ),
    Absent(
        "sust.p sured suq istypep",
        "9.7.11",
        "of surfaces there are reads and writes of bytes, that objects name; none is formatted, reduced or asked about",
    ),
    Absent(
        "cp.async.bulk.im2col::w cp.async.bulk.tile::gather4 cp.async.bulk.tile::scatter4 cp.async.bulk.tensor "
        "tensormap.swizzle_atomicity",
        "9.7.9.27",
        "what copies of tensors have from compute capability 10.0 on comes later",
    ),
    Absent("applypriority.async", "", "the manual does not have it"),
    Absent("membar.proxy.tensormap", "9.7.13.4", "tensor maps come later"),
    Absent("clusterlaunchcontrol", "9.7.13.16", "clusters that wait to be launched are not cancelled"),
    Absent("multimem", "9.7.9.13", "there is one device"),
    Absent(
        "addc.u16 addc.s16 addc.sat subc.u16 subc.s16 subc.sat madc.u16 madc.s16 madc.sat testp.f32 testp.f64",
        "",
        "the manual does not have them, and the assembler's code does something else, or nothing",
    ),
    Absent(
        "tex.uni tld4.uni suld.uni sust.uni cctl cctlu spdecompress clmad fabric trace",
        "",
        "the manual does not have them",
    ),
)


def why_absent(name: str) -> str:
    """The reason why a form that no row has is refused; "" for one that this list does not have either.

    >>> why_absent("sured.b.add.1d.u32.trap")[:17], why_absent("mad.lo.u32")
    ('of surfaces there', '')
    """
    parts = name.split(".")
    for absent in ABSENT:
        for opcode, *words in (form.split(".") for form in absent.names.split()):
            if parts[0] == opcode and set(words) <= set(parts):
                return absent.reason
    return ""
