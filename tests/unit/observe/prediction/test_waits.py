"""Waits for mbarriers as people write them: with sleeps, with a first test before the loop, with one lane's bytes.

Oracle: the same kernel with the plainest wait, a loop of one test; and counts that follow from the kernel's text.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import LimitError
from tilewright.observe.instruments.roles import Op, Roles
from tilewright.observe.prediction.polls import polled_once
from tilewright.observe.prediction.programs import Predictions
from tilewright.observe.prediction.sampling import Care
from tilewright.programs import Program
from tilewright.simulate.launch_request import LaunchRequest, Limits
from tilewright.simulate.observer import Part
from tilewright.simulate.run.staged_launch import launched, looked_at

BLOCKS, THREADS, ROUNDS = 640, 128, 6

#: Threads pass a value on in shared memory; WAIT waits for the phase whose state is `token`.
PASSING = r"""
typedef unsigned long long u64;
__device__ bool complete(unsigned barrier, u64 token)
{
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "l"(token) : "memory");
    return done;
}
extern "C" __global__ void passing(int *out, const int *flag, int rounds)
{
    __shared__ alignas(8) u64 room;
    __shared__ int values[128];
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&room);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(barrier));
    __syncthreads();
    int value = threadIdx.x;
    for (int round = 0; round < 2 * rounds; round++) {
        if (round % 2 == 0)
            values[threadIdx.x] = value;
        else
            value = values[(threadIdx.x + 1) % 128];
        u64 token;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(barrier) : "memory");
        WAIT
    }
    out[blockIdx.x * 128 + threadIdx.x] = value;
}
"""
WAITS = {
    "plain": "while (!complete(barrier, token)) ;",
    "sleep": "while (!complete(barrier, token)) __nanosleep(100);",
    "sleep first": "if (!complete(barrier, token)) do __nanosleep(20); while (!complete(barrier, token));",
    "counted": "for (int n = 0; !complete(barrier, token); n++) if (n > 4) __nanosleep(64);",
    "deadline": """for (long long start = 0; !complete(barrier, token);) {
        long long now;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        start = start ? start : now;
        __nanosleep(now - start > 1000 ? 1000 : 32);
    }""",
}


def passing(wait: str) -> Program:
    return Program.from_cuda(PASSING.replace("WAIT", wait), "passing", (9, 0))


def arguments() -> tuple[object, ...]:
    return np.zeros(BLOCKS * THREADS, np.int32), np.zeros(1, np.int32), np.int32(ROUNDS)


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_of_the_own_block_is_sampled_however_it_is_written(wait: str) -> None:
    found = tw.predict(passing(WAITS[wait]), BLOCKS, THREADS, arguments(), gpu="h100")
    plain = tw.predict(passing(WAITS["plain"]), BLOCKS, THREADS, arguments(), gpu="h100")
    assert any("represent the others" in note for note in found.notes)
    assert found.clocks == pytest.approx(plain.clocks, rel=0.35)


@pytest.mark.parametrize("wait", WAITS)
def test_each_wait_counts_once_at_its_first_test(wait: str) -> None:
    program = passing(WAITS[wait])
    request = LaunchRequest(program, BLOCKS, THREADS, arguments())
    roles = looked_at(request, lambda blocks: blocks.run(Part(0), (Roles(),))).results["roles"].roles
    assert sorted(warp for role in roles for warp in role.warps) == [0, 1, 2, 3]
    sleeps = [number for number, line in enumerate(program.ptx.splitlines(), 1) if "nanosleep" in line]
    assert bool(sleeps) is (wait != "plain")
    for role in roles:
        waits = [(line, len(done)) for line, done in role.operations.items() if done[0][0].kind is Op.WAIT]
        assert [times for _, times in waits] == [2 * ROUNDS]
        assert [role.executed[line] for line in sleeps] == [0] * len(sleeps)


def test_a_sleep_that_waits_for_another_block_is_no_wait_of_the_own() -> None:
    """The loop reads global memory after each sleep, so blocks cannot run without each other."""
    for_another = "do __nanosleep(100); while (!complete(barrier, token) || flag[blockIdx.x & 0]);"
    for wait in (for_another, WAITS["sleep"]):
        request = LaunchRequest(passing(wait), BLOCKS, THREADS, arguments())
        assert looked_at(request, lambda blocks: blocks.waits(())) is (wait == for_another)


#: The first thread starts a copy and arrives with its bytes, the others arrive, and all wait for the phase.
TILES = r"""
#include <cuda/barrier>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void tiles(const float *from, float *to, int tiles)
{
    __shared__ alignas(128) float tile[256];
    __shared__ alignas(8) char room[sizeof(Barrier)];
    Barrier &barrier = *reinterpret_cast<Barrier *>(room);
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    float sum = 0;
    for (int n = 0; n < tiles; n++) {
        Barrier::arrival_token token;
        if (FIRST) {
            cuda::device::experimental::cp_async_bulk_global_to_shared(tile, from + 256 * n, sizeof tile, barrier);
            token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof tile);
        } else {
            token = barrier.arrive();
        }
        barrier.wait(std::move(token));
        sum += tile[threadIdx.x];
        __syncthreads();
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("first", ["threadIdx.x == 0", "threadIdx.x == 31", "threadIdx.x == blockDim.x - 1"])
def test_lanes_that_arrive_at_different_places_arrive_all(first: str) -> None:
    program = Program.from_cuda(TILES.replace("FIRST", first), "tiles", (9, 0))
    tiles = 8
    given = np.ones(256 * tiles, np.float32), np.zeros(BLOCKS * THREADS, np.float32), np.int32(tiles)
    found = tw.predict(program, BLOCKS, THREADS, given, gpu="h100")
    assert found.clocks > tiles * 500  # each tile waits for a copy from the second level


def test_a_sample_that_is_counted_outlives_the_launchs_limit() -> None:
    source = """extern "C" __global__ void turns(float *x, int n) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum = sum * 0.5f + x[threadIdx.x];
        x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""
    program = Program.from_cuda(source, "turns", (9, 0))
    x = np.ones(4096 * 256, np.float32)
    seen = Predictions(gpu="h100", sample=Care())
    limits = Limits(instructions=40_000_000)
    with pytest.raises(LimitError):
        launched(LaunchRequest(program, 4096, 256, (x, np.int32(4096)), limits=limits), (seen,))
    assert [one.sample is not None for one in seen.counted] == [True]
    assert seen.predicted(seen.counted[0]).seconds > 0


#: Operations on an mbarrier of all threads, and copies that it may count.
HEAD = r"""
typedef unsigned long long u64;
__device__ unsigned at(void *room) { return (unsigned)__cvta_generic_to_shared(room); }
__device__ void make(u64 *room) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(at(room)) : "memory"); }
__device__ void arrive(u64 *room)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(room)) : "memory");
}
__device__ void follow(u64 *room)
{
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(at(room)) : "memory");
}
__device__ void copy(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at(to)), "l"(from) : "memory");
}
__device__ void wait(u64 *room, int parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(room)), "r"(parity) : "memory");
}
"""

#: Copies run two tiles ahead: the inner loop runs twice, then once a tile, then not at all, as in `cuda::pipeline`.
AHEAD = (
    HEAD
    + r"""
extern "C" __global__ void ahead(const float *in, float *out, int tiles)
{
    __shared__ alignas(16) float s[2][128];
    __shared__ alignas(8) u64 full[2], empty[2];
    float sum = 0;
    if (threadIdx.x == 0)
        for (int i = 0; i < 4; i++) make(i < 2 ? full + i : empty + i - 2);
    __syncthreads();
    for (int t = 0, next = 0; t < tiles; t++) {
        for (; next < tiles && next < t + 2; next++) {
            wait(empty + next % 2, next / 2 % 2 ^ 1);
            copy(&s[next % 2][threadIdx.x], in + 128 * next + threadIdx.x);
            FOLLOWED
            arrive(full + next % 2);
        }
        wait(full + t % 2, t / 2 % 2);
        sum += s[t % 2][threadIdx.x];
        arrive(empty + t % 2);
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}"""
)


@pytest.mark.parametrize("followed", ["", "follow(full + next % 2);"])
def test_copies_run_ahead_of_their_use(followed: str) -> None:
    program = Program.from_cuda(AHEAD.replace("FOLLOWED", followed), "ahead", (9, 0))
    given = np.ones(1024, np.float32), np.zeros(BLOCKS * THREADS, np.float32), np.int32(8)
    assert tw.predict(program, BLOCKS, THREADS, given, gpu="h100").clocks > 1000


#: A warp fills two buffers in turns, and another reads them; WAIT is how the first waits until one is empty.
HANDED_ON = r"""
typedef unsigned long long u64;
__device__ unsigned at(u64 *room) { return (unsigned)__cvta_generic_to_shared(room); }
__device__ void arrive(u64 *room)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(room)) : "memory");
}
__device__ void wait(u64 *room, int parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(room)), "r"(parity) : "memory");
}
extern "C" __global__ void handed_on(const float *x, float *y, int tiles)
{
    __shared__ float tile[2][32];
    __shared__ u64 full[2], empty[2];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (u64 *room : {full, full + 1, empty, empty + 1})
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(room)) : "memory");
    __syncthreads();
    if (threadIdx.x < 32) {
#pragma unroll UNROLLED
        for (int k = 0; k < tiles; k++) {
            WAIT;
            tile[k % 2][lane] = x[k * 32 + lane];
            arrive(full + k % 2);
        }
    } else {
        float sum = 0;
#pragma unroll UNROLLED
        for (int k = 0; k < tiles; k++) {
            wait(full + k % 2, k / 2 & 1);
            sum += tile[k % 2][lane];
            arrive(empty + k % 2);
        }
        y[lane] = sum;
    }
}
"""


@pytest.mark.parametrize("unrolled", [1, 2])
def test_a_wait_that_the_first_turns_of_a_loop_lack_comes_in_its_turn(unrolled: int) -> None:
    clocks = []
    for wait in ("wait(empty + k % 2, (k / 2 & 1) ^ 1)", "if (k >= 2) wait(empty + k % 2, (k / 2 - 1) & 1)"):
        text = HANDED_ON.replace("WAIT", wait).replace("UNROLLED", str(unrolled))
        arguments = np.ones(32 * 16, np.float32), np.zeros(32, np.float32), np.int32(16)
        clocks.append(tw.predict(Program.from_cuda(text, "handed_on", (9, 0)), 1, 64, arguments, gpu="h100").clocks)
    assert 0.9 < clocks[1] / clocks[0] < 1.15, clocks


#: Blocks copy tiles and sum them: one after the other in steps of the grid, or claimed by an atomic operation.
SCHEDULED = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
extern "C" __global__ void scheduled(const float *from, float *to, int tiles, int *next)
{
    __shared__ alignas(128) float tile[1024];
    __shared__ u64 full;
    __shared__ int claimed;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&full)));
    __syncthreads();
    int parity = 0, number = blockIdx.x;
    for (;; parity ^= 1) {
        CLAIM
        if (number >= tiles)
            break;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(at(&full)) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];"
                         ::"r"(at(tile)), "l"(from + number * 1024), "r"(at(&full)) : "memory");
        }
        for (int done = 0; !done;)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(at(&full)), "r"(parity) : "memory");
        float sum = 0;
        for (int i = 0; i < 8; i++)
            sum += tile[i * 128 + threadIdx.x] * tile[i];
        to[number * 128 + threadIdx.x] = sum;
        __syncthreads();
        STEP
    }
}
"""
CLAIM = "if (threadIdx.x == 0) claimed = atomicAdd(next, 1); __syncthreads(); number = claimed;"


def scheduled(tiles: int, claim: str, step: str) -> tw.Prediction:
    program = Program.from_cuda(SCHEDULED.replace("CLAIM", claim).replace("STEP", step), "scheduled", (9, 0))
    arrays = np.ones(tiles * 1024, np.float32), np.zeros(tiles * 128, np.float32)
    found = tw.predict(program, 132, 128, (*arrays, np.int32(tiles), np.zeros(1, np.int32)), gpu="h100")
    assert (arrays[1] == 8).all()
    return found


@pytest.mark.parametrize("tiles", [133, 792])
def test_blocks_that_claim_tiles_share_them_as_on_a_gpu(tiles: int) -> None:
    """The first blocks to run here claim nearly all. Each claim costs about the latency of an atomic operation."""
    steps, claims = scheduled(tiles, "", "number += gridDim.x;"), scheduled(tiles, CLAIM, "")
    assert steps.clocks < claims.clocks < 2 * steps.clocks


def test_polls_of_a_flag_beside_an_mbarrier_count_as_one() -> None:
    plain = scheduled(132, "", "number += gridDim.x;")
    found = scheduled(132, "", "number += gridDim.x; for (int n = 0; n < 100 && !*(volatile int *)next; n++) ;")
    assert 100 < found.clocks - plain.clocks < 3000


#: What threads do with `p`, and how often a prediction counts the load if each does it once in 64 blocks.
READS = {
    "grid barrier": ("atomicAdd(p, 1); while (*(volatile int *)p < 64) ;", 1),
    "sleep": ("atomicAdd(p, 1); do __nanosleep(50); while (*(volatile int *)p < 64);", 1),
    "two flags": ("atomicAdd(p, 1); volatile int *flags = p; while (flags[0] + flags[1] < 64) ;", 1),
    "place from another": ("atomicAdd(p, 1); while (*(volatile int *)(p + 8 * threadIdx.x) < 64) ;", 1),
    "array": ("for (int i = 0; i < 64; i++) sum += ((volatile int *)p)[i];", 64),
    "list": ("for (int i = 0; i < 64; i++) sum = ((volatile int *)p)[sum];", 64),
    "counted": ("for (int i = 0; i < 64; i++) { sum += *(volatile int *)p; p[1 + blockIdx.x] = i; }", 64),
}


@pytest.mark.parametrize("name", READS)
def test_only_loops_that_wait_count_once(name: str) -> None:
    """Loops that read other places, or store, do as much on a GPU as here."""
    body, times = READS[name]
    text = f'extern "C" __global__ void reads(int *p) {{ int sum = 0; {body} p[70 + blockIdx.x] = sum; }}'
    program = Program.from_cuda(text.replace("for (", '_Pragma("unroll 1") for ('), "reads", (9, 0))
    seen = tw.profile(program, 64, 1, (np.zeros(256, np.int32),), gpu="h100")
    executed = {site.ptx_line: site.counts.warp_instructions / 64 for site in seen.sites}
    loads = [site.ptx_line for site in seen.sites if site.opcode.startswith("ld.volatile")]
    assert [polled_once(program, executed)[line] for line in loads] == [times] * len(loads)
    assert times > 1 or max(executed[line] for line in loads) > 1
