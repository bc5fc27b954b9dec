"""The paths by which users import modules, and those of release 0.2: each leads to the module in its wing.

>>> import tilewright.programs, tilewright.simulate.programs
>>> tilewright.programs is tilewright.simulate.programs
True
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType

_PACKAGE = "tilewright."
#: Path -> module, both within the package. The pages name the first group; the second is kept until 0.4.
_HOMES = MappingProxyType({
    "simt": "simulate", "programs": "simulate.programs", "machine": "simulate.machine",
    "gpu": "simulate.intrinsics", "gpu.tensor_maps": "simulate.tensor_maps.tensor_map",
    "instruments": "observe.instruments", "checking": "observe.checking", "profiling": "observe.profiling",
    "ladder": "show.ladder",

    "ptx": "simulate.ptx", "problem": "multiply.problem", "engine": "multiply.engine", "kernels": "multiply.kernels",
    "backends": "multiply.backends", "blocks": "multiply.blocks", "prediction": "observe.prediction",
    "drivers": "frontends", "rates": "show.rates", "report": "show.report", "native": "ground.native",
    "settings": "ground.settings", "testing": "cli.pytest_plugin", "notebook": "cli.notebook",
})  # fmt: skip


class _Loader(Loader):
    """Gives the module of another path."""

    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module."""
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore its own specification, which the import system has replaced."""
        module.__spec__ = self._spec


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PACKAGE):
            return None
        name, rest = fullname.removeprefix(_PACKAGE), ""
        while name not in _HOMES:
            name, _, last = name.rpartition(".")
            rest = f".{last}{rest}"
            if not name:
                return None
        return ModuleSpec(fullname, _Loader(f"{_PACKAGE}{_HOMES[name]}{rest}"))


def keep_public_paths() -> None:
    """Let imports find the modules by these paths."""
    sys.meta_path.insert(0, _Finder())
