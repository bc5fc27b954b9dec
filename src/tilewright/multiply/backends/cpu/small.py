"""Small products: a kernel for exact extents and strides that runs over a whole batch, nothing packed.

A block of rows of C at a time is held in registers; B's rows are read in place, so they must be contiguous. Sums run
along k from zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends.cpu.contexts import REGISTER_BYTES, KernelKey
from tilewright.multiply.backends.cpu.elements import vector
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.kernels import SIGNATURE, Kernel, compiled
from tilewright.multiply.backends.cpu.loops import module
from tilewright.multiply.backends.cpu.microkernel.families import family_of

#: Largest extents: beyond, packing pays.
EXTENT_MAX = 64
#: Multiply-adds (of vectors) up to which the whole product is unrolled.
UNROLL_MAX = 400
_LINE_BYTES = 64
#: Accumulators of a block of rows, by vector bytes.
_ACCUMULATORS = {64: 24, 32: 12, 16: 12}
#: The record: 64-bit words in this order; a, b and out are offsets of the first matrix, the rest steps, in bytes.
ARGUMENTS = ("batch", "a_step", "b_step", "out_step", "a", "b", "out")


@dataclass(frozen=True, slots=True)
class SmallKey:
    """One small kernel: extents, and strides in bytes (rows of B and of C are contiguous)."""

    key: KernelKey  #: Dtypes, register type, family and vector width; the dtypes are the register type itself.
    m: int
    n: int
    k: int
    a_rs: int
    a_cs: int
    b_rs: int
    c_rs: int


@dataclass(frozen=True, slots=True)
class _Column:
    """A vector of a row: its first element, lanes, and how many of them exist."""

    first: int
    width: int
    count: int


def _columns(n: int, width: int) -> list[_Column]:
    """Cut a row into vectors; the last is the narrowest that holds the rest."""
    found = [_Column(j, width, width) for j in range(0, n - width + 1, width)]
    rest = n % width
    if rest:
        narrow = 1 << (rest - 1).bit_length()
        found.append(_Column(n - rest, narrow, rest))
    return found


def small_text(small: SmallKey) -> str:
    """The LLVM module that defines `void kernel` (see `loops.SIGNATURE`) for a small key."""
    ir = Ir()
    with ir.function("kernel", SIGNATURE, internal=False):
        for index, name in enumerate(ARGUMENTS):
            ir.line(f"%{name} = load i64, ptr {ir.at('%record', str(8 * index))}, align 8")
        code = _Small(ir, small)
        code.declare()
        with ir.loop("0", "%batch") as t:
            for x in ("a", "b", "out"):
                following = ir.add(f"%{x}", ir.mul(ir.add(t, "1"), f"%{x}_step"))
                ir.line(f"%{x}_next = getelementptr i8, ptr %{x}_base, i64 {following}")
            code.product(*(ir.at(f"%{x}_base", ir.add(f"%{x}", ir.mul(t, f"%{x}_step"))) for x in ("a", "b", "out")))
    return module(ir, small.key)


class _Small:
    """Emits one product."""

    def __init__(self, ir: Ir, small: SmallKey) -> None:
        self.ir = ir
        self.s = small
        self.type = small.key.register
        self.size = REGISTER_BYTES[self.type]
        self.family = family_of(small.key)
        self.columns = _columns(small.n, small.key.vector_bytes // self.size)
        self.budget = _ACCUMULATORS[small.key.vector_bytes]
        across = min(len(self.columns), 4)
        self.rows = max(1, min(small.m, self.budget // across))
        self.across = across
        cost = small.key.algebra.cost if small.key.algebra is not None else 1
        self.unrolled = small.m * len(self.columns) * small.k * cost <= UNROLL_MAX

    def declare(self) -> None:
        """Accumulators, where the steps are a loop."""
        if not self.unrolled:
            for i in range(self.rows):
                for j in range(self.across):
                    self.ir.line(f"%acc.{i}.{j} = alloca <64 x i8>, align 64")

    def product(self, a: str, b: str, c: str) -> None:
        """One matrix of the batch."""
        for j in range(0, len(self.columns), self.across):
            columns = self.columns[j : j + self.across]
            for i in range(0, self.s.m, self.rows):
                rows = range(i, min(i + self.rows, self.s.m))
                if self.unrolled:
                    self.written_out(a, b, c, rows, columns)
                else:
                    self.looped(a, b, c, rows, columns)

    def written_out(self, a: str, b: str, c: str, rows: range, columns: list[_Column]) -> None:
        """All steps unrolled."""
        sums = {(i, x): self.zero(x) for i in rows for x in columns}
        for p in range(self.s.k):
            values = [self.load(self.ir.at(b, str(p * self.s.b_rs + x.first * self.size)), x) for x in columns]
            for i in rows:
                scalar = self.ir.load(self.type, self.ir.at(a, str(i * self.s.a_rs + p * self.s.a_cs)))
                for x, value in zip(columns, values, strict=True):
                    sums[i, x] = self.step(sums[i, x], scalar, value, x)
        for (i, x), value in sums.items():
            self.store(value, self.ir.at(c, str(i * self.s.c_rs + x.first * self.size)), x)

    def looped(self, a: str, b: str, c: str, rows: range, columns: list[_Column]) -> None:
        """A loop along k, accumulators in registers."""
        ir = self.ir
        slots = {(i, x): f"%acc.{i - rows[0]}.{j}" for i in rows for j, x in enumerate(columns)}
        for (_, x), slot in slots.items():
            ir.line(f"store {vector(self.type, x.width)} {self.zero(x)}, ptr {slot}, align 64")
        with ir.loop("0", str(self.s.k)) as p:
            line = ir.at(b, ir.mul(p, str(self.s.b_rs)))
            along = ir.at(a, ir.mul(p, str(self.s.a_cs)))
            values = [self.load(ir.at(line, str(x.first * self.size)), x) for x in columns]
            self.fetch(p, rows, columns)
            for i in rows:
                scalar = ir.load(self.type, ir.at(along, str(i * self.s.a_rs)))
                for x, value in zip(columns, values, strict=True):
                    slot, full = slots[i, x], vector(self.type, x.width)
                    old = ir.op(f"load {full}, ptr {slot}, align 64")
                    ir.line(f"store {full} {self.step(old, scalar, value, x)}, ptr {slot}, align 64")
        for (i, x), slot in slots.items():
            value = ir.op(f"load {vector(self.type, x.width)}, ptr {slot}, align 64")
            self.store(value, ir.at(c, str(i * self.s.c_rs + x.first * self.size)), x)

    def fetch(self, p: str, rows: range, columns: list[_Column]) -> None:
        """Prefetch a share of the next matrices: they start on other pages, where no hardware prefetcher follows.

        Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching": streams end with
        their page.
        """
        blocks = -(-self.s.m // self.rows) * -(-len(self.columns) // self.across)
        block = rows[0] // self.rows + columns[0].first // self.columns[0].width // self.across * -(
            -self.s.m // self.rows
        )
        sizes = {"a": self.s.m * self.s.k, "b": self.s.k * self.s.n, "out": self.s.m * self.s.n}
        for name, count in sizes.items():
            lines = -(-count * self.size // _LINE_BYTES)
            each = -(-lines // (blocks * self.s.k))
            step = self.ir.add(p, str(block * self.s.k))
            start = self.ir.at(f"%{name}_next", self.ir.mul(step, str(each * _LINE_BYTES)))
            for line in range(each):
                where = self.ir.at(start, str(line * _LINE_BYTES))
                write = int(name == "out")
                self.ir.invoke("llvm.prefetch.p0", "void", f"ptr {where}", f"i32 {write}", "i32 3", "i32 1")

    def zero(self, x: _Column) -> str:
        """The start of a sum."""
        return self.family.zero if x.width == 1 else f"splat ({self.type} {self.family.zero})"

    def step(self, old: str, scalar: str, value: str, x: _Column) -> str:
        """One multiply-add of a vector."""
        spread = scalar if x.width == 1 else self.ir.splat(self.type, x.width, scalar)
        return self.family.step(self.ir, self.type, x.width, old, spread, value)

    def load(self, where: str, x: _Column) -> str:
        """Part of a row of B."""
        return self.ir.masked_load(self.type, x.width, where, _mask(x))

    def store(self, value: str, where: str, x: _Column) -> None:
        """Part of a row of C."""
        self.ir.masked_store(self.type, x.width, value, where, _mask(x))


def _mask(x: _Column) -> str | None:
    """The lanes that exist; None for all."""
    if x.count == x.width:
        return None
    return f"<{', '.join('i1 true' if lane < x.count else 'i1 false' for lane in range(x.width))}>"


@bounded(512)
def small_kernel(small: SmallKey) -> Kernel:
    """The kernel of a small key: from disk, or compiled now."""
    return Kernel(compiled(repr(small), lambda: small_text(small)))
