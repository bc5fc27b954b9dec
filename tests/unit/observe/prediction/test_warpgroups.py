"""Products of warpgroups, bulk copies and mbarriers in the model of a multiprocessor.

Oracles: Luo and others, arXiv 2402.13499 and 2501.12084: a product m64n256k16 takes 128 clocks, and 64 columns are the
fewest with which products of matrices in shared memory reach the tensor cores' rate; a load from memory takes 479
clocks on an H100. The fast.cu worklog: its rung "PTX mbarriers", which `hopper` is built like, reached 704 TFLOPS at
4096^3 of bfloat16 on an H100. The vendor's white paper: 512 multiply-adds of float16 a clock and tensor core. Little's
law.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.errors import CompileError
from tilewright.observe.instruments.roles import Op, Roles
from tilewright.observe.prediction import multiprocessor
from tilewright.observe.prediction.crew import Crew
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.programs import Program
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.machine.timing import timing
from tilewright.simulate.observer import Part
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction
from tilewright.simulate.run.staged_launch import looked_at

H100 = machine.gpu("h100")
#: Of a block's first warp, which copies pieces of an array to a ring in shared memory; the others wait for each, work,
#: and give its place back.
RING = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }"
                 ::"r"(barrier), "r"(parity) : "memory");
}
extern "C" __global__ void ring(const float *from, float *to, int pieces)
{
    __shared__ alignas(128) float room[STAGES][BYTES / 4];
    __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(full + s)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 96;" ::"r"(at(empty + s)) : "memory");
        }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int i = 0; i < pieces; i++) {
                const int s = i % STAGES;
                wait(at(empty + s), i / STAGES & 1 ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             ::"r"(at(full + s)), "n"(BYTES) : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                             ::"r"(at(room[s])), "l"(from + i * (BYTES / 4)), "n"(BYTES), "r"(at(full + s)) : "memory");
            }
        return;
    }
    float sum = 0;
    for (int i = 0; i < pieces; i++) {
        const int s = i % STAGES;
        wait(at(full + s), i / STAGES & 1);
        sum += room[s][threadIdx.x - 32];
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(empty + s)) : "memory");
    }
    to[threadIdx.x - 32] = sum;
}
"""


def one(opcode: str, *operands: str) -> Instruction:
    return Instruction(opcode, "", operands, 0, None, 1, False, NO_COUNTER, NO_COUNTER, 0, 0)


def simulated(code: Sequence[Instruction], warps: int = 4) -> multiprocessor.Simulated:
    full = [*code, one("EXIT")]
    work = Workload(1, warps, 1, MappingProxyType({}))
    crew = Crew.alike(np.arange(len(full), dtype=np.uint32), warps)
    return multiprocessor.run(full, crew, work, H100, blocks=1, active=1, deadline=Deadline())


def products(columns: int, number: int = 64, *, a: str = "gdesc[UR4]") -> list[Instruction]:
    """`number` products of a warpgroup, in one group, and the wait for it."""
    opcode = f"HGMMA.64x{columns}x16.F32.BF16"
    each = [one(opcode, "R24", a, "R24")] * (number - 1)
    return [*each, one(opcode, "R24", a, "R24", "gsb0"), one("WARPGROUP.DEPBAR.LE", "gsb0", "0x0")]


def share_of_peak(columns: int, warps: int = 4, *, a: str = "gdesc[UR4]") -> float:
    took = [simulated(products(columns, number, a=a), warps).clocks for number in (64, 192)]
    multiply_adds = 128 * 64 * columns * 16 * warps / 4
    return multiply_adds / (took[1] - took[0]) / (4 * 512)  # of four tensor cores


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_a_chain_of_products_reaches_the_peak(columns: int, warps: int) -> None:
    assert 0.95 < share_of_peak(columns, warps) <= 1.0


def test_products_of_few_columns_wait_for_shared_memory_unless_a_is_in_registers() -> None:
    assert share_of_peak(32) < 0.7
    assert share_of_peak(32, a="R8") > 0.95


def test_a_product_of_256_columns_takes_128_clocks_and_its_latency() -> None:
    took = [simulated(products(256, number)).clocks for number in (1, 2)]
    assert took[1] - took[0] == 128
    assert 128 < took[0] < 128 + 64


def test_a_warp_waits_for_the_groups_that_it_names() -> None:
    def waiting(left: str) -> float:
        code = [*products(256, 4)[:-1], *products(256, 4)[:-1], one("WARPGROUP.DEPBAR.LE", "gsb0", left)]
        return simulated(code).clocks

    assert waiting("0x0") - waiting("0x1") == 4 * 128
    assert simulated(products(256, 4)).shares["GMMA"] > 0.8


def ring(stages: int, size: int) -> Program:
    return Program.from_cuda(RING, "ring", (9, 0), [f"-DSTAGES={stages}", f"-DBYTES={size}"])


def clocks(stages: int, pieces: int, size: int = 4096, blocks: int = 1) -> float:
    arrays = np.ones(pieces * size // 4, np.float32), np.zeros(96, np.float32)
    return tw.predict(ring(stages, size), blocks, 128, (*arrays, np.int32(pieces)), gpu="h100").clocks


def test_a_lone_bulk_copy_takes_a_loads_latency_and_its_bytes_share_of_the_rate() -> None:
    took = {size: clocks(1, 2, size) - clocks(1, 1, size) for size in (1024, 16384)}
    assert timing(H100).dram < took[1024] < 2 * timing(H100).dram
    rate = 32 * timing(H100).l2_sectors  # of one multiprocessor, whose share no other one takes
    assert took[16384] - took[1024] == pytest.approx((16384 - 1024) / rate, rel=0.1)


def test_more_stages_hide_more_of_the_latency() -> None:
    each = {stages: (clocks(stages, 32) - clocks(stages, 16)) / 16 for stages in (1, 2, 4)}
    assert each[1] > 1.8 * each[2] > 1.8 * 1.7 * each[4]
    assert all(took > timing(H100).dram / stages for stages, took in each.items())
    assert each[4] > 4096 / (32 * timing(H100).l2_sectors)


def test_a_prediction_says_that_warps_wait_for_mbarriers() -> None:
    arrays = np.ones(65536, np.float32), np.zeros(96, np.float32)
    found = tw.predict(ring(2, 4096), 132, 128, (*arrays, np.int32(64)), gpu="h100")
    assert found.shares[0].name == "Mbarrier"
    assert found.limiter in ("Mbarrier", "L2")
    assert found.most_copies_in_flight == 2
    assert found.copies_in_flight is not None and 1 < found.copies_in_flight <= 2


def test_counts_alone_do_not_predict_a_kernel_that_waits_for_mbarriers() -> None:
    from tilewright.observe.prediction.model import Model

    work = Workload(1, 4, 1, MappingProxyType({1: Requests(1.0)}))
    with pytest.raises(CompileError, match="waits for mbarriers, so a prediction must watch"):
        Model.of(ring(2, 4096), work, H100, Deadline())


def test_roles_are_what_warps_did() -> None:
    arrays = np.ones(8 * 1024, np.float32), np.zeros(96, np.float32)
    request = LaunchRequest(ring(2, 4096), 1, 128, (*arrays, np.int32(8)))
    found = looked_at(request, lambda blocks: blocks.run(Part(0), (Roles(),))).results["roles"]
    assert found.complete
    assert sorted(role.warps for role in found.roles) == [(0,), (1, 2, 3)]
    shown = {role.warps: [op for line in role.operations.values() for x in line for op in x] for role in found.roles}
    copies = [op for op in shown[0,] if op.kind is Op.COPY]
    assert [op.number for op in copies] == [4096] * 8
    assert len({op.place for op in copies}) == 2
    waits = [op.number for op in shown[1, 2, 3] if op.kind is Op.WAIT]
    assert sorted(waits) == [0] * 4 + [1] * 4
    assert {op.lanes for op in shown[1, 2, 3] if op.kind is Op.ARRIVE} == {32}


def test_hopper_takes_the_time_of_its_published_rung() -> None:
    product = Product(4096, 4096, 4096, "bfloat16")
    found = predict_product(catalogue.find("hopper"), product, H100, changes=False)
    assert product.operations / found.seconds / 1e12 == pytest.approx(704, rel=0.1)
    assert found.counted_blocks == 1
    assert found.busy["Tensor"] > 0.65


@pytest.mark.volume
def test_stores_by_boxes_gain_as_much_as_published() -> None:
    """747 to 758 TFLOPS in the worklog, 1.5 %; its rung has clusters besides."""
    product = Product(4096, 4096, 4096, "bfloat16")
    seconds = [
        predict_product(catalogue.find(name), product, H100, changes=False).seconds
        for name in ("hopper", "hopper_stores")
    ]
    assert seconds[0] / seconds[1] == pytest.approx(758 / 747, abs=0.02)


def test_instructions_under_a_false_predicate_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer of `hopper` frees a stage after the next one's products: in its first step it frees none."""
    crews: list[Crew] = []
    run = multiprocessor.run

    def keeping(code: Any, crew: Crew, *args: Any, **options: Any) -> multiprocessor.Simulated:
        crews.append(crew)
        return run(code, crew, *args, **options)

    monkeypatch.setattr(multiprocessor, "run", keeping)
    predict_product(catalogue.find("hopper"), Product(512, 512, 512, "float16"), H100, changes=False)
    consumer = crews[0].operations[crews[0].of_warp[1]]
    kinds = [Op(kind) for kind in consumer[:, 0] if kind in (Op.WAIT, Op.ARRIVE)]
    assert kinds[:3] == [Op.WAIT, Op.WAIT, Op.ARRIVE]
    assert kinds.count(Op.WAIT) == kinds.count(Op.ARRIVE) == 8
