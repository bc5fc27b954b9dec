"""Data flow of a kernel's PTX: which instructions compute a value, and from what.

The analysis uses the flow graph that the machine runs, with device functions inlined. It ignores the order of
instructions: a register means every value that is ever written to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.observe.instruments.findings import Finding, split
from tilewright.simulate.isa import Linear
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.frames import frames, users_line
from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.translate.analysis import graph, inline
from tilewright.simulate.translate.analysis.graph import Op

#: Instructions that add their last operand to the result of the others.
SUMS = (Linear.ADD, Linear.MAD, Linear.MAD_WIDE)


@dataclass(frozen=True)
class Values:
    """The instructions of a kernel, and the registers that each writes and reads."""

    module: tree.Module = field(repr=False)
    graph: graph.Graph = field(repr=False)
    #: Every reachable instruction, in the graph's order; the end of a block is one too.
    ops: tuple[Op, ...] = field(repr=False)

    @functools.cached_property
    def writers(self) -> dict[str, list[Op]]:
        """For each register, the instructions that write it; a register that nothing writes is missing."""
        return self._by_register(lambda op: op.writes)

    @functools.cached_property
    def readers(self) -> dict[str, list[Op]]:
        """For each register, the instructions that read it; a register that nothing reads is missing."""
        return self._by_register(lambda op: op.reads)

    def _by_register(self, registers: Callable[[Op], Iterable[str]]) -> dict[str, list[Op]]:
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for register in registers(op):
                found.setdefault(register, []).append(op)
        return found

    @functools.cached_property
    def at_sites(self) -> dict[tuple[int, str], Op]:
        """The instructions by PTX line and name, which identify an instrument's site."""
        return {(op.instruction.ptx_line, op.instruction.name): op for op in self.ops}

    @functools.cached_property
    def _by_line(self) -> dict[int, list[Op]]:
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            found.setdefault(op.instruction.ptx_line, []).append(op)
        return found

    def at(self, ptx_line: int) -> list[Op]:
        """The instructions of a PTX line: one for each place that its function is inlined at."""
        return self._by_line.get(ptx_line, [])

    def origins(self, registers: Iterable[str], through: Callable[[Op], bool] = lambda op: True) -> Iterator[Op]:
        """Every instruction whose result can reach one of the registers.

        The search stops at instructions that `through` rejects. Memory is not followed: a value comes from its load.
        """
        seen: set[int] = set()
        waiting = list(dict.fromkeys(registers))
        looked_at = set(waiting)  # each register once: many instructions may read or write it
        while waiting:
            for op in self.writers.get(waiting.pop(), ()):
                if id(op) not in seen:
                    seen.add(id(op))
                    yield op
                    if not op.form.row.loads and through(op):
                        waiting += [register for register in op.reads if register not in looked_at]
                        looked_at.update(op.reads)

    def after(self, op: Op, stops: Callable[[Op], bool] = lambda op: False) -> Iterator[Op]:
        """Every instruction that may follow one, up to those for which `stops` is true; in a loop, also itself."""
        blocks = self.graph.blocks
        number = next(b.index for b in blocks if any(one is op for one in b.ops) or b.end is op)
        own = [one for one in (*blocks[number].ops, blocks[number].end) if one is not None]
        start = next(i for i, one in enumerate(own) if one is op) + 1
        waiting, seen = [(number, own[start:])], set[int]()
        while waiting:
            number, ops = waiting.pop()
            for one in ops:
                if stops(one):
                    break
                yield one
            else:
                for successor in set(blocks[number].successors) - seen:
                    seen.add(successor)
                    block = blocks[successor]
                    waiting.append((successor, [one for one in (*block.ops, block.end) if one is not None]))

    @staticmethod
    def bases(op: Op) -> list[tree.Register | tree.Symbol]:
        """The bases of an instruction's addresses."""
        operands = dict.fromkeys((*op.sources, *op.instruction.operands))  # for an atomic, after its result
        return [o.base for o in operands if isinstance(o, tree.Address) and o.base is not None]

    def address_registers(self, op: Op) -> list[str]:
        """The registers among `bases`."""
        return [base.name for base in self.bases(op) if isinstance(base, tree.Register)]

    def symbols(self, op: Op) -> set[str]:
        """The variables from whose addresses an instruction's own is computed."""
        ops = [op, *self.origins(self.address_registers(op))]
        known = {*self.module.variables, *(one.name for f in self.module.functions.values() for one in f.variables)}
        return {
            part.name
            for one in ops
            for operand in one.instruction.operands
            for part in parts(operand)
            if isinstance(part, tree.Symbol) and part.name in known
        }

    def type_of(self, register: str) -> str:
        """A register's declared type without its dot; "" for a special register."""
        return self.graph.registers.get(register, "").lstrip(".")

    def special(self, op: Op) -> list[str]:
        """The special registers that an instruction reads, such as `%tid.x`."""
        names = [source.name for source in op.sources if isinstance(source, tree.Register)]
        return [name for name in names if name not in self.graph.registers]

    def place(self, op: Op) -> tuple[str, int]:
        """The user's file and line to report for an instruction; ("", 0) if it has none."""
        return split(users_line(self.frames(op)))

    def where(self, ptx_line: int) -> str:
        """The user's line of an instruction, or else its PTX line."""
        file, line = self.place(self.at(ptx_line)[0])
        return f"{file}:{line}" if file else f"line {ptx_line} of the PTX"

    def frames(self, op: Op) -> tuple[str, ...]:
        """`file:line` of an instruction, then of each call site that it was inlined at."""
        return frames(op.instruction.location, self.module.files)

    def key(self, op: Op) -> tuple[str, int]:
        """A key for the instructions of one line: file and line, or the PTX line without a line table."""
        place = self.place(op)
        return place if place[0] else ("", op.instruction.ptx_line)

    def finding(self, code: str, op: Op, kernel: str, details: dict[str, Any], **more: Any) -> Finding:
        """A finding at an instruction."""
        source, line = self.place(op)
        return Finding(
            code=code,
            kernel=kernel,
            source=source,
            line=line,
            opcode=op.instruction.name,
            ptx_line=op.instruction.ptx_line,
            details=details,
            **more,
        )


@functools.lru_cache(maxsize=64)
def of_kernel(ptx: str, entry: str) -> Values:
    """Analyse a kernel.

    Raises PtxError: the PTX is malformed, or has an instruction that the machine does not support.
    """
    module = parsed(ptx)
    built = graph.build(inline.inline_calls(module, module.functions[entry]), module.path)
    ops = [op for block in built.blocks for op in (*block.ops, block.end) if op is not None]
    return Values(module, built, tuple(ops))
