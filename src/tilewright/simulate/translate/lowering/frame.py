"""The part of a warp's record that keeps registers while the warp waits or runs another piece of its kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.translate.analysis.layout import align_up
from tilewright.simulate.translate.analysis.pieces import Piece
from tilewright.simulate.translate.lowering.emitter import STRIDE, Emitter

#: Number of register moves after which a new host block starts.
_BLOCK_MOVES = 16


class Frame:
    """Places of registers in the record from a byte offset on, and the code that saves and restores them."""

    def __init__(self, emitter: Emitter, names: Sequence[str], start: int) -> None:
        self.e = emitter
        self.at: dict[str, int] = {}  #: Byte offsets.
        for name in [n for each in names for n in (each, each + STRIDE) if n in emitter.registers]:
            _, type_, lanes = emitter.registers[name]
            self.at[name] = align_up(start, 64 if lanes > 1 else 8)
            start = self.at[name] + max(1, Value("", type_).bits // 8) * lanes
        self.end = align_up(start, 64)  #: Byte offset of the frame's end, a multiple of 64.
        #: Registers that stay in their places while the current piece runs, and need not be moved.
        self.held: frozenset[str] = frozenset()
        self.piece: Piece | None = None

    def begin(self, piece: Piece | None, *, hold: bool) -> None:
        """Save and restore for one piece from now on; None: nothing is moved.

        With `hold`, vectors stay in their places; predicates do not, because they are saved in another form.
        """
        self.piece = piece
        self.held = frozenset()
        if piece is not None and hold:
            registers = self.e.registers
            vectors = [name for name in self.at if registers[name][2] == LANES and registers[name][1] != "i1"]
            self.held = piece.touched.intersection(vectors)

    def declare(self) -> None:
        """Define pointers to the registers that stay in their places."""
        for name in sorted(self.held):
            self.e.code.line(f"{self.e.registers[name][0]} = getelementptr i8, ptr %warp, i64 {self.at[name]}")

    def clear(self, names: Iterable[str]) -> None:
        """Store zeros in the places of registers that a fresh warp may read before writing."""
        for name in self._kept(names):
            _, type_, lanes = self.e.registers[name]
            pointer = self.e.code.op(f"getelementptr i8, ptr %warp, i64 {self.at[name]}", "ptr")
            kind = type_ if type_ != "i1" else "i32" if lanes == LANES else "i8"
            full = f"<{lanes} x {kind}>" if lanes == LANES and type_ != "i1" else kind
            self.e.code.line(f"store {full} zeroinitializer, ptr {pointer.text}, align 4")

    def save(self, names: Iterable[str]) -> None:
        """Save registers; those without a place are dead wherever the warp resumes.

        Registers that the current piece does not write are already in their places.
        """
        written = self.piece.written if self.piece is not None else frozenset()
        moved = [name for name in self._kept(written.intersection(names)) if name not in self.held]
        for number, name in enumerate(moved):
            self._part(number)
            self._store(name, self.e.load_register(name))

    def _kept(self, names: Iterable[str]) -> list[str]:
        """The registers that have a place, with their strides."""
        return sorted({n for name in names for n in (name, name + STRIDE) if n in self.at})

    def _store(self, name: str, value: Value) -> None:
        code = self.e.code
        pointer = code.op(f"getelementptr i8, ptr %warp, i64 {self.at[name]}", "ptr")
        if value.type == "i1":  # an i1 vector is saved as 32 bits
            value = (
                code.op(f"bitcast {value} to i32", "i32") if value.lanes == LANES else code.cast("zext", value, "i8")
            )
        code.line(f"store {value}, ptr {pointer.text}, align 4")

    def _part(self, number: int) -> None:
        """Start a new host block after a number of moves, in a long kernel."""
        if self.e.is_cut and number and number % _BLOCK_MOVES == 0:
            on = self.e.code.label("part")
            self.e.jump_apart(on)
            self.e.code.place(on)

    def restore(self, names: Iterable[str]) -> None:
        """Restore the registers that the current piece reads or writes."""
        code = self.e.code
        touched = self.piece.touched if self.piece is not None else frozenset()
        moved = [name for name in self._kept(touched.intersection(names)) if name not in self.held]
        for number, name in enumerate(moved):
            self._part(number)
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
