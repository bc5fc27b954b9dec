"""Loads of local memory that only copy: nothing but stores that may be to local memory uses their values.

Compilers copy structures with their padding, and set a bit field by a load, `and`, `or` and a store at the same
address. Neither uses what was never written. A generic address says only at run time whether it is local.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.observe.checking.static.values import Values
from tilewright.simulate.isa import Linear
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op

_SPACES = ("global", "shared", "const")
_STRONG = ("volatile", "relaxed", "acquire", "release", "mmio")
#: Most slots of a kernel: each takes 8 bytes of every thread. Loads beyond count as uses of what they read.
SLOTS_MAX = 1024
_INTEGER = re.compile(r"\.[usb]\d+")


class Part(NamedTuple):
    """What a store takes of a load: bytes of an element, at places of the load and of the store."""

    slot: int  #: The number of this load and store among all of the kernel.
    source: int  #: The first byte of the load that it takes.
    target: int  #: Where that goes in the store.
    bytes: int  #: A bit for each byte of the load that it takes unchanged.
    element: int  #: And for each byte of the element that they are of.


@dataclass(frozen=True, slots=True)
class _Use:
    """A store of an element of a load."""

    store: Op
    target: int  # the byte of the store
    source: int  # the byte of the load
    element: int
    kept: int  # a bit for each of the element's bytes that is stored unchanged


def of(values: Values) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[Part, ...]]]:
    """By PTX line: the slots of each load that only copies, one for each store; and what each store takes of them.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k() { .reg .b64 %rd<3>; .local .align 8 .b8 a[16];
    ... ld.local.b64 %rd1, [a];
    ... st.local.b64 [a+8], %rd1; ret; }'''
    >>> of(of_kernel(text, "k"))
    ({3: (0,)}, {4: (Part(slot=0, source=0, target=0, bytes=255, element=255),)})
    """
    if not any(one.space == "local" for f in values.module.functions.values() for one in f.variables):
        return {}, {}
    found: dict[int, list[_Use] | None] = {}
    for op in values.ops:
        if op.writes and op.form.row.access == "load" and _may_be_local(op):
            line, uses = op.instruction.ptx_line, _uses(values, op)
            before = found.get(line, [])  # of another place that its function is inlined at
            found[line] = None if uses is None or before is None else [*before, *uses]
    numbers: dict[tuple[int, int], int] = {}
    loads: dict[int, dict[int, None]] = {}
    stores: dict[int, dict[Part, None]] = {}
    for line, uses in found.items():
        if len(numbers) + len({use.store.instruction.ptx_line for use in uses or ()}) > SLOTS_MAX:
            continue
        for use in uses or ():
            to = use.store.instruction.ptx_line
            slot = numbers.setdefault((line, to), len(numbers))
            every = (1 << use.element) - 1 << use.source
            loads.setdefault(line, {})[slot] = None
            part = Part(slot, use.source, use.target, use.kept << use.source, every)
            stores.setdefault(to, {})[part] = None
    return {line: (*slots,) for line, slots in loads.items()}, {line: (*parts,) for line, parts in stores.items()}


def _may_be_local(op: Op) -> bool:
    """Whether an unguarded, weak access may be of local memory."""
    return op.guard is None and not any(map(op.form.has, (*_SPACES, *_STRONG)))


def _bytes_of(op: Op) -> int:
    """Bytes of one element."""
    return int(op.form["type"].lstrip("usbf")) // 8


def _uses(values: Values, load: Op) -> list[_Use] | None:
    """The stores of a load's elements; None if there are none, or anything else uses one."""
    size, found = _bytes_of(load), list[_Use]()
    for number, register in enumerate(load.destinations):
        ones = (1 << 8 * size) - 1
        waiting = [(register, ones)] if register != "_" else []  # with the bits that it still has of the load
        while waiting:
            name, bits = waiting.pop()
            if len(values.writers[name]) != 1:
                return None
            for op in values.readers.get(name, ()):
                if op.form.row.access == "store" and _may_be_local(op):
                    stored = _stored(op, load, name, bits == ones)
                    if stored is None:
                        return None
                    kept = sum((bits >> 8 * at & 255 == 255) << at for at in range(min(size, _bytes_of(op))))
                    found += [_Use(op, _bytes_of(op) * at, size * number, size, kept) for at in stored]
                elif (passed := _passed(op, name, bits, ones)) is not None:
                    waiting += [(written, passed) for written in op.writes]
                else:
                    return None
    return found or None


def _stored(store: Op, load: Op, name: str, whole: bool) -> list[int] | None:
    """The numbers of a store's elements that are a register; None if that is its address.

    What is not the `whole` value must go back to where it came from.
    """
    address, data = store.instruction.operands[:2]
    if not isinstance(address, tree.Address) or address.base == tree.Register(name):
        return None
    if not whole and address not in load.instruction.operands:
        return None
    items = data.items if isinstance(data, tree.Vector) else (data,)
    return [number for number, item in enumerate(items) if item == tree.Register(name)]


def _passed(op: Op, name: str, bits: int, ones: int) -> int | None:
    """The bits of a load that an instruction's result has from its operand `name`; None if it uses the value."""
    if op.guard is not None or op.form.row.access or len(op.writes) != 1:
        return None
    others = [one for one in op.sources if one != tree.Register(name)]
    match op.form.row.linear, others:
        case Linear.MOVE, [] if isinstance(op.sources[0], tree.Register):
            return bits
        case Linear.CVT, [] if all(_INTEGER.fullmatch(part) for part in op.instruction.modifiers):
            return bits
        case Linear.AND, [tree.Immediate(value)]:
            return bits & value & ones
        case Linear.OR, [_] if bits != ones:
            return bits
    return None
