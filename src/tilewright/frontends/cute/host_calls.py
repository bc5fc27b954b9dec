"""The CUDA functions that CuTe DSL's compiled host code calls, under the names that this code uses.

Most are the runtime's and the driver's functions, with an underscore before the name.

Source: nvidia-cutlass-dsl 4.8, the functions that its host modules declare.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tilewright.frontends.cute.arrays import Arrays
from tilewright.frontends.libcuda import launches, loading
from tilewright.frontends.libcuda.errors import code_of
from tilewright.frontends.libcuda.prototypes import OF_KERNELS, Prototype, prototype
from tilewright.frontends.libcuda.served import Server
from tilewright.frontends.libcuda.static_runtime import answers, in_context
from tilewright.frontends.libcuda.table import driver_calls, runtime_calls
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.observer import ArgumentFact
from tilewright.simulate.tensor_maps.hardware import MAP_ALIGN, MAP_BYTES, translated

_Answer = Callable[..., Any]


class HostCalls:
    """The functions, for one simulated GPU."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.error: BaseException | None = None  #: The error of the last call that failed.
        self.names: dict[str, Sequence[str]] = {}  #: Kernel -> the names of its arguments with an address, in order.
        self._thread = threading.local()
        self._server = Server(code_of)  # keeps the functions at these addresses alive
        self._functions = {
            wanted.name: self._server.function(wanted, self._noted(answer), driver=driver)
            for wanted, answer, driver in (*answers(), *_drivers(), *self._own())
        }

    def register(self, engine: Any) -> None:
        """Register the functions for host code that an engine compiles."""
        for name, address in self._functions.items():
            engine.raw_register_runtime(f"_{name}", ctypes.c_void_p(address))

    def loading(self, ptx: str, load: Callable[[], Any]) -> Any:
        """Load a library: the machine code that the host code passes was made from this PTX."""
        self._thread.ptx = ptx
        return load()

    def running(self, call: Callable[[], Any]) -> Any:
        """Run compiled host code.

        Raises: the error of a launch.
        """
        self.error = None
        try:
            return call()
        except Exception:
            if self.error is not None:
                raise self.error from None
            raise

    def _noted(self, answer: _Answer) -> _Answer:
        """The same function, which stores its error for the program."""

        def noted(gpu: SimulatedGpu, *given: Any) -> Any:
            try:
                return answer(gpu, *given)
            except BaseException as error:
                self.error = error
                raise

        return noted

    def _own(self) -> Iterator[tuple[Prototype, _Answer, str]]:
        """Functions that are not the runtime's: a kernel is a handle, extents are numbers, code is PTX."""
        own: tuple[tuple[str, _Answer], ...] = (
            ("cudaLibraryLoadData(cudaLibrary_t *library, const void *code, void *jit, void *jitValues, "
             "unsigned int jitCount, void *options, void *values, unsigned int count)", self._load),
            ("cudaKernelSetAttributeForDevice(cudaKernel_t kernel, int attr, int value, int device)",
             lambda gpu, kernel, attribute, value, device: loading.cuFuncSetAttribute(gpu, kernel, attribute, value)),
            ("cudaLaunchKernelEx(const void *config, cudaFunction_t func, void *args)", self._launch_configured),
            ("cudaLaunchKernel(cudaFunction_t func, int gridX, int gridY, int gridZ, int blockX, int blockY, "
             "int blockZ, void *args, size_t shared, cudaStream_t stream)", self._launch_extents),
        )  # fmt: skip
        for wanted, answer, driver in runtime_calls(OF_KERNELS):
            if answer is not None:
                yield wanted, in_context(answer), driver
        yield from ((prototype(text), in_context(answer), "") for text, answer in own)

    def _load(self, gpu: SimulatedGpu, *_: int) -> int:
        return loading.load(gpu, self._thread.ptx.encode())

    def _launch_configured(self, gpu: SimulatedGpu, config: int, kernel: Kernel, given: int) -> None:
        stream, made = launches.configured(gpu, config)
        self._launch(gpu, stream, made, kernel, given)

    def _launch_extents(self, gpu: SimulatedGpu, kernel: Kernel, *given: int) -> None:
        *extents, parameters, shared, stream = given
        config = LaunchConfig(tuple(extents[:3]), tuple(extents[3:]), shmem_size=shared)
        self._launch(gpu, stream, config, kernel, parameters)

    def _launch(self, gpu: SimulatedGpu, stream: int, config: LaunchConfig, kernel: Kernel, given: int) -> None:
        values = list(launches.values_at(gpu, kernel, given))
        facts = self._facts(kernel.name, values)
        for at, parameter in enumerate(kernel.program.parameters):
            if parameter.bytes == MAP_BYTES and parameter.align == MAP_ALIGN:
                values[at] = translated(values[at])
        launcher = Launcher(gpu, streams_known=False)
        launcher.note(lambda _: facts)
        launcher.launch(stream, config, kernel, *values)

    def _facts(self, kernel: str, values: Sequence[bytes]) -> tuple[ArgumentFact, ...]:
        """The fact of each parameter; one with an address begins with it, like a tensor map."""
        words = [int.from_bytes(value[:8], "little") if len(value) >= 8 else 0 for value in values]
        facts = [self._arrays.fact(f"argument {at}", word) for at, word in enumerate(words)]
        names = self.names.get(kernel, ())
        if len(names) == sum(fact.address != 0 for fact in facts):
            left = iter(names)
            facts = [replace(fact, name=next(left)) if fact.address else fact for fact in facts]
        return tuple(facts)


def _drivers() -> Iterator[tuple[Prototype, _Answer, str]]:
    """The driver's functions, by names without a version."""
    for wanted, answer in driver_calls():
        if answer is not None:
            plain = wanted.name.partition("_v")[0]
            yield Prototype(plain, wanted.parameters), in_context(answer), plain
