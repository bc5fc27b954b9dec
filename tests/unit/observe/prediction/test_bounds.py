"""No unit of a multiprocessor takes longer than the predicted time, and profiles and predictions have one verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine, profiling
from tilewright.machine import Gpu
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.dtypes import element
from tilewright.observe.prediction import launches, workload
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.model import Model
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.observe.prediction.record import Prediction
from tilewright.simulate.launch_request import LaunchOptions
from tilewright.simulate.machine import limiters as names
from tilewright.simulate.programs.program import OLDEST_CC, Program

KERNELS = [record for record in catalogue.records() if record.backend == "gpu"]
#: A GPU of each compute capability for which the assembler makes code.
GPUS = [gpu for gpu in {gpu.compute_capability: gpu for gpu in machine.gpus().values()}.values()
        if gpu.compute_capability >= OLDEST_CC]  # fmt: skip


def holds(found: Prediction) -> None:
    """The longest limit is the kernel's time at most, and the verdict is of the table."""
    assert found.limits
    assert found.limits[0].seconds <= found.least_seconds <= found.seconds <= found.most_seconds
    assert list(found.limits) == sorted(found.limits, key=lambda unit: -unit.seconds)
    assert {unit.name for unit in found.limits} <= set(names.UNITS)
    assert found.limiter in {*names.UNITS, *names.STALLS}
    most = max(*found.busy.values(), *(share.fraction for share in found.shares))
    assert found.verdict.share == pytest.approx(most)


def fit(record: Record) -> list[Gpu]:
    """GPUs that run a kernel."""
    return [gpu for gpu in GPUS if not record.unfit(gpu.compute_capability)]


def tile(record: Record) -> Product:
    """A product of one tile; published kernels need k equal to m."""
    return Product(*record.tile, record.tile[0] if record.published else 64, record.dtypes[0])


def launch(record: Record, gpu: Gpu) -> tuple[tuple[Any, ...], LaunchOptions]:
    """What a function that launches is given for a product of one tile."""
    product = tile(record)
    shape, of = record.launch_rule(product.m, product.n, product.k), element(product.dtype)
    a, b = np.zeros((product.m, product.k), of.numpy), np.zeros((product.k, product.n), of.numpy)
    given = record.arguments(a, b, np.zeros((product.m, product.n), element(of.product).numpy))
    program = record.program(product.dtype, gpu.compute_capability)
    return (program, shape.grid, shape.block, given), LaunchOptions(shared_bytes=shape.shared_bytes, gpu=gpu.key)


#: Kernels of tensor cores take ten seconds or more to translate: one of them is in each run, and `make volume` has all.
TENSOR = {record.name for record in KERNELS if record.tensor}
QUICK = {record.name for record in KERNELS} - TENSOR | {"tensor_core"}


@pytest.mark.parametrize(
    "record",
    [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.volume, id=one.name) for one in KERNELS],
)
def test_profile_and_prediction_of_a_kernel_have_one_verdict_and_no_limit_above_the_time(record: Record) -> None:
    gpu = fit(record)[0]
    given, options = launch(record, gpu)
    seen, found = tw.profile(*given, **options), tw.predict(*given, **options)
    holds(found)
    assert (seen.verdict, seen.units) == (found.verdict, found.limits)
    listed = predict_product(record, tile(record), gpu, changes=False)
    holds(listed)
    assert (listed.limiter, listed.verdict.rule) == (found.limiter, found.verdict.rule)
    assert listed.verdict.share == pytest.approx(found.verdict.share, abs=0.02)


@pytest.mark.volume
@pytest.mark.parametrize("record", [one for one in KERNELS if len(fit(one)) > 1], ids=lambda record: record.name)
def test_no_limit_of_a_kernel_is_above_its_prediction_on_any_gpu(record: Record) -> None:
    """The counts of one run, as on each GPU, and for grids of one block to several on each multiprocessor."""
    first, *others = fit(record)
    given, options = launch(record, first)
    run = tw.simt.launch(*given, shared_bytes=options["shared_bytes"], instruments=profiling.instruments())
    for gpu in others:
        seen = profiling.of_run(run, gpu, shared_bytes=options["shared_bytes"])
        assert seen.occupancy is not None
        work = workload.of_profile(seen, max(1, seen.occupancy.occupancy.active_blocks))
        model = Model.of(given[0], work, gpu, Deadline())
        for blocks in (1, gpu.multiprocessors + 1, 9 * gpu.multiprocessors):
            holds(launches.of_work(seen, model, replace(work, blocks=blocks), (blocks, 1, 1), changes=False))


SLOW = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def product(a, b, c):
    row, column = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total

a, b = np.ones((2, 192, 192), np.float32)
product[(12, 12), (16, 16)](a, b, np.empty((192, 192), np.float32))
"""


def test_each_output_of_a_program_names_the_same_limit(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)

    def shown(*words: str) -> str:
        command = [sys.executable, "-m", "tilewright", *words, "slow.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return " ".join(done.stdout.split())

    predicted = json.loads(shown("predict", "--json"))["predictions"][0]
    profiled = json.loads(shown("profile", "--json"))["profiles"][0]
    assert profiled["verdict"] == predicted["verdict"]
    assert {profiled["predicted"]["limiter"], profiled["units"][0]["name"]} == {predicted["verdict"]["bound"]}
    said = f"{predicted['verdict']['bound']} ({names.phrase(predicted['verdict']['bound'])}) works"
    assert said in shown("profile") and said in shown("predict")
    shown("profile", "--html", "page.html")
    assert said in " ".join((tmp_path / "page.html").read_text("utf-8").split())


#: 64 loads of shared memory, which the assembler merges to a quarter of them; all lanes in one bank.
MERGED = """
extern "C" __global__ void merged(float *c) {
    __shared__ float a[32][32], b[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    a[x][y] = c[32 * y + x]; b[x][y] = c[32 * x + y];
    __syncthreads();
    float s = 0;
    for (int n = 0; n < 9; n++) { for (int k = 0; k < 32; k++) s += a[x][k] * b[k][y]; __syncthreads(); }
    c[32 * y + x] = s;
}
"""


def test_accesses_that_the_assembler_merges_count_once() -> None:
    """The time of the PTX's accesses is above the prediction, and that of the machine code below."""
    program, c = Program.from_cuda(MERGED, "merged"), np.zeros((32, 32), np.float32)
    seen, found = tw.profile(program, 999, (32, 32), (c,)), tw.predict(program, 999, (32, 32), (c,), all_blocks=True)
    ptx = profiling.profile(program, 999, (32, 32), (c,))
    assert ptx.least_seconds > found.seconds
    holds(found)
    assert seen.least_seconds == found.limits[0].seconds
    assert seen.verdict is not None and ptx.verdict is not None and ptx.verdict.share is None
    assert (seen.verdict.bound, seen.verdict.rule) == (found.verdict.bound, found.verdict.rule)
    assert (found.verdict.rule, found.verdict.bound) == ("bank conflicts", names.L1)
    assert found.verdict.mended_seconds is not None and 2 * found.verdict.mended_seconds < found.seconds


def test_spills_of_the_assembler_are_among_the_limits() -> None:
    """A kernel with more values than registers goes to local memory, of which its PTX knows nothing."""
    spilling = "".join(f"float x{n} = a[threadIdx.x + {n} * 1024];" for n in range(128))
    sums = "for (int k = 0; k < m; k++) {" + "".join(f"x{n} = x{n} * x{(n + 1) % 128} + 1;" for n in range(128)) + "}"
    text = 'extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float *a, int m) {' + spilling + sums
    text += "a[threadIdx.x] = " + "+".join(f"x{n}" for n in range(128)) + ";}"
    program, a = Program.from_cuda(text, "spilling"), np.zeros(129 * 1024, np.float32)
    found = tw.predict(program, 264, 1024, (a, np.int32(16)))
    holds(found)
    assert found.verdict.rule == "spilled registers"
    assert found.verdict.mended_seconds is not None and found.verdict.mended_seconds < 0.8 * found.seconds
    assert profiling.profile(program, 264, 1024, (a, np.int32(16))).least_seconds < found.limits[0].seconds
