"""Turns: the blocks where lanes of a warp wait, and the choice of the next block.

Every block where lanes can wait has a pending mask. Divergent lanes are pending until their block's turn comes, in the
order of the blocks' numbers. Lanes that spin on memory sometimes let the others of their warp run first.
"""

from __future__ import annotations

from tilewright.simulate.code import Value
from tilewright.simulate.translate.analysis.graph import Block
from tilewright.simulate.translate.analysis.pieces import Piece
from tilewright.simulate.translate.lowering.emitter import Emitter

#: A spinning lane lets the others run first every so many iterations.
SPIN_ROUNDS = 32
#: Most tests that a crowded function emits in place.
_TESTS_IN_PLACE = 4


class Turns:
    """Emits the code that chooses which lanes run next.

    `waitable` are the blocks where lanes can wait. A `crowded` function has the common code of many blocks' ends in one
    place.
    """

    def __init__(self, emitter: Emitter, waitable: list[int], *, crowded: bool) -> None:
        self.e = emitter
        self.graph = emitter.graph
        self.frontiers = emitter.shapes.frontiers  # for each block, the blocks where other lanes may wait
        self.waitable = waitable
        self.places = {block: i for i, block in enumerate(waitable)}  # indices of pending masks
        self.crowded = crowded
        self.parks = False  # whether lanes wait for others before they reconverge
        self.begin(None)

    def begin(self, piece: Piece | None) -> None:
        """Emit blocks of one piece from now on; None: of the function that runs the pieces."""
        self.piece = piece
        self.shared: set[str] = set()  # those of "dispatch", "yield.all" and "others" that some block's end uses

    def share(self, name: str) -> None:
        """End a block with a jump to a shared block."""
        self.shared.add(name)
        self.e.code.branch(name)

    def looks_elsewhere(self, candidates: int) -> bool:
        """Whether so many blocks are tested in a place that all blocks' ends share."""
        return self.crowded and candidates > _TESTS_IN_PLACE

    def is_here(self, block: int) -> bool:
        """Whether a block is in the current piece, or the current function can jump to any block."""
        return self.piece is None or block in self.piece.blocks

    def pending(self, block: int) -> str:
        """The address of a block's pending mask."""
        return self.e.code.op(f"getelementptr i32, ptr %pending, i64 {self.places[block]}", "ptr").text

    def add_pending(self, block: int, mask: Value) -> None:
        """Make lanes pending at a block."""
        code = self.e.code
        place = self.pending(block)
        old = code.op(f"load i32, ptr {place}", "i32")
        code.put(code.or_(old, mask), place)

    def try_(self, other: int, waits: list[tuple[int, Value]]) -> None:
        """Run a block if lanes wait there, leaving the given lanes pending."""
        code = self.e.code
        pending = code.op(f"load i32, ptr {self.pending(other)}", "i32")
        yes, no = code.label("run"), code.label("skip")
        code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), yes, no)
        code.place(yes)
        for target, mask in waits:
            self.add_pending(target, mask)
        self.run(other, code.op(f"load i32, ptr {self.pending(other)}", "i32") if waits else pending)
        code.place(no)

    def run(self, block: int, mask: Value) -> None:
        """Jump to a block with these lanes, which were pending there; in another piece they stay pending."""
        code = self.e.code
        if not self.is_here(block):
            self.share("dispatch")
            return
        code.put(code.const("i32", 0), self.pending(block))
        code.put(mask, "%mask")
        code.branch(f"B{block}")

    def dispatch(self, candidates: list[int]) -> None:
        """Run the first candidate with pending lanes; falls through when there is none.

        Only candidates can have pending lanes, so a crowded function tests all blocks, in one shared place.
        """
        code = self.e.code
        if self.looks_elsewhere(len(candidates)):
            self.share("dispatch")
            code.place(code.label("never"))
            return
        for block in candidates:
            if block in self.places:
                self.try_(block, [])

    def rotate(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        """Every SPIN_ROUNDS rounds, run any other pending block first."""
        code = self.e.code
        spins = code.op("load i32, ptr %spins", "i32")
        more = code.add(spins, code.const("i32", 1))
        code.put(more, "%spins")
        low = code.and_(more, code.const("i32", SPIN_ROUNDS - 1))
        turn, stay = code.label("turn"), code.label("stay")
        code.branch_if(code.icmp("eq", low, code.const("i32", 0)), turn, stay, likely=False)
        code.place(turn)
        if self.crowded and target in self.places:
            for waiting, mask in waits:
                self.add_pending(waiting, mask)
            code.put(code.const("i32", target), "%avoid")
            self.parks = True
            self.share("others")
            code.place(stay)
            return
        others = self.frontiers[block.index] | set(block.successors)
        for other in sorted(others - {target}):
            if other in self.places:
                self.try_(other, waits)
        code.branch(stay)
        code.place(stay)
