"""Intrinsics for numba-cuda: inline PTX from a record. Everything specific to Numba is here, behind one function.

An array's element becomes an address in its state space: Numba's generic address is cast, and the compiler removes the
cast where it knows that the array is in shared memory. Indices are not negative, so the code does not compare them with
0.

Source: numba-cuda, `cuda.extending.intrinsic`; LLVM Language Reference, Inline Assembler Expressions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.errors import NumbaTypeError, NumbaValueError
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.extending import intrinsic

from tilewright.simulate.intrinsics.assembly import SPACES, assembled, by_operand
from tilewright.simulate.intrinsics.documentation import documented
from tilewright.simulate.intrinsics.operands import Address, Constant, Operand, Record, Registers

#: Register type -> (Numba's, LLVM's, the constraint).
_TYPES = MappingProxyType(
    {
        "b32": (types.uint32, ir.IntType(32), "r"),
        "u32": (types.uint32, ir.IntType(32), "r"),
        "s32": (types.int32, ir.IntType(32), "r"),
        "b64": (types.uint64, ir.IntType(64), "l"),
        "u64": (types.uint64, ir.IntType(64), "l"),
        "f32": (types.float32, ir.FloatType(), "f"),
        "f64": (types.float64, ir.DoubleType(), "d"),
        "pred": (types.boolean, ir.IntType(32), "r"),
    }
)


def intrinsic_of(record: Record) -> Any:
    """The function that a kernel of numba-cuda calls for a record."""

    def define(typingctx: Any, *arguments: Any) -> Any:
        _check(record, arguments)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _check_gpu(record)
            return _generated(record, context, builder, signature, values)

        return _result_type(record, arguments)(*arguments), generate

    return intrinsic(documented(define, record))


def _result_type(record: Record, arguments: Any) -> Any:
    result = record.result
    if result is None:
        return types.void
    one = _TYPES[result.type][0]
    for operand, given in by_operand(record, arguments):
        if operand.name == result.like and given[0].dtype in (types.int32, types.float32, types.int64, types.float64):
            one = given[0].dtype if given[0].dtype.bitwidth == one.bitwidth else one
    return one if result.count == 1 else types.UniTuple(one, result.count)


def _check(record: Record, arguments: Any) -> None:
    """Reject arguments that do not suit the instruction, with Numba's error."""
    for operand, given in by_operand(record, arguments):
        if isinstance(operand, Address):
            wrong = _wrong_address(operand, *given)
        elif isinstance(operand, Constant):
            wrong = _wrong_constant(operand, *given)
        else:
            wrong = _wrong_registers(operand, *given)
        if wrong:
            raise NumbaTypeError(f"{record.call()}: {wrong}")


def _check_gpu(record: Record) -> None:
    """Reject a GPU that is too old. Types are checked once in a process; this runs for each target GPU."""
    cc = ConfigStack().top().compute_capability
    if cc is not None and tuple(cc)[:2] < record.cc:
        have, need = (".".join(map(str, version)) for version in (tuple(cc)[:2], record.cc))
        raise NumbaValueError(f"{record.name} needs compute capability {need} or newer (compiling for {have})")


def _wrong_address(operand: Address, array: Any, index: Any) -> str:
    if not isinstance(array, types.Array):
        return f"`{operand.name}` must be an array (got {array})"
    parts = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
    if len(parts) != array.ndim or not all(isinstance(part, types.Integer) for part in parts):
        return f"`{operand.name}_index` must be {array.ndim} integers, one for each axis (got {index})"
    return ""


def _wrong_constant(operand: Constant, given: Any) -> str:
    value = getattr(given, "literal_value", None)
    if type(value) is not int or not operand.least <= value <= operand.most:
        rule = f"`{operand.name}` must be a constant of {operand.least} to {operand.most} (got {given})"
        remedy = "; compute it outside of the kernel, as `LEFT = STAGES - 2`, and pass that name"
        return rule + remedy * (type(value) is not int)
    return ""


def _parts(operand: Registers, given: Any) -> tuple[Any, ...]:
    """Types of an operand's values: a number, a tuple, or the elements of a row."""
    if isinstance(given, types.Array) and given.ndim == 1 and operand.count > 1:
        return (given.dtype,) * operand.count
    return tuple(given) if isinstance(given, types.BaseTuple) else (given,)


def _wrong_registers(operand: Registers, given: Any) -> str:
    parts = _parts(operand, given)
    wanted = _TYPES[operand.type][0]
    if operand.type == "pred":
        fits = all(isinstance(part, types.Boolean | types.BooleanLiteral | types.Integer) for part in parts)
    elif operand.type in ("u32", "u64"):  # numbers: any integer is converted
        fits = all(isinstance(part, types.Integer) for part in parts)
    elif operand.type in ("b32", "b64"):  # bits: any value of the width is passed unchanged
        fits = all(getattr(part, "bitwidth", 0) == wanted.bitwidth or isinstance(part, types.Literal) for part in parts)
    else:
        fits = all(part == wanted for part in parts)
    if len(parts) != operand.count or not fits:
        kind = f"{wanted.bitwidth} bits" if operand.type[0] == "b" else str(wanted)
        count = "one value" if operand.count == 1 else f"a tuple or row of {operand.count} values"
        return f"`{operand.name}` must be {count} of {kind} (got {given})"
    return ""


def _generated(record: Record, context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """The call of the instruction, and its results as Numba values."""
    result = record.result
    results = [] if result is None else [_TYPES[result.type][1:]] * result.count
    text, inputs, constraints = assembled(
        record,
        [constraint for _, constraint in results],
        signature.args,
        values,
        lambda operand, kinds, given: _registers(context, builder, operand, kinds, given),
    )
    kind = ir.FunctionType(_returned([kind for kind, _ in results]), [value.type for value in inputs])
    asm = ir.InlineAsm(kind, text, constraints, side_effect=not record.pure)
    call = builder.call(asm, inputs, attrs=("convergent",))
    return _as_numba(context, builder, signature.return_type, result, call)


def _returned(kinds: list[Any]) -> Any:
    if not kinds:
        return ir.VoidType()
    return kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)


def _registers(
    context: Any, builder: Any, operand: Operand, argument_types: Any, arguments: Any
) -> list[tuple[Any, str]]:
    """Values of an operand, each with its constraint."""
    if isinstance(operand, Address):
        return [_address(context, builder, operand, argument_types, arguments)]
    assert isinstance(operand, Registers)
    wanted, kind, constraint = _TYPES[operand.type]
    (given,), (value,) = argument_types, arguments
    if isinstance(given, types.Array):
        places = [context.get_constant(types.intp, index) for index in range(operand.count)]
        parts = [builder.load(_pointer(context, builder, given, value, [place])) for place in places]
    else:
        parts = cgutils.unpack_tuple(builder, value) if isinstance(given, types.BaseTuple) else [value]
    found = []
    for part, of in zip(parts, _parts(operand, given), strict=True):
        converted = isinstance(of, types.Literal) or operand.type in ("u32", "u64", "pred")
        bits = context.cast(builder, part, of, wanted) if converted else part
        bits = builder.zext(bits, kind) if operand.type == "pred" else bits
        found.append((bits if bits.type == kind else builder.bitcast(bits, kind), constraint))
    return found


def _address(context: Any, builder: Any, operand: Address, argument_types: Any, arguments: Any) -> tuple[Any, str]:
    """The address of an element in its state space."""
    array_type, index_type = argument_types
    array, index = arguments
    several = isinstance(index_type, types.BaseTuple)
    parts = cgutils.unpack_tuple(builder, index) if several else [index]
    kinds = tuple(index_type) if several else (index_type,)
    indices = [context.cast(builder, part, kind, types.intp) for part, kind in zip(parts, kinds, strict=True)]
    pointer = _pointer(context, builder, array_type, array, indices)
    space, bits = SPACES[operand.space]
    pointer = builder.addrspacecast(pointer, ir.PointerType(pointer.type.pointee, space))
    address = builder.ptrtoint(pointer, ir.IntType(64))
    return (builder.trunc(address, ir.IntType(32)), "r") if bits == 32 else (address, "l")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, indices: list[Any]) -> Any:
    """The generic address of an element."""
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, indices)


def _as_numba(context: Any, builder: Any, returned: Any, result: Registers | None, call: Any) -> Any:
    """The results of the call as a number, a bool, a tuple or None."""
    if result is None:
        return context.get_dummy_value()
    parts = [call] if result.count == 1 else [builder.extract_value(call, index) for index in range(result.count)]
    if result.type == "pred":
        return builder.icmp_unsigned("!=", call, ir.IntType(32)(0))
    one = returned.dtype if isinstance(returned, types.UniTuple) else returned
    kind = context.get_value_type(one)
    parts = [part if part.type == kind else builder.bitcast(part, kind) for part in parts]
    return parts[0] if result.count == 1 else context.make_tuple(builder, returned, parts)
