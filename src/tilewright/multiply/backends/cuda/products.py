"""A product of arrays on a GPU as launches: of a kernel of the catalogue, and of copies for operands it cannot read.

Operands have any strides, and any dtype that the kind allows. An operand that the kernel cannot read in place, or a C
that it cannot write in place, is copied on the GPU, through the launches' own memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeviceError
from tilewright.ground.native.memo import bounded
from tilewright.multiply.backends import batches, estimates, ranking, tuning_db
from tilewright.multiply.backends.cuda import current
from tilewright.multiply.backends.cuda.device import WORDS
from tilewright.multiply.backends.cuda.launches import Launches, pointer
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.record import Record
from tilewright.multiply.problem.dtypes import element, name_of
from tilewright.multiply.problem.expression import as_numpy
from tilewright.multiply.problem.kind import Kind
from tilewright.simulate.programs import Program

Array = npt.NDArray[Any]
#: Rows of boxes begin at multiples of this.
_BOX_STEP = 16
#: Dtypes with the same bits of sums modulo 2^32.
_WORDS = frozenset(("int32", "uint32"))


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number of the host as an operand."""

    value: Array


@dataclass(frozen=True, slots=True)
class Ready:
    """A kernel for products of one shape, compiled for a batch if it takes one and there are several."""

    record: Record
    program: Program
    taken: str  #: The dtype of the operands that the kernel reads.
    made: np.dtype[Any]  #: The dtype of C that it writes.
    rows: int  #: Rows of C for each launch.


def launches(a: Array, b: Array, c: Array, kind: Kind, more: Sequence[Array | Number]) -> Launches:
    """The launches that compute c = a b, for views of arrays of the current GPU.

    `a` and `b` are (..., m, k) and (..., k, n), and broadcast to `c`, (..., m, n). So do `more`, the operands of the
    kind's finish; one with a single element may be the host's.

    Raises DeviceError: no kernel of the catalogue multiplies them.
    """
    a, b, c, views = batches.folded(a, b, c, [one for one in more if isinstance(one, np.ndarray)])
    rest_of = iter(views)
    more = [next(rest_of) if isinstance(one, np.ndarray) else one for one in more]
    batch, (m, n), k = c.shape[:-2], c.shape[-2:], a.shape[-1]
    columns = ranking.by_columns(_plain_strides(a)), ranking.by_columns(_plain_strides(b))
    ready = _ready(kind, m, n, k, current.device(), columns, math.prod(batch))
    made = Launches(current.device())
    direct = _is_direct(c, ready, [a, b], more)
    into = c.view(ready.made) if direct else made.room(c.shape, ready.made)
    cut, columns = m > ready.rows, ready.record.columns
    by_slices = cut and ready.record.planes is not None  # the planes of a launch's rows lie below each other
    x = a if by_slices else _read(made, ready, a, kind.a, columns[0])
    x, y = (np.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (x, _read(made, ready, b, kind.b, columns[1])))
    rest = [_finished(made, one, c.shape) for one in more]
    for of_x, of_y, of_c, *of_rest in batches.split([x, y, into, *rest], estimates.matrices_of(ready.record)):
        for start in range(0, m, ready.rows):
            part = (..., slice(start, start + ready.rows), slice(None))
            left = of_x[part] if cut else of_x
            left = _read(made, ready, left, kind.a, columns[0]) if by_slices else left
            multiply(made, ready, _plain(left), _plain(of_y), _plain(of_c[part]), [z[part] for z in of_rest])
    if not direct:
        name = name_of(ready.made)
        source = name if name not in _WORDS or kind.out not in _WORDS else kind.out
        made.rearrange(into, c, (source, kind.out, name_of(c.dtype)))
    return made


@bounded(1024)
def _ready(
    kind: Kind, m: int, n: int, k: int, device: current.Current, columns: tuple[bool, bool], batch: int = 1
) -> Ready:
    """The kernel that multiplies a batch; `columns` says for A and B whether columns are contiguous.

    Raises DeviceError: there is none.
    """
    if ranking.summed(kind) not in ranking.dtypes_of_sums():
        raise DeviceError(
            f"{device.name}: no kernel sums in {kind.accumulator} (got operands of {kind.a} and {kind.b}); convert "
            f"them to one of {', '.join(ranking.dtypes_of_sums())}, or multiply arrays of the host"
        )
    if k == 0:  # k is 0: use the kernel that takes every algebra and every epilogue
        best = estimates.Candidate(catalogue.find("semiring"), kind.accumulator, finish=kind.finish)
    else:
        found = ranking.chosen(kind, m, n, k, device.record, device.compute_capability, columns, batch)
        identity = device.identity or tuning_db.simulated(device.record)
        best = tuning_db.first_of_gpu(found, identity, kind, m, n, k, device.record, batch).best
    several = batch > 1 and "batch" in best.record.takes
    program = best.program(device.compute_capability, kind.algebra, several)
    return Ready(best.record, program, best.dtype, as_numpy(best.made), estimates.rows_of(best.record, m))


def forget() -> None:
    """Forget the chosen kernels."""
    kept: Any = _ready
    kept.cache_clear()


def multiply(made: Launches, ready: Ready, a: Array, b: Array, c: Array, more: Sequence[Array]) -> None:
    """One launch of the kernel, with its arguments besides the operands: of matrices, or batches along two axes.

    Operands of a kernel that takes planes are split first, unless they are planes below each other.
    """
    record = ready.record
    if record.planes and a.shape[-2] == c.shape[-2]:
        a, b = (_read(made, ready, x, ready.taken, turned) for x, turned in zip((a, b), record.columns, strict=True))
    if record.operands == "boxes":
        a, b, c = (_in_steps(x) for x in (a, b, c))
    shape = record.launch_rule(c.shape[-2], c.shape[-1], a.shape[-1], math.prod(c.shape[:-2]))
    arguments = list(record.arguments(a, b, c, more))
    if record.operands.endswith("work"):
        at = next(i for i, one in enumerate(arguments[3:], 3) if isinstance(one, np.ndarray))
        for place, own in enumerate(arguments[at : at + 2], at):
            arguments[place] = made.room(own.shape, own.dtype)
        counters = arguments[at + 1]
        made.set(counters.ctypes.data, 0, counters.nbytes)
    made.add(ready.program, shape.grid, shape.block, shape.shared_bytes, arguments)


def _read(made: Launches, ready: Ready, x: Array, of: str, turned: bool) -> Array:
    """An operand for the kernel, column-major if `turned`: in place, or a copy; or its planes, below each other.

    Its values are those of the dtype `of`.
    """
    wanted, own, boxes = element(ready.taken).numpy, name_of(x.dtype), ready.record.operands == "boxes"
    names = {own, of, ready.taken}
    same = len(names) == 1 or names <= _WORDS
    if same:
        x = x.view(wanted)
        if x.size == 0 or ready.record.takes_in_place(_plain(x), turned):
            return x
    shape, planes = x.shape, ready.record.planes
    x = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides[:-2])]  # one copy serves all
    view = x.mT if turned else x
    (rows, columns), count = view.shape[-2:], planes.count if planes else 1
    kind = element(planes.dtype).numpy if planes else wanted
    room = made.room((*view.shape[:-2], count * rows, columns), kind, _BOX_STEP if boxes else 1)
    if x.size:
        parts = (planes.parts, rows * room.strides[-2]) if planes else ()
        made.rearrange(view, room[..., :rows, :], (ready.taken,) * 3 if same else (own, of, ready.taken), *parts)
    room = room.mT if turned else room
    return np.broadcast_to(room, (*shape[:-2], *room.shape[-2:]))


def _finished(made: Launches, x: Array | Number, shape: tuple[int, ...]) -> Array:
    """An operand of an epilogue with strides of whole elements; a number of the host is written to the GPU."""
    if isinstance(x, Number):
        room = made.room((), x.value.dtype)
        size = min(x.value.itemsize, 4)
        for at, word in enumerate(x.value.reshape(1).view(WORDS[size])):
            made.set(room.ctypes.data + at * size, int(word), 1, size)
        return np.broadcast_to(room, shape)
    whole = all(stride % x.itemsize == 0 for stride in x.strides) and x.flags.aligned
    if not whole:
        room = made.room(x.shape, x.dtype)
        made.rearrange(x, room, (name_of(x.dtype),) * 3)
        x = room
    return np.broadcast_to(x, shape)


def _is_direct(c: Array, ready: Ready, operands: Sequence[Array], more: Sequence[Array | Number]) -> bool:
    """Whether the kernel may write C in place: in this dtype and layout, without overwriting operands."""
    made = ready.made
    lies = ready.record.writes_in_place(_plain(c))
    same = c.dtype == made or {name_of(c.dtype), name_of(made)} == _WORDS
    apart = not any(np.may_share_memory(c, x) for x in operands)
    of_c = (x for x in more if isinstance(x, np.ndarray) and np.may_share_memory(c, x))
    return lies and same and apart and all(_same_places(x, c) for x in of_c)


def _same_places(x: Array, c: Array) -> bool:
    return (x.ctypes.data, x.shape, x.strides, x.dtype) == (c.ctypes.data, c.shape, c.strides, c.dtype)


def _plain(matrices: Array) -> Array:
    """Matrices with normal strides for axes of one element, whose strides may be arbitrary.

    It is marked writable, as launches require, although only C is written.
    """
    outer = (step if extent > 1 else 0 for extent, step in zip(matrices.shape[:-2], matrices.strides, strict=False))
    return pointer(int(matrices.ctypes.data), matrices.shape, (*outer, *_plain_strides(matrices)), matrices.dtype)


def _in_steps(matrix: Array) -> Array:
    """A matrix for boxes, whose rows must begin at multiples of 16 bytes: a single one, or column, as if others did."""
    (rows, columns), (*outer, down, right), size = matrix.shape[-2:], matrix.strides, matrix.itemsize
    if rows == columns == 1:
        down = right = _BOX_STEP
    elif rows == 1 and right == size:
        down = -(-columns * size // _BOX_STEP) * _BOX_STEP
    elif columns == 1 and down == size:
        right = -(-rows * size // _BOX_STEP) * _BOX_STEP
    return pointer(int(matrix.ctypes.data), matrix.shape, (*outer, down, right), matrix.dtype)


def _plain_strides(matrices: Array) -> tuple[int, int]:
    """The strides of rows and columns; those of a single row or column as if others followed."""
    (rows, columns), (down, right), size = matrices.shape[-2:], matrices.strides[-2:], matrices.itemsize
    if columns == 1:
        right = size
    if rows == 1:  # of elements with gaps it is a column-major matrix
        down = columns * size if right == size else size
    return down, right
