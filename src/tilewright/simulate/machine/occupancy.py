"""Occupancy: the number of a kernel's blocks that a multiprocessor holds at once, and its limiters.

Source: cuda_occupancy.h of the CUDA runtime, `cudaOccMaxActiveBlocksPerMultiprocessor`. The tests compile that header,
run it on the simulated GPU and compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import ArgumentValueError
from tilewright.ground.display import Shown
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu, gpus

#: Limiters, in the order of the header's bits (`cudaOccLimitingFactor`).
FACTORS = ("warps", "registers", "shared", "blocks", "barriers", "virtual")
#: Columns of tensor memory of a multiprocessor. Source: PTX ISA, 9.7.16.1 (Tensor Memory).
TENSOR_COLUMNS = 512
#: Carve-outs that stand for the older preferences (`cudaOccSMemPreferenceVoltaPlus`), in percent.
PREFERENCES = MappingProxyType({"l1": 0, "equal": 50, "shared": 100})


@dataclass(frozen=True, slots=True)
class Occupancy(Shown):
    """Theoretical occupancy of a multiprocessor."""

    active_blocks: int  #: Blocks resident at once; 0 when the kernel cannot run at all.
    active_warps: int  #: Their warps.
    fraction: float  #: Active warps divided by the multiprocessor's most, 0 to 1.
    #: Blocks that each resource alone allows; None if it sets no limit. Keys `warps`, `registers`, `shared`, `blocks`,
    #: `barriers` and `virtual` if they were given and the GPU counts them, and `tensor memory` if columns were given.
    limits: Mapping[str, int | None]
    limiters: tuple[str, ...]  #: The resources that allow no more than `active_blocks`, in the order above.
    #: `allocated_registers`, `allocated_shared_bytes`: the allocation of a block, rounded up as in hardware and
    #: including the driver's reserve.
    allocated_registers: int
    allocated_shared_bytes: int

    @property
    def limiter(self) -> str:
        """The limiting resources in one phrase, such as `registers` or `warps, shared`."""
        return ", ".join(self.limiters)

    @property
    def limiting_factors(self) -> int:
        """The header's `limitingFactors`: a bit for each of `FACTORS`.

        The header checks barriers last and keeps earlier bits even if barriers allow fewer blocks. So a bit may be set
        for a resource that is not among `limiters`.
        """
        first = {name: self.limits[name] for name in FACTORS if name in self.limits and name != "barriers"}
        least = min(limit for limit in first.values() if limit is not None)
        named = {name for name, limit in first.items() if limit == least}
        if self.limits.get("barriers") == self.active_blocks:
            named.add("barriers")
        return sum(1 << bit for bit, name in enumerate(FACTORS) if name in named)


def occupancy(
    gpu: Gpu,
    *,
    registers_per_thread: int,
    shared_bytes: int,
    block_threads: int,
    barriers: int = 0,
    dynamic_shared_bytes: int = 0,
    dynamic_limit_bytes: int | None = None,
    optin: bool = True,
    carveout: int | None = None,
    virtual_resources: int = 0,
    tensor_columns: int = 0,
) -> Occupancy:
    """Count the blocks of a kernel that fit on one multiprocessor.

    Parameters
    ----------
    gpu : Gpu
    registers_per_thread : int
        Registers, as the vendor's assembler reports them.
    shared_bytes : int
        Static and dynamic shared memory of one block, without the driver's reserve.
    block_threads : int
        Threads of one block.
    barriers : int
        Named barriers of a block; 0 ignores them.
    dynamic_shared_bytes : int
        The part of `shared_bytes` that is dynamic.
    dynamic_limit_bytes : int, optional
        The limit of the dynamic part (`cudaFuncAttributeMaxDynamicSharedMemorySize`); by default the dynamic part
        itself.
    optin : bool
        Whether a block may have more than 48 KB, if the limit above was raised.
    carveout : int, optional
        Percentage of shared memory that the kernel prefers (`cudaFuncAttributePreferredSharedMemoryCarveout`), 0 to
        100; by default the most. `PREFERENCES` names three.
    virtual_resources : int
        Virtual resources of a block; 0 ignores them.
    tensor_columns : int
        Columns of tensor memory that a block allocates, 0 to 512.

    Raises
    ------
    ArgumentValueError
        A number is negative, the block has no thread, more shared memory is dynamic than there is in total, or the
        carve-out is not a percentage.

    Examples
    --------
    >>> from tilewright.simulate.machine import gpu
    >>> found = occupancy(gpu("h100"), registers_per_thread=40, shared_bytes=2048, block_threads=256)
    >>> found.active_blocks, found.active_warps, found.fraction, found.limiter
    (6, 48, 0.75, 'registers')
    """
    limit = dynamic_shared_bytes if dynamic_limit_bytes is None else dynamic_limit_bytes
    _check(
        block_threads,
        carveout,
        registers_per_thread=registers_per_thread,
        shared_bytes=shared_bytes,
        barriers=barriers,
        dynamic_shared_bytes=dynamic_shared_bytes,
        dynamic_limit_bytes=limit,
        virtual_resources=virtual_resources,
        tensor_columns=tensor_columns,
    )
    warps = _round_up(block_threads, WARP_LANES) // WARP_LANES
    a_warp = _round_up(registers_per_thread * WARP_LANES, gpu.register_unit)
    allocated = allocated_shared(gpu, shared_bytes)
    most = _most_shared(gpu, shared_bytes - dynamic_shared_bytes, dynamic_shared_bytes, limit, optin=optin)
    limits: dict[str, int | None] = {
        "warps": _warp_limit(gpu, block_threads, warps),
        "registers": _register_limit(gpu, registers_per_thread, a_warp, warps),
        "shared": _shared_limit(gpu, allocated, most, carveout),
        "blocks": gpu.blocks_per_multiprocessor,
    }
    limits |= _counted(gpu, barriers, virtual_resources, tensor_columns)
    active = min(limit for limit in limits.values() if limit is not None)
    return Occupancy(
        active_blocks=active,
        active_warps=active * warps,
        fraction=active * warps / gpu.warps_per_multiprocessor,
        limits=MappingProxyType(limits),
        limiters=tuple(name for name, limit in limits.items() if limit == active),
        allocated_registers=a_warp * warps,
        allocated_shared_bytes=allocated,
    )


def _counted(gpu: Gpu, barriers: int, virtual: int, columns: int) -> dict[str, int]:
    """Blocks that the resources allow which a block need not have, where it has some and the GPU counts them."""
    held = {
        "barriers": (gpu.barriers_per_multiprocessor, barriers),
        "virtual": (gpu.virtual_per_multiprocessor, virtual),
        "tensor memory": (TENSOR_COLUMNS, columns),
    }
    return {name: most // each for name, (most, each) in held.items() if each and most is not None}


def most_resident(block_threads: int) -> int:
    """Most blocks of a number of threads that any known GPU can hold at once.

    >>> most_resident(32) >= 132 * 32
    True
    """
    return max(
        gpu.multiprocessors
        * occupancy(gpu, registers_per_thread=0, shared_bytes=0, block_threads=block_threads).active_blocks
        for gpu in gpus().values()
    )


def allocated_shared(gpu: Gpu, shared_bytes: int) -> int:
    """Bytes of shared memory that are allocated for a block, including the driver's reserve."""
    return _round_up(shared_bytes + gpu.shared_reserved_bytes, gpu.shared_unit_bytes)


def shared_memory(gpu: Gpu, wanted_bytes: int, carveout: int | None = None) -> int:
    """Bytes of shared memory that a multiprocessor is set to: `cudaOccSMemPreferenceVoltaPlus`.

    `wanted_bytes`: least shared memory, at most that of a multiprocessor. `carveout`: the preferred percentage, 0 to
    100, raised if `wanted_bytes` needs more; by default 100.

    >>> from tilewright.simulate.machine import gpu
    >>> shared_memory(gpu("a100"), 5000, carveout=0), shared_memory(gpu("a100"), 5000)
    (8192, 167936)
    """
    preferred = gpu.shared_per_multiprocessor_bytes * (100 if carveout is None else carveout) // 100
    return max(_step(gpu, preferred), _step(gpu, wanted_bytes))


def _step(gpu: Gpu, size: int) -> int:
    """The smallest setting of a multiprocessor's shared memory that is no less."""
    return next(step << 10 for step in gpu.shared_steps_kib if step << 10 >= size)


def _check(block_threads: int, carveout: int | None, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise ArgumentValueError(f"`{name}` must not be negative (got {number}); give 0 or more")
    if numbers["dynamic_shared_bytes"] > numbers["shared_bytes"]:
        raise ArgumentValueError(
            f"`dynamic_shared_bytes` must be a part of `shared_bytes` (got {numbers['dynamic_shared_bytes']} of "
            f"{numbers['shared_bytes']}); add it there"
        )
    if block_threads < 1:
        raise ArgumentValueError(f"`block_threads` must be at least 1 (got {block_threads}); give 1 to 1024")
    if carveout is not None and not 0 <= carveout <= 100:
        raise ArgumentValueError(
            f"`carveout` must be a percentage, 0 to 100 (got {carveout}); leave it out for no preference"
        )


def _warp_limit(gpu: Gpu, block_threads: int, warps: int) -> int:
    """`cudaOccMaxBlocksPerSMWarpsLimit`."""
    return 0 if block_threads > gpu.launch.threads_per_block else gpu.warps_per_multiprocessor // warps


def _register_limit(gpu: Gpu, registers_per_thread: int, a_warp: int, warps: int) -> int | None:
    """`cudaOccMaxBlocksPerSMRegsLimit`: registers are allocated to warps, in units, from the warp's partition."""
    if registers_per_thread == 0:
        return None
    # The hardware checks a block as if its warps filled every partition equally.
    checked = a_warp * _round_up(warps, gpu.warp_unit)
    if registers_per_thread > gpu.register_ceiling or checked > gpu.registers_per_block:
        return 0
    warps_a_partition = gpu.registers_per_multiprocessor // gpu.warp_unit // a_warp
    return warps_a_partition * gpu.warp_unit // warps


def _most_shared(gpu: Gpu, static: int, dynamic: int, limit: int, *, optin: bool) -> int:
    """`cudaOccSMemPerBlock`: the most of a block, including the driver's reserve; 0 if it wants too much."""
    if optin and dynamic > limit:
        return 0
    usual = gpu.launch.shared_per_block_bytes
    raised = optin and static + gpu.shared_reserved_bytes + limit > usual
    return (gpu.shared_per_block_optin_bytes if raised else usual) + gpu.shared_reserved_bytes


def _shared_limit(gpu: Gpu, allocated: int, most: int, carveout: int | None) -> int | None:
    """`cudaOccMaxBlocksPerSMSmemLimit`."""
    if allocated > most:
        return 0
    return shared_memory(gpu, allocated, carveout) // allocated if allocated else None


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
