"""The CUDA runtime's suggestions for a launch: a block size, and the available dynamic shared memory.

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
    """A launch with the highest occupancy of a kernel."""

    block_threads: int  #: Threads of a block; 0 if the kernel cannot run at all.
    grid_blocks: int  #: Least number of blocks that fills all multiprocessors.


def suggest_block(
    gpu: Gpu,
    demand: Demand,
    *,
    most_threads: int | None = None,
    dynamic_shared: Callable[[int], int] = lambda threads: 0,
) -> Suggestion:
    """The largest block size with the most resident threads: `cudaOccMaxPotentialOccupancyBlockSize`.

    Parameters
    ----------
    gpu : Gpu
    demand : Demand
        The kernel; its block size is ignored, its shared memory is the static part.
    most_threads : int, optional
        Most threads of a block; by default the GPU's limit. If it is not a whole number of warps, it is tried first,
        then the whole numbers of warps below it.
    dynamic_shared : callable
        Function of the number of threads: dynamic shared memory of a block, in bytes.

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
    """Dynamic shared memory available to each of `blocks` resident blocks: `cudaOccAvailableDynamicSMemPerBlock`.

    Parameters
    ----------
    gpu : Gpu
    demand : Demand
        The kernel; its shared memory is the static part.
    blocks : int
        Number of blocks that a multiprocessor is to hold.

    Returns
    -------
    int
        Bytes; 0 if the static part leaves none (the header's unsigned difference wraps then).

    Raises
    ------
    ArgumentValueError
        A multiprocessor cannot hold so many even without dynamic shared memory.

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
    if blocks == 1:  # one block may have all shared memory, for any preference
        whole = most
    else:
        whole = shared_memory(gpu, 0, demand.carveout) or gpu.shared_steps_kib[1] << 10
    unit = gpu.shared_unit_bytes
    each = min(whole // blocks // unit * unit, most)
    return max(0, each - demand.shared_bytes - gpu.shared_reserved_bytes)
