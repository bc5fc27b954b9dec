"""Importing what only the `gpu` extra installs, with an error that says how to get it."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tilewright.errors import MissingExtraError

#: What brings a package, where that has another name.
_PACKAGES = {"numba": "numba-cuda", "cuda": "NVIDIA's package cuda"}


def require(module: str, purpose: str) -> Any:
    """Import `module`, or say which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name.
    purpose : str
        What it is needed for, to start the message: "Compiling Python kernels".

    Raises
    ------
    MissingExtraError
        The module cannot be imported.

    Examples
    --------
    >>> require("json", "Reading JSON").loads("[1]")
    [1]
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise missing(_PACKAGES.get(package, package), purpose, error) from error


def missing(part: str, purpose: str, cause: object = "") -> MissingExtraError:
    """The error for a part that is not installed."""
    detail = f" ({cause})" if str(cause) else ""
    return MissingExtraError(
        f"{purpose} needs {part}, which is not installed{detail}; run: pip install 'tilewright[gpu]'", "gpu"
    )


def has_compilers() -> bool:
    """Whether the packages that make PTX of Python and of CUDA C++ are installed; nothing of them is imported."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in ("numba", "numba_cuda", "cuda"))
    except (ImportError, ValueError):
        return False
