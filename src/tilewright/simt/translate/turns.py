"""Turns: which lanes of a warp wait at which block, and who goes next.

Every block that can be waited in has a pending mask. Lanes that part are pending until their block's turn comes, in the
order of blocks' numbers. Lanes that spin on memory let the others of their warp go first from time to time.
"""

from __future__ import annotations

from tilewright.simt.translate.code import Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.graph import Block
from tilewright.simt.translate.pieces import Piece

#: A lane that spins lets the others go first every so many rounds.
SPIN_ROUNDS = 32
#: Most tests that a crowded function emits in place.
_TESTS_IN_PLACE = 4


class Turns:
    """Emits the code that chooses which lanes run next.

    `waitable` are the blocks that lanes can wait at, and a `crowded` function has in one place what the ends of many
    blocks have in common.
    """

    def __init__(self, emitter: Emitter, waitable: list[int], *, crowded: bool) -> None:
        self.e = emitter
        self.graph = emitter.graph
        self.frontiers = emitter.shapes.frontiers  # for each block, those where other lanes of the warp may wait
        self.waitable = waitable
        self.places = {block: i for i, block in enumerate(waitable)}  # of pending masks
        self.crowded = crowded
        self.parks = False  # whether lanes wait for others before they reconverge
        self.begin(None)

    def begin(self, piece: Piece | None) -> None:
        """Emit blocks of one piece from now on; None: the function that runs the pieces."""
        self.piece = piece
        self.shared: set[str] = set()  # of "dispatch", "yield.all" and "others", those that some block's end goes to

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
        return self.e.code.op(f"getelementptr i32, ptr %pending, i64 {self.places[block]}", "ptr").text

    def add_pending(self, block: int, mask: Value) -> None:
        """Let lanes wait for their turn at a block."""
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
