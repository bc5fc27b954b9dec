"""Public names of a package, imported when they are first used, so that importing the package is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def publish(package: str, homes: Mapping[str, str], **modules: str) -> None:
    """Make names of a package's modules its own, imported at first use; set its `__all__` and `__dir__`.

    `homes` maps a module, named relative to the package, to those of its names that the package has too. `modules` maps
    a name of the package to a whole module.
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
