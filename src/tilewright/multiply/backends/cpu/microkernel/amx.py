"""Matrix tiles of Intel AMX: 32 x 32 elements of C in four tile registers, advanced by 64 bytes of k a step.

A tile register holds 16 rows of 64 bytes. One instruction multiplies 16 rows of A, 64 bytes along k, by 16 groups of 4
bytes along k for 16 columns of B, and adds to 16 x 16 sums of 32 bits. Each pair of signed and unsigned bytes has its
own instruction; its sums wrap, so they are exact modulo 2^32. Pairs of bfloat16 are summed in float32, which leaves the
canonical order: see :func:`tilewright.multiply.problem.reference.error_bound`.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 (palette 1: 8 tiles of 16
rows of 64 bytes), and volume 2, LDTILECFG, TILELOADD, TDPBSSD, TDPBF16PS.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import Dtype

#: Rows of a tile register, and bytes of a row.
ROWS = 16
ROW_BYTES = 64
TILE_BYTES = ROWS * ROW_BYTES
#: Extent of C that four registers hold, each way.
SIDE = 2 * ROWS
#: Bytes of a step in a packed strip of 32 rows of A or columns of B.
STEP_BYTES = 2 * TILE_BYTES

_C = (0, 1, 2, 3)
_A = (4, 5)
_B = (6, 7)
#: The configuration that LDTILECFG reads: palette, start row, 14 bytes reserved, 16 row lengths, 16 row counts.
_CONFIGURATION = bytes([1, 0]) + bytes(14) + 8 * bytes([ROW_BYTES, 0]) + bytes(16) + bytes([ROWS]) * 8 + bytes(8)


def multiplier(a: Dtype, b: Dtype) -> str:
    """The instruction for two operand dtypes.

    >>> from tilewright.multiply.problem.dtypes import element
    >>> multiplier(element("int8"), element("uint8"))
    'tdpbsud'
    """
    return f"tdp{a.amx}ps" if a.is_float else f"tdpb{a.kind[0]}{b.kind[0]}d"


def configuration() -> str:
    """The constant `@tiles` for :func:`configure`."""
    text = "".join(f"\\{value:02x}" for value in _CONFIGURATION)
    return f'@tiles = internal constant [{len(_CONFIGURATION)} x i8] c"{text}", align 64'


def configure(ir: Ir) -> None:
    """Configure the tile registers of this thread."""
    ir.invoke("llvm.x86.ldtilecfg", "void", "ptr @tiles")


def release(ir: Ir) -> None:
    """Release the tile registers: a context switch then saves 8 KiB less."""
    ir.invoke("llvm.x86.tilerelease", "void")


@dataclass(frozen=True)
class AmxTile:
    """Emits 32 x 32 tiles of C."""

    ir: Ir
    dot: str  #: The instruction that multiplies.

    def emit(self, a: str, b: str, steps: str, start: tuple[str, str], end: tuple[str, str], first: str) -> None:
        """One tile.

        `a` and `b` point to packed strips, and `steps` are those along k. Sums of 32 bits are loaded from `start`, a
        pointer and a stride, unless `first` (i1), and stored to `end`.
        """
        ir = self.ir
        for c in _C:
            ir.invoke("llvm.x86.tilezero", "void", f"i8 {c}")
        with ir.when(ir.not_(first)):
            self._each_sum("llvm.x86.tileloadd64", *start)
        with ir.loop("0", steps) as s:
            at = ir.mul(s, str(STEP_BYTES))
            self._step(ir.at(a, at), ir.at(b, at))
        self._each_sum("llvm.x86.tilestored64", *end)

    def _step(self, a: str, b: str) -> None:
        """Four products; A's strip stays in L1 while B's stream through, so B's loads have the non-temporal hint."""
        ir = self.ir
        self._load("tileloadd64", _A[0], a)
        self._load("tileloadd64", _A[1], ir.at(a, str(TILE_BYTES)))
        for j, column in enumerate(_B):
            self._load("tileloaddt164", column, ir.at(b, str(j * TILE_BYTES)))
            for i, row in enumerate(_A):
                ir.invoke(f"llvm.x86.{self.dot}", "void", f"i8 {_C[2 * i + j]}", f"i8 {row}", f"i8 {column}")

    def _load(self, name: str, tile: int, pointer: str) -> None:
        self.ir.invoke(f"llvm.x86.{name}", "void", f"i8 {tile}", f"ptr {pointer}", f"i64 {ROW_BYTES}")

    def _each_sum(self, name: str, pointer: str, stride: str) -> None:
        ir = self.ir
        below = ir.at(pointer, ir.mul(stride, str(ROWS)))
        for c in _C:
            where = ir.at(below if c >= 2 else pointer, str(c % 2 * ROW_BYTES))
            ir.invoke(name, "void", f"i8 {c}", f"ptr {where}", f"i64 {stride}")
