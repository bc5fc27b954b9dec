"""No unit of a multiprocessor takes longer than the predicted time, and profiles and predictions have one verdict."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine, profiling
from tilewright.kernels.record import Record
from tilewright.machine import Gpu
from tilewright.prediction.products import Product, predict_product
from tilewright.prediction.record import Prediction
from tilewright.profiling import names
from tilewright.programs.program import OLDEST_CC, Program

KERNELS = [record for record in catalogue.records() if record.backend == "gpu"]
#: A GPU of each compute capability.
GPUS = {gpu.compute_capability: gpu for gpu in machine.gpus().values()}


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
    """GPUs that run a kernel, and for which the assembler makes code."""
    return [gpu for cc, gpu in GPUS.items() if cc >= OLDEST_CC and not record.unfit(cc)]


def predicted(record: Record, gpu: Gpu, tiles: int) -> Prediction:
    """The time of a product of few tiles; published kernels need k equal to m."""
    rows, columns = (tiles * size for size in record.tile)
    k = rows if record.published else 64 * tiles
    return predict_product(record, Product(rows, columns, k, record.dtypes[0]), gpu, changes=False)


#: Kernels of tensor cores take seconds to assemble; every eighth is in each run of the tests, and all in `make volume`.
SLOW = [record.name for record in KERNELS if record.order == "tensor-core"]
QUICK = {record.name for record in KERNELS} - set(SLOW) | set(SLOW[::8])


@pytest.mark.parametrize(
    "record",
    [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.volume, id=one.name) for one in KERNELS],
)
def test_no_limit_of_a_kernel_is_above_its_prediction(record: Record) -> None:
    holds(predicted(record, fit(record)[0], 1))


@pytest.mark.volume
@pytest.mark.parametrize("tiles", [2, 5, 12])
@pytest.mark.parametrize("record", KERNELS, ids=lambda record: record.name)
def test_no_limit_of_a_kernel_is_above_its_prediction_on_any_gpu(record: Record, tiles: int) -> None:
    for gpu in fit(record):
        holds(predicted(record, gpu, tiles))


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
