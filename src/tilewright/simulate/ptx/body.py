"""The statements of one function body: instructions, labels, declarations and blocks.

Source: PTX ISA, sections 4.3 (statements), 9.3 (guards) and 11.5 (.loc, .pragma).
"""

from __future__ import annotations

from tilewright.simulate.ptx import declarations, moved
from tilewright.simulate.ptx.frames import Inlining
from tilewright.simulate.ptx.names import COMPONENTS, Names, labels_by_block
from tilewright.simulate.ptx.operands import Operands
from tilewright.simulate.ptx.tokens import Tokens
from tilewright.simulate.ptx.tree import (
    Function,
    Guard,
    Instruction,
    Label,
    Location,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
)

Parameters = tuple[Variable | Register, ...]
_DEEPEST = 256  # nesting of blocks


class Body:
    """Parses one function's body into the function."""

    def __init__(self, tokens: Tokens, function: Function, module: Module) -> None:
        self.tokens = tokens
        self.function = function
        self.names = Names(tokens, function.registers, module.variables, module.functions)
        self._operands = Operands(tokens, self.names, function, module)
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._location: Location | None = None
        self._inlining = Inlining()
        self._moved: set[int] = set()  # indices of instructions at line 0
        self._is_moved = False

    def parse(self) -> None:
        """Parse from the opening to the closing brace."""
        tokens, body = self.tokens, self.function.body
        texts = tokens.texts
        for parameter in (*self.function.returns, *self.function.params):
            if isinstance(parameter, Register):
                whole, _, component = parameter.name.rpartition("$")
                elements = self.function.vectors.get(whole, 1)
                if elements == 1 or component == COMPONENTS[0]:  # a vector's first element declares the others
                    name = parameter.name if elements == 1 else whole
                    self.names.register(name, self.function.registers[parameter.name], elements)
            elif parameter.name != "_":
                self.names.keep(parameter.name)
        labels = labels_by_block(texts, tokens.at)
        outermost = self.names.depth
        while True:
            text = texts[tokens.at]
            if text == "{":
                if self.names.depth > _DEEPEST:
                    tokens.error(f"blocks nested more than {_DEEPEST} deep")
                self.names.open(labels.get(tokens.at, []))
                tokens.at += 1
            elif text == "}":
                self.names.close()
                tokens.at += 1
                if self.names.depth == outermost:
                    moved.placed(body, self._moved)
                    return
            elif text[:1] == ".":
                self._directive(text)
            elif text and texts[tokens.at + 1] == ":":
                self._label()
            else:
                if self._is_moved:
                    self._moved.add(len(body))
                body.append(self._instruction())

    # -- statements -------------------------------------------------------------------------------------------

    def _instruction(self) -> Instruction:
        tokens = self.tokens
        texts = tokens.texts
        line = tokens.line()
        guard = None
        if tokens.accept("@"):
            negated = tokens.accept("!")
            guard = Guard(self._operands.register("a predicate register"), negated)
        text = texts[tokens.at]
        if not tokens.is_word() or text[0] in "%$_":
            tokens.fail("an instruction, a directive, a label or '}'" if guard is None else "an instruction")
        tokens.at += 1
        while texts[tokens.at][:1] == ".":  # modifiers after white space: `ld .global .f32`
            text += tokens.take()
        known = self._opcodes.get(text)
        if known is None:
            opcode, *parts = text.split(".")
            known = self._opcodes[text] = (opcode, tuple("." + part for part in parts))
        operands: tuple[Operand, ...] = ()
        if texts[tokens.at] != ";" or known[0] == "call":  # a call has at least the function's name
            operands = self._operands.of(known[0])
        if not tokens.accept(";"):
            tokens.fail(f"',' or ';' in the operands of '{text}'")
        return Instruction(*known, operands, line, guard, self._location)

    def _label(self) -> None:
        """A label, or the label of a list of targets or of a prototype."""
        tokens = self.tokens
        line = tokens.line()
        found = self.names.resolve(tokens.name("a label"))
        tokens.expect(":")
        assert isinstance(found, Symbol), "labels are declared when their block is entered"
        text = tokens.texts[tokens.at]
        if text in {".branchtargets", ".calltargets"}:
            tokens.at += 1
            self.function.targets[found.name] = self._target_list()
        elif text == ".callprototype":
            tokens.at += 1
            self.function.prototypes[found.name] = prototype(tokens)
        else:
            self.function.body.append(Label(found.name, line))

    def _target_list(self) -> tuple[str, ...]:
        tokens = self.tokens
        found: list[str] = []
        while True:
            at = tokens.at
            symbol = self.names.resolve(tokens.name("a label or a function"))
            if not isinstance(symbol, Symbol):
                tokens.fail("a label or a function", at)
            found.append(symbol.name)
            if not tokens.accept(","):
                break
        tokens.expect(";", "after a list of targets")
        return tuple(found)

    def _directive(self, text: str) -> None:
        tokens = self.tokens
        if text == ".loc":
            self._is_moved = tokens.texts[tokens.at + 2] == "0"
            self._location = location(tokens, self._inlining)
        elif text == ".reg":
            self._registers()
        elif text == ".pragma":
            pragma(tokens)
        elif text in declarations.SPACES or text in declarations.LINKAGE:
            linkage = declarations.linkage(tokens)
            text = tokens.texts[tokens.at]
            if text not in declarations.SPACES:
                tokens.fail("a state space such as .shared")
            tokens.at += 1
            for variable in declarations.variables(tokens, declarations.SPACES[text], self.names.resolve, linkage):
                unique = self.names.declare(variable.name)
                self.function.variables.append(declarations.renamed(variable, unique))
        else:
            tokens.fail("an instruction, a declaration, .loc or .pragma")

    def _registers(self) -> None:
        """`.reg .v2 .b32 a, %r<10>;`."""
        tokens = self.tokens
        tokens.at += 1
        spec = declarations.specification(tokens)
        while True:
            name = tokens.name("a register's name")
            if tokens.accept("<"):
                self.names.register_range(name, declarations.count(tokens), spec.type, spec.vector)
            else:
                self.names.register(name, spec.type, spec.vector)
            if not tokens.accept(","):
                break
        tokens.expect(";", "after a declaration of registers")


def location(tokens: Tokens, inlining: Inlining) -> Location:
    """`.loc 1 6 0, function_name $L_info, inlined_at 1 20 3`."""
    tokens.at += 1
    here, inlined_at = _coordinates(tokens), None
    while tokens.texts[tokens.at] == ",":
        tokens.at += 1
        text = tokens.take()
        if text == "function_name":
            tokens.name("a label")
            if tokens.texts[tokens.at] in {"+", "-"}:
                tokens.at += 1
                _plain(tokens, "an offset")
        elif text == "inlined_at":
            inlined_at = _coordinates(tokens)
        else:
            tokens.fail("function_name or inlined_at", tokens.at - 1)
    return inlining.located(here, inlined_at)


def _coordinates(tokens: Tokens) -> tuple[int, int, int]:
    return _plain(tokens, "a file's index"), _plain(tokens, "a line"), _plain(tokens, "a column")


def _plain(tokens: Tokens, what: str) -> int:
    text = tokens.texts[tokens.at]
    if not text.isdigit() or len(text) > 18:
        tokens.fail(what)
    tokens.at += 1
    return int(text)


def pragma(tokens: Tokens) -> None:
    """`.pragma "nounroll";`: advice to a compiler, skipped."""
    tokens.at += 1
    tokens.string("a string after .pragma")
    while tokens.accept(","):
        tokens.string("a string after .pragma")
    tokens.expect(";", "after .pragma")


def prototype(tokens: Tokens) -> tuple[Parameters, Parameters]:
    """`.callprototype (returns) _ (params);`, the cursor is after the directive's name."""
    returns: Parameters = ()
    params: Parameters = ()
    if tokens.texts[tokens.at] == "(":
        returns = registers_of(declarations.parameters(tokens))
    tokens.name("'_'")
    if tokens.texts[tokens.at] == "(":
        params = registers_of(declarations.parameters(tokens))
    while tokens.texts[tokens.at][:1] == ".":  # .noreturn, .abi_preserve 8
        tokens.at += 1
        if tokens.texts[tokens.at].isdigit():
            tokens.at += 1
    tokens.expect(";", "after a prototype")
    return returns, params


def registers_of(parameters: tuple[Variable, ...]) -> Parameters:
    """Parameters as the tree has them: a register by its name, a vector as its elements."""
    found: list[Variable | Register] = []
    for parameter in parameters:
        found += map(Register, register_names(parameter)) if parameter.space == "reg" else [parameter]
    return tuple(found)


def register_names(parameter: Variable) -> list[str]:
    """The names of the registers of a parameter that is passed in registers."""
    if parameter.vector == 1:
        return [parameter.name]
    return [f"{parameter.name}${component}" for component in COMPONENTS[: parameter.vector]]
