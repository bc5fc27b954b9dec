"""Imports and finds the parts of the extras for GPUs, with an error that says how to install them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tilewright.errors import MissingExtraError
from tilewright.ground import installation

_NUMBA_CUDA = "numba.cuda"
#: The libraries of a module of the bindings: pip's package, and how the files' names begin. NVRTC looks for its other
#: one where the system has libraries, unless the process has loaded it; not all releases look in their own folder.
_VENDOR_LIBRARIES = {
    "cuda.bindings.nvrtc": ("nvidia-cuda-nvrtc", "libnvrtc.so.", "libnvrtc-builtins.so."),
    "cuda.bindings.nvjitlink": ("nvidia-nvjitlink", "libnvJitLink.so."),
}
#: The package of a module with another name.
_PACKAGES = {"numba": "numba-cuda", "numba_cuda": "numba-cuda", "cuda": "NVIDIA's package cuda"}


def require(module: str, purpose: str) -> Any:
    """Import `module`; the error names the extra that installs it.

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


def with_vendor_library(module: str, purpose: str) -> Any:
    """A module of NVIDIA's bindings, with the libraries of pip's own package.

    The bindings take whichever release the process has loaded, and torch's wheels may load an older one.

    Raises MissingExtraError: as :func:`require`.
    """
    _load(*_VENDOR_LIBRARIES[module])
    return require(module, purpose)


@functools.cache
def _load(package: str, *libraries: str) -> None:
    with contextlib.suppress(metadata.PackageNotFoundError, OSError):  # then the bindings say what is missing
        files = metadata.files(package) or ()
        for file in files:
            if file.name.startswith(libraries):
                ctypes.CDLL(str(file.locate()))


def _refuse_numba_s_own(module: str, purpose: str) -> None:
    """Reject Numba's own `numba.cuda`, which Python finds if it did not read numba-cuda's .pth file."""
    if module != _NUMBA_CUDA or not _are_found("numba", "numba_cuda"):
        return
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None and "numba_cuda" not in Path(spec.origin).parts:
        raise MissingExtraError(
            f"{purpose} needs numba-cuda, but numba.cuda is Numba's own ({spec.origin}): a .pth file makes numba-cuda "
            "replace it, and Python reads that file in an environment but not in folders of PYTHONPATH; install into "
            "an environment (python -m venv) instead of a folder (--target)",
            "gpu",
        )


def missing(part: str, purpose: str, cause: object = "") -> MissingExtraError:
    """The error for a part that is not installed."""
    detail = f" ({cause})" if str(cause) else ""
    if sys.platform != "linux":
        remedy = "it has no wheels for this system: use Linux or the container of docs/install.md"
    else:
        remedy = f"run: {installation.extra('gpu')}"
    return MissingExtraError(f"{purpose} needs {part}, which is not installed{detail}; {remedy}", "gpu")


def has_compilers() -> bool:
    """Whether the compiler from CUDA C++ to PTX is installed; does not import it."""
    return _are_found("cuda.bindings.nvrtc")


def _are_found(*modules: str) -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in modules)
    except (ImportError, ValueError):
        return False
