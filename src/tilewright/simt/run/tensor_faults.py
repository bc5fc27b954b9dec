"""The errors of tensor memory, as text.

Source of the rules: PTX ISA, 9.7.16.4 (descriptors), 9.7.16.7 (allocation), 9.7.16.8.1 (which lanes a warp reaches).
"""

from __future__ import annotations

from typing import Final

from tilewright.simt.translate import state

_COLUMNS: Final = state.COLUMNS
#: The text of each error, with `{got}` and `{other}`; and its fault.
RULES: Final = {
    _COLUMNS["count"]: (
        "the columns of an allocation must be 32, 64, 128, 256 or 512 (got {got:,})", "tensor memory allocation",
    ),
    _COLUMNS["room"]: (
        "{got:,} adjacent columns must be free (got {other:,} free in all): it waits for ever unless "
        "other warps free theirs; ask for fewer, or free some before", "tensor memory allocation",
    ),
    _COLUMNS["permit"]: (
        "columns must be allocated before the block gives up its permit (got {got:,} requested after "
        "tcgen05.relinquish_alloc_permit)", "tensor memory allocation",
    ),
    _COLUMNS["freed"]: (
        "what is freed must be one allocation, by its address and its number of columns (got {other:,} columns at "
        "address {got:#x})", "tensor memory allocation",
    ),
    _COLUMNS["left"]: (
        "a block must free its tensor memory before it ends (got {got:,} columns that are still allocated); put "
        "tcgen05.dealloc after their last use", "tensor memory left",
    ),
    _COLUMNS["outside"]: (
        "an access of tensor memory must be inside allocated columns, from a lane that its shape allows (got {other:,} "
        "from column {got:,} on); take the address that tcgen05.alloc stored, and allocate as many columns as are used",
        "bounds tensor memory",
    ),
    _COLUMNS["lanes"]: (
        "a warp reaches 32 lanes of tensor memory, from 32 times its number modulo 4 on (got lane {got:,} in warp "
        "{other:,}); .32x32b begins with the first of them, other shapes with that or the 17th", "bounds tensor memory",
    ),
    state.TENSOR_PEER: (
        "a product or a copy of two blocks must be launched in clusters of an even number of blocks (got {got:,})",
        "tensor product",
    ),
}  # fmt: skip
_WRONG: Final = state.WRONG
#: Of a descriptor `{got}`.
_DESCRIPTORS: Final = {
    _WRONG["version"]: "bits 46 to 48 of a matrix descriptor must be 1 (got {got:#x} as its upper half)",
    _WRONG["swizzle"]: (
        "the swizzle of a matrix descriptor must be 0, 2, 4 or 6, or 1 of a matrix whose lines lie side by side (got "
        "{got:#x} as its upper half)"
    ),
    _WRONG["mode"]: "strides must be offsets, not addresses (got bit 52 in {got:#x}, the descriptor's upper half)",
    _WRONG["format"]: "the types in the instruction descriptor must be ones of the kind (got {got:#x})",
    _WRONG["shape"]: "the shape in the instruction descriptor must be one of the kind (got {got:#x})",
    _WRONG[
        "sparsity"
    ]: "bit 2 of the instruction descriptor must say, as the name does, whether A is sparse (got {got:#x})",
    _WRONG["across"]: "only elements of 8 bits and more may lie across (got instruction descriptor {got:#x})",
    _WRONG["held"]: (
        "A in tensor memory must have elements of 8 bits and more, along k (got instruction descriptor {got:#x})"
    ),
    _WRONG["metadata"]: (
        "the selector of a sparse A must be 0, or 1 of 16 bits and of tf32 (got {got:#x}, the instruction descriptor)"
    ),
    _WRONG["zeros"]: (
        "a zero-column mask must be 0: other masks are not implemented (got {got:#x} as its descriptor's upper half)"
    ),
    _WRONG["scales"]: "the scales in the instruction descriptor must be ones of the kind (got {got:#x})",
}


KINDS: Final = frozenset({*RULES, state.TENSOR_DESCRIPTOR})


def found(kind: int, got: int, other: int) -> tuple[str, str]:
    """The text of one of `KINDS`, and the fault's name."""
    if kind == state.TENSOR_DESCRIPTOR:
        return _DESCRIPTORS[other].format(got=got), "tensor product"
    text, fault = RULES[kind]
    return text.format(got=got, other=other), fault
