"""How many blocks of a kernel a multiprocessor holds at once, and what limits them.

Source: cuda_occupancy.h of the CUDA runtime, `cudaOccMaxActiveBlocksPerMultiprocessor`, for the default preference of
shared memory over L1. The tests compile that header and compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import ArgumentValueError
from tilewright.machine.gpu import WARP_LANES, Gpu


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Theoretical occupancy of a multiprocessor.

    Attributes
    ----------
    active_blocks : int
        Blocks resident at once; 0 when the kernel cannot run at all.
    active_warps : int
        Their warps.
    fraction : float
        Active warps of the most the multiprocessor holds, 0 to 1.
    limits : mapping of str to int or None
        Blocks that each resource alone allows; None where it sets no limit. Keys `warps`, `registers`, `shared`,
        `blocks`, and `barriers` where barriers were given and the GPU counts them.
    limiters : tuple of str
        The resources that allow no more than `active_blocks`, in the order above: the header's `limitingFactors`,
        except that what barriers have overtaken is not named beside them.
    """

    active_blocks: int
    active_warps: int
    fraction: float
    limits: Mapping[str, int | None]
    limiters: tuple[str, ...]

    @property
    def limiter(self) -> str:
        """The limiting resources in one phrase, such as `registers` or `warps, shared`."""
        return ", ".join(self.limiters)


def occupancy(
    gpu: Gpu, *, registers_per_thread: int, shared_bytes: int, block_threads: int, barriers: int = 0
) -> Occupancy:
    """Count the blocks of a kernel that fit on one multiprocessor.

    Parameters
    ----------
    gpu : Gpu
    registers_per_thread : int
        As the vendor's assembler reports.
    shared_bytes : int
        Static and dynamic shared memory of one block, without what the driver reserves. More than 48 KB is taken to
        have been asked for (`cudaFuncAttributeMaxDynamicSharedMemorySize`).
    block_threads : int
        Threads of one block.
    barriers : int
        Named barriers a block uses; 0 leaves them out of account.

    Raises
    ------
    ArgumentValueError
        When a number is negative, or the block has no thread.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> found = occupancy(gpu("h100"), registers_per_thread=40, shared_bytes=2048, block_threads=256)
    >>> found.active_blocks, found.active_warps, found.fraction, found.limiter
    (6, 48, 0.75, 'registers')
    """
    asked = {"registers_per_thread": registers_per_thread, "shared_bytes": shared_bytes, "barriers": barriers}
    for name, number in asked.items():
        if number < 0:
            raise ArgumentValueError(f"`{name}` must not be negative (got {number})")
    if block_threads < 1:
        raise ArgumentValueError(f"`block_threads` must be at least 1 (got {block_threads})")
    warps = _round_up(block_threads, WARP_LANES) // WARP_LANES
    limits: dict[str, int | None] = {
        "warps": _warp_limit(gpu, block_threads, warps),
        "registers": _register_limit(gpu, registers_per_thread, warps),
        "shared": _shared_limit(gpu, shared_bytes),
        "blocks": gpu.blocks_per_multiprocessor,
    }
    if barriers and gpu.barriers_per_multiprocessor is not None:
        limits["barriers"] = gpu.barriers_per_multiprocessor // barriers
    active = min(limit for limit in limits.values() if limit is not None)
    return Occupancy(
        active_blocks=active,
        active_warps=active * warps,
        fraction=active * warps / gpu.warps_per_multiprocessor,
        limits=MappingProxyType(limits),
        limiters=tuple(name for name, limit in limits.items() if limit == active),
    )


def _warp_limit(gpu: Gpu, block_threads: int, warps: int) -> int:
    """`cudaOccMaxBlocksPerSMWarpsLimit`."""
    return 0 if block_threads > gpu.launch.threads_per_block else gpu.warps_per_multiprocessor // warps


def _register_limit(gpu: Gpu, registers_per_thread: int, warps: int) -> int | None:
    """`cudaOccMaxBlocksPerSMRegsLimit`: registers go to warps, in units, from the warp's own partition."""
    if registers_per_thread == 0:
        return None
    a_warp = _round_up(registers_per_thread * WARP_LANES, gpu.register_unit)
    # The hardware checks a block as if its warps filled every partition equally.
    checked = a_warp * _round_up(warps, gpu.warp_unit)
    if registers_per_thread > gpu.registers_per_thread or checked > gpu.registers_per_block:
        return 0
    warps_a_partition = gpu.registers_per_multiprocessor // gpu.warp_unit // a_warp
    return warps_a_partition * gpu.warp_unit // warps


def _shared_limit(gpu: Gpu, shared_bytes: int) -> int | None:
    """`cudaOccMaxBlocksPerSMSmemLimit`, with the multiprocessor's whole shared memory available."""
    allocated = _round_up(shared_bytes + gpu.shared_reserved_bytes, gpu.shared_unit_bytes)
    if allocated == 0:
        return None
    if allocated > gpu.shared_per_block_optin_bytes + gpu.shared_reserved_bytes:
        return 0
    return gpu.shared_per_multiprocessor_bytes // allocated


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
