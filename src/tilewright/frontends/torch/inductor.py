"""Lets torch's compiler, inductor, generate kernels of Triton for the simulated GPU, and launch them there.

Inductor writes a module of Python for each graph: its Triton kernels, and a function that allocates tensors and
launches the kernels. That module takes a few functions of torch's C++ by name, which make tensors for a real GPU; it
gets ours. Triton compiles the kernels as it does those of programs. Where a graph cannot be compiled, it runs as
written.

Compilation is in this process, because another one has no simulated GPU. Results are not kept on disk for other
processes: torch's keys there name the GPU, so a real GPU of that name would find PTX where it expects machine code.

Source: `torch._inductor` of the installed package: `codegen/wrapper.py`, `compile_fx.py`, `runtime/benchmarking.py`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._inductor import async_compile, codecache, compile_fx, config, utils
from torch._inductor.codegen.cuda import cuda_env
from torch._inductor.runtime import benchmarking, hints
from torch._inductor.virtualized import V

from tilewright.frontends.benchmarks import do_bench
from tilewright.frontends.torch.compiling import clear_caches, say, say_eager
from tilewright.frontends.torch.tensors import DeviceTensor, on_gpu
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.simulate.device.gpu import SimulatedGpu

_WRAPPER = "cpp_wrapper"
#: Settings of inductor. Its padding of products is chosen by the times of torch's products, which are not predicted.
_SETTINGS: Mapping[str, Any] = MappingProxyType({
    _WRAPPER: False, "compile_threads": 1, "use_static_cuda_launcher": False, "shape_padding": False,
    "fx_graph_cache": False, "fx_graph_remote_cache": False, "autotune_local_cache": False,
    "autotune_remote_cache": False,
})  # fmt: skip
#: What keeps properties of the GPU, or kernels that are loaded in it.
_KEEPERS = (utils, cuda_env, hints.DeviceProperties, codecache.CacheBase)
_LOADED = (codecache.PyCodeCache, async_compile.CompiledTritonKernels)


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Compile for a simulated GPU in the body of `with`."""
    with replaced(_rows(gpu)):
        _forget()
        try:
            yield
        finally:
            torch._dynamo.reset_code_caches()
            _forget()


def _forget() -> None:
    """Drop the generated modules, and what is known of another GPU."""
    clear_caches((*_LOADED, *(value for keeper in _KEEPERS for value in vars(keeper).values())))


def _rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The names that are replaced."""
    yield "torch._C._dynamo.guards", "_empty_strided_cuda", _empty
    yield "torch._C._dynamo.guards", "_reinterpret_tensor", _viewed(torch._C._dynamo.guards._reinterpret_tensor)
    yield "torch._inductor.compile_fx", "compile_fx", _compiled(gpu, compile_fx.compile_fx)
    for name, one in vars(benchmarking).items():
        if isinstance(one, type):
            for function in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph"):
                if function in vars(one):
                    yield "torch._inductor.runtime.benchmarking", f"{name}.{function}", _benchmark


def _empty(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Replaces the allocation of a generated function."""
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _viewed(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces a generated function's view of a tensor's memory."""

    def view(tensor: torch.Tensor, *layout: Any) -> torch.Tensor:
        if isinstance(tensor, DeviceTensor):
            return on_gpu(original(tensor.elements, *layout))
        return original(tensor, *layout)

    return view


def _benchmark(self: Any, _callable: Callable[[], Any], *_: Any, **options: Any) -> Any:
    """Replaces benchmarks: a choice without kernels, whose time is not predicted, is the last one."""
    time = do_bench(_callable, **options)
    return math.inf if isinstance(time, float) and math.isnan(time) else time


def _compiled(gpu: SimulatedGpu, original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `compile_fx`: with our settings, and as written if that fails."""

    def compiled(
        model_: Any, example_inputs_: Any, inner_compile: Any = compile_fx.compile_fx_inner,
        config_patches: Mapping[str, Any] | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        if V.aot_compilation:
            return original(model_, example_inputs_, inner_compile, config_patches, **options)
        settings = {**(config_patches or {}), **_SETTINGS}
        if (config_patches or {}).get(_WRAPPER, config.cpp_wrapper):
            say(gpu, "torch.compile: the simulated GPU's kernels have a wrapper in Python; `cpp_wrapper` is ignored")
        as_written = torch.fx.GraphModule(model_, copy.deepcopy(model_.graph))
        patched = config.patch(settings)
        try:
            with config.patch(settings):
                return original(model_, example_inputs_, patched(inner_compile), **options)
        except RestartAnalysis:
            raise
        except Exception as error:
            say_eager(gpu, error)
            return as_written

    return compiled
