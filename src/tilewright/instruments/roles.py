"""What each warp of a cluster does, where warps have roles: how often each line runs, its mbarriers and bulk copies.

A wait for an mbarrier is a loop whose number of iterations depends on the machine's schedule. Only the iteration that
succeeds is recorded. The others are subtracted from the counts of the straight lines that they run through.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.instruments import requests
from tilewright.native.bitcode import bitcode
from tilewright.native.header import header
from tilewright.simt.events import CFunction, EventKind, Facts, Handler, Instrument, Site, Storage
from tilewright.simt.isa import table

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


class Does(enum.IntEnum):
    """What an instruction does to an mbarrier, or beside it."""

    MAKES = 0  #: `number` arrivals a phase.
    ARRIVES = 1  #: `number` times.
    EXPECTS = 2  #: `number` bytes, without an arrival.
    ARRIVES_EXPECTING = 3  #: `number` bytes, with `lanes` arrivals.
    WAITS = 4  #: For the phase of parity `number`.
    COPIES = 5  #: `number` bytes, which complete at the mbarrier.
    STORES = 6  #: `number` bytes to global memory.
    DELIVERS = 7  #: The bytes of the previous copy, a multicast, in one more block.
    OTHER = 8
    #: In tensor memory: `number` columns of D, plus 2^16 times the lines of A that a block reads of shared memory; of B
    #: `lanes` lines. A line is 32 bytes along k.
    MULTIPLIES = 9
    FILLS = 10  #: Tensor memory with `number` lines of `lanes` bytes.
    COMMITS = 11  #: Arrives when the thread's products and copies so far are complete.


@dataclass(frozen=True, slots=True)
class Deed:
    """One action of one warp at one mbarrier."""

    does: Does
    place: int  #: The mbarrier's offset in shared memory, above it its block's rank; `NOWHERE` for none.
    number: int
    lanes: int
    after: int = 0  #: Number of the warp's waits before it.


@dataclass(frozen=True, slots=True)
class Role:
    """What one or several warps of a cluster do, where these do the same."""

    warps: tuple[int, ...]  #: Numbers in the cluster; those of the block of rank 0 come first.
    executed: Mapping[int, int]  #: How often each line of PTX ran, 0 included.
    deeds: Mapping[int, tuple[tuple[Deed, ...], ...]]  #: What each line did, a tuple for each time.


@dataclass(frozen=True, slots=True)
class RolesResult:
    """The roles of the warps of the cluster that ran; `complete` is False if the records did not all fit."""

    roles: tuple[Role, ...]
    complete: bool


class Roles(Instrument):
    """Record what each warp does; for one cluster (or one block without a cluster) at a time.

    Examples
    --------
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
        if site.kind is not EventKind.MBARRIER or _does(site) is Does.OTHER:
            return None
        if _does(site) is not Does.WAITS:
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
            key = tuple(sorted(role.executed.items())), tuple(sorted(role.deeds.items()))
            alike.setdefault(key, []).append(warp)
            found[warp] = role
        roles = tuple(Role(tuple(warps), found[warps[0]].executed, found[warps[0]].deeds) for warps in alike.values())
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


def _does(site: Site) -> Does:
    """What the instruction of a site does; its opcode is the PTX text.

    >>> _does(Site(EventKind.MBARRIER, 1, "", "mbarrier.arrive.expect_tx.shared::cta.b64")).name
    'ARRIVES_EXPECTING'
    """
    form = table().find(site.opcode)
    if form is None:
        return Does.OTHER
    if site.kind is EventKind.TENSOR_PRODUCT:
        return Does.MULTIPLIES
    if site.kind is EventKind.TENSOR_COPY:
        return Does.FILLS
    if site.kind is EventKind.BULK:
        return Does.STORES if form.has("bulk_group") else Does.COPIES
    if form.has("test_wait") or form.has("try_wait"):
        return Does.WAITS
    if form.has("commit"):
        return Does.COMMITS
    if form.has("arrive") or form.has("arrive_drop"):
        return Does.ARRIVES_EXPECTING if form.has("expect_tx") else Does.ARRIVES
    return Does.MAKES if form.has("init") else Does.EXPECTS if form.has("expect_tx") else Does.OTHER


def _role(warp: int, entries: _Entries, sites: Sequence[Site]) -> Role:
    ran: Counter[int] = Counter()
    deeds: dict[int, list[tuple[Deed, ...]]] = {}
    vain: Counter[int] = Counter()
    after, before = 0, -1
    for number, words in entries:
        site = sites[number]
        again, before = number == before and _does(site) is not Does.WAITS, number
        if site.kind is EventKind.RUN:
            ran[number] += 1
            continue
        does, of_line = _does(site), deeds.setdefault(site.ptx_line, [])
        if does is Does.WAITS and not words[2]:
            vain[site.ptx_line] += 1
            continue
        if again and does is Does.COPIES and "multicast::cluster" in site.opcode:
            does = Does.DELIVERS
        done = tuple(
            Deed(does, words[at], words[at + 1], words[at + 2], after) for at in range(0, len(words), _WORDS_EACH)
        )
        if again:  # one instruction with an event for each block that it names
            done = (*of_line.pop(), *done)
        of_line.append(done)
        after += does is Does.WAITS
    _take_off(ran, vain, sites)
    executed = {step[0]: 0 for site in sites for step in site.steps}
    for number, times in ran.items():
        for line, _, _ in sites[number].steps:
            executed[line] = max(executed[line], times)
    for site in sites:  # the machine code of these branches around them where no lane is active
        if site.kind in (EventKind.TENSOR_PRODUCT, EventKind.TENSOR_COPY):
            executed[site.ptx_line] = len(deeds.get(site.ptx_line, ()))
    return Role((warp,), executed, {line: tuple(of_line) for line, of_line in deeds.items() if of_line})


def _take_off(ran: Counter[int], vain: Counter[int], sites: Sequence[Site]) -> None:
    """Subtract failed iterations of waits from the straight line of the test, and from the branch back after it."""
    runs = [number for number, site in enumerate(sites) if site.kind is EventKind.RUN]
    for line, times in vain.items():
        for at, number in enumerate(runs):
            if any(step[0] == line and _tests(step[1]) for step in sites[number].steps):
                ran[number] -= times
                behind = runs[at + 1] if at + 1 < len(runs) else number
                if sites[behind].opcode.startswith("bra") and sites[behind].instructions == 1:
                    ran[behind] = max(0, ran[behind] - times)


def _tests(opcode: str) -> bool:
    return opcode.startswith(("mbarrier.test_wait", "mbarrier.try_wait"))
