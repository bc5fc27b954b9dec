"""Packages that only the `blocks` extra installs."""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.errors import MissingExtraError
from tilewright.ground import installation


def require(package: str, arrays: str) -> Any:
    """Import a package that reads `arrays`, as in "zarr arrays".

    Raises MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{arrays} need the package {package}, which is not installed ({error}); run: "
            f"{installation.extra('blocks')}",
            "blocks",
        ) from None
