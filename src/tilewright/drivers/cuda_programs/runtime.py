"""What one process of a program has on the simulated GPU: its modules with their kernels and variables, its errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.drivers.cuda_programs.protocol import STICKY
from tilewright.drivers.gpu import DriverError, SimulatedGpu
from tilewright.drivers.host import Registered
from tilewright.drivers.launching import Launcher, code_of
from tilewright.drivers.libcuda.loading import Loaded, chosen
from tilewright.drivers.linking import ObjectCode
from tilewright.drivers.modules import Kernel
from tilewright.ptx import parse, to_text
from tilewright.ptx.joining import join

if TYPE_CHECKING:
    from tilewright.drivers.cuda_programs.arrays import Elements
    from tilewright.drivers.cuda_programs.graph import Graph, Work
    from tilewright.drivers.cuda_programs.protocol import Caller

#: Errors by which programs find out what there is.
_ASKED_FOR = frozenset({"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_NOT_READY"})


@dataclass
class Module:
    """A module that the program registered before `main`; what is wrong with it shows when it is used."""

    parts: list[bytes] = field(repr=False)  #: Fat binaries; several where device code was compiled apart.
    gpu: SimulatedGpu
    managed: dict[str, int] = field(default_factory=dict)  #: Variable -> where the program has its address.

    @functools.cached_property
    def code(self) -> ObjectCode:
        """Its PTX, linked.

        Raises DriverError: there is none, or two parts define one name.
        """
        parts, refused = [], None
        for part in self.parts:
            try:
                parts.append(chosen(self.gpu, part))
            except DriverError as error:
                refused = error  # the vendor's own, that is linked in: a kernel that calls it says so
        if not parts and refused is not None:
            raise refused
        ptx = parts[0] if len(parts) == 1 else to_text(join([parse(part) for part in parts]))
        return ObjectCode(ptx.encode(), "ptx", gpu=self.gpu)


@dataclass
class Runtime:
    """One process's state; device memory and streams are the GPU's, which its processes share."""

    gpu: SimulatedGpu
    process: int = 0  #: Its number.
    modules: dict[int, Module] = field(default_factory=dict)
    functions: dict[int, tuple[Module, str]] = field(default_factory=dict)  #: Host function -> kernel.
    variables: dict[int, tuple[Module, str, int]] = field(default_factory=dict)  #: Host variable -> name and bytes.
    loaded: Loaded = field(default_factory=Loaded)  #: What the driver's calls loaded.
    registered: dict[int, Registered] = field(default_factory=dict)
    kept: dict[bytes, int] = field(default_factory=dict)  #: Bytes that the program may read, and where they are.
    arrays: dict[int, Elements] = field(default_factory=dict)
    objects: dict[int, tuple[bytes, ...]] = field(default_factory=dict)  #: What textures and surfaces were asked as.
    #: What graphs allocate, there for as long as a graph names it, and whether a launch has left it allocated.
    graph_memory: dict[int, bool] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)  #: Those made ready too, by their handles.
    captures: dict[int, Graph] = field(default_factory=dict)  #: Stream -> the graph that its work becomes.
    captured: dict[int, Graph] = field(default_factory=dict)  #: Event -> the graph in which it was recorded last.
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
        if function in self.loaded.kernels:
            return self.loaded.kernel(function)
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
            self.gpu, DriverError, lambda error: DriverError(code_of(error), str(error)), show, lambda: "",
            streams_tell=not self.in_graph,
        )  # fmt: skip

    def failed(self, error: DriverError) -> None:
        """Say why a call failed, where there is more to say than its code, and programs do not ask for it."""
        if error.code in STICKY:
            self.broken = error.code
        if str(error) != error.code and error.code not in _ASKED_FOR:
            self.tell(str(error))
