"""Which blocks of a program every path from a block to the end passes."""

from __future__ import annotations

from collections.abc import Sequence


def post_dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """For each block, a bit set of the blocks on every path from it to the end, itself included.

    `successors`: the blocks that follow each block; none follow the end. The sets shrink until none changes
    (Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001, section 2, on the reversed graph).

    >>> post_dominators([[1, 2], [3], [3], []]) == [0b1001, 0b1010, 0b1100, 0b1000]
    True
    """
    every = (1 << len(successors)) - 1
    found = [every if following else 1 << block for block, following in enumerate(successors)]
    changed = True
    while changed:
        changed = False
        for block in reversed(range(len(successors))):
            through = every
            for following in successors[block]:
                through &= found[following]
            now = (through if successors[block] else 0) | 1 << block
            changed |= now != found[block]
            found[block] = now
    return found
