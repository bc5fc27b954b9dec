"""The part of a warp's record that keeps registers while the warp waits: those that are live where it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.simt.translate.code import LANES, Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.layout import align_up


class Frame:
    """Places of registers in the record, and the code that moves them there and back.

    Parameters
    ----------
    emitter : Emitter
    names : sequence of str
        Registers that have a place.
    start : int
        Byte offset of the first.

    Attributes
    ----------
    at : dict of str to int
        Byte offsets.
    end : int
        Bytes of the record up to here, a multiple of 64.
    held : set of str
        Registers that live in their places all the time, and need not be moved.
    """

    def __init__(self, emitter: Emitter, names: Sequence[str], start: int) -> None:
        self.e = emitter
        self.at: dict[str, int] = {}
        for name in names:
            _, type_, lanes = emitter.registers[name]
            self.at[name] = align_up(start, 64 if lanes > 1 else 8)
            start = self.at[name] + max(1, Value("", type_).bits // 8) * lanes
        self.end = align_up(start, 64)
        self.held: set[str] = set()

    def hold(self) -> None:
        """Let vectors live in their places all the time; predicates do not, which are kept in another form."""
        registers = self.e.registers
        self.held = {name for name in self.at if registers[name][2] == LANES and registers[name][1] != "i1"}

    def declare(self) -> None:
        """Name the places of the registers that live there."""
        for name in sorted(self.held):
            self.e.code.line(f"{self.e.registers[name][0]} = getelementptr i8, ptr %warp, i64 {self.at[name]}")

    def clear(self) -> None:
        """Zeros in them, for a fresh warp."""
        for name in sorted(self.held):
            slot, type_, lanes = self.e.registers[name]
            self.e.code.line(f"store <{lanes} x {type_}> zeroinitializer, ptr {slot}, align 64")

    def save(self, names: Iterable[str]) -> None:
        """Keep registers' values; those that have no place are dead wherever the warp goes on."""
        for name in sorted(names):
            if name in self.at and name not in self.held:
                self._store(name, self.e.load_register(name))

    def _store(self, name: str, value: Value) -> None:
        code = self.e.code
        pointer = code.op(f"getelementptr i8, ptr %warp, i64 {self.at[name]}", "ptr")
        if value.type == "i1":  # i1 vectors are kept as their 32 bits
            value = (
                code.op(f"bitcast {value} to i32", "i32") if value.lanes == LANES else code.cast("zext", value, "i8")
            )
        code.line(f"store {value}, ptr {pointer.text}, align 4")

    def restore(self, names: Iterable[str]) -> None:
        """Put them back."""
        code = self.e.code
        for name in sorted(names):
            if name not in self.at or name in self.held:
                continue
            slot, type_, lanes = self.e.registers[name]
            full = type_ if lanes == 1 else f"<{lanes} x {type_}>"
            pointer = code.op(f"getelementptr i8, ptr %warp, i64 {self.at[name]}", "ptr")
            if type_ == "i1":
                kept = "i32" if lanes == LANES else "i8"
                raw = code.op(f"load {kept}, ptr {pointer.text}, align 4", kept)
                op = "bitcast" if lanes == LANES else "trunc"
                value = code.op(f"{op} {raw} to {full}", type_, lanes)
            else:
                value = code.op(f"load {full}, ptr {pointer.text}, align 4", type_, lanes)
            code.line(f"store {value}, ptr {slot}, align 64")
