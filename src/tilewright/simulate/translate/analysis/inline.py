"""Direct calls are replaced by their callee's body; recursive and indirect ones stay calls.

`.param` variables of calls become registers if all accesses agree on place and width, and local memory otherwise.

Source: PTX ISA, 7.1 (Function Declarations and Definitions), 9.7.12.5 (call).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tilewright.errors import PtxError
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.frames import called_from, frames, users_line
from tilewright.simulate.ptx.substitution import instruction_with_names
from tilewright.simulate.translate.analysis.promote import promote_params

#: Functions that the machine provides.
BUILTINS = ("vprintf",)
#: Prefixes of the functions by which kernels launch kernels. Source: CUDA C++ Programming Guide, "Dynamic Parallelism".
_DEVICE_LAUNCHES = ("__cudaCDP2", "cudaLaunchDevice", "cudaGetParameterBuffer")
#: Separates a name in a copied body from the number of the copy; no parsed name has it.
_COPY = "@"
#: Most instructions of a kernel after inlining; more is a mistake or an attack. Compiling so many takes minutes.
INSTRUCTIONS_MAX = 100_000
#: Most registers and variables of a kernel after inlining, and the deepest nesting of calls that are inlined.
_NAMES_MAX = 4 * INSTRUCTIONS_MAX
_DEPTH_MAX = 256


def inline_calls(module: tree.Module, function: tree.Function) -> tree.Function:
    """A copy of a function in which direct, non-recursive calls are replaced by their callee's body.

    Raises PtxError: for a call to a function that the module does not define, or with the wrong number of arguments.
    """
    if len(function.body) > INSTRUCTIONS_MAX:
        raise PtxError(
            f"{module.path}:{function.ptx_line}: '{function.name}' must have at most {INSTRUCTIONS_MAX:,} instructions "
            f"(got {len(function.body):,}); unroll less"
        )
    if not any(isinstance(i, tree.Instruction) and role_of(i.opcode) is Role.CALL for i in function.body):
        return function
    inliner = _Inliner(module, recursive_functions(module))
    result = tree.Function(
        function.name,
        function.is_entry,
        function.params,
        function.returns,
        [],
        dict(function.registers),
        list(function.variables),
        dict(function.targets),
        dict(function.prototypes),
        function.directives,
        ptx_line=function.ptx_line,
    )
    inliner.expand(function, result, _Names("", {}))
    return promote_params(result)


def recursive_functions(module: tree.Module) -> set[str]:
    """Functions that can reach themselves by direct calls, in time linear in the calls.

    Source: Sharir, A strong-connectivity algorithm and its applications in data flow analysis, 1981.
    """
    calls = {name: [c for c in _callees(f) if c in module.functions] for name, f in module.functions.items()}
    callers: dict[str, list[str]] = {name: [] for name in calls}
    for name, direct in calls.items():
        for callee in direct:
            callers[callee].append(name)
    found = {name for name, direct in calls.items() if name in direct}
    grouped: set[str] = set()
    for name in reversed(_callees_first(calls)):
        group = [] if name in grouped else [name]
        grouped.add(name)
        for member in group:  # which grows: functions that reach each other
            fresh = set(callers[member]) - grouped
            grouped |= fresh
            group += fresh
        found |= set(group) if len(group) > 1 else set()
    return found


def _callees_first(calls: dict[str, list[str]]) -> list[str]:
    """Functions in the order in which a depth-first search leaves them."""
    order: list[str] = []
    seen: set[str] = set()
    for root, called in calls.items():
        path = [] if root in seen else [(root, iter(called))]
        seen.add(root)
        while path:
            name, left = path[-1]
            fresh = next((callee for callee in left if callee not in seen), None)
            if fresh is None:
                order.append(name)
                path.pop()
            else:
                seen.add(fresh)
                path.append((fresh, iter(calls[fresh])))
    return order


def _callees(function: tree.Function) -> Iterator[str]:
    for item in function.body:
        if isinstance(item, tree.Instruction) and role_of(item.opcode) is Role.CALL:
            target = call_arguments(item).target
            if isinstance(target, tree.Symbol):
                yield target.name


def frees_stack(function: tree.Function) -> bool:
    """Whether a function allocates on the stack, which is released when it returns."""
    return any(isinstance(item, tree.Instruction) and role_of(item.opcode) is Role.ALLOCATE for item in function.body)


def call_arguments(item: tree.Instruction) -> tree.CallArguments:
    """The pieces of a call instruction."""
    for operand in item.operands:
        if isinstance(operand, tree.CallArguments):
            return operand
    raise PtxError(f"line {item.ptx_line}: 'call' needs a function and its arguments")


@dataclass(slots=True)
class _Names:
    """The new names of one copy of a body, and its call site."""

    suffix: str
    aliases: dict[str, str] = field(default_factory=dict)
    location: tree.Location | None = None

    def __call__(self, name: str) -> str:
        return self.aliases.get(name, name)

    def instruction(self, item: tree.Instruction) -> tree.Instruction:
        return replace(instruction_with_names(item, self), location=called_from(item.location, self.location))


class _Passed(NamedTuple):
    """A parameter or a result of a call."""

    item: tree.Instruction  #: The call.
    formal: tree.Variable | tree.Register
    actual: tree.Operand


class _Inliner:
    def __init__(self, module: tree.Module, recursive: set[str]) -> None:
        self.module = module
        self.recursive = recursive
        self.copies = self.depth = 0
        self.statics: set[str] = set()

    def expand(self, function: tree.Function, into: tree.Function, names: _Names) -> None:
        """Append a function's body to another, calls expanded."""
        for item in function.body:
            if isinstance(item, tree.Label):
                into.body.append(tree.Label(names(item.name), item.ptx_line))
                continue
            renamed = names.instruction(item)
            if len(into.body) > INSTRUCTIONS_MAX:
                raise PtxError(
                    f"{self.module.path}:{renamed.ptx_line}: more than {INSTRUCTIONS_MAX:,} instructions after inlining"
                )
            if role_of(renamed.opcode) is Role.CALL and self.inlines(renamed):
                self.call(renamed, into)
            elif names.suffix and role_of(renamed.opcode) is Role.RETURN:
                end = tree.Symbol(f"$return{names.suffix}")
                into.body.append(replace(renamed, opcode="bra", modifiers=(), operands=(end,)))
            else:
                into.body.append(renamed)

    def inlines(self, item: tree.Instruction) -> bool:
        """Whether a call is to be replaced by its callee's body."""
        call = call_arguments(item)
        if isinstance(call.target, tree.Register) or call.target.name in BUILTINS:
            return False
        callee = self.module.functions.get(call.target.name)
        if callee is None or callee.is_declaration or callee.is_entry:
            if call.target.name.startswith(_DEVICE_LAUNCHES):
                place = users_line(frames(item.location, self.module.files))
                raise PtxError(
                    f"{place or f'{self.module.path}:{item.ptx_line}'}: a kernel can call only simulated "
                    f"functions of the device runtime (got '{call.target.name}'): launches, their errors, streams, "
                    "events, cudaMalloc, cudaFree, cudaMemcpyAsync and cudaMemsetAsync"
                )
            raise PtxError(
                f"{self.module.path}:{item.ptx_line}: call to '{call.target.name}', which this module does not define "
                f"as a function; link its definition into the PTX"
            )
        return call.target.name not in self.recursive

    def call(self, item: tree.Instruction, into: tree.Function) -> None:
        """Replace one call."""
        call = call_arguments(item)
        assert isinstance(call.target, tree.Symbol)
        callee = self.module.functions[call.target.name]
        if len(call.arguments) != len(callee.params) or len(call.returns) != len(callee.returns):
            raise PtxError(
                f"{self.module.path}:{item.ptx_line}: '{callee.name}' takes {len(callee.params)} arguments and returns "
                f"{len(callee.returns)} (got {len(call.arguments)} and {len(call.returns)})"
            )
        if self.depth >= _DEPTH_MAX:
            raise PtxError(
                f"{self.module.path}:{item.ptx_line}: calls of different functions must be nested at most "
                f"{_DEPTH_MAX} deep (got '{callee.name}'); merge functions"
            )
        if (made := len(into.registers) + len(into.variables)) > _NAMES_MAX:
            raise PtxError(
                f"{self.module.path}:{item.ptx_line}: a kernel must have at most {_NAMES_MAX:,} registers and "
                f"variables after inlining (got {made:,}); call fewer functions"
            )
        self.copies += 1
        names = self.declare(callee, into, f"{_COPY}{self.copies}")
        names.location = item.location
        skip = f"$past{names.suffix}"
        if item.guard is not None:
            inverse = tree.Guard(item.guard.register, not item.guard.negated)
            into.body.append(self.make(item, "bra", (), tree.Symbol(skip), guard=inverse))
        for formal, actual in zip(callee.params, call.arguments, strict=True):
            self.bind(_Passed(item, formal, actual), into, names, stores=True)
        for formal, actual in zip(callee.returns, call.returns, strict=True):
            self.bind(_Passed(item, formal, actual), into, names, stores=False)
        before = tree.Register(f"%stack{names.suffix}")
        if frees := frees_stack(callee):
            into.registers[before.name] = ".b64"
            into.body.append(self.make(item, "stacksave", (".u64",), before))
        self.depth += 1
        self.expand(callee, into, names)
        self.depth -= 1
        into.body.append(tree.Label(f"$return{names.suffix}", item.ptx_line))
        if frees:
            into.body.append(self.make(item, "stackrestore", (".u64",), before))
        for formal, actual in zip(callee.returns, call.returns, strict=True):
            self.fetch(_Passed(item, formal, actual), into, names)
        into.body.append(tree.Label(skip, item.ptx_line))

    def declare(self, callee: tree.Function, into: tree.Function, suffix: str) -> _Names:
        """Declare a copy's registers and variables under new names."""
        names = _Names(suffix)
        for register, type_ in callee.registers.items():
            names.aliases[register] = register + suffix
            into.registers[register + suffix] = type_
        for variable in callee.variables:
            static = variable.space in ("shared", "global", "const")  # one instance for all calls
            renamed = f"{callee.name}${variable.name}" if static else variable.name + suffix
            names.aliases[variable.name] = renamed
            if not static or renamed not in self.statics:
                into.variables.append(replace(variable, name=renamed))
            if static:
                self.statics.add(renamed)
        for item in callee.body:
            if isinstance(item, tree.Label):
                names.aliases[item.name] = item.name + suffix
        for label, targets in callee.targets.items():
            names.aliases[label] = label + suffix
            into.targets[label + suffix] = tuple(names(t) for t in targets)
        for label, prototype in callee.prototypes.items():
            names.aliases[label] = label + suffix
            into.prototypes[label + suffix] = prototype
        return names

    def bind(self, passed: _Passed, into: tree.Function, names: _Names, *, stores: bool) -> None:
        """Bind a formal parameter to its argument, or store the argument's value in it."""
        item, formal, actual = passed
        if isinstance(formal, tree.Register):
            if stores:
                type_ = into.registers[names(formal.name)]
                source = self.loaded(item, actual, type_, into)
                into.body.append(self.make(item, "mov", (type_,), tree.Register(names(formal.name)), source))
            return
        if isinstance(actual, tree.Symbol):
            names.aliases[formal.name] = actual.name
            return
        fresh = formal.name + names.suffix
        names.aliases[formal.name] = fresh
        into.variables.append(replace(formal, name=fresh))
        if stores:
            into.body.append(self.make(item, "st", (".param", formal.type), tree.Address(tree.Symbol(fresh)), actual))

    def loaded(self, item: tree.Instruction, actual: tree.Operand, type_: str, into: tree.Function) -> tree.Operand:
        """An actual argument's value: a `.param` variable is loaded first."""
        if not isinstance(actual, tree.Symbol):
            return actual
        self.copies += 1
        name = f"%argument${self.copies}"
        into.registers[name] = type_
        address = tree.Address(actual)
        into.body.append(self.make(item, "ld", (".param", type_), tree.Register(name), address))
        return tree.Register(name)

    def fetch(self, passed: _Passed, into: tree.Function, names: _Names) -> None:
        """After the callee's body: move a result to the call's operand."""
        item, formal, actual = passed
        if isinstance(formal, tree.Register):
            type_ = into.registers[names(formal.name)]
            source = tree.Register(names(formal.name))
            if isinstance(actual, tree.Symbol):
                into.body.append(self.make(item, "st", (".param", type_), tree.Address(actual), source))
            else:
                into.body.append(self.make(item, "mov", (type_,), actual, source))
        elif not isinstance(actual, tree.Symbol):
            address = tree.Address(tree.Symbol(names(formal.name)))
            into.body.append(self.make(item, "ld", (".param", formal.type), actual, address))

    @staticmethod
    def make(
        item: tree.Instruction,
        opcode: str,
        modifiers: tuple[str, ...],
        *operands: tree.Operand,
        guard: tree.Guard | None = None,
    ) -> tree.Instruction:
        """An instruction with the location of a call."""
        return tree.Instruction(opcode, modifiers, operands, item.ptx_line, guard, item.location)
