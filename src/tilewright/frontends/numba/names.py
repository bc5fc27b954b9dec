"""The names of numba-cuda that are replaced while a simulated GPU is installed, as a table.

All other code of numba-cuda stays, and so do the enumerations and codes of `cuda.bindings`. A test checks that
numba-cuda has every name.
"""

from __future__ import annotations

import functools
import importlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tilewright.errors import CompileError
from tilewright.frontends.driver_binding import Binding
from tilewright.frontends.numba import kept_kernels
from tilewright.frontends.numba.compile_errors import add_line
from tilewright.frontends.numba.launch_arguments import facts_of, observed_copy, observed_out, spacing_call
from tilewright.frontends.numba.watched import WatchedNumPy, classes
from tilewright.ground.native import store
from tilewright.ground.native.interrupts import DeferredSigint, Postponed
from tilewright.ground.native.replaced_names import Row, put, put_back
from tilewright.ground.progress import announced
from tilewright.simulate.device.driver_errors import end
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.host_side import CoreStream, Device
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.linking import Linker, ObjectCode, Program
from tilewright.simulate.device.modules import KernelAttributes
from tilewright.simulate.device.views import ArrayView
from tilewright.simulate.programs import numba_cache, numba_lines, program
from tilewright.simulate.programs.numba_names import DRIVER, compiler_rows
from tilewright.simulate.programs.optional import require

_PURPOSE = "Running kernels of numba.cuda"
_DISPATCHER = "numba.cuda.dispatcher"
_CONFIG = "numba.cuda.core.config"
#: Settings for warnings about the speed of a GPU: few blocks, and arrays that are copied.
_WARNINGS = ("CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY")
_NRT = "numba.cuda.memory_management.nrt"


class Finalizers:
    """Replaces the module `weakref` where numba-cuda frees memory, so that its finalizers can be detached.

    After the simulated GPU has ended, an array that is still alive must not ask a driver to free its memory.
    """

    def __init__(self) -> None:
        self._made: list[weakref.finalize[Any, Any]] = []
        self._look_at = 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)

    def finalize(self, owner: Any, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Like `weakref.finalize`."""
        made: weakref.finalize[Any, Any] = weakref.finalize(owner, function, *arguments, **named)
        self._made.append(made)
        if len(self._made) > self._look_at:  # most of them have run
            self._made = [finalizer for finalizer in self._made if finalizer.alive]
            self._look_at = 1000 + 2 * len(self._made)
        return made

    def detach(self) -> None:
        """Disable the finalizers made here, and let objects that are still alive have no device memory."""
        for made in self._made:
            found = made.detach()
            if found is not None:
                end(found[0], importlib.import_module(DRIVER))


def rows(gpu: SimulatedGpu, finalizers: Finalizers) -> Sequence[Row]:
    """The table for one simulated GPU."""
    launcher, lines = Launcher(gpu), Lines(gpu.record.compute_capability)
    gpu.with_arrays = lines.with_arrays
    return (
        *(watching_rows() if gpu.host_races else ()),
        (DRIVER, "binding", Binding(gpu)),
        (DRIVER, "Linker", Linker),
        (DRIVER, "ObjectCode", ObjectCode),
        (DRIVER, "ExperimentalDevice", functools.partial(Device, gpu)),
        (DRIVER, "ExperimentalStream", CoreStream),
        (DRIVER, "get_cuda_native_handle", int),
        (DRIVER, "find_driver", lambda: None),
        (DRIVER, "weakref", finalizers),
        (DRIVER, "device_to_host", observed_copy(gpu)),
        ("numba.cuda.args", "Out.to_device", observed_out(gpu)),
        (DRIVER, "CudaPythonFunction.__init__", _function_init),
        (DRIVER, "_ActiveContext._tls_cache", threading.local()),
        ("numba.cuda.cudadrv.nvrtc", "Program", Program),
        ("numba.cuda.cudadrv.devicearray", "StridedMemoryView", ArrayView),
        ("numba.cuda.typing.typeof", "StridedMemoryView", ArrayView),
        ("numba.cuda.cudadrv.devices", "_runtime._tls", threading.local()),
        *((_CONFIG, name, 0) for name in _WARNINGS),
        (_DISPATCHER, "launch", launcher.launch),
        (_DISPATCHER, "LaunchConfig", LaunchConfig),
        (_DISPATCHER, "_Kernel.launch", _noting(launcher)),
        (_DISPATCHER, "CUDADispatcher.typeof_pyval", _typing()),
        (_DISPATCHER, "CUDADispatcher.call", spacing_call(gpu)),
        (_DISPATCHER, "_Kernel.__init__", lines.kernel_init()),
        (_DISPATCHER, "compile_cuda", lines.compiler()),
        *compiler_rows(),
        (_NRT, "launch", launcher.launch),
        (_NRT, "LaunchConfig", LaunchConfig),
    )


def watching_rows() -> Iterator[Row]:
    """Rows that make arrays in shared host memory report the host's uses."""
    yield "numba.cuda.api", "np", WatchedNumPy()
    for name, watched in classes().items():
        yield "numba.cuda.cudadrv.devicearray", name, watched


def _function_init(function: Any, module: Any, kernel: Any, name: str) -> None:
    """What numba-cuda does when a kernel is loaded, except for its attributes, which are computed when needed."""
    function.module, function.kernel, function.handle, function.name = module, kernel, kernel.handle, name
    function.attrs = KernelAttributes(kernel)


def _noting(launcher: Launcher) -> Callable[..., None]:
    original = importlib.import_module(_DISPATCHER)._Kernel.launch

    @functools.wraps(original)
    def launch(kernel: Any, args: Sequence[Any], *options: Any, **named: Any) -> None:
        launcher.note(functools.partial(facts_of, kernel, args))
        original(kernel, args, *options, **named)

    return launch


def _typing() -> Callable[[Any, Any], Any]:
    """Replaces `CUDADispatcher.typeof_pyval`, which the dispatcher's C part calls; it drops errors and compiles."""
    original = importlib.import_module(_DISPATCHER).CUDADispatcher.typeof_pyval

    @functools.wraps(original)
    def typeof_pyval(dispatcher: Any, value: Any) -> Any:
        with Postponed():
            return original(dispatcher, value)

    return typeof_pyval


class Lines:
    """Makes numba-cuda's compiler emit source lines if the code links with them; errors and instruments use them."""

    def __init__(self, cc: tuple[int, int]) -> None:
        dispatcher = importlib.import_module(_DISPATCHER)
        self._compile, self._init = dispatcher.compile_cuda, dispatcher._Kernel.__init__
        self._thread = threading.local()
        self._cc = cc
        #: Kernels by their names in PTX: their texts, and what compiles them with arrays in memory.
        self._made: dict[str, tuple[tuple[str, ...], Callable[[], program.Program]]] = {}

    def with_arrays(self, entry: str) -> program.Program:
        """A kernel with its local arrays in memory.

        Raises CompileError: it is not one of Numba's.
        """
        if entry not in self._made:
            raise CompileError(f"{entry} must be a kernel that numba-cuda compiled here (got another)")
        return self._made[entry][1]()

    def compiler(self) -> Callable[..., Any]:
        """Replaces `compile_cuda`."""
        from numba.cuda.core.errors import NumbaDebugInfoWarning

        @functools.wraps(self._compile)
        def compile_cuda(
            function: Any, *arguments: Any, debug: bool = False, lineinfo: bool = False, **named: Any
        ) -> Any:
            arguments = (numba_lines.at_its_function(function), *arguments)
            with announced("compiling", getattr(function, "__name__", "a kernel")):
                return compiled(*arguments, debug=debug, lineinfo=lineinfo, **named)

        def compiled(*arguments: Any, debug: bool, lineinfo: bool, **named: Any) -> Any:
            if debug or lineinfo or getattr(self._thread, "off", False):
                return self._compile(*arguments, debug=debug, lineinfo=lineinfo, **named)
            with suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore", NumbaDebugInfoWarning)  # about lines that the user did not request
                return self._compile(*arguments, lineinfo=True, **named)
            # Some types have no debugging information. Outside the handler, so that an error is reported once.
            try:
                return self._compile(*arguments, **named)
            except Exception as error:
                add_line(error, arguments[0])
                raise

        return compile_cuda

    def kernel_init(self) -> Callable[..., None]:
        """Replaces `_Kernel.__init__`: a kernel that cannot be linked with source lines is compiled without them."""
        from cuda.bindings.nvjitlink import nvJitLinkError

        def compiled(kernel: Any, function: Any, argtypes: Any, **named: Any) -> None:
            self._init(kernel, function, argtypes, **named)
            if named.get("debug") or named.get("lineinfo"):
                return
            try:
                kernel._codelibrary.get_cubin()
            except nvJitLinkError:
                self._thread.off = True
                try:
                    self._init(kernel, function, argtypes, **named)
                finally:
                    self._thread.off = False

        @functools.wraps(self._init)
        def init(kernel: Any, function: Any, argtypes: Any, **named: Any) -> None:
            def make() -> tuple[str, ...]:
                compiled(kernel, function, argtypes, **named)
                while kernel.entry_name in self._made:  # a kernel that was kept has this name
                    compiled(kernel, function, argtypes, **named)
                return kept_kernels.texts_of(kernel)

            facts = {**named, "cc": self._cc, "front end": store.fingerprint("frontends/numba")}
            found = numba_cache.kept(function, argtypes, facts, make)
            if not hasattr(kernel, "py_func"):
                if self._made.get(found[0], (found,))[0] == found:
                    kept_kernels.restore(kernel, found, compiled, function, argtypes, named)
                else:  # another kernel here got its name, when fewer had been compiled before it
                    found = make()
            options = {"lineinfo": True, "fastmath": named.get("fastmath", False)}
            given = kernel.py_func, kernel.argtypes, self._cc, options
            remake = functools.partial(program.compiled_python, *given, opaque=True)
            self._made[kernel.entry_name] = (found, remake)

        return init


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Install a simulated GPU as numba-cuda's driver, and restore everything at the end."""
    require("numba_cuda", _PURPOSE)  # without it, `numba.cuda` is Numba's own, which has other names
    require("numba.cuda", _PURPOSE)
    finalizers = Finalizers()
    driver = importlib.import_module(DRIVER).driver
    before = dict(vars(driver))
    names: list[tuple[Any, str, Any]] = []
    try:
        with DeferredSigint():
            put(rows(gpu, finalizers), names)
            _forget(driver)
            driver.__init__()
        yield
    finally:
        with DeferredSigint():
            finalizers.detach()
            put_back(names)
            _forget(driver)
            vars(driver).update(before)


def _forget(driver: Any) -> None:
    """Reset numba-cuda's driver, its list of devices and its runtime of reference counts."""
    vars(driver).clear()
    importlib.import_module("numba.cuda.cudadrv.devices")._DeviceList.lst.fget.cache_clear()
    importlib.import_module(_NRT).rtsys.close()
