"""The places of variables: offsets of shared, local, parameter and module variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tilewright.errors import PtxError
from tilewright.simulate.isa import Role, role_of
from tilewright.simulate.ptx import tree

#: The part of a block's shared memory that a GPU reserves for its own code, from sm_80 on. Cooperative groups keep the
#: barriers of tiles wider than a warp there, and expect zeros. Its registers are the offsets in it. Source: PTX ISA,
#: 10.31 (%reserved_smem_offset); CUDA C++ Programming Guide, 16.2 (technical specifications).
RESERVED = "%reserved_smem"
RESERVED_BYTES = 1024
RESERVED_OFFSETS = {
    f"{RESERVED}_offset_begin": 0,
    f"{RESERVED}_offset_0": 0,
    f"{RESERVED}_offset_1": 256,
    f"{RESERVED}_offset_end": RESERVED_BYTES,
    f"{RESERVED}_offset_cap": RESERVED_BYTES,
}
#: Constant memory for the constants of a module, whatever the GPU. Source: PTX ISA, 5.1.3 (Constant State Space), and
#: what the assembler refuses.
CONST_BYTES_MAX = 64 << 10


def align_up(offset: int, alignment: int) -> int:
    """The next multiple of a power of two."""
    return -(-offset // alignment) * alignment


@dataclass(slots=True)
class Layout:
    """Offsets by variable name, and the bytes each space needs."""

    #: Variable -> (space, offset); space is "shared", "local", "param" or "module".
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    shared_bytes: int = 0  #: Static shared memory.
    local_bytes: int = 0  #: Local memory of a thread.
    param_bytes: int = 0
    module_bytes: int = 0
    #: All functions of the module; the address of the i-th is i + 1.
    functions: list[str] = field(default_factory=list)
    #: Local memory of the function's own variables; `local_bytes` also has the frames of called functions.
    frame_bytes: int = 0
    stack_start: int = 0  #: Offset of a thread's stack, which takes the rest of its local memory.
    gap_bytes: int = 0  #: Unused bytes after each variable, for instruments.
    #: Bytes of `shared_bytes` that are only gaps for instruments, which a GPU does not have.
    shared_gap_bytes: int = 0
    #: Variable of shared or local memory -> bytes; 0 for dynamic shared memory.
    sizes: dict[str, int] = field(default_factory=dict)
    has_tensor_memory: bool = False  #: Whether a block needs tensor memory.
    dynamic_alignment: int = 16  #: Dynamic shared memory starts after static shared memory, at a multiple of this.

    @property
    def dynamic_start(self) -> int:
        """Offset of dynamic shared memory."""
        return align_up(self.shared_bytes, self.dynamic_alignment)

    @property
    def params(self) -> dict[str, int]:
        """Offsets of the entry's parameters."""
        return {name: offset for name, (space, offset) in self.places.items() if space == "param"}

    @property
    def calls(self) -> bool:
        """Whether some functions are not inlined; each call takes a frame of the host's stack."""
        return self.stack_start > self.frame_bytes


def lay_out(module: tree.Module, entry: tree.Function, gap: int = 0, called: Iterable[tree.Function] = ()) -> Layout:
    """Place every variable that a kernel can name, with `gap` unused bytes after each in shared and local memory.

    Shared variables of the functions that it calls are among them: dynamic shared memory comes behind all.

    Raises PtxError: the constants do not fit constant memory.
    """
    layout = Layout(gap_bytes=gap)
    dynamic: list[str] = []
    _place_in_module(layout, module, (*module.variables.values(), *entry.variables))
    shared = [v for v in (*module.variables.values(), *entry.variables) if v.space == "shared"]
    shared += [
        replace(v, name=own_name(function, v)) for function in called for v in function.variables if v.space == "shared"
    ]
    roles = {opcode: role_of(opcode) for opcode in {item.opcode for item in _instructions(module, entry)}}
    if _reads_reserved(module, entry, {opcode for opcode, role in roles.items() if role is Role.COPY}):
        shared.append(tree.Variable(RESERVED, "shared", ".b8", RESERVED_BYTES, align=16))
        layout.shared_gap_bytes += RESERVED_BYTES
    for variable in shared:
        if variable.is_extern or variable.count == 0:
            dynamic.append(variable.name)
            layout.dynamic_alignment = max(layout.dynamic_alignment, variable.alignment)
            continue
        offset = align_up(layout.shared_bytes, variable.alignment)
        layout.places[variable.name] = ("shared", offset)
        layout.sizes[variable.name] = variable.size
        layout.shared_bytes = offset + variable.size + gap
        layout.shared_gap_bytes += gap
    for name in dynamic:
        layout.places[name] = ("shared", layout.dynamic_start)
    for variable in entry.variables:
        if variable.space in ("local", "param"):
            offset = align_up(layout.local_bytes, variable.alignment)
            layout.places[variable.name] = ("local", offset)
            layout.sizes[variable.name] = variable.size
            layout.local_bytes = offset + variable.size + gap
    for parameter in entry.params:
        if isinstance(parameter, tree.Variable):
            offset = align_up(layout.param_bytes, parameter.alignment)
            layout.places[parameter.name] = ("param", offset)
            layout.param_bytes = offset + parameter.size
    layout.local_bytes = layout.frame_bytes = layout.stack_start = align_up(layout.local_bytes, 16)
    layout.functions = list(module.functions)
    layout.has_tensor_memory = Role.TENSOR_MEMORY in roles.values()
    return layout


def _place_in_module(layout: Layout, module: tree.Module, variables: Iterable[tree.Variable]) -> None:
    """Place the global and constant variables one after another."""
    const_bytes = 0  # without padding, because the assembler sorts them
    for variable in variables:
        if variable.space not in ("global", "const"):
            continue
        const_bytes += variable.size * (variable.space == "const")
        if const_bytes > CONST_BYTES_MAX:
            raise PtxError(
                f"{module.path}:{variable.ptx_line}: the constants of a module must have at most {CONST_BYTES_MAX:,} "
                f"bytes (got {const_bytes:,} with '{variable.name}'); put large tables in global memory"
            )
        offset = align_up(layout.module_bytes, variable.alignment)
        layout.places[variable.name] = ("module", offset)
        layout.module_bytes = offset + variable.size


def own_name(function: tree.Function, variable: tree.Variable) -> str:
    """The name in a layout of a variable that a called function declares itself; others may have one of its name."""
    return f"{function.name}.{variable.name}"


def _instructions(module: tree.Module, entry: tree.Function) -> Iterator[tree.Instruction]:
    """The instructions of a kernel and of every function that it might call."""
    for function in (entry, *(f for f in module.functions.values() if not f.is_entry)):
        yield from (item for item in function.body if isinstance(item, tree.Instruction))


def _reads_reserved(module: tree.Module, entry: tree.Function, copies: set[str]) -> bool:
    """Whether a kernel, or a function that it might call, reads the offset of the reserved shared memory by a copy."""
    return any(
        isinstance(operand, tree.Register) and operand.name in RESERVED_OFFSETS
        for item in _instructions(module, entry)
        if item.opcode in copies
        for operand in item.operands
    )


def initial_data(module: tree.Module, entry: tree.Function, layout: Layout, base: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of every initialised variable, the module's variables placed at device address `base`.

    Raises PtxError: an initialiser names a symbol without an address, or is longer than its variable.
    """
    for variable in (*module.variables.values(), *entry.variables):
        place = layout.places.get(variable.name)
        if place is None or place[0] != "module" or not variable.initial:
            continue
        size = variable.element_bytes // variable.vector
        data = bytearray()
        for item in variable.initial:
            if isinstance(item, tree.Symbol):
                value = symbol_address(layout, item, base, module.path, variable.ptx_line)
            else:
                value = int(item)
            data += (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        if len(data) > variable.size:
            raise PtxError(
                f"{module.path}:{variable.ptx_line}: the initialiser of '{variable.name}' must fit its "
                f"{variable.size:,} bytes (got {len(data):,})"
            )
        yield place[1], bytes(data)


def symbol_address(layout: Layout, symbol: tree.Symbol, base: int, path: str, line: int) -> int:
    """The device address of a symbol in an initialiser."""
    place = layout.places.get(symbol.name)
    if place is not None and place[0] == "module":
        return base + place[1] + symbol.offset
    if symbol.name in layout.functions:
        return layout.functions.index(symbol.name) + 1
    raise PtxError(f"{path}:{line}: initialiser names '{symbol.name}', which has no address here")
