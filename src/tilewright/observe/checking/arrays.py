"""Which array an access was meant for: the argument whose pointer its address is computed from, or the nearest array.

The address of an access far from every array does not show where it was meant to go. The kernel's PTX does: the address
is computed from the pointer of one argument. If it is computed from several (a chosen pointer, a device function with
two callers) or from none that is known, the finding names the nearest array as such; if none is near, it lists all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.observe.checking import statements
from tilewright.observe.checking.static.bounds import parameters
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.instruments.shadow.cells import GLOBAL_FREED, GLOBAL_OUTSIDE
from tilewright.observe.instruments.shadow.found import accessed
from tilewright.simulate.observer import ArgumentFact, Launch
from tilewright.simulate.programs import mangling
from tilewright.simulate.programs.arguments import DATA
from tilewright.simulate.ptx import tree

#: Codes with a global address. Races have two lines instead, and may be in shared memory.
CODES = ("TW101", "TW105", "TW107", "TW201")
#: Codes with an address in no live memory; the pointer that it is computed from decides between them.
_LIFELESS = ("TW101", "TW105")
#: `details["how"]` of findings about blocks of the device's heap, which are no arrays.
_OF_HEAP = ("heap", "twice")
#: An access is near an array if it misses it by at most the array's own size, or by this.
_NEAR_BYTES = 4096


def named(
    finding: Finding, launch: Launch, values: Values | None, freed: Callable[[int], bool] = lambda address: False
) -> Finding:
    """Add the array that a finding's access belongs to; return the finding unchanged if no array is known.

    An access to no live memory is a use after free (TW105) if the array's own memory was freed, and otherwise an
    overrun (TW101), whatever was at that address before.

    A finding without `address` in its details stays unchanged. `values` is the analysis of the kernel's PTX, None if it
    cannot be read; `freed` says whether the memory at an address was freed.
    """
    address = finding.details.get("address")
    arrays = [fact for fact in launch.arguments if fact.dtype is not None]
    if finding.code not in CODES or address is None or not arrays or finding.details.get("how") in _OF_HEAP:
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


def variable(finding: Finding, values: Values | None, language: str) -> dict[str, str]:
    """The array of a block or thread that a finding is about, and for a race that in global memory too.

    Its name is that of the one variable which the address is computed from, where the language keeps it in the PTX, or
    else of the only array that all its lines index.
    """
    details, space = finding.details, finding.details.get("space", "")
    if "address" not in details or finding.code in CODES or space not in ("shared", "local", "global"):
        return {}
    symbols = {details["symbol"]} if "symbol" in details else set()
    if not symbols and values is not None and space == "shared":
        symbols = {name for op in values.at(finding.ptx_line) for name in values.symbols(op)}
    if len(symbols) == 1 and (language == "cuda" or not finding.source):
        name = mangling.variable(symbols.pop())
        return {"variable": name} if name else {}
    if len(symbols) == 1 and language == "numba" and values is not None:  # Numba numbers a kernel's arrays
        known = [name for name, one in values.module.variables.items() if one.space == "shared"]
        names = statements.shared_arrays(finding.source, finding.line)
        if len(names) == len(known):
            return {"variable": names[sorted(known, key=lambda name: (len(name), name)).index(symbols.pop())]}
    places = [(finding.source, finding.line), *map(split, details.get("others", ()))]
    common = set.intersection(*(statements.indexed(file, line, space) for file, line in places))
    return {"variable": common.pop()} if len(common) == 1 else {}


def _with(finding: Finding, known: dict[str, Any]) -> Finding:
    """The finding with more details."""
    return replace(finding, details=finding.details | known)


def _own(code: str, fact: ArgumentFact, address: int, *, inside: bool) -> dict[str, Any]:
    """Details of an access to the array that it was meant for."""
    known = {"array": fact.name, "shape": list(fact.shape), **_index(fact, address)}
    if inside and code == "TW101" and _has_gaps(fact):  # numba-cuda copies only the elements, and keeps the strides
        known["strides"] = list(fact.strides)
    if code == "TW107" and len(fact.shape) == 1:
        known["part"] = True
    return known


def _candidates(finding: Finding, launch: Launch, values: Values | None) -> list[ArgumentFact]:
    """The arguments whose pointers the address may be computed from."""
    if values is None:
        return []
    pointers = {name: fact for name, (fact, at) in parameters(launch).items() if fact.dtype is not None and at == DATA}
    at = (finding.ptx_line, finding.opcode)
    accesses = [op for op in values.ops if (op.instruction.ptx_line, op.instruction.name) == at]  # each inlined call
    registers = [register for op in accesses for register in values.address_registers(op)]
    origins = [base for op in values.origins(registers) for base in values.bases(op) if isinstance(base, tree.Symbol)]
    return [pointers[name] for name in sorted({base.name for base in origins} & pointers.keys())]


def _span(fact: ArgumentFact) -> tuple[int, int]:
    """The first address of an array's elements, and the first one after them."""
    assert fact.dtype is not None
    if 0 in fact.shape:
        return fact.address, fact.address
    reaches = [(extent - 1) * stride for extent, stride in zip(fact.shape, fact.strides, strict=True)]
    start = fact.address + sum(reach for reach in reaches if reach < 0)
    return start, fact.address + sum(reach for reach in reaches if reach > 0) + fact.dtype.itemsize


def _has_gaps(fact: ArgumentFact) -> bool:
    """Whether bytes between an array's first and last element belong to no element."""
    start, end = _span(fact)
    return fact.dtype is not None and end - start > math.prod(fact.shape) * fact.dtype.itemsize


def _misses_by(fact: ArgumentFact, address: int) -> int:
    """Bytes between an address and an array; 0 inside it."""
    start, end = _span(fact)
    return max(start - address, address - end + 1, 0)


def _is_null(address: int) -> bool:
    """Whether an address is null, or that of an element of an array at null."""
    return (address + _NEAR_BYTES) % 2**64 < 2 * _NEAR_BYTES


def _is_near(fact: ArgumentFact, address: int) -> bool:
    start, end = _span(fact)
    return _misses_by(fact, address) <= max(end - start, _NEAR_BYTES)


def _index(fact: ArgumentFact, address: int) -> dict[str, int]:
    """Details of an access far from its array: the first index that it must have had, if the others were right."""
    if _is_near(fact, address) or not fact.strides or fact.strides[0] <= 0:
        return {}
    offset = (address - fact.address + 2**63) % 2**64 - 2**63  # addresses wrap around
    return {"index" if len(fact.shape) == 1 else "first_index": offset // fact.strides[0]}


def _near(fact: ArgumentFact, address: int) -> dict[str, Any]:
    """Details of an access that missed an array by little."""
    start, end = _span(fact)
    known: dict[str, Any] = {"array": fact.name, "nearest": list(fact.shape)}
    if address < start:
        return known | {"bytes_behind": start - address}
    return known | ({"bytes_before": address - end} if address > end else {"adjacent": True})
