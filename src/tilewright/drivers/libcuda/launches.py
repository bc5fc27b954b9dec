"""Launches by the driver's functions, whose arguments are addresses of the parameters' bytes.

Source: CUDA Driver API, "Execution Control" (`cuLaunchKernel`, `cuLaunchKernelEx`) and "Occupancy"; `cuda.h`,
`CUlaunchConfig` and `CUlaunchAttribute`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.drivers import modules
from tilewright.drivers.gpu import DriverError, SimulatedGpu
from tilewright.drivers.launching import LaunchConfig, Launcher
from tilewright.drivers.libcuda.loading import offsets
from tilewright.drivers.modules import Kernel, KernelAttributes
from tilewright.machine.gpu import WARP_LANES
from tilewright.programs.residency import active_blocks
from tilewright.simt.observer import ArgumentFact

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DYNAMIC_SHARED_BYTES = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)
_EXTRA_END, _EXTRA_POINTER, _EXTRA_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*
#: `CUlaunchConfig`: six extents, shared memory, stream, attributes and their number.
_CONFIG = struct.Struct("<7I4xQQI4x")
#: `CUlaunchAttribute`: its number, and 64 bytes of value at a distance of 8.
_ATTRIBUTE_BYTES, _VALUE_AT = 72, 8
_COOPERATIVE, _CLUSTER = 2, 4  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


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


def cuLaunchKernelEx(gpu: SimulatedGpu, config: int, kernel: Kernel, parameters: int, extra: int) -> None:
    """Run a kernel as a configuration says."""
    stream, made = configured(config)
    launch(gpu, stream, made, kernel, parameters, extra)


def configured(config: int) -> tuple[int, LaunchConfig]:
    """The stream and the extents that a configuration at an address says."""
    *extents, shared_bytes, stream, attributes, count = _CONFIG.unpack(ctypes.string_at(config, _CONFIG.size))
    grid, block = tuple(extents[:3]), tuple(extents[3:])
    cluster, cooperative = None, False
    for at in range(attributes, attributes + count * _ATTRIBUTE_BYTES, _ATTRIBUTE_BYTES):
        kind, *values = struct.unpack("<I4x3I", ctypes.string_at(at, _VALUE_AT + 12))
        if kind == _COOPERATIVE:
            cooperative = bool(values[0])
        elif kind == _CLUSTER:
            cluster = tuple(values)
    if cluster is not None:
        if any(c < 1 or g % c for g, c in zip(grid, cluster, strict=True)):
            raise DriverError("CUDA_ERROR_INVALID_CLUSTER_SIZE")
        grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))  # what a LaunchConfig counts
    return stream, LaunchConfig(grid, block, cluster, shared_bytes, cooperative_launch=cooperative)


def launch(gpu: SimulatedGpu, stream: int, config: LaunchConfig, kernel: Kernel, parameters: int, extra: int) -> None:
    """Run a kernel whose parameters are at addresses."""
    gpu.require_context()
    values = list(values_at(kernel, parameters, extra))
    launcher = Launcher(gpu)
    launcher.note(lambda packed: _facts(gpu, packed))
    launcher.launch(stream, config, kernel, *values)


def values_at(kernel: Kernel, parameters: int, extra: int = 0) -> Iterator[Any]:
    """The bytes of each parameter, by the addresses that a program gives."""
    wanted = kernel.program.parameters
    if parameters:
        places: Any = (ctypes.c_size_t * len(wanted)).from_address(parameters)
    else:
        begin = _buffer(extra) if extra else 0
        if wanted and not begin:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"takes {len(wanted)} kernel parameters (got none)")
        places = [begin + at for at in offsets(kernel)]
    for parameter, place in zip(wanted, places, strict=True):
        if not place:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"parameter {parameter.name} has no address")
        yield (ctypes.c_ubyte * parameter.bytes).from_buffer_copy(ctypes.string_at(place, parameter.bytes))


def _buffer(extra: int) -> int:
    """Where the parameters are that a list of extra options names."""
    at, found = extra, 0
    while (key := ctypes.c_size_t.from_address(at).value) != _EXTRA_END:
        value = ctypes.c_size_t.from_address(at + 8).value
        if key == _EXTRA_POINTER:
            found = value
        elif key != _EXTRA_SIZE:
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        at += 16
    return found


def _facts(gpu: SimulatedGpu, values: Sequence[bytes]) -> Iterator[ArgumentFact]:
    """Of parameters that are addresses of the device's memory, the address; more is not known in C."""
    for index, value in enumerate(values):
        word = int.from_bytes(value, "little") if len(value) == 8 else 0
        is_address = bool(word) and gpu.memory.extent(word) is not None
        yield ArgumentFact(f"argument {index}", address=word if is_address else 0)


def cuLaunchHostFunc(gpu: SimulatedGpu, stream: int, function: int, data: int) -> None:
    """Call a function of the host when the stream's work is done."""
    called, before = _HOST_FUNCTION(function), gpu.outstanding.before(stream)

    def work() -> None:
        gpu.outstanding.known_done(before)
        called(data)

    gpu.call_back(gpu.stream(stream), work)


def cuOccupancyMaxPotentialBlockSize(
    gpu: SimulatedGpu, kernel: Kernel, dynamic: int, shared_bytes: int, limit: int
) -> tuple[int, int]:
    """Blocks of the least grid that fills the device, and threads of the block with which most of them are resident."""
    asked = _DYNAMIC_SHARED_BYTES(dynamic) if dynamic else lambda threads: shared_bytes
    needs, record = KernelAttributes(kernel), gpu.record
    most = min(limit or record.launch.threads_per_block, needs.max_threads_per_block)
    best = (0, 0)
    for threads in range(most - most % WARP_LANES or most, 0, -WARP_LANES):
        shared = needs.shared_size_bytes + asked(threads)
        resident = active_blocks(record, needs.num_regs, shared, threads) * threads
        if resident > best[0]:
            best = resident, threads
    resident, threads = best
    if not threads:
        raise DriverError("CUDA_ERROR_INVALID_VALUE")
    return resident // threads * record.multiprocessors, threads


def cuOccupancyAvailableDynamicSMemPerBlock(gpu: SimulatedGpu, kernel: Kernel, blocks: int, threads: int) -> int:
    """The most dynamic shared memory with which so many blocks are resident."""
    static, record = KernelAttributes(kernel).shared_size_bytes, gpu.record
    for bytes_ in range(record.shared_per_block_optin_bytes - static, -1, -256):
        if modules.cuOccupancyMaxActiveBlocksPerMultiprocessor(gpu, kernel, threads, bytes_) >= blocks:
            return bytes_
    return 0
