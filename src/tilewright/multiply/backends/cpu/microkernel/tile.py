"""The register tile: mr rows by nr columns of C, advanced by kb steps.

Rows of A are broadcast from where they are (one pointer a row, contiguous along k); B comes packed. The edge form has
fewer rows and columns: surplus rows read the first row again, and are not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.multiply.backends.cpu.contexts import Tile
from tilewright.multiply.backends.cpu.elements import vector
from tilewright.multiply.backends.cpu.ir import Ir
from tilewright.multiply.backends.cpu.microkernel.families import Family

#: Steps of a round of the inner loop of whole tiles.
UNROLL = 4


@dataclass(frozen=True)
class TileCode:
    """Emits tiles of one kind."""

    ir: Ir
    tile: Tile
    family: Family
    type: str  #: Register type.
    bytes: int  #: Its size.
    corrected: bool = False  #: Whether the row of corrections after the panel is added to the sums.

    @property
    def vector(self) -> str:
        """A register's full type."""
        return vector(self.type, self.tile.width)

    def accumulators(self) -> None:
        """Declare the accumulators (in the entry block; mem2reg makes them registers)."""
        for name in self._names():
            self.ir.line(f"{name} = alloca {self.vector}, align 64")

    def emit(
        self, a: str, a_stride: str, b: str, steps: str, c: str, c_stride: str, first: str, edge: tuple[str, str] | None
    ) -> None:
        """One tile.

        `a`, `b` and `c` point to the first row of A, the packed panel of B and the tile of C; the strides are bytes
        between rows, `steps` those along k. `first` (i1) starts from the family's zero instead of C, and `edge` has
        rows and columns of an edge tile.
        """
        ir = self.ir
        rows_a = self._rows(a, a_stride, edge)
        rows_c = self._rows(c, c_stride, edge)
        masks = self._masks(edge) if edge else None
        self._start(rows_c, first, masks)
        if self.corrected:
            self._correct(ir.at(b, ir.mul(steps, str(self.tile.nr * self.bytes))))
        rounds = "0"
        if edge is None:
            rounds = ir.op(f"and i64 {steps}, -{UNROLL}")
            with ir.loop("0", rounds, str(UNROLL)) as p:
                for u in range(UNROLL):
                    self._step(rows_a, b, ir.add(p, str(u)))
        with ir.loop(rounds, steps) as p:
            self._step(rows_a, b, p)
        self._finish(rows_c, masks)

    def _names(self) -> list[str]:
        return [f"%acc.{i}.{j}" for i in range(self.tile.mr) for j in range(self.tile.vectors)]

    def _rows(self, start: str, stride: str, edge: tuple[str, str] | None) -> list[str]:
        ir = self.ir
        pointers = [start]
        for i in range(1, self.tile.mr):
            here = ir.at(start, ir.mul(stride, str(i)))
            if edge is not None:
                inside = ir.compare("slt", str(i), edge[0])
                here = ir.op(f"select i1 {inside}, ptr {here}, ptr {start}")
            pointers.append(here)
        return pointers

    def _masks(self, edge: tuple[str, str]) -> list[list[str]]:
        """For every row and vector of an edge tile, the lanes that exist."""
        ir, width = self.ir, self.tile.width
        across = [ir.lanes_below(width, ir.sub(edge[1], str(j * width))) for j in range(self.tile.vectors)]
        lanes = f"<{width} x i1>"
        found = []
        for i in range(self.tile.mr):
            inside = ir.compare("slt", str(i), edge[0])
            found.append([ir.op(f"select i1 {inside}, {lanes} {m}, {lanes} zeroinitializer") for m in across])
        return found

    def _each(self) -> list[tuple[int, int, str]]:
        names = iter(self._names())
        return [(i, j, next(names)) for i in range(self.tile.mr) for j in range(self.tile.vectors)]

    def _start(self, rows: list[str], first: str, masks: list[list[str]] | None) -> None:
        ir = self.ir
        for _, _, name in self._each():
            zero = f"splat ({self.type} {self.family.zero})"
            ir.line(f"store {self.vector} {zero}, ptr {name}, align 64")
        with ir.when(ir.not_(first)):
            for i, j, name in self._each():
                where = ir.at(rows[i], str(j * self.tile.width * self.bytes))
                value = ir.masked_load(self.type, self.tile.width, where, masks[i][j] if masks else None)
                ir.line(f"store {self.vector} {value}, ptr {name}, align 64")

    def _correct(self, behind: str) -> None:
        """Add the corrections stored after the panel to every row of the sums."""
        ir, width = self.ir, self.tile.width
        row = [ir.load(self.vector, ir.at(behind, str(j * width * self.bytes))) for j in range(self.tile.vectors)]
        for _, j, name in self._each():
            old = ir.op(f"load {self.vector}, ptr {name}, align 64")
            ir.line(f"store {self.vector} {ir.op(f'add {self.vector} {old}, {row[j]}')}, ptr {name}, align 64")

    def _step(self, rows: list[str], b: str, p: str) -> None:
        ir, tile = self.ir, self.tile
        panel = ir.at(b, ir.mul(p, str(tile.nr * self.bytes)))
        offset = ir.mul(p, str(self.bytes))
        columns = [ir.load(self.vector, ir.at(panel, str(j * tile.width * self.bytes))) for j in range(tile.vectors)]
        names = iter(self._names())
        for row in rows:
            value = ir.splat(self.type, tile.width, ir.load(self.type, ir.at(row, offset)))
            for column in columns:
                name = next(names)
                old = ir.op(f"load {self.vector}, ptr {name}, align 64")
                new = self.family.step(ir, self.type, tile.width, old, value, column)
                ir.line(f"store {self.vector} {new}, ptr {name}, align 64")

    def _finish(self, rows: list[str], masks: list[list[str]] | None) -> None:
        ir, width = self.ir, self.tile.width
        for i, j, name in self._each():
            value = ir.op(f"load {self.vector}, ptr {name}, align 64")
            where = ir.at(rows[i], str(j * width * self.bytes))
            ir.masked_store(self.type, width, value, where, masks[i][j] if masks else None)
