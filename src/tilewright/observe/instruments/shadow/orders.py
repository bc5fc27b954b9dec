"""The order that fences and atomics make between blocks and warps: computed only to rule out a suspected race.

A fence followed by a strong write (atomic, volatile, relaxed or stronger) releases all that the warp did and knew
before the fence; a releasing write releases at its own place. A strong read of that place and a fence behind it acquire
it, or an acquiring read. A barrier passes on what the warps know that have arrived in this round of it; a cluster's
barrier, what its blocks know. A kernel without fences orders nothing in this way.

What is known of all warps is an immutable tree, so warps that know the same share it. The versions of one place are
numbered: a later version includes every earlier one. So a grid barrier of thousands of blocks costs a few tree nodes a
block.

A fence, write or read whose scope is its own block (.cta) releases and acquires there alone. For kernels with such,
each block has a second version of a place, to which all its writes add, and which its reads of both scopes acquire.

Source: PTX ISA, 8.8 (release and acquire patterns), 8.9 (causality order). Looser than the text: a place accumulates
all its writes, because handlers do not run in the order of memory. What a thread fenced before a barrier may be
released by any thread after it, and what a thread read before one may be acquired by any thread's fence after it,
because programs fence, synchronise and let one thread set or read a flag.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from typing import Any, NamedTuple

from tilewright.observe.instruments.shadow.cells import (
    ACCESS,
    ACQUIRES,
    ASK,
    BARRIER_ARRIVED,
    BARRIER_LEFT,
    CLUSTER_ARRIVED,
    CLUSTER_LEFT,
    ENDED,
    FENCE,
    NARROW,
    NOT_ORDERED,
    READS,
    RELEASES,
    SEVERAL_WARPS,
    SHARED,
    STRONG,
    THREAD_MAX,
    WARPS_MAX,
    WHO_MASK,
    WRITES,
)

_ALL = -1
#: The place for what barriers of clusters pass on, one for each first block of a cluster.
_CLUSTERS = -2
#: Words of the name of a place in the history of one block: its address, home and the block.
_NEAR = 3
_BRANCHES = 16
_LANES = 32
#: Arguments of `Orders.call`.
ARGUMENTS = 6

#: One clock for each warp of a block; actions below it are known.
_Clocks = tuple[int, ...]
#: A node of a tree over blocks: `_Clocks` at level 0, else `_BRANCHES` nodes of the level below; None where nothing is
#: known.
_Tree = Any


class _Version(NamedTuple):
    """The facts known of all blocks. In one history, a later version includes the earlier ones."""

    tree: _Tree
    history: object
    number: int = 0


class _Account(NamedTuple):
    """The accesses that a warp knows of its own block's warps, and of all warps."""

    own: _Clocks
    all: _Version


class _Read(NamedTuple):
    """A strong read of a place that may not be complete: the version it has seen, and whether it acquires that."""

    taken: _Version | None
    acquires: bool


class _Round:
    """A round of a barrier: what its warps know, and what they have fenced or read, in their own block alone or not."""

    def __init__(self) -> None:
        self.waiting = 0
        self.of_all = False
        self.account: _Account | None = None
        self.released: dict[bool, _Account] = {}  # by fences before it; published by the next write of each warp
        self.handed: dict[bool, _Version] = {}  # what no fence has acquired


class Orders:
    """The accesses of other warps that each warp of a launch knows through memory.

    `scoped`: whether the kernel has fences or strong accesses whose scope is their own block.
    """

    def __init__(self, blocks: int, *, scoped: bool = False) -> None:
        self._scopes = (False, True) if scoped else (False,)  # whether it is the own block alone
        self._levels = next(n for n in itertools.count() if _BRANCHES**n >= blocks)
        nothing = _Account((0,) * WARPS_MAX, _Version(None, object()))
        self._knows: dict[tuple[int, int], _Account] = defaultdict(lambda: nothing)
        self._releases: dict[tuple[bool, tuple[int, int]], _Account] = {}
        self._places: dict[tuple[int, ...], _Version] = {}
        # by block and barrier, then by number
        self._rounds: dict[tuple[int, int], dict[int, _Round]] = defaultdict(lambda: defaultdict(_Round))
        self._ended: dict[int, _Account] = {}  # what the block's warps knew that have ended
        self._seen: dict[tuple[int, int], dict[tuple[int, ...], _Read]] = defaultdict(dict)
        # what a warp has read and no fence has acquired
        self._pending: dict[tuple[bool, tuple[int, int]], _Version] = {}
        self._users: dict[tuple[int, ...], tuple[tuple[int, int] | None, bool]] = {}
        self.contested = False  #: Whether two warps met at a place that one of them wrote.
        self._lock = threading.Lock()

    def call(self, what: int, number: int, warp: int, a: int, b: int, c: int) -> int:
        """The entry point for handlers. ASK returns NOT_ORDERED or another number; on an error, no finding is made."""
        here = number, warp
        with self._lock:
            if what != BARRIER_LEFT and here in self._seen:
                self._take(here)
                if what in (FENCE, BARRIER_ARRIVED):
                    del self._seen[here]
            if what == ASK:
                return 0 if self._ordered(here, a, b & WHO_MASK, c) else NOT_ORDERED
            if what == ACCESS:
                self._access(here, a, b, c)
            elif what == FENCE:
                self._fence(here, c, a)
            elif what == CLUSTER_ARRIVED:
                released = self._releases.get((False, here)) if b else self._all_of(here, c)  # b: it is relaxed
                if released:
                    self._write((a, _CLUSTERS), number, released)
            elif what == CLUSTER_LEFT:
                self._know(here, self._places.get((a, _CLUSTERS)))
            elif what == BARRIER_ARRIVED:
                self._arrive(here, self._rounds[number, a][b >> 2], c, of_all=bool(b & 2), waits=bool(b & 1))
            elif what == ENDED:
                self._hand_on(self._ended, number, self._all_of(here, c + 1))
            else:
                self._leave(here, a, b)
        return 0

    def _arrive(self, here: tuple[int, int], at: _Round, clock: int, *, of_all: bool, waits: bool) -> None:
        """A warp is at a barrier of its block, or of some of its warps; `clock` is its clock after it."""
        mine = self._all_of(here, clock)
        at.of_all |= of_all
        at.waiting += waits
        at.account = self._both(at.account, mine) if at.account else mine
        for near in self._scopes:
            if (near, here) in self._releases:
                self._hand_on(at.released, near, self._releases[near, here])
            if (near, here) in self._pending:
                self._await_fence(at.handed, near, self._pending[near, here])

    def _leave(self, here: tuple[int, int], barrier: int, number: int) -> None:
        """A warp goes on behind a round of a barrier, which the last one that waited forgets.

        Lanes of a warp that come late count as arrived in the next round, so what arrived there already counts too.
        """
        rounds = self._rounds[here[0], barrier]
        mine = rounds.get(number)
        if mine and mine.account and mine.of_all and here[0] in self._ended:  # those that have ended count as arrived
            mine.account = self._both(mine.account, self._ended[here[0]])
        for at in [rounds[one] for one in sorted(rounds) if one >= number]:
            if at.account:
                self._knows[here] = self._both(self._knows[here], at.account)
            for near, released in at.released.items():
                self._hand_on(self._releases, (near, here), released)
            for near, version in at.handed.items():
                self._await_fence(self._pending, (near, here), version)
        if mine:
            mine.of_all = False  # the first that leaves ends the round
            mine.waiting -= 1
            if mine.waiting <= 0:
                del rounds[number]

    def _ordered(self, here: tuple[int, int], block: int, who: int, clock: int) -> bool:
        own, every = self._knows[here]
        if block == _ALL:  # reads by several blocks, which are not kept
            return _holds_others(every.tree, self._levels, here[0])
        known = _clocks_of(every.tree, self._levels, block)
        if block == here[0]:
            known = own if known is None else tuple(map(max, known, own))
        if known is None:
            return False
        if who == SEVERAL_WARPS:
            return clock < max(known)
        return clock < known[who % WARPS_MAX if who >= THREAD_MAX else who >> 5]

    def _access(self, here: tuple[int, int], address: int, how: int, clock: int) -> None:
        home = (how >> 32) - 1 if how >> 32 else here[0]  # another block of the cluster
        if not self.contested:
            self._use((address, home if how & SHARED else _ALL), here, wrote=bool(how & WRITES))
        released = self._all_of(here, clock + 1) if how & RELEASES else None
        for near in self._scopes[bool(how & NARROW) :]:
            place = (address, home if how & SHARED else _ALL, *[here[0]] * near)
            if how & READS:
                seen, acquires = self._seen[here], bool(how & ACQUIRES)
                before = seen.pop(place, _Read(None, False))
                seen[place] = before if before.acquires or not acquires else _Read(None, True)
                if len(seen) > _LANES * len(self._scopes):
                    del seen[next(iter(seen))]
            account = released or self._releases.get((near, here))
            if how & WRITES and how & STRONG and account:
                self._write(place, here[0], account)

    def _use(self, place: tuple[int, ...], here: tuple[int, int], *, wrote: bool) -> None:
        """Remember who used a place, and whether it was written."""
        user, written = self._users.get(place, (here, False))
        written |= wrote
        self.contested = written and user != here
        self._users[place] = (here if user == here else None, written)
        if self.contested:
            self._users.clear()

    def _fence(self, here: tuple[int, int], clock: int, narrow: int) -> None:
        """Acquire what the warp has read; what it has done and knows may be published by its next writes.

        Both hold in its own block alone if `narrow`.
        """
        for near in self._scopes[narrow:]:
            self._know(here, self._pending.pop((near, here), None))
        for near in self._scopes[narrow:]:
            self._releases[near, here] = self._all_of(here, clock + 1)

    def _write(self, place: tuple[int, ...], block: int, released: _Account) -> None:
        """Add what is released to the next version of a place."""
        before = self._places.get(place)
        history, number = (before.history, before.number + 1) if before else (object(), 0)
        known = self._later(before, released.all) if before else released.all
        tree = _joined(known.tree, _branch(self._levels, block, released.own), self._levels)
        self._places[place] = _Version(tree, history, number)

    def _take(self, here: tuple[int, int]) -> None:
        """Take the versions of places that were read earlier: acquire them, or let a fence do so.

        A handler runs before its access reads memory, and the other lanes are judged in between. So a place is kept
        until a fence or barrier shows that the access is complete, or until one access could have read as many others.
        """
        seen = self._seen[here]
        for place, (taken, acquires) in seen.items():
            version = self._places.get(place)
            if version is taken or version is None:
                continue
            seen[place] = _Read(version, acquires)
            if acquires:
                self._know(here, version)
            else:
                self._await_fence(self._pending, (len(place) == _NEAR, here), version)

    def _know(self, here: tuple[int, int], version: _Version | None) -> None:
        if version is not None:
            own, every = self._knows[here]
            self._knows[here] = _Account(own, self._later(every, version))

    def _await_fence(self, waiting: dict[Any, _Version], key: Any, version: _Version) -> None:
        waiting[key] = self._later(waiting[key], version) if key in waiting else version

    def _all_of(self, here: tuple[int, int], end: int) -> _Account:
        """The accesses that a warp knows, and its own before the clock `end`."""
        (own, every), warp = self._knows[here], here[1]
        return _Account((*own[:warp], max(own[warp], end), *own[warp + 1 :]), every)

    def _hand_on(self, into: dict[Any, _Account], key: Any, account: _Account) -> None:
        into[key] = self._both(into[key], account) if key in into else account

    def _both(self, a: _Account, b: _Account) -> _Account:
        """The union of what two warps of a block know."""
        return _Account(a.own if a.own is b.own else tuple(map(max, a.own, b.own)), self._later(a.all, b.all))

    def _later(self, a: _Version, b: _Version) -> _Version:
        """The union of two versions."""
        if a.history is b.history:
            return max(a, b, key=lambda version: version.number)
        tree = _joined(a.tree, b.tree, self._levels)
        if tree is a.tree:
            return a
        return b if tree is b.tree else _Version(tree, object())


def _joined(a: _Tree, b: _Tree, level: int) -> _Tree:
    """The maximum of two trees, clock by clock; one of the trees itself if it includes the other."""
    if a is b or b is None:
        return a
    if a is None:
        return b
    new = tuple(map(max, a, b) if level == 0 else (_joined(x, y, level - 1) for x, y in zip(a, b, strict=True)))
    for old in (a, b):
        if new == old if level == 0 else all(x is y for x, y in zip(new, old, strict=True)):
            return old
    return new


def _branch(level: int, block: int, clocks: _Clocks) -> _Tree:
    """A tree that knows of one block only."""
    if level == 0:
        return clocks
    index = block // _BRANCHES ** (level - 1) % _BRANCHES
    below = _branch(level - 1, block, clocks)
    return tuple(below if n == index else None for n in range(_BRANCHES))


def _clocks_of(tree: _Tree, level: int, block: int) -> _Clocks | None:
    """The part of a tree that concerns a block."""
    while level and tree is not None:
        level -= 1
        tree = tree[block // _BRANCHES**level % _BRANCHES]
    found: _Clocks | None = tree
    return found


def _holds_others(tree: _Tree, level: int, block: int) -> bool:
    """Whether a tree knows of any other block."""
    if tree is None or level == 0:
        return False
    index = block // _BRANCHES ** (level - 1) % _BRANCHES
    return any(node is not None if n != index else _holds_others(node, level - 1, block) for n, node in enumerate(tree))
