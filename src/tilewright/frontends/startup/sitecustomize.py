"""Installs the simulated GPU in processes that a program starts; its folder comes first on their PYTHONPATH.

Nothing happens until a process imports one of the packages that use GPUs. A `sitecustomize` that the process would
have run without this one runs too.
"""

import importlib.machinery
import importlib.util
import os
import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent)
#: Packages that use GPUs.
_PACKAGES = os.environ.get("TILEWRIGHT_SIMULATED_PACKAGES", "").split()


class _AfterImport:
    """A finder that leaves the search to others, and installs the simulated GPU when such a package is loaded."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in _PACKAGES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):  # type: ignore[no-untyped-def]
                load(module)
                try:
                    from tilewright.frontends.children import stay_simulated
                except ImportError as error:  # another interpreter, with other packages
                    warnings.warn(
                        f"{name} has no simulated GPU in {sys.executable}, since Tilewright is not installed there "
                        f"({error}); install it there, or start the program's children with Python's `sys.executable`",
                        stacklevel=2,
                    )
                else:
                    stay_simulated()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get("TILEWRIGHT_SIMULATED_GPU"):
    sys.meta_path.insert(0, _AfterImport())

# The module that would have been found without this folder.
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if p != _HERE])
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
