"""Dot-product steps: groups of 4 bytes or 2 words, multiplied and added to 32-bit sums by an instruction or two.

The byte form (vpdpbusd) takes one unsigned and one signed operand. Operands of the wrong signedness are shifted by 128,
and the sums corrected by 128 times B's column sums, which packing stores after each panel: exact for full-range
operands, modulo 2^32. The word forms (vpdpwssd; pmaddwd and an addition where there is none) wrap, so they are exact
modulo 2^32 too: of two words' products only 2 x 32768^2 does not fit, and it wraps. Bytes become words where there is
no byte form.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD, VPDPWSSD and PMADDWD.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.multiply.backends.cpu.contexts import KernelKey
from tilewright.multiply.backends.cpu.elements import widen
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import Dtype, element

#: Least vector bytes for masked loads of bytes and words (AVX-512BW); LLVM splits narrower ones into scalars.
_MASKED_BYTES = 64
#: LLVM's names by family, bytes of an element and bytes of a vector. Those of `dot` accumulate.
_INSTRUCTIONS = {
    ("dot", 1): {64: "avx512.vpdpbusd.512", 32: "avx512.vpdpbusd.256"},
    ("dot", 2): {64: "avx512.vpdpwssd.512", 32: "avx512.vpdpwssd.256"},
    ("pairs", 2): {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"},
}


@dataclass(frozen=True, slots=True)
class Dot:
    """The dot-product form for one pair of operand dtypes."""

    family: str  #: `dot` or `pairs` (see :class:`~tilewright.multiply.backends.cpu.contexts.KernelKey`).
    bytes: int  #: Of an element as it is packed.
    flip: int = 0  #: The value that packing xors A's elements with (128: signed to unsigned or back).
    a_first: bool = True  #: Whether A is the instruction's first (unsigned) operand.
    correction: int = 0  #: The factor of B's column sums that are added to the sums.

    @property
    def group(self) -> int:
        """Elements along k that one step takes."""
        return 4 // self.bytes

    @property
    def type(self) -> str:
        """LLVM's type of an element as it is packed."""
        return f"i{8 * self.bytes}"


def dot_of(key: KernelKey) -> Dot | None:
    """The form for a key's operand dtypes; None for other families.

    >>> dot_of(KernelKey("int8", "int8", "int32", "i32", "dot", 64)).correction
    -128
    >>> dot_of(KernelKey("int8", "int8", "int32", "i32", "pairs", 32)).bytes
    2
    """
    if key.family not in ("dot", "pairs"):
        return None
    a, b = element(key.a), element(key.b)
    if key.family == "pairs" or max(a.bytes, b.bytes) == 2:
        return Dot(key.family, 2)
    if b.kind == "signed":
        return Dot("dot", 1, 128, True, -128) if a.kind == "signed" else Dot("dot", 1)
    return Dot("dot", 1, a_first=False) if a.kind == "signed" else Dot("dot", 1, 128, False, 128)


def emit_dot(ir: Ir, width: int, dot: Dot, sums: str, a: str, b: str) -> str:
    """Sums + dot products of groups; all are vectors of 32-bit lanes."""
    sums_type, part = f"<{width} x i32>", f"<{width * dot.group} x {dot.type}>"
    symbol = f"llvm.x86.{_INSTRUCTIONS[dot.family, dot.bytes][4 * width]}"
    first, second = (a, b) if dot.a_first else (b, a)
    left = ir.op(f"bitcast {sums_type} {first} to {part}")
    right = ir.op(f"bitcast {sums_type} {second} to {part}")
    if dot.family == "dot":
        return ir.invoke(symbol, sums_type, f"{sums_type} {sums}", f"{part} {left}", f"{part} {right}")
    products = ir.invoke(symbol, sums_type, f"{part} {left}", f"{part} {right}")
    return ir.op(f"add {sums_type} {sums}, {products}")


def emit_pack_dot_a(ir: Ir, symbol: str, source: Dtype, dot: Dot, vector_bytes: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst, pitch)`: rows of A, flipped, zeros to whole groups."""
    lanes = vector_bytes // dot.bytes
    with ir.function(symbol, "ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst, i64 %pitch"):
        along = ir.compare("eq", "%cs", str(source.bytes))
        whole = ir.op(f"select i1 {along}, i64 {ir.op(f'and i64 %columns, -{lanes}')}, i64 0")
        filled = ir.op(f"and i64 {ir.add('%columns', str(dot.group - 1))}, -{dot.group}")
        with ir.loop("0", "%rows") as row:
            src, dst = ir.at("%src", ir.mul(row, "%rs")), ir.at("%dst", ir.mul(row, "%pitch"))
            with ir.loop("0", whole, str(lanes)) as c:
                value = ir.load(f"<{lanes} x {source.memory}>", ir.at(src, ir.mul(c, str(source.bytes))))
                wide = widen(ir, source, value, dot.type, lanes)
                flipped = ir.op(f"xor <{lanes} x {dot.type}> {wide}, splat ({dot.type} {_signed(dot.flip, dot.bytes)})")
                ir.store(f"<{lanes} x {dot.type}>", flipped, ir.at(dst, ir.mul(c, str(dot.bytes))))
            with ir.loop(whole, "%columns") as c:
                value = ir.load(source.memory, ir.at(src, ir.mul(c, "%cs")))
                flipped = ir.op(
                    f"xor {dot.type} {widen(ir, source, value, dot.type, 1)}, {_signed(dot.flip, dot.bytes)}"
                )
                ir.store(dot.type, flipped, ir.at(dst, ir.mul(c, str(dot.bytes))))
            with ir.loop("%columns", filled) as c:
                ir.store(dot.type, "0", ir.at(dst, ir.mul(c, str(dot.bytes))))


def _signed(value: int, size: int) -> int:
    """A bit pattern as the signed literal of its width."""
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def emit_pack_dot_b(ir: Ir, symbol: str, source: Dtype, dot: Dot, width: int, vectors: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst)`: one panel, groups of rows interleaved, then corrections."""
    with ir.function(symbol, "ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst"):
        pack = _PanelPacker(ir, source, dot, width, vectors)
        pack.declare()
        groups = ir.op(f"sdiv i64 {ir.add('%rows', str(dot.group - 1))}, {dot.group}")
        along = ir.compare("eq", "%cs", str(source.bytes))
        across = ir.op(f"and i1 {ir.compare('eq', '%rs', str(source.bytes))}, {ir.not_(along)}")
        if 4 * width < _MASKED_BYTES:  # a panel at the edge is packed one by one
            along = ir.op(f"and i1 {along}, {ir.compare('sge', '%columns', str(pack.nr))}")
        whole = ir.op(f"sdiv i64 %rows, {dot.group}")
        fast = ir.op(f"select i1 {ir.op(f'or i1 {along}, {across}')}, i64 {whole}, i64 0")
        with ir.when(along):
            pack.interleave(fast)
        with ir.when(across):
            pack.copy_groups(fast)
        pack.one_by_one(fast, groups)
        if dot.correction:
            pack.corrections(groups)


@dataclass(frozen=True)
class _PanelPacker:
    """Emits the ways to fill one panel of B: groups x nr words of 32 bits."""

    ir: Ir
    source: Dtype
    dot: Dot
    width: int
    vectors: int

    @property
    def nr(self) -> int:
        return self.width * self.vectors

    def declare(self) -> None:
        for j in range(self.vectors):
            self.ir.line(f"%sum.{j} = alloca <{self.width} x i32>, align 64")

    def interleave(self, groups: str) -> None:
        """Contiguous rows: load a group of rows, interleave their elements."""
        ir, lanes = self.ir, self.width
        masks: list[str | None] = [None] * self.vectors
        if 4 * lanes >= _MASKED_BYTES:
            masks = [ir.lanes_below(lanes, ir.sub("%columns", str(j * lanes))) for j in range(self.vectors)]
        with ir.loop("0", groups) as g:
            row = ir.mul(g, str(self.dot.group))
            for j, mask in enumerate(masks):
                parts = []
                for i in range(self.dot.group):
                    start = ir.at("%src", ir.mul(ir.add(row, str(i)), "%rs"))
                    parts.append(self._lanes(ir.at(start, str(j * lanes * self.source.bytes)), mask, i))
                while len(parts) > 1:
                    parts = [ir.op(f"or <{lanes} x i32> {parts[i]}, {parts[i + 1]}") for i in range(0, len(parts), 2)]
                at = ir.add(ir.mul(g, str(4 * self.nr)), str(4 * j * lanes))
                ir.store(f"<{lanes} x i32>", parts[0], ir.at("%dst", at))

    def _lanes(self, where: str, mask: str | None, place: int) -> str:
        """A vector of a row, each element at its place within a group's word."""
        ir, lanes, memory = self.ir, self.width, self.source.memory
        packed = widen(ir, self.source, ir.masked_load(memory, lanes, where, mask), self.dot.type, lanes)
        wide = ir.op(f"zext <{lanes} x {self.dot.type}> {packed} to <{lanes} x i32>")
        return ir.op(f"shl <{lanes} x i32> {wide}, splat (i32 {8 * self.dot.bytes * place})")

    def copy_groups(self, groups: str) -> None:
        """Contiguous columns: a group is one word when its elements have the packed size."""
        ir, group = self.ir, self.dot.group
        with ir.loop("0", groups) as g:
            down = ir.mul(g, str(group * self.source.bytes))
            line = ir.at("%dst", ir.mul(g, str(4 * self.nr)))
            with ir.loop("0", "%columns") as c:
                value = ir.load(f"<{group} x {self.source.memory}>", ir.at(ir.at("%src", ir.mul(c, "%cs")), down))
                packed = widen(ir, self.source, value, self.dot.type, group)
                ir.store(f"<{group} x {self.dot.type}>", packed, ir.at(line, ir.mul(c, "4")))
            with ir.loop("%columns", str(self.nr)) as c:
                ir.store("i32", "0", ir.at(line, ir.mul(c, "4")))

    def one_by_one(self, start: str, groups: str) -> None:
        """Any strides, and the last group, which may be partial."""
        ir, size = self.ir, self.dot.bytes
        with ir.loop(start, groups) as g:
            line = ir.at("%dst", ir.mul(g, str(4 * self.nr)))
            with ir.loop("0", str(self.nr)) as c:
                ir.store("i32", "0", ir.at(line, ir.mul(c, "4")))
            first = ir.mul(g, str(self.dot.group))
            last = ir.least("%rows", ir.add(first, str(self.dot.group)))
            with ir.loop(first, last) as row, ir.loop("0", "%columns") as c:
                value = ir.load(self.source.memory, ir.at(ir.at("%src", ir.mul(row, "%rs")), ir.mul(c, "%cs")))
                inside = ir.mul(ir.sub(row, first), str(size))
                packed = widen(ir, self.source, value, self.dot.type, 1)
                ir.store(self.dot.type, packed, ir.at(ir.at(line, ir.mul(c, "4")), inside))

    def corrections(self, groups: str) -> None:
        """Store 128 times the column sums (with their sign) after the panel."""
        ir, width = self.ir, self.width
        full = f"<{width} x i32>"
        for j in range(self.vectors):
            ir.line(f"store {full} zeroinitializer, ptr %sum.{j}, align 64")
        ones = f"splat (i32 {0x01010101})"
        with ir.loop("0", groups) as g:
            line = ir.at("%dst", ir.mul(g, str(4 * self.nr)))
            for j in range(self.vectors):
                value = ir.load(full, ir.at(line, str(4 * j * width)))
                old = ir.op(f"load {full}, ptr %sum.{j}, align 64")
                # The unsigned operand comes first, whichever matrix it is.
                pair = (ones, value) if self.source.kind == "signed" else (value, ones)
                new = emit_dot(ir, width, Dot("dot", 1), old, *pair)
                ir.line(f"store {full} {new}, ptr %sum.{j}, align 64")
        behind = ir.at("%dst", ir.mul(groups, str(4 * self.nr)))
        for j in range(self.vectors):
            total = ir.op(f"load {full}, ptr %sum.{j}, align 64")
            scaled = ir.op(f"mul {full} {total}, splat (i32 {self.dot.correction})")
            ir.store(full, scaled, ir.at(behind, str(4 * j * width)))
