"""The paths of a cluster's warps: one for all, or one for each role, with the operations on mbarriers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.memo import bounded
from tilewright.observe.instruments.roles import NOWHERE, Op, Operation, Role, Roles, RolesResult
from tilewright.observe.prediction import flow, opcodes, walk
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.polls import polled_once
from tilewright.observe.prediction.workload import Workload
from tilewright.simulate.events import Instrument
from tilewright.simulate.isa import table
from tilewright.simulate.observer import BlocksAlone, Part, Run
from tilewright.simulate.programs.disassembler import Instruction
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import RANK_SHIFT
from tilewright.simulate.translate.analysis.graph import is_strong

#: Fields of an operation: kind, the mbarrier's number, the operand, lanes, whether the instruction has another one.
_FIELDS = 5
_OFFSETS = (1 << RANK_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Crew:
    """The work of the warps of a cluster, or of those of a block without clusters.

    >>> Crew.alike(np.arange(3, dtype=np.uint32), 2).of_warp
    (0, 0)
    """

    paths: tuple[walk.Path, ...]  #: For each role, instruction numbers in order.
    operations: tuple[npt.NDArray[np.uint32], ...]  #: For each role, those of its path in order.
    of_warp: tuple[int, ...]  #: The role of each warp of a cluster, block by block.
    #: Arrivals for each phase of an mbarrier, by its number; the mbarriers of a block have consecutive numbers.
    expected: tuple[int, ...] = ()
    blocks: int = 1  #: Blocks of the cluster.

    @classmethod
    def alike(cls, path: walk.Path, warps: int, blocks: int = 1) -> Crew:
        """All warps of each block take one path."""
        return cls((path,), (np.zeros((0, _FIELDS), np.uint32),), (0,) * (warps * blocks), blocks=blocks)

    @property
    def block_warps(self) -> int:
        """Number of warps of a block."""
        return len(self.of_warp) // self.blocks

    @classmethod
    def of(
        cls,
        code: Sequence[Instruction],
        ways: flow.Graph,
        watched: Watched,
        program: Program,
        ptx: Mapping[int, str],
        deadline: Deadline,
    ) -> Crew:
        """Each role takes the whole path that agrees with its counts.

        Raises CompileError: as :func:`tilewright.observe.prediction.walk.walk`.
        """
        roles, blocks = watched.roles, watched.cluster_blocks
        made = {op.place: op.number for op in watched.operations if op.kind is Op.INIT}
        offsets = dict.fromkeys(op.place & _OFFSETS for op in watched.operations if op.place != NOWHERE)
        places = [rank << RANK_SHIFT | offset for rank in range(blocks) for offset in offsets]
        numbers = {place: number for number, place in enumerate(places)}
        acting = [[one.ptx_line for one in code[first:end] if _acts(one)] for first, end in ways.blocks]
        walked: dict[Hashable, walk.Path] = {}
        paths = []
        for role in roles:
            turns = {line: tuple(done[0].turn for done in all_done) for line, all_done in role.operations.items()}
            executed = polled_once(program, role.executed)
            key = tuple(sorted(executed.items())), tuple(sorted(turns.items()))
            if key not in walked:
                found = flow.frequencies(code, ways, executed, ptx, deadline)
                walked[key] = walk.walk(ways, found, {}, deadline, turns=walk.Turns(ways, acting, turns))
            paths.append(walked[key])
        operations = tuple(_operations(code, path, role, numbers) for path, role in zip(paths, roles, strict=True))
        of_warp = {warp: number for number, role in enumerate(roles) for warp in role.warps}
        return cls(
            tuple(paths),
            operations,
            tuple(of_warp[warp] for warp in sorted(of_warp)),
            tuple(made.get(place, 1) for place in numbers),
            blocks,
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """The work of the warps of a launch's first cluster (or first block), if they have roles."""

    record: RolesResult | None  #: None until the whole launch has run, if blocks wait for others.
    memory_bytes: int  #: Size of all arrays of the launch.
    cluster_blocks: int
    claims: tuple[int, ...]  #: Lines of PTX with an atomic operation that has a result.

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles of the warps."""
        assert self.record is not None, "the launch has run"
        return self.record.roles

    @property
    def instruments(self) -> tuple[Instrument, ...]:
        """What must watch the whole launch."""
        return (Roles(),) if self.record is None else ()

    def of_run(self, run: Run) -> Watched:
        """With the record of the whole launch, if its first cluster did not run alone."""
        return self if self.record else replace(self, record=run.results["roles"])

    def far(self, work: Workload) -> float:
        """The fraction of bulk copies' second-level requests that memory serves, each byte once."""
        asked = work.blocks * self.copied_bytes * self.share(work)
        return min(1.0, self.memory_bytes / asked) if asked else 0.0

    def share(self, work: Workload) -> float:
        """The part of the recorded work that a GPU's first cluster does, if blocks claim work by atomic operations.

        Blocks of a GPU run at once, so each claims about as often as any other. Here the first ones claim more. The
        instruction that claims is the atomic operation that the first cluster executed most often.
        """
        warps = {line: sum(len(one.warps) * one.executed.get(line, 0) for one in self.roles) for line in self.claims}
        line = max(warps, key=warps.__getitem__, default=0)
        if not warps.get(line):
            return 1.0
        return math.ceil(round(work.executed[line] * work.block_warps * self.cluster_blocks, 6)) / warps[line]

    @property
    def copied_bytes(self) -> float:
        """Bytes that a block's bulk copies request from the second level; a multicast copy requests them once."""
        each = (op.number * lanes for op, lanes in self._operations if op.kind is Op.COPY)
        return sum(each) / self.cluster_blocks

    @property
    def operations(self) -> Iterator[Operation]:
        """The work of each role, once per role."""
        return (op for op, _ in self._operations)

    @property
    def _operations(self) -> Iterator[tuple[Operation, int]]:
        """The work of each role, with the number of its warps."""
        for role in self.roles:
            for done in role.operations.values():
                yield from ((op, len(role.warps)) for op in itertools.chain(*done))


def watched(alone: BlocksAlone) -> Watched | None:
    """What a launch's first cluster does, recorded alone unless it waits for others; None without waits for mbarriers.

    Raises KernelError: a block failed.
    """
    if not has_roles(alone.launch.program.ptx):
        return None
    found = None if alone.waits((Roles(),)) else alone.run(Part(0), (Roles(),)).results["roles"]
    program = alone.launch.program
    body = program.module.functions[program.entry].body
    claims = (item.ptx_line for item in body if isinstance(item, tree.Instruction) and _claims(item.name))
    return Watched(found, alone.memory_bytes, alone.cluster_blocks, tuple(claims))


def _claims(name: str) -> bool:
    form = table().find(name)
    return form is not None and form.row.access == "atomic" and bool(form.row.writes) and is_strong(form)


@bounded(64)
def has_roles(ptx: str) -> bool:
    """Whether the PTX waits for mbarriers; called at every launch of a program."""
    functions = parsed(ptx).functions.values()
    names = {item.name for function in functions for item in function.body if isinstance(item, tree.Instruction)}
    return any((form := table().find(name)) is not None and form.row.kind == "await" for name in names)


def _acts(one: Instruction) -> bool:
    """Whether an instruction is for an mbarrier, a bulk copy, or an order to tensor memory."""
    return bool(opcodes.row(one.name).operation)


def _operations(
    code: Sequence[Instruction], path: walk.Path, role: Role, numbers: Mapping[int, int]
) -> npt.NDArray[np.uint32]:
    """Operations of a path's instructions on mbarriers, in order, as often as the machine saw each line do something.

    A predicated instruction does nothing if the machine saw its line act only after waits that are still to come.
    """
    may = np.array([_acts(one) for one in code])
    left = {line: list(reversed(done)) for line, done in role.operations.items()}
    nothing = (Operation(Op.OTHER, NOWHERE, 0, 0),)
    waits = sorted(
        (done[0].turn for all_done in left.values() for done in all_done if done[0].kind is Op.WAIT), reverse=True
    )
    found = []
    for number in path[may[path]].tolist():
        coming = left.get(code[number].ptx_line)
        done = coming.pop() if coming and (not waits or coming[-1][0].turn <= waits[-1]) else nothing
        if done[0].kind is Op.WAIT:
            waits.pop()
        for n, op in enumerate(done, 1):
            found.append((op.kind, numbers.get(op.place, len(numbers)), op.number, op.lanes, n < len(done)))
    return np.array(found, np.uint32).reshape(-1, _FIELDS)
