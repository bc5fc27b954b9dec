"""Control flow: which block runs next, who waits where, and how a warp leaves and comes back.

A block whose frontier is empty jumps plainly. Elsewhere every block that can be waited in has a pending mask, and the
end of a block tests the candidates in order of their numbers. A warp returns to the scheduler at barriers and, when its
fuel is spent, at back edges; it saves the registers that are live where it will go on.
"""

from __future__ import annotations

from tilewright.simt.events import VALUES_MAX, VALUES_STRIDE_BYTES, EventKind, Site
from tilewright.simt.ptx import tree
from tilewright.simt.translate import barriers, meetings
from tilewright.simt.translate.code import LANES, Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.frame import Frame
from tilewright.simt.translate.graph import Block
from tilewright.simt.translate.layout import align_up
from tilewright.simt.translate.state import (
    ARRIVE,
    BLOCKED,
    DONE,
    FAULT,
    POINT,
    POINT_BYTES,
    SLOT,
    TRAP,
    WARP,
    WARP_POINTS,
    YIELDED,
)

#: A lane that spins lets the others go first every so many rounds.
SPIN_ROUNDS = 32
#: Tests of pending blocks, over all blocks' ends, from which on they are shared: the text would grow with the square.
CROWD_TESTS = 4000
#: Registers times places, over all blocks' ends, from which on vectors are not held in values of LLVM's but in memory.
TANGLED = 1500
#: As many tests a crowded function still makes in place.
_TESTS_IN_PLACE = 4


class Flow:
    """Emits what stands between blocks."""

    #: Whether the warp's record is this function's own, so that masks and registers may live there.
    in_record = True

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.graph = emitter.graph
        self.frontiers = emitter.shapes.frontiers
        waitable = set().union(*self.frontiers)
        for block in self.graph.blocks:
            if block.index in emitter.shapes.divergent or self.frontiers[block.index]:
                waitable |= set(block.successors)
        self.waitable = sorted(waitable)
        self.crowded = sum(len(frontier) for frontier in self.frontiers) > CROWD_TESTS
        self._shared: set[str] = set()  # of "dispatch" and "yield.all", those that some block's end goes to
        barriers = [] if self._every_barrier_is_whole() else [b for b in self.graph.blocks if b.kind == "barrier"]
        self.points = {b.index: i for i, b in enumerate(barriers)}  # where arrivals must be counted
        self.resumes: set[int] = set()  # blocks a warp can resume at with one mask
        self.parks = False  # whether lanes wait for others at a meeting
        self.dispatches = False  # whether the general dispatcher is needed
        at = align_up(WARP_POINTS + POINT_BYTES * len(self.points), 64)
        self._pending_offset = at
        self.pending_at = {block: at + 4 * i for i, block in enumerate(self.waitable)}
        meetings = [b for b in self.graph.blocks if b.meets and self.frontiers[b.index]]
        self.counts_parks = len(meetings) > 1  # lanes could wait for each other at different instructions
        at = align_up(at + 4 * len(self.waitable), 64)
        self.frame = Frame(emitter, self._saved_registers(), at)
        if self.in_record and self._tangles() > TANGLED:
            self.frame.hold()
        self.warp_bytes = self.frame.end

    def _every_barrier_is_whole(self) -> bool:
        """Whether barriers are passed when every warp that has not exited waits at one, so that nothing is counted.

        All live lanes of a warp wait together, no thread arrives without waiting, and there is one barrier id.
        """
        ids = set()
        for block in self.graph.blocks:
            if block.kind == "barrier":
                assert block.end is not None
                if self.frontiers[block.index] or not barriers.is_plain(block.end):
                    return False
                ids.add(barriers.identity_of(block.end))
        return len(ids) <= 1 and not self.e.functions

    def _saved_registers(self) -> list[str]:
        """Registers that can be live where a warp resumes."""
        places = {s for b in self.graph.blocks if b.kind == "barrier" for s in b.successors}
        places |= {target for _, target in self.graph.back_edges} | set(self.waitable)
        live = set().union(*(self.graph.blocks[p].live_in for p in places)) if places else set()
        return sorted(name for name in live if name in self.e.registers)

    # -- the function's frame -----------------------------------------------------------------------------------

    def prologue(self) -> None:
        """Allocas, arena pointers, and the switch to where the warp goes on (filled in by `epilogue`)."""
        self._allocas()
        self.e.code.branch("resume.switch")

    def _allocas(self) -> None:
        code = self.e.code
        code.place("entry")
        code.line("%fuel = alloca i64")
        code.line("%mask = alloca i32")
        code.line("%status = alloca i32")
        code.line("%spins = alloca i32")
        code.line("store i32 0, ptr %spins")
        code.line("%parks = alloca i32")
        code.line("store i32 0, ptr %parks")
        code.line("%remaining = alloca i32")
        code.line("%avoid = alloca i32")
        code.line(f"%addresses = alloca <{LANES} x i64>, align 64")
        # Slots of 16 bytes a lane: pointers, old values and operands of the widest atomic, v8 with a cache policy.
        code.line(f"%lanes.scratch = alloca [{18 * 2 * LANES} x i64], align 64")
        # In memory: as values of LLVM's, all masks would meet wherever blocks meet, in thousands of phis.
        in_record = f"getelementptr i8, ptr %warp, i64 {self._pending_offset}"
        code.line(f"%pending = {in_record if self.in_record else f'alloca [{len(self.waitable)} x i32], align 64'}")
        for index, block in enumerate(self.waitable):
            code.line(f"%pending.{block} = getelementptr i32, ptr %pending, i64 {index}")
        self.frame.declare()
        self.e.declare_registers(self.frame.held)
        for name, field in (("global", "global_base"),):
            value = self.e.context(field, "ptr")
            code.line(f"%{name} = getelementptr i8, ptr {value.text}, i64 0")
        code.line(f"%global.limit = add i64 {self.e.context('global_limit').text}, 0")
        code.line(f"%shared.limit = add i64 {self.e.context('shared_bytes').text}, 0")
        code.line(f"%shared = getelementptr i8, ptr {self.e.field('%slot', SLOT['shared'], 'ptr').text}, i64 0")
        warp = code.cast("zext", self.e.field("%warp", WARP["index"], "i32"), "i64")
        stride = align_up(self.e.layout.local_bytes, 16) * LANES  # of a whole warp
        offset = code.mul(warp, code.const("i64", stride))
        local = self.e.field("%slot", SLOT["local"], "ptr")
        code.line(f"%local = getelementptr i8, ptr {local.text}, i64 {offset.text}")
        code.line(f"store i64 {self.e.context('quantum').text}, ptr %fuel")
        for index in range(len(self.e.instruments)):
            self._observer(index)

    def _tangles(self) -> int:
        """How many values would meet at the ends of blocks: registers that live on, times places to go on."""
        return sum(
            len(self.graph.blocks[target].live_in)
            for block in self.graph.blocks
            if self.frontiers[block.index]
            for target in {*self.frontiers[block.index], *block.successors}
        )

    def _observer(self, index: int) -> None:
        """Where an instrument's own memory lies; what its handlers are given, room for addresses and values."""
        e = self.e
        tables = {"launch": e.context("observed_launch", "ptr"), "block": e.field("%slot", SLOT["observed"], "ptr")}
        for name, table in tables.items():
            start = e.field(table.text, 8 * index, "ptr")
            e.code.line(f"%observed.{name}.{index} = getelementptr i8, ptr {start.text}, i64 0")
        if index == 0:
            e.code.line(f"%values = alloca [{VALUES_MAX} x [{VALUES_STRIDE_BYTES} x i8]], align 64")

    def epilogue(self) -> None:
        """The common exits, and the resume points that turned out to be needed."""
        code = self.e.code
        if self.parks:
            meetings.others(self)
        code.place("fault")
        code.line(f"store i32 {FAULT}, ptr %status")
        code.branch("leave")
        code.place("finish")
        if self.dispatches and self.points:
            blocked = code.const("i32", 0)
            for point in self.points.values():
                blocked = code.or_(blocked, self.e.field("%warp", self._point(point) + POINT["blocked"], "i32"))
            code.branch_if(code.icmp("ne", blocked, code.const("i32", 0)), "wait.all", "done")
            code.place("wait.all")
            self._save_all()
            self._leave(BLOCKED, resume=-1)
            code.place("done")
        self._leave(DONE, resume=0)
        code.place("leave")
        fuel = code.op("load i64, ptr %fuel", "i64")
        used = code.sub(self.e.context("quantum"), fuel)
        from tilewright.simt.translate.state import CONTEXT

        self.e.set_field("%context", CONTEXT["instructions"], code.add(self.e.context("instructions"), used))
        status = code.op("load i32, ptr %status", "i32")
        code.line(f"ret {status}")
        self._resume_switch()
        self.emit_shared()

    def _resume_switch(self) -> None:
        code = self.e.code
        code.place("resume.switch")
        resume = self.e.field("%warp", WARP["resume"], "i32")
        cases = [f"i32 {b + 1}, label %resume.{b}" for b in sorted(self.resumes)]
        if self.dispatches:
            cases.append("i32 -1, label %resume.all")
        code.line(f"switch {resume}, label %start [{' '.join(cases)}]")
        code.place("start")
        self._clear_pending()
        self.frame.clear()
        live = self.e.field("%warp", WARP["live"], "i32")
        code.line(f"store {live}, ptr %mask")
        code.branch("B0")
        for block in sorted(self.resumes):
            code.place(f"resume.{block}")
            self.frame.restore(self.graph.blocks[block].live_in)
            mask = self.e.field("%warp", WARP["mask"], "i32")
            code.line(f"store {mask}, ptr %mask")
            self._released(block, mask)
            code.branch(f"B{block}")
        if self.dispatches:
            self._resume_all()

    def _clear_pending(self) -> None:
        for block in self.waitable:
            self.e.code.line(f"store i32 0, ptr %pending.{block}")

    def _resume_all(self) -> None:
        """Go on after a wait in divergent code: released lanes become pending, the lowest block runs."""
        code = self.e.code
        code.place("resume.all")
        self.frame.restore(self.frame.at)
        for block, point in self.points.items():
            after = self.graph.blocks[block].successors[0]
            if not self.frontiers[block]:  # resumes with one mask, kept elsewhere
                continue
            ready = self.e.field("%warp", self._point(point) + POINT["ready"], "i32")
            self.e.set_field("%warp", self._point(point) + POINT["ready"], code.const("i32", 0))
            self._released(after, ready)
            self.add_pending(after, ready)
        self.dispatch(self.waitable)
        code.branch("finish")

    # -- blocks -------------------------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Start a block: its mask, its fuel, and the meeting of lanes where there is one."""
        code, e = self.e.code, self.e
        code.place(f"B{block.index}")
        e.block = block.index
        if block.meets and self.frontiers[block.index]:
            meetings.meet(self, block)
        if self.counts_parks:
            code.line("store i32 0, ptr %parks")
        e.mask = code.op("load i32, ptr %mask", "i32")
        e.mask_vector = code.op(f"bitcast {e.mask} to <{LANES} x i1>", "i1", LANES)
        if block.cost:
            fuel = code.op("load i64, ptr %fuel", "i64")
            code.line(f"store {code.sub(fuel, code.const('i64', block.cost))}, ptr %fuel")
        e.run_event(block.index)

    def emit_shared(self) -> None:
        """What the ends of many blocks have in common, in a crowded function."""
        code = self.e.code
        if "yield.all" in self._shared:
            code.place("yield.all")
            self._save_all()
            self._leave(YIELDED, resume=-1)
        if "dispatch" not in self._shared:
            return
        code.place("dispatch")
        code.branch("dispatch.look")
        code.place("dispatch.look")
        code.line("%dispatch.at = phi i64 [ 0, %dispatch ], [ %dispatch.next, %dispatch.on ]")
        at = Value("%dispatch.at", "i64")
        code.branch_if(code.icmp("uge", at, code.const("i64", len(self.waitable))), "finish", "dispatch.test")
        code.place("dispatch.test")
        place = code.op(f"getelementptr i32, ptr %pending, {at}", "ptr")
        pending = code.op(f"load i32, ptr {place.text}", "i32")
        code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), "dispatch.found", "dispatch.on")
        code.place("dispatch.on")
        code.line("%dispatch.next = add i64 %dispatch.at, 1")
        code.branch("dispatch.look")
        code.place("dispatch.found")
        code.line(f"store i32 0, ptr {place.text}")
        code.line(f"store {pending}, ptr %mask")
        cases = " ".join(f"i64 {index}, label %B{block}" for index, block in enumerate(self.waitable))
        code.line(f"switch {at}, label %finish [{cases}]")

    def _share(self, name: str) -> None:
        """End a block in one that all have in common."""
        self._shared.add(name)
        self.e.code.branch(name)

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
            lanes = code.op(f"bitcast {predicate} to i32", "i32")
            there = code.and_(e.mask, lanes)
            here = code.and_(e.mask, code.not_(lanes))
            self._split(block, [(taken, there), (fall, here)])

    def _told_branch(self, block: Block, predicate: Value) -> None:
        """Tell instruments which lanes take a branch."""
        if not self.e.instruments or block.end is None:
            return
        lanes = self.e.code.op(f"bitcast {self.e.code.splat(predicate)} to i32", "i32")
        self.e.event(EventKind.BRANCH, block.end.instruction, self.e.mask, self.e.code.and_(lanes, self.e.mask))

    def _released(self, block: int, mask: Value) -> None:
        """Tell instruments that lanes go on at a block behind a barrier."""
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
            equal = code.splat(code.icmp("eq", index, code.const("i32", i)))
            lanes = code.op(f"bitcast {equal} to i32", "i32")
            parts.append((successor, code.and_(e.mask, lanes)))
        self._split(block, parts)

    def _go(self, block: Block, target: int) -> None:
        """All running lanes go on at one block."""
        back = (block.index, target) in self.graph.back_edges
        waiting = self.frontiers[block.index]
        code, e = self.e.code, self.e
        if back:
            self._pay(block, target)
        if not waiting:
            code.branch(f"B{target}")
            return
        if target not in self.pending_at and not waiting - {target}:
            code.branch(f"B{target}")
            return
        if self.crowded and len(waiting) > _TESTS_IN_PLACE and target in self.pending_at:
            self.add_pending(target, e.mask)
            self._share("dispatch")
            return
        # a lower block may have lanes waiting; sticky ones were left there on purpose
        for other in sorted(w for w in waiting if w < target):
            self._try(other, [(target, e.mask)])
        if target in self.pending_at:
            pending = code.op(f"load i32, ptr %pending.{target}", "i32")
            code.line(f"store i32 0, ptr %pending.{target}")
            code.line(f"store {code.or_(e.mask, pending)}, ptr %mask")
        code.branch(f"B{target}")

    def _split(self, block: Block, parts: list[tuple[int, Value]]) -> None:
        """Lanes go to several blocks: the lowest block with lanes runs, the others wait."""
        code = self.e.code
        backs = [t for t, _ in parts if (block.index, t) in self.graph.back_edges]
        waiting = self.frontiers[block.index]
        for target, mask in parts:
            self.add_pending(target, mask)
        if backs:
            self._pay_split(block, backs[0])
        self.dispatch(sorted(waiting | {t for t, _ in parts}))
        code.branch("finish")

    def _try(self, other: int, waits: list[tuple[int, Value]]) -> None:
        """Run a block if lanes wait there, leaving the given lanes pending."""
        code = self.e.code
        pending = code.op(f"load i32, ptr %pending.{other}", "i32")
        yes, no = code.label("run"), code.label("skip")
        code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), yes, no)
        code.place(yes)
        for target, mask in waits:
            self.add_pending(target, mask)
        self.run(other, code.op(f"load i32, ptr %pending.{other}", "i32"))
        code.place(no)

    def run(self, block: int, mask: Value) -> None:
        """Go to a block with these lanes, which were pending there."""
        code = self.e.code
        code.line(f"store i32 0, ptr %pending.{block}")
        code.line(f"store {mask}, ptr %mask")
        code.branch(f"B{block}")

    def dispatch(self, candidates: list[int]) -> None:
        """Run the first candidate with pending lanes; falls through when there is none.

        Only candidates can have any, so a crowded function looks through all blocks, in a place for all.
        """
        code = self.e.code
        if self.crowded and len(candidates) > _TESTS_IN_PLACE:
            self._share("dispatch")
            code.place(code.label("never"))
            return
        for block in candidates:
            if block not in self.pending_at:
                continue
            pending = code.op(f"load i32, ptr %pending.{block}", "i32")
            yes, no = code.label("run"), code.label("skip")
            code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), yes, no)
            code.place(yes)
            self.run(block, pending)
            code.place(no)

    def add_pending(self, block: int, mask: Value) -> None:
        """Let lanes wait for their turn at a block."""
        code = self.e.code
        old = code.op(f"load i32, ptr %pending.{block}", "i32")
        code.line(f"store {code.or_(old, mask)}, ptr %pending.{block}")

    # -- fuel, waits, ends --------------------------------------------------------------------------------------

    def _empty(self) -> Value:
        fuel = self.e.code.op("load i64, ptr %fuel", "i64")
        return self.e.code.icmp("slt", fuel, self.e.code.const("i64", 0))

    def _pay(self, block: Block, target: int) -> None:
        """At a back edge that all lanes take: return when the fuel is spent, let others by when spinning."""
        code, e = self.e.code, self.e
        on, out = code.label("on"), code.label("out")
        code.branch_if(self._empty(), out, on, likely=False)
        code.place(out)
        self._note_loop(block)
        if self.frontiers[block.index]:
            self.add_pending(target, e.mask)
            self._yield_all()
        else:
            self.resumes.add(target)
            self.frame.save(self.graph.blocks[target].live_in)
            e.set_field("%warp", WARP["mask"], e.mask)
            self._leave(YIELDED, resume=target + 1)
        code.place(on)
        if target in self.graph.spin_headers and self.frontiers[block.index]:
            self._rotate(block, target, [(target, e.mask)])

    def _pay_split(self, block: Block, target: int) -> None:
        """The same where lanes part: all of them are pending already."""
        code = self.e.code
        on, out = code.label("on"), code.label("out")
        code.branch_if(self._empty(), out, on, likely=False)
        code.place(out)
        self._note_loop(block)
        self._yield_all()
        code.place(on)
        if target in self.graph.spin_headers:
            self._rotate(block, target, [])

    def _yield_all(self) -> None:
        """Return with everything saved, to go on with the lowest block that has lanes."""
        if self.crowded:
            self.dispatches = True
            self._share("yield.all")
            return
        self._save_all()
        self._leave(YIELDED, resume=-1)

    def _note_loop(self, block: Block) -> None:
        """Leave in the warp's record which branch back or barrier it is at: what an error about a limit says."""
        e = self.e
        item = (block.end or block.ops[-1]).instruction if block.end or block.ops else None
        site = Site(EventKind.RUN, item.ptx_line, e.source_of(item), item.name) if item is not None else None
        number = 0 if site is None else e.add_site(site) + 1
        e.set_field("%warp", WARP["loop_site"], e.code.const("i32", number))
        e.set_field("%warp", WARP["loop_lanes"], e.mask)

    def _rotate(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        """Every SPIN_ROUNDS rounds, run any other pending block first."""
        code = self.e.code
        spins = code.op("load i32, ptr %spins", "i32")
        more = code.add(spins, code.const("i32", 1))
        code.line(f"store {more}, ptr %spins")
        low = code.and_(more, code.const("i32", SPIN_ROUNDS - 1))
        turn, stay = code.label("turn"), code.label("stay")
        code.branch_if(code.icmp("eq", low, code.const("i32", 0)), turn, stay, likely=False)
        code.place(turn)
        if self.crowded and target in self.pending_at:
            for waiting, mask in waits:
                self.add_pending(waiting, mask)
            code.line(f"store i32 {target}, ptr %avoid")
            self.parks = True
            code.branch("others")
            code.place(stay)
            return
        others = self.frontiers[block.index] | set(block.successors)
        for other in sorted(others - {target}):
            if other in self.pending_at:
                self._try(other, waits)
        code.branch(stay)
        code.place(stay)

    def _point(self, point: int) -> int:
        return WARP_POINTS + POINT_BYTES * point

    def _barrier(self, block: Block) -> None:
        assert block.end is not None
        op, after, others = block.end, block.successors[0], self.frontiers[block.index]
        barriers.check_literals(self.e, op)
        barriers.tell(self.e, op)
        if not self.points:
            self._wait_whole(block, after)
        elif others:
            barriers.reach(self.e, op, self._point(self.points[block.index]))
            self.dispatches = True
            self.dispatch(sorted(others | {after}))
            self.e.code.branch("finish")
        elif barriers.form_of(op) == ARRIVE:
            barriers.pass_by(self.e, op)
            self._go(block, after)
        else:
            barriers.reach(self.e, op, self._point(self.points[block.index]))
            self._wait_whole(block, after)

    def _wait_whole(self, block: Block, after: int) -> None:
        """All live lanes of the warp wait, and go on at one block."""
        self._note_loop(block)
        self.resumes.add(after)
        self.frame.save(self.graph.blocks[after].live_in)
        self.e.set_field("%warp", WARP["mask"], self.e.mask)
        self._leave(BLOCKED, resume=after + 1)

    def _exit(self, block: Block) -> None:
        code, e = self.e.code, self.e
        live = e.field("%warp", WARP["live"], "i32")
        e.set_field("%warp", WARP["live"], code.and_(live, code.not_(e.mask)))
        if block.end is not None:
            e.event(EventKind.EXIT, block.end.instruction, e.mask)
        self.dispatch(sorted(self.frontiers[block.index]))
        code.branch("finish")

    def _trap(self, block: Block) -> None:
        from tilewright.simt.translate.access import declare_runtime

        e = self.e
        assert block.end is not None
        item = block.end.instruction
        site = e.add_site(Site(EventKind.RUN, item.ptx_line, e.source_of(item), item.name))
        declare_runtime(e, "tw.stop", "void", "ptr, ptr, i32, i32, i64")
        e.code.line(f"call void @tw.stop(ptr %context, ptr %warp, i32 {site}, {e.mask}, i64 {TRAP})")
        e.code.branch("fault")

    def _leave(self, status: int, resume: int) -> None:
        code = self.e.code
        code.line(f"store i32 {status}, ptr %status")
        self.e.set_field("%warp", WARP["resume"], code.const("i32", resume))
        code.branch("leave")

    def _save_all(self) -> None:
        """Everything that can be live in any block where lanes wait."""
        self.dispatches = True
        self.frame.save(self.frame.at)
