"""Loads and stores: where an address points, the check that it lies in its arena, and the shape of the move.

Accesses of one straight line that share a base register and have no guard are checked together, once. Outside, a cold
path (`tw.recheck`) looks lane by lane, and either records the fault or finds that only switched-off lanes are outside,
which the arena's slack makes harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import PtxError
from tilewright.simt.events import VALUES_STRIDE_BYTES, EventKind, Handler, Site
from tilewright.simt.ptx import tree
from tilewright.simt.translate.code import LANES, Value, element_type
from tilewright.simt.translate.emitter import Emitter, storage_type
from tilewright.simt.translate.graph import Block, Op
from tilewright.simt.translate.layout import align_up
from tilewright.simt.translate.shapes import UNIFORM, VECTOR, Shape
from tilewright.simt.translate.state import GLOBAL_BASE, PATTERN_SPAN_MAX

ACCESS_OPCODES = ("ld", "ldu", "st")
_SPACES = {"global": "global", "const": "global", "shared": "shared", "local": "local", "param": "param"}
#: Loads that instruments are told of together, at most: what they make of it should stay small.
_TOGETHER_MAX = 64
#: Kinds of instructions that neither touch memory nor wait for anyone.
_ALONE = ("lane", "carry", "cvta", "isspacep", "nothing")
#: Nothing in memory is known across this, and nothing is executed for it.
_CLOBBER = 'call void asm sideeffect "", "~{memory}"()'
#: Distinct elements up to which single loads beat one wide load and a shuffle.
_SINGLE_LOADS_MAX = 4
#: Bytes of the widest single vector load.
_WINDOW_BYTES_MAX = 1024


@dataclass(slots=True)
class Access:
    """What a load or store says of itself."""

    op: Op
    space: str  # "global", "shared", "local", "param", "generic"
    address: tree.Operand
    offset: int
    count: int  # vector elements
    type: str  # PTX type of an element
    store: bool
    fenced: bool  # volatile or stronger: nothing may move across
    group: Group | None = None
    together: Together | None = None
    values: list[Value] = field(default_factory=list)  # what a store writes, once read

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return max(1, Value("", element_type(self.type)).bits // 8)

    @property
    def total_bytes(self) -> int:
        """Bytes a lane moves."""
        return self.element_bytes * self.count


@dataclass(slots=True)
class Group:
    """Accesses checked together; `rel` is the checked arena offset of lane 0, once emitted."""

    members: list[Access] = field(default_factory=list)
    relative: Value | None = None


@dataclass(slots=True)
class Together:
    """Loads of a group that instruments may be told of at once, before the first: nothing is written between them.

    `told` are the instruments that were, by number.
    """

    members: list[Access] = field(default_factory=list)
    told: set[int] | None = None


def describe(emitter: Emitter, op: Op) -> Access:
    """Read an access off its instruction, and resolve variables to offsets."""
    item = op.instruction
    parts = [m.lstrip(".").split("::")[0] for m in item.modifiers]
    space = next((_SPACES[p] for p in parts if p in _SPACES), "generic")
    count = next((int(p[1:]) for p in parts if p in ("v2", "v4", "v8")), 1)
    type_ = parts[-1]
    address = item.operands[0] if item.opcode == "st" else item.operands[1]
    if not isinstance(address, tree.Address):
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' needs an address in brackets")
    fenced = bool({"volatile", "relaxed", "acquire", "release", "mmio"} & set(parts))
    base, offset, space = resolve(emitter, item, address, space)
    return Access(op, space, base, offset, count, type_, item.opcode == "st", fenced)


def resolve(
    emitter: Emitter, item: tree.Instruction, address: tree.Operand, space: str
) -> tuple[tree.Operand, int, str]:
    """An address's base, byte offset and state space, variables resolved to where they live."""
    if not isinstance(address, tree.Address):
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' needs an address in brackets")
    base: tree.Operand = address.base if address.base is not None else tree.Immediate(0)
    offset = address.offset + (base.offset if isinstance(base, tree.Symbol) else 0)
    if not -(1 << 31) <= offset < 1 << 31:  # the checks of a group hold their offsets in 32 bits
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' must have an offset of signed 32 bits (got {offset})"
        )
    if not isinstance(base, tree.Symbol):
        # a parameter whose address was taken: the parameter block lies in the global arena
        return base, offset, "global" if space == "param" else space
    place = emitter.layout.places.get(base.name)
    if place is None:
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{base.name}' is not declared as a variable")
    actual = "global" if place[0] == "module" else place[0]
    if space in ("generic", "param"):
        space = actual
    if actual != space:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' names '{base.name}', which lies in .{actual}"
        )
    if actual in ("global", "local"):
        return tree.Symbol(base.name), offset, space
    return tree.Immediate(0), offset + place[1], space


def access_pointers(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Host pointers of all lanes of an access, checked under the mask and told to the instruments."""
    if access.space == "generic":
        from tilewright.simt.translate.generic import generic_pointers

        return generic_pointers(emitter, access, kind)
    return _vector_pointers(emitter, access, kind)


def group_accesses(emitter: Emitter, block: Block) -> dict[int, Access]:
    """Describe a block's accesses (by position) and group those that one check covers."""
    found: dict[int, Access] = {}
    groups: dict[tuple[object, ...], Group] = {}
    together: dict[tuple[object, ...], Together] = {}
    versions: dict[str, int] = {}
    for position, op in enumerate(block.ops):
        if op.instruction.opcode in ACCESS_OPCODES and op.form.row.kind == "memory":
            access = describe(emitter, op)
            found[position] = access
            shape = address_shape(emitter, access)
            _part(together, access)
            if access.space in ("global", "shared", "local") and shape.kind != VECTOR:
                name = getattr(access.address, "name", "")
                # a guarded access runs in a branch of its own, whose check reaches no other access
                key = (access.space, name, versions.get(name, 0), position if op.guard else -1)
                access.group = groups.setdefault(key, Group())
                access.group.members.append(access)
                if not (access.store or access.fenced):
                    access.together = together.setdefault(key, Together())
                    access.together.members.append(access)
                    if len(access.together.members) == _TOGETHER_MAX:
                        del together[key]
        elif op.form.row.kind not in _ALONE:
            together.clear()
        for name in op.writes:
            versions[name] = versions.get(name, 0) + 1
    return found


def _part(together: dict[tuple[object, ...], Together], access: Access) -> None:
    """Forget loads that must not be told of together with those behind an access."""
    if access.fenced or (access.store and access.space == "generic"):
        together.clear()
    elif access.store:
        for key in [key for key in together if key[0] == access.space]:
            del together[key]


def address_shape(emitter: Emitter, access: Access) -> Shape:
    """The shape of an access's base; too wide a pattern counts as a vector."""
    shape = emitter.shapes.operand(access.address)
    if shape.kind != UNIFORM and (not shape.pattern or max(shape.offsets) - min(shape.offsets) > PATTERN_SPAN_MAX):
        return Shape(VECTOR)
    return shape


def emit_access(emitter: Emitter, access: Access) -> list[Value]:
    """Emit an access whose lanes are `emitter.mask`; a load returns its elements as stored in registers' widths.

    Nothing of the kernel moves across a volatile or ordered access, in the host's compiler or in its processor.
    """
    modifiers = access.op.instruction.modifiers
    if access.fenced:
        emitter.code.line(_CLOBBER)
    if ".release" in modifiers:
        emitter.code.line("fence release")
    results = _move(emitter, access)
    if ".acquire" in modifiers:
        emitter.code.line("fence acquire")
    if access.fenced:
        emitter.code.line(_CLOBBER)
    return results


def _move(emitter: Emitter, access: Access) -> list[Value]:
    """The access itself."""
    if access.space == "param":
        return _load_param(emitter, access)
    shape = address_shape(emitter, access)
    if access.store:
        access.values = _store_sources(emitter, access)
    if access.space == "generic" or shape.kind == VECTOR:
        return _move_vector(emitter, access, access_pointers(emitter, access))
    relative = _check_group(emitter, access, shape)
    _event(emitter, access, relative, shape)
    pointer = emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {relative}", "ptr")
    pattern = list(shape.offsets)
    if access.space == "local":
        pattern = [p + lane * local_stride(emitter) for lane, p in enumerate(pattern)]
    results = []
    for index in range(access.count):
        at = access.offset + index * access.element_bytes
        if access.store:
            _store_pattern(emitter, pointer, at, pattern, access.values[index])
        else:
            results.append(_load_pattern(emitter, pointer, at, pattern, element_type(access.type)))
    return results


def arena(emitter: Emitter, space: str) -> str:
    """The SSA name of an arena's first byte."""
    return {"global": "%global", "shared": "%shared", "local": "%local"}[space]


def limit(emitter: Emitter, space: str) -> Value:
    """Bytes of an arena (of one thread's, for local)."""
    if space == "local":
        return emitter.code.const("i64", emitter.layout.local_bytes)
    return Value(f"%{space}.limit", "i64")


def local_stride(emitter: Emitter) -> int:
    """Bytes between the local arenas of neighbouring lanes."""
    return align_up(emitter.layout.local_bytes, 16)


def base_offset(emitter: Emitter, access: Access, *, base: bool) -> Value:
    """The arena offset of an access's base register (lane 0 with `base`), as i64."""
    code = emitter.code
    if isinstance(access.address, tree.Symbol):  # a variable of the module or of the frame
        address = emitter.symbol(access.address)
    else:
        operand = access.address
        bits = 64
        if isinstance(operand, tree.Register) and operand.name in emitter.graph.registers:
            bits = Value("", storage_type(emitter.graph.registers[operand.name])).bits
        # by its sign, so that a base below the arena reaches it again through a lane's pattern or an offset
        address = code.resize(emitter.read(operand, f"b{bits}", base=base), "i64", signed=True)
    if access.space == "global":
        address = code.sub(address, code.const("i64", GLOBAL_BASE))
    return address


def _check_group(emitter: Emitter, access: Access, shape: Shape) -> Value:
    """The arena offset of lane 0's base, checked for the whole group at its first access."""
    group = access.group
    assert group is not None
    if group.relative is not None:
        return group.relative
    code = emitter.code
    relative = group.relative = base_offset(emitter, access, base=True)
    offsets = shape.offsets
    low = min(m.offset for m in group.members) + min(offsets)
    high = max(m.offset + m.total_bytes for m in group.members) + max(offsets)
    bound = limit(emitter, access.space)
    start = code.add(relative, code.const("i64", low))
    end = code.add(start, code.const("i64", high - low))
    good = code.and_(code.icmp("ule", start, bound), code.icmp("ule", end, bound))
    alignment, always = _alignment(group, offsets)
    if always:
        good = code.const("i1", 0)
    elif alignment > shape.align:
        low_bits = code.and_(relative, code.const("i64", alignment - 1))
        good = code.and_(good, code.icmp("eq", low_bits, code.const("i64", 0)))
    fine, cold = code.label("inside"), code.label("outside")
    code.branch_if(good, fine, cold, likely=True)
    code.place(cold)
    bad = _recheck(emitter, group, relative, bound, offsets)
    code.branch_if(bad, "fault", fine, likely=False)
    code.place(fine)
    return relative


def _alignment(group: Group, offsets: tuple[int, ...]) -> tuple[int, bool]:
    """The alignment the base must have, and whether some access is misaligned whatever the base is."""
    needed = 1
    for member in group.members:
        natural = member.total_bytes
        natural &= -natural
        if any((member.offset + o) % natural for o in set(offsets)):
            return needed, True
        needed = max(needed, natural)
    return needed, False


def _recheck(emitter: Emitter, group: Group, relative: Value, bound: Value, offsets: tuple[int, ...]) -> Value:
    """Call the cold path; an i1 that tells whether a lane that runs is outside or misaligned."""
    rows: list[int] = []
    for member in group.members:
        rows += [_site(emitter, member), member.offset, member.total_bytes]
    table = emitter.constant_array("i32", rows)
    pattern = emitter.constant_array("i32", offsets)
    start = emitter.code.const("i64", GLOBAL_BASE if group.members[0].space == "global" else 0)
    declare_runtime(emitter, "tw.recheck", "i1", "ptr, ptr, i64, i64, i64, i32, ptr, ptr, i32")
    return emitter.code.op(
        f"call i1 @tw.recheck(ptr %context, ptr %warp, {relative}, {bound}, {start}, {emitter.mask}, ptr {pattern}, "
        f"ptr {table}, i32 {len(group.members)})",
        "i1",
    )


def declare_runtime(emitter: Emitter, symbol: str, result: str, arguments: str) -> None:
    """Declare a function of the runtime module."""
    emitter.code.declare(symbol, f"declare {result} @{symbol}({arguments})")


def _site(emitter: Emitter, access: Access) -> int:
    kind = "atomic" if access.op.instruction.opcode in ("atom", "red") else ""
    return emitter.add_site(event_site(emitter, access, kind))


def _event(emitter: Emitter, access: Access, relative: Value, shape: Shape) -> None:
    """Tell instruments of a checked access with a pattern address."""
    if not emitter.instruments:
        return
    code = emitter.code
    start = code.const("i64", GLOBAL_BASE if access.space == "global" else 0)
    offsets = tuple(o + access.offset for o in shape.offsets)

    def arguments(handler: Handler) -> str:
        base = code.add(relative, start)
        if handler.pattern:
            base = code.add(base, code.const("i64", handler.ahead_bytes))
            return f"{emitter.mask}, {base}{_told_values(emitter, access, handler)}"
        addresses = code.add(code.splat(base), code.pattern("i64", offsets))
        return _told_addresses(emitter, access, addresses, handler)

    told: set[int] = set()
    if access.together is not None and len(access.together.members) > 1:
        if access.together.told is None:
            sites = [event_site(emitter, member) for member in access.together.members]
            each = [tuple(o + member.offset for o in shape.offsets) for member in access.together.members]
            access.together.told = emitter.tell_together(sites, arguments, each)
        told = access.together.told
    emitter.tell(event_site(emitter, access), arguments, offsets, told)


def tell(emitter: Emitter, access: Access, addresses: Value, kind: str = "") -> None:
    """Tell instruments of an access; `addresses` are those of its own state space."""
    emitter.tell(
        event_site(emitter, access, kind), lambda handler: _told_addresses(emitter, access, addresses, handler)
    )


def event_site(emitter: Emitter, access: Access, kind: str = "") -> Site:
    """The site of an access; `kind` where it is neither a load nor a store."""
    item = access.op.instruction
    action = kind or ("store" if access.store else "load")
    source = emitter.source_of(item)
    return Site(EventKind.ACCESS, item.ptx_line, source, item.name, 1, access.space, action, access.total_bytes)


def _told_addresses(emitter: Emitter, access: Access, addresses: Value, handler: Handler) -> str:
    emitter.code.line(f"store {emitter.code.splat(addresses)}, ptr %addresses, align 64")
    return f"{emitter.mask}, ptr %addresses, i32 {access.total_bytes}{_told_values(emitter, access, handler)}"


def _told_values(emitter: Emitter, access: Access, handler: Handler) -> str:
    """The last argument of a handler that asks for the values of a store."""
    if not handler.values:
        return ""
    for index, value in enumerate(access.values):
        store_values(emitter, index, value)
    return ", ptr %values"


def store_values(emitter: Emitter, index: int, value: Value) -> None:
    """Leave a value where handlers read it."""
    at = emitter.code.op(f"getelementptr i8, ptr %values, i64 {index * VALUES_STRIDE_BYTES}", "ptr")
    emitter.code.line(f"store {emitter.code.splat(value)}, ptr {at.text}, align 64")


def _load_param(emitter: Emitter, access: Access) -> list[Value]:
    """A kernel parameter: a load from the parameter block, bounded at translation."""
    if access.store:
        item = access.op.instruction
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' writes a parameter of the kernel, which can only "
            "be read; write to a local variable instead"
        )
    if access.offset < 0 or access.offset + access.total_bytes > emitter.layout.param_bytes:
        item = access.op.instruction
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' reads bytes {access.offset} to "
            f"{access.offset + access.total_bytes} of {emitter.layout.param_bytes} parameter bytes"
        )
    type_ = element_type(access.type)
    start = emitter.context("params", "ptr")
    values = []
    for index in range(access.count):
        at = access.offset + index * access.element_bytes
        pointer = emitter.code.op(f"getelementptr i8, ptr {start.text}, i64 {at}", "ptr")
        values.append(emitter.code.op(f"load {type_}, ptr {pointer.text}, align 1", type_))
    return values


def _store_sources(emitter: Emitter, access: Access) -> list[Value]:
    operand = access.op.instruction.operands[1]
    items = operand.items if isinstance(operand, tree.Vector) else (operand,)
    return [emitter.read(i, access.type) for i in items]


def _load_pattern(emitter: Emitter, pointer: Value, at: int, pattern: list[int], type_: str) -> Value:
    """Load lane-patterned elements: one load and a splat, one vector load, a window and a shuffle, or a gather."""
    code = emitter.code
    size = Value("", type_).bits // 8
    distinct = sorted(set(pattern))
    if len(distinct) == 1:
        return code.op(f"load {type_}, ptr {_at(emitter, pointer, at + distinct[0])}, align 1", type_)
    low = distinct[0]
    if all((p - low) % size == 0 for p in distinct):
        lanes = [(p - low) // size for p in pattern]
        if len(distinct) <= _SINGLE_LOADS_MAX:
            return _load_few(emitter, pointer, at, pattern, distinct, type_)
        width = max(lanes) + 1
        if width * size <= _WINDOW_BYTES_MAX:
            window = f"<{width} x {type_}>"
            value = code.op(f"load {window}, ptr {_at(emitter, pointer, at + low)}, align 1", type_, width)
            if lanes == list(range(LANES)):
                return value
            order = ", ".join(f"i32 {i}" for i in lanes)
            return code.op(f"shufflevector {value}, {window} poison, <{LANES} x i32> <{order}>", type_, LANES)
    pointers = code.op(
        f"getelementptr i8, ptr {pointer.text}, {code.pattern('i64', [p + at for p in pattern])}", "ptr", LANES
    )
    return _gather(emitter, pointers, code.splat(code.const("i1", 1)), type_)


def _load_few(emitter: Emitter, pointer: Value, at: int, pattern: list[int], distinct: list[int], type_: str) -> Value:
    code = emitter.code
    vector = f"<{len(distinct)} x {type_}>"
    gathered = Value("poison", type_, len(distinct))
    for index, offset in enumerate(distinct):
        element = code.op(f"load {type_}, ptr {_at(emitter, pointer, at + offset)}, align 1", type_)
        gathered = code.op(f"insertelement {gathered}, {element}, i32 {index}", type_, len(distinct))
    order = ", ".join(f"i32 {distinct.index(p)}" for p in pattern)
    return code.op(f"shufflevector {gathered}, {vector} poison, <{LANES} x i32> <{order}>", type_, LANES)


def _store_pattern(emitter: Emitter, pointer: Value, at: int, pattern: list[int], value: Value) -> None:
    """Store under the mask: one store, a masked vector store, or a masked scatter."""
    code = emitter.code
    size = value.bits // 8
    if len(set(pattern)) == 1:  # every lane writes the same place: the last one stays
        if value.lanes != 1:
            leading = code.call("llvm.ctlz", "i32", emitter.mask, flags="i1 false")
            last = code.sub(code.const("i32", LANES - 1), leading)
            value = code.lane(value, code.and_(last, code.const("i32", LANES - 1)))
        code.line(f"store {value}, ptr {_at(emitter, pointer, at + pattern[0])}, align 1")
        return
    value = code.splat(value)
    if [p - pattern[0] for p in pattern] == [size * lane for lane in range(LANES)]:
        symbol = f"llvm.masked.store.v{LANES}{_suffix(value)}.p0"
        code.declare(symbol, f"declare void @{symbol}({value.ir_type}, ptr, <{LANES} x i1>)")
        code.line(
            f"call void @{symbol}({value}, ptr align 1 {_at(emitter, pointer, at + pattern[0])}, {emitter.mask_vector})"
        )
        return
    pointers = code.op(
        f"getelementptr i8, ptr {pointer.text}, {code.pattern('i64', [p + at for p in pattern])}", "ptr", LANES
    )
    _scatter(emitter, pointers, emitter.mask_vector, value)


def _at(emitter: Emitter, pointer: Value, offset: int) -> str:
    if offset == 0:
        return pointer.text
    return emitter.code.op(f"getelementptr i8, ptr {pointer.text}, i64 {offset}", "ptr").text


def _suffix(value: Value) -> str:
    return {"float": "f32", "double": "f64"}.get(value.type, value.type)


def _gather(emitter: Emitter, pointers: Value, mask: Value, type_: str) -> Value:
    code = emitter.code
    result = f"<{LANES} x {type_}>"
    symbol = f"llvm.masked.gather.v{LANES}{_suffix(Value('', type_))}.v{LANES}p0"
    code.declare(symbol, f"declare {result} @{symbol}(<{LANES} x ptr>, <{LANES} x i1>, {result})")
    return code.op(
        f"call {result} @{symbol}(<{LANES} x ptr> align 1 {pointers.text}, {mask}, {result} zeroinitializer)",
        type_,
        LANES,
    )


def _scatter(emitter: Emitter, pointers: Value, mask: Value, value: Value) -> None:
    code = emitter.code
    symbol = f"llvm.masked.scatter.v{LANES}{_suffix(value)}.v{LANES}p0"
    code.declare(symbol, f"declare void @{symbol}({value.ir_type}, <{LANES} x ptr>, <{LANES} x i1>)")
    code.line(f"call void @{symbol}({value}, <{LANES} x ptr> align 1 {pointers.text}, {mask})")


def _vector_pointers(emitter: Emitter, access: Access, kind: str) -> Value:
    """Host pointers of an access whose address differs freely between lanes, checked under the mask."""
    offsets = checked_offsets(emitter, access, kind)
    if access.space == "local":
        stride = local_stride(emitter)
        offsets = emitter.code.add(offsets, emitter.code.pattern("i64", [lane * stride for lane in range(LANES)]))
    return emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {offsets}", "ptr", LANES)


def checked_offsets(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Arena offsets of all lanes, after a check of those that run; also tells the instruments."""
    code = emitter.code
    offsets = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", access.offset)))
    bound = limit(emitter, access.space)
    size = code.const("i64", access.total_bytes)
    end = code.add(offsets, size)
    inside = code.and_(code.icmp("ule", offsets, bound), code.icmp("ule", end, bound))
    natural = access.total_bytes & -access.total_bytes
    if natural > 1:
        low = code.and_(offsets, code.const("i64", natural - 1))
        inside = code.and_(inside, code.icmp("eq", low, code.const("i64", 0)))
    fault_unless(emitter, access, inside, offsets, GLOBAL_BASE if access.space == "global" else 0)
    if emitter.instruments:
        start = GLOBAL_BASE if access.space == "global" else 0
        tell(emitter, access, code.add(offsets, code.const("i64", start)), kind)
    return offsets


def fault_unless(emitter: Emitter, access: Access, inside: Value, offsets: Value, start: int) -> None:
    """Leave with a fault when a lane that runs is not inside."""
    code = emitter.code
    lanes = code.op(f"bitcast <{LANES} x i1> {code.splat(inside).text} to i32", "i32")
    bad = code.and_(emitter.mask, code.not_(lanes))
    fine, cold = code.label("inside"), code.label("outside")
    code.branch_if(code.icmp("eq", bad, code.const("i32", 0)), fine, cold, likely=True)
    code.place(cold)
    code.line(f"store {code.splat(code.add(offsets, code.const('i64', start)))}, ptr %addresses, align 64")
    declare_runtime(emitter, "tw.fault", "void", "ptr, ptr, i32, i32, ptr, i32")
    site = _site(emitter, access)
    code.line(
        f"call void @tw.fault(ptr %context, ptr %warp, i32 {site}, {bad}, ptr %addresses, i32 {access.total_bytes})"
    )
    code.branch("fault")
    code.place(fine)


def _move_vector(emitter: Emitter, access: Access, pointers: Value) -> list[Value]:
    """Gather or scatter, one element of a vector access at a time."""
    code = emitter.code
    type_ = element_type(access.type)
    results = []
    for index in range(access.count):
        at = pointers
        if index:
            step = code.splat(code.const("i64", index * access.element_bytes))
            at = code.op(f"getelementptr i8, <{LANES} x ptr> {pointers.text}, {step}", "ptr", LANES)
        if access.store:
            _scatter(emitter, at, emitter.mask_vector, code.splat(access.values[index]))
        else:
            results.append(_gather(emitter, at, emitter.mask_vector, type_))
    return results
