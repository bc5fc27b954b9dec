"""The source as syntax trees, for the tests of the house's rules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tilewright"


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    name: str  # "simt.ptx.tree"; "" is the package itself
    path: Path
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        """Parsed when a rule asks for it."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The first part of the name: the package or module directly under `tilewright`."""
        return self.name.split(".")[0]


@functools.cache
def modules() -> tuple[Module, ...]:
    """Every module under src/tilewright."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found.append(Module(".".join(parts), path, path.read_text(encoding="utf-8")))
    return tuple(found)


def offenders(
    rule: Callable[[Module], Iterable[object]], among: Iterable[Module] | None = None
) -> dict[str, list[object]]:
    """What a rule reports for each module, by the module's name; modules without a report are left out."""
    said = {m.name: list(rule(m)) for m in (modules() if among is None else among)}
    return {name: words for name, words in said.items() if words}


def imports(module: Module) -> set[tuple[int, str]]:
    """(line, module name without `tilewright.`) of every import of the package's own modules, lazy ones too."""
    known = {m.name for m in modules()}
    found: set[tuple[int, str]] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top != "tilewright" or not rest:
                continue
            while rest not in known and "." in rest:  # `from module import name` names the module
                rest = rest.rpartition(".")[0]
            found.add((node.lineno, rest))
    return found
