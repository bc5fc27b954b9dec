"""The state of emitting one kernel: registers, operands, masks and sites.

Flow, memory and the instructions themselves are emitted by `flow`, `access`, `lanes` and `emit`, which share this.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Collection, Sequence

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Code, Value, element_type
from tilewright.simulate.events import EventKind, Handler, Instrument, Site
from tilewright.simulate.handlers import check_c, parameters
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.frames import frames, users_line
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import CONTEXT, GLOBAL_BASE, SLOT, WARP
from tilewright.simulate.translate.analysis.graph import Graph, Op
from tilewright.simulate.translate.analysis.layout import Layout
from tilewright.simulate.translate.analysis.shape import AFFINE, STRIDED, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.analysis.shapes import Shapes
from tilewright.simulate.translate.analysis.special import LaunchClass, special_value

TRUE = Value("true", "i1")
#: The mask of a warp whose lanes all run, known when translating.
ALL_LANES = Value("-1", "i32")
#: Suffix of a register's name for its stride.
STRIDE = "'stride"
#: Number of events after which a new host block starts.
_BLOCK_EVENTS = 64


@functools.cache
def storage_type(declared: str) -> str:
    """The LLVM element type of a register declared with a PTX type (dot included)."""
    name = declared.lstrip(".")
    if name in ("f32", "f64", "pred"):
        return element_type(name)
    bits = 1
    for number in re.findall(r"\d+", name):
        bits *= int(number)
    return f"i{bits}"


@functools.cache
def register_bits(declared: str) -> int:
    """Width of a register in bits (1 for a predicate)."""
    type_ = storage_type(declared)
    return {"float": 32, "double": 64}.get(type_) or int(type_[1:])


class Emitter:
    """The shared state of the emission of one kernel."""

    def __init__(
        self,
        module: tree.Module,
        graph: Graph,
        shapes: Shapes,
        layout: Layout,
        launch: LaunchClass,
        instruments: Sequence[Instrument],
        host: HostVectors | None = None,
    ) -> None:
        self.module = module
        self.graph = graph
        self.shapes = shapes
        self.layout = layout
        self.launch = launch
        self.instruments = instruments
        self.code = Code(host)
        self.sites: list[Site] = []  # places of errors, and of events
        # While two forms of one move are emitted, of which one runs: the counter row of each instrument and site. Both
        # forms use one row, and no tallies.
        self.forms: dict[tuple[int, Site], int] | None = None
        self.counter_rows: list[list[int]] = [[] for _ in instruments]  # site indices, by instrument
        self.handlers: dict[str, Handler] = {}  # the handlers that are called, by symbol
        self.events = 0  # number of events so far
        self.tallies: list[int] = []  # blocks whose runs with all lanes are counted
        self.tallied: dict[str, int] = {}  # tallies of this straight line, by mask
        self.multiples: list[list[list[int]]] = [[] for _ in instruments]  # rows, their tallies, and the summands
        self.globals: list[str] = []  # module-level constants
        self.registers = self._name_registers()
        self.mask = ALL_LANES  # the lanes that run now
        self.block = 0
        self.is_cut = False  # whether the kernel is long and cut into pieces
        self.line = 0  # of the current instruction, for messages
        self._constants: dict[str, str] = {}
        self.functions: dict[str, tree.Function] = {}  # callable functions, by name
        self.frame = Value("0", "i64")  # where this function's local variables start
        self.depth = Value("0", "i32")  # calls so far
        self.prints = self.addresses_params = False

    def share(self, other: Emitter) -> None:
        """Share another emitter's sites, counters, constants and declarations."""
        self.sites, self.counter_rows, self.globals = other.sites, other.counter_rows, other.globals
        self._constants, self.functions, self.handlers = other._constants, other.functions, other.handlers
        self.tallies, self.multiples = other.tallies, other.multiples
        self.code.declarations = other.code.declarations

    # -- registers --------------------------------------------------------------------------------------------

    def _name_registers(self) -> dict[str, tuple[str, str, int]]:
        """Each written register's alloca, element type and lanes; a stride is a register of its own."""
        found = {}
        for index, (name, declared) in enumerate(self.graph.registers.items()):
            shape = self.shapes.of.get(name)
            if shape is not None:
                found[name] = (f"%R{index}", storage_type(declared), LANES if shape.kind == VECTOR else 1)
                if shape.kind == STRIDED:
                    found[name + STRIDE] = (f"%R{index}.stride", storage_type(declared), 1)
        return found

    def declare_registers(self, names: Collection[str]) -> None:
        """One alloca a register, zeroed, and one for its stride: mem2reg turns them into SSA values."""
        for name in sorted({n for each in names for n in (each, each + STRIDE) if n in self.registers}):
            slot, type_, lanes = self.registers[name]
            full = type_ if lanes == 1 else f"<{lanes} x {type_}>"
            self.code.line(f"{slot} = alloca {full}, align 64")
            self.code.line(f"store {full} zeroinitializer, ptr {slot}, align 64")

    def load_register(self, name: str) -> Value:
        """A register's stored value: the base of an affine value."""
        if name not in self.registers:  # never written
            return Value(self._zero(name), storage_type(self.graph.registers[name]))
        slot, type_, lanes = self.registers[name]
        full = type_ if lanes == 1 else f"<{lanes} x {type_}>"
        return self.code.op(f"load {full}, ptr {slot}, align 64", type_, lanes)

    def _zero(self, name: str) -> str:
        type_ = storage_type(self.graph.registers[name])
        return {"i1": "false", "float": "0.0", "double": "0.0"}.get(type_, "0")

    def spread(self, value: Value, shape: Shape, stride: Value | None = None) -> Value:
        """A base as a full vector, when its shape is affine or has a stride."""
        if shape.kind not in (AFFINE, STRIDED) or value.lanes == LANES:
            return value
        code, type_ = self.code, f"i{value.bits}"  # a register declared as a float may hold an index
        lanes = code.add(code.splat(code.cast("bitcast", value, type_)), code.constants(type_, shape.lane_offsets))
        if stride is not None:
            steps = code.splat(code.cast("bitcast", stride, type_))
            lanes = code.add(lanes, code.mul(steps, code.constants(type_, shape.rows)))
        return code.cast("bitcast", lanes, value.type)

    def stride_of(self, operand: tree.Operand) -> Value | None:
        """The stride of a source operand whose shape has one."""
        name = operand.name + STRIDE if isinstance(operand, tree.Register) else ""
        return self.load_register(name) if name in self.registers else None

    def store_register(
        self, name: str, value: Value, shape: Shape, guard: Value | None = None, stride: Value | None = None
    ) -> None:
        """Write a register; under the mask if waiting lanes still need the old value.

        `value` and `stride` already have the register's width. `guard` is the guard predicate when it differs between
        lanes.
        """
        if name not in self.registers:
            return
        slot, type_, lanes = self.registers[name]
        value = self.code.cast("bitcast", value, type_)
        if lanes == 1:
            value = self.first_lane(value)
            self.code.store(value, slot)
            if name + STRIDE in self.registers:
                self.code.store(stride or self.code.const(type_, 0), self.registers[name + STRIDE][0])
            return
        value = self.code.splat(self.spread(value, shape, stride))
        condition = guard
        if self.shapes.blends(self.block, name):
            running = self.code.mask_lanes(self.mask)
            condition = running if guard is None else self.code.and_(guard, running)
        if condition is not None:
            value = self.code.select(condition, value, self.load_register(name))
        self.code.store(value, slot)

    def first_lane(self, value: Value) -> Value:
        """A vector known to be uniform, as a scalar: the value of the first lane that runs."""
        if value.lanes == 1:
            return value
        lane = self.code.call("llvm.cttz", "i32", self.mask, flags="i1 false")
        return self.code.lane(value, self.code.and_(lane, self.code.const("i32", LANES - 1)))

    # -- operands ---------------------------------------------------------------------------------------------

    def read(self, operand: tree.Operand, type_: str, *, base: bool = False, lane: int = 0) -> Value:
        """A source operand as a value of a PTX type.

        With `base`, affine and strided values stay the value of lane 0; otherwise they are expanded to all lanes.
        """
        match operand:
            case tree.Register(name):
                known = name in self.graph.registers
                value = self.load_register(name) if known else special_value(self, name)
                shape = self.shapes.operand(operand)
                if not base:
                    value = self.spread(value, shape, self.stride_of(operand))
                elif value.lanes == LANES and shape.constant is not None:  # equal in all running lanes
                    value = self.code.cast("bitcast", self.code.const(f"i{value.bits}", shape.constant), value.type)
                elif lane and value.lanes == 1:
                    value = self._further(value, shape, self.stride_of(operand), lane)
                return self.reinterpret(value, type_)
            case tree.Negated(inner):
                return self.code.not_(self.read(inner, "pred", base=base))
            case tree.Immediate():
                return self.immediate(operand, type_)
            case tree.Symbol():
                return self.reinterpret(self.symbol(operand), type_)
            case tree.Vector(items):
                return self.pack([self.read(i, self.operand_type(i, type_, len(items))) for i in items], type_)
        raise PtxError(
            f"{self.module.path}:{self.line}: an operand must be a value to be read as .{type_} "
            f"(got '{operand_text(operand)}'); load the value from memory first"
        )

    def _further(self, value: Value, shape: Shape, stride: Value | None, lane: int) -> Value:
        """A lane's value, from lane 0's."""
        if shape.kind in (AFFINE, STRIDED):
            value = self.code.add(value, self.code.const(value.type, shape.offsets[lane]))
        if stride is None:
            return value
        return self.code.add(value, self.code.mul(stride, self.code.const(value.type, shape.rows[lane])))

    def operand_type(self, operand: tree.Operand, whole: str, count: int) -> str:
        """The type of one element of a packed operand."""
        bits = _bits_of(element_type(whole)) // count
        return f"b{bits}"

    def pack(self, parts: list[Value], type_: str) -> Value:
        """Concatenate elements, the first lowest."""
        target = f"i{sum(p.bits for p in parts)}"
        total = self.code.const(target, 0)
        shift = 0
        for part in parts:
            wide = self.code.cast("zext", part, target)
            total = self.code.or_(total, self.code.binary("shl", wide, self.code.const(target, shift)))
            shift += part.bits
        return self.reinterpret(total, type_)

    def reinterpret(self, value: Value, type_: str) -> Value:
        """A register's bits as another type: truncated or zero-extended if widths differ."""
        target = element_type(type_)
        if value.type == target:
            return value
        width = _bits_of(target)
        integer = self.code.cast("bitcast", value, f"i{value.bits}")
        return self.code.cast("bitcast", self.code.resize(integer, f"i{width}", signed=False), target)

    def immediate(self, operand: tree.Immediate, type_: str) -> Value:
        """A literal in the type of its instruction."""
        target = element_type(type_)
        if target in ("float", "double", "half", "bfloat"):
            return self.code.float_bits(target, _float_literal(operand, target))
        return self.code.const(target, operand.value)

    def symbol(self, operand: tree.Symbol) -> Value:
        """The address of a variable or function."""
        place = self.layout.places.get(operand.name)
        if place is None:
            if operand.name in self.layout.functions:
                return self.code.const("i64", self.layout.functions.index(operand.name) + 1)
            raise PtxError(
                f"{self.module.path}:{self.line}: an operand must be a register, a literal, or the address of a "
                f"variable or function (got '{operand.name}'); only branches take a label"
            )
        space, offset = place
        offset += operand.offset
        if space == "shared":
            base = self.field("%slot", SLOT["shared_start"], "i64") if self.launch.clustered else None
            return self.code.add(base, self.code.const("i64", offset)) if base else self.code.const("i64", offset)
        if space == "local":
            return self.code.add(self.frame, self.code.const("i64", offset))
        start = self.context("params_address" if space == "param" else "module_base")
        return self.code.add(start, self.code.const("i64", offset))

    # -- records ----------------------------------------------------------------------------------------------

    def context(self, field: str, type_: str = "i64") -> Value:
        """A field of the context record."""
        self.addresses_params |= field == "params_address"
        return self.field("%context", CONTEXT[field], type_)

    def field(self, record: str, offset: int, type_: str) -> Value:
        """Load a field at a byte offset of a record."""
        pointer = self.code.op(f"getelementptr i8, ptr {record}, i64 {offset}", "ptr")
        return self.code.op(f"load {type_}, ptr {pointer.text}, align 4", type_)

    def set_field(self, record: str, offset: int, value: Value) -> None:
        """Store a field at a byte offset of a record."""
        pointer = self.code.op(f"getelementptr i8, ptr {record}, i64 {offset}", "ptr")
        self.code.line(f"store {value}, ptr {pointer.text}, align 4")

    def constant_array(self, type_: str, items: Sequence[int]) -> str:
        """A module-level constant array of integers; returns its symbol."""
        text = f"[{len(items)} x {type_}] [{', '.join(f'{type_} {i}' for i in items)}]"
        if text not in self._constants:
            symbol = f"@constant.{len(self._constants)}"
            self._constants[text] = symbol
            self.globals.append(f"{symbol} = private unnamed_addr constant {text}, align 64")
        return self._constants[text]

    # -- sites ------------------------------------------------------------------------------------------------

    def source_of(self, instruction: tree.Instruction) -> str:
        """`file:line` of the user's source, or ""; for inlined library code, the line that calls it."""
        return users_line(frames(instruction.location, self.module.files))

    def add_site(self, site: Site) -> int:
        """Register a site; returns its index."""
        self.sites.append(site)
        return len(self.sites) - 1

    def _counter(self, of: str, number: int) -> Value:
        """A pointer to a counter of an instrument, or of the tallies."""
        start = self.context("counters", "ptr")
        # the first counter's place is known only after all sites: a placeholder, replaced when the text is joined
        return self.code.op(f"getelementptr i64, ptr {start.text}, i64 <counters.{of}+{number}>", "ptr")

    def _tally(self) -> int:
        """The number of the tally of this straight line's runs with all lanes; a new tally is emitted."""
        if self.mask.text not in self.tallied:
            self.tallied[self.mask.text] = len(self.tallies)
            place = self._counter("tally", len(self.tallies)).text
            self.tallies.append(self.block)
            full = self.code.cast("zext", self.code.icmp("eq", self.mask, ALL_LANES), "i64")
            self.code.put(self.code.add(self.code.op(f"load i64, ptr {place}", "i64"), full), place)
        return self.tallied[self.mask.text]

    def run_event(self, block_index: int) -> None:
        """Notify instruments that a warp runs a block."""
        block = self.graph.blocks[block_index]
        if not self.instruments or not block.cost:
            return
        ops = [*block.ops, *([block.end] if block.end is not None and not block.synthetic else [])]
        steps = tuple((i.ptx_line, i.name, self.source_of(i)) for i in (op.instruction for op in ops))
        line, name, source = steps[0]
        site = Site(EventKind.RUN, line, source, name, block.cost, steps=steps)
        self.notify(site, lambda handler: str(self.mask))

    def event(self, kind: EventKind, instruction: tree.Instruction, *arguments: Value) -> None:
        """Notify instruments of an event at an instruction."""
        if self.instruments:
            site = Site(kind, instruction.ptx_line, self.source_of(instruction), instruction.name)
            self.notify(site, lambda handler: ", ".join(str(argument) for argument in arguments))

    def notify(
        self,
        site: Site,
        arguments: Callable[[Handler], str],
        offsets: tuple[int, ...] | None = None,
        notified: Collection[int] = (),
        strided: Shape | None = None,
    ) -> None:
        """Call the instruments' handlers for a site; `arguments` come after WHERE's.

        `notified` numbers instruments that were already notified; `strided` is the shape of an address that has rows.
        """
        found = [
            (i, (strided and t.strided(site, strided.lane_offsets, strided.rows)) or t.handler(site, offsets))
            for i, t in enumerate(self.instruments)
            if i not in notified
        ]
        wanted = [(i, handler) for i, handler in found if handler is not None]
        if self.forms is not None:
            wanted = [(i, (h.each and self.instruments[i].handler(site)) or h) for i, h in wanted]
        if wanted:
            index = self.add_site(site)
            for i, handler in wanted:
                self._call_handler(i, handler, [index], site.kind, arguments)
            self._count_event()

    def notify_together(
        self, sites: Sequence[Site], arguments: Callable[[Handler], str], offsets: Sequence[tuple[int, ...]]
    ) -> set[int]:
        """Call the joint handlers of accesses with one base; returns the numbers of the instruments that have one.

        The accesses have consecutive rows.
        """
        found = [(i, t.together(sites, offsets)) for i, t in enumerate(self.instruments)]
        wanted = [(i, handler) for i, handler in found if handler is not None]
        if wanted:
            indices = [self.add_site(site) for site in sites]
            for i, handler in wanted:
                self._call_handler(i, handler, indices, EventKind.ACCESS, arguments)
            self._count_event()
        return {i for i, _ in wanted}

    def _count_event(self) -> None:
        """Start a new host block after a number of events."""
        self.events += 1
        if self.events % _BLOCK_EVENTS == 0:
            on = self.code.label("part")
            self.jump_apart(on)
            self.code.place(on)

    def jump_apart(self, label: str) -> None:
        """Jump to a block that the host's compiler does not merge with this one.

        Instruction selection and scheduling take time with the square of a block's size, and the compiler would merge
        the blocks if it could prove that the branch is always taken.
        """
        zero = "@tw.zero = internal global i32 0"
        if zero not in self.globals:
            self.globals.append(zero)
        value = self.code.op("load volatile i32, ptr @tw.zero", "i32")
        self.code.branch_if(self.code.icmp("eq", value, self.code.const("i32", 0)), label, "fault", likely=True)

    def _call_handler(
        self,
        instrument: int,
        handler: Handler,
        sites: Sequence[int],
        kind: EventKind,
        arguments: Callable[[Handler], str],
    ) -> None:
        """Call a handler of some sites with the first site's counters and row, or count for it (see `Handler.each`)."""
        forms, of = {} if self.forms is None else self.forms, (instrument, self.sites[sites[0]])
        row, done = forms.setdefault(of, len(self.counter_rows[instrument])), ""
        if handler.each:
            assert len(sites) == 1, "joint events have no tally"
            none = (0,) * (self.instruments[instrument].slots - len(handler.each))
            self.multiples[instrument].append([row, self._tally(), *handler.each, *none])
            some, done = self.code.label("some"), self.code.label("counted")
            self.code.branch_if(self.code.icmp("eq", self.mask, ALL_LANES), done, some, likely=True)
            self.code.place(some)
        if row == len(self.counter_rows[instrument]):
            self.counter_rows[instrument] += sites
        counters = self._counter(str(instrument), row * self.instruments[instrument].slots)
        types = parameters(kind, affine=handler.affine, values=handler.values, strided=handler.strided)
        if not handler.text:
            check_c(handler.symbol, types, handler.needs)
        self.handlers[handler.symbol] = handler
        self.code.declare(handler.symbol, f"declare void @{handler.symbol}({types})")
        self.code.line(
            f"call void @{handler.symbol}(ptr %slot, ptr %warp, ptr %observed.launch.{instrument}, "
            f"ptr %observed.block.{instrument}, {counters}, i32 {row}, {arguments(handler)})"
        )
        if done:
            self.code.branch(done)
            self.code.place(done)


def guard_value(emitter: Emitter, op: Op) -> Value | None:
    """The guard as a predicate value (negation applied), or None."""
    if op.guard is None:
        return None
    value = emitter.read(op.guard.register, "pred", base=True)
    return emitter.code.not_(value) if op.guard.negated else value


def _bits_of(type_: str) -> int:
    return Value("", type_).bits


def _float_literal(operand: tree.Immediate, target: str) -> int:
    """Bits of a literal in a floating-point type."""
    import numpy as np

    if (operand.kind, target) in (("f32", "float"), ("f64", "double")):
        return operand.value
    if operand.kind == "int":
        number = float(operand.value)
    elif operand.kind == "f32":
        number = struct.unpack("<f", struct.pack("<I", operand.value))[0]
    else:
        number = struct.unpack("<d", struct.pack("<Q", operand.value))[0]
    if target == "double":
        return int(np.float64(number).view(np.uint64))
    if target == "float":
        return int(np.float32(number).view(np.uint32))
    if target == "half":
        return int(np.float16(number).view(np.uint16))
    single = int(np.float32(number).view(np.uint32))  # bfloat16 is the upper half, rounded to nearest even
    return (single + 0x7FFF + (single >> 16 & 1)) >> 16 & 0xFFFF


__all__ = ["GLOBAL_BASE", "SLOT", "TRUE", "UNIFORM", "WARP", "Emitter", "guard_value", "register_bits", "storage_type"]
