"""The contents of simulated memory for one launch: variables, its workspace, copies of its arguments.

An observer may want gaps after the rows of arrays, so that an index beyond a row is an error even inside the array.
A Python kernel takes arrays of any strides, so it can be compiled for arrays with gaps. If it cannot (because
it requires contiguous memory), it is launched with the original arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, CompileError
from tilewright.simulate.observer import ArgumentFact, Observer
from tilewright.simulate.programs.arguments import Argument
from tilewright.simulate.programs.array_arguments import (
    ArrayParameter,
    Region,
    Staged,
    StagedArguments,
    array_shape,
    flat,
    shares,
    span,
    stage,
)
from tilewright.simulate.programs.program import DEFAULT_CC, Program, program_for
from tilewright.simulate.row_gaps import RowGaps, suits
from tilewright.simulate.run.allocations import ALIGNMENT_BYTES
from tilewright.simulate.run.grid_barrier import WORKSPACE_BYTES
from tilewright.simulate.run.memory import (
    DeviceArray,
    Memory,
    current_memory,
    keeps_variables,
    loaded,
    module_bytes,
    place_own,
)


class SpacedArray:
    """The layout of an array with gaps; as an argument it represents the array itself."""

    def __init__(self, source: Any) -> None:
        self.source = source  #: The user's array.
        #: Type, extents, strides and writability of the array with gaps.
        self.dtype: np.dtype[Any] = source.dtype
        self.shape: tuple[int, ...] = source.shape
        self.readonly = isinstance(source, np.ndarray) and not source.flags.writeable
        self.rows = RowGaps(self.shape, self.dtype.itemsize)
        self.strides = self.rows.strides
        self.span_bytes = self.rows.span_bytes  #: Bytes from its first to its last, with the last gap.

    def elements(self, memory: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The elements, as a view of the bytes of the whole span."""
        return np.ndarray(self.shape, self.dtype, memory.data, 0, self.strides)


def spaced(kernel: Any, args: Sequence[Any], cc: tuple[int, int] = DEFAULT_CC) -> tuple[Program, list[Any]]:
    """A kernel compiled for arrays with gaps, and such arguments; both unchanged if that is not possible.

    Raises CompileError, ArgumentTypeError: as :func:`tilewright.simulate.programs.program.program_for`.
    """
    if not isinstance(kernel, Program):
        made: dict[int, SpacedArray] = {}  # an array that is passed twice stays one array
        fit = [_suits(arg) and not _shares(arg, args) for arg in args]
        changed = [
            made.setdefault(id(arg), SpacedArray(arg)) if fits else arg for arg, fits in zip(args, fit, strict=True)
        ]
        if made:
            try:
                return program_for(kernel, changed, cc), changed
            except CompileError:
                pass
    return program_for(kernel, args, cc), list(args)


def _shares(arg: Any, args: Sequence[Any]) -> bool:
    """Whether another argument refers to its elements or its allocation: then it stays as it is."""
    if any(isinstance(other, ArrayParameter) and other.array is arg for other in flat(args)):
        return True
    if isinstance(arg, np.ndarray):
        return any(isinstance(other, np.ndarray) and other is not arg and shares(arg, other) for other in flat(args))
    if not isinstance(arg, DeviceArray):
        return False
    extent = arg.memory.extent(arg.address)
    others = (other for other in flat(args) if isinstance(other, DeviceArray) and other is not arg)
    return any(other.memory is arg.memory and other.memory.extent(other.address) == extent for other in others)


def _suits(arg: Any) -> bool:
    """Whether an argument is a C-contiguous array with rows."""
    if not isinstance(arg, np.ndarray | DeviceArray) or arg.dtype.hasobject:
        return False
    contiguous = isinstance(arg, DeviceArray) or arg.flags.c_contiguous
    return contiguous and suits(arg.shape, arg.dtype.itemsize)


#: Memory for a launch besides its arrays and the unused memory between them, with some margin.
_ROOM_BYTES = 1 << 20


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
    """Bytes that suffice for the NumPy arguments of a launch."""
    needed = 0
    for arg in flat(args):
        if isinstance(arg, np.ndarray):
            low, high = (0, arg.nbytes) if arg.flags.forc else span(arg)
            needed += high - low + 2 * ALIGNMENT_BYTES  # the lead of a view too
        elif isinstance(arg, ArrayParameter):
            needed += _structure_bytes(arg) + ALIGNMENT_BYTES
    return needed


def _structure_bytes(parameter: ArrayParameter) -> int:
    return parameter.dtype.itemsize * parameter.shape[0]


class Scene:
    """The memory of one launch, in which its arguments are staged; as a context manager it frees it.

    Observers get its events. With `red_zones` unused bytes follow every allocation, and arrays of the device are
    copied to get them too where that is possible. `own` memory ends with the launch.
    """

    def __init__(
        self, memory: Memory, observers: Sequence[Observer] = (), *, red_zones: bool = False, own: bool = False
    ) -> None:
        self.memory = memory
        self._own = own
        self._observers = observers
        self._red_zones = red_zones
        self._scratch: list[int] = []

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._own and kind is None:  # with an error, its frames may keep the memory
            return
        for address in reversed(self._scratch):
            self.memory.free(address)

    def allocate(self, size_bytes: int, *, written: bool = True) -> int:
        """Memory for this launch only; `written`: the host writes all of it."""
        address = self.parameters(size_bytes)
        for observer in self._observers:
            observer.allocated(address, size_bytes)
            if written:
                observer.host_wrote(address, size_bytes)
        return address

    def parameters(self, size_bytes: int) -> int:
        """Memory for a parameter block, of which observers of global memory know nothing."""
        address = self.memory.allocate(size_bytes, red_zone=self._red_zones)
        self._scratch.append(address)
        return address

    def free(self, address: int) -> None:
        """Free memory before the end."""
        extent = self.memory.extent(address)
        self._scratch.remove(address)
        self.memory.free(address)
        if extent is not None:
            for observer in self._observers:
                observer.freed(*extent)

    def variables(self, program: Program, *, kept: bool = True) -> int:
        """The address of the program's variables, 0 for none: `kept` variables are those of earlier launches."""
        if not module_bytes(program):
            return 0
        if kept and keeps_variables(program):
            return loaded(program.ptx, self.memory)
        return place_own(program, self.memory, self.allocate)

    def stage(self, args: Sequence[Any]) -> StagedArguments:
        """Copy arguments into memory; the result is keyed by the argument's id."""
        if not self._observers:
            return stage(args, self)
        plain = [arg for arg in flat(args) if not isinstance(arg, SpacedArray)]
        resident = [arg for arg in plain if isinstance(arg, DeviceArray)]
        held = {place: _within(resident, place) for place in self.memory.allocations() if place[0] not in self._scratch}
        for place, arrays in held.items():
            for observer in self._observers:
                observer.allocated(*place)
                if _is_written(arrays):
                    observer.host_wrote(*place)
        guarded = {place: (arrays, _is_written(arrays)) for place, arrays in held.items() if arrays}
        staged = stage(plain, self)
        if self._red_zones and not self._hold_addresses(guarded):
            for place, (arrays, written) in guarded.items():
                if place[0] not in self.memory.modules.values():  # variables stay where kernels name them
                    self._guard(staged, arrays, place, written=written)
        for arg in args:
            if isinstance(arg, SpacedArray) and id(arg) not in staged:
                staged[id(arg)] = self._spaced(arg)
        return staged

    def _hold_addresses(self, places: Iterable[tuple[int, int]]) -> bool:
        """Whether anything in memory looks like an address in these places, which must then stay where they are."""
        known = [
            self.memory.view(address, size)[: size // 8 * 8].view(np.uint64)
            for address, size in self.memory.allocations()
        ]
        return any(
            bool(((words >= address) & (words < address + max(size, 1))).any())
            for address, size in places
            for words in known
        )

    def _guard(
        self, staged: StagedArguments, arrays: list[DeviceArray], place: tuple[int, int], *, written: bool
    ) -> None:
        """Copy an allocation and the arrays in it, with unused memory around the copy, if memory suffices."""
        if self.memory.allocated_bytes + 2 * place[1] + _ROOM_BYTES > self.memory.capacity_bytes:
            return
        copy = self.allocate(place[1], written=written)
        host, device = self.memory.view(*place), self.memory.view(copy, place[1])
        device[...] = host
        for arg in arrays:
            staged[id(arg)] = Staged(copy + arg.address - place[0])
        first = arrays[0]
        staged[id(first)] = Staged(staged[id(first)].start, host, device, (copy, place[1]))

    def _spaced(self, arg: SpacedArray) -> Staged:
        """Copy an array to one with unused bytes after each row."""
        written = not isinstance(arg.source, DeviceArray) or arg.source.host_written
        address = self.allocate(arg.span_bytes, written=written)
        device = arg.elements(self.memory.view(address, arg.span_bytes))
        device[...] = np.asarray(arg.source)
        for observer in self._observers:
            observer.row_gaps_at(arg.rows.gaps(address))
        host = arg.source.view() if isinstance(arg.source, DeviceArray) else None if arg.readonly else arg.source
        return Staged(address, host, device, (address, arg.span_bytes))

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


def _within(arrays: Sequence[DeviceArray], place: tuple[int, int]) -> list[DeviceArray]:
    """The arrays in an allocation."""
    return [arg for arg in arrays if 0 <= arg.address - place[0] < max(place[1], 1)]


def _is_written(arrays: Sequence[DeviceArray]) -> bool:
    """Whether the host, or an earlier launch, may have written an allocation with these arrays of a launch."""
    return not arrays or any(arg.host_written for arg in arrays)


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
