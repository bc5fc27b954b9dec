"""The model of a kernel on a GPU: its machine code, a warp's path through it, and how long a launch takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.errors import CompileError
from tilewright.machine import Gpu
from tilewright.machine.timing import timing
from tilewright.prediction import flow, multiprocessor, walk
from tilewright.prediction.deadline import Deadline
from tilewright.prediction.workload import Workload
from tilewright.programs.disassembler import Instruction, disassembled
from tilewright.programs.program import OLDEST_CC, Program

#: How often all places of a multiprocessor are filled at most.
_FILLINGS = 8


@dataclass(frozen=True, slots=True)
class Time:
    """Of one launch."""

    seconds: float
    simulated: multiprocessor.Simulated  #: The multiprocessor that has most blocks.


def machine_cc(program: Program, gpu: Gpu) -> tuple[int, int]:
    """The compute capability whose machine code is predicted: the GPU's, or the oldest that has an assembler.

    Raises CompileError: the program's PTX is made for a newer one, which the assembler makes no code for this one of.
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
    """A kernel's machine code, and the path of a warp through it."""

    code: tuple[Instruction, ...]
    paths: walk.Paths
    working: float  #: Share of the warps that do not end at the kernel's guard, and take these paths.
    gpu: Gpu
    deadline: Deadline

    @classmethod
    def of(cls, program: Program, work: Workload, gpu: Gpu, deadline: Deadline) -> Model:
        """The path that the counts of a launch speak for.

        Raises CompileError: as :func:`machine_cc`, or the code has what the model does not know.
        """
        code = disassembled(program.ptx, program.entry, machine_cc(program, gpu))
        ways = flow.graph(code)
        working, found = flow.working(ways, flow.frequencies(code, ways, work.executed, work.ptx, deadline))
        return cls(code, walk.paths(ways, found, deadline), working, gpu, deadline)

    def time(self, work: Workload, clock_mhz: int) -> Time:
        """How long a launch takes: that of the multiprocessor which has most blocks.

        Of many blocks the first few fillings are simulated; each further one takes the mean of those but the first.
        """
        each = -(-work.blocks // self.gpu.multiprocessors)
        most = _FILLINGS * work.resident_blocks
        found = self._blocks(work, min(each, most), clock_mhz)
        if each > most:
            further = (each - most) / (most - work.resident_blocks)
            found = found.plus(further, found, self._blocks(work, work.resident_blocks, clock_mhz))
        return Time(found.clocks / (clock_mhz * 1e6) + timing(self.gpu).launch_us * 1e-6, found)

    def _blocks(self, work: Workload, blocks: int, clock_mhz: int) -> multiprocessor.Simulated:
        """So many blocks on one multiprocessor, while the others have blocks too."""
        work = replace(work, block_warps=max(1, round(work.block_warps * self.working)))

        def run(path: walk.Path) -> multiprocessor.Simulated:
            active = min(self.gpu.multiprocessors, work.blocks)
            return multiprocessor.run(
                self.code, path, work, self.gpu, blocks=blocks, active=active, clock_mhz=clock_mhz,
                deadline=self.deadline,
            )  # fmt: skip

        found = shortened = run(self.paths.shortened)
        for times, longer in self.paths.longer:
            found = found.plus(times, run(longer), shortened)
        return found
