"""Which of two accesses a thread makes first, where no barrier of the block holds it back: the second overtakes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.observe.checking.static.values import Values
from tilewright.simulate.ptx.frames import package
from tilewright.simulate.translate.analysis.graph import Op


@dataclass(frozen=True, slots=True)
class Order:
    """Two accesses of one thread with no barrier on some way from the first to the second.

    `first` and `second` are their places in the source, `file:line`, each followed by those of the calls that lead
    there.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    around: bool  #: Whether each such way goes round a loop.
    turned: bool  #: Whether the first is the pair's second.


def orders(values: Values, ptx_line: int, other_line: int, *, of_warp: bool = False) -> list[Order]:
    """The orders in which a thread may make two accesses, by their PTX lines, without a barrier in between.

    With `of_warp` the barriers of a warp count too. Neither order is known where the accesses are in two branches.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64 .file 1 "k.cu"
    ... .entry k() { .reg .pred %p<2>; .reg .b32 %r<2>; .shared .b32 s; mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0;
    ... L: .loc 1 5 1
    ... st.shared.u32 [s], 1;
    ... bar.sync 0; .loc 1 7 1
    ... ld.shared.u32 %r1, [s];
    ... @%p1 bra L; ret; }'''
    >>> orders(of_kernel(text, "k"), 4, 6)
    [Order(first=('k.cu:7',), second=('k.cu:5',), around=True, turned=True)]
    """
    found = []
    for first, second in ((ptx_line, other_line), (other_line, ptx_line)):
        ways = [way for op in values.at(first) for way in _ways(values, op, second, of_warp=of_warp)]
        if ways:
            around = all(round_ for _, _, round_ in ways)
            start, end, _ = next(way for way in ways if way[2] == around)
            turned = first != ptx_line
            found.append(Order(_places(values, start), _places(values, end), around, turned))
        if ptx_line == other_line:
            break
    return found


def _places(values: Values, op: Op) -> tuple[str, ...]:
    frames = values.frames(op)
    own = package(frames[-1]) if frames else ""
    return tuple(place for place in frames if package(place) in ("", own))


def _ways(values: Values, start: Op, line: int, *, of_warp: bool) -> Iterator[tuple[Op, Op, bool]]:
    """The ends of each way without a barrier to an instruction of a PTX line, and whether it goes round a loop."""
    blocks = values.graph.blocks
    number = next(b.index for b in blocks if start is b.end or any(op is start for op in b.ops))
    own = [op for op in (*blocks[number].ops, blocks[number].end) if op is not None]
    at = next(i for i, op in enumerate(own) if op is start) + 1
    waiting, seen = [(number, own[at:], False)], set[tuple[int, bool]]()
    while waiting:
        number, ops, around = waiting.pop()
        for op in ops:
            if _holds_back(op, of_warp=of_warp):
                break
            if op.instruction.ptx_line == line:
                yield start, op, around
        else:
            for successor in blocks[number].successors:
                state = (successor, around or (number, successor) in values.graph.back_edges)
                if state not in seen:
                    seen.add(state)
                    block = blocks[successor]
                    waiting.append((successor, [op for op in (*block.ops, block.end) if op is not None], state[1]))


def _holds_back(op: Op, *, of_warp: bool) -> bool:
    """Whether a thread waits there for the others of its block or cluster, or of its warp."""
    form = op.form
    if form.row.kind == "cluster":
        return form.has("wait")
    return form.row.kind == "barrier" and not form.has("arrive") and (of_warp or not form.has("warp"))
