"""The CUDA runtime's suggestions for a launch: a block size, and the available dynamic shared memory.

Source: cuda_occupancy.h of the CUDA runtime, the function named at each. The tests run that header and compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.simulate.machine.alternatives import Demand
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu
from tilewright.simulate.machine.occupancy import shared_memory


def suggest_block(gpu: Gpu, demand: Demand, most: int, dynamic_shared: Callable[[int], int]) -> tuple[int, int]:
    """The largest block with the most resident threads, and the blocks that fill all multiprocessors.

    Both are 0 if the kernel cannot run. The block size of `demand` is ignored, and its shared memory is the static
    part; `dynamic_shared` returns the rest, in bytes, for a number of threads. `most` is tried first, then the whole
    numbers of warps below it. It is `cudaOccMaxPotentialOccupancyBlockSize`.

    >>> from tilewright.simulate.machine import gpu
    >>> suggest_block(gpu("h100"), Demand(40, shared_bytes=0, block_threads=1), 1024, lambda threads: 0)
    (768, 264)
    """
    best = (0, 0)
    for whole in range(-(-most // WARP_LANES) * WARP_LANES, 0, -WARP_LANES):
        threads = min(most, whole)
        shared = demand.shared_bytes + dynamic_shared(threads)
        blocks = replace(demand, block_threads=threads, shared_bytes=shared).on(gpu).active_blocks
        if blocks * threads * gpu.multiprocessors > best[0] * best[1]:
            best = threads, blocks * gpu.multiprocessors
    return best


def room_for_dynamic(gpu: Gpu, demand: Demand, blocks: int) -> int | None:
    """Dynamic shared memory, in bytes, of each of `blocks` resident blocks; None if a multiprocessor holds fewer.

    It is 0 if the static part, which `demand` has, leaves none (the difference of the header's
    `cudaOccAvailableDynamicSMemPerBlock` is unsigned, and wraps).

    >>> from tilewright.simulate.machine import gpu
    >>> room_for_dynamic(gpu("h100"), Demand(32, shared_bytes=0, block_threads=512), 2)
    115712
    """
    if not 1 <= blocks <= demand.on(gpu).active_blocks:
        return None
    most = gpu.shared_per_block_optin_bytes + gpu.shared_reserved_bytes
    if blocks == 1:  # one block may have all shared memory, for any preference
        whole = most
    else:
        whole = shared_memory(gpu, 0, demand.carveout) or gpu.shared_steps_kib[1] << 10
    unit = gpu.shared_unit_bytes
    each = min(whole // blocks // unit * unit, most)
    return max(0, each - demand.shared_bytes - gpu.shared_reserved_bytes)
