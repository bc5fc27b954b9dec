"""cuBLASLt but for its products: descriptors, which lie in the program's memory, and what it says of algorithms.

All algorithms are one: the product that the host computes, without a workspace. The logger has nothing to say.

Source: cuBLAS, "cuBLASLt API Reference".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tilewright.frontends.cublas import handles
from tilewright.frontends.cublas.lt_calls import ALGO, CAPABILITIES, DESCRIPTORS, Attribute, Descriptor
from tilewright.frontends.cublas.lt_matrices import GROUPED, LtMatrixTransform, held
from tilewright.frontends.cublas.lt_products import LtMatmul, Product, types_of
from tilewright.frontends.cublas.operands import RefusedCall
from tilewright.simulate.device.gpu import SimulatedGpu

#: Algorithms that are given at most, and those that a program may name: the vendor's have numbers below.
_ALGORITHMS, _NAMED = 3, 128
#: A result of a search: algorithm, bytes of workspace, status, utilisation, and four reserved numbers.
_RESULT, _RESULT_BYTES = "Qif4i", 96
_ALGO_BYTES = 8 * ALGO.words
#: Capabilities that are lists.
_LISTS = ("TILE_IDS", "STAGES_IDS")
#: Entries of the cache of searches, unless a program sets it: none is kept, since no search takes time.
_CACHED = 8192
#: Where what is set for the library, and not for a handle, is among its handles.
_LIBRARY = 0


# -- descriptors --------------------------------------------------------------------------------------------------


def _initialise(one: Descriptor, gpu: SimulatedGpu, place: int, size: int, *values: int) -> None:
    """Make a descriptor in memory of the program."""
    if not place:
        raise RefusedCall("INVALID_VALUE", "a descriptor must have an address (got 0)")
    fitting = [least for least in one.sizes if size >= least]
    if not fitting:
        raise RefusedCall("ALLOC_FAILED", f"a descriptor takes {one.sizes[0]} bytes (got {size})")
    gpu.host.write(place, one.packed(dict(zip(one.given, values, strict=True)), fitting[-1]))


def _initialise_group(gpu: SimulatedGpu, place: int, size: int, kind: int, count: int, *arrays: int) -> None:
    """Make the descriptor of the matrices of groups, whose shapes are on the device."""
    one = DESCRIPTORS["MatrixLayout"]
    if not place or count < 1 or size < one.sizes[1]:
        rule = f"a descriptor takes {one.sizes[1]} bytes at an address, and at least 1 matrix"
        raise RefusedCall("INVALID_VALUE", f"{rule} (got {count} matrices, {size} bytes at {place:#x})")
    names = ("GROUPED_ROWS_ARRAY", "GROUPED_COLS_ARRAY", "GROUPED_LD_ARRAY")
    values = {"TYPE": kind, "BATCH_COUNT": count, "BATCH_MODE": GROUPED, **dict(zip(names, arrays, strict=True))}
    gpu.host.write(place, one.packed(values))


def _named(attributes: Mapping[str, Attribute], number: int) -> tuple[str, Attribute]:
    for name, one in attributes.items():
        if one.number == number:
            return name, one
    raise RefusedCall("INVALID_VALUE", f"`attr` must be the number of an attribute (got {number})")


def _set(kind: str, gpu: SimulatedGpu, place: int, number: int, buffer: int, size: int) -> None:
    """Set an attribute of a descriptor or of an algorithm."""
    values, one = held(gpu, kind, place), DESCRIPTORS.get(kind, ALGO)
    name, attribute = _named(one.attributes, number)
    wide = name.startswith("GROUPED_") and size == 8  # programs set averages from 8 bytes, too
    if not buffer or not (size == attribute.size_bytes or wide) or name == "ID" or name not in values:
        rule = f"{name} is set from {attribute.size_bytes} bytes" if name != "ID" else "ID is only read"
        raise RefusedCall("INVALID_VALUE", f"{rule} (got {size} bytes at {buffer:#x})")
    gpu.host.pack(attribute.form, place + one.places(one.sizes[1])[name], gpu.host.unpacked(attribute.form, buffer))


def _get(kind: str, gpu: SimulatedGpu, place: int, number: int, buffer: int, size: int, written: int) -> None:
    """Get an attribute of a descriptor or of an algorithm, or a capability of one."""
    values, attributes = held(gpu, kind, place), DESCRIPTORS.get(kind, ALGO).attributes
    _give(gpu, values, attributes, number, buffer, size, written)


def _capability(gpu: SimulatedGpu, algo: int, number: int, buffer: int, size: int, written: int) -> None:
    held(gpu, "MatmulAlgo", algo)
    _give(gpu, {}, CAPABILITIES, number, buffer, size, written)


def _give(
    gpu: SimulatedGpu,
    values: Mapping[str, int],
    attributes: Mapping[str, Attribute],
    number: int,
    buffer: int,
    size: int,
    written: int,
) -> None:
    """Write an attribute's value, or its size if the program has no bytes for it."""
    name, one = _named(attributes, number)
    fits = size == one.size_bytes or (name in _LISTS and size > one.size_bytes)
    if not written if not size else not (buffer and fits):
        raise RefusedCall("INVALID_VALUE", f"{name} has {one.size_bytes} bytes (got {size} at {buffer:#x})")
    if size:
        gpu.host.pack(one.form, buffer, values.get(name, one.default))
    gpu.host.pack("Q", written, one.size_bytes)


# -- algorithms ---------------------------------------------------------------------------------------------------


def _heuristic(gpu: SimulatedGpu, handle: int, desc: int, *given: int) -> None:
    """Algorithms for a product: all do it in the same way, and the first is as good as the others."""
    *layouts, preference, requested, results, returned = given[:8]  # and a stream, perhaps
    handles.handle_of(gpu, handle)
    if requested <= 0 or not results or not returned:
        raise RefusedCall("INVALID_VALUE", f"there must be places for algorithms and their count (got {requested})")
    gpu.host.pack("i", returned, 0)
    wanted = held(gpu, "MatmulPreference", preference)
    product = Product.planned(gpu, desc, *layouts)
    chosen = list(range(min(requested, _ALGORITHMS)))
    if wanted["SEARCH_MODE"]:
        chosen = [held(gpu, "MatmulAlgo", results)["ID"]]
    for place, number in enumerate(chosen):
        at = results + place * _RESULT_BYTES
        gpu.host.write(at, ALGO.packed({"ID": number}))
        gpu.host.pack(_RESULT, at + _ALGO_BYTES, 0, 0, product.waves, 0, 0, 0, 0)
    gpu.host.pack("i", returned, len(chosen))


def _check(gpu: SimulatedGpu, handle: int, desc: int, *given: int) -> None:
    """Whether an algorithm can do a product; its fields of a result but for the algorithm."""
    *layouts, algo, result = given[:6]  # and a stream, perhaps
    handles.handle_of(gpu, handle)
    shape = held(gpu, "MatmulAlgo", algo)["CLUSTER_SHAPE_ID"]
    if shape:
        raise RefusedCall("NOT_SUPPORTED", f"an algorithm must choose its clusters (got {shape})")
    if not result:
        raise RefusedCall("INVALID_VALUE", "`result` must be an address (got 0)")
    product = Product.planned(gpu, desc, *layouts)
    gpu.host.pack(_RESULT, result + _ALGO_BYTES, 0, 0, product.waves, 0, 0, 0, 0)


def _ids(gpu: SimulatedGpu, handle: int, *given: int) -> None:
    """The numbers of algorithms for types: of the sums, of the numbers, and of A, B, C and D."""
    *types, requested, ids, returned = given
    handles.handle_of(gpu, handle)
    types_of(*types)
    if requested <= 0 or not ids or not returned:
        raise RefusedCall("INVALID_VALUE", f"there must be places for numbers and their count (got {requested})")
    count = min(requested, _ALGORITHMS)
    gpu.host.pack(f"{count}i", ids, *range(count))
    gpu.host.pack("i", returned, count)


def _init_algo(gpu: SimulatedGpu, handle: int, *given: int) -> None:
    """An algorithm for types by its number."""
    *types, number, algo = given
    handles.handle_of(gpu, handle)
    if not algo or number not in range(_NAMED):
        raise RefusedCall("INVALID_VALUE", f"`algoId` must be from 0 to {_NAMED - 1} (got {number})")
    types_of(*types)
    gpu.host.write(algo, ALGO.packed({"ID": number}))


# -- the library --------------------------------------------------------------------------------------------------


def _get_capacity(gpu: SimulatedGpu, capacity: int) -> None:
    gpu.host.pack("Q", capacity, gpu.library_handles.get(_LIBRARY, _CACHED))


def _set_capacity(gpu: SimulatedGpu, capacity: int) -> None:
    gpu.library_handles[_LIBRARY] = capacity


def _set_level(gpu: SimulatedGpu, level: int) -> None:
    if not 0 <= level <= 5:
        raise RefusedCall("INVALID_VALUE", f"`level` must be from 0 to 5 (got {level})")


def _silent(gpu: SimulatedGpu, *values: int) -> None:
    """A setting of the logger, which says nothing."""


def _functions() -> Iterator[tuple[str, Callable[..., None]]]:
    yield from (("LtMatmul", LtMatmul), ("LtMatrixTransform", LtMatrixTransform))
    yield from (("LtCreate", handles.Create), ("LtDestroy", handles.Destroy), ("LtGetProperty", handles.GetProperty))
    yield from (("LtHeuristicsCacheGetCapacity", _get_capacity), ("LtHeuristicsCacheSetCapacity", _set_capacity))
    for kind, one in DESCRIPTORS.items():
        yield f"Lt{kind}Init_internal", functools.partial(_initialise, one)
        yield f"Lt{kind}SetAttribute", functools.partial(_set, kind)
        yield f"Lt{kind}GetAttribute", functools.partial(_get, kind)
    yield "LtGroupedMatrixLayoutInit_internal", _initialise_group
    for end in ("", "ForStream"):
        yield from ((f"LtMatmulAlgoGetHeuristic{end}", _heuristic), (f"LtMatmulAlgoCheck{end}", _check))
    yield from (("LtMatmulAlgoGetIds", _ids), ("LtMatmulAlgoInit", _init_algo))
    yield "LtMatmulAlgoConfigSetAttribute", functools.partial(_set, "MatmulAlgo")
    yield "LtMatmulAlgoConfigGetAttribute", functools.partial(_get, "MatmulAlgo")
    yield "LtMatmulAlgoCapGetAttribute", _capability
    yield "LtLoggerSetLevel", _set_level
    yield from ((f"LtLogger{name}", _silent) for name in ("SetCallback", "SetFile", "OpenFile", "SetMask"))
    yield "LtLoggerForceDisable", _silent


#: The implementation of each function, by its name without `cublas`.
FUNCTIONS: Mapping[str, Callable[..., None]] = MappingProxyType(dict(_functions()))
