"""The state of one process of a program on the simulated GPU: modules with kernels and variables, errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.frontends.libcuda.loading import Loaded, chosen
from tilewright.simulate.device.caller import Registered
from tilewright.simulate.device.gpu import STICKY, DriverError, SimulatedGpu
from tilewright.simulate.device.launching import Launcher, code_of
from tilewright.simulate.device.linking import ObjectCode
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.ptx import parse, to_text
from tilewright.simulate.ptx.joining import join

#: Errors that programs use to find out what exists.
_ASKED_FOR = frozenset({"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_NOT_READY"})


@dataclass
class Module:
    """A module that the program registered before `main`; its errors are reported at its first use."""

    parts: list[bytes] = field(repr=False)  #: Fat binaries; several with separate compilation.
    gpu: SimulatedGpu
    kernels: dict[str, Kernel] = field(default_factory=dict)
    managed: dict[str, int] = field(default_factory=dict)  #: Variable -> where the program keeps its address.

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
                refused = error  # the vendor's code that is linked in; a kernel that calls it reports it
        if not parts and refused is not None:
            raise refused
        ptx = parts[0] if len(parts) == 1 else to_text(join([parse(part) for part in parts]))
        return ObjectCode(ptx.encode(), "ptx", gpu=self.gpu)


@dataclass
class Runtime:
    """The state of one process; its processes share the GPU's device memory and streams."""

    gpu: SimulatedGpu
    process: int = 0  #: Process id.
    modules: dict[int, Module] = field(default_factory=dict)
    functions: dict[int, tuple[Module, str]] = field(default_factory=dict)  #: Host function -> kernel.
    variables: dict[int, tuple[Module, str, int]] = field(default_factory=dict)  #: Host variable -> name and bytes.
    loaded: Loaded = field(default_factory=Loaded)  #: Code loaded by driver calls.
    registered: dict[int, Registered] = field(default_factory=dict)
    kept: dict[bytes, int] = field(default_factory=dict)  #: Bytes that the program can read, with their addresses.
    report: Callable[[str], None] = print  #: Takes the message of a failure.

    def kernel(self, function: int) -> Kernel:
        """A kernel by its function in the program, or by a driver's handle.

        Raises DriverError: there is no such kernel.
        """
        if function in self.loaded.kernels:
            return self.loaded.kernel(function)
        if function not in self.functions:
            raise DriverError("cudaErrorInvalidDeviceFunction")
        module, name = self.functions[function]
        kernel = module.kernels.get(name)
        if kernel is None:
            if name not in {entry.name for entry in module.code.library.module.entries}:
                raise DriverError("cudaErrorInvalidDeviceFunction")
            kernel = module.kernels[name] = Kernel(module.code, name)
        return kernel

    def variable(self, symbol: int) -> tuple[int, int]:
        """Device address and size of a variable, by its address in the program.

        Raises DriverError: there is no such variable.
        """
        if symbol not in self.variables:
            raise DriverError("cudaErrorInvalidSymbol")
        module, name, size = self.variables[symbol]
        try:
            return module.code.library.variable(name)[0], size
        except DriverError:
            raise DriverError("cudaErrorInvalidSymbol") from None

    def launcher(self, show: Callable[[str], None]) -> Launcher:
        """The launcher of kernels."""
        return Launcher(
            self.gpu, DriverError, lambda error: DriverError(code_of(error), str(error)), show,
            extents_code="cudaErrorInvalidConfiguration",
        )  # fmt: skip

    def failed(self, error: DriverError) -> None:
        """Print why a call failed, once: if there is a message, and the error is not one that programs provoke."""
        if error.code in STICKY:
            self.gpu.broken = error.code
        text = str(error)
        if text not in (error.code, *self.gpu.said) and error.code not in _ASKED_FOR:
            self.gpu.said.add(text)
            self.report(text)
