"""The statements of one function body: instructions, labels, declarations and blocks.

The parser knows no instruction but `call`, whose operands alone are grouped by parentheses.

Source: PTX ISA, sections 4.3 (statements), 6.4 (operands), 9.3 (guards) and 11.5 (.loc, .pragma).
"""

from __future__ import annotations

from tilewright.simt.ptx import declarations
from tilewright.simt.ptx.constants import expression, integer
from tilewright.simt.ptx.names import Names, labels_by_block
from tilewright.simt.ptx.tokens import Tokens
from tilewright.simt.ptx.tree import (
    Address,
    CallArguments,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

Parameters = tuple[Variable | Register, ...]
_DEEPEST = 256  # nesting of blocks
_WIDEST = 256  # operands in braces; tcgen05.ld has 128


class Body:
    """Parses one function's body into the function."""

    def __init__(self, tokens: Tokens, function: Function, module: Module) -> None:
        self.tokens = tokens
        self.function = function
        self.names = Names(tokens, function.registers, module.variables, module.functions)
        self._variables = module.variables
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._numbers: dict[str, Immediate] = {}
        self._location: Location | None = None

    def parse(self) -> None:
        """Parse from the opening to the closing brace."""
        tokens, body = self.tokens, self.function.body
        texts = tokens.texts
        for parameter in (*self.function.returns, *self.function.params):
            if isinstance(parameter, Register):
                self.names.register(parameter.name, self.function.registers[parameter.name], 1)
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
                    return
            elif text[:1] == ".":
                self._directive(text)
            elif text and texts[tokens.at + 1] == ":":
                self._label()
            else:
                body.append(self._instruction())

    # -- statements -------------------------------------------------------------------------------------------

    def _instruction(self) -> Instruction:
        tokens = self.tokens
        texts = tokens.texts
        line = tokens.line()
        guard = None
        if tokens.accept("@"):
            negated = tokens.accept("!")
            guard = Guard(self._register("a predicate register"), negated)
        text = texts[tokens.at]
        if not tokens.is_word() or text[0] in "%$_":
            tokens.fail("an instruction, a directive, a label or '}'" if guard is None else "an instruction")
        tokens.at += 1
        while texts[tokens.at][:1] == ".":  # modifiers that stand apart: `ld .global .f32`
            text += tokens.take()
        known = self._opcodes.get(text)
        if known is None:
            opcode, *parts = text.split(".")
            known = self._opcodes[text] = (opcode, tuple("." + part for part in parts))
        operands: tuple[Operand, ...] = ()
        if texts[tokens.at] != ";":
            operands = (self._call(),) if known[0] == "call" else self._operands(known[0])
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
            self._location = location(tokens)
        elif text == ".reg":
            self._registers()
        elif text == ".pragma":
            pragma(tokens)
        elif text in declarations.SPACES or text in declarations.LINKAGE:
            is_extern = False
            while (text := tokens.texts[tokens.at]) in declarations.LINKAGE:
                is_extern |= text == ".extern"
                tokens.at += 1
            if text not in declarations.SPACES:
                tokens.fail("a state space such as .shared")
            tokens.at += 1
            for variable in declarations.variables(tokens, declarations.SPACES[text], self.names.resolve, is_extern):
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

    # -- operands ---------------------------------------------------------------------------------------------

    def _operands(self, opcode: str) -> tuple[Operand, ...]:
        """Operands up to the semicolon."""
        tokens = self.tokens
        found = [self.operand()]
        while tokens.accept(","):
            found.append(self.operand())
        if opcode == "mov":  # `mov.u64 %rd1, table[3]` takes the element's address; elsewhere it is the element
            found = [
                Symbol(o.base.name, o.offset) if isinstance(o, Address) and isinstance(o.base, Symbol) else o
                for o in found
            ]
        return tuple(found)

    def operand(self) -> Operand:
        """One operand."""
        tokens = self.tokens
        text = tokens.texts[tokens.at]
        first = text[:1]
        if first == "[":
            return self._address()
        if first == "{":
            return self._vector()
        if first == "!" and tokens.texts[tokens.at + 1][:1] not in "(0123456789":
            tokens.at += 1
            return Negated(self._register("a predicate register"))
        if tokens.is_word() and text != "WARP_SZ":
            return self._named()
        return self._immediate()

    def _immediate(self) -> Immediate:
        """A constant expression; plain literals, the usual case, are remembered."""
        tokens = self.tokens
        text = tokens.texts[tokens.at]
        plain = tokens.texts[tokens.at + 1] in _ENDS
        if plain and text in self._numbers:
            tokens.at += 1
            return self._numbers[text]
        value = expression(tokens)
        if plain:
            self._numbers[text] = value
        return value

    def _named(self) -> Operand:
        """A register, a pair of registers, a symbol, or a symbol with an offset."""
        tokens = self.tokens
        word = tokens.texts[tokens.at]
        if tokens.texts[tokens.at + 1] in _COMPONENTS:  # `%tid .x`
            tokens.at += 1
            word += tokens.texts[tokens.at]
        found = self.names.resolve(word)
        tokens.at += 1
        following = tokens.texts[tokens.at]
        if following == "|":
            if not isinstance(found, Register):
                tokens.fail("a register on the left of '|'", tokens.at - 1)
            tokens.at += 1
            return Pair(found, self._register("a register"))
        if following in {"+", "-"}:
            if not isinstance(found, Symbol):
                tokens.fail("',' or ';' (only an address takes an offset)")
            return Symbol(found.name, self._offset())
        if following == "[" and isinstance(found, Symbol):
            return self._element(found)
        return found

    def _element(self, array: Symbol) -> Address:
        """`table[3]`, an element of a variable by its index."""
        tokens = self.tokens
        declared = [v for v in (*self.function.variables, *self.function.params) if v.name == array.name]
        variable = declared[0] if declared else self._variables.get(array.name)
        if not isinstance(variable, Variable):
            tokens.error(f"only a variable can be indexed (got '{array.name}')", tokens.at - 1)
        tokens.at += 1
        if tokens.is_word() and tokens.texts[tokens.at] != "WARP_SZ":
            tokens.fail("a constant index (compute the address where the index is a register)")
        index = integer(tokens, "an index, an integer constant")
        tokens.expect("]", "after an index")
        return Address(array, index * variable.element_bytes)

    def _register(self, what: str) -> Register:
        tokens = self.tokens
        if not tokens.is_word():
            tokens.fail(what)
        found = self.names.resolve(tokens.texts[tokens.at])
        if not isinstance(found, Register):
            tokens.fail(what)
        tokens.at += 1
        return found

    def _offset(self) -> int:
        """`+4`, `-4`, `+-4`; several are added up."""
        tokens = self.tokens
        total = 0
        while tokens.texts[tokens.at] in {"+", "-"}:
            sign = 1 if tokens.take() == "+" else -1
            total += sign * integer(tokens, "an offset, an integer constant")
        return total

    def _address(self) -> Address:
        """`[base]`, `[base+4]`, `[64]`, `[tensor, {x, y}]`."""
        tokens = self.tokens
        tokens.at += 1
        base: Register | Symbol | None = None
        if tokens.is_word() and tokens.texts[tokens.at] != "WARP_SZ":
            found = self.names.resolve(tokens.texts[tokens.at])
            if not isinstance(found, Register | Symbol):
                tokens.fail("a register, a variable or an integer as address")
            base = found
            tokens.at += 1
            offset = self._offset()
        else:
            offset = integer(tokens, "a register, a variable or an integer as address")
        coordinates: list[Operand] = []
        while tokens.accept(","):
            coordinates.append(self.operand())
        tokens.expect("]", "after an address")
        return Address(base, offset, tuple(coordinates))

    def _vector(self) -> Vector:
        tokens = self.tokens
        tokens.at += 1
        items: list[Operand] = []
        while True:
            if tokens.texts[tokens.at] in {"{", "["}:
                tokens.fail("a register or a constant inside braces")
            items.append(self.operand())
            if len(items) > _WIDEST:
                tokens.error(f"braces hold at most {_WIDEST} operands")
            if not tokens.accept(","):
                break
        tokens.expect("}", "after a vector operand")
        return Vector(tuple(items))

    def _call(self) -> CallArguments:
        """`(ret), target, (args), prototype`."""
        tokens = self.tokens
        returns: tuple[Operand, ...] = ()
        if tokens.texts[tokens.at] == "(":
            returns = self._group()
            tokens.expect(",", "after the return values of a call")
        at = tokens.at
        target = self.operand()
        if not isinstance(target, Symbol | Register):
            tokens.fail("the function to call", at)
        arguments: tuple[Operand, ...] = ()
        prototype_label = None
        if tokens.accept(","):
            if tokens.texts[tokens.at] == "(":
                arguments = self._group()
                if tokens.accept(","):
                    prototype_label = self._prototype_label()
            else:
                prototype_label = self._prototype_label()
        return CallArguments(returns, target, arguments, prototype_label)

    def _group(self) -> tuple[Operand, ...]:
        """Operands in parentheses."""
        tokens = self.tokens
        tokens.at += 1
        found: list[Operand] = []
        while not tokens.accept(")"):
            found.append(self.operand())
            if not tokens.accept(",") and tokens.texts[tokens.at] != ")":
                tokens.fail("',' or ')' in the arguments of a call")
        return tuple(found)

    def _prototype_label(self) -> str:
        at = self.tokens.at
        found = self.names.resolve(self.tokens.name("the label of a prototype or of call targets"))
        if not isinstance(found, Symbol):
            self.tokens.fail("the label of a prototype or of call targets", at)
        return found.name


_COMPONENTS = frozenset("." + name for name in "xyzwrgba")
_ENDS = frozenset({",", ";", "}", ")", "]"})


def location(tokens: Tokens) -> Location:
    """`.loc 1 6 0, function_name $L_info, inlined_at 1 20 3`: where the code was inlined from is what counts."""
    tokens.at += 1
    file, line, column = (_plain(tokens, what) for what in ("a file's index", "a line", "a column"))
    while tokens.texts[tokens.at] == ",":
        tokens.at += 1
        text = tokens.take()
        if text == "function_name":
            tokens.name("a label")
            if tokens.texts[tokens.at] in {"+", "-"}:
                tokens.at += 1
                _plain(tokens, "an offset")
        elif text == "inlined_at":
            for what in ("a file's index", "a line", "a column"):
                _plain(tokens, what)
        else:
            tokens.fail("function_name or inlined_at", tokens.at - 1)
    return Location(file, line, column)


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
    """`.callprototype (returns) _ (params);`, the cursor behind the directive's name."""
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
    """Parameters as the tree holds them: those in registers by name alone."""
    return tuple(Register(p.name) if p.space == "reg" else p for p in parameters)
