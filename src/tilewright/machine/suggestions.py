"""What the CUDA runtime suggests for a launch: a block size, and how much dynamic shared memory there is room for.

Source: cuda_occupancy.h of the CUDA runtime, the function named at each. The tests run that header and compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.errors import ArgumentValueError
from tilewright.machine.alternatives import Demand
from tilewright.machine.gpu import WARP_LANES, Gpu
from tilewright.machine.occupancy import shared_memory


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A launch that fills the GPU as far as one kernel can."""

    block_threads: int  #: Threads of a block; 0 when the kernel cannot run at all.
    grid_blocks: int  #: The least blocks with which every multiprocessor holds as many as it can.


def suggest_block(
    gpu: Gpu,
    demand: Demand,
    *,
    most_threads: int | None = None,
    dynamic_shared: Callable[[int], int] = lambda threads: 0,
) -> Suggestion:
    """The largest block of those with which most threads are resident: `cudaOccMaxPotentialOccupancyBlockSize`.

    Parameters
    ----------
    gpu : Gpu
    demand : Demand
        The kernel; its block is left out of account, its shared memory is the static part.
    most_threads : int, optional
        Most threads a block may have; what the GPU allows, by default. Where it is no whole number of warps, it is
        tried itself, then the whole warps below it.
    dynamic_shared : callable
        Dynamic shared memory of a block with so many threads, in bytes.

    Raises
    ------
    ArgumentValueError
        `most_threads` is not at least 1.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> suggest_block(gpu("h100"), Demand(registers_per_thread=40, shared_bytes=0, block_threads=1))
    Suggestion(block_threads=768, grid_blocks=264)
    """
    most = gpu.launch.threads_per_block if most_threads is None else min(most_threads, gpu.launch.threads_per_block)
    if most < 1:
        raise ArgumentValueError(f"`most_threads` must be at least 1 (got {most_threads}); leave it out for no limit")
    best, best_threads = Suggestion(0, 0), 0
    for whole in range(-(-most // WARP_LANES) * WARP_LANES, 0, -WARP_LANES):
        threads = min(most, whole)
        shared = demand.shared_bytes + dynamic_shared(threads)
        blocks = replace(demand, block_threads=threads, shared_bytes=shared).on(gpu).active_blocks
        if blocks * threads > best_threads:
            best, best_threads = Suggestion(threads, blocks * gpu.multiprocessors), blocks * threads
    return best


def room_for_dynamic(gpu: Gpu, demand: Demand, blocks: int) -> int:
    """Dynamic shared memory that so many resident blocks may have each: `cudaOccAvailableDynamicSMemPerBlock`.

    Parameters
    ----------
    gpu : Gpu
    demand : Demand
        The kernel; its shared memory is the static part.
    blocks : int
        How many blocks a multiprocessor is to hold.

    Returns
    -------
    int
        Bytes; 0 where the static part leaves none, for which the header's unsigned difference wraps.

    Raises
    ------
    ArgumentValueError
        A multiprocessor does not hold so many even without dynamic shared memory.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> room_for_dynamic(gpu("h100"), Demand(registers_per_thread=32, shared_bytes=0, block_threads=512), 2)
    115712
    """
    held = demand.on(gpu).active_blocks
    if not 1 <= blocks <= held:
        raise ArgumentValueError(
            f"`blocks` must be 1 to the {held} that {gpu.name} holds of this kernel (got {blocks}); give fewer"
        )
    most = gpu.shared_per_block_optin_bytes + gpu.shared_reserved_bytes
    if blocks == 1:  # one block may have all there is, whatever the preference
        whole = most
    else:
        whole = shared_memory(gpu, 0, demand.carveout) or gpu.shared_steps_kib[1] << 10
    unit = gpu.shared_unit_bytes
    each = min(whole // blocks // unit * unit, most)
    return max(0, each - demand.shared_bytes - gpu.shared_reserved_bytes)
