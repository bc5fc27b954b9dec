"""The `__device__` and `__constant__` variables of a module: their allocation, and the host's view of them.

In the caller's memory, variables keep their values from launch to launch, as on a GPU, where a module is loaded once.
:class:`Memory` states how long they exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import OutOfMemoryError
from tilewright.ground.native.memo import bounded
from tilewright.simulate.machine.host_memory import refused
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.ptx import tree
from tilewright.simulate.run.allocations import Allocations
from tilewright.simulate.translate.analysis.inline import inline_calls
from tilewright.simulate.translate.analysis.layout import initial_data, lay_out

if TYPE_CHECKING:
    from tilewright.simulate.programs.program import Program

_SPACES = ("global", "const")


def module_bytes(program: Program) -> int:
    """Bytes of the variables that a program's kernel has in global and constant memory."""
    return _module_bytes(program.ptx, program.entry)


@bounded(256)
def _module_bytes(ptx: str, entry: str) -> int:
    module = parsed(ptx)
    return lay_out(module, _whole(module, module.functions[entry])).module_bytes


def place_all(
    module: tree.Module, memory: Allocations, allocate: Callable[[int], int], kernels: Sequence[tree.Function] = ()
) -> int:
    """Place the variables of a module's kernels, by default of all, in memory with their initial values.

    `allocate` allocates. Returns the address, 0 for no variables.

    Raises OutOfMemoryError: the host has less memory than they may fill.
    """
    functions = kernels or module.entries or [tree.Function("", is_entry=True)]
    size = max(lay_out(module, _whole(module, function)).module_bytes for function in functions)
    if why := refused(size):
        raise OutOfMemoryError(f"{module.path}: the variables of a module take {size:,} bytes: {why}; declare less")
    base = allocate(size) if size else 0
    for function in functions if size else ():
        _initialise(module, function, memory, base)
    return base


def loaded(ptx: str, memory: Allocations) -> int:
    """The address of a module's variables in a memory that keeps them, for all its kernels; 0 if it has none.

    The first call places them, with unused bytes after them.
    """
    with memory.lock:  # if two threads launch it first, one of them places them
        if ptx not in memory.modules:
            memory.modules[ptx] = place_all(parsed(ptx), memory, lambda size: memory.allocate(size, red_zone=True))
        return memory.modules[ptx]


def placed_again(build: Program, program: Program, memory: Allocations, base: int, freed: ExitStack) -> int:
    """The address of the variables of another build of a program, with the values that the program's own have now."""
    address = place_all(build.module, memory, memory.allocate)
    if address:
        freed.callback(memory.free, address)
    kept = lay_out(program.module, tree.Function("", is_entry=True)).places
    for name, (space, offset) in lay_out(build.module, tree.Function("", is_entry=True)).places.items():
        old, new = program.module.variables.get(name), build.module.variables[name]
        if space == "module" and old is not None and old.size == new.size and kept[name][0] == space:
            memory.view(address + offset, new.size)[:] = memory.view(base + kept[name][1], new.size)
    return address


def keeps_variables(program: Program) -> bool:
    """Whether a program's variables live from launch to launch; Numba's are constants of one kernel."""
    return program.abi == "c"


def _whole(module: tree.Module, function: tree.Function) -> tree.Function:
    """A kernel with its functions inlined, if one of them has static variables."""
    if any(variable.space in _SPACES for other in module.functions.values() for variable in other.variables):
        return inline_calls(module, function)
    return function


def _initialise(module: tree.Module, function: tree.Function, memory: Allocations, base: int) -> None:
    function = _whole(module, function)
    for offset, data in initial_data(module, function, lay_out(module, function), base):
        memory.view(base + offset, len(data))[:] = np.frombuffer(data, np.uint8)
