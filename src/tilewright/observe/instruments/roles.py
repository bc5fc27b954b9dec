"""The work of each warp of the first cluster, where warps have roles: executed lines, mbarriers and bulk copies.

A wait for an mbarrier is a loop whose number of iterations depends on the machine's schedule. It is recorded as if its
first test had succeeded: compilers often move this test out of the loop.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.observe.instruments import requests
from tilewright.simulate.events import CFunction, EventKind, Facts, Handler, Instrument, Site, Storage
from tilewright.simulate.isa import table

_PARTS = (bitcode(Path(__file__).with_name("roles.c")),)
_RUN = CFunction("tw_roles_run", EventKind.RUN, _PARTS)
_CHANGE = CFunction("tw_roles_change", EventKind.MBARRIER, _PARTS)
_TEST = CFunction("tw_roles_test", EventKind.MBARRIER, _PARTS)
_COPY = CFunction("tw_roles_copy", EventKind.BULK, _PARTS)
_MULTIPLY = CFunction("tw_roles_multiply", EventKind.TENSOR_PRODUCT, _PARTS)
_FILL = CFunction("tw_roles_fill", EventKind.TENSOR_COPY, _PARTS)
_FORM = header(Path(requests.__file__).with_name("requests.h")).numbers
_SITE_SHIFT, _WARP_SHIFT = _FORM["TW_REQUEST_SITE_SHIFT"], _FORM["TW_REQUEST_WARP_SHIFT"]
#: Most memory for what is recorded.
_MOST_BYTES = 1 << 28
_WORDS_EACH = 3
#: The mbarrier of a copy that has none: 64 one bits.
NOWHERE = (1 << 64) - 1


class Op(enum.IntEnum):
    """The kind of an operation, and what its `number` means."""

    INIT = 0  #: An mbarrier of `number` arrivals per phase.
    ARRIVE = 1  #: `number` arrivals.
    EXPECT = 2  #: `number` bytes, without an arrival.
    ARRIVE_EXPECT = 3  #: `number` bytes, with `lanes` arrivals.
    WAIT = 4  #: Wait for the phase of parity `number`.
    COPY = 5  #: Copy of `number` bytes, which completes at the mbarrier.
    STORE = 6  #: Bulk copy of `number` bytes to global memory.
    DELIVER = 7  #: The bytes of the previous copy, a multicast, in one more block.
    OTHER = 8
    #: Product in tensor memory: `number` is the columns of D plus 2^16 times the lines of A that a block reads from
    #: shared memory, `lanes` the lines of B. A line is 32 bytes along k.
    MULTIPLY = 9
    FILL = 10  #: Copy of `number` lines of `lanes` bytes to tensor memory.
    COMMIT = 11  #: Arrival when the thread's earlier products and copies are complete.
    FOLLOW = 12  #: `number` arrivals after the thread's copies by `cp.async`, which the phase expects beside its own.


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one warp on an mbarrier, or a bulk copy, or an order to tensor memory."""

    kind: Op
    place: int  #: The mbarrier's offset in shared memory, above it its block's rank; `NOWHERE` for none.
    number: int
    lanes: int
    turn: int = 0  #: Number of the warp's instructions with operations before it.


@dataclass(frozen=True, slots=True)
class Role:
    """The work of one or several warps of a cluster that do the same."""

    warps: tuple[int, ...]  #: Numbers in the cluster; those of the block of rank 0 come first.
    executed: Mapping[int, int]  #: How often each line of PTX ran, 0 included.
    operations: Mapping[int, tuple[tuple[Operation, ...], ...]]  #: What each line did, a tuple for each time.


@dataclass(frozen=True, slots=True)
class RolesResult:
    """The roles of the first cluster's warps; `complete` is False if the records did not all fit."""

    roles: tuple[Role, ...]
    complete: bool


class Roles(Instrument):
    """Record what each warp of the first cluster (or of the first block, without clusters) does.

    >>> Roles().name
    'roles'
    """

    __slots__ = ("_memory",)  # not in `vars`, which is part of the key of cached machine code

    def __init__(self) -> None:
        self.name = "roles"
        self.slots = 1
        self._memory: npt.NDArray[np.uint64] | None = None

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Straight lines, mbarriers, bulk copies, and products in tensor memory."""
        if site.kind is EventKind.RUN:
            return _RUN.handler("tw.roles.run", ())
        if site.kind is EventKind.BULK:
            return _COPY.handler("tw.roles.copy", ())
        if site.kind is EventKind.TENSOR_PRODUCT:
            return _MULTIPLY.handler("tw.roles.multiply", ())
        if site.kind is EventKind.TENSOR_COPY:
            return _FILL.handler("tw.roles.fill", ())
        if site.kind is not EventKind.MBARRIER or _op(site) is Op.OTHER:
            return None
        if _op(site) is not Op.WAIT:
            return _CHANGE.handler("tw.roles.change", ())
        is_state = int("parity" not in site.opcode.split("."))
        return _TEST.handler(f"tw.roles.test.{is_state}", (f"i32 {is_state}",))

    def begin(self, facts: Facts) -> Storage:
        """Memory for the records."""
        self._memory = requests.area(facts, _MOST_BYTES)
        return Storage(launch=self._memory)

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> RolesResult:
        """The roles; warps that did the same share one."""
        assert self._memory is not None
        written, self._memory = requests.requests(self._memory, len(sites)), None
        alike: dict[tuple[object, ...], list[int]] = {}
        found: dict[int, Role] = {}
        for warp, entries in sorted(_by_warp(written.buffers).items()):
            role = _role(warp, entries, sites)
            key = tuple(sorted(role.executed.items())), tuple(sorted(role.operations.items()))
            alike.setdefault(key, []).append(warp)
            found[warp] = role
        firsts = ((tuple(warps), found[warps[0]]) for warps in alike.values())
        roles = tuple(Role(warps, first.executed, first.operations) for warps, first in firsts)
        return RolesResult(roles, written.complete)


_Entries = list[tuple[int, list[int]]]  # numbers of sites, and their recorded words


def _by_warp(buffers: Sequence[npt.NDArray[np.uint64]]) -> dict[int, _Entries]:
    found: dict[int, _Entries] = {}
    for buffer in buffers:
        words = buffer.tolist()
        at = 0
        while at < len(words):
            head = words[at]
            many = head & ((1 << _SITE_SHIFT) - 1)
            site = head >> _SITE_SHIFT & ((1 << _WARP_SHIFT - _SITE_SHIFT) - 1)
            found.setdefault(head >> _WARP_SHIFT, []).append((site, words[at + 1 : at + 1 + many]))
            at += 1 + many
    return found


def _op(site: Site) -> Op:
    """The kind of operation of a site's instruction; the site's opcode is the PTX text.

    >>> _op(Site(EventKind.MBARRIER, 1, "", "mbarrier.arrive.expect_tx.shared::cta.b64")).name
    'ARRIVE_EXPECT'
    """
    form = table().find(site.opcode)
    if form is None:
        return Op.OTHER
    if site.kind is EventKind.TENSOR_PRODUCT:
        return Op.MULTIPLY
    if site.kind is EventKind.TENSOR_COPY:
        return Op.FILL
    if site.kind is EventKind.BULK:
        return Op.STORE if form.has("bulk_group") else Op.COPY
    if form.has("test_wait") or form.has("try_wait"):
        return Op.WAIT
    if form.has("commit"):
        return Op.COMMIT
    if form.has("arrive") and form.has("async") and not form.has("noinc"):
        return Op.FOLLOW
    if form.has("arrive") or form.has("arrive_drop"):
        return Op.ARRIVE_EXPECT if form.has("expect_tx") else Op.ARRIVE
    return Op.INIT if form.has("init") else Op.EXPECT if form.has("expect_tx") else Op.OTHER


def _role(warp: int, entries: _Entries, sites: Sequence[Site]) -> Role:
    ran: Counter[int] = Counter()
    operations: dict[int, list[tuple[Operation, ...]]] = {}
    turn, before = 0, -1
    for number, words in _first_tests(entries, sites):
        site = sites[number]
        again, before = number == before and _op(site) is not Op.WAIT, number
        if site.kind is EventKind.RUN:
            ran[number] += 1
            continue
        kind, of_line = _op(site), operations.setdefault(site.ptx_line, [])
        if again and kind is Op.COPY and "multicast::cluster" in site.opcode:
            kind = Op.DELIVER
        done = tuple(
            Operation(kind, words[at], words[at + 1], words[at + 2], turn) for at in range(0, len(words), _WORDS_EACH)
        )
        if again:  # one instruction with an event for each block that it names
            done = (*of_line.pop(), *done)
        of_line.append(done)
        turn += not again
    executed = {step[0]: 0 for site in sites for step in site.steps}
    for number, times in ran.items():
        for line, _, _ in sites[number].steps:
            executed[line] = max(executed[line], times)
    for site in sites:  # the machine code of these branches around them where no lane is active
        if site.kind in (EventKind.TENSOR_PRODUCT, EventKind.TENSOR_COPY):
            executed[site.ptx_line] = len(operations.get(site.ptx_line, ()))
    return Role((warp,), executed, {line: tuple(of_line) for line, of_line in operations.items() if of_line})


def _first_tests(entries: _Entries, sites: Sequence[Site]) -> _Entries:
    """The entries as if the first test of each wait had succeeded.

    A failed test after which the warp does other work counts as one that has not run.
    """
    quiet = [site.kind is EventKind.RUN and not any(_accesses(step[1]) for step in site.steps) for site in sites]
    found: _Entries = []
    straight = at = 0  # the last straight line among `found`
    while at < len(entries):
        number, words = entries[at]
        at += 1
        found.append((number, words))
        if sites[number].kind is EventKind.RUN:
            straight = len(found) - 1
        if not _waits(sites[number]) or words[2]:
            continue
        branch = entries[at : _behind(entries, at, found[straight][0], sites)]
        again = at
        while again < len(entries) and (quiet[entries[again][0]] or _fails(entries[again], words, sites)):
            again += 1
        if again < len(entries) and _repeats(entries[again], words, sites):
            found[-1] = number, entries[again][1]
            run = next(n for n, _ in reversed(entries[:again]) if sites[n].kind is EventKind.RUN)
            at = _behind(entries, again + 1, run, sites)
            found += branch
        else:
            del found[-1], found[straight]
            at += len(branch)
    return found


def _waits(site: Site) -> bool:
    return site.kind is EventKind.MBARRIER and _op(site) is Op.WAIT


def _behind(entries: _Entries, at: int, run: int, sites: Sequence[Site]) -> int:
    """The entry after that of a branch alone, if one is at `at` and the straight line before it ends with none."""
    ends = sites[run].steps[-1][1].startswith("bra")
    alone = at < len(entries) and sites[entries[at][0]].opcode.startswith("bra")
    return at + (alone and not ends and sites[entries[at][0]].instructions == 1)


def _repeats(entry: tuple[int, list[int]], words: list[int], sites: Sequence[Site]) -> bool:
    """Whether an entry is a wait for the same phase."""
    return _waits(sites[entry[0]]) and entry[1][:2] == words[:2]


def _fails(entry: tuple[int, list[int]], words: list[int], sites: Sequence[Site]) -> bool:
    return _repeats(entry, words, sites) and not entry[1][2]


def _accesses(opcode: str) -> bool:
    """Whether an instruction accesses memory, other than to test an mbarrier."""
    form = table().find(opcode)
    return form is not None and bool(form.row.access) and form.row.kind != "await"
