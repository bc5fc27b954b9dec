"""A table of the names of Triton that are replaced while a simulated GPU is installed."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import triton

from tilewright.frontends.triton.driver import KernelLauncher, Utilities
from tilewright.ground.native import store
from tilewright.ground.native.memo import memo
from tilewright.ground.native.replaced_names import Row
from tilewright.ground.progress import announced
from tilewright.simulate.device.gpu import SimulatedGpu

_SOURCE, _CHOICE = "triton.compiler.compiler", "triton.runtime.driver"
_CACHE, _TUNER = "triton.runtime.cache", "triton.runtime.autotuner"
_DRIVER, _COMPILER = "triton.backends.nvidia.driver", "triton.backends.nvidia.compiler"


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    yield _DRIVER, "CudaUtils", Utilities
    yield _DRIVER, "CudaLauncher", KernelLauncher
    yield _DRIVER, "CudaDriver.is_active", staticmethod(lambda: True)
    yield from _no_driver_yet()
    yield from (("triton.testing", name, _do_bench) for name in ("do_bench", "do_bench_cudagraph"))
    yield from _tuning(importlib.import_module(_TUNER).Autotuner)
    yield _COMPILER, "CUDABackend.add_stages", _stages(importlib.import_module(_COMPILER).CUDABackend.add_stages)
    compiler = importlib.import_module(_SOURCE)
    yield _SOURCE, "ASTSource.hash", _by_file(compiler.ASTSource.hash)
    yield _SOURCE, "CompiledKernel._init_handles", _loaded(compiler.CompiledKernel._init_handles)
    if hasattr(importlib.import_module(_CACHE), "triton_key"):
        yield _CACHE, "triton_key", _of_installed_files
    yield _COMPILER, "CUDABackend.hash", lambda backend: f"tilewright-{backend.target.arch}"


def _do_bench(*given: Any, **named: Any) -> Any:
    """Replaces Triton's: what it needs is loaded when a program measures."""
    from tilewright.frontends.benchmarks import do_bench

    return do_bench(*given, **named)


def _tuning(tuner: Any) -> Iterator[Row]:
    """Make Triton's autotuner announce how many of its configurations it has timed."""
    run, prune, bench = tuner.run, tuner.prune_configs, tuner._bench
    under_way: dict[Any, tuple[ExitStack, list[Any]]] = {}  # those that are not yet timed

    @functools.wraps(run)
    def running(one: Any, *arguments: Any, **named: Any) -> Any:
        with ExitStack() as stack:
            under_way[one] = stack, []
            stack.callback(under_way.pop, one, None)
            return run(one, *arguments, **named)

    @functools.wraps(prune)
    def pruned(one: Any, *arguments: Any, **named: Any) -> Any:
        configs = prune(one, *arguments, **named)
        if one in under_way and (most := len(configs)) > 1:
            stack, left = under_way[one]
            left += configs
            name = getattr(one.base_fn, "__name__", "a kernel")
            stack.enter_context(announced("tuning", name, most, "configurations", lambda: most - len(left)))
        return configs

    @functools.wraps(bench)
    def timed(one: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return bench(one, *arguments, **named)
        finally:
            stack, left = under_way.get(one, (None, [None, None]))
            left.pop()
            if stack is not None and not left:  # the launch in the best configuration is no part of it
                stack.close()

    yield _TUNER, "Autotuner.run", running
    yield _TUNER, "Autotuner.prune_configs", pruned
    yield _TUNER, "Autotuner._bench", timed


def _no_driver_yet() -> Iterator[Row]:
    """Make Triton look for its driver again. Releases before 3.5 keep proxies that look once."""
    module = importlib.import_module(_CHOICE)
    if hasattr(module, "LazyProxy"):
        proxy = module.LazyProxy(module._create_driver)
        yield from ((_CHOICE, name, proxy) for name in ("driver.default", "driver.active"))
    else:
        yield from ((_CHOICE, name, None) for name in ("driver._default", "driver._active"))


@memo
def _of_installed_files() -> str:
    """Replaces the part of Triton's keys that names its code: sizes and times of its files, not 500 MB of bytes.

    A time of change (`ctime`) cannot be set by an installer, so another release or an edited file has another key.
    """
    root, found = Path(triton.__file__).parent, []
    for folder, _, names in os.walk(root):
        if not folder.endswith("__pycache__"):
            paths = (Path(folder, name) for name in sorted(names))
            found += [(str(path.relative_to(root)), path.stat()) for path in paths]
    files = (f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}" for name, status in sorted(found))
    return f"{triton.__version__}-{store.digest(*files)}"


def _by_file(original: Callable[[Any], str]) -> Callable[[Any], str]:
    """Replaces the key of Triton's cache: it includes the file, because findings name its lines."""
    return functools.wraps(original)(lambda source: f"{original(source)}-{inspect.getsourcefile(source.fn.fn)}")


def _loaded(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Replaces the loading of a kernel: it has no module, which its end would unload from a later driver."""

    def load(kernel: Any) -> None:
        if kernel.function is None:
            original(kernel)
            kernel.module = None

    return load


def _stages(original: Callable[..., None]) -> Callable[..., None]:
    """Replaces `CUDABackend.add_stages`: the last stage keeps the PTX, which the simulated GPU loads."""

    @functools.wraps(original)
    def add_stages(backend: Any, stages: dict[str, Any], *arguments: Any) -> None:
        original(backend, stages, *arguments)
        stages["cubin"] = lambda ptx, metadata: ptx.encode()

    return add_stages
