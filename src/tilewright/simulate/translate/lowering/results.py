"""Writes results of instructions to registers, in the register's width and shape."""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simulate.code import Value
from tilewright.simulate.translate.analysis.shape import AFFINE, ANY_UNIFORM, ANY_VECTOR, STRIDED, Shape
from tilewright.simulate.translate.analysis.webs import ptx_name
from tilewright.simulate.translate.lowering.emitter import Emitter, storage_type


def write(
    emitter: Emitter,
    name: str,
    value: Value,
    type_: str,
    shape: Shape,
    guard: Value | None,
    stride: Value | None = None,
) -> None:
    """Write a result of a PTX type to a register, sign- or zero-extended if the register is wider."""
    if name == "_" or name not in emitter.graph.registers:
        return
    code = emitter.code
    target = storage_type(emitter.graph.registers[name])
    if value.type != target:
        width = Value("", target).bits
        integer = code.cast("bitcast", value, f"i{value.bits}")
        integer = code.resize(integer, f"i{width}", signed=type_.startswith("s"))
        value = code.cast("bitcast", integer, target)
        stride = code.resize(stride, f"i{width}", signed=True) if stride is not None else None
        if shape.kind in (AFFINE, STRIDED) and width > value.bits:
            raise PtxError(f"register '{ptx_name(name)}' is wider than the affine value written to it")
    emitter.store_register(name, value, shape, guard, stride)
    if name in emitter.graph.copies:
        emitter.store_register(emitter.graph.copies[name], value, shape, guard, stride)


def shape_of(value: Value) -> Shape:
    """The shape of a plain value: uniform or a vector."""
    return ANY_UNIFORM if value.lanes == 1 else ANY_VECTOR
