"""Importing and finding what only the `gpu` extra installs, with an error that says how to get it."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from pathlib import Path
from typing import Any

from tilewright.errors import MissingExtraError

_NUMBA_CUDA = "numba.cuda"
#: What brings a package, where that has another name.
_PACKAGES = {"numba": "numba-cuda", "cuda": "NVIDIA's package cuda"}


def require(module: str, purpose: str) -> Any:
    """Import `module`, or say which extra brings it.

    `purpose` starts the message: "Compiling Python kernels".

    Raises MissingExtraError: the module cannot be imported.

    >>> require("json", "Reading JSON").loads("[1]")
    [1]
    """
    _refuse_numba_s_own(module, purpose)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise missing(_PACKAGES.get(package, package), purpose, error) from error


def _refuse_numba_s_own(module: str, purpose: str) -> None:
    """Refuse Numba's own `numba.cuda`, which is found where numba-cuda's .pth file was not read."""
    if module != _NUMBA_CUDA or not has_compilers():
        return
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None and "numba_cuda" not in Path(spec.origin).parts:
        raise MissingExtraError(
            f"{purpose} needs numba-cuda, but numba.cuda is Numba's own ({spec.origin}): numba-cuda takes its place by "
            f"a .pth file, which Python reads in an environment and not in folders of PYTHONPATH; install into an "
            f"environment (python -m venv) instead of a folder (pip install --target)",
            "gpu",
        )


def missing(part: str, purpose: str, cause: object = "") -> MissingExtraError:
    """The error for a part that is not installed."""
    detail = f" ({cause})" if str(cause) else ""
    return MissingExtraError(
        f"{purpose} needs {part}, which is not installed{detail}; run: pip install 'tilewright[gpu]'", "gpu"
    )


def vendor_program(name: str, part: str, purpose: str) -> Path:
    """One of the vendor's programs: of the installed wheel, else of the search path.

    Raises MissingExtraError: there is none.
    """
    try:
        from cuda import pathfinder

        found = pathfinder.find_nvidia_binary_utility(name)
    except ImportError:
        found = None
    found = found or shutil.which(name)
    if not found:
        raise missing(f"{part} {name}", purpose)
    return Path(found)


def has_compilers() -> bool:
    """Whether the packages that make PTX of Python and of CUDA C++ are installed; nothing of them is imported."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in ("numba", "numba_cuda", "cuda"))
    except (ImportError, ValueError):
        return False
