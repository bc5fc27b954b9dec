"""Random LLVM programs, compiled to PTX and to host code from the same text.

A program is `void body(ptr in, ptr out)`: it reads a record of eight 64-bit words and writes one of `OUTPUTS` words.
Nothing in it is undefined, and bits that floating-point leaves open (those of a NaN) never reach an integer.

Source: LLVM Language Reference.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

INPUTS, OUTPUTS = 8, 12  # 64-bit words a thread
INTEGERS = ("i8", "i16", "i32", "i64", "i128")
FLOATS = ("half", "float", "double")
_WIDTH = {"half": 16, "float": 32, "double": 64, "i1": 1} | {name: int(name[1:]) for name in INTEGERS}
_NAN = {"half": 0x7E00, "float": 0x7FC00000, "double": 0x7FF8000000000000}
_COMPARE_INTEGERS = ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge")
_COMPARE_FLOATS = ("oeq", "one", "olt", "ole", "ogt", "oge", "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno")
_BINARY = ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr")
_DIVISIONS = ("udiv", "sdiv", "urem", "srem")  # not of i128, which PTX would need a library for
_UNARY = ("ctpop", "bitreverse", "bswap", "ctlz", "cttz", "abs")
_PAIRED = ("umin", "umax", "smin", "smax", "uadd.sat", "usub.sat", "sadd.sat", "ssub.sat")
_OVERFLOW = ("uadd", "usub", "sadd", "ssub", "umul", "smul")
_ROUND = ("floor", "ceil", "trunc", "rint", "roundeven", "round", "fabs", "sqrt")
_LOCAL_BYTES = 64


class Writer:
    """Writes one function, statement by statement."""

    def __init__(self, draw: random.Random, prefix: str) -> None:
        self.draw = draw
        self.prefix = prefix
        self.lines: list[str] = []
        self.pool: dict[str, list[str]] = {}
        self.block = "entry"
        self.declarations: set[str] = set()
        self.callee: str | None = None
        self._count = 0

    # -- text --------------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        self._count += 1
        return f"%{self.prefix}{self._count}"

    def emit(self, type_: str, text: str, *, keep: bool = True) -> str:
        """`%new = text`, offered to later statements."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        if keep:
            self.pool.setdefault(type_, []).append(name)
        return name

    def start(self, block: str) -> None:
        self.lines.append(f"{block[1:]}:")
        self.block = block[1:]

    def intrinsic(self, name: str, result: str, operands: Sequence[tuple[str, str]], *, keep: bool = True) -> str:
        arguments = ", ".join(f"{type_} {value}" for type_, value in operands)
        self.declarations.add(f"declare {result} @{name}({', '.join(type_ for type_, _ in operands)})")
        return self.emit(result, f"call {result} @{name}({arguments})", keep=keep)

    # -- values ------------------------------------------------------------------------------------------------

    def constant(self, type_: str) -> str:
        bits = _WIDTH[type_]
        if type_ == "i1":
            return self.draw.choice(("true", "false"))
        if type_ in FLOATS:
            return f"bitcast (i{bits} {self.float_bits(type_)} to {type_})"
        edges = (
            0,
            1,
            2,
            3,
            5,
            7,
            31,
            63,
            (1 << bits) - 1,
            1 << (bits - 1),
            (1 << (bits - 1)) - 1,
            0x55,
            self.draw.getrandbits(bits),
        )
        return str(self.draw.choice(edges) & ((1 << bits) - 1))

    def float_bits(self, type_: str) -> int:
        """Bits of an interesting number of a float type."""
        ones = {"half": 0x3C00, "float": 0x3F800000, "double": 0x3FF0000000000000}[type_]
        bits = _WIDTH[type_]
        chosen = self.draw.choice(
            (0, ones, ones + 1, ones - 1, 1, ones * 2 - ones // 3, self.draw.getrandbits(bits - 1))
        )
        return chosen | (self.draw.getrandbits(1) << (bits - 1))

    def value(self, type_: str) -> str:
        """A value of a type: one in scope (recent ones more often), a constant, or a conversion of another."""
        known = self.pool.get(type_, [])
        if known and self.draw.random() < 0.85:
            return self.draw.choice(known[-6:] if self.draw.random() < 0.7 else known)
        if self.draw.random() < 0.5:
            return self.constant(type_)
        return self.converted(type_)

    def converted(self, type_: str) -> str:
        """A value of a type made from one of another type."""
        if type_ == "i1":
            return self.compared()
        if type_ in FLOATS:
            if type_ != "half" and self.draw.random() < 0.6:
                source = self.draw.choice(("i8", "i16", "i32", "i64"))
                return self.emit(
                    type_, f"{self.draw.choice(('sitofp', 'uitofp'))} {source} {self.any(source)} to {type_}"
                )
            other = {"half": "float", "float": "double", "double": "float"}[type_]
            cast = "fpext" if type_ == "double" else "fptrunc"
            return self.emit(type_, f"{cast} {other} {self.any(other)} to {type_}")
        return self.to_integer(type_)

    def to_integer(self, type_: str) -> str:
        """An integer from another integer, a comparison, or a float."""
        if self.draw.random() < 0.3 and type_ != "i128":
            source = self.draw.choice(("float", "double"))
            name = f"llvm.fpto{self.draw.choice('su')}i.sat.{type_}.f{_WIDTH[source]}"
            return self.intrinsic(name, type_, [(source, self.any(source))])
        source = self.draw.choice([name for name in (*INTEGERS, "i1") if name != type_])
        if _WIDTH[source] > _WIDTH[type_]:
            return self.emit(type_, f"trunc {source} {self.any(source)} to {type_}")
        return self.emit(type_, f"{self.draw.choice(('zext', 'sext'))} {source} {self.any(source)} to {type_}")

    def any(self, type_: str) -> str:
        """A value in scope, or a constant."""
        known = self.pool.get(type_)
        return self.draw.choice(known) if known and self.draw.random() < 0.9 else self.constant(type_)

    def bits(self, type_: str, value: str, *, keep: bool = True) -> str:
        """A float's bits as an integer; all NaNs become one."""
        width = _WIDTH[type_]
        is_nan = self.emit("i1", f"fcmp uno {type_} {value}, {value}", keep=False)
        plain = self.emit(f"i{width}", f"bitcast {type_} {value} to i{width}", keep=False)
        return self.emit(f"i{width}", f"select i1 {is_nan}, i{width} {_NAN[type_]}, i{width} {plain}", keep=keep)

    # -- statements --------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        """One statement; nested ones while depth lasts."""
        choice = self.draw.random()
        if choice < 0.2 and depth > 0:
            self.draw.choice((self.branch, self.loop, self.switch))(depth - 1)
        elif choice < 0.45:
            self.float_operation(self.draw.choice(FLOATS))
        elif choice < 0.85:
            self.integer_operation(self.draw.choice(INTEGERS))
        elif choice < 0.92:
            self.memory()
        elif choice < 0.95 and self.callee:
            self.call()
        else:
            self.compared()

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def compared(self) -> str:
        if self.draw.random() < 0.4:
            type_ = self.draw.choice(FLOATS)
            return self.emit(
                "i1", f"fcmp {self.draw.choice(_COMPARE_FLOATS)} {type_} {self.any(type_)}, {self.any(type_)}"
            )
        type_ = self.draw.choice(INTEGERS)
        return self.emit(
            "i1", f"icmp {self.draw.choice(_COMPARE_INTEGERS)} {type_} {self.any(type_)}, {self.any(type_)}"
        )

    def integer_operation(self, type_: str) -> None:
        kind, bits = self.draw.random(), _WIDTH[type_]
        a, b = self.value(type_), self.value(type_)
        if kind < 0.1:
            self.emit(type_, f"select i1 {self.value('i1')}, {type_} {a}, {type_} {b}")
        elif type_ == "i128" or kind < 0.6:
            self.binary(type_, a, b)
        elif kind < 0.7:
            name = self.draw.choice([n for n in _UNARY if n != "bswap" or bits > 8])
            extra = [("i1", "false")] if name in {"ctlz", "cttz", "abs"} else []
            self.intrinsic(f"llvm.{name}.{type_}", type_, [(type_, a), *extra])
        elif kind < 0.8:
            self.intrinsic(f"llvm.{self.draw.choice(_PAIRED)}.{type_}", type_, [(type_, a), (type_, b)])
        elif kind < 0.88:
            operands = [(type_, a), (type_, b), (type_, self.value(type_))]
            self.intrinsic(f"llvm.fsh{self.draw.choice('lr')}.{type_}", type_, operands)
        elif kind < 0.94:
            pair = f"{{ {type_}, i1 }}"
            name = f"llvm.{self.draw.choice(_OVERFLOW)}.with.overflow.{type_}"
            both = self.intrinsic(name, pair, [(type_, a), (type_, b)], keep=False)
            self.emit("i1", f"extractvalue {pair} {both}, 1")
            self.emit(type_, f"extractvalue {pair} {both}, 0")
        elif bits > 8:
            float_ = {16: "half", 32: "float", 64: "double"}[bits]
            self.bits(float_, self.any(float_))

    def binary(self, type_: str, a: str, b: str) -> None:
        """A two-operand instruction; shift amounts and divisors are brought into the defined range."""
        bits = _WIDTH[type_]
        op = self.draw.choice(_BINARY if type_ == "i128" else _BINARY + _DIVISIONS)
        if op in {"shl", "lshr", "ashr"}:
            b = self.emit(type_, f"and {type_} {b}, {bits - 1}", keep=False)
        if op in _DIVISIONS:
            b = self.emit(type_, f"or {type_} {b}, 1", keep=False)
            if op[0] == "s":  # positive, so that the smallest number is never divided by -1
                b = self.emit(type_, f"and {type_} {b}, {(1 << (bits - 1)) - 1}", keep=False)
        self.emit(type_, f"{op} {type_} {a}, {b}")

    def float_operation(self, type_: str) -> None:
        a, b, kind = self.value(type_), self.value(type_), self.draw.random()
        suffix = f"f{_WIDTH[type_]}"
        if kind < 0.15:
            self.emit(type_, f"select i1 {self.value('i1')}, {type_} {a}, {type_} {b}")
        elif kind < 0.5 or type_ == "half":
            self.emit(type_, f"{self.draw.choice(('fadd', 'fsub', 'fmul', 'fdiv'))} {type_} {a}, {b}")
        elif kind < 0.55:
            self.emit(type_, f"fneg {type_} {a}")
        elif kind < 0.7:
            self.intrinsic(f"llvm.fma.{suffix}", type_, [(type_, a), (type_, b), (type_, self.value(type_))])
        elif kind < 0.8:
            name = self.draw.choice(("minimum", "maximum"))
            self.intrinsic(f"llvm.{name}.{suffix}", type_, [(type_, a), (type_, b)])
        elif kind < 0.9:
            self.intrinsic(f"llvm.{self.draw.choice(_ROUND)}.{suffix}", type_, [(type_, a)])
        else:
            self.emit(type_, f"bitcast i{_WIDTH[type_]} {self.any(f'i{_WIDTH[type_]}')} to {type_}")

    def memory(self) -> None:
        """A load or store in the thread's own array, at an address computed from data."""
        type_ = self.draw.choice(("i8", "i16", "i32", "i64", "float", "double"))
        size = _WIDTH[type_] // 8
        index = self.emit("i32", f"and i32 {self.value('i32')}, {_LOCAL_BYTES // size - 1}", keep=False)
        offset = self.emit("i32", f"mul i32 {index}, {size}", keep=False)
        address = self.emit("ptr", f"getelementptr i8, ptr %own, i32 {offset}", keep=False)
        if self.draw.random() < 0.5:
            self.emit(type_, f"load {type_}, ptr {address}, align {size}")
        else:
            value = self.value(type_)
            if type_ in FLOATS:
                value, type_ = self.bits(type_, value, keep=False), f"i{_WIDTH[type_]}"
            self.lines.append(f"  store {type_} {value}, ptr {address}, align {size}")

    def call(self) -> None:
        arguments = f"i32 {self.value('i32')}, i64 {self.value('i64')}, float {self.value('float')}"
        self.emit("i64", f"call i64 @{self.callee}({arguments})")

    # -- control -----------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values defined inside are not offered outside."""
        kept = {type_: list(names) for type_, names in self.pool.items()}
        yield
        self.pool = kept

    def carried(self) -> list[str]:
        return [self.draw.choice((*INTEGERS, *FLOATS, "i1")) for _ in range(self.draw.choice((1, 2, 3)))]

    def arms(self, labels: Sequence[str], types: Sequence[str], join: str, depth: int) -> list[tuple[str, list[str]]]:
        """Blocks that end in a jump to `join`; each one's last block and its values."""
        found = []
        for label in labels:
            self.start(label)
            with self.scope():
                self.statements(self.draw.randrange(4), depth)
                values = [self.value(type_) for type_ in types]
            self.lines.append(f"  br label {join}")
            found.append((self.block, values))
        return found

    def join(self, label: str, types: Sequence[str], arms: Sequence[tuple[str, list[str]]]) -> None:
        self.start(label)
        for i, type_ in enumerate(types):
            self.emit(type_, f"phi {type_} " + ", ".join(f"[ {values[i]}, %{block} ]" for block, values in arms))

    def branch(self, depth: int) -> None:
        yes, no, join, types = self.fresh(), self.fresh(), self.fresh(), self.carried()
        condition = self.value("i1")
        if self.draw.random() < 0.4:  # no else
            with self.scope():
                values = [self.value(type_) for type_ in types]
            origin = self.block
            self.lines.append(f"  br i1 {condition}, label {yes}, label {join}")
            self.join(join, types, [(origin, values), *self.arms([yes], types, join, depth)])
            return
        self.lines.append(f"  br i1 {condition}, label {yes}, label {no}")
        self.join(join, types, self.arms([yes, no], types, join, depth))

    def switch(self, depth: int) -> None:
        cases = [self.fresh() for _ in range(self.draw.choice((3, 5, 9)))]
        join, types = self.fresh(), self.carried()
        selector = self.emit("i32", f"and i32 {self.value('i32')}, {self.draw.choice((3, 7, 15))}", keep=False)
        targets = " ".join(f"i32 {i}, label {label}" for i, label in enumerate(cases[1:]))
        self.lines.append(f"  switch i32 {selector}, label {cases[0]} [ {targets} ]")
        self.join(join, types, self.arms(cases, types, join, depth))

    def loop(self, depth: int) -> None:
        """A loop of one to eight rounds, chosen by data, with possible early exits."""
        head, more, after, types = self.fresh(), self.fresh(), self.fresh(), self.carried()
        first = [self.value(type_) for type_ in types]
        rounds = self.emit("i32", f"and i32 {self.value('i32')}, 7", keep=False)
        origin = self.block
        self.lines.append(f"  br label {head}")
        self.start(head)
        counter, following = self.fresh(), self.fresh()
        place = len(self.lines)
        with self.scope():
            names = [self.fresh() for _ in types]
            for type_, name in zip(types, names, strict=True):
                self.pool.setdefault(type_, []).append(name)
            self.pool.setdefault("i32", []).append(counter)
            self.statements(self.draw.randrange(1, 6), depth)
            exits = []
            if self.draw.random() < 0.4:
                exits.append((self.block, [self.value(type_) for type_ in types]))
                leave = self.value("i1")
                self.lines.append(f"  br i1 {leave}, label {after}, label {more}")
                self.start(more)
                self.statements(self.draw.randrange(3), depth)
            last = [self.value(type_) for type_ in types]
            self.lines.append(f"  {following} = add i32 {counter}, 1")
            done = self.emit("i1", f"icmp uge i32 {counter}, {rounds}", keep=False)
            self.lines.append(f"  br i1 {done}, label {after}, label {head}")
            exits.append((self.block, last))
        phis = [f"  {counter} = phi i32 [ 0, %{origin} ], [ {following}, %{self.block} ]"]
        for type_, name, before, behind in zip(types, names, first, last, strict=True):
            phis.append(f"  {name} = phi {type_} [ {before}, %{origin} ], [ {behind}, %{self.block} ]")
        self.lines[place:place] = phis
        self.join(after, types, exits)


def program(seed: int, *, calls: bool = True) -> str:
    """The functions of a program, `body` among them, without a target."""
    draw = random.Random(seed)
    declarations: set[str] = set()
    functions = [_helper(draw, declarations)]
    writer = Writer(draw, "v")
    writer.callee = "helper" if calls else None
    for word in range(INPUTS):
        address = writer.emit("ptr", f"getelementptr i64, ptr %in, i32 {word}", keep=False)
        type_ = ("i64", "double", "i32", "float", "i16", "i8", "half", "i64")[word]
        writer.emit(type_, f"load {type_}, ptr {address}, align 8")
        if word in {0, 7}:  # the array starts with data
            for half in range(_LOCAL_BYTES // 16):
                at = writer.emit("ptr", f"getelementptr i64, ptr %own, i32 {half * 2 + word // 7}", keep=False)
                writer.lines.append(f"  store i64 {writer.pool['i64'][-1]}, ptr {at}, align 8")
    writer.statements(draw.choice((6, 12, 25, 50)), draw.choice((0, 1, 2, 3)))
    for word in range(OUTPUTS):
        address = writer.emit("ptr", f"getelementptr i64, ptr %out, i32 {word}", keep=False)
        type_ = (*INTEGERS[:4], "i128", *FLOATS)[word % 8]
        value = writer.value(type_)
        if type_ in FLOATS:
            value, type_ = writer.bits(type_, value), f"i{_WIDTH[type_]}"
        if type_ == "i128":
            low = writer.emit("i128", f"lshr i128 {value}, {draw.choice((0, 1, 63, 64, 71))}", keep=False)
            value = writer.emit("i64", f"trunc i128 {low} to i64", keep=False)
        elif type_ != "i64":
            value = writer.emit("i64", f"zext {type_} {value} to i64", keep=False)
        writer.lines.append(f"  store i64 {value}, ptr {address}, align 8")
    attribute = draw.choice(("noinline", "alwaysinline", "")) if calls else "alwaysinline"
    own = f"  %own = alloca [{_LOCAL_BYTES} x i8], align 16"
    body = "\n".join(["entry:", own, *writer.lines, "  ret void"])
    functions.append(f"define internal void @body(ptr %in, ptr %out) {attribute} {{\n{body}\n}}")
    return "\n".join([*sorted(declarations | writer.declarations), *functions])


def _helper(draw: random.Random, declarations: set[str]) -> str:
    """A function that calls itself a few times."""
    writer = Writer(draw, "h")
    writer.pool = {"i32": ["%a"], "i64": ["%b"], "float": ["%c"]}
    writer.statements(draw.choice((2, 5, 10)), 1)
    lines = ["entry:", f"  %own = alloca [{_LOCAL_BYTES} x i8], align 16"]
    lines += [f"  %z{i} = getelementptr i64, ptr %own, i32 {i}" for i in range(_LOCAL_BYTES // 8)]
    lines += [f"  store i64 %b, ptr %z{i}, align 8" for i in range(_LOCAL_BYTES // 8)]
    result = writer.value("i64")
    less = writer.emit("i32", "and i32 %a, 3", keep=False)
    again = writer.emit("i1", f"icmp ne i32 {less}, 0", keep=False)
    fewer = writer.emit("i32", f"sub i32 {less}, 1", keep=False)
    origin = writer.block
    writer.lines += [f"  br i1 {again}, label %deeper, label %end", "deeper:"]
    deeper = writer.emit("i64", f"call i64 @helper(i32 {fewer}, i64 {result}, float {writer.value('float')})")
    # `value` may have written into this block, but without a branch, so the block is still that of `deeper`.
    writer.lines += [
        "  br label %end",
        "end:",
        f"  %r = phi i64 [ {result}, %{origin} ], [ {deeper}, %deeper ]",
        "  ret i64 %r",
    ]
    declarations |= writer.declarations
    body = "\n".join([*lines, *writer.lines])
    return f"define internal i64 @helper(i32 %a, i64 %b, float %c) {draw.choice(('noinline', ''))} {{\n{body}\n}}"


PTX_ENTRY = f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @k(ptr %in, ptr %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %n, %c
  %i = add i32 %m, %t
  %a = mul i32 %i, {INPUTS}
  %p = getelementptr i64, ptr %in, i32 %a
  %b = mul i32 %i, {OUTPUTS}
  %q = getelementptr i64, ptr %out, i32 %b
  call void @body(ptr %p, ptr %q)
  ret void
}}
"""

HOST_ENTRY = """
define void @k(ptr %in, ptr %out) {
  call void @body(ptr %in, ptr %out)
  ret void
}
"""
