"""The model of a kernel on a GPU: its machine code, a warp's path through it, and the time of a launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.errors import CompileError, LimitError
from tilewright.observe.prediction import flow, multiprocessor, opcodes, walk
from tilewright.observe.prediction.crew import Crew, Watched
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.workload import Workload
from tilewright.observe.profiling.verdict import register_cap
from tilewright.simulate.machine import Gpu
from tilewright.simulate.machine.timing import timing
from tilewright.simulate.programs.disassembler import Instruction, disassembled
from tilewright.simulate.programs.program import OLDEST_CC, Program

#: Most times that all places of a multiprocessor are filled in a simulation.
_FILLINGS = 8


@dataclass(frozen=True, slots=True)
class Time:
    """The time of one launch."""

    seconds: float
    simulated: multiprocessor.Simulated  #: The multiprocessor with most blocks.


def machine_cc(program: Program, gpu: Gpu) -> tuple[int, int]:
    """The compute capability whose machine code is predicted: the GPU's, or the oldest that the assembler supports.

    Raises CompileError: the PTX targets a newer compute capability, so the assembler makes no code for this one.
    """
    cc = max(gpu.compute_capability, OLDEST_CC)
    if program.cc > cc:
        most, got = (".".join(map(str, each)) for each in (cc, program.cc))
        raise CompileError(
            f"{program.name} must be compiled for compute capability {most} or less to be predicted for {gpu.name} "
            f"(got PTX for {got}); pass `cc={cc}` where it is compiled"
        )
    return cc


@dataclass(frozen=True, slots=True)
class Model:
    """A kernel's machine code, and the paths of its warps."""

    code: tuple[Instruction, ...]
    crew: Crew  #: The paths of a cluster's warps, without those that end at the kernel's guard.
    longer: tuple[tuple[float, Crew], ...]  #: With more iterations of a loop, and how many `crew` leaves out.
    gpu: Gpu
    deadline: Deadline
    cap: str  #: What caps a thread's registers (:func:`tilewright.observe.profiling.verdict.register_cap`).
    share: float = 1.0  #: The part of `crew`'s work that a block of a GPU does, as `Watched.share` says.

    @classmethod
    def of(cls, program: Program, work: Workload, gpu: Gpu, deadline: Deadline, roles: Watched | None = None) -> Model:
        """The paths that agree with the counts of a launch: one for all warps, or one for each role.

        Raises CompileError: as :func:`machine_cc`, or the model does not support the code; LimitError: the record of
        the roles did not fit.
        """
        code = disassembled(program.ptx, program.entry, machine_cc(program, gpu))
        ways, directives = flow.graph(code), program.module.functions[program.entry].directives
        cap = register_cap(directives, gpu)
        if roles is not None:
            if roles.record is None or not roles.record.complete:
                raise LimitError(
                    f"{program.name}: the record of a predicted block must fit 256 MiB (got more); predict a smaller "
                    "product"
                )
            crew = Crew.of(code, ways, roles, program, work.ptx, deadline)
            return cls(code, crew, (), gpu, deadline, cap, roles.share(work))
        if any(opcodes.row(one.name).operation for one in code):
            raise CompileError(
                f"{program.name} waits for mbarriers, so a prediction must watch one of its blocks (got only counts); "
                "use `tilewright predict` or `tilewright.predict`"
            )
        working, found = flow.working(ways, flow.frequencies(code, ways, work.executed, work.ptx, deadline))
        paths, warps = walk.paths(ways, found, deadline), max(1, round(work.block_warps * working))
        blocks = math.prod(directives.get(".reqnctapercluster", ()))
        longer = tuple((times, Crew.alike(path, warps, blocks)) for times, path in paths.longer)
        return cls(code, Crew.alike(paths.shortened, warps, blocks), longer, gpu, deadline, cap)

    def local(self) -> tuple[dict[int, float], float]:
        """How often a warp executes local-memory instructions, by PTX line; and their share of memory instructions."""
        rows = [opcodes.row(one.name) for one in self.code]
        executed = sum(
            self.crew.of_warp.count(role) * np.bincount(path, minlength=len(rows))
            for role, path in enumerate(self.crew.paths)
        )
        found: dict[int, float] = {}
        for one, row, times in zip(self.code, rows, np.asarray(executed).tolist(), strict=True):
            if row.local and times:
                found[one.ptx_line] = found.get(one.ptx_line, 0.0) + times / len(self.crew.of_warp)
        every = float(np.asarray(executed)[[bool(row.access) for row in rows]].sum()) / len(self.crew.of_warp)
        return found, sum(found.values()) / every if every else 0.0

    def time(self, work: Workload, clock_mhz: int) -> Time:
        """The time of a launch: that of the multiprocessor with most blocks, with those of its cluster.

        Of many blocks only the first few fillings are simulated; each later one takes the mean of those after the
        first.
        """
        cluster = self.crew.blocks
        each = -(-(work.blocks // cluster) // (self.gpu.multiprocessors // cluster))
        most = _FILLINGS * work.resident_blocks
        found = self._blocks(work, min(each, most), clock_mhz)
        if each > most:
            further = (each - most) / (most - work.resident_blocks)
            found = found.plus(further, found, self._blocks(work, work.resident_blocks, clock_mhz))
        return Time(found.clocks / (clock_mhz * 1e6) + timing(self.gpu).launch_us * 1e-6, found)

    def _blocks(self, work: Workload, blocks: int, clock_mhz: int) -> multiprocessor.Simulated:
        """Simulate blocks on one multiprocessor while the others are busy too."""

        def run(crew: Crew) -> multiprocessor.Simulated:
            active = min(self.gpu.multiprocessors, work.blocks)
            return multiprocessor.run(
                self.code,
                crew,
                work,
                self.gpu,
                blocks=blocks,
                active=active,
                clock_mhz=clock_mhz,
                deadline=self.deadline,
            )

        found = shortened = run(self.crew)
        for times, longer in self.longer:
            found = found.plus(times, run(longer), shortened)
        return found.times(self.share)
