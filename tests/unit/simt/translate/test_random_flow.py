"""Random flow graphs, irreducible ones among them, against one thread at a time in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ptx_kernels import kernel, run
from scalar_ptx import random_flow


def wrong_threads(seed: int, grid: int, block: int) -> list[str]:
    rng = random.Random(seed)
    flow = random_flow(rng, blocks=rng.randrange(3, 11))
    out = np.zeros((grid * block, flow.registers), np.uint32)
    program = kernel(flow.text(), 2, declarations=flow.DECLARATIONS)
    run(program, out, np.zeros(4 * grid * block + 4, np.uint32), grid=grid, block=block, seed=seed)
    found = []
    for g in range(grid * block):
        b, t = divmod(g, block)
        wanted = flow.execute({"%tid": t, "%lane": t % 32, "%block": b})
        if out[g].tolist() != wanted:
            found.append(f"seed {seed} block {b} thread {t}: {out[g].tolist()}, must be {wanted}")
    return found


@pytest.mark.parametrize("first", range(0, 60, 6))
def test_random_graphs(first):
    found = [line for seed in range(first, first + 6) for line in wrong_threads(seed, 2, 44)[:1]]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(100, 115, 5))
def test_warps_that_yield_all_the_time(first, monkeypatch):
    """With almost no fuel a warp saves and restores its registers at every back edge."""
    monkeypatch.setattr("tilewright.simt.run.execution.QUANTUM", 3)
    found = [line for seed in range(first, first + 5) for line in wrong_threads(seed, 2, 44)[:1]]
    assert not found, "\n".join(found)


@pytest.mark.volume
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_graphs(first):
    found = [line for seed in range(first, first + 100) for line in wrong_threads(seed, 2, 40)[:1]]
    assert not found, "\n".join(found)
