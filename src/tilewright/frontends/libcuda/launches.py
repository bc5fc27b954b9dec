"""Launches by driver functions, whose arguments are addresses of parameter values.

Source: CUDA Driver API, "Execution Control" (`cuLaunchKernel`, `cuLaunchKernelEx`) and "Occupancy"; `cuda.h`,
`CUlaunchConfig` and `CUlaunchAttribute`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontends.libcuda.loading import offsets
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.graphs import submit
from tilewright.simulate.device.launching import LaunchConfig
from tilewright.simulate.device.modules import Kernel, KernelAttributes
from tilewright.simulate.machine import suggestions
from tilewright.simulate.machine.alternatives import Demand

_EXTRA_END, _EXTRA_POINTER, _EXTRA_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*
#: `CUlaunchConfig`, and the runtime's `cudaLaunchConfig_t`, whose shared memory has 64 bits, the upper ones 0: six
#: extents, shared memory, stream, attributes and their number.
_CONFIG = "7I4xQQI"
#: `CUlaunchAttribute`: its number, padding to 8 bytes, and 64 bytes of value.
_ATTRIBUTE_BYTES = 72
#: There are fewer kinds of attributes. Source: CUDA Driver API, `CUlaunchAttributeID`.
_MOST_ATTRIBUTES = 64
_COOPERATIVE, _CLUSTER = 2, 4  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_OVERLAPS = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


def cuLaunchKernel(
    gpu: SimulatedGpu, kernel: Kernel, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int, block_z: int,
    shared_bytes: int, stream: int, parameters: int, extra: int = 0,
) -> None:  # fmt: skip
    """Run a kernel and wait for it."""
    config = LaunchConfig((grid_x, grid_y, grid_z), (block_x, block_y, block_z), shmem_size=shared_bytes)
    launch(gpu, stream, config, kernel, parameters, extra)


def cuLaunchCooperativeKernel(
    gpu: SimulatedGpu, kernel: Kernel, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int, block_z: int,
    shared_bytes: int, stream: int, parameters: int,
) -> None:  # fmt: skip
    """Run a kernel whose blocks can wait for each other."""
    grid, block = (grid_x, grid_y, grid_z), (block_x, block_y, block_z)
    config = LaunchConfig(grid, block, shmem_size=shared_bytes, cooperative_launch=True)
    launch(gpu, stream, config, kernel, parameters, 0)


def cuLaunchKernelEx(gpu: SimulatedGpu, config: int, kernel: Kernel, parameters: int, extra: int = 0) -> None:
    """Run a kernel with a configuration."""
    stream, made = configured(gpu, config)
    launch(gpu, stream, made, kernel, parameters, extra)


def configured(gpu: SimulatedGpu, config: int) -> tuple[int, LaunchConfig]:
    """The stream and launch configuration at an address."""
    *extents, shared_bytes, stream, attributes, count = gpu.host.unpacked(_CONFIG, config)
    grid, block = tuple(extents[:3]), tuple(extents[3:])
    cluster, cooperative, overlaps = None, False, False
    if count > _MOST_ATTRIBUTES:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    for at in range(count):
        kind, *values = gpu.host.unpacked("I4x3I", attributes + at * _ATTRIBUTE_BYTES)
        if kind == _COOPERATIVE:
            cooperative = bool(values[0])
        elif kind == _OVERLAPS:
            overlaps = bool(values[0])
        elif kind == _CLUSTER:
            cluster = tuple(values)
    if cluster is not None:
        if any(c < 1 or g % c for g, c in zip(grid, cluster, strict=True)):
            rule = f"the grid {grid} must be a multiple of the launch's cluster {cluster}"
            raise DriverError("CUDA_ERROR_INVALID_CLUSTER_SIZE", rule)
        grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))  # the unit of a LaunchConfig
    return stream, LaunchConfig(grid, block, cluster, shared_bytes, cooperative_launch=cooperative, overlaps=overlaps)


def launch(
    gpu: SimulatedGpu, stream: int, config: LaunchConfig, kernel: Kernel, parameters: int, extra: int = 0
) -> None:
    """Run a kernel with the present values at its parameters' addresses."""
    gpu.require_context()
    passed = gpu.host.passed if parameters else None
    values = values_at(gpu, kernel, parameters, extra, passed and len(passed.arguments))
    submit(gpu, stream, lambda where: gpu.host.launch(gpu, where, config, kernel, values, passed), "kernel")


def values_at(
    gpu: SimulatedGpu, kernel: Kernel, parameters: int, extra: int = 0, given: int | None = None
) -> Sequence[bytes]:
    """The bytes of each parameter, read from the program's addresses, of which there are as many as `given`.

    Those that are missing are empty: the launch will be rejected.
    """
    wanted = kernel.program.parameters
    if given is not None and given < len(wanted):
        return [b""] * len(wanted)
    places: Sequence[int] = ()
    if parameters:
        places = gpu.host.words(len(wanted), parameters)
    elif wanted:
        begin = _buffer(gpu, extra) if extra else 0
        if not begin:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"takes {len(wanted)} kernel parameters (got none)")
        places = [begin + at for at in offsets(kernel)]
    for parameter, place in zip(wanted, places, strict=True):
        if not place:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"parameter {parameter.name} has no address")
    return gpu.host.read_all([(place, one.bytes) for place, one in zip(places, wanted, strict=True)])


def _buffer(gpu: SimulatedGpu, extra: int) -> int:
    """The address of the parameter buffer in a list of extra options."""
    at, found = extra, 0
    while (key := gpu.host.unpacked("Q", at)) != _EXTRA_END:
        if key == _EXTRA_POINTER:
            found = gpu.host.unpacked("Q", at + 8)
        elif key != _EXTRA_SIZE:
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        at += 16
    return found


def cuLaunchHostFunc(gpu: SimulatedGpu, stream: int, function: int, data: int) -> None:
    """Call a host function when the stream's work is done."""
    submit(gpu, stream, lambda where: gpu.host.call_back(gpu, where, function, data), "host")


def cuOccupancyMaxPotentialBlockSize(
    gpu: SimulatedGpu, kernel: Kernel, dynamic: int, shared_bytes: int, limit: int
) -> tuple[int, int]:
    """Blocks of the smallest grid that fills the device, and threads of the block size with the best occupancy."""
    demand, most = _demand(kernel), KernelAttributes(kernel).max_threads_per_block
    threads, blocks = suggestions.suggest_block(
        gpu.record,
        demand,
        min(limit or most, most),
        lambda threads: gpu.host.invoke(dynamic, threads) if dynamic else shared_bytes,
    )
    if not threads:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return blocks, threads


def cuOccupancyAvailableDynamicSMemPerBlock(gpu: SimulatedGpu, kernel: Kernel, blocks: int, threads: int) -> int:
    """The most dynamic shared memory with which `blocks` blocks are resident."""
    found = suggestions.room_for_dynamic(gpu.record, _demand(kernel, threads), blocks)
    if found is None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return found


def _demand(kernel: Kernel, block_threads: int = 1) -> Demand:
    needs = KernelAttributes(kernel)
    return Demand(needs.num_regs, needs.shared_size_bytes, block_threads)
