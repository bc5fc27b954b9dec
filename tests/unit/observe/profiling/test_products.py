"""Profiles of tensor cores. Oracles: 2 m n k operations of a product; the data sheets' dense peak rates.

For tensor memory: SemiAnalysisAI/microbench-blackwell, umma_throughput: 128.2 to 128.6 clocks for 128 rows and 256
columns, 32 bytes deep, of every format; twice that for a sparse A, whose other half is not counted.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.observe.instruments.tensor_work import TensorWork, TensorWorkRow
from tilewright.observe.profiling.products import products
from tilewright.observe.profiling.record import SiteCounts
from tilewright.profiling import Counts
from tilewright.programs import Program
from tilewright.simulate.events import EventKind, Site


def sites(*opcodes: str, executed: int = 1320 * 64) -> list[SiteCounts]:
    return [SiteCounts(line, opcode, "", Counts(warp_instructions=executed)) for line, opcode in enumerate(opcodes)]


@pytest.mark.parametrize(
    ("gpu", "opcode", "tflops", "mhz"),
    [
        ("h100", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 989.4, 1830),
        ("h100", "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3", 1978.9, 1830),
        ("a100", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 312, 1410),
        ("a100", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 19.5, 1410),
        ("a100", "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 312, 1410),
        ("rtx3090", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 71, 1695),
    ],
)
def test_products_take_what_the_peak_rate_allows(gpu: str, opcode: str, tflops: float, mhz: int) -> None:
    record = machine.gpu(gpu)
    (found,) = products(record, sites(opcode), 10_000)
    assert found.seconds is not None
    rate = 2 * found.multiply_adds / found.seconds / 1e12
    assert rate == pytest.approx(tflops * record.boost_mhz / mhz, rel=0.01)


def test_products_of_one_shape_and_format_share_a_row_and_few_blocks_leave_units_idle() -> None:
    a, b = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    a100 = machine.gpu("a100")
    found = products(a100, sites(a, b, a, "add.f32"), 108)
    assert [(one.shape, one.format, one.times) for one in found] == [
        ("m16n8k16", "f16", 2 * 1320 * 64), ("m16n8k8", "tf32", 1320 * 64),
    ]  # fmt: skip
    few = products(a100, sites(a), 54)[0].seconds
    assert few is not None and few == pytest.approx(products(a100, sites(a), 108)[0].seconds * 2)  # type: ignore[operator]


def test_a_sparse_product_is_half_and_one_without_a_rate_has_no_time() -> None:
    a100 = machine.gpu("a100")
    (dense,) = products(a100, sites("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 108)
    (sparse,) = products(a100, sites("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 108)
    assert 2 * sparse.multiply_adds == dense.multiply_adds
    (bits,) = products(a100, sites("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc"), 108)
    assert bits.seconds is None


def test_a_profile_of_a_product_counts_its_multiply_adds() -> None:
    record, a = catalogue.find("hopper"), np.ones((128, 128), np.float16)
    shape = record.launch_rule(128, 256, 128)
    b = np.ones((128, 256), np.float16)
    found = tw.profile(
        record.program("float16", (9, 0)), shape.grid, shape.block, record.arguments(a, b, a @ b),
        shared_bytes=shape.shared_bytes, gpu="h100",
    )  # fmt: skip
    assert [(one.shape, one.format, one.multiply_adds) for one in found.products] == [
        ("m64n256k16", "f16", 128 * 256 * 128)
    ]
    assert found.products[0].times == 2 * 128 // 16
    assert "m64n256k16 f16" in str(found)


def issued(opcode: str, *shapes: tuple[int, int], line: int = 1) -> TensorWorkRow:
    """What one instruction issued: products of these rows and columns."""
    site = Site(EventKind.TENSOR_PRODUCT, line, "", opcode)
    codes = [m << 10 | n for m, n in shapes]
    sums = len(shapes), sum(m * n for m, n in shapes), sum(codes), sum(code**2 for code in codes)
    return TensorWork().collect([site], np.array([sums], np.uint64)).rows[0]


@pytest.mark.parametrize(
    ("kind", "depth"),
    [("f16", 16), ("tf32", 8), ("f8f6f4", 32), ("i8", 32), ("mxf8f6f4.block_scale", 32), ("mxf4.block_scale", 64)],
)
def test_products_in_tensor_memory_take_128_clocks_for_256_columns(kind: str, depth: int) -> None:
    b200 = machine.gpu("b200")
    row = issued(f"tcgen05.mma.cta_group::1.kind::{kind}", (128, 256))
    (found,) = products(b200, (), 1, [row])
    assert (found.shape, found.format) == (f"m128n256k{depth}", f"kind::{kind.partition('.')[0]}")
    assert found.seconds is not None
    assert found.seconds * b200.boost_mhz * 1e6 == pytest.approx(128.4, rel=0.005)


def test_products_in_tensor_memory_share_a_row_by_shape_and_kind() -> None:
    name = "tcgen05.mma.cta_group::2.kind::f16"
    rows = [
        issued(name, (256, 128), (256, 128)), issued(name, (256, 128), line=2), issued(name, (256, 64), (128, 64)),
        issued("tcgen05.mma.sp.cta_group::1.kind::f16", (128, 64)),
    ]  # fmt: skip
    found = products(machine.gpu("b200"), (), 200, rows)
    assert [(one.shape, one.times, one.multiply_adds) for one in found] == [
        ("m256n128k16", 3, 3 * 256 * 128 * 16), ("several k16", 2, 384 * 64 * 16), ("m128n64k32", 1, 128 * 64 * 16),
    ]  # fmt: skip


def test_a_profile_lists_products_in_tensor_memory() -> None:
    from tests.isa import tensor_kernels as kernels

    wide, narrow = 1 << 4 | 32 << 17 | 8 << 24, 1 << 4 | 8 << 17 | 8 << 24
    set_up = f"""cvt.u64.u32 %l0, %s; and.b64 %l0, %l0, 0x3ffff; shr.u64 %l0, %l0, 4;
    or.b64 %l0, %l0, {8 << 16 | 16 << 32 | 1 << 46};"""
    product = "@%q tcgen05.mma.cta_group::1.kind::f16 [%tensor], %l0, %l0, %r0, %yes;"
    body = f"""{set_up} mov.u32 %r0, {wide}; {product * 2} mov.u32 %r1, 0;
    again: setp.eq.u32 %p1, %r1, 0; selp.u32 %r0, {wide}, {narrow}, %p1; {product}
    add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra again; {kernels.AWAIT}"""
    given = (np.zeros(size, np.uint32) for size in (4096, 65536, 65536, 16))
    program = Program.from_ptx(kernels.text(body, shared_bytes=16384))
    found = tw.profile(program, 1, 128, tuple(given), gpu="b200")
    assert [(one.shape, one.times) for one in found.products] == [("m128n256k16", 2), ("several k16", 3)]
    assert "m128n256k16 kind::f16" in str(found)
    assert found.occupancy is not None
    assert found.occupancy.occupancy.limits["tensor memory"] == 1
    assert "tensor memory 1" in str(found.occupancy)
