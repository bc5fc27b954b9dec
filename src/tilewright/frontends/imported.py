"""Replaces names in the packages that a program imports, while a simulated GPU is installed.

This imports no package: a finder waits for those that the program has not imported yet.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tilewright.frontends.frontend import frontends, replacing
from tilewright.frontends.libcuda.served import serve
from tilewright.ground.garbage import uncollected
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.simulate.device import internal_code
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import Observer


class Packages:
    """A finder that leaves the search to others, and replaces names in packages of front ends when they are loaded."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._open = ExitStack()
        self._modules = replacing()
        self._waited_for = set(self._modules)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """A package's spec that also replaces names after loading; None for any other module."""
        if name not in self._waited_for:
            return None
        self._waited_for.discard(name)  # while the other finders search
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._waited_for.add(name)  # a spec may be requested without loading: torch does so for Triton
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with uncollected():
                    load(module)
                    self.put(name)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def put(self, package: str) -> None:
        """Replace the table's names of a loaded package."""
        table = importlib.import_module(self._modules[package])
        with DeferredSigint():
            installed = table.installed if hasattr(table, "installed") else _named(table.rows)
            self._open.enter_context(installed(self._gpu))
        self._waited_for.discard(package)

    def put_back(self) -> None:
        """Undo all replacements, in reverse order: a name may be replaced twice."""
        self._open.close()


def _named(rows: Callable[[SimulatedGpu], Iterable[Row]]) -> Callable[[SimulatedGpu], AbstractContextManager[None]]:
    """Replaces the names of a table for one simulated GPU."""
    return lambda gpu: replaced(rows(gpu))


def _is_loaded(name: str) -> bool:
    """Whether a package and those around it are loaded: None blocks an import, and a program's stand-in has no spec."""
    around = name.rpartition(".")[0]
    own = getattr(sys.modules.get(name), "__spec__", None) is not None
    return own and (not around or _is_loaded(around))


@contextmanager
def replaced_when_imported(gpu: SimulatedGpu) -> Iterator[None]:
    """Install the simulated GPU in packages of front ends, and in code that calls the driver in C, for a time."""
    serve()
    packages = Packages(gpu)
    try:
        for name in filter(_is_loaded, replacing()):
            packages.put(name)
        sys.meta_path.insert(0, packages)
        with internal_code.also(name for one in frontends() for name in (*one.internal, *one.replaces.values())):
            yield
    finally:
        with DeferredSigint():
            if packages in sys.meta_path:
                sys.meta_path.remove(packages)
            packages.put_back()


@contextmanager
def observing(gpu: SimulatedGpu, observer: Observer) -> Iterator[None]:
    """Let one more observer follow the installed GPU, with everything that it requests."""
    with gpu.observing(observer), replaced(_watching_rows() if gpu.host_races else ()):
        yield


def _watching_rows() -> Iterator[Row]:
    """Names of loaded packages whose replacements report the host's uses of shared memory."""
    modules = replacing()
    for package in filter(_is_loaded, modules):
        table = importlib.import_module(modules[package])
        yield from table.watching_rows() if hasattr(table, "watching_rows") else ()
