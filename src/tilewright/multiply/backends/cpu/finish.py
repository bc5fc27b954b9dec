"""The finish of a fused product: an expression of the sums and further operands, applied to rows just summed.

It runs over a tile's rows after their last step along k, while they are still in the cache, so C needs no second pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilewright.multiply.backends.cpu.elements import spread, vector
from tilewright.multiply.backends.cpu.elementwise import emit_cast, emit_expression, register
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Expression

#: How an operand's elements follow each other along a row of C: contiguous, one for the whole row, or any stride.
Pattern = Literal["row", "column", "strided"]
#: Words of an operand in a kernel's record.
OPERAND_WORDS = ("step", "first", "rs", "cs")


@dataclass(frozen=True, slots=True)
class Finish:
    """The part of a kernel's key that describes its finish."""

    #: An expression of the sum, in the accumulator's dtype, and the operands; its result has C's dtype.
    expression: Expression
    patterns: tuple[Pattern, ...]  #: One for each operand.

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands' dtypes in memory."""
        return tuple(name for _, name in self.expression.parameters[1:])


def pattern(name: str, stride: int, columns: int) -> Pattern:
    """The pattern of a dtype's elements a stride apart.

    >>> pattern("float32", 4, 64), pattern("float32", 0, 64), pattern("float32", -4, 64)
    ('row', 'column', 'strided')
    """
    if stride == 0 or columns == 1:
        return "column"
    return "row" if stride == element(name).bytes else "strided"


def emit_finish(ir: Ir, symbol: str, finish: Finish, source: str, size: int, width: int) -> None:
    """`void symbol(sums, pitch, rows, columns, out, rs, cs, then pointer, rs, cs of each operand)`; strides in bytes.

    `source` is the LLVM type of the sums, `size` its bytes, `width` the lanes of a vector.
    """
    more = "".join(f", ptr %x{i}, i64 %x{i}_rs, i64 %x{i}_cs" for i in range(len(finish.operands)))
    with ir.function(symbol, f"ptr %sums, i64 %pitch, i64 %rows, i64 %columns, ptr %out, i64 %rs, i64 %cs{more}"):
        ir.line("%lanes = alloca <64 x i64>, align 64")
        code = _Rows(ir, finish, source, size, width)
        with ir.loop("0", "%rows") as row:
            code.row(row)


class _Rows:
    """Emits one row."""

    def __init__(self, ir: Ir, finish: Finish, source: str, size: int, width: int) -> None:
        self.ir = ir
        self.finish = finish
        self.source, self.size, self.width = source, size, width
        self.out = element(finish.expression.dtype)

    def row(self, row: str) -> None:
        ir, width = self.ir, self.width
        sums, out = ir.at("%sums", ir.mul(row, "%pitch")), ir.at("%out", ir.mul(row, "%rs"))
        lines = [ir.at(f"%x{i}", ir.mul(row, f"%x{i}_rs")) for i in range(len(self.finish.operands))]
        fixed = [self.fixed(i, line) for i, line in enumerate(lines)]
        contiguous = ir.compare("eq", "%cs", str(self.out.bytes))
        with ir.loop("0", "%columns", str(width)) as c:
            count = ir.least(ir.sub("%columns", c), str(width))
            mask = ir.lanes_below(width, count)
            total = ir.masked_load(self.source, width, ir.at(sums, ir.mul(c, str(self.size))), mask)
            values = [self.total(total)]
            for i, line in enumerate(lines):
                values.append(fixed[i] or self.operand(i, line, c, count, mask))
            result = emit_expression(ir, self.finish.expression, values, width)
            if self.out.kind == "bool":
                result = ir.op(f"zext {vector('i1', width)} {result} to {vector('i8', width)}")
            with ir.when(contiguous):
                where = ir.at(out, ir.mul(c, str(self.out.bytes)))
                ir.masked_store(self.out.memory, width, result, where, mask)
            with ir.when(ir.not_(contiguous)):
                self.scatter(result, ir.at(out, ir.mul(c, "%cs")), count)

    def total(self, value: str) -> str:
        """The sums in the accumulator's dtype, which may be narrower than their register."""
        name = self.finish.expression.parameters[0][1]
        wide = {"float": "float32", "double": "float64"}.get(self.source, f"int{8 * self.size}")
        same = register(name) == self.source
        return value if same else emit_cast(self.ir, value, wide, name, self.width)

    def fixed(self, i: int, line: str) -> str:
        """An operand with one value for the whole row, in every lane."""
        if self.finish.patterns[i] != "column":
            return ""
        name, memory = self.finish.operands[i], element(self.finish.operands[i]).memory
        return self.loaded(name, self.ir.splat(memory, self.width, self.ir.load(memory, line)))

    def operand(self, i: int, line: str, c: str, count: str, mask: str) -> str:
        """An operand's next elements: a vector from memory, or lane by lane through the stack."""
        ir, name = self.ir, self.finish.operands[i]
        kind = element(name)
        if self.finish.patterns[i] == "row":
            where = ir.at(line, ir.mul(c, str(kind.bytes)))
            return self.loaded(name, ir.masked_load(kind.memory, self.width, where, mask))
        start = ir.at(line, ir.mul(c, f"%x{i}_cs"))
        full = vector(kind.memory, self.width)
        ir.store(full, "zeroinitializer", "%lanes")
        with ir.loop("0", count) as lane:
            value = ir.load(kind.memory, ir.at(start, ir.mul(lane, f"%x{i}_cs")))
            ir.store(kind.memory, value, ir.at("%lanes", ir.mul(lane, str(kind.bytes))))
        return self.loaded(name, ir.load(full, "%lanes"))

    def loaded(self, name: str, value: str) -> str:
        """A loaded value; booleans become bits."""
        if name != "bool":
            return value
        return self.ir.op(f"icmp ne {vector('i8', self.width)} {value}, {spread('i8', 0, self.width)}")

    def scatter(self, result: str, start: str, count: str) -> None:
        """Elements of C a stride apart."""
        ir, kind = self.ir, self.out
        ir.store(vector(kind.memory, self.width), result, "%lanes")
        with ir.loop("0", count) as lane:
            value = ir.load(kind.memory, ir.at("%lanes", ir.mul(lane, str(kind.bytes))))
            ir.store(kind.memory, value, ir.at(start, ir.mul(lane, "%cs")))
