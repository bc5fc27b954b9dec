"""Forms that the vendor's assembler accepts and no row has, by parts of their names, each with a reason.

The support page and error messages read this list. A test asks the assembler for its instruction names, and for forms
around those of the table for sm_50 to sm_75: each must belong to a row or to this list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Absent:
    """Instructions that are refused."""

    #: Parts of their names, space-separated: `cp` means all of cp.async, `addc.sat` also addc.s32.sat.
    names: str
    section: str  #: Section of the PTX ISA manual; "" if the manual does not have them.
    reason: str


ABSENT = (
    Absent(
        "tcgen05.mma.sp.block_scale",
        "9.7.16.10.9.2",
        "the manual shows only in figures which elements of a sparse A share a scale",
    ),
    Absent("tcgen05.mma.ashift", "9.7.16.10.9.1", "the manual does not say which rows of A are shifted"),
    Absent("tcgen05.shift", "9.7.16.10.8", "the manual does not say what happens to the last row"),
    Absent("tcgen05.ld.red", "9.7.16.8.3", "compute capabilities 10.3 and 11.0 have it, but 10.0 does not"),
    Absent(
        "tcgen05.cp.4x256b tcgen05.cp.b8x16",
        "9.7.16.9",
        "the manual does not give the lanes of four lines, nor the place of 6 and 4 bits in a byte of tensor memory",
    ),
    Absent(
        "wmma.f64.m16n16k16 wmma.f64.m32n8k16 wmma.f64.m8n32k16 wmma.f64.m16n16k8 wmma.m16n16k8.f16 wmma.m16n16k8.s32 "
        "wmma.m8n8k32.f16 wmma.m8n8k32.f32 wmma.m8n8k128.f16 wmma.m8n8k128.f32",
        "9.7.14.4",
        "no product of the shape has sums of the type",
    ),
    Absent("wmma.f16.satfinite", "9.7.14.4", "PTX 6.5 removed it, and no later manual defines it for sums of floats"),
    Absent(
        "mma.m16n8k16.tf32", "", "the manual does not have it, and the assembler accepts the name but generates no code"
    ),
    Absent(
        "tex.2dms tex.a2dms tex.base tex.f16 tex.f16x2 tld4.a2d tld4.cube tld4.acube txq",
        "9.7.10",
        "only texture objects with one level, one sample and 32 bits are implemented, and no queries",
    ),
    Absent(
        "tex.level.s32 tex.grad.s32 tex.grad.cube tex.grad.acube",
        "9.7.10",
        "levels and gradients need float32 coordinates, and gradients a texture that is not a cube",
    ),
    Absent(
        "sust.p sured suq istypep",
        "9.7.11",
        "only unformatted reads and writes of surface objects are implemented, no reductions and no queries",
    ),
    Absent(
        "cp.async.bulk.im2col::w cp.async.bulk.tile::gather4 cp.async.bulk.tile::scatter4 cp.async.bulk.tensor "
        "tensormap.swizzle_atomicity",
        "9.7.9.27",
        "tensor copies that need compute capability 10.0 or later are not implemented",
    ),
    Absent("applypriority.async", "", "the manual does not have it"),
    Absent("membar.proxy.tensormap", "9.7.13.4", "use fence.proxy.tensormap"),
    Absent("clusterlaunchcontrol", "9.7.13.16", "pending launches of clusters cannot be cancelled here"),
    Absent("multimem", "9.7.9.13", "the machine has only one device"),
    Absent(
        "addc.u16 addc.s16 addc.sat subc.u16 subc.s16 subc.sat madc.u16 madc.s16 madc.sat testp.f32 testp.f64",
        "",
        "the manual does not have them, and the assembler's code does something else or nothing",
    ),
    Absent(
        "tex.uni tld4.uni suld.uni sust.uni cctl cctlu spdecompress clmad fabric trace",
        "",
        "the manual does not have them",
    ),
)


def why_absent(name: str) -> str:
    """The reason why a form without a row is refused; "" if this list does not have it.

    >>> why_absent("sured.b.add.1d.u32.trap")[:16], why_absent("mad.lo.u32")
    ('only unformatted', '')
    """
    parts = name.split(".")
    for absent in ABSENT:
        for opcode, *words in (form.split(".") for form in absent.names.split()):
            if parts[0] == opcode and set(words) <= set(parts):
                return absent.reason
    return ""
