"""What CUDA gives to every kernel: malloc and free, what a failed assertion does, the barrier of a cooperative grid.

A kernel only declares these functions; on a GPU the driver or the device runtime defines them. Here their definitions
are PTX of our own, and a module that declares one gets it when it is read, whoever launches it. Its lines count on
behind those of the module's own text, so that no line means two instructions.
"""

from __future__ import annotations

from importlib import resources

from tilewright.errors import PtxError
from tilewright.ptx import to_text
from tilewright.ptx.parser import parse
from tilewright.ptx.tree import Function, Module, Variable

#: What a kernel of Numba asks for where it waits for its grid; numba-cuda then launches it cooperatively.
#: Source: numba-cuda, `dispatcher.py` (`_Kernel.cooperative`).
GRID_HANDLE = "cudaCGGetIntrinsicHandle"
_GRID_BARRIER = ("grid_sync.ptx", (GRID_HANDLE, "cudaCGSynchronize"))
#: What launches kernels from a kernel, and what is around it.
_LAUNCHES = (
    "GetParameterBufferV2 LaunchDeviceV2 LaunchDeviceV2_ptsz GetLastError PeekAtLastError StreamCreateWithFlags "
    "StreamDestroy StreamWaitEvent StreamWaitEvent_ptsz EventCreateWithFlags EventRecord EventRecord_ptsz EventDestroy "
    "GetDevice GetDeviceCount MemcpyAsync MemsetAsync"
)
#: The variable in which kernels find their queue of launches.
LAUNCHES = "tilewright_launches"
_LAUNCHES_FILE = "launches.ptx"
#: The functions of each file of `programs/device_ptx`.
_DEFINED = (
    _GRID_BARRIER,
    (_LAUNCHES_FILE, tuple(f"__cudaCDP2{name}" for name in _LAUNCHES.split())),
    ("launch_errors.ptx", ("__cudaCDP2GetErrorName", "__cudaCDP2GetErrorString")),
    ("launch_heap.ptx", ("__cudaCDP2Malloc", "__cudaCDP2Free")),
    ("heap.ptx", ("malloc", "free")),
    ("assertion.ptx", ("__assertfail",)),
)
#: The format that a failed assertion is printed by, and what it is given: file, line, function, block and thread as
#: x, y, z each, message.
ASSERTION_FORMAT = "tilewright_assertion"
ASSERTION_ARGUMENTS = "<QIxxxxQ6IQ"


def with_grid_barrier(ptx: str) -> str:
    """A text with the definitions of the grid's barrier, which the vendor's assembler does not know by itself."""
    return to_text(link(parse(ptx), 0, (_GRID_BARRIER,)))


def link(module: Module, lines: int, files: tuple[tuple[str, tuple[str, ...]], ...] = _DEFINED) -> Module:
    """Give a module the definitions of what it only declares.

    The module's text has so many `lines`. `files` says which of `programs/device_ptx` may be added, each with the
    functions that it is for.

    Raises PtxError: the module has something of its own by a name that the definitions need.
    """
    for file, names in files:
        if any(name in module.functions and module.functions[name].is_declaration for name in names):
            text = resources.files("tilewright.programs").joinpath("device_ptx", file).read_text("utf-8")
            found = parse("\n" * lines + text)
            lines += text.count("\n")
            _refuse_own(module, found, names)
            module.added |= {file}
            module.functions |= {
                name: function
                for name, function in found.functions.items()
                if name not in module.functions or not function.is_declaration
            }
            module.variables |= found.variables
    return module


def launches(module: Module) -> bool:
    """Whether kernels of a module may launch kernels: it has the queue that our own definitions of that use."""
    return _LAUNCHES_FILE in module.added


def _refuse_own(module: Module, found: Module, names: tuple[str, ...]) -> None:
    """Refuse a module whose own variables or functions have names of definitions that it gets."""
    needed = {*found.variables, *(n for n, function in found.functions.items() if not function.is_declaration)}
    own: list[Variable | Function] = [*module.variables.values(), *module.functions.values()]
    own += [variable for function in module.functions.values() for variable in function.variables]
    for one in own:
        if one.name in needed.difference(names):
            raise PtxError(
                f"{module.path}:{one.ptx_line}: a module that uses CUDA's device runtime must have nothing of its own "
                f"by a name that the simulator's definitions of that runtime use (got '{one.name}'); rename it"
            )
