"""One name for each value that a register holds, so that each gets a shape of its own.

Compilers and people use a register for one value after another. Definitions and uses form *webs*: a use belongs with
every definition that reaches it. Each web of a register gets a name. A definition outside all loops whose value later
joins others (a loop counter that starts as a thread index) gets two names: one for instructions that only this
definition reaches, one for the rest.

Webs of data, such as loaded values and sums of these, share one name, because no shape is known for their lanes and
long kernels have thousands. A register whose webs cannot be separated keeps its name; so do the carry flag and the
stack. A register's value before the kernel's first write counts as written at the entry, and a guarded write also reads
the old value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.substitution import with_names
from tilewright.simulate.translate.analysis.graph import HIDDEN, Block, Graph, Op, find_liveness

#: Separates a register's PTX name from the number of its web; no PTX name has it.
_MARK = "'"


def split(graph: Graph) -> None:
    """Give names of their own to the webs of a graph's registers, in place.

    Registers that are written in one place, or only with data, are skipped.
    """
    names = _written_often(graph)
    if not names:
        return
    webs = _Webs(graph, names)
    registers = dict(graph.registers)
    for block, steps in zip(graph.blocks, webs.steps, strict=True):
        for step in steps:
            op = webs.renamed(step)
            if step.at < len(block.ops):
                block.ops[step.at] = op
            else:
                block.end = op
                if block.kind == "branch" and op.guard is not None:
                    block.predicate = op.guard.register.name
    for name in webs.fresh:
        registers[name] = registers[ptx_name(name)]
    graph.registers = registers
    graph.copies = webs.copies
    if webs.fresh:
        find_liveness(graph)


def ptx_name(name: str) -> str:
    """The PTX name of a register.

    >>> ptx_name("%r1'2"), ptx_name("%r1")
    ('%r1', '%r1')
    """
    return name.partition(_MARK)[0]


def _written_often(graph: Graph) -> set[str]:
    """Registers that are written in several places, and have an index or a predicate in at least one of them."""
    once: set[str] = set()
    often: set[str] = set()
    shaped = {name for name, type_ in graph.registers.items() if type_ == ".pred"}
    for op in (op for block in graph.blocks for op in block.ops):
        for name in op.writes:
            (often if name in once else once).add(name)
            if op.form.row.linear:
                shaped.add(name)
    return often & shaped - HIDDEN


@dataclass(slots=True)
class _Step:
    """An instruction that uses registers with several definitions."""

    at: int  #: Its position in the block; after the last one for the block's end.
    op: Op
    #: For each such register, the value that the instruction reads, and the one that it writes.
    reads: dict[str, int]
    writes: dict[str, int]


class _Webs:
    """The values of some registers, joined if one instruction can read either.

    Values are numbers. There is one for each definition, and one for each register and block where several join.
    """

    def __init__(self, graph: Graph, names: set[str]) -> None:
        self.graph = graph
        self.fresh: dict[str, None] = {}  #: The new names, in the order of the text.
        self.copies: dict[str, str] = {}  #: Separate names of definitions, and the names of their webs.
        self._parents: list[int] = []
        self._live = [sorted(block.live_in & names) for block in graph.blocks]
        self.steps = [list(self._steps(block, names)) for block in graph.blocks]  #: By block.
        self._merges: list[dict[str, int]] = [{} for _ in graph.blocks]
        self._apart: set[int] = set()  # definitions outside loops that can have a separate name
        self._alone: set[int] = set()  # those of them that some instruction reads alone
        self._meet()
        sizes = Counter(map(self._root, range(len(self._parents))))
        self._joined = {root for root, values in sizes.items() if values > 1}
        self._indices = {self._root(value) for steps in self.steps for value in self._indices_of(steps)}
        self._names: dict[int | str, str] = {}
        self._counts: dict[str, int] = {}

    def _value(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _root(self, value: int) -> int:
        parents = self._parents
        while parents[value] != value:
            parents[value] = value = parents[parents[value]]
        return value

    def _join(self, one: int, other: int) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _steps(self, block: Block, names: set[str]) -> Iterator[_Step]:
        for at, op in enumerate((*block.ops, block.end)):
            if op is not None and not (names.isdisjoint(op.reads) and names.isdisjoint(op.writes)):
                reads = {name: -1 for name in op.reads if name in names}
                yield _Step(at, op, reads, {name: self._value() for name in op.writes if name in names})

    def _reach(self) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
        """The values at the start and the end of each block; a new value where several join."""
        leave = [{name: value for step in steps for name, value in step.writes.items()} for steps in self.steps]
        enter: list[dict[str, int]] = [{} for _ in self.steps]
        self._merges[0] = enter[0] = {name: self._value() for name in self._live[0]}
        work = deque(range(len(enter)))
        waiting = set(work)
        while work:
            index = work.popleft()
            waiting.discard(index)
            out = {**enter[index], **leave[index]}
            for successor in self.graph.blocks[index].successors:
                known, merges = enter[successor], self._merges[successor]
                changed = False
                for name in self._live[successor]:
                    value = out[name]
                    if name not in known:
                        known[name] = value
                    elif name not in merges and known[name] != value:
                        known[name] = merges[name] = self._value()
                        changed = True
                if changed and successor not in waiting:
                    work.append(successor)
                    waiting.add(successor)
        return enter, [{**before, **after} for before, after in zip(enter, leave, strict=True)]

    def _meet(self) -> None:
        """Join values that one instruction can read, and find those that some instruction reads alone."""
        enter, leave = self._reach()
        looping = set().union(*(range(header, tail + 1) for tail, header in self.graph.back_edges))
        for index, block in enumerate(self.graph.blocks):
            for successor in block.successors:
                for name, value in self._merges[successor].items():
                    self._join(value, leave[index][name])
            current = enter[index]
            for step in self.steps[index]:
                self._follow(step, current, index in looping)
                current.update(step.writes)

    def _follow(self, step: _Step, current: Mapping[str, int], loops: bool) -> None:
        """Record what one instruction reads, given the values so far."""
        linear = step.op.form.row.linear
        step.reads = {name: current[name] for name in step.reads}
        for name, value in step.writes.items():
            # Data keeps its operand's shape, and a guarded write the old value in some lanes: one name serves both.
            if name in current and (step.op.guard is not None or (name in step.reads and not linear)):
                self._join(value, current[name])
                if name in step.reads:
                    step.reads[name] = value
            elif linear and not loops:
                self._apart.add(value)
        self._alone |= self._apart.intersection(step.reads.values())

    # -- names --------------------------------------------------------------------------------------------------

    def renamed(self, step: _Step) -> Op:
        """An instruction with the new names."""
        reads = {name: self._name(name, value) for name, value in step.reads.items()}
        writes = {name: self._name(name, value) for name, value in step.writes.items()}
        if all(old == new for names in (reads, writes) for old, new in names.items()):
            return step.op
        return _renamed_op(step.op, reads, writes, self.copies)

    def _name(self, register: str, value: int) -> str:
        """The name of a value's web, or its own."""
        root = self._root(value)
        web = root if root in self._indices else register  # webs of data share one name
        if web not in self._names:
            self._names[web] = self._next(register)
        if value not in self._alone or root not in self._joined:
            return self._names[web]
        own = -1 - value
        if own not in self._names:
            self._names[own] = self._next(register)
            self.copies[self._names[own]] = self._names[web]
        return self._names[own]

    def _indices_of(self, steps: list[_Step]) -> Iterator[int]:
        """Definitions that can be indices or predicates."""
        for step in steps:
            for name, value in step.writes.items():
                if step.op.form.row.linear or self.graph.registers[name] == ".pred":
                    yield value

    def _next(self, register: str) -> str:
        count = self._counts[register] = self._counts.get(register, -1) + 1
        if not count:
            return register
        self.fresh[f"{register}{_MARK}{count}"] = None
        return f"{register}{_MARK}{count}"


def _renamed_op(op: Op, reads: Mapping[str, str], writes: Mapping[str, str], copies: Mapping[str, str]) -> Op:
    """An instruction with other names for the registers that it reads and for those that it writes."""

    def read_name(name: str) -> str:
        return reads.get(name, name)

    def written_name(name: str) -> str:
        return writes.get(name, name)

    def read(operand: tree.Operand) -> tree.Operand:
        named = with_names(operand, read_name)
        if isinstance(operand, tree.CallArguments) and isinstance(named, tree.CallArguments):
            return replace(named, returns=tuple(map(written, operand.returns)))
        return named

    def written(operand: tree.Operand) -> tree.Operand:
        return with_names(operand, written_name)

    item = op.instruction
    results = int(op.form.row.writes)
    operands = (*map(written, item.operands[:results]), *map(read, item.operands[results:]))
    guard = item.guard and replace(item.guard, register=tree.Register(read_name(item.guard.register.name)))
    names = list(map(written_name, op.writes))
    return Op(
        replace(item, operands=operands, guard=guard),
        op.form,
        (*names, *(copies[name] for name in names if name in copies)),
        tuple(map(read_name, op.reads)),
        tuple(map(written_name, op.destinations)),
        tuple(map(read, op.sources)),
    )
