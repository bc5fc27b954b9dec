"""The source as syntax trees, for the tests of the house's rules."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tilewright"
_C = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".cl"}
_INCLUDE = re.compile(r'^\s*#\s*include\s*"(.+)"', re.MULTILINE)


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
    """(line, module name without `tilewright.`) of all that a module names of the package's own modules.

    Lazy imports and those for type checkers count. So do strings: the full name of a module, that of a package with a
    dot at its end, which stands for each of its modules, and names relative to a package in its `__init__.py`.
    """
    known = {m.name for m in modules()}
    found: set[tuple[int, str]] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {(node.lineno, name) for name in _named(module, node.value) if name != module.name}
            continue
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


def _named(module: Module, text: str) -> set[str]:
    """The modules that a string names."""
    known = {m.name for m in modules()} - {""}
    name = text.removeprefix("tilewright.")
    if name == text:
        inside = f"{module.name}.{text}".removeprefix(".")
        return {inside} & known if module.path.name == "__init__.py" else set()
    return {one for one in known if one.startswith(name)} if name.rstrip(".") != name else {name} & known


def includes() -> dict[str, set[str]]:
    """The C and CUDA files of the package, each with those that it includes, named relative to the package."""
    return {str(p.relative_to(SOURCE)): set(_included(p)) for p in sorted(SOURCE.rglob("*")) if p.suffix in _C}


def _included(path: Path) -> Iterator[str]:
    for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
        yield next(str(p.relative_to(SOURCE)) for p in (path.parent / name, SOURCE / name) if p.exists())


def circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """A circle of the graph, its first node again at the end; [] if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])[::-1]
    return []
