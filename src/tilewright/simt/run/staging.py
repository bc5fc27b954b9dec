"""The contents of simulated memory for one launch: variables, its workspace, copies of its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError
from tilewright.programs.arguments import Argument, array_shape
from tilewright.programs.host_arrays import ArrayParameter, Region, flat, regions
from tilewright.programs.program import Program
from tilewright.programs.staging import Staged
from tilewright.simt.observer import ArgumentFact
from tilewright.simt.run.allocations import ALIGNMENT_BYTES
from tilewright.simt.run.grid_barrier import WORKSPACE_BYTES
from tilewright.simt.run.memory import DeviceArray, Memory, current_memory
from tilewright.simt.run.variables import keeps_variables, loaded, place_all


def given_memory(kernel: str, args: Sequence[Any], memory: Memory | None) -> Memory | None:
    """The memory given by the caller or by `with`, or the one of the launch's device arrays; None if there is none."""
    memory = memory or current_memory()
    for index, arg in enumerate(flat(args)):
        if isinstance(arg, DeviceArray):
            if memory is not None and arg.memory is not memory:
                raise ArgumentTypeError(
                    f"{kernel}: argument {index} must be in the launch's Memory (got another Memory); "
                    "make all arrays of a launch with one Memory"
                )
            memory = arg.memory
    return memory


def needed_bytes(args: Sequence[Any]) -> int:
    """Bytes for the NumPy arguments of a launch."""
    arrays = [arg for arg in flat(args) if isinstance(arg, np.ndarray)]
    structures = sum(_structure_bytes(arg) + ALIGNMENT_BYTES for arg in flat(args) if isinstance(arg, ArrayParameter))
    return structures + sum(one.lead_bytes + one.size_bytes + ALIGNMENT_BYTES for one in regions(arrays))


def _structure_bytes(parameter: ArrayParameter) -> int:
    return parameter.dtype.itemsize * parameter.shape[0]


class Scene:
    """The memory of one launch: arguments are staged here. `close` frees it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._scratch: list[int] = []

    def allocate(self, size_bytes: int) -> int:
        """Memory for this launch only."""
        self._scratch.append(self.memory.allocate(size_bytes))
        return self._scratch[-1]

    def variables(self, program: Program, *, kept: bool = True) -> int:
        """The address of the program's variables, 0 for none: `kept` variables are those of earlier launches."""
        if kept and keeps_variables(program):
            return loaded(program.ptx, self.memory)
        module = program.module
        return place_all(module, self.memory, self.allocate, [module.functions[program.entry]])

    def workspace(self, cooperative: bool) -> int:
        """The address of the workspace of a cooperative launch; 0 for others."""
        return self.allocate(WORKSPACE_BYTES) if cooperative else 0

    def resident(self, array: Any) -> int:
        """The address of a `DeviceArray`, which the launch may write."""
        if not isinstance(array, DeviceArray):
            raise ArgumentTypeError(
                f"array arguments of a simulated launch must be NumPy arrays or tilewright.simt.DeviceArray "
                f"(got {type(array).__name__}); {_instead_of(array)}"
            )
        array.host_written = True  # the launch may write it
        return array.address

    def structure(self, parameter: ArrayParameter) -> tuple[int, npt.NDArray[np.uint8]]:
        """Memory for a structure, and its bytes."""
        address = self.allocate(_structure_bytes(parameter))
        return address, self.memory.view(address, _structure_bytes(parameter))

    def copied(self, region: Region) -> tuple[int, npt.NDArray[np.uint8]]:
        """Copy arrays, without the bytes between their elements."""
        size = max(region.lead_bytes + region.size_bytes, 1)
        address = self.allocate(size)
        buffer = self.memory.view(address, size)
        for array in region.arrays:
            region.elements(array, buffer)[...] = array
        return address, buffer

    def close(self) -> None:
        """Free the memory."""
        for address in reversed(self._scratch):
            self.memory.free(address)


def _instead_of(array: Any) -> str:
    """The remedy for an array of another kind. numba-cuda's arrays are on the active GPU, not in this memory."""
    if hasattr(array, "copy_to_host"):
        return (
            "pass its `copy_to_host()`, or launch the kernel as numba.cuda does, `kernel[grid, block](...)`, below "
            "`%%check` or `%%profile` in a notebook, or in a program for `tilewright check` or `profile`"
        )
    return "copy it with `numpy.asarray` or `Memory.array` first"


def argument_facts(program: Program, args: Sequence[Any], staged: dict[int, Staged]) -> Iterator[ArgumentFact]:
    """The facts of each staged argument."""
    for argument, value in zip(program.arguments, args, strict=False):
        yield from _fact(argument.name, argument, value, staged)


def _fact(name: str, argument: Argument, value: Any, staged: dict[int, Staged]) -> Iterator[ArgumentFact]:
    if argument.kind == "tuple" and isinstance(value, tuple):
        for index, (item, part) in enumerate(zip(argument.items, value, strict=False)):
            yield from _fact(f"{name}[{index}]", item, part, staged)
        return
    shape = array_shape(value)
    if shape is None or id(value) not in staged:
        yield ArgumentFact(name, value=int(value) if isinstance(value, int | np.integer) else None)
    else:
        yield ArgumentFact(name, shape.dtype, shape.shape, shape.strides, staged[id(value)].start)
