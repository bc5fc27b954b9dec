"""Variables of a module: `__device__` and `__constant__` ones, placed in a memory, and the host's view of them.

A launch in the caller's memory finds the variables as the previous launch left them, as on a GPU, where a module is
loaded once. :class:`Memory` states how long they exist.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError, OutOfMemoryError
from tilewright.machine.host_memory import refused
from tilewright.programs.listing import parsed
from tilewright.programs.mangling import mangled
from tilewright.ptx import tree
from tilewright.simt.run.memory import DeviceArray, Memory, current_memory
from tilewright.simt.translate.inline import inline_calls
from tilewright.simt.translate.layout import initial_data, lay_out

if TYPE_CHECKING:
    from tilewright.programs.program import Program

_SPACES = ("global", "const")
#: Element types without a NumPy equivalent: bits, and floats that NumPy lacks, become unsigned integers.
_LETTERS = {"b": "u", "u": "u", "s": "i", "f": "f"}


def place_all(
    module: tree.Module, memory: Memory, allocate: Callable[[int], int], kernels: Sequence[tree.Function] = ()
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


def loaded(ptx: str, memory: Memory) -> int:
    """The address of a module's variables in a memory that keeps them, for all its kernels; 0 if it has none.

    The first call places them, with unused bytes after them.
    """
    with memory.lock:  # if two threads launch it first, one of them places them
        if ptx not in memory.modules:
            memory.modules[ptx] = place_all(parsed(ptx), memory, lambda size: memory.allocate(size, red_zone=True))
        return memory.modules[ptx]


def placed_again(build: Program, program: Program, memory: Memory, base: int, freed: ExitStack) -> int:
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


def _initialise(module: tree.Module, function: tree.Function, memory: Memory, base: int) -> None:
    function = _whole(module, function)
    for offset, data in initial_data(module, function, lay_out(module, function), base):
        memory.view(base + offset, len(data))[:] = np.frombuffer(data, np.uint8)


class Variables(Mapping[str, DeviceArray]):
    """The variables of a program in a memory, by their names in the source.

    A C++ namespace is part of the name, `space::name`, unless PTX has the short name. PTX has the type of a single
    number. For an array or a structure it has only bytes, which become unsigned integers of 8 bits:
    ``variables["x"].view("float32")`` reads and writes them with their real type.

    Parameters
    ----------
    program : Program
    memory : Memory, optional
        By default that of the innermost open `with` block.

    Raises
    ------
    ArgumentValueError
        There is no memory.

    Examples
    --------
    >>> from tilewright.programs import Program
    >>> text = '''
    ... .version 8.0 .target sm_90 .address_size 64
    ... .visible .global .align 4 .u32 count = 3;
    ... .visible .const .align 4 .b8 weights[8];
    ... .visible .entry step() { .reg .b32 %r<2>;
    ...   ld.global.u32 %r1, [count]; add.u32 %r1, %r1, 1; st.global.u32 [count], %r1; ret;
    ... }'''
    >>> program = Program.from_ptx(text)
    >>> with Memory() as memory:
    ...     variables = memory.variables(program)
    ...     variables["weights"] = np.float32([0.25, 0.75])
    ...     variables["weights"].view("float32").tolist(), int(variables["count"][()])
    ([0.25, 0.75], 3)
    """

    def __init__(self, program: Program, memory: Memory | None = None) -> None:
        memory = memory or current_memory()
        if memory is None:
            raise ArgumentValueError(
                f"{program.name}: the variables of a program are in a memory (got none); write "
                "`with tilewright.simt.Memory():` around them and the launches, or ask `memory.variables(program)`"
            )
        self._name, self._memory = program.name, memory
        module = program.module
        self._declared = {v.name: v for v in module.variables.values() if v.space in _SPACES and not v.is_extern}
        self._layout = lay_out(module, tree.Function("", is_entry=True))
        self._base = loaded(program.ptx, memory)

    def __getitem__(self, name: str) -> DeviceArray:
        variable = self._find(name)
        dtype, shape = _kind(variable)
        found = DeviceArray(self._memory, self._base + self._layout.places[variable.name][1], shape, dtype)
        found.host_written = True
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        """Write the whole variable: a value of its type, or an array's elements with their own dtype."""
        target = self[name]
        if target.dtype != np.uint8 or target.shape == ():
            target.view()[...] = np.asarray(value)
            return
        if not isinstance(value, np.ndarray | np.generic):
            raise ArgumentTypeError(
                f"{self._name}: '{name}' needs an array that has a dtype (got {type(value).__name__}), since PTX "
                "does not have its elements' type; write numpy.float32(...) or whatever it is"
            )
        if value.nbytes != target.nbytes or value.dtype.hasobject:
            raise ArgumentValueError(
                f"{self._name}: '{name}' must be given its {target.nbytes:,} bytes (got {value.nbytes:,}, of "
                f"{value.dtype} and shape {value.shape}); write a part of it through .view(dtype)[...]"
            )
        target.view()[...] = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def _find(self, name: str) -> tree.Variable:
        symbol = mangled(name)
        if symbol not in self._declared:
            near = difflib.get_close_matches(name, self._declared, n=3) or [n for n in self if not n.startswith("_Z")]
            known = f"; there are {', '.join(near[:8])}" if near else ""
            raise ArgumentValueError(
                f"{self._name}: the name must be that of a `__device__` or `__constant__` variable of the PTX (got "
                f"{name!r}){known}; a compiler drops variables that no kernel uses"
            )
        return self._declared[symbol]


def _kind(variable: tree.Variable) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Dtype and shape, as far as PTX gives them."""
    size = variable.element_bytes // variable.vector
    letter = _LETTERS.get(variable.type[1], "u")
    dtype = np.dtype(f"{letter}{size}" if letter != "f" or size > 1 else "u1")
    extents = (variable.count,) if variable.count != 1 or variable.size != variable.element_bytes else ()
    return dtype, extents + ((variable.vector,) if variable.vector > 1 else ())
