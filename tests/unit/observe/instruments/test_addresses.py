"""Every lane's address in the chosen blocks is kept, in order."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel

from tilewright.observe.instruments.addresses import Addresses, AddressesResult
from tilewright.simt import Memory, launch
from tilewright.simulate.events import EventKind

BODY = """.shared .align 4 .b8 tile[1024];
mul.wide.u32 %d1, %tid, 4; mov.u64 %d2, tile; add.s64 %d2, %d2, %d1; mov.u32 %r1, %d1;
cvt.u32.u64 %r2, %d2; st.shared.u32 [%r2], %tid; bar.sync 0;
xor.b32 %r3, %tid, 5; mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %out, %d3; mul.wide.u32 %d5, %block, 1024;
add.s64 %d4, %d4, %d5; setp.lt.u32 %p1, %lane, 7; @%p1 st.global.u32 [%d4], %tid; bar.sync 0;
st.global.u32 [%at], %tid;"""


def kept(space: str, blocks: int = 2, most: int = 1000) -> tuple[AddressesResult, int]:
    memory = Memory()
    out = memory.empty(1024, np.int32)
    body = BODY.replace("mov.u32 %r1, %d1;", "")
    run = launch(kernel(body), 4, 96, (out,), instruments=[Addresses(space, blocks, most)], memory=memory)
    found: AddressesResult = run.results[f"addresses.{space}"]
    return found, out.address


def test_global_accesses_have_each_lanes_address_in_order() -> None:
    found, base = kept("global")
    assert found.complete
    assert set(found.records["block"].tolist()) == {0, 1}
    for block in range(2):
        for warp in range(3):
            mine = found.records[(found.records["block"] == block) & (found.records["warp"] == warp)]
            kinds = [found.sites[row].kind for row in mine["row"]]
            assert kinds == [EventKind.ARRIVE, EventKind.ACCESS, EventKind.ARRIVE, EventKind.ACCESS]
            some, all_ = mine[1], mine[3]
            threads = [32 * warp + lane for lane in range(32)]
            assert int(some["mask"]) == 0x7F
            assert (some["addresses"][:7] - base).tolist() == [1024 * block + 4 * (t ^ 5) for t in threads[:7]]
            assert int(all_["mask"]) == 2**32 - 1
            assert (all_["addresses"] - base).tolist() == [4 * (96 * block + t) for t in threads]


def test_shared_accesses_are_kept_separately() -> None:
    found, _ = kept("shared", blocks=1)
    accesses = [r for r in found.records if found.sites[r["row"]].kind is EventKind.ACCESS]
    assert [found.sites[r["row"]].space for r in accesses] == ["shared"] * 3
    first = min(int(r["addresses"][0]) for r in accesses)
    steps = sorted((r["addresses"].astype(int) - first).tolist() for r in accesses)
    assert steps == [[4 * (32 * warp + lane) for lane in range(32)] for warp in range(3)]


@pytest.mark.parametrize(("most", "complete"), [(24, True), (23, False)])
def test_accesses_without_room_are_reported(most: int, complete: bool) -> None:
    found, _ = kept("global", most=most)
    assert (found.complete, len(found.records)) == (complete, most)


def test_the_code_depends_only_on_the_space() -> None:
    assert Addresses("global", 1).key() == Addresses("global", 9, 99).key() != Addresses("shared").key()
