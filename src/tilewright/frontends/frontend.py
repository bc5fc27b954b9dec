"""Front ends: one record for each kind of program that runs on the simulated GPU.

Each record is `FRONTEND` in `frontends/NAME/frontend.py`. Other packages add one by an entry point of the group
`tilewright.frontends`, whose value is a :class:`Frontend`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tilewright.errors import warn
from tilewright.ground.native.memo import memo

GROUP = "tilewright.frontends"


@dataclass(frozen=True, slots=True)
class Frontend:
    """What the simulated GPU must know of a package whose programs launch kernels."""

    name: str
    #: Package or module -> our module that installs a simulated GPU in it when a program has imported it. That module
    #: has `installed(gpu)`, a context manager, or `rows(gpu)`, which yields the names to replace; and, if the host may
    #: read memory while a kernel writes it, `watching_rows()`.
    replaces: Mapping[str, str]
    #: Packages whose code is not the user's: a launch's line is that of their caller.
    internal: tuple[str, ...] = ()
    extra: str = "gpu"  #: The extra of this package, or the requirement, that installs it.


@memo
def frontends() -> tuple[Frontend, ...]:
    """The records of this package, then those of entry points; a broken one is left out with a warning.

    >>> "CuPy" in [one.name for one in frontends()]
    True
    """
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/frontend.py"))
    found = [importlib.import_module(f"{__package__}.{name}.frontend").FRONTEND for name in folders]
    for entry in metadata.entry_points(group=GROUP):
        try:
            record = entry.load()
        except Exception as error:
            warn(f"the front end {entry.name!r} ({entry.value}) is left out: {type(error).__name__}: {error}")
            continue
        if isinstance(record, Frontend):
            found.append(record)
        else:
            warn(f"the front end {entry.name!r} must be a Frontend (got {record!r}); it is left out")
    return tuple(found)


def replacing() -> dict[str, str]:
    """Package -> our module, of all front ends.

    >>> replacing()["triton"]
    'tilewright.frontends.triton.names'
    """
    return {package: module for one in frontends() for package, module in one.replaces.items()}
