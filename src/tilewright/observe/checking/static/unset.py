"""TW204: registers that no path sets before they are read; and loads whose values are used as numbers.

A copy alone is no use: compilers copy a variable before it is set wherever that costs nothing. Nor is a conversion of
two numbers to one register, of which a tile of few elements may have one only. A result counts as set as soon as one
path can set it, so a reported register is set on no path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.isa import Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op, registers_of

#: Instructions that copy a value or choose between values: their result is set as soon as one source is.
_PASSING = (Role.COPY, Role.CHOOSE, Role.PIECE)
#: Instructions that use a number as a whole, and not some of its bits.
_COUNTING = frozenset(map(Role, ("compare", "sum", "product", "multiply-add", "function", "sign", "least", "greatest")))
#: Atomics that do so.
_CHANGES = ("add", "inc", "dec", "min", "max")
_INTEGER = re.compile(r"[usb]\d+")


def findings(values: Values, kernel: str) -> list[Finding]:
    """A finding for each first use of a register that nothing has set.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ... ld.param.u64 %rd1, [out];
    ... add.s32 %r2, %r1, 1;
    ... st.global.u32 [%rd1], %r2; ret; }'''
    >>> [(f.ptx_line, f.message) for f in findings(of_kernel(text, "k"), "k")]
    [(4, '`add.s32` reads %r1, which no path to it sets')]
    """
    used = {id(op): (op, unset) for op, unset in _uses(values)}
    tainted = {register for op, _ in used.values() for register in op.writes}
    found = []
    for op, unset in used.values():
        # A use of a result that is itself unset is not reported again; an unset accumulator depends on itself.
        follows = [o for r in unset & tainted for o in values.origins([r]) if id(o) in used and o is not op]
        if any(other.instruction.ptx_line < op.instruction.ptx_line for other in follows):
            continue
        found.append(values.finding("TW204", op, kernel, {"registers": sorted(unset)}))
    return found


def _uses(values: Values) -> Iterator[tuple[Op, set[str]]]:
    """Instructions that use unset registers, with these registers."""
    known = _known_at_blocks(values)
    for block in values.graph.blocks:
        here = set(known[block.index])
        for op in (*block.ops, *([block.end] if block.end else [])):
            unset = set(_used(op)) - here
            if unset and not _passes(op):
                yield op, unset
            _follow(op, here)


def _known_at_blocks(values: Values) -> list[set[str]]:
    """For each block, the registers that some path to it has set, computed to a fixed point."""
    blocks = values.graph.blocks
    known: list[set[str]] = [set() for _ in blocks]
    waiting = list(range(len(blocks)))[::-1]
    while waiting:
        index = waiting.pop()
        here = set(known[index])
        for op in blocks[index].ops:
            _follow(op, here)
        for successor in blocks[index].successors:
            if not here <= known[successor]:
                known[successor] |= here
                if successor not in waiting:
                    waiting.append(successor)
    return known


def _follow(op: Op, known: set[str]) -> None:
    """Add the registers that an instruction sets."""
    sources = [r for r in _used(op) if op.guard is None or r != op.guard.register.name]
    missing = [r for r in sources if r not in known]
    if not missing or (_passes(op) and len(missing) < len(set(sources))):
        known.update(op.writes)


def _used(op: Op) -> tuple[str, ...]:
    """The registers whose values an instruction needs: not the accumulators of a `wgmma` that starts a new sum."""
    if op.form.row.kind != "warpgroup" or not op.form.row.writes:
        return op.reads
    given = op.named
    scale = given["scale"]
    keeps = isinstance(scale, tree.Immediate) and scale.value != 0
    others = (operand for name, operand in given.items() if name != "d")
    return op.reads if keeps else tuple(r for operand in others for r in registers_of(operand))


def _passes(op: Op) -> bool:
    packs = op.form.row.role is Role.CONVERT and len(op.sources) > 1
    return packs or op.form.row.role in _PASSING


def speculated(values: Values, ptx_line: int) -> bool:
    """Whether only `selp` uses a load's results: compilers load ahead values that they may not need."""
    for load in values.ops:
        if load.instruction.ptx_line == ptx_line and load.writes:
            readers = [op for register in load.writes for op in values.readers.get(register, ())]
            chosen = all(
                op.form.row.role is Role.CHOOSE and not set(registers_of(op.sources[2])) & set(load.writes)
                for op in readers
            )
            return bool(readers) and chosen
    return False


def whole(values: Values, sizes: Mapping[str, int]) -> frozenset[int]:
    """The PTX lines of accesses that use each element as one number: by arithmetic, or as an address.

    So does a store to where a parameter points of which `sizes` has the bytes of its numbers. Other stores may copy a
    structure with its padding, and shifts and masks take what they need of an element.
    """
    loads = (op for op in values.ops if op.form.row.access == "load" and _is_number(values, op, sizes))
    changes = (op for op in values.ops if op.form["op"] in _CHANGES)
    return frozenset(op.instruction.ptx_line for some in (loads, changes) for op in some)


def _is_number(values: Values, load: Op, sizes: Mapping[str, int]) -> bool:
    waiting, seen = list(load.writes), set(load.writes)
    while waiting:
        name = waiting.pop()
        for op in values.readers.get(name, ()):
            if _counts(op) or name in values.address_registers(op) or _is_stored(values, op, name, sizes):
                return True
            if _is_same(op, name):
                waiting += [register for register in op.writes if register not in seen]
                seen.update(op.writes)
    return False


def _counts(op: Op) -> bool:
    """Whether an instruction uses its operands as numbers; packed ones are several."""
    types = op.instruction.name.split(".")[1:]
    if any(part.endswith(("x2", "x4")) for part in types):
        return False
    converts = op.form.row.role is Role.CONVERT and not all(map(_INTEGER.fullmatch, types))
    return op.form.row.role in _COUNTING or converts


def _is_same(op: Op, name: str) -> bool:
    """Whether an instruction passes a register on, as it is or as a wider integer."""
    if op.form.row.role is Role.CONVERT:
        types = op.instruction.name.split(".")[-2:]
        to, of = (int(part[1:]) if _INTEGER.fullmatch(part) else 0 for part in types)
        return to >= of > 0
    given = [one for one in op.sources if one == tree.Register(name)]
    return op.form.row.role in (Role.COPY, Role.CHOOSE) and bool(given)


def _is_stored(values: Values, store: Op, name: str, sizes: Mapping[str, int]) -> bool:
    """Whether an instruction stores a register to an array of numbers that are as wide."""
    if store.form.row.access != "store" or not sizes:
        return False
    bytes_ = int(store.form["type"].lstrip("usbf")) // 8
    named = {
        part.base.name
        for op in values.origins(values.address_registers(store))
        for part in op.sources
        if op.form.has("param") and isinstance(part, tree.Address) and isinstance(part.base, tree.Symbol)
    }
    return any(base in sizes for base in named) and all(sizes.get(base, bytes_) >= bytes_ for base in named)
