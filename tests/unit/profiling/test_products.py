"""Profiles of tensor cores. Oracles: 2 m n k operations of a product; the data sheets' dense peak rates."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import catalogue, machine
from tilewright.profiling import Counts
from tilewright.profiling.products import products
from tilewright.profiling.record import SiteCounts


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
