"""Turns: which lanes of a warp wait at which block, who goes next, and when a warp lets others by.

Every block that can be waited in has a pending mask. Lanes that part are pending until their block's turn comes, in the
order of blocks' numbers. At back edges a warp returns to the scheduler when its fuel is spent, and lanes that spin on
memory let the others of their warp go first from time to time.
"""

from __future__ import annotations

from tilewright.simt.events import EventKind, Site
from tilewright.simt.translate.code import Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.frame import Frame
from tilewright.simt.translate.graph import Block, Graph
from tilewright.simt.translate.pieces import Piece
from tilewright.simt.translate.state import WARP, YIELDED

#: A lane that spins lets the others go first every so many rounds.
SPIN_ROUNDS = 32
#: What a piece returns when the warp goes on in another one; never seen outside.
ELSEWHERE = 5
#: Where a warp resumes: at the lowest block with waiting lanes, or at the next one after the block that `avoid` names.
AGAIN, OTHERS = -1, -2
#: Most tests that a crowded function emits in place.
_TESTS_IN_PLACE = 4


class Turns:
    """Emits the code that chooses which lanes run next.

    Attributes
    ----------
    e : Emitter
    graph : Graph
    frontiers : list of set of int
        For each block, those where other lanes of the warp may wait.
    waitable_at : dict of int to int
        Each block that lanes can wait at, with the place of its pending mask.
    crowded : bool
        Whether what many blocks' ends have in common stands in one place.
    frame : Frame
    piece : Piece or None
        The one at work; None in the function that runs the pieces.
    shared : set of str
        Of "dispatch", "yield.all" and "others", those that some block's end goes to.
    resumes : set of int
        Blocks that a warp can resume at with one mask.
    parks, dispatches : bool
        Whether lanes wait for others before they reconverge, and whether the general dispatcher is needed.
    """

    e: Emitter
    graph: Graph
    frontiers: list[set[int]]
    waitable_at: dict[int, int]
    crowded: bool
    frame: Frame
    piece: Piece | None
    shared: set[str]
    resumes: set[int]
    parks: bool
    dispatches: bool

    def share(self, name: str) -> None:
        """End a block in one that all have in common."""
        self.shared.add(name)
        self.e.code.branch(name)

    def looks_elsewhere(self, candidates: int) -> bool:
        """Whether so many blocks are looked through in a place that all blocks' ends share."""
        return self.crowded and candidates > _TESTS_IN_PLACE

    def is_here(self, block: int) -> bool:
        """Whether a block belongs to the piece at work, or to a function that can go to any."""
        return self.piece is None or block in self.piece.blocks

    def pending(self, block: int) -> str:
        """The place of the mask of lanes that wait for their turn at a block."""
        return self.e.code.op(f"getelementptr i32, ptr %pending, i64 {self.waitable_at[block]}", "ptr").text

    def add_pending(self, block: int, mask: Value) -> None:
        """Let lanes wait for their turn at a block."""
        code = self.e.code
        place = self.pending(block)
        old = code.op(f"load i32, ptr {place}", "i32")
        code.put(code.or_(old, mask), place)

    def _try(self, other: int, waits: list[tuple[int, Value]]) -> None:
        """Run a block if lanes wait there, leaving the given lanes pending."""
        code = self.e.code
        pending = code.op(f"load i32, ptr {self.pending(other)}", "i32")
        yes, no = code.label("run"), code.label("skip")
        code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), yes, no)
        code.place(yes)
        for target, mask in waits:
            self.add_pending(target, mask)
        self.run(other, code.op(f"load i32, ptr {self.pending(other)}", "i32"))
        code.place(no)

    def run(self, block: int, mask: Value) -> None:
        """Go to a block with these lanes, which were pending there; in another piece they still are."""
        code = self.e.code
        if not self.is_here(block):
            self.share("dispatch")
            return
        code.put(code.const("i32", 0), self.pending(block))
        code.put(mask, "%mask")
        code.branch(f"B{block}")

    def dispatch(self, candidates: list[int]) -> None:
        """Run the first candidate with pending lanes; falls through when there is none.

        Only candidates can have any, so a crowded function looks through all blocks, in a place for all.
        """
        code = self.e.code
        if self.looks_elsewhere(len(candidates)):
            self.share("dispatch")
            code.place(code.label("never"))
            return
        for block in candidates:
            if block not in self.waitable_at:
                continue
            pending = code.op(f"load i32, ptr {self.pending(block)}", "i32")
            yes, no = code.label("run"), code.label("skip")
            code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), yes, no)
            code.place(yes)
            self.run(block, pending)
            code.place(no)

    # -- fuel and leaving -----------------------------------------------------------------------------------------

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
            self.leave_with(YIELDED, resume=target + 1)
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
            self.share("yield.all")
            return
        self.save_all()
        self.leave_with(YIELDED, resume=AGAIN)

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
        code.put(more, "%spins")
        low = code.and_(more, code.const("i32", SPIN_ROUNDS - 1))
        turn, stay = code.label("turn"), code.label("stay")
        code.branch_if(code.icmp("eq", low, code.const("i32", 0)), turn, stay, likely=False)
        code.place(turn)
        if self.crowded and target in self.waitable_at:
            for waiting, mask in waits:
                self.add_pending(waiting, mask)
            code.put(code.const("i32", target), "%avoid")
            self.parks = True
            self.share("others")
            code.place(stay)
            return
        others = self.frontiers[block.index] | set(block.successors)
        for other in sorted(others - {target}):
            if other in self.waitable_at:
                self._try(other, waits)
        code.branch(stay)
        code.place(stay)

    def leave_with(self, status: int, resume: int) -> None:
        """Return a status; the warp goes on at block `resume` - 1, or as `AGAIN` and `OTHERS` say."""
        code = self.e.code
        code.put(code.const("i32", status), "%status")
        self.e.set_field("%warp", WARP["resume"], code.const("i32", resume))
        code.branch("leave")

    def save_all(self) -> None:
        """Everything that can be live in any block where lanes wait."""
        self.dispatches = True
        self.frame.save(self.frame.at)
