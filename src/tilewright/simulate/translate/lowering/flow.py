"""Control flow: the starts and ends of blocks.

A block with an empty frontier ends in a plain jump. Elsewhere the end of a block finds the lanes whose turn is next
(`turns.py`). A warp that returns to the scheduler saves the registers that are live where it will resume.
"""

from __future__ import annotations

from tilewright.simulate.code import Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import ARRIVE, AWAITS, BLOCKED, GAVE_WAY, POINT_BYTES, TRAP, WARP, WARP_POINTS, YIELDED
from tilewright.simulate.translate.analysis.frontier import full_blocks
from tilewright.simulate.translate.analysis.graph import Block
from tilewright.simulate.translate.analysis.layout import align_up
from tilewright.simulate.translate.analysis.pieces import Piece, cut, is_long, whole
from tilewright.simulate.translate.lowering import barriers, reconvergence
from tilewright.simulate.translate.lowering.emitter import ALL_LANES, Emitter
from tilewright.simulate.translate.lowering.frame import Frame
from tilewright.simulate.translate.lowering.turns import Turns

#: A piece returns this if the warp goes on in another piece; no caller of the kernel sees it.
ELSEWHERE = 5
#: A warp resumes at the lowest block with waiting lanes, or at the next such block after `avoid`.
AGAIN, OTHERS = -1, -2
#: With so many tests of pending blocks over all blocks' ends, they are shared: else the text grows with the square.
CROWD_TESTS = 4000
#: With so many registers times places, over all blocks' ends, vectors are kept in memory and not in LLVM values; the
#: second number is for a piece of a long kernel.
TANGLED, TANGLED_PIECE = 1500, 300


class Flow:
    """Emits the code between blocks."""

    #: Whether masks and registers may be kept in the warp's record: only this function uses it.
    in_record = True

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.graph = emitter.graph
        self.frontiers = emitter.shapes.frontiers
        self.full = full_blocks(self.graph, self.frontiers, emitter.launch.threads) if self.in_record else set()
        waitable = set().union(*self.frontiers)
        for block in self.graph.blocks:
            if block.index in emitter.shapes.divergent or self.frontiers[block.index]:
                waitable |= set(block.successors)
        self.is_cut = emitter.is_cut = self.in_record and is_long(self.graph, self.frontiers)
        self.pieces = cut(self.graph) if self.is_cut else [whole(self.graph)]
        crowded = self.is_cut or sum(len(frontier) for frontier in self.frontiers) > CROWD_TESTS
        self.turns = Turns(emitter, sorted(waitable), crowded=crowded)
        barriers = [] if self._every_barrier_is_whole() else [b for b in self.graph.blocks if b.kind == "barrier"]
        self.points = {b.index: i for i, b in enumerate(barriers)}  # points whose arrivals are counted
        self.resumes: set[int] = set()  # blocks where a warp can resume with one mask
        self.dispatches = False  # whether a warp can resume at any block with waiting lanes
        self.counters_at = align_up(WARP_POINTS + POINT_BYTES * len(self.points), 64)  # data that pieces share
        at = self.counters_at + 64 * self.is_cut
        self.pending_offset = at
        waits = [b for b in self.graph.blocks if b.meets and self.frontiers[b.index]]
        self.counts_parks = len(waits) > 1  # lanes may wait for each other at different instructions
        at = align_up(at + 4 * len(waitable), 64)
        self.entries = self._entries()
        live = set().union(*(self.graph.blocks[entry].live_in for entry in self.entries))
        self.frame = Frame(emitter, sorted(name for name in live if name in emitter.registers), at)
        self.warp_bytes = self.frame.end

    def begin(self, piece: Piece | None) -> None:
        """Emit blocks of one piece from now on; None: of the function that runs the pieces."""
        self.turns.begin(piece)
        self.frame.begin(piece, hold=self._holds(piece))

    def _every_barrier_is_whole(self) -> bool:
        """Whether a barrier completes when every warp that has not exited waits, so that no arrivals are counted.

        That is so if all live lanes of a warp wait together, no thread arrives without waiting, and there is one
        barrier.
        """
        ids = set()
        for block in self.graph.blocks:
            if block.kind == "barrier":
                assert block.end is not None
                if self.frontiers[block.index] or not barriers.is_plain(block.end):
                    return False
                ids.add(barriers.identity_of(block.end))
        return len(ids) <= 1 and not self.e.functions

    def _entries(self) -> set[int]:
        """Blocks where a warp can start, resume, or come from another piece."""
        found = {0} if self.is_cut else set()
        for piece in self.pieces:
            found |= {s for i in piece.blocks for s in self.graph.blocks[i].successors if s not in piece.blocks}
        found |= {s for b in self.graph.blocks if b.kind == "barrier" for s in b.successors}
        found |= {b.index for b in self.graph.blocks if b.gives_way or b.lets_others_issue}
        return found | {target for _, target in self.graph.back_edges} | set(self.turns.waitable)

    def _holds(self, piece: Piece | None) -> bool:
        """Whether a piece keeps vectors in the warp's record."""
        if piece is None or not self.in_record:
            return False
        return self._tangles(piece) > (TANGLED_PIECE if self.is_cut else TANGLED)

    def _tangles(self, piece: Piece) -> int:
        """Number of phi values at the ends of blocks: live registers times targets."""
        return sum(
            len(piece.touched & self.graph.blocks[target].live_in)
            for index in piece.blocks
            if self.frontiers[index]
            for target in {*self.frontiers[index], *self.graph.blocks[index].successors}
            if target in piece.blocks
        )

    # -- blocks -------------------------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Start a block: its mask, its fuel, and reconvergence."""
        code, e = self.e.code, self.e
        code.place(f"B{block.index}")
        e.block = block.index
        if block.meets and self.frontiers[block.index]:
            reconvergence.wait(self.turns, block, counts_parks=self.counts_parks)
        if self.counts_parks:
            code.put(code.const("i32", 0), "%parks")
        e.mask = ALL_LANES if block.index in self.full else code.op("load i32, ptr %mask", "i32")
        if block.cost:
            fuel = code.op("load i64, ptr %fuel", "i64")
            code.put(code.sub(fuel, code.const("i64", block.cost)), "%fuel")
        e.tallied = {}
        e.run_event(block.index)

    def leave(self, block: Block) -> None:
        """Emit a block's end."""
        match block.kind:
            case "jump":
                self._go(block, block.successors[0])
            case "branch":
                self._branch(block)
            case "switch":
                self._switch(block)
            case "barrier":
                self._barrier(block)
            case "exit":
                self._exit(block)
            case "trap":
                self._trap(block)

    def _branch(self, block: Block) -> None:
        code, e = self.e.code, self.e
        taken, fall = block.successors
        predicate = e.read(tree.Register(block.predicate), "pred", base=True)
        if block.negated:
            predicate = code.not_(predicate)
        self._told_branch(block, predicate)
        if taken == fall:
            self._go(block, taken)
        elif predicate.lanes == 1:
            shape = e.shapes.operand(tree.Register(block.predicate))
            if shape.constant is not None:
                self._go(block, taken if bool(shape.constant) != block.negated else fall)
                return
            yes, no = code.label("then"), code.label("else")
            code.branch_if(predicate, yes, no)
            code.place(yes)
            self._go(block, taken)
            code.place(no)
            self._go(block, fall)
        else:
            lanes = code.mask_bits(predicate)
            there = code.and_(e.mask, lanes)
            here = code.and_(e.mask, code.not_(lanes))
            self._split(block, [(taken, there), (fall, here)])

    def _told_branch(self, block: Block, predicate: Value) -> None:
        """Notify instruments of the lanes that take a branch."""
        if not self.e.instruments or block.end is None:
            return
        lanes = self.e.code.mask_bits(predicate)
        self.e.event(EventKind.BRANCH, block.end.instruction, self.e.mask, self.e.code.and_(lanes, self.e.mask))

    def released(self, block: int, mask: Value) -> None:
        """Notify instruments that lanes go on at a block after a barrier."""
        for before in self.graph.blocks:
            if before.kind == "barrier" and block in before.successors and before.end is not None:
                self.e.event(EventKind.RELEASE, before.end.instruction, mask)
                return

    def _switch(self, block: Block) -> None:
        code, e = self.e.code, self.e
        assert block.end is not None
        index = e.read(block.end.sources[0], "u32")
        if index.lanes == 1 and not self.frontiers[block.index]:
            labels = [code.label("case") for _ in block.successors]
            cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
            code.line(f"switch {index}, label %finish [{cases}]")
            for label, successor in zip(labels, block.successors, strict=True):
                code.place(label)
                self._go(block, successor)
            return
        parts = []
        for i, successor in enumerate(block.successors):
            equal = code.icmp("eq", index, code.const("i32", i))
            parts.append((successor, code.and_(e.mask, code.mask_bits(equal))))
        self._split(block, parts)

    def _go(self, block: Block, target: int) -> None:
        """All running lanes go on at one block."""
        back = (block.index, target) in self.graph.back_edges
        waiting = self.frontiers[block.index]
        code, e = self.e.code, self.e
        if back:
            self._pay(block, target, [(target, e.mask)])
        if self.graph.blocks[target].lets_others_issue:
            self._leave_if(Value("true", "i1"), block, target, [(target, e.mask)], GAVE_WAY)
        elif self.graph.blocks[target].gives_way:
            asked = Value(code.invoke("tw_gives_way", "i32", "ptr %context"), "i32")
            self._leave_if(code.icmp("ne", asked, code.const("i32", 0)), block, target, [(target, e.mask)])
        if not waiting or (target not in self.turns.places and not waiting - {target}):
            self._go_plainly(target)
            return
        crowd = self.turns.looks_elsewhere(len(waiting))
        if target in self.turns.places and (crowd or not self.turns.is_here(target)):
            self.turns.add_pending(target, e.mask)
            self.turns.share("dispatch")
            return
        # a lower block may have lanes waiting; those of sticky blocks wait there on purpose
        for other in sorted(w for w in waiting if w < target):
            self.turns.try_(other, [(target, e.mask)])
        if target in self.turns.places:
            place = self.turns.pending(target)
            pending = code.op(f"load i32, ptr {place}", "i32")
            code.put(code.const("i32", 0), place)
            code.put(code.or_(e.mask, pending), "%mask")
        code.branch(f"B{target}")

    def _go_plainly(self, target: int) -> None:
        """All runnable lanes of the warp go on at one block, which may belong to another piece."""
        if self.turns.is_here(target):
            if self.is_cut and self.turns.piece is not None:
                self.e.jump_apart(f"B{target}")
            else:
                self.e.code.branch(f"B{target}")
            return
        self.frame.save(self.graph.blocks[target].live_in)
        self.e.set_field("%warp", WARP["mask"], self.e.mask)
        self.leave_with(ELSEWHERE, resume=target + 1)

    def _split(self, block: Block, parts: list[tuple[int, Value]]) -> None:
        """Lanes go to several blocks: the lowest block with lanes runs, the others wait."""
        code = self.e.code
        backs = [t for t, _ in parts if (block.index, t) in self.graph.back_edges]
        waiting = self.frontiers[block.index]
        for target, mask in parts:
            self.turns.add_pending(target, mask)
        if backs:
            self._pay(block, backs[0], [])
        self.turns.dispatch(sorted(waiting | {t for t, _ in parts}))
        code.branch("finish")

    def point_at(self, point: int) -> int:
        """Byte offset of a barrier point in the warp's record."""
        return WARP_POINTS + POINT_BYTES * point

    def _barrier(self, block: Block) -> None:
        assert block.end is not None
        op, after, others = block.end, block.successors[0], self.frontiers[block.index]
        barriers.check_literals(self.e, op)
        barriers.notify(self.e, op)
        if not self.points:
            self._wait_whole(block, after)
        elif others:
            barriers.reach(self.e, op, self.point_at(self.points[block.index]))
            self.dispatches = True
            self.turns.dispatch(sorted(others | {after}))
            self.e.code.branch("finish")
        elif barriers.form_of(op) == ARRIVE:
            barriers.pass_by(self.e, op)
            self._go(block, after)
        else:
            barriers.reach(self.e, op, self.point_at(self.points[block.index]))
            self._wait_whole(block, after)

    def _wait_whole(self, block: Block, after: int) -> None:
        """All live lanes of the warp wait, and go on at one block."""
        self._note_loop(block)
        self._leave_at(after, BLOCKED)

    def _exit(self, block: Block) -> None:
        code, e = self.e.code, self.e
        live = e.field("%warp", WARP["live"], "i32")
        e.set_field("%warp", WARP["live"], code.and_(live, code.not_(e.mask)))
        if block.end is not None:
            e.event(EventKind.EXIT, block.end.instruction, e.mask)
        self.turns.dispatch(sorted(self.frontiers[block.index]))
        code.branch("finish")

    def _trap(self, block: Block) -> None:
        e = self.e
        assert block.end is not None
        item = block.end.instruction
        site = e.add_site(Site(EventKind.RUN, item.ptx_line, e.source_of(item), item.name))
        e.code.invoke("tw_stop", "void", "ptr %context", "ptr %warp", f"i32 {site}", e.mask, f"i64 {TRAP}")
        e.code.branch("fault")

    # -- fuel and leaving ---------------------------------------------------------------------------------------

    def _empty(self) -> Value:
        fuel = self.e.code.op("load i64, ptr %fuel", "i64")
        return self.e.code.icmp("slt", fuel, self.e.code.const("i64", 0))

    def _pay(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        """At a back edge: return when the fuel is spent; a spinning lane lets others run.

        If all lanes go back, they wait meanwhile. If lanes diverge, they are already pending and `waits` is empty.
        """
        if target in self.graph.await_headers:
            self._give_way(block, target, waits)
        self._spend(block, target, waits)
        if target in self.graph.spin_headers and (self.frontiers[block.index] or not waits):
            self.turns.rotate(block, target, waits)

    def _spend(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        self._leave_if(self._empty(), block, target, waits)

    def _leave_if(
        self, condition: Value, block: Block, target: int, waits: list[tuple[int, Value]], status: int = YIELDED
    ) -> None:
        """Return, so that other warps run, if a condition holds."""
        code = self.e.code
        on, out = code.label("on"), code.label("out")
        code.branch_if(condition, out, on, likely=False)
        code.place(out)
        self._note_loop(block)
        if self.frontiers[block.index] or not waits:
            for waiting, mask in waits:
                self.turns.add_pending(waiting, mask)
            self._yield_all()
        else:
            self._leave_at(target, status)
        code.place(on)

    def _give_way(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        """At a back edge: return if the last test of an mbarrier failed; then other lanes of the warp run first."""
        code, e = self.e.code, self.e
        on, out = code.label("on"), code.label("await")
        failed = code.icmp("ne", e.field("%warp", WARP["awaits"], "i32"), code.const("i32", 0))
        code.branch_if(failed, out, on, likely=False)
        code.place(out)
        self._note_loop(block)
        e.set_field("%warp", WARP["awaits"], code.const("i32", 0))
        if self.frontiers[block.index] or not waits:
            for waiting, mask in waits:
                self.turns.add_pending(waiting, mask)
            e.set_field("%warp", WARP["avoid"], code.const("i32", target))
            self.turns.parks = self.dispatches = True
            self.turns.share("await.all")
        else:
            self._leave_at(target, AWAITS)
        code.place(on)

    def _leave_at(self, target: int, status: int) -> None:
        """Return; the running lanes resume at a block."""
        self.resumes.add(target)
        self.frame.save(self.graph.blocks[target].live_in)
        self.e.set_field("%warp", WARP["mask"], self.e.mask)
        self.leave_with(status, resume=target + 1)

    def _yield_all(self) -> None:
        """Return with all registers saved; the warp resumes at the lowest block with lanes."""
        if self.turns.crowded:
            self.dispatches = True
            self.turns.share("yield.all")
            return
        self.save_all()
        self.leave_with(YIELDED, resume=AGAIN)

    def _note_loop(self, block: Block) -> None:
        """Store the current back edge or barrier in the warp's record, for errors about limits."""
        e = self.e
        item = (block.end or block.ops[-1]).instruction if block.end or block.ops else None
        site = Site(EventKind.RUN, item.ptx_line, e.source_of(item), item.name) if item is not None else None
        number = 0 if site is None else e.add_site(site) + 1
        e.set_field("%warp", WARP["loop_site"], e.code.const("i32", number))
        e.set_field("%warp", WARP["loop_lanes"], e.mask)

    def leave_with(self, status: int, resume: int) -> None:
        """Return a status; the warp resumes at block `resume` - 1, or as `AGAIN` and `OTHERS` define."""
        code = self.e.code
        code.put(code.const("i32", status), "%status")
        self.e.set_field("%warp", WARP["resume"], code.const("i32", resume))
        code.branch("leave")

    def save_all(self) -> None:
        """All registers that can be live in a block where lanes wait."""
        self.dispatches = True
        self.frame.save(self.frame.at)
