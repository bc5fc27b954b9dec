"""Random kernels as trees of statements, and how a tree is written as PTX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from meanings import CLASSES, MEANINGS, WIDTHS, bits_of


@dataclass(frozen=True)
class Constant:
    """A literal by its bits, whatever its type."""

    bits: int


@dataclass(frozen=True)
class Place:
    """The place of a variable or array of a space; `mov` makes it an address."""

    name: str


Operand: TypeAlias = str | Constant | Place


@dataclass
class Op:
    """An instruction of `MEANINGS`, or `mov` of a special register or a place."""

    name: str
    results: Sequence[str]
    sources: Sequence[Operand]
    guard: str = ""


@dataclass
class Access:
    """A load or store of one, two or four registers; `add.u32` and the like as `order` make it a reduction."""

    order: str  #: "ld", "st", or the operation of a reduction
    space: str
    type_: str
    registers: Sequence[str]
    base: str  #: a register, or the name of a shared or local array
    offset: int = 0
    guard: str = ""


@dataclass
class Collective:
    """A warp instruction: the name with its type, results, sources, then the mask."""

    name: str
    results: Sequence[str]
    sources: Sequence[Operand]
    mask: Operand


@dataclass
class Barrier:
    """`bar.sync 0` of the whole block."""


@dataclass
class Jump:
    """`break`, `continue` or `leave` (the function or kernel), for lanes that the guard lets."""

    where: str
    guard: str


@dataclass
class Call:
    """A call of a function, by its place in the kernel's list."""

    function: int
    arguments: Sequence[str]
    result: str


@dataclass
class Group:
    """Statements that only make sense together, unless `loose`; nested statements may still be cut."""

    body: list[Statement]
    loose: bool = False


@dataclass
class If:
    """Two arms, by a predicate register with or without `!`."""

    guard: str
    then: list[Statement]
    otherwise: list[Statement] = field(default_factory=list)


@dataclass
class Loop:
    """A counted loop, tested at the top, at the bottom, at both (`rotated`) or before the step (`post`)."""

    counter: str
    kind: str  #: type of the comparison
    start: Operand
    step: int
    relation: str
    bound: Operand
    form: str
    predicate: str
    body: list[Statement]


Statement: TypeAlias = Op | Access | Collective | Barrier | Jump | Call | Group | If | Loop


@dataclass
class Function:
    """A device function: types of its parameters, type of its result, which ends in the register `result`."""

    parameters: Sequence[tuple[str, str]]  #: (register, type)
    result: tuple[str, str]
    body: list[Statement]


@dataclass
class Kernel:
    """The tree, and the launch that it is made for."""

    seed: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    body: list[Statement]
    functions: list[Function]
    scalars: dict[str, tuple[str, int]]  #: scalar parameters: type and bits
    outputs: list[str]  #: types of the columns of `out`
    columns: bool  #: whether `out` is column by column
    tile_bytes: int  #: shared memory
    own_bytes: int  #: local memory

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1]


#: Array parameters, with their registers; every kernel has all of them.
ARRAYS = ("inp", "rows", "cols", "acc", "out")


def literal(bits: int, type_: str) -> str:
    """A constant as the manual writes it for a type."""
    if type_ in ("f32", "f64"):
        return f"0f{bits:08X}" if type_ == "f32" else f"0d{bits:016X}"
    kind = type_.removeprefix("odd.")
    width = bits_of(kind)
    bits &= (1 << width) - 1
    return str(bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits)


def _operand(operand: Operand, type_: str) -> str:
    if isinstance(operand, Constant):
        return literal(operand.bits, type_)
    return operand.name if isinstance(operand, Place) else operand


class _Printer:
    """Lines of PTX, with labels that are used once."""

    def __init__(self, leave: str) -> None:
        self.lines: list[str] = []
        self.leave = leave
        self.labels = 0
        self.around: list[tuple[str, str]] = []  #: labels of `continue` and `break`

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            getattr(self, "_" + type(statement).__name__.lower())(statement)

    def add(self, text: str, guard: str = "") -> None:
        self.lines.append(f"  {f'@{guard} ' * bool(guard)}{text}")

    def _op(self, op: Op) -> None:
        first, _, type_ = op.name.partition(".")
        if first in ("bits", "from_bits"):
            return self._bits(op, type_, first)
        types = MEANINGS[op.name].sources if op.name in MEANINGS else [type_]
        sources = [_operand(x, t) for x, t in zip(op.sources, types, strict=True)]
        self.add(f"{op.name.rstrip('|')} {'|'.join(op.results)}, {', '.join(sources)};", op.guard)
        return None

    def _bits(self, op: Op, type_: str, first: str) -> None:
        """Conversions between bits and floats; any NaN becomes one."""
        target, source = op.results[0], _operand(op.sources[0], MEANINGS[op.name].sources[0])
        if first == "from_bits":
            return self.add(f"mov.b{bits_of(type_)} {target}, {source};", op.guard)
        size, nan = bits_of(type_), (1 << (bits_of(type_) - 1)) - 1
        self.add(f"setp.nan.{type_} %nan, {source}, {source};", op.guard)
        self.add(f"mov.b{size} {target}, {source};", op.guard)
        return self.add(f"selp.b{size} {target}, {nan}, {target}, %nan;", op.guard)

    def _access(self, access: Access) -> None:
        registers = ", ".join(access.registers)
        vector = f".v{len(access.registers)}" if len(access.registers) > 1 else ""
        registers = f"{{{registers}}}" if vector else registers
        address = f"[{access.base}{access.offset:+d}]" if access.offset else f"[{access.base}]"
        if access.order not in ("ld", "st"):
            return self.add(f"red.{access.space}.{access.order}.{access.type_} {address}, {registers};", access.guard)
        ends = (registers, address) if access.order == "ld" else (address, registers)
        space = f".{access.space}" if access.space else ""
        return self.add(f"{access.order}{space}{vector}.{access.type_} {', '.join(ends)};", access.guard)

    def _collective(self, op: Collective) -> None:
        sources = [*(_operand(x, "b32") for x in op.sources), _operand(op.mask, "b32")]
        self.add(f"{op.name} {'|'.join(op.results)}, {', '.join(sources)};")

    def _barrier(self, _: Barrier) -> None:
        self.add("bar.sync 0;")

    def _jump(self, jump: Jump) -> None:
        if jump.where == "leave":
            return self.add(self.leave, jump.guard)
        return self.add(f"bra {self.around[-1][jump.where == 'break']};", jump.guard)

    def _call(self, call: Call) -> None:
        self.add("{")
        names = []
        for i, register in enumerate(call.arguments):
            size = WIDTHS.get(register[1], 64)  # of a pool, or an array's address
            self.add(f".param .b{size} q{i}; st.param.b{size} [q{i}], {register};")
            names.append(f"q{i}")
        size = WIDTHS[call.result[1]]
        self.add(f".param .b{size} s; call (s), fn{call.function}, ({', '.join(names)});")
        self.add(f"ld.param.b{size} {call.result}, [s]; }}")

    def _group(self, group: Group) -> None:
        self.body(group.body)

    def _if(self, fork: If) -> None:
        other, end = self.label(), self.label()
        opposite = fork.guard[1:] if fork.guard[0] == "!" else "!" + fork.guard
        self.add(f"bra {other};", opposite)
        self.body(fork.then)
        if fork.otherwise:
            self.add(f"bra {end};")
        self.lines.append(f"{other}:")
        self.body(fork.otherwise)
        self.lines.append(f"{end}:")

    def _loop(self, loop: Loop) -> None:
        head, step, end = self.label(), self.label(), self.label()
        size = bits_of(loop.kind)
        test = f"setp.{loop.relation}.{loop.kind} {loop.predicate}, {loop.counter}, {_operand(loop.bound, loop.kind)};"
        self.add(f"mov.b{size} {loop.counter}, {_operand(loop.start, loop.kind)};")
        if loop.form in ("top", "rotated"):
            top = head if loop.form == "top" else self.label()
            self.lines.append(f"{top}:")
            self.add(test)
            self.add(f"bra {end};", "!" + loop.predicate)
        if loop.form != "top":
            self.lines.append(f"{head}:")
        self.around.append((step, end))
        self.body(loop.body)
        self.around.pop()
        self.lines.append(f"{step}:")
        add = f"add.{loop.kind} {loop.counter}, {loop.counter}, {literal(loop.step, 's64')};"
        for text in {"top": [add], "rotated": [add, test], "bottom": [add, test], "post": [test, add]}[loop.form]:
            self.add(text)
        self.add(f"bra {head};", "" if loop.form == "top" else loop.predicate)
        self.lines.append(f"{end}:")


_REGISTERS = " ".join(f".reg .b{w} %{c}<24>;" if c != "p" else ".reg .pred %p<24>;" for c, w in WIDTHS.items())


def _function(index: int, function: Function) -> Iterator[str]:
    result, type_ = function.result
    size = WIDTHS[CLASSES[type_]]
    parameters = [f".param .b{WIDTHS[CLASSES[t]]} a{i}" for i, (_, t) in enumerate(function.parameters)]
    yield f".func (.param .b{size} z) fn{index}({', '.join(parameters)})\n{{\n  {_REGISTERS} .reg .pred %nan;"
    for i, (register, t) in enumerate(function.parameters):
        yield f"  ld.param.b{WIDTHS[CLASSES[t]]} {register}, [a{i}];"
    printer = _Printer("bra LEAVE;")
    printer.body(function.body)
    yield from printer.lines
    yield f"LEAVE:\n  st.param.b{size} [z], {result};\n  ret;\n}}"


def ptx(kernel: Kernel) -> str:
    """The whole module."""
    parameters = [*(f".param .u64 {a}" for a in ARRAYS), *(f".param .{t} {n}" for n, (t, _) in kernel.scalars.items())]
    lines = [".version 8.0", ".target sm_90", ".address_size 64"]
    for index, function in enumerate(kernel.functions):
        lines += _function(index, function)
    lines.append(f".visible .entry k({', '.join(parameters)})\n{{\n  {_REGISTERS} .reg .pred %nan;")
    lines.append(f"  .reg .b64 {', '.join('%' + a for a in ARRAYS)};")
    lines.append(f"  .shared .align 16 .b8 tile[{kernel.tile_bytes}]; .local .align 16 .b8 own[{kernel.own_bytes}];")
    lines += [f"  .reg .b{bits_of(t)} %{n};" for n, (t, _) in kernel.scalars.items()]
    lines += ["  .reg .b32 %tx, %ty, %nx, %bx, %lane, %tid, %gid, %full;"]
    lines += [f"  ld.param.u64 %{a}, [{a}];" for a in ARRAYS]
    lines += [f"  ld.param.{t} %{n}, [{n}];" for n, (t, _) in kernel.scalars.items()]
    printer = _Printer("ret;")
    printer.body(kernel.body)
    return "\n".join([*lines, *printer.lines, "  ret;", "}", ""])
