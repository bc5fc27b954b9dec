"""Public names of a package that are imported when they are first used, so that importing it costs next to nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def publish(package: str, homes: Mapping[str, str], **modules: str) -> None:
    """Give a package names of its modules, its `__all__`, and what `dir` says of it.

    `homes` says by module, named from the package on, which of its names are the package's too, and `modules` what the
    package calls whole modules.
    """
    home = {name: (module, name) for module, names in homes.items() for name in names.split()}
    home |= {name: (module, "") for name, module in modules.items()}
    namespace, public = vars(sys.modules[package]), sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; public names: {', '.join(public)}")
        module, attribute = home[name]
        value: Any = importlib.import_module(f"{package}.{module}")
        namespace[name] = getattr(value, attribute) if attribute else value
        return namespace[name]

    namespace.update(__getattr__=get, __dir__=lambda: public, __all__=public)
