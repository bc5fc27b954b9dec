"""A record for each GPU, read from `gpus.toml`."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.ground.native.memo import memo

#: Lanes of a warp, of every compute capability. Source: CUDA Programming Guide, appendix "Compute Capabilities".
WARP_LANES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLimits:
    """The limits of a launch on every GPU."""

    #: `grid_extents`, `block_extents`: most blocks of a grid and threads of a block in x, y and z.
    grid_extents: tuple[int, int, int]
    block_extents: tuple[int, int, int]
    threads_per_block: int  #: Most threads of a block in total.
    shared_per_block_bytes: int  #: Most shared memory of a block without opt-in.
    local_per_thread_bytes: int  #: Most local memory of a thread.
    #: `cluster_blocks`, `cluster_blocks_portable`: most blocks of a cluster with and without opt-in.
    cluster_blocks: int
    cluster_blocks_portable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU: its multiprocessors' limits and its rates.

    Attributes
    ----------
    key : str
        The name that :func:`gpu` takes.
    name, family : str
        The product, and its architecture.
    compute_capability : tuple of int
        Major and minor.
    multiprocessors : int
        How many.
    launch : LaunchLimits
        Its limits of launches.
    threads_per_multiprocessor, blocks_per_multiprocessor : int
        Most that can be resident.
    registers_per_multiprocessor, registers_per_block, registers_per_thread : int
        32-bit registers.
    register_ceiling : int
        Most registers of a thread in occupancy calculations; code can use `registers_per_thread`.
    register_unit : int
        Unit in which registers are allocated to a warp.
    warp_unit : int
        Partitions of a multiprocessor, among which registers and warps are divided.
    shared_per_multiprocessor_bytes, shared_per_block_optin_bytes : int
        Shared memory of a multiprocessor, and the most of a block with opt-in.
    shared_reserved_bytes, shared_unit_bytes : int
        Bytes of every block that the driver reserves, and the unit in which shared memory is allocated.
    shared_steps_kib : tuple of int
        Sizes, in 1024 bytes, that a multiprocessor's shared memory can be set to; the first-level cache has the rest.
    unified_bytes : int
        Unified data cache of a multiprocessor: first-level cache, texture cache and shared memory.
    barriers_per_multiprocessor, virtual_per_multiprocessor : int or None
        Hardware barriers and virtual resources, if their number limits occupancy.
    boost_mhz, memory_gb_per_s, memory_gb, l2_bytes : int
        Clock, memory bandwidth (10^9 bytes a second), memory (10^9 bytes), second-level cache.
    line_bytes, sector_bytes : int
        Bytes of a line of both caches, and of a sector, the unit of fills.
    shared_bytes_per_clock, l1_bytes_per_clock : float
        Bandwidth of a multiprocessor's shared memory and first-level cache; the latter None if not published.
    l2_bytes_per_clock : float or None
        Bandwidth of the second-level cache, if published.
    schedulers : int
        Warp schedulers of a multiprocessor; each issues an instruction a clock.
    fp32_per_clock, fp64_per_clock, fp16_per_clock, int32_per_clock : int
        Multiply-adds a clock a multiprocessor, outside tensor cores.
    special_per_clock : int or None
        Reciprocals, roots, exponentials, logarithms, sines and cosines (approximate, float32), where published.
    tensor_per_clock : mapping of str to int
        Multiply-adds a clock a multiprocessor in tensor cores, dense, by the format of the elements.
    tensor_float32_share : float
        Share of that rate that sums in float32 reach.
    peak_fp32_tflops : float
        The vendor's figure; :meth:`peak_gflops` computes it.
    """

    key: str
    name: str
    family: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    launch: LaunchLimits
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    registers_per_multiprocessor: int
    registers_per_block: int
    registers_per_thread: int
    register_ceiling: int
    register_unit: int
    warp_unit: int
    shared_per_multiprocessor_bytes: int
    shared_per_block_optin_bytes: int
    shared_reserved_bytes: int
    shared_unit_bytes: int
    shared_steps_kib: tuple[int, ...]
    unified_bytes: int
    boost_mhz: int
    memory_gb_per_s: int
    memory_gb: int
    l2_bytes: int
    line_bytes: int
    sector_bytes: int
    shared_bytes_per_clock: float
    schedulers: int
    fp32_per_clock: int
    fp64_per_clock: int
    fp16_per_clock: int
    int32_per_clock: int
    peak_fp32_tflops: float
    tensor_per_clock: MappingProxyType[str, int] = field(hash=False)
    tensor_float32_share: float = 1.0
    special_per_clock: int | None = None
    l1_bytes_per_clock: float | None = None
    l2_bytes_per_clock: float | None = None
    barriers_per_multiprocessor: int | None = None
    virtual_per_multiprocessor: int | None = None

    @property
    def warps_per_multiprocessor(self) -> int:
        """Most warps that can be resident."""
        return self.threads_per_multiprocessor // WARP_LANES

    @property
    def memory_bytes(self) -> int:
        """Bytes of its memory."""
        return self.memory_gb * 10**9

    def peak_gflops(self, dtype: str = "float32") -> float:
        """Multiplications and additions a second outside tensor cores, in 10^9, at the boost clock.

        Parameters
        ----------
        dtype : str
            "float32", "float64", "float16" or "int32".

        Raises
        ------
        ArgumentValueError
            It is another dtype.

        Examples
        --------
        >>> from tilewright.simulate.machine import gpu
        >>> round(gpu("a100").peak_gflops())
        19492
        """
        rates = {
            "float32": self.fp32_per_clock,
            "float64": self.fp64_per_clock,
            "float16": self.fp16_per_clock,
            "int32": self.int32_per_clock,
        }
        if dtype not in rates:
            raise ArgumentValueError(f"{self.name}: the peak rate is known for {', '.join(rates)} (got {dtype!r})")
        return 2 * rates[dtype] * self.multiprocessors * self.boost_mhz / 1000

    def gb_per_s(self, level: str) -> float | None:
        """Bandwidth of a level of memory for all multiprocessors, in 10^9 bytes a second, at the boost clock.

        Parameters
        ----------
        level : str
            "shared", "l1", "l2" or "dram".

        Returns
        -------
        float or None
            None if no source states it.

        Raises
        ------
        ArgumentValueError
            It is another level.

        Examples
        --------
        >>> from tilewright.simulate.machine import gpu
        >>> gpu("a100").gb_per_s("l2"), gpu("a100").gb_per_s("dram"), gpu("t4").gb_per_s("l2")
        (7219.2, 2039, None)
        """
        each = {
            "shared": self.shared_bytes_per_clock * self.multiprocessors,
            "l1": self.l1_bytes_per_clock and self.l1_bytes_per_clock * self.multiprocessors,
            "l2": self.l2_bytes_per_clock,
        }
        if level == "dram":
            return self.memory_gb_per_s
        if level not in each:
            raise ArgumentValueError.of_name("a level of memory", level, (*each, "dram"))
        a_clock = each[level]
        return None if a_clock is None else a_clock * self.boost_mhz / 1000


@functools.lru_cache(maxsize=64)
def named(name: str) -> Gpu:
    """The record of a GPU by its key or its product's full name."""
    wanted = _plain(name)
    for record in gpus().values():
        if wanted in (_plain(record.key), _plain(record.name)):
            return record
    raise ArgumentValueError.of_name("a GPU", name, names(), "or a file FILE.json")


def nearest(name: str, compute_capability: tuple[int, int], multiprocessors: int) -> Gpu:
    """The record of a GPU that a driver reports, or of the most similar one.

    >>> nearest("NVIDIA RTX A5000", (8, 6), 64).key, nearest("Tesla T4", (7, 5), 40).key
    ('a10', 't4')
    """
    alike = [record for record in gpus().values() if _plain(record.name).startswith(_plain(name))]

    def distance(record: Gpu) -> tuple[int, int]:
        (major, minor), (other, less) = record.compute_capability, compute_capability
        return abs(100 * (major - other) + minor - less), abs(record.multiprocessors - multiprocessors)

    return min(alike or gpus().values(), key=distance)


def names() -> tuple[str, ...]:
    """Every key that :func:`gpu` takes, oldest architecture first."""
    return tuple(gpus())


@memo
def gpus() -> MappingProxyType[str, Gpu]:
    """Every record by its key, oldest architecture first."""
    data = _data()
    records = [_record(key, fields, data["architecture"]) for key, fields in data["gpu"].items()]
    records.sort(key=lambda record: record.compute_capability)
    return MappingProxyType({record.key: record for record in records})


@memo
def launch_limits() -> LaunchLimits:
    """The limits of a launch on every GPU.

    Examples
    --------
    >>> launch_limits().threads_per_block
    1024
    """
    fields: dict[str, Any] = dict(_data()["every"])
    for name in ("grid_extents", "block_extents"):
        fields[name] = tuple(fields[name])
    return LaunchLimits(**fields)


@memo
def _data() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(resources.files(__package__).joinpath("gpus.toml").read_text(encoding="utf-8"))


def _record(key: str, fields: dict[str, Any], architectures: dict[str, dict[str, Any]]) -> Gpu:
    capability = fields["compute_capability"]
    major, minor = map(int, capability.split("."))
    data = architectures[capability] | fields | {"compute_capability": (major, minor)}
    data["tensor_per_clock"] = MappingProxyType(data["tensor_per_clock"])
    data["shared_steps_kib"] = tuple(data["shared_steps_kib"])
    return Gpu(key=key, launch=launch_limits(), **data)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
