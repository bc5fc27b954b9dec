"""Records of a warpgroup's products, whose operands are in shared memory, and of related instructions.

A descriptor is a 64-bit number: the start of a matrix, from `wgmma_descriptor`, and its layout, from `matrix_layout`.

Source: PTX ISA 9.1, 9.7.15 (wgmma), 9.7.15.5.1 (matrix descriptors), 9.7.19.5 (setmaxnreg).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ArgumentValueError
from tilewright.simulate.intrinsics.operands import Address, Constant, Record, Registers, Type

_PRODUCTS = "Products of a warpgroup"
_NINE = (9, 0)
_COLUMNS = (8, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class _Types:
    """Types of A and B, the extent along k of one instruction, and the types of C and D."""

    of: str
    k: int
    sums: str

    @property
    def bits(self) -> int:
        """Bits of an element of A and B."""
        return 256 // self.k


_TYPES = (
    _Types("f16", 16, "f32"), _Types("f16", 16, "f16"), _Types("bf16", 16, "f32"), _Types("tf32", 8, "f32"),
    _Types("e4m3", 32, "f32"), _Types("e5m2", 32, "f32"), _Types("s8", 32, "s32"), _Types("u8", 32, "s32"),
)  # fmt: skip
_B = Registers("b", "b64", words="descriptor of B; its lines are columns")
_KEEPS = Registers("keeps", "pred", words="whether to add to C, or else to 0")


def _across(name: str) -> Constant:
    return Constant(f"{name}_across", 0, 1, f"1 if adjacent elements belong to different lines of {name.upper()}")


def _product(types: _Types, n: int, held: bool) -> Record:
    """One product; `held` says that A is in registers."""
    summed: Type = "f32" if types.sums == "f32" else "s32" if types.sums == "s32" else "b32"
    count = n // (4 if types.sums == "f16" else 2)
    a = (
        Registers("a", "b32", 4, words="16 rows of A for each warp, as from `ldmatrix_x4`")
        if held
        else Registers("a", "b64", words="descriptor of A; its lines are rows")
    )
    layouts = (*(() if held else (_across("a"),)), _across("b")) if types.bits == 16 else ()
    literals = "".join(f", {layout.name}" for layout in layouts)
    signs = ", 1, 1" if types.sums != "s32" else ""
    return Record(
        f"wgmma_m64n{n}k{types.k}_{types.sums}_{types.of}" + "_held" * held,
        f"wgmma.mma_async.sync.aligned.m64n{n}k{types.k}.{types.sums}.{types.of}.{types.of} "
        f"{{d}}, {'{a}' if held else 'a'}, b, keeps{signs}{literals};",
        _NINE,
        (Registers("c", summed, count, words="16 rows a warp"), a, _B, _KEEPS, *layouts),
        f"Starts the warpgroup's D = A B + C, with A of 64 x {types.k} and B of {types.k} x {n}. D may not be "
        "used before a wait for it.",
        _PRODUCTS,
        Registers("d", summed, count),
        updates="c",
    )


_PENDING = Constant("pending", 0, 7, "how many of the newest groups may still be in flight")
_REGISTERS = Constant("registers", 24, 256, "registers of a thread: a multiple of 8")
RECORDS = (
    Record(
        "wgmma_descriptor",
        "{ .reg .b32 %first; .reg .b64 %start; shr.u32 %first, matrix, 4; cvt.u64.u32 %start, %first; "
        "or.b64 descriptor, %start, layout; }",
        (7, 5), (Address("matrix", "shared", 16), Registers("layout", "b64", words="what `matrix_layout` gave")),
        "The descriptor of a matrix in shared memory.", _PRODUCTS, Registers("descriptor", "b64"), pure=True,
    ),
    Record(
        "wgmma_fence", "wgmma.fence.sync.aligned;", _NINE, (),
        "Needed before the first product, and after other writes to registers of a product.", _PRODUCTS,
    ),
    Record(
        "wgmma_commit_group", "wgmma.commit_group.sync.aligned;", _NINE, (),
        "Closes a group with the warpgroup's products since the last group.", _PRODUCTS,
    ),
    Record(
        "wgmma_wait_group", "wgmma.wait_group.sync.aligned pending;", _NINE, (_PENDING,),
        "Waits for all groups except the newest.", _PRODUCTS,
    ),
    *(_product(types, n, held) for types in _TYPES for n in _COLUMNS for held in ((False, True) if types.bits == 16 and
      types.sums == "f32" else (False,))),
    Record(
        "setmaxnreg_inc", "setmaxnreg.inc.sync.aligned.u32 registers;", _NINE, (_REGISTERS,),
        "Requests registers that other warps released; all warps of a warpgroup execute it.", _PRODUCTS,
    ),
    Record(
        "setmaxnreg_dec", "setmaxnreg.dec.sync.aligned.u32 registers;", _NINE, (_REGISTERS,),
        "Releases registers; all warps of a warpgroup execute it.", _PRODUCTS,
    ),
)  # fmt: skip


def matrix_layout(swizzle: int, leading: int, stride: int) -> int:
    """The layout of a matrix in shared memory, as the upper bits of its descriptor.

    Parameters
    ----------
    swizzle : {0, 32, 64, 128}
        Bytes of a line of the matrix's atoms, within which units of 16 bytes are permuted; 0 for lines of 16 bytes.
    leading, stride : int
        Bytes, multiples of 16: the leading and the stride byte offset of the PTX manual.

    Raises
    ------
    ArgumentValueError
        A number is not allowed.

    Examples
    --------
    >>> hex(matrix_layout(128, 16, 1024))
    '0x4000004000010000'
    """
    modes = {0: 0, 128: 1, 64: 2, 32: 3}
    if swizzle not in modes:
        raise ArgumentValueError(f"`swizzle` must be 0, 32, 64 or 128 (got {swizzle!r}); pass the tensor map's")
    for name, given in (("leading", leading), ("stride", stride)):
        if type(given) is not int or given % 16 or not 0 <= given < 1 << 18:
            raise ArgumentValueError(f"`{name}` must be a multiple of 16 bytes below 256 KiB (got {given!r}); round it")
    return leading >> 4 << 16 | stride >> 4 << 32 | modes[swizzle] << 62
