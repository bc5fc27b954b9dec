"""LLVM text with structured loops and branches, byte addresses, and vectors of any width."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.ground.native.text import Text, mangle

I64 = str  # an i64 operand: an SSA name or a literal


class Ir(Text):
    """One function's text under construction. Pointers advance in bytes; extents and strides are i64."""

    def __init__(self) -> None:
        super().__init__()
        self.block = "entry"

    op = Text.assign

    def place(self, label: str) -> None:
        """Start a basic block."""
        super().place(label)
        self.block = label

    @contextmanager
    def function(self, symbol: str, parameters: str, *, internal: bool = True) -> Iterator[None]:
        """Define `void symbol(parameters)`; the context emits its body."""
        self.line(f"define {'internal ' * internal}void @{symbol}({parameters}) #0 {{")
        self.place("entry")
        yield
        self.line("ret void")
        self.line("}")

    @contextmanager
    def loop(self, start: I64, end: I64, step: I64 = "1") -> Iterator[I64]:
        """For i from start below end."""
        self._count += 1
        n = self._count
        before = self.block
        self.branch(f"head{n}")
        self.place(f"head{n}")
        self.line(f"%i{n} = phi i64 [ {start}, %{before} ], [ %next{n}, %latch{n} ]")
        inside = self.op(f"icmp slt i64 %i{n}, {end}")
        self.line(f"br i1 {inside}, label %body{n}, label %done{n}")
        self.place(f"body{n}")
        yield f"%i{n}"
        self.branch(f"latch{n}")
        self.place(f"latch{n}")
        self.line(f"%next{n} = add i64 %i{n}, {step}")
        self.branch(f"head{n}")
        self.place(f"done{n}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run the body if an i1 is true."""
        self._count += 1
        n = self._count
        self.line(f"br i1 {condition}, label %then{n}, label %end{n}")
        self.place(f"then{n}")
        yield
        self.branch(f"end{n}")
        self.place(f"end{n}")

    def add(self, a: I64, b: I64) -> I64:
        """Sum."""
        return self.op(f"add i64 {a}, {b}")

    def sub(self, a: I64, b: I64) -> I64:
        """Difference."""
        return self.op(f"sub i64 {a}, {b}")

    def mul(self, a: I64, b: I64) -> I64:
        """Product."""
        return self.op(f"mul i64 {a}, {b}")

    def least(self, a: I64, b: I64) -> I64:
        """The smaller, as signed numbers."""
        return self.invoke("llvm.smin.i64", "i64", f"i64 {a}", f"i64 {b}")

    def compare(self, predicate: str, a: I64, b: I64) -> str:
        """An i1."""
        return self.op(f"icmp {predicate} i64 {a}, {b}")

    def not_(self, condition: str) -> str:
        """The opposite i1."""
        return self.op(f"xor i1 {condition}, true")

    def at(self, pointer: str, offset: I64) -> str:
        """A pointer advanced by bytes."""
        return self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, type_: str, pointer: str) -> str:
        """An unaligned load."""
        return self.op(f"load {type_}, ptr {pointer}, align 1")

    def store(self, type_: str, value: str, pointer: str) -> None:
        """An unaligned store."""
        self.line(f"store {type_} {value}, ptr {pointer}, align 1")

    def splat(self, type_: str, width: int, value: str) -> str:
        """A scalar in every lane."""
        one = self.op(f"insertelement <{width} x {type_}> poison, {type_} {value}, i64 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return self.op(f"shufflevector <{width} x {type_}> {one}, <{width} x {type_}> poison, {zeros}")

    def lanes_below(self, width: int, count: I64) -> str:
        """A mask of the lanes below a count, which may exceed the width or be negative."""
        numbers = ", ".join(f"i64 {lane}" for lane in range(width))
        bound = self.splat("i64", width, count)
        return self.op(f"icmp slt <{width} x i64> <{numbers}>, {bound}")

    def masked_load(self, type_: str, width: int, pointer: str, mask: str | None) -> str:
        """Load the lanes of a mask, zeros elsewhere; all lanes without a mask."""
        if mask is None:
            return self.load(f"<{width} x {type_}>" if width > 1 else type_, pointer)
        vector = f"<{width} x {type_}>"
        return self.invoke(
            f"llvm.masked.load.{mangle(type_, width)}.p0",
            vector,
            f"ptr align 1 {pointer}",
            f"<{width} x i1> {mask}",
            f"{vector} zeroinitializer",
        )

    def masked_store(self, type_: str, width: int, value: str, pointer: str, mask: str | None) -> None:
        """Store the lanes of a mask; all lanes without a mask."""
        if mask is None:
            self.store(f"<{width} x {type_}>" if width > 1 else type_, value, pointer)
            return
        self.invoke(
            f"llvm.masked.store.{mangle(type_, width)}.p0",
            "void",
            f"<{width} x {type_}> {value}",
            f"ptr align 1 {pointer}",
            f"<{width} x i1> {mask}",
        )
