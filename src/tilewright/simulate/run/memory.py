"""The host's interface to a simulated GPU's global memory: arrays that stay in it, and variables of programs.

The `__device__` and `__constant__` variables of a program in the caller's memory keep their values from launch to
launch, as on a GPU, where a module is loaded once. :class:`Memory` states how long they exist.
"""

from __future__ import annotations

import contextvars
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, ArgumentValueError, OutOfMemoryError
from tilewright.ground.native.memo import bounded
from tilewright.simulate.machine.host_memory import refused
from tilewright.simulate.programs.array_arguments import row_major
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.programs.mangling import mangled
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


def place_all(module: tree.Module, memory: Allocations, allocate: Callable[[int], int]) -> int:
    """Place the variables of a module's kernels in memory with their initial values.

    `allocate` allocates. Returns the address, 0 for no variables.

    Raises OutOfMemoryError: the host has less memory than they may fill.
    """
    functions = module.entries or [tree.Function("", is_entry=True)]
    size = max(lay_out(module, _whole(module, function)).module_bytes for function in functions)
    base = _allocated(module, size, allocate)
    for function in functions if size else ():
        _write(memory, base, _initial(module, function, base))
    return base


def place_own(program: Program, memory: Allocations, allocate: Callable[[int], int]) -> int:
    """Place the variables of a program's kernel as :func:`place_all` does, for one launch."""
    base = _allocated(program.module, module_bytes(program), allocate)
    if base:
        _write(memory, base, _initial_of(program.ptx, program.entry, base))
    return base


def _allocated(module: tree.Module, size: int, allocate: Callable[[int], int]) -> int:
    if why := refused(size):
        raise OutOfMemoryError(f"{module.path}: the variables of a module take {size:,} bytes: {why}; declare less")
    return allocate(size) if size else 0


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


@bounded(64)
def _initial_of(ptx: str, entry: str, base: int) -> list[tuple[int, bytes]]:
    """The initial data of a kernel's variables, which may have addresses of each other."""
    module = parsed(ptx)
    return _initial(module, module.functions[entry], base)


def _initial(module: tree.Module, function: tree.Function, base: int) -> list[tuple[int, bytes]]:
    function = _whole(module, function)
    return list(initial_data(module, function, lay_out(module, function), base))


def _write(memory: Allocations, base: int, initial: Sequence[tuple[int, bytes]]) -> None:
    for offset, data in initial:
        memory.view(base + offset, len(data))[:] = np.frombuffer(data, np.uint8)


#: Element types without a NumPy equivalent: bits, and floats that NumPy lacks, become unsigned integers.
_LETTERS = {"b": "u", "u": "u", "s": "i", "f": "f"}


class Memory(Allocations):
    """Global memory of a simulated GPU.

    Several launches can share one: pass it as ``memory=``, or launch inside ``with Memory():``. Its arrays, and the
    variables of the programs launched in it, exist as long as the memory, until nothing refers to it any more. The end
    of a `with` block only ends its use as the default.

    Parameters
    ----------
    capacity_bytes : int
        Most bytes that can be allocated; the host allocates pages when they are touched.
    addresses : Addresses, optional
        Where its allocations go; an arena of its own by default.

    Attributes
    ----------
    red_zones : bool
        Whether to leave unused bytes after new allocations.
    quarantine_bytes : int
        Bytes of the most recently freed memory that are not reused as long as there is other space.
    lock : threading.RLock
        Held while its lists change, because several threads may launch in one memory.
    modules : dict of str to int
        PTX text -> device address of its variables, for each program with variables here; 0 for none.

    Examples
    --------
    >>> memory = Memory(1 << 20)
    >>> x = memory.array(np.arange(4, dtype=np.int32))
    >>> x.to_host().tolist()
    [0, 1, 2, 3]
    """

    def __enter__(self) -> Memory:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])

    def variables(self, program: Program) -> Variables:
        """The `__device__` and `__constant__` variables of a program in this memory, by name."""
        return Variables(program, self)

    def array(self, value: npt.ArrayLike) -> DeviceArray:
        """Copy an array to this memory, C-contiguous."""
        host = np.ascontiguousarray(value)
        if host.dtype.hasobject:
            raise ArgumentTypeError(f"a device array must have a plain dtype (got {host.dtype})")
        device = self.empty(host.shape, host.dtype)
        device.view()[...] = host.reshape(device.shape)
        return device

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """A new array of zeros in this memory."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        if any(extent < 0 for extent in extents):
            raise ArgumentValueError(f"`shape` must have no extent below 0 (got {shape}); 0 makes an empty array")
        size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
        return DeviceArray(self, self.allocate(max(size, 1)), extents, kind)


#: The memories of a thread's open `with` blocks, the innermost last.
_ENTERED: contextvars.ContextVar[tuple[Memory, ...]] = contextvars.ContextVar("tilewright_memories", default=())


def current_memory() -> Memory | None:
    """The memory of the innermost open `with` block; None if there is none."""
    return (_ENTERED.get() or (None,))[-1]


class DeviceArray:
    """A C-contiguous array in simulated global memory; it stays there between launches.

    :meth:`Memory.array` and :meth:`Memory.empty` make them; NumPy's functions read a copy.

    Attributes
    ----------
    memory : Memory
    address : int
        Device address of its first element.
    shape, strides, dtype
        As NumPy's; strides in bytes.
    host_written : bool
        Whether it may have been written: by the host through :meth:`view`, or by a launch.
    """

    def __init__(self, memory: Memory, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.host_written = False
        self.strides = row_major(shape, dtype.itemsize)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def view(self, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """A NumPy array that shares the bytes; with another dtype, as `numpy.ndarray.view`."""
        self.host_written = True
        return self._elements() if dtype is None else self._elements().view(dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.to_host()[index]

    def __setitem__(self, index: Any, value: npt.ArrayLike) -> None:
        self.view()[index] = value

    def _elements(self) -> npt.NDArray[Any]:
        elements: npt.NDArray[Any] = self.memory.view(self.address, self.nbytes).view(self.dtype).reshape(self.shape)
        return elements

    def to_host(self) -> npt.NDArray[Any]:
        """A copy as a NumPy array."""
        return self._elements().copy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("NumPy reads a DeviceArray as a copy (got copy=False); use .view() to share its memory")
        return self.to_host().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


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
