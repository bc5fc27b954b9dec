"""Accesses to the shared memory of other blocks of a cluster, beside a count of each lane's address in plain Python."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from tilewright.profiling import Counts, Profile, profile
from tilewright.programs import Program
from tilewright.show.report import profile as report, terminal
from tilewright.show.report.document import as_values

#: In each block every third thread accesses the other block's memory, the rest their own; thread i takes word 2 i.
KERNEL = r"""
typedef unsigned long long u64;
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote(const float *from, float *to)
{
    __shared__ alignas(128) float room[1024];
    __shared__ alignas(8) u64 full;
    unsigned at = (unsigned)__cvta_generic_to_shared(room), bar = (unsigned)__cvta_generic_to_shared(&full);
    unsigned there, rank;
    unsigned mine = threadIdx.x, sum;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int i = mine; i < 1024; i += 64) room[i] = i;
    if (mine == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at + 8 * mine), "r"((rank + (mine % 3 == 0)) % 2));
#if FAR
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(sum) : "r"(there));
    asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %1};" ::"r"(there + 1024), "r"(sum) : "memory");
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(sum) : "r"(there + 2048) : "memory");
    if (mine == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1], 512, [%2], %3;"
                     ::"r"(at + 3072 + 512 * rank), "l"(from), "r"(bar), "h"((short)3) : "memory");
    }
    asm volatile("{ .reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], 0; @P bra D; bra L; D: }"
                 ::"r"(bar) : "memory");
#else
    sum = room[2 * mine];
#endif
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    to[blockIdx.x * 64 + mine] = sum;
}
"""


def seen(far: int) -> Profile:
    program = Program.from_cuda(KERNEL, "remote", (9, 0), [f"-DFAR={far}"])
    return profile(program, 2, 64, (np.ones(128, np.float32), np.zeros(128, np.float32)), gpu="h100")


def counts(found: Profile, opcode: str) -> Counts:
    (site,) = (site.counts for site in found.sites if site.opcode.startswith(opcode))
    return site


def details(found: Profile) -> str:
    """The report with all its tables, as `tilewright profile --details` prints it."""
    text = io.StringIO()
    terminal.show(report.blocks(found), Console(file=text, width=200))
    return text.getvalue()


@pytest.fixture(scope="module")
def far() -> Profile:
    return seen(1)


@pytest.mark.parametrize(
    ("opcode", "kind", "size"),
    [("ld.shared::cluster", "load", 4), ("st.shared::cluster", "store", 8), ("atom", "atomic", 4)],
)
def test_lanes_in_another_block_are_counted(far: Profile, opcode: str, kind: str, size: int) -> None:
    requests = lanes = 0
    for _ in range(2):
        for warp in range(2):
            away = [lane for lane in range(32) if (32 * warp + lane) % 3 == 0]
            requests += bool(away)
            lanes += len(away)
    found = counts(far, opcode)
    remote, own = getattr(found, f"remote_{kind}s"), getattr(found, f"shared_{kind}s")
    assert (remote.requests, remote.lanes, remote.bytes) == (requests, lanes, lanes * size)
    assert own.lanes == 4 * 32 - lanes


def test_a_multicast_writes_to_the_other_block(far: Profile) -> None:
    found = counts(far, "cp.async.bulk")
    assert (found.remote_stores.requests, found.remote_stores.bytes) == (2, 2 * 512)  # from each block to the other
    assert (found.remote_atomics.requests, found.remote_atomics.bytes) == (2, 2 * 8)  # its mbarrier
    assert found.global_loads.sectors == 2 * 512 // 32  # read once a copy


def test_the_report_and_the_record_have_remote_accesses(far: Profile) -> None:
    bytes_ = 44 * (4 + 8 + 4) + 2 * 512 + 2 * 8  # of the copies, and their signals to the mbarriers there
    assert far.totals.in_remote.bytes == bytes_
    assert as_values(far)["totals"]["remote_atomics"]["bytes"] == 44 * 4 + 2 * 8
    assert "cluster" in details(far)
    assert sum(line.counts.in_remote.bytes for line in far.lines) == bytes_


def test_a_kernel_that_uses_only_its_own_memory_has_none() -> None:
    found = seen(0)
    assert not found.totals.in_remote
    assert "cluster" not in details(found)
    assert found.totals.in_shared.requests
