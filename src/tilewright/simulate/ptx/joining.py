"""Joining PTX modules into one, as a linker joins objects.

The result has the newest version, the first module's target, and one definition of each name. A private name that two
modules use gets a new name in one of them. Files are renumbered.

Source: PTX ISA, 5.1 (module-scope declarations), 11.1 (module directives), 11.5 (debugging directives), 11.6 (linking
directives).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tilewright.errors import PtxError
from tilewright.simulate.ptx.substitution import Rename, instruction_with_names
from tilewright.simulate.ptx.tree import Function, Instruction, Label, Location, Module, Symbol, Variable

Declared = TypeVar("Declared", Function, Variable)

#: Linkage of a definition that another definition replaces.
_WEAK = ("weak", "common")


def join(modules: Sequence[Module]) -> Module:
    """One module from several; the modules are not changed.

    A single module is returned as it is.

    Raises PtxError: A name is defined twice.

    >>> from tilewright.simulate.ptx import parse
    >>> head = ".version 8.0 .target sm_90 .address_size 64 "
    >>> joined = join([parse(head + ".extern .global .u32 x;"), parse(head + ".visible .global .u32 x = 3;")])
    >>> joined.variables["x"].initial
    (3,)
    """
    if len(modules) == 1:
        return modules[0]
    joined = Module(max(module.version for module in modules), modules[0].target, modules[0].address_size)
    uses = Counter(name for module in modules for name in (*module.variables, *module.functions))
    for module in modules:
        definitions: list[Function | Variable] = [*module.variables.values(), *module.functions.values()]
        own = [d.name for d in definitions if not d.linkage and not _declares(d) and uses[d.name] > 1]
        names = {name: _free(name, uses) for name in own}
        copier = _Copier(names, len(joined.files))
        joined.files |= {copier.file(index): name for index, name in module.files.items()}
        for variable in module.variables.values():
            _add(joined.variables, copier.variable(variable))
        for function in module.functions.values():
            _add(joined.functions, copier.function(function))
    return joined


def _declares(declared: Function | Variable) -> bool:
    """Whether this is a declaration without a definition."""
    return declared.is_declaration if isinstance(declared, Function) else declared.is_extern


def _free(name: str, uses: Counter[str]) -> str:
    """A name that no module uses, derived from `name`."""
    number = 1
    while uses[f"{name}__{number}"]:
        number += 1
    uses[f"{name}__{number}"] += 1
    return f"{name}__{number}"


def _add(known: dict[str, Declared], new: Declared) -> None:
    """Add a declaration or definition: definitions win over declarations, strong ones over weak ones."""
    before = known.get(new.name)
    if before is None or _declares(before) or (before.linkage in _WEAK and not _declares(new)):
        known[new.name] = new
    elif not _declares(new) and new.linkage not in _WEAK:
        raise PtxError(f"linked PTX must define each name once (got '{new.name}' twice); rename one of them")


class _Copier:
    """Copies a module's parts under other names, with `base` added to file numbers."""

    def __init__(self, names: dict[str, str], base: int) -> None:
        self._rename: Rename = lambda name: names.get(name, name)
        self._base = base
        self._files: dict[int, int] = {}
        self._locations: dict[Location, Location] = {}

    def file(self, index: int) -> int:
        """A file's number in the joined module."""
        return self._files.setdefault(index, self._base + len(self._files) + 1)

    def variable(self, variable: Variable) -> Variable:
        initial = tuple(
            replace(item, name=self._rename(item.name)) if isinstance(item, Symbol) else item
            for item in variable.initial
        )
        return replace(variable, name=self._rename(variable.name), initial=initial)

    def function(self, function: Function) -> Function:
        return replace(
            function,
            name=self._rename(function.name),
            body=[self._item(item) for item in function.body],
            variables=[self.variable(variable) for variable in function.variables],
            targets={label: tuple(map(self._rename, names)) for label, names in function.targets.items()},
        )

    def _item(self, item: Instruction | Label) -> Instruction | Label:
        if isinstance(item, Label):
            return item
        return replace(instruction_with_names(item, self._rename), location=self._location(item.location))

    def _location(self, location: Location | None) -> Location | None:
        if location is None:
            return None
        if location not in self._locations:
            at = self._location(location.inlined_at)
            self._locations[location] = replace(location, file=self.file(location.file), inlined_at=at)
        return self._locations[location]
