"""Lets `torch.compile` trace functions of tensors on the simulated GPU.

torch traces with fake tensors, which have a device and no elements. To torch's C++ a tensor on the simulated GPU is a
CPU tensor of a class that computes in the GPU's memory; here the tracer takes it for a plain tensor on `cuda`, and
does not look into the class. `inductor.py` has what the compiler behind it needs.

A torch for the CPU alone cannot trace gradients of tensors on `cuda`; there compiled functions run as written, and a
warning says so once. Its C++ asks the runtime for a stream, and in a torch for CUDA that runtime is the simulated one.

Source: PyTorch, `torch.compiler.set_stance`; `torch._dynamo.variables.builder` of the installed package.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._dynamo import device_interface, eval_frame, trace_rules
from torch._dynamo.variables import builder
from torch.utils import _triton

from tilewright.frontends.torch.device_guard import own_guard
from tilewright.frontends.torch.tensors import DeviceTensor
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.internal_code import users_frame

_EAGER = "run eagerly on the simulated GPU, as written, so no Triton kernels of theirs are checked, profiled or counted"
#: The function of `torch._dynamo.eval_frame` that applies the stance when a compiled function is called.
_APPLIED = "_callback_from_stance"
#: Names of `torch.cuda` of which `torch._dynamo` keeps copies.
_COPIED = (
    "current_device",
    "set_device",
    "device_count",
    "stream",
    "current_stream",
    "set_stream",
    "synchronize",
    "get_device_properties",
    "memory_allocated",
    "is_bf16_supported",
    "Event",
    "Stream",
)
_PACKAGE = Path(__file__).parents[2]
#: Folders in it whose code runs as written within compiled functions: that of the tensors' operations.
_SKIPPED = ("frontends", "simulate", "observe")
#: Methods of ours that a trace keeps as calls, and does not look into.
_METHODS = ("to", "cuda", "type_as", "pin_memory", "is_pinned")


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Trace compiled functions in the body of `with`, for this GPU alone."""
    with own_guard() as known:
        reason = "" if known else "the class by which this torch finds the devices of CUDA was not found"
        reason = reason if torch.backends.cuda.is_built() else "this torch is built for the CPU alone"
        with _eagerly(gpu, reason) if reason else _traced():
            yield


@contextmanager
def _eagerly(gpu: SimulatedGpu, reason: str) -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"), replaced(_eager_rows(gpu, reason)):
        yield


@contextmanager
def _traced() -> Iterator[None]:
    with replaced(_rows()):
        _forget()
        for name in _METHODS:
            torch._dynamo.allow_in_graph(getattr(torch.Tensor, name))
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    """Make `torch._dynamo` compile functions again, and look up the names of torch again."""
    torch._dynamo.reset_code_caches()
    trace_rules.clear_lru_cache()
    device_interface.caching_worker_device_properties.clear()
    clear_caches(vars(_triton).values())


def clear_caches(functions: Iterable[Any]) -> None:
    """Empty the caches of those functions that have one."""
    for one in functions:
        getattr(getattr(one, "__func__", one), "cache_clear", lambda: None)()


def _rows() -> Iterator[Row]:
    """The names that are replaced where torch is for CUDA."""
    within, interface = "torch._dynamo.variables.builder", "torch._dynamo.device_interface"
    known, subclass = builder.VariableBuilder._type_dispatch, builder.infer_subclass_type
    as_plain = classmethod(lambda cls: {**known(), DeviceTensor: cls.wrap_tensor})
    yield within, "VariableBuilder._type_dispatch", as_plain
    yield within, "infer_subclass_type", lambda value: None if type(value) is DeviceTensor else subclass(value)
    ours = "|".join(re.escape((_PACKAGE / name).as_posix()) for name in _SKIPPED)
    yield "torch._dynamo.trace_rules", "SKIP_DIRS_RE", re.compile(f"{trace_rules.SKIP_DIRS_RE.pattern}|({ours})/")
    for name in _COPIED:
        yield interface, f"CudaInterface.{name}", staticmethod(getattr(torch.cuda, name))
    yield interface, "CudaInterface.get_raw_stream", staticmethod(torch._C._cuda_getCurrentRawStream)


def _eager_rows(gpu: SimulatedGpu, reason: str) -> Iterator[Row]:
    """The name whose replacement says that compiled functions run as written."""
    apply: Any = getattr(eval_frame, _APPLIED, None)

    def eager(callback: Any) -> Any:
        if callback not in (None, False):
            say(gpu, f"functions of torch.compile {_EAGER}: {reason}")
        return apply(callback)

    if apply is not None:
        yield "torch._dynamo.eval_frame", _APPLIED, eager


def say(gpu: SimulatedGpu, text: str) -> None:
    """Warn at the line of the program, once for each GPU."""
    frame = users_frame()
    if text not in gpu.said and frame is not None:
        gpu.said.add(text)
        warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def say_eager(gpu: SimulatedGpu, error: Exception) -> None:
    """Warn that a function runs as written because it could not be compiled."""
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    say(gpu, f"some functions of torch.compile {_EAGER}: {reason.strip()}")
