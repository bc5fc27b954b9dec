"""Builds kernels, and converts drivers' errors to messages that say what to do.

Source: OpenCL 1.2 Specification, sections 5.6 (programs), 5.7 (kernels) and 5.8 (launching).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import CompileError, DeviceError
from tilewright.ground.native import secure_files
from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends.opencl.devices import OpenclDevice, binding, describe
from tilewright.multiply.backends.opencl.pocl import is_pocl
from tilewright.multiply.backends.opencl.source import Layout, Tile, source
from tilewright.multiply.problem.kind import Kind

#: Most contexts whose kernels are kept: kernels keep their context and its device memory alive.
CONTEXTS = 8
_OPTIONS = ("-cl-std=CL1.2",)
#: Other errors of drivers for buffers that do not fit.
_TOO_LARGE = ("INVALID_BUFFER_SIZE", "OUT_OF_HOST_MEMORY")
#: Runs a kernel on PoCL's device.
_TRY = """
import pyopencl as cl
from tilewright.multiply.backends.opencl.pocl import processor
(device,) = [d for p in cl.get_platforms() if p.name.startswith("Portable Computing") for d in p.get_devices()][:1]
processor(device)
context = cl.Context([device])
queue = cl.CommandQueue(context)
cl.Program(context, "kernel void tried() {}").build().tried(queue, (1,), (1,))
queue.finish()
"""
#: Known drivers' errors -> what to do.
_HINTS = {
    "DEVICE_NOT_AVAILABLE": "it was lost: choose another device or start the process anew",
    "OUT_OF_RESOURCES": "it lacks memory or registers, or was reset: multiply parts, or start the process anew",
}
_DIVIDES = "-cl-fp32-correctly-rounded-divide-sqrt"
#: x x + y, 2^-24 with one rounding and 0 with two; a subnormal float to be doubled; a half's smallest value; z of
#: (1 + z)^2 - (1 + 2 z) in doubles, 2^-54 with one rounding and 0 with two.
_GIVEN = (1 + 2.0**-12, -(1 + 2.0**-11), 2.0**-128, 2.0**-24, 2.0**-27)
#: Their expected results, and the rules; the last two for devices with doubles.
_FOUND = (
    (2.0**-24, "fma must round once"),
    (0.0, "a product and a sum must round twice"),
    (2.0**-127, "sums must keep subnormal floats"),
    (2.0**-24, "halves must keep subnormal values"),
    (2.0**-54, "fma of doubles must round once"),
    (0.0, "a product and a sum of doubles must round twice"),
)
_OF_DOUBLES = 2


@contextlib.contextmanager
def driver_errors(device: OpenclDevice, what: str, needed_bytes: int = 0) -> Iterator[None]:
    """Convert a driver's errors to ours.

    Raises DeviceError: memory is exhausted, the device is lost, or the driver failed otherwise.
    """
    cl = binding()
    try:
        yield
    except cl.Error as error:
        if isinstance(error, cl.MemoryError) or any(code in str(error) for code in _TOO_LARGE):
            raise DeviceError(
                f"{device.name}: {what} must fit its memory, {device.memory_bytes >> 20:,} MiB of which one buffer may "
                f"take {device.allocation_bytes >> 20:,} (got {needed_bytes / 2**20:,.1f} MiB: {_short(error)}); "
                "multiply parts, or free other buffers"
            ) from error
        hint = next((hint for code, hint in _HINTS.items() if code in str(error)), "see the driver's message")
        raise DeviceError(f"{device.name}: {what} failed ({_short(error)}); {hint}") from error


def _short(error: Exception) -> str:
    return " ".join(str(error).split())


@functools.lru_cache(maxsize=CONTEXTS)
def check_arithmetic(context: Any, handle: Any) -> None:
    """Test on a device the arithmetic that the canonical order needs.

    Raises DeviceError: its arithmetic differs.
    """
    cl, device = binding(), describe(handle)
    if is_pocl(device.platform) and shutil.which("ld") is None:
        _check_linking(device)
    text = (Path(__file__).parent / "kernels" / "probe.cl").read_text()
    expected: tuple[tuple[float, str], ...] = _FOUND
    if device.doubles:
        text = f"#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define DOUBLES\n{text}"
    else:
        expected = _FOUND[:-_OF_DOUBLES]
    given, found = np.array(_GIVEN, np.float32), np.empty(len(expected), np.float32)
    with driver_errors(device, "trying its arithmetic"):
        program = _built(context, device, text, "probe")
        queue, flags = cl.CommandQueue(context, handle), cl.mem_flags
        arrays = [cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=given)]
        arrays.append(cl.Buffer(context, flags.WRITE_ONLY, found.nbytes))
        program(queue, (1,), (1,), *arrays)
        cl.enqueue_copy(queue, found, arrays[1])
    for have, (want, rule) in zip(found.tolist(), expected, strict=True):
        if have != want:
            raise DeviceError(
                f"{device.name}: {rule} for the canonical order (got {have!r} for {want!r}); multiply on another device"
            )


def _check_linking(device: OpenclDevice) -> None:
    """Test in a separate process, without a cache, whether PoCL can link: if it cannot, it aborts its process."""
    with secure_files.working_folder() as folder:
        environment = os.environ | {"POCL_CACHE_DIR": str(folder), "PYOPENCL_NO_CACHE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _TRY], env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise DeviceError(
            f"{device.name}: the program `ld` must be in PATH, as PoCL links kernels with it (got: {said[:200]}); "
            "install the package binutils"
        )


@dataclass(frozen=True, slots=True)
class Built:
    """A built kernel.

    Its arguments are part of its state: a thread holds the lock while it sets them and launches.
    """

    kernel: Any  #: pyopencl.Kernel.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def launch(
        self, queue: Any, items: tuple[int, ...], group: tuple[int, ...], *arguments: Any, wait_for: Sequence[Any] = ()
    ) -> Any:
        """Enqueue the kernel with these arguments, after these events; returns its own `pyopencl.Event`."""
        with self._lock:
            return self.kernel(queue, items, group, *arguments, wait_for=list(wait_for))


def kernel(context: Any, handle: Any, kind: Kind, tile: Tile, layout: Layout) -> Built:
    """The built kernel of a product; equal arguments give the same kernel.

    Raises CompileError: the device's compiler refuses it; the message has its log; DeviceError: the device's arithmetic
    differs from the canonical one.
    """
    return _kernels(context)(handle, kind, tile, layout)


@functools.lru_cache(maxsize=CONTEXTS)
def _kernels(context: Any) -> Callable[..., Built]:
    """The kernels of a context."""
    return bounded(256)(functools.partial(_kernel, context))


def _kernel(context: Any, handle: Any, kind: Kind, tile: Tile, layout: Layout) -> Built:
    device = describe(handle)
    check_arithmetic(context, handle)
    return Built(_built(context, device, source(kind, tile, layout, device.divides), tile.form))


def _built(context: Any, device: OpenclDevice, text: str, name: str) -> Any:
    """Build without pyopencl's cache, which holds pickles; drivers have caches of their own."""
    cl = binding()
    options = [*_OPTIONS, *([_DIVIDES] if device.divides else [])]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # drop the messages of successful builds
            program = cl.Program(context, text).build(options, [device.handle], cache_dir=False)
        return cl.Kernel(program, name)
    except cl.Error as error:
        numbered = "\n".join(f"{i:4} {line}" for i, line in enumerate(text.splitlines(), 1))
        raise CompileError(
            f"{device.platform}: the kernel {name!r} did not compile for {device.name}:\n{str(error).strip()}\n\n"
            f"{numbered}"
        ) from error
