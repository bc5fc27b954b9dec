"""Predicted times: of launches, of products scaled from small ones, and against a published table."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.errors import ArgumentTypeError, ArgumentValueError, CompileError, LimitError, MissingExtraError
from tilewright.observe.prediction import multiprocessor, products, walk
from tilewright.observe.prediction.footprint import Footprint
from tilewright.observe.prediction.launches import of_profile
from tilewright.observe.prediction.products import Product
from tilewright.profiling import profile
from tilewright.simt import Limits
from tilewright.simulate.observer import Launch, Observer, Run
from tilewright.simulate.programs import disassembler
from tilewright.simulate.run.staging import Scene

cuda = pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

A6000, V100 = machine.gpu("a6000"), machine.gpu("v100")
#: S12: TFLOPS of 1024^3 by results a thread, on a GPU that the source does not name.
S12 = {1: 3.670, 2: 4.800, 4: 6.019, 8: 6.772, 16: 6.665, 32: 5.323}


def launched(name: str, size: int, gpu: machine.Gpu) -> tw.prediction.record.Prediction:
    record = catalogue.find(name)
    a, b, c = (np.zeros((size, size), record.dtypes[0]) for _ in range(3))
    shape = record.launch_rule(size, size, size)
    program = record.program(record.dtypes[0], max(gpu.compute_capability, (7, 5)))
    seen = profile(program, shape.grid, shape.block, record.arguments(a, b, c), gpu=gpu.key)
    return of_profile(seen, program, gpu)


@pytest.mark.parametrize("name", ["results_8", "shared_memory_32"])
def test_a_scaled_prediction_is_that_of_the_launch(name: str) -> None:
    dtype = catalogue.find(name).dtypes[0]
    scaled = products.predict_product(catalogue.find(name), Product(768, 768, 768, dtype), A6000)
    whole = launched(name, 768, A6000)
    assert scaled.grid == whole.grid
    assert scaled.seconds == pytest.approx(whole.seconds, rel=0.05)


def _fill(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1


def _scale(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


class _Diary(Observer):
    """The launches that it saw, with how many blocks ran; None: all."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int | None]] = []

    def finished(self, launch: Launch, run: Run | None, error: Exception | None) -> None:
        assert run is not None
        self.seen.append((launch.name, run.part and run.part.count))


@pytest.mark.parametrize("blocks", [4, 4096])
def test_a_launch_is_staged_once_and_seen_once(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small launch runs whole, and leaves its results; of a large one some blocks run, and nothing is left."""
    staged, stage = [], Scene.stage
    monkeypatch.setattr(Scene, "stage", lambda scene, args: staged.append(1) or stage(scene, args))
    diary, x = _Diary(), np.zeros(256 * blocks, np.float32)
    with tw.simulated_gpu("a6000", observers=[diary]):
        alone = tw.predict(_fill, blocks, 256, (x,))
    assert (len(staged), x.any()) == (1, blocks == 4)
    assert diary.seen == [("_fill", None if blocks == 4 else 32)]
    assert alone.counted_blocks == blocks if blocks == 4 else alone.counted_blocks < blocks
    tw.profile(_fill, 4, 256, (x,), gpu="a6000")
    assert len(staged) == 2


@pytest.mark.parametrize(("kernel", "moved"), [(_fill, 1), (_scale, 2)])
def test_written_bytes_go_to_memory_unless_they_fit_the_second_level(kernel: Any, moved: int) -> None:
    def share(size: int) -> float:
        """Of the time that memory takes for the bytes, the predicted one."""
        x = np.zeros(size, np.float32)
        found = tw.predict(kernel, -(-size // 256), 256, (x,), gpu="a6000")
        return (found.seconds - found.launch_seconds) / (moved * x.nbytes / (A6000.memory_gb_per_s * 1e9))

    assert 1 <= share(1 << 22) < 1.5
    assert share(1 << 19) < 1 or moved == 2  # 2 MiB, of which only those that are read come from memory


@pytest.mark.parametrize("size", [1 << 18, 1 << 20, (1 << 20) + 256, 1 << 21])
def test_stores_take_no_less_than_the_bound_of_memory_that_a_profile_states(size: int) -> None:
    """2^20 floats fill T4's second level: both let it keep them."""
    grid, x = -(-size // 256), np.zeros(size, np.float32)
    seen = profile(_fill, grid, 256, (x,), gpu="t4")
    memory = sum(unit.seconds for unit in seen.units if unit.name == "DRAM")
    assert memory == pytest.approx(x.nbytes / 320e9 if size > 1 << 20 else 0.0)
    assert tw.predict(_fill, grid, 256, (x,), gpu="t4").seconds > seen.least_seconds


def test_the_time_grows_with_k() -> None:
    times = [
        products.predict_product(catalogue.find("results_8"), Product(256, 256, k), A6000).seconds for k in (256, 4096)
    ]
    launch = 2.5e-6
    assert (times[1] - launch) / (times[0] - launch) == pytest.approx(16, rel=0.15)


@pytest.mark.parametrize("name", ["naive", "global_memory", "tiled"])
def test_warps_that_end_at_the_guard_do_not_hide_the_one_that_works(name: str) -> None:
    """Of 8 or 32 warps one has the element; those of `tiled` all fill tiles. Each product waits for the one before."""
    record = catalogue.find(name)
    k = 3000
    found = products.predict_product(record, Product(1, 1, k, "float32"), A6000)
    assert found.seconds > 4 * k / (A6000.boost_mhz * 1e6)
    twice = products.predict_product(record, Product(1, 1, 2 * k, "float32"), A6000)
    assert twice.seconds - found.launch_seconds == pytest.approx(2 * (found.seconds - found.launch_seconds), rel=0.05)


def test_a_long_product_is_predicted_from_a_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of 2048 has a tenth of the instructions of the full one, and is off by less than 2 %."""
    record, product = catalogue.find("thread_tile_2d"), Product(2048, 2048, 2048)
    issued: list[int] = []
    run = multiprocessor.run

    def counting(code: Any, crew: Any, *args: Any, **options: Any) -> multiprocessor.Simulated:
        issued.append(len(crew.paths[0]))
        return run(code, crew, *args, **options)

    monkeypatch.setattr(multiprocessor, "run", counting)
    short = products.predict_product(record, product, A6000)
    longest = max(issued)
    monkeypatch.setattr(walk, "_WHOLE", 10**9)
    issued.clear()
    whole = products.predict_product(record, product, A6000)
    assert longest < max(issued) / 3
    assert short.seconds == pytest.approx(whole.seconds, rel=0.02)
    assert short.instructions_per_clock == pytest.approx(whole.instructions_per_clock, rel=0.02)


def test_a_huge_product_is_predicted() -> None:
    """A path of millions of steps; float32 on an H100 takes at least 2 n^3 / 67 TFLOPS."""
    size = 40_000
    record, product = catalogue.find("thread_tile_2d"), Product(size, size, size)
    found = products.predict_product(record, product, machine.gpu("h100"), changes=False)
    assert 2 * size**3 / 67e12 < found.seconds < 20 * 2 * size**3 / 67e12


def test_changes_are_left_out_by_default() -> None:
    record, product = catalogue.find("results_8"), Product(1024, 1024, 1024)
    asked, plain = (products.predict_product(record, product, A6000, changes=changes) for changes in (True, False))
    assert asked.changes
    assert plain == replace(asked, changes=())


@pytest.mark.parametrize(("blocks", "said"), [(4 * 132, ()), (32 * 132, (31,)), (40 * 132, (31,))])
def test_one_block_more_or_less_is_said_where_the_gpu_holds_it_and_the_grid_fills_it(
    blocks: int, said: tuple[int, ...]
) -> None:
    from numba import cuda

    @cuda.jit
    def doubled(out: np.ndarray) -> None:
        i = cuda.grid(1)
        out[i] = 2 * out[i]

    found = tw.predict(doubled, blocks, 32, (np.zeros(32 * blocks, np.float32),), gpu="h100")
    assert found.resident_blocks == 32
    names = [change.name for change in found.changes if "on a multiprocessor" in change.name]
    assert names == [f"{count} blocks on a multiprocessor" for count in said]


def test_a_specimen_whose_loop_counts_the_grid_takes_longer_on_a_larger_one() -> None:
    times = [
        products.predict_product(catalogue.find("tiled_published"), Product(size, size, size), A6000).seconds
        for size in (512, 1024)
    ]
    assert times[1] / times[0] > 6
    with pytest.raises(ArgumentValueError, match="where k equals m"):
        products.predict_product(catalogue.find("tiled_published"), Product(512, 512, 1024), A6000)


def test_a_one_dimensional_thread_tile_on_a_v100_turns_512_times() -> None:
    """Its remainder loop was once taken for the unrolled one, and the predicted time was almost 0."""
    cube = Product(4096, 4096, 4096)
    found = products.predict_product(catalogue.find("thread_tile_1d"), cube, V100)
    assert cube.operations / found.seconds < 15e12


def test_limits_bound_the_prediction_too() -> None:
    a = np.zeros((64, 64), np.float32)
    record = catalogue.find("results_8")
    shape, program = record.launch_rule(64, 64, 64), record.program("float32")
    seen = profile(program, shape.grid, shape.block, record.arguments(a, a, a.copy()), gpu="h100")
    with pytest.raises(LimitError, match="within 1e-09 s"):
        of_profile(seen, program, machine.gpu("h100"), limits=Limits(seconds=1e-9))


@pytest.mark.volume
def test_the_published_curve_of_results_a_thread() -> None:
    """S12 but for one factor: no constant of the model was chosen by it."""
    cube = Product(1024, 1024, 1024)
    found = {
        c: cube.operations / products.predict_product(catalogue.find(f"results_{c}"), cube, V100).seconds / 1e12
        for c in S12
    }
    factor = math.exp(np.mean([math.log(rate / found[count]) for count, rate in S12.items()]))
    errors = [abs(found[count] * factor / rate - 1) for count, rate in S12.items()]
    assert np.median(errors) <= 0.15
    assert max(found, key=lambda count: found[count]) in (8, 16)


def test_bank_conflicts_and_uncoalesced_accesses_are_named_with_their_cost() -> None:
    from numba import cuda, float32

    @cuda.jit
    def columns(out: np.ndarray) -> None:
        tile = cuda.shared.array((32, 32), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        for _ in range(64):
            tile[x, y] = out[x * 32, y] + tile[x, (y + 1) % 32]
        out[x * 32, y] = tile[x, y]

    found = tw.predict(columns, 1, (32, 32), (np.zeros((1024, 32), np.float32),), gpu="a6000")
    changed = {change.name: change.seconds for change in found.changes}
    assert changed["without bank conflicts"] < 0.7 * found.seconds
    assert changed["all accesses coalesced"] < found.seconds
    assert found.least_seconds < found.seconds < found.most_seconds
    assert sum(share.fraction for share in found.shares) == pytest.approx(1, abs=0.05)


def read_from_memory(filling: int, along: int, rows: int, steps: int, lines: int) -> int:
    """Oracle: blocks in order through a cache of the last lines used; each step a line of both of its panels."""
    held: OrderedDict[tuple[str, int, int], None] = OrderedDict()
    missed = 0
    starts = {block: max(0, block - filling + 1) * steps / filling for block in range(rows * along)}
    for now in range(math.ceil(max(starts.values())) + steps):
        for block, start in starts.items():
            step = now - math.ceil(start)
            if not 0 <= step < steps:
                continue
            for line in (("a", block // along, step), ("b", block % along, step)):
                missed += line not in held
                held[line] = None
                held.move_to_end(line)
                if len(held) > lines:
                    held.popitem(last=False)
    return missed


@pytest.mark.parametrize(("filling", "lines"), [(16, 200), (16, 3000), (40, 200), (40, 3000), (160, 64)])
def test_memory_is_read_as_by_blocks_that_start_in_order(filling: int, lines: int) -> None:
    along, rows, steps = 16, 10, 80
    found = Footprint.of_panels(shared=steps, own=steps).read((along, rows, 1), filling, lines)
    assert found == pytest.approx(read_from_memory(filling, along, rows, steps, lines), rel=0.2)


def test_a_lower_clock_takes_longer() -> None:
    slow, fast = (
        products.predict_product(catalogue.find("tiled"), Product(256, 256, 256), A6000, mhz) for mhz in (900, 1800)
    )
    launch = slow.launch_seconds
    assert (slow.seconds - launch) / (fast.seconds - launch) == pytest.approx(2, rel=0.06)


@pytest.mark.parametrize("key", machine.names())
def test_every_gpu_has_the_figures_of_the_model(key: str) -> None:
    assert products.predict_product(catalogue.find("results_8"), Product(64, 64, 64), machine.gpu(key)).seconds > 2e-6


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentValueError, match="runs on no GPU"):
        products.predict_product(catalogue.find("cpu_engine"), Product(8, 8, 8), A6000)
    with pytest.raises(ArgumentValueError, match="float32 only"):
        products.predict_product(catalogue.find("tiled_published"), Product(8, 8, 8, "float64"), A6000)
    for clock in (0, float("nan"), "1000"):
        with pytest.raises(ArgumentValueError, match="`clock_mhz` must be a whole number of 1 or more"):
            tw.predict(None, 1, 1, (), clock_mhz=clock)  # type: ignore[arg-type]
    monkeypatch.setattr("tilewright.simulate.programs.toolkits.installed", lambda: ())
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(MissingExtraError, match="disassembler nvdisasm"):
        disassembler.find_disassembler()


@pytest.mark.parametrize(("gpu", "cc"), [("a6000", (8, 6)), ("v100", (7, 5))])
def test_ptx_for_a_newer_gpu_is_refused_before_it_runs(gpu: str, cc: tuple[int, int]) -> None:
    kernel = catalogue.find("results_8")
    most = f"{cc[0]}.{cc[1]}"
    said = rf"compute capability {most} or less .*\(got PTX for 9.0\); pass `cc=\({cc[0]}, {cc[1]}\)`"
    with pytest.raises(CompileError, match=said):
        tw.predict(kernel.program("float32", (9, 0)), 1, 1, (), gpu=gpu)
    a = np.ones((32, 32), np.float32)
    program, shape = kernel.program("float32", cc), kernel.launch_rule(32, 32, 32)
    assert tw.predict(program, shape.grid, shape.block, kernel.arguments(a, a, a.copy()), gpu=gpu).seconds > 0


def test_the_report_says_time_limiter_and_shares() -> None:
    text = str(products.predict_product(catalogue.find("results_8"), Product(256, 256, 256), A6000))
    assert "on NVIDIA RTX A6000, predicted" in text
    assert "blocks          64 blocks on 64 of 84 multiprocessors\n" in text
    assert "L1/TEX (shared memory and L1) works 49 % of the time" in text
    assert "the time goes to" in text
    assert "tensor cores" not in text


@pytest.mark.parametrize("gpu", [pytest.param("t4", marks=pytest.mark.volume), "h100"])
def test_kernels_with_calls_branches_and_local_memory_have_a_time(gpu: str) -> None:
    from numba import cuda, float32

    @cuda.jit
    def many_ways(x: np.ndarray, out: np.ndarray) -> None:
        i = cuda.grid(1)
        if i >= out.size:
            return
        kept = cuda.local.array(16, float32)
        for k in range(16):
            kept[k] = x[(i + k) % x.size] / (x[i] + k + 1.5)
        total = 0.0
        for k in range(int(x[i]) % 7):
            if k % 3 == 1:
                continue
            total += kept[int(x[k]) % 16]
        cuda.atomic.add(out, i % 4, total)

    x = np.arange(300, dtype=np.float64)
    found = tw.predict(many_ways, 3, 128, (x, np.zeros(300)), gpu=gpu)
    assert 2.5e-6 < found.seconds < 1e-3
    assert found.instructions_per_clock > 0.01


def test_a_block_with_mbarriers_that_waits_for_the_grid_is_watched_among_the_others() -> None:
    text = r"""#include <cooperative_groups.h>
        #include <cuda/barrier>
        extern "C" __global__ void k(int *x) {
            __shared__ cuda::barrier<cuda::thread_scope_block> all;
            if (threadIdx.x == 0) init(&all, blockDim.x);
            __syncthreads();
            atomicAdd(x, 1);
            all.arrive_and_wait();
            cooperative_groups::this_grid().sync();
            x[1 + blockIdx.x] = x[0]; }"""
    program, x = tw.programs.Program.from_cuda(text, "k", cc=(9, 0)), np.zeros(5, np.int32)
    found = tw.predict(program, 4, 32, (x,), gpu="h100", cooperative=True)
    assert x.tolist() == [128] * 5
    assert found.counted_blocks == 4
    assert 2e-6 < found.seconds < 2e-5


def test_every_form_of_launch_takes_the_same_options() -> None:
    """Arguments stay as they are where blocks stand for the others, in memory of one's own too."""
    text = 'extern "C" __global__ void twice(int *x) { x[blockIdx.x * 64 + threadIdx.x] *= 2; }'
    program, x = tw.programs.Program.from_cuda(text, "twice"), np.ones(1 << 16, np.int32)
    blocks, memory = x.size // 64, tw.simt.Memory()
    own = memory.array(x)
    plain = tw.predict(program, blocks, 64, (x,))
    assert tw.predict(program, blocks, 64, (own,), memory=memory, cooperative=False, seed=3) == plain
    assert set(x.tolist()) == set(own.to_host().ravel().tolist()) == {1}
    for function in (tw.predict, tw.profile, tw.check, tw.simt.launch):
        for wrong in ({"seed": -1}, {"limits": 3}, {"memory": 3}):
            (name,) = wrong
            with pytest.raises((ArgumentTypeError, ArgumentValueError), match=f"`{name}` must be a"):
                function(program, blocks, 64, (x,), **wrong)  # type: ignore[operator]
