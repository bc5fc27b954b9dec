"""Loads and stores: the record of an access, its address, and the groups of accesses that one check covers.

`bounds` emits the checks, `access_events` calls instruments, and `moves` emits the loads and stores themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import PtxError
from tilewright.simulate.code import Value, element_type
from tilewright.simulate.isa.kinds import KINDS
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.state import AFFINE_SPAN_MAX, GLOBAL_BASE, SLOT
from tilewright.simulate.translate.analysis.graph import Block, Op
from tilewright.simulate.translate.analysis.layout import align_up
from tilewright.simulate.translate.analysis.shape import AFFINE, UNIFORM, VECTOR, Shape
from tilewright.simulate.translate.lowering.emitter import Emitter, storage_type

#: The space of the shared memories of a cluster with several blocks.
CLUSTER = "shared::cluster"

#: A state space in an instruction's name, and its arena.
_SPACES = {name: name for name in ("global", "shared", "local", "param")} | {"const": "global", CLUSTER: CLUSTER}
#: Most loads in one joint event, so that instruments' tables stay small.
_TOGETHER_MAX = 64


@dataclass(slots=True)
class Access:
    """A load or store."""

    op: Op
    space: str  # "global", "shared", "shared::cluster", "local", "param", "generic"
    address: tree.Operand
    offset: int
    count: int  # vector elements
    type: str  # PTX type of an element
    store: bool
    fenced: bool  # volatile or stronger: no access may move across it
    group: Group | None = None
    together: Together | None = None
    values: list[Value] = field(default_factory=list)  # the values of a store, once they are read
    notified: bool = False  # instruments were notified
    ahead: Value | None = None  # bytes to add to a lane's address for its place

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return max(1, Value("", element_type(self.type)).bits // 8)

    @property
    def total_bytes(self) -> int:
        """Bytes a lane moves."""
        return self.element_bytes * self.count

    @property
    def alignment(self) -> int:
        """The number of which an address must be a multiple: the largest power of two that divides the bytes."""
        return self.total_bytes & -self.total_bytes


@dataclass(slots=True)
class Group:
    """Accesses checked together; `rel` is the checked arena offset of lane 0, once it is emitted."""

    members: list[Access] = field(default_factory=list)
    relative: Value | None = None


@dataclass(slots=True)
class Together:
    """Loads of a group, with no writes in between, that may have one joint event before the first of them.

    `notified` are the numbers of the instruments that were notified.
    """

    members: list[Access] = field(default_factory=list)
    notified: set[int] | None = None


def describe(emitter: Emitter, op: Op) -> Access:
    """Make the access of an instruction, with variables resolved to offsets."""
    item = op.instruction
    parts = [m.lstrip(".") for m in item.modifiers]
    space = next((space for p in parts if (space := space_of(p))), "generic")
    count = next((int(p[1:]) for p in parts if p in ("v2", "v4", "v8")), 1)
    type_ = parts[-1]
    stores = op.form.row.stores
    address = item.operands[0] if stores else item.operands[1]
    if not isinstance(address, tree.Address):
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' needs an address in brackets")
    fenced = bool({"volatile", "relaxed", "acquire", "release", "mmio"} & set(parts))
    base, offset, space = resolve(emitter, item, address, space)
    return Access(op, space, base, offset, count, type_, stores, fenced)


def space_of(part: str) -> str:
    """The arena of a part of an instruction's name; "" for other parts.

    >>> space_of("shared::cta"), space_of("const"), space_of("param::entry"), space_of("f32")
    ('shared', 'global', 'param', '')
    """
    return _SPACES.get(part) or _SPACES.get(part.partition("::")[0], "")


#: The PTX type that a copy moves as one element, by its bytes.
_COPIED = {4: "b32", 8: "b64", 16: "b128"}


def describe_copy(emitter: Emitter, op: Op) -> tuple[Access, Access]:
    """The load and the store of a copy."""
    item = op.instruction
    target, origin, size = item.operands[:3]
    sizes = (16,) if op.form["cop"] == "cg" else tuple(_COPIED)
    if not isinstance(size, tree.Immediate) or size.value not in sizes:
        rule = " or ".join(map(str, sizes))
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' copies {rule} bytes (got {operand_text(size)})"
        )
    read, written = resolve(emitter, item, origin, "global"), resolve(emitter, item, target, "shared")
    type_ = _COPIED[size.value]
    return (
        Access(op, read[2], read[0], read[1], 1, type_, False, False),
        Access(op, written[2], written[0], written[1], 1, type_, True, False),
    )


def resolve(
    emitter: Emitter, item: tree.Instruction, address: tree.Operand, space: str
) -> tuple[tree.Operand, int, str]:
    """An address's base, byte offset and state space, with variables resolved to their places."""
    if not isinstance(address, tree.Address):
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' needs an address in brackets")
    base: tree.Operand = address.base if address.base is not None else tree.Immediate(0)
    offset = address.offset + (base.offset if isinstance(base, tree.Symbol) else 0)
    if space == CLUSTER and (isinstance(base, tree.Symbol) or not emitter.launch.clustered):
        space = "shared"
    if not -(1 << 31) <= offset < 1 << 31:  # group checks keep offsets in 32 bits
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' must have an offset of signed 32 bits (got {offset})"
        )
    if not isinstance(base, tree.Symbol):
        # a parameter whose address was taken: the parameter block is in the global arena
        return base, offset, "global" if space == "param" else space
    place = emitter.layout.places.get(base.name)
    if place is None:
        raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{base.name}' is not declared as a variable")
    actual = "global" if place[0] == "module" else place[0]
    if space in ("generic", "param"):
        space = actual
    if actual != space:
        raise PtxError(
            f"{emitter.module.path}:{item.ptx_line}: '{item.name}' names '{base.name}', which is in .{actual}"
        )
    if actual in ("global", "local"):
        return tree.Symbol(base.name), offset, space
    return tree.Immediate(0), offset + place[1], space


def group_accesses(emitter: Emitter, block: Block) -> dict[int, tuple[Access, ...]]:
    """Describe a block's accesses (by position) and group those that one check covers."""
    found: dict[int, tuple[Access, ...]] = {}
    groups: dict[tuple[object, ...], Group] = {}
    together: dict[tuple[object, ...], Together] = {}
    versions: dict[str, int] = {}
    for position, op in enumerate(block.ops):
        kind = op.form.row.kind
        if kind in ("memory", "copy"):
            found[position] = (describe(emitter, op),) if kind == "memory" else describe_copy(emitter, op)
        for access in found.get(position, ()):
            shape = address_shape(emitter, access)
            _part(together, access)
            if access.space in ("global", "shared", "local") and shape.kind != VECTOR:
                name = getattr(access.address, "name", "")
                # a guarded access is in a branch of its own, whose check covers no other access; so is one whose
                # number of bytes is known only at run time
                alone = op.guard or (kind == "copy" and not access.store and reads_some(op))
                key = (access.space, name, versions.get(name, 0), position if alone else -1)
                access.group = groups.setdefault(key, Group())
                access.group.members.append(access)
                if kind == "memory" and not (access.store or access.fenced):
                    access.together = together.setdefault(key, Together())
                    access.together.members.append(access)
                    if len(access.together.members) == _TOGETHER_MAX:
                        del together[key]
        if position not in found and not KINDS[kind].pure:
            together.clear()
        for name in op.writes:
            versions[name] = versions.get(name, 0) + 1
    return found


def reads_some(op: Op) -> bool:
    """Whether a copy has an operand for the number of bytes to read."""
    return "read" in op.form.row.operand_names(len(op.instruction.operands))


def _part(together: dict[tuple[object, ...], Together], access: Access) -> None:
    """Drop loads that may not share an event with loads after an access."""
    if access.fenced or (access.store and access.space == "generic"):
        together.clear()
    elif access.store:
        for key in [key for key in together if key[0] == access.space.partition("::")[0]]:
            del together[key]


def address_shape(emitter: Emitter, access: Access) -> Shape:
    """The shape of an access's base; a shape that is too wide, or has a stride, counts as a vector."""
    shape = emitter.shapes.operand(access.address)
    narrow = max(shape.offsets) - min(shape.offsets) <= AFFINE_SPAN_MAX
    return shape if shape.kind in (UNIFORM, AFFINE) and narrow else Shape(VECTOR)


def arena(emitter: Emitter, space: str) -> str:
    """The SSA name of an arena's first byte."""
    if space == CLUSTER:
        return emitter.field("%slot", SLOT["arena"], "ptr").text
    return {"global": "%global", "shared": "%shared", "local": "%local"}[space]


def shared_start(emitter: Emitter) -> Value:
    """The start of the block's shared memory among those of its cluster."""
    return emitter.field("%slot", SLOT["shared_start"], "i64")


def limit(emitter: Emitter, space: str) -> Value:
    """Bytes of an arena (of one thread's, for local)."""
    if space == "local":
        return emitter.code.const("i64", emitter.layout.local_bytes)
    return Value(f"%{space.partition('::')[0]}.limit", "i64")


def local_stride(emitter: Emitter) -> int:
    """Bytes between the local arenas of neighbouring lanes."""
    return align_up(emitter.layout.local_bytes, 16)


def base_offset(emitter: Emitter, access: Access, *, base: bool) -> Value:
    """The arena offset of an access's base register (lane 0 with `base`), as i64."""
    address = base_address(emitter, access, base=base)
    if access.space == "global":
        return emitter.code.sub(address, emitter.code.const("i64", GLOBAL_BASE))
    return address


def base_address(emitter: Emitter, access: Access, *, base: bool) -> Value:
    """The address in an access's base register (lane 0 with `base`) in its own state space, as i64."""
    code = emitter.code
    if isinstance(access.address, tree.Symbol):  # a variable of the module or of the frame
        address = emitter.symbol(access.address)
    else:
        operand = access.address
        bits = 64
        if isinstance(operand, tree.Register) and operand.name in emitter.graph.registers:
            bits = Value("", storage_type(emitter.graph.registers[operand.name])).bits
        # sign-extended: a base below the arena may be inside again after adding the offsets
        address = code.resize(emitter.read(operand, f"b{bits}", base=base), "i64", signed=True)
    if access.ahead is not None:
        address = code.add(address, access.ahead)
    if access.space == "shared" and emitter.launch.clustered and not isinstance(access.address, tree.Immediate):
        address = code.sub(address, shared_start(emitter))
    return address
