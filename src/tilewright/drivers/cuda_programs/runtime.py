"""What one process of a program has on the simulated GPU: its modules with their kernels and variables, its errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.drivers.cuda_programs import fatbin
from tilewright.drivers.cuda_programs.errors import STICKY, LaunchFailedError
from tilewright.drivers.gpu import DriverError, SimulatedGpu
from tilewright.drivers.launching import Launcher, code_of
from tilewright.drivers.modules import Kernel, Library
from tilewright.errors import CompileError, PtxError, TilewrightError
from tilewright.ptx import parse, to_text
from tilewright.ptx.joining import join

if TYPE_CHECKING:
    from tilewright.drivers.cuda_programs.arrays import Elements
    from tilewright.drivers.cuda_programs.graph import Graph, Work
    from tilewright.drivers.cuda_programs.protocol import Caller


class Code:
    """PTX of a program, loaded when it is first used."""

    def __init__(self, gpu: SimulatedGpu, ptx: str, name: str = "") -> None:
        self.gpu = gpu
        self.ptx = ptx
        self.name = name
        self.code_type = "ptx"

    @functools.cached_property
    def library(self) -> Library:
        """The code as it is on the GPU.

        Raises DriverError: it is no PTX that can be read.
        """
        try:
            return Library.of(self.gpu, self)
        except TilewrightError as error:
            raise LaunchFailedError(code_of(error), str(error)) from None


def chosen(gpu: SimulatedGpu, data: bytes) -> Code:
    """The PTX of a fat binary that a GPU runs: the newest that is not newer than it.

    Raises DriverError: there is none.
    """
    try:
        found = list(fatbin.images(data))
    except CompileError as error:
        raise LaunchFailedError("CUDA_ERROR_INVALID_IMAGE", str(error)) from None
    major, minor = gpu.record.compute_capability
    texts = [one for one in found if one.is_ptx]
    fits = [one for one in texts if one.architecture <= 10 * major + minor]
    if fits:
        return Code(gpu, max(fits, key=lambda one: one.architecture).text + "\n")
    if texts:
        least = min(one.architecture for one in texts)
        raise LaunchFailedError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            f"the program's PTX is for compute capability {least / 10} or newer, and {gpu.record.name} has "
            f"{major}.{minor}; choose another GPU with --gpu",
        )
    machine = ", ".join(sorted({f"sm_{one.architecture}" for one in found})) or "nothing"
    raise LaunchFailedError(
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the program must hold PTX (it holds machine code alone: {machine}); build it with "
        f"nvcc -gencode arch=compute_{major}{minor},code=compute_{major}{minor}",
    )


@dataclass
class Module:
    """A module that the program registered before `main`; what is wrong with it shows when it is used."""

    parts: list[bytes] = field(repr=False)  #: Fat binaries; several where device code was compiled apart.
    gpu: SimulatedGpu
    managed: dict[str, int] = field(default_factory=dict)  #: Variable -> where the program has its address.

    @functools.cached_property
    def code(self) -> Code:
        """Its PTX, linked.

        Raises DriverError: there is none, or two parts define one name.
        """
        parts, refused = [], None
        for part in self.parts:
            try:
                parts.append(chosen(self.gpu, part))
            except LaunchFailedError as error:
                refused = error  # the vendor's own, that is linked in: a kernel that calls it says so
        if not parts and refused is not None:
            raise refused
        if len(parts) == 1:
            return parts[0]
        try:
            return Code(self.gpu, to_text(join([parse(part.ptx) for part in parts])))
        except PtxError as error:
            raise LaunchFailedError("CUDA_ERROR_INVALID_PTX", str(error)) from None


@dataclass
class Runtime:
    """One process's state; device memory and streams are the GPU's, which its processes share."""

    gpu: SimulatedGpu
    process: int = 0  #: Its number.
    modules: dict[int, Module] = field(default_factory=dict)
    functions: dict[int, tuple[Module, str]] = field(default_factory=dict)  #: Host function -> kernel.
    variables: dict[int, tuple[Module, str, int]] = field(default_factory=dict)  #: Host variable -> name and bytes.
    kernels: dict[int, Kernel] = field(default_factory=dict)  #: Handles that the driver's calls gave.
    registered: dict[int, tuple[int, int, int]] = field(default_factory=dict)  #: Pages, device address, bytes.
    arrays: dict[int, Elements] = field(default_factory=dict)
    objects: dict[int, tuple[bytes, ...]] = field(default_factory=dict)  #: What textures and surfaces were asked as.
    #: What graphs allocate, there for as long as a graph names it, and whether a launch has left it allocated.
    graph_memory: dict[int, bool] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)  #: Those made ready too, by their handles.
    captures: dict[int, Graph] = field(default_factory=dict)  #: Stream -> the graph that its work becomes.
    captured: dict[int, Graph] = field(default_factory=dict)  #: Event -> the graph in which it was recorded last.
    pools: dict[int, dict[int, int]] = field(default_factory=dict)
    notes: dict[Any, Any] = field(default_factory=dict)  #: What calls remember, by names of their own.
    in_graph: bool = False  #: Whether a graph's work is being done.
    broken: str = ""  #: The code of an error after which nothing is answered.
    tell: Callable[[str], None] = print  #: Takes what is to be said of failures.

    def submit(self, caller: Caller, stream: int, work: Work, kind: str) -> None:
        """Do work of a stream now, or note it where the stream is being captured.

        Raises DriverError: there is no such stream, or the work fails.
        """
        self.gpu.stream(stream)
        graph = self.captures.get(stream)
        if graph is not None:
            graph.note(self.gpu.new_handle(), work, kind)
        else:
            self.gpu.outstanding.queued(stream)  # what the default stream waits for, and who waits for it
            work(caller)

    def graph_ended(self, handle: int) -> None:
        """Forget a graph, and free memory that no other one names and that no launch has left allocated."""
        ended = self.graphs.pop(handle, None)
        for address in ended.memory if ended is not None else ():
            self.graph_memory_unused(address)

    def graph_memory_unused(self, address: int) -> None:
        """Free memory of graphs where none of them names it any more and no launch has left it allocated."""
        named = any(address in graph.memory for graph in self.graphs.values())
        if not named and self.graph_memory.get(address) is False:
            del self.graph_memory[address]
            self.gpu.free(address)

    def kernel(self, function: int) -> Kernel:
        """A kernel by its function in the program, or by a driver's handle.

        Raises DriverError: it is none.
        """
        if function in self.kernels:
            return self.kernels[function]
        if function not in self.functions:
            raise DriverError("cudaErrorInvalidDeviceFunction")
        module, name = self.functions[function]
        entries = {entry.name for entry in module.code.library.module.entries}
        if name not in entries:
            raise DriverError("cudaErrorInvalidDeviceFunction")
        return Kernel(module.code, name)

    def variable(self, symbol: int) -> tuple[int, int]:
        """Device address and bytes of a variable, by its place in the program.

        Raises DriverError: it is none.
        """
        if symbol not in self.variables:
            raise DriverError("cudaErrorInvalidSymbol")
        module, name, size = self.variables[symbol]
        try:
            return module.code.library.variable(name)[0], size
        except DriverError:
            raise DriverError("cudaErrorInvalidSymbol") from None

    def launcher(self, show: Callable[[str], None]) -> Launcher:
        """What launches kernels; those of graphs are given no stream of their own."""
        return Launcher(
            self.gpu, LaunchFailedError, lambda error: LaunchFailedError(code_of(error), str(error)), show, lambda: "",
            streams_tell=not self.in_graph,
        )  # fmt: skip

    def failed(self, error: DriverError) -> None:
        """Say why a call failed, where there is more to say than its code."""
        if error.code in STICKY:
            self.broken = error.code
        if isinstance(error, LaunchFailedError):
            self.tell(str(error))
