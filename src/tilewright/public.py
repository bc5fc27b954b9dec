"""Public names of a package that are imported when they are first used, so that importing it costs next to nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_of(
    package: str, homes: Mapping[str, str], **modules: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package has for `__getattr__`, `__dir__` and `__all__`.

    `homes` says by module, named from the package on, which of its names are the package's too, and `modules` what the
    package calls whole modules.
    """
    home = {name: (module, name) for module, names in homes.items() for name in names.split()}
    home |= {name: (module, "") for name, module in modules.items()}
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; public names: {', '.join(public)}")
        module, attribute = home[name]
        value: Any = importlib.import_module(f"{package}.{module}")
        value = getattr(value, attribute) if attribute else value
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: public, public
