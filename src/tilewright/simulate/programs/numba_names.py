"""Names of numba-cuda that every compilation replaces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.replaced_names import Row, owner_of
from tilewright.simulate.programs.numba_lines import def_location, set_module_flags

#: numba-cuda's module that calls the driver.
DRIVER = "numba.cuda.cudadrv.driver"

#: The functions with which numba-cuda reads new registrations.
_REFRESHING = (("numba.cuda.core.base", "BaseContext.refresh"), ("numba.cuda.typing.context", "BaseContext.refresh"))


def compiler_rows() -> Sequence[Row]:
    """The replacements for every compilation."""
    return (
        ("numba.cuda.lowering", "BaseLower._compute_def_location", def_location()),
        ("numba.cuda.debuginfo", "DIBuilder._set_module_flags", set_module_flags),
        *((module, name, _whole(module, name)) for module, name in _REFRESHING),
    )


def _whole(module: str, name: str) -> Callable[[Any], None]:
    """Delay Ctrl-C until a context is up to date.

    Registries are read by generators that resume where they stopped. An interrupted generator is finished for good, and
    no kernel would compile in this process any more.
    """
    owner, last = owner_of(module, name)
    original = vars(owner)[last]

    @functools.wraps(original)
    def refresh(context: Any) -> None:
        with DeferredSigint():
            original(context)

    return refresh
