"""A program without races gives the same bits in every order of warps and blocks, and whatever the block size."""

from __future__ import annotations

import llvm_programs
import mutation
import numpy as np
import pytest
import two_backends

import tilewright as tw

SEEDS = (None, 0, 1, 2, 3, 12345)
STOCK = mutation.Stock()
#: The first lane to arrive writes word 1 of `warp`, so only this word depends on the order.
FREE = {"warp": (1,)}
#: Kernels whose blocks store and add to the same words.
OF_ONE_BLOCK = ("stores",)


def kernel_output(name: str, seed: int | None) -> np.ndarray:
    source, target = mutation.HostArrays().arguments()
    program, blocks = tw.programs.Program.from_ptx(STOCK.texts[name]), 1 if name in OF_ONE_BLOCK else 4
    tw.simt.launch(program, blocks, 64, [source, target, 64], shared_bytes=64, seed=seed)
    return np.delete(target, FREE.get(name, ()))


@pytest.mark.parametrize("name", sorted(STOCK.texts))
def test_kernels(name: str) -> None:
    first, *others = (kernel_output(name, seed) for seed in SEEDS)
    assert all((other == first).all() for other in others)


@pytest.mark.parametrize(
    "program", [*range(100, 103), *(pytest.param(n, marks=pytest.mark.volume) for n in range(103, 112))]
)
def test_programs(program: int) -> None:
    ptx = tw.programs.Program.from_ptx(two_backends.to_ptx(llvm_programs.program(program), program % 4))
    inputs = two_backends.records(program, 192)
    found = []
    for seed, block in zip(SEEDS, (32, 64, 96, 192, 1, 48), strict=True):
        outputs = np.zeros((len(inputs), llvm_programs.OUTPUTS), np.uint64)
        tw.simt.launch(ptx, len(inputs) // block, block, [inputs.reshape(-1), outputs.reshape(-1)], seed=seed)
        found.append(outputs)
    assert all((outputs == found[0]).all() for outputs in found[1:])
    assert found[0].any()


RACE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    atom.global.exch.b32 %r2, [%rd1], %r1;
    ret;
}
"""


def test_a_seed_changes_the_order() -> None:
    """The warp that comes last differs by seed; so the tests above do run other orders."""
    last = set()
    for seed in range(12):
        out = np.zeros(1, np.uint32)
        tw.simt.launch(tw.programs.Program.from_ptx(RACE), 1, 256, [out], seed=seed)
        last.add(int(out[0]) // 32)
    assert len(last) > 1
