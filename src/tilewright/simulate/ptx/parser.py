"""PTX text to a syntax tree: the module's directives and its functions' headers.

Source: PTX ISA, chapter 11 (directives).
"""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.simulate.ptx import declarations
from tilewright.simulate.ptx.body import Body, location, pragma, register_names, registers_of
from tilewright.simulate.ptx.constants import expression
from tilewright.simulate.ptx.frames import Inlining, file_name
from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import Function, Module, Register, Symbol, Variable


def parse(text: str, path: str = "kernel.ptx") -> Module:
    """Parse a PTX module.

    Reads all that the PTX ISA's grammar allows, whether or not the machine can run it. Error messages name `path`.

    Raises PtxError: The text is not PTX. The message says where, what was expected, and what came.

    >>> module = parse('''
    ... .version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry twice(.param .u64 out) {
    ...     .reg .b32 %r<2>;
    ...     mov.u32 %r1, %tid.x;
    ...     add.s32 %r1, %r1, %r1;
    ...     ret;
    ... }''')
    >>> [instruction.name for instruction in module.functions["twice"].body]
    ['mov.u32', 'add.s32', 'ret']
    """
    return _Parser(Tokens(text, path)).module()


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._module = Module((0, 0), "", 0, path=tokens.path)
        self._aliases: list[tuple[str, str, int]] = []

    def module(self) -> Module:
        """Parse everything."""
        self._header()
        while self.tokens.texts[self.tokens.at]:
            self._directive()
        for alias, target, at in self._aliases:
            function = self._module.functions.get(target)
            if function is None or function.is_declaration:
                self.tokens.error(f".alias needs a function defined in this module (got '{target}')", at)
            self._module.functions[alias] = replace(function, name=alias)
        return self._module

    def _header(self) -> None:
        """`.version`, `.target` and `.address_size`, in this order."""
        tokens, module = self.tokens, self._module
        tokens.expect(".version", "at the start of a module")
        match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", tokens.texts[tokens.at])
        if match is None:
            tokens.fail("a version such as 8.0")
        tokens.at += 1
        module.version = (int(match[1]), int(match[2]))
        tokens.expect(".target", "after .version")
        targets = [tokens.name("a target such as sm_90")]
        while tokens.accept(","):
            targets.append(tokens.name("a target such as sm_90"))
        module.target = next((target for target in targets if target.startswith("sm_")), targets[0])
        module.debug, module.address_size = "debug" in targets, 64
        if tokens.accept(".address_size"):
            size = tokens.take()
            if size not in {"32", "64"}:
                tokens.fail("32 or 64", tokens.at - 1)
            module.address_size = int(size)

    def _directive(self) -> None:
        """One directive at module scope."""
        tokens = self.tokens
        text = tokens.texts[tokens.at]
        if text in {".version", ".target", ".address_size"}:
            tokens.error(f"{text} must be given once, at the start of a module; use a linker to join modules")
        if text == ".file":
            self._file()
        elif text == ".loc":
            location(tokens, Inlining())
        elif text == ".pragma":
            pragma(tokens)
        elif text == ".section":
            self._section()
        elif text == ".alias":
            self._alias()
        else:
            self._definition()

    def _file(self) -> None:
        """`.file 1 "name", 1700000000, 123`."""
        tokens = self.tokens
        tokens.at += 1
        index = tokens.take()
        if not index.isdigit() or len(index) > 9:
            tokens.fail("a file's index", tokens.at - 1)
        self._module.files[int(index)] = file_name(tokens.string("a file's name in quotes"))
        while tokens.accept(","):
            expression(tokens)

    def _section(self) -> None:
        """Debugging data; skipped."""
        tokens = self.tokens
        at = tokens.at
        while tokens.texts[tokens.at] not in {"{", ""}:
            tokens.at += 1
        while tokens.texts[tokens.at] != "}":
            if not tokens.take():
                tokens.error("this .section is never closed by '}'", at)
        tokens.at += 1

    def _alias(self) -> None:
        tokens = self.tokens
        at = tokens.at
        tokens.at += 1
        alias = tokens.name("the name of an alias")
        tokens.expect(",")
        self._aliases.append((alias, tokens.name("a function's name"), at))
        tokens.expect(";", "after .alias")

    def _definition(self) -> None:
        """A variable or a function, with its linkage."""
        tokens = self.tokens
        line = tokens.line()
        linkage = declarations.linkage(tokens)
        text = tokens.texts[tokens.at]
        if text in {".func", ".entry"}:
            tokens.at += 1
            self._function(text == ".entry", linkage, line)
        elif text in declarations.SPACES and text not in {".param", ".local"}:
            tokens.at += 1
            if text == ".const" and tokens.accept("["):  # a bank, in old modules
                expression(tokens)
                tokens.expect("]", "after a bank of .const")
            for variable in declarations.variables(tokens, declarations.SPACES[text], Symbol, linkage):
                self._add_variable(variable)
        else:
            tokens.fail("a directive, a variable (.global, .const, .shared) or a function (.entry, .func)")

    def _add_variable(self, variable: Variable) -> None:
        known = self._module.variables.get(variable.name)
        if variable.name in self._module.functions or (known and not known.is_extern and not variable.is_extern):
            self.tokens.error(f"'{variable.name}' is defined twice in this module", self.tokens.at - 1)
        if known is None or known.is_extern:
            self._module.variables[variable.name] = variable

    def _function(self, is_entry: bool, linkage: str, line: int) -> None:
        tokens = self.tokens
        if tokens.texts[tokens.at] == ".attribute":
            declarations.skip_parentheses(tokens)
        function = Function("", is_entry, linkage=linkage, ptx_line=line)
        if tokens.texts[tokens.at] == "(":
            if is_entry:
                tokens.fail("a kernel's name (a kernel returns nothing)")
            function.returns = self._parameters(function)
        at = tokens.at
        function.name = tokens.name("a function's name")
        if tokens.texts[tokens.at] == "(":
            function.params = self._parameters(function)
        self._attributes(function)
        self._declare(function, at)
        if tokens.accept(";"):
            return
        if tokens.texts[tokens.at] != "{":
            tokens.fail("'{' or ';' after a function's header")
        if linkage == "extern":
            tokens.error(f"'{function.name}' is .extern and cannot have a body")
        if not self._module.functions[function.name].is_declaration:
            tokens.error(f"'{function.name}' is defined twice in this module", at)
        function.is_declaration = False
        self._module.functions[function.name] = function
        Body(tokens, function, self._module).parse()

    def _declare(self, function: Function, at: int) -> None:
        """Make a function known, so that its own body can call it; a declaration does not replace a definition."""
        if function.name in self._module.variables:
            self.tokens.error(f"'{function.name}' is defined twice in this module", at)
        function.is_declaration = True
        self._module.functions.setdefault(function.name, function)

    def _parameters(self, function: Function) -> tuple[Variable | Register, ...]:
        found = declarations.parameters(self.tokens)
        for parameter in found:
            if parameter.space == "reg":
                function.registers.update(dict.fromkeys(register_names(parameter), parameter.type))
                if parameter.vector > 1:
                    function.vectors[parameter.name] = parameter.vector
        return registers_of(found)

    def _attributes(self, function: Function) -> None:
        """Performance directives: `.maxntid 256, 1, 1`, `.noreturn`, `.pragma "..."`."""
        tokens = self.tokens
        while (text := tokens.texts[tokens.at])[:1] == ".":
            if text == ".pragma":
                pragma(tokens)
                continue
            if text == ".attribute":
                declarations.skip_parentheses(tokens)
                continue
            tokens.at += 1
            values: list[int] = []
            while tokens.texts[tokens.at].isdigit() and len(tokens.texts[tokens.at]) < 12:
                values.append(int(tokens.take()))
                if not tokens.accept(","):
                    break
            function.directives[text] = tuple(values)
