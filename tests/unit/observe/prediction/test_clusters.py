"""Clusters in the model of a multiprocessor.

Oracles: bytes counted by hand; Luo and others, arXiv 2402.13499: a load from another block's shared memory takes 180
clocks on Hopper, one from the block's own 24 to 33; a kernel in clusters of one block, which are none.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.observe.instruments.roles import Op, Roles
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.observe.prediction.record import Prediction
from tilewright.programs import Program
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.machine.timing import timing
from tilewright.simulate.observer import Part
from tilewright.simulate.run.staged_launch import looked_at

H100 = machine.gpu("h100")
HEAD = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ void make(u64 *barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(barrier)), "r"(count) : "memory");
}
__device__ void wait(const u64 *barrier, unsigned parity) {
    asm volatile("{ .reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }"
                 ::"r"(at(barrier)), "r"(parity) : "memory");
}
__device__ void expect(const u64 *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(barrier)), "r"(bytes) : "memory");
}
__device__ void arrive(const u64 *barrier, int rank) {
    asm volatile("{ .reg .b32 R; mapa.shared::cluster.u32 R, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [R]; }"
                 ::"r"(at(barrier)), "r"(rank) : "memory");
}
__device__ int my_rank() { int r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""
#: Both blocks need all pieces: each copies half of a piece by multicast, or all of it by itself.
SHARED = (
    HEAD
    + r"""
extern "C" __global__ void __cluster_dims__(2, 1, 1) shared(const float *from, float *to, int pieces)
{
    __shared__ alignas(128) float room[BYTES / 4];
    __shared__ alignas(8) u64 full;
    if (threadIdx.x == 0)
        make(&full, 1);
    meet();
    float sum = 0;
    for (int i = 0; i < pieces; i++) {
        if (threadIdx.x == 0) {
            expect(&full, BYTES);
#if MULTICAST
            int mine = my_rank() * (BYTES / 8);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1], %2, [%3], %4;"
                         ::"r"(at(room + mine)), "l"(from + i * (BYTES / 4) + mine), "n"(BYTES / 2), "r"(at(&full)),
                           "h"((short)3) : "memory");
#else
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(at(room)), "l"(from + i * (BYTES / 4)), "n"(BYTES), "r"(at(&full)) : "memory");
#endif
        }
        wait(&full, i & 1);
        sum += room[threadIdx.x];
        meet();
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
)
#: Two warps, or two blocks, give each other turns by mbarriers.
TURNS = (
    HEAD
    + r"""
extern "C" __global__ void __cluster_dims__(2, 1, 1) turns(float *to, int times)
{
    __shared__ alignas(8) u64 mine[2];
    int rank = my_rank(), warp = threadIdx.x / 32;
    if (threadIdx.x == 0) { make(mine, 1); make(mine + 1, 1); }
    __syncthreads();
    meet();
    int side = FAR ? rank : warp, there = FAR ? 1 - rank : rank;
    if (threadIdx.x % 32 == 0 && (!FAR || warp == 0)) {
        u64 *own = FAR ? mine : mine + warp, *other = FAR ? mine : mine + 1 - warp;
        if (side)
#pragma unroll 1
            for (int i = 0; i < times; i++) { wait(own, i & 1); arrive(other, there); }
        else
#pragma unroll 1
            for (int i = 0; i < times; i++) { arrive(other, there); wait(own, i & 1); }
    }
    meet();
    to[blockIdx.x * blockDim.x + threadIdx.x] = rank;
}
"""
)
#: The block of rank 1 works longer than the other one.
UNEQUAL = (
    HEAD
    + r"""
extern "C" __global__ void __cluster_dims__(2, 1, 1) unequal(float *to, int times)
{
    __shared__ alignas(8) u64 one;
    if (threadIdx.x == 0) make(&one, 1);
    __syncthreads();
    float sum = threadIdx.x;
    for (int i = 0; i < (my_rank() ? times : 1); i++) sum = sum * 1.5f + 1.0f;
    if (MEETS) meet();
    for (int i = 0; i < (my_rank() ? 1 : times); i++) sum = sum * 1.5f + 1.0f;
    if (threadIdx.x == 0) expect(&one, 0);
    wait(&one, 0);
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
)


def program(text: str, name: str, **defined: int) -> Program:
    return Program.from_cuda(text, name, (9, 0), [f"-D{key}={value}" for key, value in defined.items()])


def fetched(pieces: int, size: int, *, multicast: bool, blocks: int = 2) -> Prediction:
    arrays = np.ones(pieces * size // 4, np.float32), np.zeros(64 * blocks, np.float32)
    shared = program(SHARED, "shared", BYTES=size, MULTICAST=int(multicast))
    return tw.predict(shared, blocks, 64, (*arrays, np.int32(pieces)), gpu="h100")


@pytest.mark.parametrize(("multicast", "share"), [(True, 0.5), (False, 1.0)])
def test_a_multicast_copy_reads_the_second_level_once(multicast: bool, share: float) -> None:
    found = fetched(8, 16384, multicast=multicast)
    busy = found.busy["L2"] * found.clocks
    stored = 64 * 4 / 32  # sectors of a block's sums
    assert busy * timing(H100).l2_sectors == pytest.approx(share * 8 * 16384 / 32 + stored, rel=0.02)


def test_what_warps_of_a_cluster_did_names_the_block_to_which_copies_go() -> None:
    arrays = np.ones(2 * 1024, np.float32), np.zeros(128, np.float32)
    shared = program(SHARED, "shared", BYTES=4096, MULTICAST=1)
    request = LaunchRequest(shared, 2, 64, (*arrays, np.int32(2)), gpu="h100")
    found = looked_at(request, lambda blocks: blocks.run(Part(0), (Roles(),))).results["roles"]
    assert looked_at(request, lambda blocks: blocks.cluster_blocks) == 2
    assert sorted(warp for role in found.roles for warp in role.warps) == [0, 1, 2, 3]
    for first in (0, 2):  # that copies, of each block
        (role,) = (one for one in found.roles if one.warps == (first,))
        copies = [shown for line in role.operations.values() for shown in line if shown[0].kind is Op.COPY]
        assert [[(op.kind, op.place >> 24, op.number) for op in shown] for shown in copies] == [
            [(Op.COPY, 0, 2048), (Op.DELIVER, 1, 2048)]
        ] * 2


def test_turns_of_two_blocks_take_a_round_trip() -> None:
    def round_trip(far: int) -> float:
        took = [
            tw.predict(program(TURNS, "turns", FAR=far), 2, 64, (np.zeros(128, np.float32), np.int32(n)), gpu="h100")
            for n in (4, 12)
        ]
        return (took[1].clocks - took[0].clocks) / 8

    assert round_trip(1) - round_trip(0) == pytest.approx(180 - 24, rel=0.15)


def test_blocks_wait_for_each_other_at_the_clusters_barrier() -> None:
    def took(times: int, meets: int) -> float:
        unequal, to = program(UNEQUAL, "unequal", MEETS=meets), np.zeros(64, np.float32)
        return tw.predict(unequal, 2, 32, (to, np.int32(times)), gpu="h100").clocks

    apart, together = (took(2048, meets) - took(1024, meets) for meets in (0, 1))
    assert together == pytest.approx(2 * apart, rel=0.05)  # one after the other, instead of side by side


def test_clusters_of_one_block_are_not_modelled() -> None:
    kernel, to = program(TURNS.replace("__cluster_dims__(2, 1, 1)", ""), "turns", FAR=0), np.zeros(256, np.float32)
    one, none = (tw.predict(kernel, 4, 64, (to, np.int32(4)), gpu="h100", cluster=size) for size in (1, None))
    assert one == none


def test_a_cluster_that_the_launch_names_is_one_too() -> None:
    kernel, to = program(TURNS.replace("__cluster_dims__(2, 1, 1)", ""), "turns", FAR=1), np.zeros(128, np.float32)
    named = tw.predict(kernel, 2, 64, (to, np.int32(8)), gpu="h100", cluster=2)
    required = tw.predict(program(TURNS, "turns", FAR=1), 2, 64, (to, np.int32(8)), gpu="h100")
    assert named.clocks == pytest.approx(required.clocks, rel=0.1)  # machine code differs by some instructions


def test_a_block_of_a_cluster_requests_its_rows_and_half_its_columns() -> None:
    """A block of `hopper_multicast` has one tile of 128 x 256 here, and copies 128 of the columns for both."""
    found = predict_product(
        catalogue.find("hopper_multicast"), Product(1024, 1024, 1024, "bfloat16"), H100, changes=False
    )
    busy = found.busy["L2"] * found.clocks
    copied = 2 * (128 + 128) * 1024 / 32
    stored = 2 * 128 * 256 / 16  # four lanes store 16 bytes of a row at a time: half of a sector
    assert busy * timing(H100).l2_sectors == pytest.approx(copied + stored, rel=0.02)
    assert found.counted_blocks == 2
