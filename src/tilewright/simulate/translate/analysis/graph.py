"""From a function's body to a flow graph: basic blocks in reverse post-order, with liveness.

Blocks are cut at labels, after branches, around barriers, and before instructions where lanes reconverge (`.sync`), so
a lane can wait only at the start of a block. Long straight lines are cut too. Where warps give way to others before
strong accesses, blocks are cut before these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.errors import PtxError
from tilewright.simulate.isa import Form, Role, table
from tilewright.simulate.isa.absent import why_absent
from tilewright.simulate.isa.kinds import KINDS
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.translate.analysis import special
from tilewright.simulate.translate.analysis.operands import SINK, check_operands
from tilewright.simulate.translate.analysis.selectors import selected

#: Most instructions of a block: LLVM's instruction selection takes time with the square of a block's size.
BLOCK_OPS = 125
#: The condition code register CC.CF, which carry chains write and read.
CARRY = "$cc"
#: Bytes in use of a thread's stack; see `translate.stack`.
STACK = "$stack"
#: Registers that instructions read or write implicitly.
HIDDEN = frozenset({CARRY, STACK})
#: Modifiers of accesses through which threads talk to each other, besides atomics. Source: PTX ISA, 8.3 (strong).
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
#: Instructions that a guard turns into a branch around them; also barriers.
_BRANCHED = {Role.RETURN, Role.EXIT, Role.TRAP, Role.CALL, Role.SWITCH}


@dataclass(slots=True)
class Op:
    """One instruction with its row, and its registers sorted into written and read."""

    instruction: tree.Instruction
    form: Form
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    #: destination operands in order (a Vector or Pair is flattened; "_" where unwanted)
    destinations: tuple[str, ...]
    sources: tuple[tree.Operand, ...]

    @property
    def guard(self) -> tree.Guard | None:
        """The guard predicate, if any."""
        return self.instruction.guard

    @property
    def named(self) -> dict[str, tree.Operand]:
        """The sources by the names that the row's syntax gives them."""
        row = self.form.row
        names = self.form.names_of(self.instruction.operands)
        return dict(zip(names[row.writes and not row.updates :], self.sources, strict=True))


@dataclass(slots=True)
class Block:
    """A basic block and how it ends.

    `kind` is "jump", "branch" (on `predicate`: successors[0] taken, successors[1] not), "switch" (on `index`),
    "barrier" (successors[0] continues), "exit" or "trap".
    """

    index: int
    ops: list[Op] = field(default_factory=list)
    kind: str = "jump"
    successors: list[int] = field(default_factory=list)
    predicate: str = ""
    negated: bool = False
    end: Op | None = None
    label: str = ""
    #: this block starts with an instruction where lanes reconverge
    meets: bool = False
    #: this block starts with a strong access, before which its warp may give way to others
    gives_way: bool = False
    #: this block starts with the wait for a product of a warpgroup, before which the other warps issue theirs
    lets_others_issue: bool = False
    #: its branch is a guard, not an instruction of the program
    synthetic: bool = False
    ptx_line: int = 0
    live_in: set[str] = field(default_factory=set)

    @property
    def cost(self) -> int:
        """PTX instructions a warp executes here."""
        return len(self.ops) + (self.end is not None and not self.synthetic)


@dataclass(slots=True)
class Graph:
    """The blocks of one kernel, numbered in reverse post-order; block 0 is the entry."""

    name: str
    blocks: list[Block]
    registers: dict[str, str]
    #: (source, target) edges that go to an equal or lower number
    back_edges: set[tuple[int, int]]
    #: loop headers whose loop reads memory that other threads may write while it spins
    spin_headers: set[int]
    #: whether some loop reads what threads of other blocks may write
    waits_for_blocks: bool = False
    #: loop headers whose loop tests mbarriers
    await_headers: set[int] = field(default_factory=set)
    #: registers whose value is also copied to another register, with that register
    copies: dict[str, str] = field(default_factory=dict)

    @property
    def slowness(self) -> int:
        """How many times fewer instructions a warp's turn has than usual, by its slowest instruction."""
        return max((KINDS[op.form.row.kind].slowness for block in self.blocks for op in block.ops), default=1)


def make_op(instruction: tree.Instruction, registers: dict[str, str], path: str) -> Op:
    """Find an instruction's row and sort its operands.

    Raises PtxError: when no row has this form; the message names its neighbours.
    """
    form = table().find(instruction.name)
    if form is None:
        reason = why_absent(instruction.name)
        known = f"none, {reason}" if reason else "; ".join(table().neighbours(instruction.name))
        known = known or "none with this opcode"
        raise PtxError(f"{path}:{instruction.ptx_line}: '{instruction.name}' is not implemented; known forms: {known}")
    if form.name != instruction.name:  # its parts are in another order
        instruction = replace(instruction, modifiers=form.modifiers)
    if form["vec"] and form.row.role is Role.COPY:
        instruction = replace(instruction, operands=tuple(map(special.elements, instruction.operands)))
    least, most = form.row.operand_counts
    if form.row.role is not Role.CALL and not least <= len(instruction.operands) <= most:
        rule = str(least) if least == most else f"{least} to {most}"
        raise PtxError(
            f"{path}:{instruction.ptx_line}: '{instruction.name}' takes {rule} "
            f"operands (got {len(instruction.operands)}): {form.row.syntax}"
        )
    instruction, form = selected(instruction, form, path)
    check_operands(instruction, form, registers, path)
    operands = list(instruction.operands)
    destinations: list[str] = []
    if form.row.writes:
        for item in _destination_items(operands[0] if form.row.updates else operands.pop(0)):
            if not isinstance(item, tree.Register) or (item.name not in registers and item.name != SINK):
                raise PtxError(
                    f"{path}:{instruction.ptx_line}: '{instruction.name}' must write to a register "
                    f"(got {operand_text(item)})"
                )
            destinations.append(item.name)
    if form.row.role is Role.CALL:  # a call that is not inlined writes its result registers
        destinations = [r.name for o in operands if isinstance(o, tree.CallArguments) for r in _returned(o)]
    writes = tuple(d for d in destinations if d != SINK)
    reads = [r for operand in operands for r in registers_of(operand)]
    if instruction.guard is not None:
        reads.append(instruction.guard.register.name)
    if SINK in reads:
        raise PtxError(f"{path}:{instruction.ptx_line}: '{instruction.name}' reads '_', which can only take a result")
    reads = [r for r in reads if r in registers]
    if form.row.kind == "carry":
        registers.setdefault(CARRY, ".pred")
        reads += [CARRY] if form.row.takes_carry else []
        writes += (CARRY,) if form.has("cc") else ()
    if form.row.kind == "stack":
        registers.setdefault(STACK, ".b64")
        reads.append(STACK)
        writes += (STACK,) if form.row.role is Role.ALLOCATE or not destinations else ()
    return Op(instruction, form, writes, tuple(reads), tuple(destinations), tuple(operands))


def _is_branched(item: tree.Instruction) -> bool:
    """Whether a guard becomes a branch around an instruction."""
    form = table().find(item.name)
    return form is not None and (form.row.kind == "barrier" or form.row.role in _BRANCHED)


def _destination_items(operand: tree.Operand) -> list[tree.Operand]:
    if isinstance(operand, tree.Vector):
        return list(operand.items)
    if isinstance(operand, tree.Pair):
        return [operand.first, operand.second]
    return [operand]


def _returned(call: tree.CallArguments) -> list[tree.Register]:
    return [r for r in call.returns if isinstance(r, tree.Register)]


def registers_of(operand: tree.Operand) -> list[str]:
    """Every register an operand reads."""
    if isinstance(operand, tree.CallArguments):
        operand = replace(operand, returns=())
    return [part.name for part in parts(operand) if isinstance(part, tree.Register)]


def is_strong(form: Form) -> bool:
    """Whether an access is one through which threads talk to each other: atomic, volatile, relaxed or stronger.

    >>> names = "ld.acquire.gpu.global.u32 red.global.add.u32 ld.global.u32 ld.volatile.local.u32 mbarrier.arrive.b64"
    >>> [is_strong(table().find(name)) for name in names.split()]
    [True, True, False, False, False]
    """
    if (
        form.row.access not in ("load", "store", "atomic")
        or form.has("local")
        or form.row.kind in ("mbarrier", "await")
    ):
        return False
    return form.row.access == "atomic" or any(map(form.has, _STRONG))


def build(function: tree.Function, path: str, *, gives_way: bool = False) -> Graph:
    """Cut a function into blocks, number them, and find liveness, back edges and spin loops.

    `gives_way`: whether warps may give way to others before strong accesses.

    Raises PtxError: an unknown form, an undeclared register, or a branch without a label.
    """
    blocks = _Cutter(function, path, gives_way=gives_way).cut()
    order = _reverse_post_order(blocks)
    renumber = {old: new for new, old in enumerate(order)}
    kept = [blocks[old] for old in order]
    for new, block in enumerate(kept):
        block.index = new
        block.successors = [renumber[s] for s in block.successors]
    back = {(b.index, s) for b in kept for s in b.successors if s <= b.index}
    graph = Graph(function.name, kept, function.registers, back, set())
    find_liveness(graph)
    graph.spin_headers = {header for tail, header in back if _spins(graph, tail, header)}
    graph.waits_for_blocks = any(_spins(graph, tail, header, own=False) for tail, header in back)
    graph.await_headers = {header for tail, header in back if _awaits(graph, tail, header)}
    return graph


class _Cutter:
    """Walks a body once and cuts it into blocks."""

    def __init__(self, function: tree.Function, path: str, *, gives_way: bool) -> None:
        self.function = function
        self.path = path
        self.gives_way = gives_way
        self.blocks: list[Block] = [Block(0, ptx_line=function.ptx_line)]
        self.labels: dict[str, int] = {}
        self.pending: list[tuple[Block, int, str, int]] = []  # block, successor slot, label, ptx line
        self.open = True  # the last block still falls through

    def cut(self) -> list[Block]:
        for item in self.function.body:
            if isinstance(item, tree.Label):
                if item.name in self.labels:
                    raise PtxError(f"{self.path}:{item.ptx_line}: label '{item.name}' is defined twice")
                self.labels[item.name] = self.start(item.ptx_line).index
            else:
                self.instruction(item)
        if self.open:
            self.blocks[-1].kind = "exit"
        for block, slot, label, line in self.pending:
            if label not in self.labels:
                raise PtxError(f"{self.path}:{line}: branch to '{label}', but this function has no such label")
            block.successors[slot] = self.labels[label]
        return self.blocks

    def start(self, line: int, *, afresh: bool = False) -> Block:
        """Begin a block, into which the open one falls; `afresh`: even if that is empty."""
        empty = self.open and not self.blocks[-1].ops and self.blocks[-1].index and not self.blocks[-1].meets
        if empty and not afresh:
            return self.blocks[-1]
        block = Block(len(self.blocks), ptx_line=line)
        if self.open:
            self.blocks[-1].successors = [block.index]
        self.blocks.append(block)
        self.open = True
        return block

    def instruction(self, item: tree.Instruction) -> None:
        if not self.open:
            self.start(item.ptx_line)
        if item.guard is not None and _is_branched(item):
            skip = f"$skip{item.ptx_line}.{len(self.blocks)}"
            inverse = tree.Guard(item.guard.register, not item.guard.negated)
            target = (tree.Symbol(skip),)
            guarded = self.blocks[-1]
            self.instruction(tree.Instruction("bra", (), target, item.ptx_line, inverse, item.location))
            guarded.synthetic = True
            self.instruction(
                tree.Instruction(item.opcode, item.modifiers, item.operands, item.ptx_line, None, item.location)
            )
            self.labels[skip] = self.start(item.ptx_line).index
            return
        op = make_op(item, self.function.registers, self.path)
        block = self.blocks[-1]
        row = op.form.row
        match row.role:
            case Role.JUMP:
                self.branch(op)
            case Role.SWITCH:
                self.end(op, "switch", self.branch_targets(item))
            case Role.RETURN | Role.EXIT:
                self.end(op, "exit", [])
            case Role.TRAP:
                self.end(op, "trap", [])
            case _ if row.kind == "barrier" and row.members is None:
                self.end(op, "barrier", [])
                after = self.start(item.ptx_line)
                block.successors = [after.index]
                if op.writes:  # the reduction's result is read where the warp resumes
                    block.end = replace(op, writes=(), destinations=())
                    after.ops.append(replace(op, reads=(), sources=()))
            case _:
                if ".sync" in item.modifiers and row.kind in ("warp", "barrier"):
                    if block.ops or block.index == 0:
                        block = self.start(item.ptx_line)
                    block.meets = True
                elif row.role is Role.WARPGROUP and row.kind == "group" and op.sources:
                    block = self.start(item.ptx_line, afresh=True)
                    block.lets_others_issue = True
                elif self.gives_way and is_strong(op.form):
                    block = self.start(item.ptx_line, afresh=True)
                    block.gives_way = True
                elif len(block.ops) >= BLOCK_OPS:
                    block = self.start(item.ptx_line)
                block.ops.append(op)

    def branch_targets(self, item: tree.Instruction) -> list[str]:
        operand = item.operands[-1]
        name = operand.name if isinstance(operand, tree.Symbol) else ""
        if name not in self.function.targets:
            raise PtxError(f"{self.path}:{item.ptx_line}: '{item.name}' needs a .branchtargets list (got '{name}')")
        return list(self.function.targets[name])

    def branch(self, op: Op) -> None:
        target = op.instruction.operands[0]
        if not isinstance(target, tree.Symbol):
            raise PtxError(f"{self.path}:{op.instruction.ptx_line}: 'bra' needs a label (got {target})")
        if op.guard is None:
            self.end(op, "jump", [target.name])
            return
        block = self.blocks[-1]
        block.predicate, block.negated = op.guard.register.name, op.guard.negated
        self.end(op, "branch", [target.name])
        after = self.start(op.instruction.ptx_line)
        block.successors.append(after.index)

    def end(self, op: Op, kind: str, labels: list[str]) -> None:
        block = self.blocks[-1]
        block.kind, block.end = kind, op
        block.successors = [-1] * len(labels)
        self.pending += [(block, slot, label, op.instruction.ptx_line) for slot, label in enumerate(labels)]
        self.open = False


def _reverse_post_order(blocks: list[Block]) -> list[int]:
    """Number blocks so that a loop's blocks come before the blocks after the loop; unreachable blocks are dropped.

    A first walk finds the loops. The second visits first the successors that share the fewest loops with their block,
    so exits, where lanes wait for the others, get the higher numbers.
    """
    plain = _walk(blocks, [b.successors for b in blocks])
    position = {node: i for i, node in enumerate(plain)}
    predecessors: dict[int, list[int]] = {node: [] for node in plain}
    for node in plain:
        for successor in blocks[node].successors:
            predecessors[successor].append(node)
    loops: list[set[int]] = []
    for node in plain:
        for header in blocks[node].successors:
            if position[header] <= position[node]:
                body = {header}
                stack = [node]
                while stack:
                    inner = stack.pop()
                    if inner not in body:
                        body.add(inner)
                        stack += predecessors[inner]
                loops.append(body)
    ordered = []
    for block in blocks:
        around = [loop for loop in loops if block.index in loop]
        shared = {s: sum(s in loop for loop in around) for s in block.successors}
        ordered.append(sorted(block.successors, key=shared.__getitem__))
    return _walk(blocks, ordered)


def _walk(blocks: list[Block], successors: list[list[int]]) -> list[int]:
    """Reverse post-order of a depth-first walk, without recursion."""
    seen = {0}
    post: list[int] = []
    stack = [(0, iter(successors[0]))]
    while stack:
        node, remaining = stack[-1]
        for successor in remaining:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            post.append(node)
            stack.pop()
    return post[::-1]


def find_liveness(graph: Graph) -> None:
    """Fill `live_in` of every block, by the usual backward iteration."""
    uses: list[set[str]] = []
    kills: list[set[str]] = []
    for block in graph.blocks:
        block.live_in = set()
        used: set[str] = set()
        killed: set[str] = set()
        for op in block.ops:
            used |= set(op.reads) - killed
            if op.guard is None:
                killed |= set(op.writes)
            else:  # a guarded write keeps the old value in other lanes
                used |= set(op.writes) - killed
        if block.end is not None:
            used |= set(block.end.reads) - killed
        uses.append(used)
        kills.append(killed)
    changed = True
    while changed:
        changed = False
        for block in reversed(graph.blocks):
            out: set[str] = set()
            for successor in block.successors:
                out |= graph.blocks[successor].live_in
            if block.kind == "barrier" and block.end is not None:
                out -= set(block.end.writes)
            live = uses[block.index] | (out - kills[block.index])
            if live != block.live_in:
                block.live_in = live
                changed = True


def _spins(graph: Graph, tail: int, header: int, *, own: bool = True) -> bool:
    """Whether the loop of a back edge holds an instruction through which another thread could end it.

    Without `own`, a thread of another block: not by an mbarrier or shared memory of the own block.
    """
    waits = {".volatile", ".relaxed", ".acquire", ".mmio", ".cv"}
    loads = pauses = False
    for block in graph.blocks[header : tail + 1]:
        for op in block.ops:
            row, modifiers = op.form.row, set(op.instruction.modifiers)
            if not own and (row.kind in ("await", "mbarrier") or ".shared" in modifiers):
                continue
            if (row.access == "atomic" and row.writes) or row.role is Role.CALL:
                return True  # the effects of a call are unknown here
            if row.access == "load" and waits & modifiers:
                return True
            loads |= row.access == "load" and not modifiers & {".param", ".const", ".local"}
            pauses |= row.role is Role.SLEEP or (row.kind == "fence" and ".proxy" not in modifiers)
    # After a fence or a sleep a plain load sees other threads' writes.
    return pauses and (own or loads)


def _awaits(graph: Graph, tail: int, header: int) -> bool:
    """Whether the loop of a back edge tests mbarriers."""
    return any(op.form.row.kind == "await" for block in graph.blocks[header : tail + 1] for op in block.ops)
