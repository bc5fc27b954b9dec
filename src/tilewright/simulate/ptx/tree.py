"""The syntax tree of a PTX module: plain data, no behaviour.

Source: PTX ISA, chapters 4 (Syntax), 5 (State Spaces, Types, and Variables), 7 (Abstracting the ABI) and
11 (Directives).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A register operand, `%r1`; also special registers (`%tid.x`) and the sink `_`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. Floats keep their bits: `0f3F800000` has kind "f32" and value 0x3F800000, `0d...` kind "f64".

    kind is "int", "f32" or "f64"; a decimal literal such as `1.5` has kind "f64" and its double's bits.
    """

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or function, plus a byte offset: `smem+16`. A bare name.

    In initialisers only: `generic` marks `generic(name)`, and a `mask` such as 0xFF00 marks `0xFF00(name)`, which
    selects the address bits under the mask, shifted down to bit 0.
    """

    name: str
    offset: int = 0
    generic: bool = False
    mask: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; base is a Register, a Symbol, or None for an absolute address.

    The offset of a Symbol is here, not in the symbol. `coordinates` are those of `[tensor, {x, y}]`.
    """

    base: Register | Symbol | None
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}` or `{a, b, c, d}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p`: a predicate operand read negated."""

    operand: Register


@dataclass(frozen=True, slots=True)
class Selected:
    """`%r1.b0`, `-%r1.h1`: a part of a register, or its negative. In a destination: the part that is written."""

    operand: Register
    part: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """`%r|%p` or `%p|%q`: two destinations, as in setp, shfl.sync and match.all."""

    first: Register
    second: Register


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The pieces of a call: `call (ret), target, (args), prototype;`.

    Names are .param variables, registers, or immediates; target is a Symbol or, for an indirect call, a Register;
    prototype a label or None.
    """

    returns: tuple[Operand, ...]
    target: Symbol | Register
    arguments: tuple[Operand, ...]
    prototype: str | None = None


Operand = Register | Immediate | Symbol | Address | Vector | Negated | Selected | Pair | CallArguments


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Location:
    """A `.loc` in force: index into Module.files, line and column (from 1; line 0 means none).

    `inlined_at` is the place of the inlined call; None where nothing was inlined.
    """

    file: int
    line: int
    column: int = 0
    inlined_at: Location | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    `opcode` is the part before the first dot, `modifiers` the dotted parts with their dots: `ld.global.v2.f32`
    is ("ld", (".global", ".v2", ".f32")). `::` stays inside a modifier (`.L1::evict_last`).
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    ptx_line: int
    guard: Guard | None = None
    location: Location | None = None

    @property
    def name(self) -> str:
        """The full dotted name, `ld.global.v2.f32`."""
        return self.opcode + "".join(self.modifiers)


@dataclass(frozen=True, slots=True)
class Label:
    """A label; names are unique in a function (scoped labels are renamed by the parser)."""

    name: str
    ptx_line: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space (not a register), or a parameter.

    `count` is the number of elements (1 for a scalar, the product of the dimensions, 0 for an unsized extern
    array). `vector` is 1, 2 or 4. `initial` holds the initialiser as items: int (element value, bits), or Symbol
    (an address); shorter than count means the rest is zero. A vector's components are items of their own.
    """

    name: str
    space: str  # "global", "shared", "const", "local", "param"
    type: str  # ".b8", ".f32" ...
    count: int = 1
    vector: int = 1
    align: int = 0
    initial: tuple[int | Symbol, ...] = ()
    linkage: str = ""  # "visible", "extern", "weak", "common", or "" if private to its module
    ptx_line: int = 0
    is_pointer: bool = False  # a parameter that is marked `.ptr`

    @property
    def is_extern(self) -> bool:
        """Whether another module defines it."""
        return self.linkage == "extern"

    @property
    def alignment(self) -> int:
        """Bytes it is aligned to: the declared number, but at least an element's size, up to 16.

        Source: PTX ISA, 5.4.5 (Alignment), whose default is an element's size.
        """
        return max(self.align, min(self.element_bytes, 16))

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, vector included."""
        bits = 1
        for number in re.findall(r"\d+", self.type):  # ".b32" -> 32, ".f16x2" -> 16 * 2
            bits *= int(number)
        return max(1, bits // 8) * self.vector

    @property
    def size(self) -> int:
        """Bytes of the whole variable."""
        return self.element_bytes * self.count


@dataclass(slots=True)
class Function:
    """A kernel (`.entry`) or device function (`.func`)."""

    name: str
    is_entry: bool
    params: tuple[Variable | Register, ...] = ()
    returns: tuple[Variable | Register, ...] = ()
    body: list[Instruction | Label] = field(default_factory=list)
    #: register name -> type (".b32", ".pred" ...); scoped registers are renamed to be unique
    registers: dict[str, str] = field(default_factory=dict)
    #: variables declared inside the body (.local, .shared, .param, ...), renamed where scoped
    variables: list[Variable] = field(default_factory=list)
    #: `.branchtargets` and `.calltargets` lists by their label
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: `.callprototype` by its label: (returns, params)
    prototypes: dict[str, tuple[tuple[Variable | Register, ...], tuple[Variable | Register, ...]]] = field(
        default_factory=dict
    )
    #: performance directives: ".maxntid": (256, 1, 1) ...
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    is_declaration: bool = False
    linkage: str = ""  # as a variable's
    ptx_line: int = 0
    #: vector parameters in registers: name -> elements; `params` and `returns` have their `name$x`, `name$y` ...
    vectors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A parsed PTX module."""

    version: tuple[int, int]
    target: str  # "sm_90"
    address_size: int
    functions: dict[str, Function] = field(default_factory=dict)
    #: module-scope .global, .const, .shared variables by name
    variables: dict[str, Variable] = field(default_factory=dict)
    #: `.file` index -> path
    files: dict[int, str] = field(default_factory=dict)
    path: str = "kernel.ptx"
    #: files of Tilewright's own definitions, added to those of the text
    added: frozenset[str] = frozenset()
    debug: bool = False  #: a build for the debugger, which has every local array in memory

    @property
    def entries(self) -> list[Function]:
        """The kernels, in order of appearance."""
        return [f for f in self.functions.values() if f.is_entry and not f.is_declaration]
