"""The paths of a cluster's warps: one for all, or one for each role, with the operations on mbarriers."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.errors import LimitError
from tilewright.ground.native.memo import bounded
from tilewright.observe.instruments.roles import NOWHERE, Op, Operation, Role, Roles, RolesResult
from tilewright.observe.prediction import flow, opcodes, walk
from tilewright.observe.prediction.deadline import Deadline
from tilewright.simulate.isa import table
from tilewright.simulate.observer import BlocksAlone, Part
from tilewright.simulate.programs.disassembler import Instruction
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import RANK_SHIFT

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
            executed = {line: float(times) for line, times in role.executed.items()}
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

    roles: tuple[Role, ...]
    memory_bytes: int  #: Size of all arrays of the launch.
    cluster_blocks: int

    def far(self, blocks: int) -> float:
        """The fraction of bulk copies' second-level requests that memory serves, each byte once."""
        asked = blocks * self.copied_bytes
        return min(1.0, self.memory_bytes / asked) if asked else 0.0

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
    """Run a launch's first cluster and record what it does; None if warps wait for no mbarrier, or for other blocks.

    Raises KernelError: a block failed; LimitError: the block does more than can be recorded.
    """
    if not has_roles(alone.launch.program.ptx) or alone.waits((Roles(),)):
        return None
    found: RolesResult = alone.run(Part(0), (Roles(),)).results["roles"]
    if not found.complete:
        raise LimitError(
            f"{alone.launch.name}: the record of a predicted block must fit 256 MiB (got more); predict a smaller "
            "product"
        )
    return Watched(found.roles, alone.memory_bytes, alone.cluster_blocks)


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
