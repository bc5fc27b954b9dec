"""Tensor cores and asynchronous copies in the model of a multiprocessor, against published measurements.

Oracles: Sun, Li, Geng, Stuijk, Corporaal, Dissecting Tensor Cores via Microbenchmarks, arXiv 2206.02874: A100, table 5
(RTX 2080 Ti); Luo and others, arXiv 2402.13499: the part of Hopper's rate that `mma.sync` reaches on average;
florianmattana/sass-king, chapter 13: clocks of a chain on an RTX 5070 Ti.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest

from tilewright import catalogue, machine
from tilewright.observe.prediction import multiprocessor, pipes
from tilewright.observe.prediction.crew import Crew
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction, disassembled


def one(
    opcode: str,
    *operands: str,
    guard: str = "",
    stall: int = 1,
    sets: int = NO_COUNTER,
    waits: int = 0,
    line: int = 0,
) -> Instruction:
    return Instruction(opcode, guard, operands, line, None, stall, False, sets, NO_COUNTER, waits, 0)


def simulated(
    code: Sequence[Instruction], gpu: str = "a100", warps: int = 1, site: Requests | None = None
) -> multiprocessor.Simulated:
    work = Workload(1, warps, 1, MappingProxyType({1: site or Requests(1.0)}))
    full = [*code, one("EXIT")]
    trace = np.arange(len(full), dtype=np.uint32)
    return multiprocessor.run(
        full, Crew.alike(trace, warps), work, machine.gpu(gpu), blocks=1, active=1, deadline=Deadline()
    )


def chain(length: int, cc: tuple[int, int]) -> tuple[Instruction, ...]:
    """Products that add to each other in a chain, as the vendor's assembler places them. `UIADD3` on `URZ` waits."""
    d, a = ("{%f0,%f1,%f2,%f3}", "{%r0,%r1,%r2,%r3}")
    product = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {{%r0,%r1}}, {d};"
    stores = "\n".join(f"st.global.f32 [%rd1+{4 * n}], %f{n};" for n in range(4))
    text = f"""
.version 8.7
.target sm_{cc[0]}{cc[1]}
.address_size 64
.visible .entry chain(.param .u64 to) {{
.reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [to];
ld.global.v4.f32 {d}, [%rd1];
ld.global.v4.b32 {a}, [%rd1+16];
{product * length}
{stores}
ret;
}}"""
    return disassembled(text, "chain", cc)


@pytest.mark.parametrize(("gpu", "measured"), [("a100", 24.7), ("rtx5090", 35.0)])
def test_dependent_products_have_the_measured_latency(gpu: str, measured: float) -> None:
    cc = machine.gpu(gpu).compute_capability
    took = [simulated([i for i in chain(n, cc) if i.name in ("HMMA", "UIADD3", "NOP")], gpu).clocks for n in (32, 96)]
    assert (took[1] - took[0]) / 64 == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("gpu", "opcode", "measured"),
    [
        ("rtx2080ti", "HMMA.1688.F32", 255.1), ("rtx2080ti", "HMMA.1688.F16", 509.4),
        ("rtx2080ti", "IMMA.8816.S8.S8", 1012.6), ("a100", "HMMA.16816.F32", 1004.2),
        ("h100", "HMMA.16816.F32.BF16", 0.629 * 2048),
    ],
)  # fmt: skip
def test_eight_warps_reach_the_measured_rate(gpu: str, opcode: str, measured: float) -> None:
    """Multiply-adds a clock of a multiprocessor."""
    found = simulated([one(opcode, "R4", "R8", "R10", "R4")] * 200, gpu, warps=8)
    assert 8 * 200 * pipes.multiply_adds(opcode) / found.clocks == pytest.approx(measured, rel=0.07)
    assert found.busy["Tensor"] > 0.9


def test_float64_waits_by_a_counter_and_reaches_its_whole_rate_on_hopper() -> None:
    products = [one("DMMA.8x8x4", "R4", "R8", "R10", "R4", sets=0, stall=2), one("DADD", "R12", "R4", "R4", waits=1)]
    assert simulated(products, "h100").clocks > 20
    found = simulated([one("DMMA.8x8x4", "R4", "R8", "R10", "R4")] * 100, "h100", warps=8)
    assert 8 * 100 * 256 / found.clocks == pytest.approx(128, rel=0.02)


def test_a_sparse_product_takes_half() -> None:
    assert pipes.multiply_adds("HMMA.SP.16832.F32") == pipes.multiply_adds("HMMA.16816.F32") == 16 * 8 * 16


@pytest.mark.parametrize(("opcode", "gpu"), [("IMMA.16864.S4.S4", "h100"), ("BMMA.168256.XOR.POPC", "l4")])
def test_a_format_without_a_stated_rate_is_refused(opcode: str, gpu: str) -> None:
    with pytest.raises(Exception, match="whose rate is known on"):
        pipes.taken(opcode, machine.gpu(gpu))


def test_a_product_without_a_shape_is_refused() -> None:
    with pytest.raises(Exception, match="must give its shape"):
        pipes.taken("HMMA.F32", machine.gpu("a100"))


def copies(pending: int) -> float:
    """Clocks of two groups of one copy each, and a wait for all but the newest."""
    group = [one("LDGSTS.E.BYPASS.128", "[R2]", "[R4.64]", line=1), one("LDGDEPBAR", sets=0)]
    wait = one("DEPBAR.LE", "SB0", hex(pending))
    site = Requests(1.0, wavefronts=4.0, sectors=16.0, lines=4.0, l2_sectors=16.0, dram_sectors=16.0)
    return simulated([*group, *[one("NOP", stall=15)] * 10, *group, wait, one("NOP")], site=site).clocks


def test_a_wait_for_groups_of_copies_waits_for_those_alone() -> None:
    none, first, both = copies(2), copies(1), copies(0)
    assert none < 250
    assert 450 < first < both - 100


def test_a_wait_on_another_counter_waits_for_no_copy() -> None:
    copy = [one("LDGSTS.E.BYPASS.128", "[R2]", "[R4.64]", line=1), one("LDGDEPBAR", sets=0)]
    assert simulated([*copy, one("DEPBAR.LE", "SB3", "0x0"), one("NOP")]).clocks < 50


def test_a_copy_is_written_to_shared_memory() -> None:
    site = Requests(1.0, wavefronts=32.0, sectors=16.0, lines=4.0)
    assert simulated([one("LDGSTS.E.BYPASS.128", "[R2]", "[R4.64]", line=1)] * 20, site=site).worked[2] == 20 * 32
    through = simulated([one("LDGSTS.E.128", "[R2]", "[R4.64]", line=1)] * 20, site=site).worked[2]
    assert through > 20 * (32 + 3)  # the first level reads what it has


def test_loads_that_never_run_cost_no_traffic() -> None:
    """The vendor's assembler puts loads under a false predicate before copies."""
    assert simulated([one("LDS", "RZ", "[RZ]", guard="@!PT", line=1)] * 20).worked[2] == 0


@pytest.mark.parametrize(
    "kernel",
    [
        "tensor_core",
        "tensor_core_f64",
        *(pytest.param(name, marks=pytest.mark.volume) for name in ("tensor_core_tf32", "tensor_core_s8")),
    ],
)
def test_a_kernel_of_tensor_cores_has_a_time_with_its_copies_and_products(kernel: str) -> None:
    """Of 512^3, tiles of A and B come from the second level, and each product is made once."""
    record, gpu = catalogue.find(kernel), machine.gpu("a100")
    found = predict_product(record, Product(512, 512, 512, record.dtypes[0]), gpu, changes=False)
    assert f"tensor cores    {100 * found.tensor_share:.0f} % of the clocks" in str(found)
    busy = found.busy
    elements = {"float16": "f16", "float32": "tf32", "float64": "f64", "int8": "s8"}[record.dtypes[0]]
    tiles = -(-found.grid[0] * found.grid[1] // gpu.multiprocessors)  # of the multiprocessor that has most
    products = tiles * record.tile[0] * record.tile[1] * 512 / gpu.tensor_per_clock[elements]
    assert busy["Tensor"] * found.clocks == pytest.approx(products, rel=0.02)
    size = np.dtype(record.dtypes[0]).itemsize
    sectors = tiles * sum(record.tile) * 512 * size / 32
    assert busy["L2"] * found.clocks >= 0.9 * sectors / 2
