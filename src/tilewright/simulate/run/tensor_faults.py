"""The messages of errors in tensor memory.

Source of the rules: PTX ISA, 9.7.16.4 (descriptors), 9.7.16.7 (allocation), 9.7.16.8.1 (which lanes a warp reaches).
"""

from __future__ import annotations

from typing import Final

from tilewright.simulate import state

_COLUMNS: Final = state.COLUMNS
#: The text of each error, with `{got}` and `{other}`; and its fault.
RULES: Final = {
    _COLUMNS["count"]: (
        "the columns of an allocation must be 32, 64, 128, 256 or 512 (got {got:,})", "tensor memory allocation",
    ),
    _COLUMNS["room"]: (
        "{got:,} adjacent columns must be free (got {other:,} free in all), or the allocation waits until other warps "
        "free theirs; allocate fewer columns, or free some first", "tensor memory allocation",
    ),
    _COLUMNS["permit"]: (
        "columns must be allocated before the block gives up its permit (got {got:,} requested after "
        "tcgen05.relinquish_alloc_permit)", "tensor memory allocation",
    ),
    _COLUMNS["freed"]: (
        "tcgen05.dealloc must free one whole allocation, by its address and its number of columns (got {other:,} "
        "columns at address {got:#x})", "tensor memory allocation",
    ),
    _COLUMNS["left"]: (
        "a block must free its tensor memory before it ends (got {got:,} columns still allocated); put "
        "tcgen05.dealloc after their last use", "tensor memory left",
    ),
    _COLUMNS["outside"]: (
        "an access of tensor memory must be inside allocated columns, from a lane that its shape allows (got {other:,} "
        "from column {got:,} on); use the address that tcgen05.alloc stored, and allocate all columns you use",
        "bounds tensor memory",
    ),
    _COLUMNS["lanes"]: (
        "a warp must access the 32 lanes of tensor memory from lane 32 * (warp % 4) on (got lane {got:,} in warp "
        "{other:,}); start at the first, or with a shape other than .32x32b at the 17th", "bounds tensor memory",
    ),
    state.TENSOR_PEER: (
        "a kernel with .cta_group::2 must be launched in clusters with an even number of blocks (got {got:,})",
        "tensor product",
    ),
}  # fmt: skip
_WRONG: Final = state.WRONG
#: Of a descriptor `{got}`.
_DESCRIPTORS: Final = {
    _WRONG["version"]: "bits 46 to 48 of a matrix descriptor must be 1 (got {got:#x} as the upper half)",
    _WRONG["swizzle"]: (
        "the swizzle of a matrix descriptor must be 0, 2, 4 or 6, or 1 for an MN-major matrix (got {got:#x} as the "
        "descriptor's upper half)"
    ),
    _WRONG["mode"]: "strides must be offsets, not addresses (got bit 52 of the descriptor, in its upper half {got:#x})",
    _WRONG["format"]: "the instruction descriptor must name types that the .kind supports (got {got:#x})",
    _WRONG["shape"]: "the instruction descriptor must name a shape that the .kind supports (got {got:#x})",
    _WRONG["sparsity"]: "bit 2 of the instruction descriptor must be 1 with .sp and 0 without it (got {got:#x})",
    _WRONG["mn_major"]: "an MN-major matrix must have elements of 8 bits or more (got instruction descriptor {got:#x})",
    _WRONG["held"]: (
        "A in tensor memory must be dense and K-major, of 8 bits or more (got instruction descriptor {got:#x})"
    ),
    _WRONG["metadata"]: (
        "the sparsity selector must be 0, or 1 for elements of 16 bits and tf32 (got instruction descriptor {got:#x})"
    ),
    _WRONG["zeros"]: (
        "a zero-column mask must be 0: other masks are not implemented (got {got:#x} as its descriptor's upper half)"
    ),
    _WRONG["scales"]: "the instruction descriptor must name scales that the .kind supports (got {got:#x})",
}


KINDS: Final = frozenset({*RULES, state.TENSOR_DESCRIPTOR})


def found(kind: int, got: int, other: int) -> tuple[str, str]:
    """The text of one of `KINDS`, and the fault's name."""
    if kind == state.TENSOR_DESCRIPTOR:
        return _DESCRIPTORS[other].format(got=got), "tensor product"
    text, fault = RULES[kind]
    return text.format(got=got, other=other), fault
