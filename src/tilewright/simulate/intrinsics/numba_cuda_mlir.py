"""Intrinsics for numba-cuda-mlir: inline assembly from the same records as for numba-cuda.

They are in a module of their own, because one process may use both compilers: `from
tilewright.simulate.intrinsics.numba_cuda_mlir import ldmatrix_x4`. No other module imports it, because numba-cuda-mlir
looks for a driver.

Examples
--------
In a program that `tilewright check` or `profile` runs, or that finds a GPU:

    from numba_cuda_mlir import cuda
    from tilewright.simulate.intrinsics.numba_cuda_mlir import ldmatrix_x4

Source: numba-cuda-mlir 0.6.0, `extending.intrinsic`; MLIR, dialect `llvm`, `llvm.inline_asm`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from numba_cuda_mlir import types
from numba_cuda_mlir._mlir import ir
from numba_cuda_mlir._mlir.dialects import arith, llvm
from numba_cuda_mlir._mlir.extras import types as made
from numba_cuda_mlir.extending import intrinsic
from numba_cuda_mlir.lowering_utilities import index_of, memref_to_llvm_ptr
from numba_cuda_mlir.numba_cuda.core.errors import NumbaTypeError

from tilewright.simulate.intrinsics import intrinsics
from tilewright.simulate.intrinsics.assembly import SPACES, assembled, by_operand
from tilewright.simulate.intrinsics.documentation import documented
from tilewright.simulate.intrinsics.operands import Address, Constant, Operand, Record, Registers

#: Register type -> (Numba's, bits, whether a float, the constraint).
_TYPES = MappingProxyType(
    {
        "b32": (types.uint32, 32, False, "r"),
        "u32": (types.uint32, 32, False, "r"),
        "s32": (types.int32, 32, False, "r"),
        "b64": (types.uint64, 64, False, "l"),
        "u64": (types.uint64, 64, False, "l"),
        "f32": (types.float32, 32, True, "f"),
        "f64": (types.float64, 64, True, "d"),
        "pred": (types.boolean, 32, False, "r"),
    }
)


def __getattr__(name: str) -> Any:
    """An intrinsic, made at its first use."""
    if name.startswith("_") or not any(record.name == name for record in intrinsics.records()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; docs/intrinsics.md lists the intrinsics")
    return globals().setdefault(name, intrinsic_of(intrinsics.find(name)))


def intrinsic_of(record: Record) -> Any:
    """The function that a kernel of numba-cuda-mlir calls for a record."""

    def define(typingctx: Any, *arguments: Any) -> Any:
        _check(record, arguments)

        def generate(builder: Any, target: Any, given: Any, named: Any) -> None:
            _generate(record, builder, target, arguments, given)

        return _result_type(record)(*arguments), generate

    return intrinsic(documented(define, record))


def _check(record: Record, arguments: Any) -> None:
    """Reject arguments that do not suit the instruction, with Numba's error."""
    for operand, given in by_operand(record, arguments):
        if isinstance(operand, Address) and not isinstance(given[0], types.Array):
            raise NumbaTypeError(f"{record.call()}: `{operand.name}` must be an array (got {given[0]})")
        if not isinstance(operand, Constant):
            continue
        value = getattr(given[0], "literal_value", None)
        if type(value) is not int or not operand.least <= value <= operand.most:
            rule = f"`{operand.name}` must be a constant of {operand.least} to {operand.most} (got {given[0]})"
            raise NumbaTypeError(f"{record.call()}: {rule}")


def _result_type(record: Record) -> Any:
    if record.result is None:
        return types.void
    one = _TYPES[record.result.type][0]
    return one if record.result.count == 1 else types.UniTuple(one, record.result.count)


def _generate(record: Record, builder: Any, target: Any, argument_types: Any, given: Any) -> None:
    """Emit the instruction, and its results in the target."""
    result = record.result
    results = [] if result is None else [_TYPES[result.type]] * result.count
    text, inputs, constraints = assembled(
        record,
        [constraint for *_, constraint in results],
        argument_types,
        given,
        lambda operand, kinds, variables: _registers(builder, operand, kinds, variables),
    )
    made_of = [_register(bits, is_float) for _, bits, is_float, _ in results]
    returned = llvm.StructType.get_literal(made_of) if len(made_of) > 1 else made_of[0] if made_of else None
    call = llvm.inline_asm(returned, inputs, text, constraints, has_side_effects=not record.pure)
    if result is None:
        builder.store_var(target, None)
    elif result.count > 1:
        builder.store_var(target, tuple(llvm.extractvalue(kind, call, [i]) for i, kind in enumerate(made_of)))
    else:
        nothing = arith.constant(made_of[0], 0) if result.type == "pred" else None
        builder.store_var(target, call if nothing is None else arith.cmpi(arith.CmpIPredicate.ne, call, nothing))


def _register(bits: int, is_float: bool) -> Any:
    if is_float:
        return made.f32() if bits == 32 else made.f64()
    return ir.IntegerType.get_signless(bits)


def _registers(builder: Any, operand: Operand, kinds: Any, variables: Any) -> list[tuple[Any, str]]:
    """Values of an operand, each with its constraint."""
    values = [builder.load_var(variable) for variable in variables]
    if isinstance(operand, Address):
        return [_address(operand, kinds[0], *values)]
    assert isinstance(operand, Registers)
    _, bits, is_float, constraint = _TYPES[operand.type]
    parts = values[0] if isinstance(values[0], tuple | list) else [values[0]]
    return [(_as_bits(builder, part, _register(bits, is_float)), constraint) for part in parts]


def _as_bits(builder: Any, value: Any, kind: Any) -> Any:
    """A value in a register: bits of the same width unchanged, other numbers converted."""
    if not isinstance(value, ir.Value):
        return arith.constant(kind, value)
    if value.type == kind:
        return value
    floats = [isinstance(one, ir.FloatType) for one in (value.type, kind)]
    alike = floats[0] != floats[1] and value.type.width == kind.width
    return arith.bitcast(kind, value) if alike else builder.mlir_convert(value, kind)


def _address(operand: Address, array_type: Any, array: Any, index: Any) -> tuple[Any, str]:
    """The address of an element in its state space."""
    parts = index if isinstance(index, tuple | list) else [index]
    pointer = memref_to_llvm_ptr(array, [index_of(part) for part in parts], array.type.element_type)
    space, bits = SPACES[operand.space]
    generic = llvm.addrspacecast(llvm.PointerType.get(), pointer) if pointer.type != llvm.PointerType.get() else pointer
    if space:
        generic = llvm.addrspacecast(llvm.PointerType.get(space), generic)
    return llvm.ptrtoint(ir.IntegerType.get_signless(bits), generic), "r" if bits == 32 else "l"
