"""Some blocks stand for a grid: their counts against those of all, undone writes, and grids that are never sampled."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ptx_kernels import kernel

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.observe.prediction import launches, sampling, workload
from tilewright.observe.prediction.footprint import Footprint
from tilewright.observe.prediction.workload import Workload
from tilewright.observe.profiling import caching
from tilewright.profiling import profile
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.observer import BlocksAlone, Part
from tilewright.simulate.run.staged_launch import looked_at

cuda = pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")
A6000 = machine.gpu("a6000")

#: Shapes with edges that are no multiples of the tiles, of 512 blocks and more; wide, high, and with a long k.
KERNELS = {
    "naive": (300, 500, 130), "tiled": (700, 310, 90), "shared_memory_16": (250, 640, 333),
    "global_memory": (900, 800, 33), "results_8": (610, 1100, 75), "results_2": (1030, 700, 40),
    "coalesced": (1000, 700, 33), "vectorised": (3000, 2900, 24),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_counts_of_a_sample_are_those_of_all_blocks(name: str) -> None:
    whole, some = both(name, KERNELS[name])
    for quantity, bound in (("executed", 1e-3), ("wavefronts", 1e-3), ("sectors", 0.01), ("l2", 0.1), ("dram", 0.1)):
        assert total(some, quantity) == pytest.approx(total(whole, quantity), rel=bound), quantity


def both(name: str, shape: tuple[int, int, int]) -> tuple[Workload, Workload]:
    """The work of a product, counted in all blocks and in a sample."""
    record, (m, n, k) = catalogue.find(name), shape
    dtype = record.dtypes[0]
    a, b, c = (np.ones(extents, dtype) for extents in ((m, k), (k, n), (m, n)))
    launch, program = record.launch_rule(m, n, k), record.program(dtype, A6000.compute_capability)
    arguments = record.arguments(a, b, c)
    request = LaunchRequest(program, launch.grid, launch.block, arguments, gpu="a6000")
    some = looked_at(request, lambda blocks: sampling.sampled(blocks, A6000))
    assert some is not None
    assert some.blocks <= some.work.blocks / 8
    seen = profile(program, launch.grid, launch.block, arguments, gpu="a6000")
    assert seen.occupancy is not None
    return workload.of_profile(seen, seen.occupancy.occupancy.active_blocks), some.work


def total(work: Workload, quantity: str) -> float:
    fields = {"l2": "l2_sectors", "dram": "dram_sectors"}
    each = (
        site.executed if quantity == "executed" else site.requests * getattr(site, fields.get(quantity, quantity))
        for site in work.sites.values()
    )
    return work.blocks * work.block_warps * sum(each)


def test_a_part_is_the_blocks_it_names_and_is_undone() -> None:
    @cuda.jit
    def mark(x: Any) -> None:
        i = cuda.grid(1)
        x[i] += cuda.blockIdx.x + 1

    memory = tw.simt.Memory(1 << 20)
    x = memory.array(np.zeros(50 * 32, np.int32))
    program = tw.programs.program.program_for(mark, (x,))
    for part in (Part(7), Part(3, 4, step=9), Part(49), Part(0, 50)):

        def ran(blocks: BlocksAlone, part: Part = part) -> set[int]:
            blocks.run(part, ())
            return set(np.unique(x.to_host())) - {0}

        expected = {part.first + i * part.step + 1 for i in range(part.count)}
        assert looked_at(LaunchRequest(program, 50, 32, (x,)), ran) == expected
        assert not x.to_host().any()


def sampled(kernel: Any, grid: Any, block: Any, *arguments: Any) -> sampling.Sampled | None:
    program = tw.programs.program.program_for(kernel, arguments, A6000.compute_capability)
    request = LaunchRequest(program, grid, block, arguments, gpu="a6000")
    return looked_at(request, lambda blocks: sampling.sampled(blocks, A6000))


@cuda.jit
def add(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + 1


@cuda.jit
def triangle(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    for j in range(i // 64):
        y[i] += x[j]


@cuda.jit
def counts(x: Any, y: Any) -> None:
    cuda.atomic.add(y, 0, x[cuda.grid(1)])


@cuda.jit
def prints(x: Any, y: Any) -> None:
    if x[cuda.grid(1)] < 0:
        print(x[0])


@pytest.mark.parametrize("kernel", [triangle, counts, prints], ids=lambda kernel: kernel.py_func.__name__)
def test_different_or_dependent_blocks_all_run(kernel: Any) -> None:
    x = np.ones(1024 * 64, np.float32)
    assert sampled(add, 1024, 64, x, x.copy()) is not None
    assert sampled(kernel, 1024, 64, x, x.copy()) is None


ASSERTIONS = r"""
#include <cassert>
#include <cstdio>
template <typename T> __device__ T checked(const T *x, int i) { assert(x[i] == 1); return x[i]; }
extern "C" __global__ void once(const float *x, float *y) {
    assert(blockDim.x == 64);
    y[blockIdx.x * 64 + threadIdx.x] = 1;
}
extern "C" __global__ void in_loop(const float *x, float *y) {
    for (int i = 0; i < 4; ++i) y[blockIdx.x * 64 + threadIdx.x] += checked(x, i);
}
"""
PRINTS = r"""
extern "C" __global__ void says(const float *x, float *y) { if (x[threadIdx.x] < 0) printf("%f\n", x[0]); }
"""


@pytest.mark.parametrize(
    ("source", "name", "some"),
    [
        (ASSERTIONS, "once", True),
        (ASSERTIONS, "in_loop", True),
        (ASSERTIONS + PRINTS, "says", False),
        (ASSERTIONS + PRINTS, "in_loop", False),
        (ASSERTIONS + PRINTS.replace("printf", "assert(0), (void)"), "says", True),
    ],
)
def test_assertions_run_in_a_sample_and_prints_in_all_blocks(source: str, name: str, some: bool) -> None:
    x = np.ones(1024 * 64, np.float32)
    assert (sampled(tw.programs.Program.from_cuda(source, name), 1024, 64, x, x.copy()) is not None) == some


RECURSIVE = """.func wait(.param .b64 place, .param .b32 depth) { .reg .b64 %w<2>; .reg .b32 %v<2>; .reg .pred %q;
ld.param.u64 %w1, [place]; ld.param.u32 %v1, [depth]; setp.eq.u32 %q, %v1, 0; @%q bra SPIN; sub.u32 %v1, %v1, 1;
{ .param .b64 a; .param .b32 b; st.param.b64 [a], %w1; st.param.b32 [b], %v1; call.uni wait, (a, b); } ret;
SPIN: ld.acquire.gpu.global.u32 %v1, [%w1]; setp.eq.u32 %q, %v1, 0; @%q bra SPIN; ret; }"""
CALL = "{ .param .b64 a; .param .b32 b; st.param.b64 [a], %out; st.param.b32 [b], 1; call.uni wait, (a, b); }"


@pytest.mark.parametrize(("body", "apart"), [
    ("WAIT: ld.volatile.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;", False),
    ("WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [s], 0; ld.acquire.gpu.u32 %r1, [%out]; @!%p1 bra WAIT;", False),
    (CALL, False),
    ("ld.volatile.global.u32 %r1, [%out];", True),
    ("WAIT: ld.volatile.shared.u32 %r1, [s]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;", True),
    ("WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p1, [s], 0; @!%p1 bra WAIT;", True),
])  # fmt: skip
def test_blocks_that_wait_for_others_run_with_them(body: str, apart: bool) -> None:
    program = kernel(body, module=RECURSIVE, declarations=".shared .align 8 .b8 s[8];")
    request = LaunchRequest(program, 1024, 32, (np.zeros(1024, np.uint32),))
    assert looked_at(request, lambda blocks: blocks.allowed(())) is apart


def test_few_blocks_run_whole() -> None:
    x = np.ones(511 * 32, np.float32)
    assert sampled(add, 511, 32, x, x.copy()) is None


def test_memory_serves_sectors_that_no_neighbour_has_read() -> None:
    x = np.ones(4096 * 256 - 100, np.float32)  # 4 MB, and as much is written: more than the second level has
    found = sampled(add, 4096, 256, x, x.copy())
    assert found is not None
    assert total(found.work, "dram") * 32 == pytest.approx(2 * x.nbytes, rel=0.01)


@cuda.jit
def cells(x: Any, y: Any) -> None:
    i, j, k = cuda.grid(3)
    if i < x.shape[2] and j < x.shape[1] and k < x.shape[0]:
        y[k, j, i] = x[k, j, i] + x[0, j, i]


def test_a_grid_of_three_axes() -> None:
    x = np.ones((19, 62, 256), np.float32)
    grid, block = (8, 16, 19), (32, 4, 1)
    found = sampled(cells, grid, block, x, x.copy())
    assert found is not None
    whole = profile(cells, grid, block, (x, x.copy()), gpu="a6000")
    all_of = workload.of_profile(whole, 1)
    for quantity, bound in (("executed", 0.01), ("sectors", 0.01), ("dram", 0.1)):
        assert total(found.work, quantity) == pytest.approx(total(all_of, quantity), rel=bound), quantity


def shifted(steps: Sequence[int], grid: tuple[int, int, int]) -> dict[tuple[int, ...], set[int]]:
    """Twelve bytes of each block, shifted by so much along each axis."""
    starts = {at: sum(s * i for s, i in zip(steps, at, strict=True)) for at in itertools.product(*map(range, grid))}
    return {at: set(range(start, start + 12)) for at, start in starts.items()}


@pytest.mark.parametrize("steps", [(12, 120, 1200), (12, 0, 0), (0, 12, 0), (5, 500, 0), (0, 0, 7), (0, 0, 0)])
def test_a_union_follows_from_neighbours(steps: tuple[int, int, int]) -> None:
    grid = 9, 6, 4
    has = shifted(steps, grid)
    found = Footprint.of_neighbours(grid, lambda some: float(len(set().union(*(has[at] for at in some)))))
    assert found.union(grid) == len(set().union(*has.values()))


def test_stores_take_room_in_the_second_level() -> None:
    product, results = Footprint.of_panels(shared=100, own=100), Footprint((200, 200, 200, 200, 0, 0, 0, 0))
    assert product.read((8, 8, 1), 8, 2000) == 1600
    assert product.read((8, 8, 1), 8, 2000, results) == 7200


def test_requests_are_found_and_renumbered() -> None:
    random = np.random.default_rng(7)
    lengths = random.integers(1, 256, 400)
    blocks, warps = 5 + 3 * random.integers(0, 9, 400), random.integers(0, 4, 400)
    words = [
        np.append((block * 4 + warp) << 24 | 9 << 8 | length, random.integers(0, 1 << 60, length))
        for block, warp, length in zip(blocks, warps, lengths, strict=True)
    ]
    found = caching.numbered(np.concatenate(words).astype(np.uint64), 5 + 3 * np.arange(9), 4, first=2)
    heads = np.concatenate(([0], np.cumsum(lengths + 1)[:-1]))
    assert found[heads].tolist() == [
        (((block - 5) // 3 + 2) * 4 + warp) << 24 | 9 << 8 | length
        for block, warp, length in zip(blocks.tolist(), warps.tolist(), lengths.tolist(), strict=True)
    ]
    rest = np.delete(np.arange(len(found)), heads)
    assert (found[rest] == np.concatenate(words)[rest].astype(np.uint64)).all()


def test_a_call_leaves_its_arguments_and_says_how_many_blocks_ran() -> None:
    record = catalogue.find("tiled")
    a, c = np.ones((512, 512), np.float32), np.zeros((512, 512), np.float32)
    launch, program = record.launch_rule(512, 512, 512), record.program("float32", A6000.compute_capability)
    some = tw.predict(program, launch.grid, launch.block, record.arguments(a, a, c), gpu="a6000")
    assert not c.any()
    assert some.counted_blocks < 64
    assert f"counted in {some.counted_blocks} of 1,024 blocks" in some.notes[0]
    whole = tw.predict(program, launch.grid, launch.block, record.arguments(a, a, c), gpu="a6000", all_blocks=True)
    assert (c == 512).all()
    assert (whole.counted_blocks, whole.notes) == (1024, ())
    assert some.seconds == pytest.approx(whole.seconds, rel=0.02)
    assert launches.BAND[0] * whole.seconds < some.least_seconds * 1.02
