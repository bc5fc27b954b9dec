"""PTX definitions of what CUDA gives every kernel: malloc, free, failed assertions, the barrier of a cooperative grid.

A kernel only declares these functions; on a GPU the driver or the device runtime defines them. Here they are our own
PTX, and a module that declares one gets the definition when it is read. Its line numbers continue those of the module's
text, so each line has one instruction.
"""

from __future__ import annotations

from importlib import resources

from tilewright.errors import PtxError
from tilewright.simulate.ptx import to_text
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.ptx.tree import Function, Instruction, Module, Variable

#: The function that a Numba kernel calls to wait for its grid; numba-cuda then launches the kernel cooperatively.
#: Source: numba-cuda, `dispatcher.py` (`_Kernel.cooperative`).
GRID_HANDLE = "cudaCGGetIntrinsicHandle"
_GRID_BARRIER = ("grid_sync.ptx", (GRID_HANDLE, "cudaCGSynchronize"))
#: The functions for launches from a kernel.
_LAUNCHES = (
    "GetParameterBufferV2 LaunchDeviceV2 LaunchDeviceV2_ptsz GetLastError PeekAtLastError StreamCreateWithFlags "
    "StreamDestroy StreamWaitEvent StreamWaitEvent_ptsz EventCreateWithFlags EventRecord EventRecord_ptsz EventDestroy "
    "GetDevice GetDeviceCount MemcpyAsync MemsetAsync"
)
#: The variable that refers to the queue of launches from kernels.
LAUNCHES = "tilewright_launches"
_LAUNCHES_FILE = "launches.ptx"
#: malloc and free, and the variables that they use: the heap, and the offset up to which blocks were taken from it.
_HEAP_FILE, HEAP_FUNCTIONS = "heap.ptx", ("malloc", "free")
HEAP, HEAP_END = "tilewright_heap", "tilewright_heap_end"
#: The functions of each file of `simulate/programs/device_ptx`.
_DEFINED = (
    _GRID_BARRIER,
    (_LAUNCHES_FILE, tuple(f"__cudaCDP2{name}" for name in _LAUNCHES.split())),
    ("launch_errors.ptx", ("__cudaCDP2GetErrorName", "__cudaCDP2GetErrorString")),
    ("launch_heap.ptx", ("__cudaCDP2Malloc", "__cudaCDP2Free")),
    (_HEAP_FILE, HEAP_FUNCTIONS),
    ("assertion.ptx", ("__assertfail",)),
)
#: The format of a failed assertion's message. Its values: file, line, function, block and thread (x, y, z each),
#: message.
ASSERTION_FORMAT = "tilewright_assertion"
ASSERTION_ARGUMENTS = "<QIxxxxQ6IQ"


def linked(ptx: str) -> str:
    """The text with the definitions that the vendor's assembler does not have: grid barriers, launches from kernels."""
    return to_text(link(parse(ptx), 0, tuple(one for one in _DEFINED if one[1][0].startswith(("cudaCG", "__cudaCDP")))))


def link(module: Module, lines: int, files: tuple[tuple[str, tuple[str, ...]], ...] = _DEFINED) -> Module:
    """Add the definitions of functions that a module only declares.

    `lines` is the number of lines of the module's text. `files` lists the files of `simulate/programs/device_ptx` that
    may be added, each with its functions.

    Raises PtxError: the module defines a name that the definitions need.
    """
    for file, names in files:
        if any(name in module.functions and module.functions[name].is_declaration for name in names):
            text = resources.files(__package__).joinpath("device_ptx", file).read_text("utf-8")
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
    """Whether kernels of a module may launch kernels: it has the queue of our definitions."""
    return _LAUNCHES_FILE in module.added


def heap_lines(module: Module) -> frozenset[int]:
    """PTX lines of our malloc and free in a module."""
    functions = [module.functions[name] for name in HEAP_FUNCTIONS if _HEAP_FILE in module.added]
    return frozenset(item.ptx_line for one in functions for item in one.body if isinstance(item, Instruction))


def _refuse_own(module: Module, found: Module, names: tuple[str, ...]) -> None:
    """Reject a module whose variables or functions have names of the added definitions."""
    needed = {*found.variables, *(n for n, function in found.functions.items() if not function.is_declaration)}
    own: list[Variable | Function] = [*module.variables.values(), *module.functions.values()]
    own += [variable for function in module.functions.values() for variable in function.variables]
    for one in own:
        if one.name in needed.difference(names):
            raise PtxError(
                f"{module.path}:{one.ptx_line}: a module that uses CUDA's device runtime must not define names that "
                f"the simulator's definitions of that runtime use (got '{one.name}'); rename it"
            )
