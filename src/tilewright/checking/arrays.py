"""Which array an access was meant for: the argument that its address is computed from, or the nearest one.

An access far from every array says nothing of where it was meant to go by its address alone. The kernel's text does:
the address is computed from the pointer that one argument holds. Where it is computed from several (a pointer that is
chosen, a device function with two callers) or from none that is known, the nearest array is named as such; where none
is near, all are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.checking.text.parameters import parameters
from tilewright.checking.text.values import Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.shadow.cells import GLOBAL_FREED, GLOBAL_OUTSIDE
from tilewright.instruments.shadow.found import accessed
from tilewright.programs.arguments import DATA
from tilewright.ptx import tree
from tilewright.simt.observer import ArgumentFact, Launch

#: Codes whose address is one of global memory; races have two lines instead, and there are some in shared memory.
CODES = ("TW101", "TW105", "TW107", "TW201")
#: Those of them whose address is in no live memory: which of them it is, the pointer that it is computed from decides.
_LIFELESS = ("TW101", "TW105")
#: An access is near an array where it misses it by no more than the array's own bytes, or these.
_NEAR_BYTES = 4096


def named(
    finding: Finding, launch: Launch, values: Values | None, freed: Callable[[int], bool] = lambda address: False
) -> Finding:
    """A finding that says which array its access belongs to; as it is where no array of the launch is known.

    An access to no live memory is one to freed memory (TW105) where the array's own memory was freed, and else an
    overrun (TW101), whatever was in that place before.

    Without `address` among its details the finding is left as it is. `values` is what the kernel's text says, None
    where it cannot be read; `freed` says of an address whether the memory there was freed.
    """
    address = finding.details.get("address")
    arrays = [fact for fact in launch.arguments if fact.dtype is not None]
    if finding.code not in CODES or address is None or not arrays:
        return finding
    candidates = _candidates(finding, launch, values)
    inside = [fact for fact in arrays if _misses_by(fact, address) == 0]
    meant = [fact for fact in candidates if fact in inside] or inside or candidates
    if finding.code in _LIFELESS:
        were_freed = [fact for fact in meant if freed(fact.address)]
        if were_freed:
            known = {"array": were_freed[0].name, "shape": list(were_freed[0].shape)} if len(were_freed) == 1 else {}
            return _with(accessed(finding, GLOBAL_FREED), known)
        if finding.code == "TW105" and not meant:
            return finding  # through a pointer that no argument holds
        finding = accessed(finding, GLOBAL_OUTSIDE)
        if _is_null(address) and not any(_is_null(fact.address) for fact in arrays):
            return _with(finding, {"null": True})
    if inside or len(meant) == 1:
        return _with(finding, _own(finding.code, meant[0], address, inside=bool(inside)))
    nearest = min(arrays, key=lambda fact: _misses_by(fact, address))
    if _is_near(nearest, address):
        return _with(finding, _near(nearest, address))
    return _with(finding, {"arrays": [[fact.name, list(fact.shape)] for fact in arrays]})


def _with(finding: Finding, known: dict[str, Any]) -> Finding:
    """A finding that knows more."""
    return replace(finding, details=finding.details | known)


def _own(code: str, fact: ArgumentFact, address: int, *, inside: bool) -> dict[str, Any]:
    """What is known of an access to the array that it was meant for."""
    known = {"array": fact.name, "shape": list(fact.shape), **_index(fact, address)}
    if inside and code == "TW101" and _has_gaps(fact):  # numba-cuda copies the elements alone, and keeps the strides
        known["strides"] = list(fact.strides)
    if code == "TW107" and len(fact.shape) == 1:
        known["part"] = True
    return known


def _candidates(finding: Finding, launch: Launch, values: Values | None) -> list[ArgumentFact]:
    """The arguments whose pointers the access's address may be computed from."""
    if values is None:
        return []
    pointers = {name: fact for name, (fact, at) in parameters(launch).items() if fact.dtype is not None and at == DATA}
    at = (finding.ptx_line, finding.opcode)
    accesses = [op for op in values.ops if (op.instruction.ptx_line, op.instruction.name) == at]  # one for each call
    registers = [register for op in accesses for register in values.address_registers(op)]
    origins = [base for op in values.origins(registers) for base in values.bases(op) if isinstance(base, tree.Symbol)]
    return [pointers[name] for name in sorted({base.name for base in origins} & pointers.keys())]


def _span(fact: ArgumentFact) -> tuple[int, int]:
    """The first address of an array's elements, and the one past the last."""
    assert fact.dtype is not None
    if 0 in fact.shape:
        return fact.address, fact.address
    reaches = [(extent - 1) * stride for extent, stride in zip(fact.shape, fact.strides, strict=True)]
    start = fact.address + sum(reach for reach in reaches if reach < 0)
    return start, fact.address + sum(reach for reach in reaches if reach > 0) + fact.dtype.itemsize


def _has_gaps(fact: ArgumentFact) -> bool:
    """Whether an array's elements do not fill the bytes from its first to its last."""
    start, end = _span(fact)
    return fact.dtype is not None and end - start > math.prod(fact.shape) * fact.dtype.itemsize


def _misses_by(fact: ArgumentFact, address: int) -> int:
    """Bytes between an address and an array; 0 in it."""
    start, end = _span(fact)
    return max(start - address, address - end + 1, 0)


def _is_null(address: int) -> bool:
    """Whether an address is null, or an element at a null pointer."""
    return (address + _NEAR_BYTES) % 2**64 < 2 * _NEAR_BYTES


def _is_near(fact: ArgumentFact, address: int) -> bool:
    start, end = _span(fact)
    return _misses_by(fact, address) <= max(end - start, _NEAR_BYTES)


def _index(fact: ArgumentFact, address: int) -> dict[str, int]:
    """How far off an access far from its array is: the first index that it must have had, the others being right."""
    if _is_near(fact, address) or not fact.strides or fact.strides[0] <= 0:
        return {}
    offset = (address - fact.address + 2**63) % 2**64 - 2**63  # addresses wrap around
    return {"index" if len(fact.shape) == 1 else "first_index": offset // fact.strides[0]}


def _near(fact: ArgumentFact, address: int) -> dict[str, Any]:
    """What is known of an access that missed an array by little."""
    start, end = _span(fact)
    known: dict[str, Any] = {"array": fact.name, "nearest": list(fact.shape)}
    if address < start:
        return known | {"bytes_behind": start - address}
    return known | ({"bytes_before": address - end} if address > end else {"adjacent": True})
