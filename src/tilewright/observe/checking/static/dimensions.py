"""Which of its y and z indices a kernel uses in addresses by themselves, and not only as part of a linear rank.

To read `threadIdx.y` in a one-dimensional launch is legal, and gives 0. A one-dimensional kernel does so to compute a
linear rank for any shape of block and grid (`thread_rank` of cooperative groups): it multiplies y by an extent in x,
and z by one in x or y. A two-dimensional kernel uses y itself in addresses. If it then advances y by an extent in y (a
grid-stride loop), one row of threads processes all rows, which is legal too.
"""

from __future__ import annotations

from tilewright.observe.checking.static.values import SUMS, Values
from tilewright.simulate.isa import Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op

#: State spaces private to a thread, whose addresses need no index of the grid.
_OWN_SPACES = ("local", "param")
_PRODUCTS = (Role.PRODUCT, Role.MULTIPLY_ADD)
_AXES = "xyz"


def own_axes(values: Values) -> frozenset[str]:
    """Those of "y" and "z" whose index is used by itself in addresses.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ... ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x;
    ... mad.lo.s32 %r4, %r2, FACTOR, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
    ... st.global.u32 [%rd3], %r1; ret; }'''
    >>> [sorted(own_axes(of_kernel(text.replace("FACTOR", factor), "k"))) for factor in ("%r3", "100")]
    [[], ['y']]
    """
    return frozenset(axis for axis in "yz" if _is_own(values, axis))


def _is_own(values: Values, axis: str) -> bool:
    carried = _carriers(values, axis)
    if _strides(values, axis, carried):
        return False
    return any(
        not carried.isdisjoint(values.address_registers(op))
        for op in values.ops
        if op.form.row.access and not any(op.form.has(space) for space in _OWN_SPACES)
    )


def _carriers(values: Values, axis: str) -> set[str]:
    """Registers that hold the index, or a value computed from it that is not a linear rank."""
    reads = {f"%tid.{axis}", f"%ctaid.{axis}"}
    carried: set[str] = set()
    waiting = [op for op in values.ops if reads & set(values.special(op))]
    seen = {id(op) for op in waiting}
    while waiting:
        op = waiting.pop()
        for register in op.writes:
            if register not in carried:
                carried.add(register)
                for reader in values.readers.get(register, ()):
                    if id(reader) not in seen and _passes_on(values, reader, carried, axis):
                        seen.add(id(reader))
                        waiting.append(reader)
    return carried


def _passes_on(values: Values, op: Op, carried: set[str], axis: str) -> bool:
    """Whether a result is still an index of that axis, not a load, a comparison, or a product with a lower extent."""
    row = op.form.row
    if row.access or row.role in (Role.COMPARE, Role.CALL):
        return False
    if row.role not in _PRODUCTS:
        return True
    factors = [source.name for source in op.sources[:2] if isinstance(source, tree.Register)]
    if not any(factor in carried for factor in factors):
        return True  # the index is the addend
    lower = _AXES[: _AXES.index(axis)]
    return not any(_is_extent(values, factor, lower) for factor in factors if factor not in carried)


def _is_extent(values: Values, register: str, axes: str) -> bool:
    """Whether a factor is computed from the block's or grid's extent on one of the axes."""
    extents = {f"%{of}.{axis}" for of in ("ntid", "nctaid") for axis in axes}
    return register in extents or any(not extents.isdisjoint(values.special(op)) for op in values.origins([register]))


def _strides(values: Values, axis: str, carried: set[str]) -> bool:
    """Whether the index advances by an extent of its axis: a sum of both feeds back into the index."""
    for op in values.ops:
        if op.form.row.linear not in SUMS or not set(op.writes) & carried:
            continue
        registers = [source.name for source in op.sources if isinstance(source, tree.Register)]
        steps = [r for r in registers if _is_extent(values, r, axis) and not _comes_from(values, r, op)]
        if steps and any(_comes_from(values, r, op) for r in registers):
            return True
    return False


def _comes_from(values: Values, register: str, op: Op) -> bool:
    return any(origin is op for origin in values.origins([register]))
