"""Dot-product steps: groups of 4 bytes or 2 words, multiplied and added to 32-bit sums by one instruction.

The byte form (vpdpbusd) takes one unsigned and one signed operand. Signs that do not fit are shifted by 128, and the
sums corrected by 128 times B's column sums, which packing leaves behind each panel: exact for full-range operands,
modulo 2^32. The word form (vpdpwssd) wraps, so it is exact modulo 2^32 too.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD and VPDPWSSD.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.cpu.elements import Element
from tilewright.cpu.ir import Ir


@dataclass(frozen=True, slots=True)
class Dot:
    """How one pair of operand signs is multiplied.

    Attributes
    ----------
    group : int
        Elements along k that one step takes.
    flip : int
        What A's elements are xor-ed with while packing (128: signed to unsigned or back).
    a_first : bool
        Whether A is the instruction's first (unsigned) operand.
    correction : int
        Multiple of B's column sums that is added to the sums.
    """

    group: int
    flip: int
    a_first: bool
    correction: int


def dot_of(a: Element, b: Element) -> Dot:
    """The form for two operand dtypes of one width.

    Examples
    --------
    >>> from tilewright.cpu.elements import element
    >>> dot_of(element("int8"), element("int8")).correction
    -128
    """
    if a.bytes == 2:
        return Dot(2, 0, True, 0)
    if b.kind == "signed":
        return Dot(4, 128, True, -128) if a.kind == "signed" else Dot(4, 0, True, 0)
    return Dot(4, 0, False, 0) if a.kind == "signed" else Dot(4, 128, False, 128)


def emit_dot(ir: Ir, width: int, group: int, sums: str, first: str, second: str) -> str:
    """Sums + dot products of groups; all are vectors of 32-bit lanes."""
    sums_type, part = f"<{width} x i32>", f"<{width * group} x i{32 // group}>"
    name = "vpdpbusd" if group == 4 else "vpdpwssd"
    left = ir.op(f"bitcast {sums_type} {first} to {part}")
    right = ir.op(f"bitcast {sums_type} {second} to {part}")
    symbol = f"llvm.x86.avx512.{name}.{32 * width}"
    return ir.intrinsic(symbol, sums_type, f"{sums_type} {sums}", f"{part} {left}", f"{part} {right}")


def emit_pack_dot_a(ir: Ir, symbol: str, source: Element, dot: Dot, vector_bytes: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst, pitch)`: rows of A, flipped, zeros to whole groups."""
    size, type_ = source.bytes, source.memory
    lanes = vector_bytes // size
    ir.line(
        f"define internal void @{symbol}(ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst, i64 %pitch) "
        "#0 {"
    )
    ir.place("entry")
    along = ir.compare("eq", "%cs", str(size))
    whole = ir.op(f"select i1 {along}, i64 {ir.op(f'and i64 %columns, -{lanes}')}, i64 0")
    filled = ir.op(f"and i64 {ir.add('%columns', str(dot.group - 1))}, -{dot.group}")
    with ir.loop("0", "%rows") as row:
        src, dst = ir.at("%src", ir.mul(row, "%rs")), ir.at("%dst", ir.mul(row, "%pitch"))
        with ir.loop("0", whole, str(lanes)) as c:
            value = ir.load(f"<{lanes} x {type_}>", ir.at(src, ir.mul(c, str(size))))
            flipped = ir.op(f"xor <{lanes} x {type_}> {value}, splat ({type_} {_signed(dot.flip, size)})")
            ir.store(f"<{lanes} x {type_}>", flipped, ir.at(dst, ir.mul(c, str(size))))
        with ir.loop(whole, "%columns") as c:
            value = ir.load(type_, ir.at(src, ir.mul(c, "%cs")))
            flipped = ir.op(f"xor {type_} {value}, {_signed(dot.flip, size)}")
            ir.store(type_, flipped, ir.at(dst, ir.mul(c, str(size))))
        with ir.loop("%columns", filled) as c:
            ir.store(type_, "0", ir.at(dst, ir.mul(c, str(size))))
    ir.line("ret void")
    ir.line("}")


def _signed(value: int, size: int) -> int:
    """A bit pattern as the signed literal of its width."""
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def emit_pack_dot_b(ir: Ir, symbol: str, source: Element, dot: Dot, width: int, vectors: int) -> None:
    """`void symbol(src, rs, cs, rows, columns, dst)`: one panel, groups of rows interleaved, corrections behind it."""
    ir.line(f"define internal void @{symbol}(ptr %src, i64 %rs, i64 %cs, i64 %rows, i64 %columns, ptr %dst) #0 {{")
    ir.place("entry")
    pack = _PanelPacker(ir, source, dot, width, vectors)
    pack.declare()
    groups = ir.op(f"sdiv i64 {ir.add('%rows', str(dot.group - 1))}, {dot.group}")
    along = ir.compare("eq", "%cs", str(source.bytes))
    across = ir.op(f"and i1 {ir.compare('eq', '%rs', str(source.bytes))}, {ir.not_(along)}")
    whole = ir.op(f"sdiv i64 %rows, {dot.group}")
    fast = ir.op(f"select i1 {ir.op(f'or i1 {along}, {across}')}, i64 {whole}, i64 0")
    with ir.when(along):
        pack.interleave(fast)
    with ir.when(across):
        pack.copy_groups(fast)
    pack.one_by_one(fast, groups)
    if dot.correction:
        pack.corrections(groups)
    ir.line("ret void")
    ir.line("}")


@dataclass(frozen=True)
class _PanelPacker:
    """Ways of filling one panel of B: groups x nr words of 32 bits."""

    ir: Ir
    source: Element
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
        ir, type_, size = self.ir, self.source.memory, self.source.bytes
        lanes = self.width
        masks = [ir.lanes_below(lanes, ir.sub("%columns", str(j * lanes))) for j in range(self.vectors)]
        with ir.loop("0", groups) as g:
            row = ir.mul(g, str(self.dot.group))
            for j in range(self.vectors):
                parts = []
                for i in range(self.dot.group):
                    start = ir.at("%src", ir.mul(ir.add(row, str(i)), "%rs"))
                    value = ir.masked_load(type_, lanes, ir.at(start, str(j * lanes * size)), masks[j])
                    wide = ir.op(f"zext <{lanes} x {type_}> {value} to <{lanes} x i32>")
                    shift = f"splat (i32 {8 * size * i})"
                    parts.append(ir.op(f"shl <{lanes} x i32> {wide}, {shift}"))
                while len(parts) > 1:
                    parts = [ir.op(f"or <{lanes} x i32> {parts[i]}, {parts[i + 1]}") for i in range(0, len(parts), 2)]
                at = ir.add(ir.mul(g, str(4 * self.nr)), str(4 * j * lanes))
                ir.store(f"<{lanes} x i32>", parts[0], ir.at("%dst", at))

    def copy_groups(self, groups: str) -> None:
        """Contiguous columns: a group is one word already."""
        ir = self.ir
        with ir.loop("0", groups) as g:
            down = ir.mul(g, "4")
            line = ir.at("%dst", ir.mul(g, str(4 * self.nr)))
            with ir.loop("0", "%columns") as c:
                word = ir.load("i32", ir.at(ir.at("%src", ir.mul(c, "%cs")), down))
                ir.store("i32", word, ir.at(line, ir.mul(c, "4")))
            with ir.loop("%columns", str(self.nr)) as c:
                ir.store("i32", "0", ir.at(line, ir.mul(c, "4")))

    def one_by_one(self, start: str, groups: str) -> None:
        """Any strides, and the last group, which may be partial."""
        ir, size = self.ir, self.source.bytes
        with ir.loop(start, groups) as g:
            line = ir.at("%dst", ir.mul(g, str(4 * self.nr)))
            with ir.loop("0", str(self.nr)) as c:
                ir.store("i32", "0", ir.at(line, ir.mul(c, "4")))
            first = ir.mul(g, str(self.dot.group))
            last = ir.least("%rows", ir.add(first, str(self.dot.group)))
            with ir.loop(first, last) as row, ir.loop("0", "%columns") as c:
                value = ir.load(self.source.memory, ir.at(ir.at("%src", ir.mul(row, "%rs")), ir.mul(c, "%cs")))
                inside = ir.mul(ir.sub(row, first), str(size))
                ir.store(self.source.memory, value, ir.at(ir.at(line, ir.mul(c, "4")), inside))

    def corrections(self, groups: str) -> None:
        """128 times the column sums (with their sign) behind the panel."""
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
                pair = (ones, value) if self.source.kind == "signed" else (value, ones)
                new = emit_dot(ir, width, 4, old, *pair)
                ir.line(f"store {full} {new}, ptr %sum.{j}, align 64")
        behind = ir.at("%dst", ir.mul(groups, str(4 * self.nr)))
        for j in range(self.vectors):
            total = ir.op(f"load {full}, ptr %sum.{j}, align 64")
            scaled = ir.op(f"mul {full} {total}, splat (i32 {self.dot.correction})")
            ir.store(full, scaled, ir.at(behind, str(4 * j * width)))
