"""A small launch of a catalogue kernel that keeps every access, with its profile: for pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.multiply.kernels.catalogue import Record
from tilewright.observe.instruments.addresses import Addresses, AddressesResult
from tilewright.observe.profiling.launching import instruments, of_run
from tilewright.observe.profiling.record import Profile
from tilewright.simulate.machine import Gpu
from tilewright.simulate.observer import Run
from tilewright.simulate.programs.program import OLDEST_CC
from tilewright.simulate.run.launch import launch
from tilewright.simulate.run.memory import DeviceArray, Memory
from tilewright.simulate.tensor_maps.tensor_map import TensorMap

#: Most blocks, from the first, whose global accesses are kept; shared accesses are kept for the first block only.
MOST_BLOCKS = 64
#: Most elements of a launch's operands: it runs on a simulated GPU, and its picture fills one page.
_MOST_ELEMENTS = 1 << 22
#: Least k of a product, so that the picture has several steps.
_LEAST_K = 64


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a launch, in the simulated GPU's memory."""

    name: str
    address: int  #: Address of element [0, 0, ...].
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: In bytes.
    element_bytes: int

    def holds(self, address: int) -> bool:
        """Whether a byte is between the first and the last element."""
        reaches = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        first = self.address + sum(reach for reach in reaches if reach < 0)
        last = self.address + sum(reach for reach in reaches if reach > 0)
        return bool(math.prod(self.shape)) and first <= address < last + self.element_bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """A launch with the addresses that its lanes accessed."""

    profile: Profile
    operands: tuple[Operand, ...]
    from_global: AddressesResult = field(repr=False)
    from_shared: AddressesResult = field(repr=False)

    def holds(self, address: int) -> bool:
        """Whether a byte belongs to an operand."""
        return any(operand.holds(address) for operand in self.operands)

    @classmethod
    def of(cls, run: Run, profile: Profile, operands: Sequence[Operand]) -> Kept:
        """From a run with the instruments of :func:`recorders`."""
        return cls(profile, tuple(operands), run.results["addresses.global"], run.results["addresses.shared"])


@dataclass(frozen=True, slots=True)
class Watched:
    """The accesses of a launch of a catalogue kernel, one by one; its operands are A, B and C."""

    record: Record
    extents: tuple[int, int, int]  #: m, n and k.
    dtype: str
    kept: Kept


def recorders(blocks: int = 1) -> tuple[Addresses, Addresses]:
    """The instruments: addresses in global memory for this many blocks, in shared memory for the first block."""
    return Addresses("global", blocks), Addresses("shared")


def usual_extents(record: Record) -> tuple[int, int, int]:
    """A product of three by three blocks, as in the picture of S3.

    >>> from tilewright import catalogue
    >>> usual_extents(catalogue.find("block_partitioned_16"))
    (48, 48, 64)
    """
    return 3 * record.tile[0], 3 * record.tile[1], _LEAST_K


def watch(record: Record, m: int, n: int, k: int, dtype: str, gpu: Gpu) -> Watched:
    """Launch a kernel for C of shape (m, n) from A of (m, k) and B of (k, n), and keep the accesses of its warps.

    Raises ArgumentValueError: the kernel does not take the product, or it is too large for a picture.
    MissingExtraError: the compilers are not installed.
    """
    refused = record.accepts(m, n, k, dtype) if record.backend == "gpu" else "runs on no GPU"
    if refused:
        raise ArgumentValueError(f"kernel {record.name!r} {refused}; `tilewright kernels` lists what each takes")
    if max(m * n, m * k, n * k) > _MOST_ELEMENTS:
        raise ArgumentValueError(
            f"a watched product must have matrices of at most {_MOST_ELEMENTS:,} elements "
            f"(got m, n, k = {m}, {n}, {k}); choose a smaller one, which shows the same"
        )
    program = record.program(dtype, max(gpu.compute_capability, OLDEST_CC))
    random, memory = np.random.default_rng(0), Memory()
    a, b = (random.integers(-9, 9, extents).astype(dtype) for extents in ((m, k), (k, n)))
    c = record.blank(m, n, dtype)
    on_device = {id(host): memory.array(host) for host in (a, b, c)}
    shape = record.launch_rule(m, n, k)
    kept = min(MOST_BLOCKS, math.prod(shape.grid))
    given = [_placed(one, on_device) for one in record.arguments(a, b, c)]
    run = launch(
        program,
        shape.grid,
        shape.block,
        given,
        shape.shared_bytes,
        instruments=(*instruments(), *recorders(kept)),
        gpu=gpu.key,
        memory=memory,
    )
    operands = [
        Operand(name, on_device[id(host)].address, host.shape, host.strides, host.itemsize)
        for name, host in zip("ABC", (a, b, c), strict=True)
    ]
    return Watched(record, (m, n, k), dtype, Kept.of(run, of_run(run, gpu, shared_bytes=shape.shared_bytes), operands))


def _placed(argument: Any, on_device: Mapping[int, DeviceArray]) -> Any:
    """The argument with the device's array for the host's; a matrix that was copied for its tensor map stays."""
    if isinstance(argument, TensorMap):
        array: Any = on_device.get(id(argument.array), argument.array)
        return replace(argument, array=array)
    return on_device.get(id(argument), argument)
