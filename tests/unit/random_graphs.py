"""Random flow graphs on the machine, against one thread at a time in plain Python."""

from __future__ import annotations

import random

import numpy as np
from ptx_kernels import kernel, run
from scalar_ptx import random_flow


def wrong_threads(seed: int, grid: int = 2, block: int = 44) -> list[str]:
    """Wrong values in registers of the threads of the seed's graph."""
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
