"""Which array an access was meant for: the argument that its address is computed from, or the nearest one.

An access far from every array says nothing of where it was meant to go by its address alone. The kernel's text does:
the address is computed from the pointer that one argument holds. Where it is computed from several (a pointer that is
chosen, a device function with two callers) or from none that is known, the nearest array is named as such; where none
is near, all are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.checking.values import Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.shadow.cells import GLOBAL_FREED, GLOBAL_OUTSIDE
from tilewright.instruments.shadow.words import told_as
from tilewright.simt.observer import ArgumentFact, Launch
from tilewright.simt.ptx import tree
from tilewright.simt.translate.graph import Op

#: Codes whose address is one of global memory; races tell their lines apart, and have one in shared memory too.
CODES = ("TW101", "TW105", "TW107", "TW201")
#: Those of them whose address is in no live memory: which of them it is, the pointer that it is computed from decides.
_LIFELESS = ("TW101", "TW105")
#: An access is near an array where it misses it by no more than the array's own bytes, or these.
_NEAR_BYTES = 4096
#: Names of arrays in one message.
_LISTED = 6
#: Of the parameters that numba-cuda makes of an array the one that holds its address.
#: Source: numba-cuda, `dispatcher.py` (`_Kernel._prepare_args`): an array is five parameters, its shape, its strides.
_DATA = 4


def named(
    finding: Finding, launch: Launch, values: Values | None, freed: Callable[[int], bool] = lambda address: False
) -> Finding:
    """A finding that says which array its access belongs to; as it is where no array of the launch is known.

    An access to no live memory is one to freed memory (TW105) where the array's own memory was freed, and else an
    overrun (TW101), whatever was in that place before.

    Parameters
    ----------
    finding : Finding
        With `address` among its details, or it is left as it is.
    launch : Launch
    values : Values or None
        What the kernel's text says; None where it cannot be read.
    freed : callable
        Whether the memory at an address was freed.
    """
    address = finding.details.get("address")
    arrays = [fact for fact in launch.arguments if fact.dtype is not None]
    if finding.code not in CODES or address is None or not arrays:
        return finding
    candidates = _candidates(finding, launch, values)
    inside = [fact for fact in arrays if _misses_by(fact, address) == 0]
    meant = [fact for fact in candidates if fact in inside] or inside or candidates
    if finding.code in _LIFELESS:
        begun_freed = [fact for fact in meant if freed(fact.address)]
        if begun_freed:
            return _freed(finding, begun_freed)
        if finding.code == "TW105" and not meant:
            return finding  # through a pointer that no argument holds
        finding = told_as(finding, GLOBAL_OUTSIDE)
        if _is_null(address) and not any(_is_null(fact.address) for fact in arrays):
            return replace(finding, message=f"{finding.message}; the pointer is null")
    if inside or len(meant) == 1:
        words = f"the array is {_described(meant[0])}{_index(meant[0], address)}"
        if (
            inside and finding.code == "TW101" and _has_gaps(meant[0])
        ):  # numba-cuda copies the elements of a host array, and keeps its strides
            words += (
                f", whose strides {meant[0].strides} reach past the memory allocated for it: pass a host array with "
                "gaps as numpy.ascontiguousarray(...)"
            )
        if finding.code == "TW107" and len(meant[0].shape) == 1:
            words += ", a part of a longer one"
        meant = meant[:1]
    else:
        nearest = min(arrays, key=lambda fact: _misses_by(fact, address))
        meant = [nearest] if _is_near(nearest, address) else []
        words = _nearest(nearest, address) if meant else f"no array is near it: {_all(arrays)}"
    details = finding.details | ({"array": meant[0].name} if meant else {})
    return replace(finding, message=f"{finding.message}; {words}", details=details)


def _freed(finding: Finding, arrays: Sequence[ArgumentFact]) -> Finding:
    """An access through a pointer to memory that was freed; the array is named where it is one."""
    told = told_as(finding, GLOBAL_FREED)
    if len(arrays) > 1:
        return told
    message = f"{told.message}; the array is {_described(arrays[0])}"
    return replace(told, message=message, details=told.details | {"array": arrays[0].name})


def _candidates(finding: Finding, launch: Launch, values: Values | None) -> list[ArgumentFact]:
    """The arguments whose pointers the access's address may be computed from."""
    if values is None:
        return []
    pointers = _pointers(launch)
    at = (finding.ptx_line, finding.opcode)
    accesses = [op for op in values.ops if (op.instruction.ptx_line, op.instruction.name) == at]  # one for each call
    registers = [base.name for op in accesses for base in _bases(op) if isinstance(base, tree.Register)]
    origins = [base for op in values.origins(registers) for base in _bases(op) if isinstance(base, tree.Symbol)]
    return [pointers[name] for name in sorted({base.name for base in origins} & pointers.keys())]


def _bases(op: Op) -> list[tree.Register | tree.Symbol | None]:
    """What the addresses of an instruction begin with."""
    return [source.base for source in op.sources if isinstance(source, tree.Address)]


def _pointers(launch: Launch) -> dict[str, ArgumentFact]:
    """The kernel parameters that hold an array's address, by their names in the text."""
    facts, names = launch.arguments, [parameter.name for parameter in launch.program.parameters]
    fields = [5 + 2 * len(fact.shape) if fact.dtype is not None else 1 for fact in facts]
    starts = [sum(fields[:at]) + _DATA for at in range(len(fields))]
    if len(names) == len(facts):  # C: an array is a pointer
        starts = list(range(len(facts)))
    elif len(names) != sum(fields):
        return {}
    return {names[start]: fact for start, fact in zip(starts, facts, strict=True) if fact.dtype is not None}


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


def _described(fact: ArgumentFact) -> str:
    return f"`{fact.name}` of shape {fact.shape}"


def _index(fact: ArgumentFact, address: int) -> str:
    """How far off an access far from its array is: the first index that it must have had, the others being right."""
    if _is_near(fact, address) or not fact.strides or fact.strides[0] <= 0:
        return ""
    offset = (address - fact.address + 2**63) % 2**64 - 2**63  # addresses wrap around
    index = offset // fact.strides[0]
    return f", and its {'index' if len(fact.shape) == 1 else 'first index'} would be {index:,}"


def _nearest(fact: ArgumentFact, address: int) -> str:
    start, end = _span(fact)
    if address < start:
        return f"the nearest array is {_described(fact)}, which begins {start - address:,} bytes behind it"
    distance = f"{address - end:,} bytes" if address > end else "right"
    return f"the nearest array is {_described(fact)}, which ends {distance} before it"


def _all(arrays: Sequence[ArgumentFact]) -> str:
    """Every array of a launch, as far as there is room."""
    words = ", ".join(_described(fact) for fact in arrays[:_LISTED])
    more = len(arrays) - _LISTED
    return f"the launch has {words}" + (f" and {more} more" if more > 0 else "")
