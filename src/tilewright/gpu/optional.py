"""Importing what only the `gpu` extra installs, with an error that says how to get it."""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.errors import MissingExtraError


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
        raise missing(module.split(".", maxsplit=1)[0], purpose, error) from error


def missing(part: str, purpose: str, cause: object = "") -> MissingExtraError:
    """The error for a part that is not installed."""
    detail = f" ({cause})" if str(cause) else ""
    return MissingExtraError(
        f"{purpose} needs {part}, which is not installed{detail}; run: pip install 'tilewright[gpu]'"
    )
