"""The parts of PTX that a launch needs: its syntax tree, kernels, their parameters, static shared memory and lines.

Source: PTX ISA, 5.2 (Types), 7.1 (Function Declarations), 11.1 (Version, Target).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import CompileError, near
from tilewright.simulate.programs import device_runtime
from tilewright.simulate.ptx.frames import frames, users_line
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.ptx.substitution import parts
from tilewright.simulate.ptx.tree import Function, Instruction, Module, Symbol, Variable

#: Source: PTX ISA 9.5, 11.1.2 (`.target`), and what NVRTC 13.5 compiles for.
_TARGETS = tuple(
    f"sm_{number}"
    for number in "20 21 30 32 35 37 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 100 101 103 107 110 120 121".split()
)
#: The first with the suffix `a`, and with `f`.
_FIRST_A, _FIRST_F = 90, 100


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter, as PTX declares it."""

    name: str
    bytes: int  #: Size in the parameter space.
    align: int  #: Alignment in bytes.
    #: `integer`, `float`, `pointer` (an integer that PTX marks `.ptr`) or `bytes` (an array: a structure by value).
    kind: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The declarations of one kernel in PTX."""

    name: str
    parameters: tuple[Parameter, ...]
    shared_bytes: int


@functools.lru_cache(maxsize=64)
def parsed(ptx: str) -> Module:
    """The syntax tree of a PTX text, with the device-runtime functions that it declares; do not change it.

    Raises PtxError: the text is not PTX.
    """
    return device_runtime.link(parse(ptx), ptx.count("\n") + 1)


def target(module: Module) -> tuple[int, int]:
    r"""The compute capability in a module's `.target`.

    Raises CompileError: it has none.

    >>> target(parse(".version 8.0\n.target sm_90a\n"))
    (9, 0)
    """
    digits = _digits(module)
    suffix = module.target.removeprefix(f"sm_{digits}")
    if f"sm_{digits}" not in _TARGETS or suffix not in (
        "",
        *"a" * (int(digits) >= _FIRST_A),
        *"f" * (int(digits) >= _FIRST_F),
    ):
        raise CompileError(
            f"PTX must name a GPU that there is in `.target` (got {module.target[:20]!r}); known are "
            f"{', '.join(_TARGETS)}, from sm_{_FIRST_A} on also with `a`, from sm_{_FIRST_F} on with `f`"
        )
    return int(digits[:-1]), int(digits[-1])


def architecture(module: Module, cc: tuple[int, int]) -> str:
    r"""The assembler's name of a compute capability, with the suffix of architecture-specific PTX.

    Source: PTX ISA, 11.1.2 (`.target`, architecture-specific targets).

    >>> [architecture(parse(f".version 8.0\n.target {name}\n"), (9, 0)) for name in ("sm_90a", "sm_80")]
    ['sm_90a', 'sm_90']
    """
    plain = f"sm_{cc[0]}{cc[1]}"
    return module.target if plain == f"sm_{_digits(module)}" else plain


def unfit(module: Module, cc: tuple[int, int]) -> str:
    r"""Why PTX does not run on GPUs of a compute capability, from the suffix of its target; "" if it runs.

    Source: PTX ISA, 11.1.2 (`.target`): with `a` (architecture-specific) it runs on that architecture alone; with `f`
    (family-specific) on later ones of its family too. NVIDIA, "Family-specific architecture features": one family has
    the same major number.

    >>> made = {name: parse(f".version 8.8\n.target {name}\n") for name in ("sm_90", "sm_90a", "sm_100f")}
    >>> [[unfit(module, cc) for cc in ((9, 0), (10, 0), (10, 3))] for module in made.values()][0]
    ['', '', '']
    >>> unfit(made["sm_90a"], (10, 0))
    'PTX of target sm_90a runs on compute capability 9.0 alone'
    >>> unfit(made["sm_100f"], (10, 3)), unfit(made["sm_100f"], (12, 0))
    ('', 'PTX of target sm_100f runs on compute capability 10.0 and later ones of 10.x alone')
    """
    major, minor = target(module)
    letter = module.target[len(f"sm_{_digits(module)}") :]
    if letter == "a" and cc != (major, minor):
        return f"PTX of target {module.target} runs on compute capability {major}.{minor} alone"
    if letter == "f" and (cc[0] != major or cc < (major, minor)):
        later = f"{major}.{minor} and later ones of {major}.x alone"
        return f"PTX of target {module.target} runs on compute capability {later}"
    return ""


def _digits(module: Module) -> str:
    return module.target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")


def read_entry(module: Module, name: str | None = None) -> Entry:
    """Find a kernel in a module.

    `name` is needed only if there are several.

    Raises CompileError: there is no such entry, or several and no name.
    """
    found = {function.name: function for function in module.entries}
    if not found:
        raise CompileError("PTX text must define a kernel with `.entry` (found none)")
    if name is None and len(found) > 1:
        raise CompileError(f"`entry` must name one of the kernels {', '.join(found)}; the text has {len(found)}")
    chosen = next(iter(found)) if name is None else name
    if chosen not in found:
        meant = near(chosen, found, "choose one")
        raise CompileError(f"`entry` must be one of {', '.join(found)} (got {chosen!r}); {meant}")
    parameters = tuple(_parameter(p) for p in found[chosen].params if isinstance(p, Variable))
    return Entry(chosen, parameters, _static_shared(module, found[chosen]))


def _parameter(variable: Variable) -> Parameter:
    if variable.count != 1 or variable.type == ".b8":  # compilers pass a structure as an array of bytes
        return Parameter(variable.name, variable.size, variable.align or variable.element_bytes, "bytes")
    kind = "pointer" if variable.is_pointer else "float" if variable.type[1] == "f" else "integer"
    return Parameter(variable.name, variable.size, variable.element_bytes, kind)


def _static_shared(module: Module, entry: Function) -> int:
    """Bytes of the sized shared variables that a kernel, and the functions it reaches, declare or use."""
    reached, named = _reached(module, entry)
    total = 0
    for variable in (*module.variables.values(), *(v for function in reached for v in function.variables)):
        own = variable.name not in module.variables
        if variable.space == "shared" and not variable.is_extern and (own or variable.name in named):
            total = -(-total // variable.alignment) * variable.alignment + variable.size
    return total


def _reached(module: Module, entry: Function) -> tuple[list[Function], set[str]]:
    """A kernel with the functions that it may call, and the names that they contain."""
    reached, named = [entry], set[str]()
    if not any(v.space == "shared" for f in (module, entry) for v in _variables(f)) and len(module.functions) == 1:
        return reached, named
    for function in reached:  # grows while it is walked
        new = {name for name in _symbols(function) if name not in named}
        named |= new
        reached += [found for name in sorted(new) if (found := module.functions.get(name)) and not found.is_entry]
    return reached, named


def _variables(owner: Module | Function) -> Iterable[Variable]:
    return owner.variables.values() if isinstance(owner, Module) else owner.variables


def _symbols(function: Function) -> Iterable[str]:
    for item in function.body:
        if isinstance(item, Instruction):
            yield from (part.name for o in item.operands for part in parts(o) if isinstance(part, Symbol))
    yield from (name for names in function.targets.values() for name in names)


def calls(module: Module) -> dict[int, tuple[str, ...]]:
    r"""For each PTX line (from 1) of a called function: the user's lines that call it, then the callers of these.

    >>> calls(parse('''.version 8.0 .target sm_90 .file 1 "k.cu"
    ... .func f() { ret; }
    ... .entry k() { .loc 1 7 3
    ... call f;
    ... ret; }'''))
    {2: ('k.cu:7',)}
    """
    callers: dict[str, list[tuple[str, str]]] = {}
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instruction) and item.name.partition(".")[0] == "call":
                place = users_line(frames(item.location, module.files))
                for name in {part.name for o in item.operands for part in parts(o) if isinstance(part, Symbol)}:
                    callers.setdefault(name, []).append((place, function.name))
    found: dict[int, tuple[str, ...]] = {}
    for function in module.functions.values():
        places, waiting, seen = [], [function.name], {function.name}
        while waiting:
            for place, caller in callers.get(waiting.pop(0), ()):
                places.append(place)
                waiting += {caller} - seen
                seen.add(caller)
        if kept := tuple(dict.fromkeys(place for place in places if place)):
            found |= {item.ptx_line: kept for item in function.body if isinstance(item, Instruction)}
    return found


def line_table(module: Module) -> dict[int, tuple[str, ...]]:
    r"""For each PTX line (from 1), its source frames; empty without a line table.

    The frames are `file:line`: the line itself, then the call sites that it was inlined at. The callers of a function
    that is not inlined are not included.

    >>> line_table(parse('''.version 8.0 .target sm_90 .file 1 "k.cu" .file 2 "k.h"
    ... .entry k() { .loc 1 7 3
    ... .loc 2 9 1, function_name $s, inlined_at 1 7 3
    ... ret; }'''))
    {4: ('k.h:9', 'k.cu:7')}
    """
    table = {}
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instruction) and (where := frames(item.location, module.files)):
                table[item.ptx_line] = where
    return table
