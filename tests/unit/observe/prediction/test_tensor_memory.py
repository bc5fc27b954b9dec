"""Products in tensor memory in the model of a multiprocessor, against published measurements on a B200.

Oracles: SemiAnalysisAI/microbench-blackwell, umma_throughput/full.csv (clocks of a product, of 256 in a row) and
umma_latency/results.csv (from one product to the end of the wait for its commit); gau-nernst/learn-cuda,
02e_matmul_sm100: 1053.61 TFLOPS with warps of different roles, bfloat16, 4096^3; the vendor's data sheet: 4,096
multiply-adds of float16 a clock and multiprocessor.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import tilewright as tw
import tilewright.simt
from tilewright import machine
from tilewright.errors import CompileError
from tilewright.observe.instruments.roles import Op, Roles
from tilewright.observe.prediction import multiprocessor, pipes
from tilewright.observe.prediction.crew import Crew
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.workload import Workload
from tilewright.programs import Program
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.observer import Part
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction
from tilewright.simulate.run.staged_launch import looked_at

B200 = machine.gpu("b200")
Operation = tuple[int, int, int, int, int]


def one(opcode: str, *operands: str, sets: int = NO_COUNTER, waits: int = 0) -> Instruction:
    return Instruction(opcode, "", operands, 0, None, 1, False, sets, NO_COUNTER, waits, 0)


def simulated(
    code: Sequence[Instruction], operations: Sequence[Operation], blocks: int = 1
) -> multiprocessor.Simulated:
    """Of one warp of each block of a cluster: the first has the code, the others end at once."""
    full = [*code, one("EXIT")]
    paths = np.arange(len(full), dtype=np.uint32), np.array([len(code)], np.uint32)
    given = np.array(operations, np.uint32), np.zeros((0, 5), np.uint32)
    crew = Crew(paths, given, (0, *[1] * (blocks - 1)), (1,) * blocks, blocks)
    work = Workload(blocks, 1, 1, MappingProxyType({}))
    return multiprocessor.run(full, crew, work, B200, blocks=1, active=1, deadline=Deadline())


def clocks(
    number: int, rows: int, columns: int, *, blocks: int = 1, held: bool = False, opcode: str = "UTCHMMA"
) -> float:
    """Products, a commit, and a wait for it. Of 128 rows of two blocks each has 64, and D half of its columns below."""
    words = [opcode, *["2CTA"] * (blocks > 1)]
    of_d = columns // 2 if (rows, blocks) == (128, 2) else columns
    of_a = 0 if held else rows // blocks
    code = [
        *[one(".".join(words), "tmem[UR4]" if held else "gdesc[UR4]")] * number, one("UTCBAR", "[UR6]"),
        one("SYNCS.PHASECHK.TRANS64.TRYWAIT", sets=0), one("NOP", waits=1),
    ]  # fmt: skip
    multiplies = (Op.MULTIPLY, blocks, of_d | of_a << 16, columns // blocks, 0)
    operations = [*[multiplies] * number, (Op.COMMIT, 0, 1, 1, 0), (Op.WAIT, 0, 0, 1, 0)]
    return simulated(code, operations, blocks).clocks


@pytest.mark.parametrize(
    ("rows", "columns", "blocks", "held", "measured"),
    [
        (64, 64, 1, False, 32.5), (64, 256, 1, False, 128.5), (128, 64, 1, False, 48.5), (128, 96, 1, False, 56.5),
        (128, 128, 1, False, 64.6), (128, 256, 1, False, 128.6), (128, 64, 1, True, 32.5), (128, 256, 1, True, 128.5),
        (128, 64, 2, False, 25.6), (128, 128, 2, False, 32.7), (128, 256, 2, False, 64.7), (256, 64, 2, False, 43.6),
        (256, 128, 2, False, 64.7), (256, 256, 2, False, 128.7), (256, 64, 2, True, 32.5),
    ],
)  # fmt: skip
def test_a_chain_of_products_takes_the_measured_clocks(
    rows: int, columns: int, blocks: int, held: bool, measured: float
) -> None:
    """Fewer than 128 columns wait for shared memory if A is there; 64 rows of one block use half of the cores."""
    took = [clocks(number, rows, columns, blocks=blocks, held=held) for number in (64, 192)]
    assert (took[1] - took[0]) / 128 == pytest.approx(measured, rel=0.09 if blocks > 1 else 0.02)


@pytest.mark.parametrize(
    ("rows", "columns", "blocks", "held", "measured"),
    [
        (64, 64, 1, False, 152), (64, 256, 1, False, 248), (128, 64, 1, False, 168), (128, 256, 1, False, 264),
        (128, 64, 1, True, 136), (128, 256, 1, True, 232), (128, 256, 2, False, 224), (256, 64, 2, False, 197),
        (256, 256, 2, False, 293), (256, 128, 2, True, 197),
    ],
)  # fmt: skip
def test_a_wait_for_one_product_takes_the_measured_clocks(
    rows: int, columns: int, blocks: int, held: bool, measured: int
) -> None:
    assert clocks(1, rows, columns, blocks=blocks, held=held) == pytest.approx(
        measured, rel=0.06 if blocks > 1 else 0.01
    )


@pytest.mark.parametrize("opcode", ["UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA"])
def test_formats_take_the_same_clocks_for_the_same_bytes(opcode: str) -> None:
    """Measured: 128.6, 128.5, 128.3 and 128.2."""
    took = [clocks(number, 128, 256, opcode=opcode) for number in (16, 48)]
    assert (took[1] - took[0]) / 32 == pytest.approx(128.4, rel=0.01)


def test_a_pair_occupies_both_tensor_cores_and_a_block_its_own() -> None:
    code = [one("UTCHMMA.2CTA", "gdesc[UR4]"), one("UTCBAR"), one("SYNCS", sets=0), one("NOP", waits=1)]
    operations = [(Op.MULTIPLY, 2, 256 | 128 << 16, 128, 0), (Op.COMMIT, 0, 1, 1, 0), (Op.WAIT, 0, 0, 1, 0)]
    assert simulated(code, operations, 2).worked[5] == 128  # the mean of two
    alone = [one("UTCHMMA", "gdesc[UR4]"), *code[1:]]
    assert simulated(alone, operations, 2).worked[5] == 64


def test_a_commit_arrives_when_all_before_it_is_complete() -> None:
    wait = [one("SYNCS", sets=0), one("NOP", waits=1)]
    product = one("UTCHMMA", "gdesc[UR4]")
    multiplies, commits = (Op.MULTIPLY, 1, 256 | 128 << 16, 256, 0), (Op.COMMIT, 0, 1, 1, 0)
    waits = (Op.WAIT, 0, 0, 1, 0)
    before = simulated([product, one("UTCBAR"), product, *wait], [multiplies, commits, multiplies, waits])
    behind = simulated([product, product, one("UTCBAR"), *wait], [multiplies, multiplies, commits, waits])
    assert behind.clocks - before.clocks == 128


def test_a_copy_to_tensor_memory_takes_what_shared_memory_needs() -> None:
    wait = [one("UTCBAR"), one("SYNCS", sets=0), one("NOP", waits=1)]
    ends = [(Op.COMMIT, 0, 1, 1, 0), (Op.WAIT, 0, 0, 1, 0)]

    def took(number: int) -> float:
        return simulated([*[one("UTCCP.T.S")] * number, *wait], [*[(Op.FILL, 1, 128, 32, 0)] * number, *ends]).clocks

    assert (took(48) - took(16)) / 32 == 128 * 32 / 128


def test_moves_take_their_registers_share_of_the_rate() -> None:
    def took(opcode: str, number: int) -> float:
        return simulated([one(opcode, "R4", "tmem[UR4]", sets=0)] * number, np.zeros((0, 5))).clocks

    for opcode, registers in (("LDTM.x32", 32), ("STTM.x64", 64), ("LDTM.16dp256bit.x8", 32)):
        assert (took(opcode, 80) - took(opcode, 16)) / 64 == registers / 4


def test_an_instruction_of_unknown_rate_is_refused() -> None:
    with pytest.raises(CompileError, match="got UTCSHIFT, of tensor cores"):
        pipes.taken("UTCSHIFT", B200)
    with pytest.raises(CompileError, match="whose rate is known on NVIDIA H100"):
        pipes.column_clocks("UTCOMMA", machine.gpu("h100"))


@pytest.mark.parametrize(("rows", "of_a", "columns"), [(256, 128, 32), (128, 64, 16)])
def test_what_a_pair_multiplies_is_recorded_as_each_blocks_part(rows: int, of_a: int, columns: int) -> None:
    """Of 32 columns of B each block has 16. Of 128 rows D is in half of the columns: PTX ISA, layout B."""
    from tests.isa import test_tensor_pairs as pairs

    given, out = np.zeros(8192, np.uint16), np.zeros(8192, np.float32)
    request = LaunchRequest(pairs.program(rows), 2, 128, (given, out), cluster=2, gpu="b200")
    found = looked_at(request, lambda blocks: blocks.run(Part(0), (Roles(),))).results["roles"]
    done = [op for role in found.roles for line in role.operations.values() for each in line for op in each]
    assert [(one.number, one.lanes) for one in done if one.kind is Op.MULTIPLY] == [(columns | of_a << 16, 16)]
    assert sorted(one.place >> 24 for one in done if one.kind is Op.COMMIT) == [0, 1]


def test_a_product_of_one_lane_in_code_that_others_run_too_is_one_product() -> None:
    """The assembler makes a loop over the lanes of it, and a branch around it."""
    from tests.isa import tensor_kernels as kernels

    set_up = f"""mov.u32 %r0, {1 << 4 | 32 << 17 | 8 << 24}; cvt.u64.u32 %l0, %s; and.b64 %l0, %l0, 0x3ffff;
    shr.u64 %l0, %l0, 4; or.b64 %l0, %l0, {8 << 16 | 16 << 32 | 1 << 46};"""
    product = "@%q tcgen05.mma.cta_group::1.kind::f16 [%tensor], %l0, %l0, %r0, %yes;"

    def took(number: int) -> float:
        text = kernels.text(set_up + product * number + kernels.AWAIT, shared_bytes=16384)
        given = (np.zeros(size, np.uint32) for size in (4096, 65536, 65536, 16))
        return tw.predict(Program.from_ptx(text), 1, 128, tuple(given), gpu="b200").clocks

    assert took(24) - took(8) == pytest.approx(16 * 128, rel=0.02)


#: One thread's products, each of which adds to the one before.
CHAIN = r"""
extern "C" __global__ void chain(float *out, int products)
{
    __shared__ alignas(1024) unsigned short tile[256 * 16];
    __shared__ alignas(8) unsigned long long bar;
    __shared__ unsigned place;
    const unsigned at = (unsigned)__cvta_generic_to_shared(tile), barrier = (unsigned)__cvta_generic_to_shared(&bar);
    for (int i = threadIdx.x; i < 256 * 16; i += 128)
        tile[i] = 0x3c00;
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(
                         (unsigned)__cvta_generic_to_shared(&place)) : "memory");
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned d = place;
    unsigned elected = 0;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    if (threadIdx.x < 32 && elected) {
        const unsigned long long matrix = (at & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32 | 1ull << 46;
        for (int i = 0; i < products; i++)
            asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; "
                         "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p; }" ::"r"(d), "l"(matrix),
                         "r"(1u << 4 | 32u << 17 | 8u << 24), "r"(i) : "memory");
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                     : "memory");
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(barrier) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    float sum;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=f"(sum) : "r"(d + (threadIdx.x / 32 << 21)));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    out[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 32)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(d) : "memory");
}
"""


def test_a_long_chain_runs_at_the_data_sheets_rate_and_tensor_cores_bound_it() -> None:
    program = Program.from_cuda(CHAIN, "chain", (10, 0), ["--gpu-architecture=compute_100a"])
    out, products = np.zeros(128, np.float32), 400
    tw.simt.launch(program, 1, 128, (out, np.int32(products)), gpu="b200")
    assert (out == 16 * products).all()
    found = tw.predict(program, 1, 128, (out, np.int32(products)), gpu="b200")
    least = products * 128 * 256 * 16 / 4096
    assert least < found.clocks < 1.1 * least
    assert found.limiter == "Tensor"


def test_a_product_takes_the_time_of_the_published_kernel_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[4] / "benchmarks")
    blackwell = importlib.import_module("blackwell")
    found = blackwell.predicted(4096, 7)
    assert 2 * 4096**3 / found.seconds / 1e12 == pytest.approx(1053.61, rel=0.1)
    assert found.counted_blocks < 64
