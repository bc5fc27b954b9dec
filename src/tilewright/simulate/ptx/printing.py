"""A syntax tree as PTX text; parsing that text gives the same tree but for line numbers and `debug`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.frames import quoted

#: The label that `function_name` of inlined code must name. Its text is empty, because nothing reads it.
_NAMELESS = "$L__inlined"


def to_text(module: tree.Module) -> str:
    """A module as PTX text.

    >>> from tilewright.simulate.ptx import parse
    >>> print(to_text(parse(".version 8.0 .target sm_90 .address_size 64 .global .u32 x=1+2;")))
    .version 8.0
    .target sm_90
    .address_size 64
    .global .u32 x = 3;
    <BLANKLINE>
    """
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {module.target}",  # without `debug`: the assembler would miss the sections of debug information
        f".address_size {module.address_size}",
    ]
    lines += [f'.file {index} "{quoted(name)}"' for index, name in module.files.items()]
    # Device functions come first: variables and kernels may name any of them.
    functions = sorted(module.functions.values(), key=lambda function: function.is_entry)
    lines += [_header(function) + ";" for function in functions if not function.is_entry or function.is_declaration]
    lines += [declaration(variable) for variable in module.variables.values()]
    for function in functions:
        if not function.is_declaration:
            lines += _function(function)
    if any(_NAMELESS in line for line in lines):
        lines.append(f".section .debug_str {{ {_NAMELESS}: .b8 0 }}")
    return "\n".join(lines) + "\n"


def of_version(text: str, version: str) -> str:
    """The text of a module with another version of PTX in its header.

    >>> of_version(".version 9.3 .target sm_100a", "9.0")
    '.version 9.0 .target sm_100a'
    """
    return re.sub(r"(\.version\s+)[\d.]+", rf"\g<1>{version}", text, count=1)


def declaration(variable: tree.Variable) -> str:
    """A variable's declaration, with its semicolon."""
    text = f"{_linkage(variable)}.{variable.space} {_specified(variable)}"
    if variable.initial:
        values = ", ".join(_initial(item, variable.type) for item in variable.initial)
        text += f" = {{{values}}}" if variable.count * variable.vector > 1 else f" = {values}"
    return text + ";"


def instruction_text(instruction: tree.Instruction) -> str:
    """One instruction, with its guard and semicolon."""
    guard = instruction.guard
    before = "" if guard is None else f"@{'!' if guard.negated else ''}{guard.register.name} "
    operands = ", ".join(operand_text(operand) for operand in instruction.operands)
    return f"{before}{instruction.name}{' ' if operands else ''}{operands};"


def operand_text(operand: tree.Operand) -> str:
    """One operand as PTX writes it."""
    match operand:
        case tree.Register(name):
            text = name
        case tree.Immediate(value, kind):
            text = str(value) if kind == "int" else f"0f{value:08X}" if kind == "f32" else f"0d{value:016X}"
        case tree.Symbol():
            text = operand.name + _offset(operand.offset)
        case tree.Address(base, offset, coordinates):
            inside = str(offset) if base is None else operand_text(base) + _offset(offset)
            text = "[" + ", ".join([inside, *map(operand_text, coordinates)]) + "]"
        case tree.Vector(items):
            text = "{" + ", ".join(map(operand_text, items)) + "}"
        case tree.Negated(register):
            text = "!" + register.name
        case tree.Selected(register, part, negated):
            text = "-" * negated + register.name + ("." + part if part else "")
        case tree.Pair(first, second):
            text = f"{first.name}|{second.name}"
        case tree.CallArguments():
            text = _call(operand)
    return text


def _call(call: tree.CallArguments) -> str:
    parts = [operand_text(call.target)]
    if call.returns:
        parts.insert(0, f"({', '.join(map(operand_text, call.returns))})")
    if call.arguments or call.prototype:
        parts.append(f"({', '.join(map(operand_text, call.arguments))})")
    if call.prototype:
        parts.append(call.prototype)
    return ", ".join(parts)


def _offset(offset: int) -> str:
    return f"+{offset}" if offset else ""  # `+-4`: the vendor's assembler accepts no other minus


def _initial(item: int | tree.Symbol, type_: str) -> str:
    if isinstance(item, int):
        kind = {".f32": "f32", ".f64": "f64"}.get(type_, "int")
        return operand_text(tree.Immediate(item, kind))
    text = f"generic({item.name})" if item.generic else item.name
    text += _offset(item.offset)
    return f"{item.mask:#x}({text})" if item.mask else text


def _specified(variable: tree.Variable) -> str:
    """The part of a declaration between its state space and its initialiser."""
    parts = []
    if variable.align:
        parts.append(f".align {variable.align}")
    if variable.vector > 1:
        parts.append(f".v{variable.vector}")
    parts.append(variable.type + " .ptr" * variable.is_pointer)
    size = "" if variable.count == 1 else "[]" if variable.count == 0 else f"[{variable.count}]"
    return " ".join(parts) + f" {variable.name}{size}"


def _parameters(parameters: Iterable[tree.Variable | tree.Register], registers: dict[str, str]) -> str:
    return ", ".join(
        f".reg {registers.get(p.name, '.b32')} {p.name}" if isinstance(p, tree.Register) else f".param {_specified(p)}"
        for p in parameters
    )


def _linkage(declared: tree.Function | tree.Variable) -> str:
    return f".{declared.linkage} " if declared.linkage else ""


def _header(function: tree.Function) -> str:
    text = _linkage(function) + (".entry " if function.is_entry else ".func ")
    if function.returns:
        text += f"({_parameters(function.returns, function.registers)}) "
    text += f"{function.name}({_parameters(function.params, function.registers)})"
    for directive, values in function.directives.items():
        text += " " + " ".join([directive, ", ".join(map(str, values))]).strip()
    return text


def _function(function: tree.Function) -> Iterator[str]:
    """A definition, line by line."""
    yield _header(function)
    yield "{"
    own = {p.name for p in (*function.params, *function.returns)}
    for name, type_ in function.registers.items():
        if name not in own:
            yield f"    .reg {type_} {name};"
    for variable in function.variables:
        yield "    " + declaration(variable)
    for label, names in function.targets.items():
        kind = ".branchtargets" if _labels(function) >= set(names) else ".calltargets"
        yield f"{label}: {kind} {', '.join(names)};"
    for label, (returns, params) in function.prototypes.items():
        before = f"({_parameters(returns, {})}) " if returns else ""
        yield f"{label}: .callprototype {before}_ ({_parameters(params, {})});"
    location: tree.Location | None = None
    last: dict[tuple[int, int, int], tree.Location] = {}
    for item in function.body:
        if isinstance(item, tree.Label):
            yield f"{item.name}:"
            continue
        if item.location != location and item.location is not None:
            yield from _locations(item.location, last)
            location = item.location
        yield "    " + instruction_text(item)
    yield "}"


def _locations(location: tree.Location, last: dict[tuple[int, int, int], tree.Location]) -> Iterator[str]:
    """A `.loc`, after those of its call sites that differ from the last `.loc` there."""
    text = f"    .loc {location.file} {location.line} {location.column}"
    at = location.inlined_at
    if at is not None:
        if last.get((at.file, at.line, at.column)) != at:
            yield from _locations(at, last)
        text += f", function_name {_NAMELESS}, inlined_at {at.file} {at.line} {at.column}"
    last[location.file, location.line, location.column] = location
    yield text


def _labels(function: tree.Function) -> set[str]:
    return {item.name for item in function.body if isinstance(item, tree.Label)}
