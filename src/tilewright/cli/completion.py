"""Values that a shell completes after an option: `tilewright --install-completion` sets it up. Typer filters them."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def _names(module: str, table: str) -> Callable[[], list[str]]:
    """Gives the names in a module's table, which is imported when a shell asks."""

    def listed() -> list[str]:
        found = getattr(importlib.import_module(module), table)
        return [getattr(one, "name", one) for one in (found() if callable(found) else found)]

    return listed


algebras = _names("tilewright.multiply.problem.algebra", "ALGEBRAS")
devices = _names("tilewright.multiply.backends.inventory", "BACKENDS")
dtypes = _names("tilewright.multiply.problem.dtypes", "DTYPES")
fail_on = _names("tilewright.ground.configuration", "FAIL_ON")
formats = _names("tilewright.cli.formats", "FORMATS")
gpus = _names("tilewright.simulate.machine", "names")
kernels = _names("tilewright.multiply.kernels.catalogue", "records")
orders = _names("tilewright.multiply.engine.promotion", "ORDERS")
