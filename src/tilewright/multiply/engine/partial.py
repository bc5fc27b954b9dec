"""A product by blocks: sums that continue from panel to panel along k, and the step that turns them into C's tiles.

The bits are those of :func:`tilewright.matmul`, for any tiles and panels: sums are continued, never added to each
other, and all later operations are elementwise.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.multiply.backends.inventory import opened
from tilewright.multiply.backends.protocol import Backend, Strided, require
from tilewright.multiply.engine import lowering
from tilewright.multiply.engine.fusing import Fused
from tilewright.multiply.engine.known_layouts import thread_count
from tilewright.multiply.engine.promotion import Types, kind_of, word_kind
from tilewright.multiply.engine.request import Request, check_output, scaled
from tilewright.multiply.engine.shapes import Shape, placed
from tilewright.multiply.problem.algebra import Semiring, semiring
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.expression import Builder, as_numpy, identity
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.narrow import ROUNDED_AT_ONCE, ROUNDED_BYTES, rounded
from tilewright.simulate.programs.array_arguments import row_major

Array = npt.NDArray[Any]
#: Elements of a tile that are finished at a time, and most bytes for each: a result, the old C and C in the widest
#: dtypes; if NumPy scales, six complex numbers.
_STRIP, _FINISHED_BYTES, _SCALED_BYTES = 1 << 16, 32, 96
#: Bytes that tiles at the edges may need beyond whole tiles (other kernels multiply few rows), and small objects.
_EDGE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Partial:
    """The arithmetic of a product by blocks: a :class:`~tilewright.multiply.blocks.work.Work`.

    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> work = Partial.of(a.dtype, b.dtype, (2, 2), Request(epilogue=lambda total: total / 2))
    >>> sums = np.empty((2, 2), work.sums)
    >>> work.add(a[:, :2], b[:2], sums, first=True)
    >>> work.add(a[:, 2:], b[2:], sums, first=False)
    >>> work.finish(sums, (), slice(0, 2), slice(0, 2))
    array([[1.5, 1.5],
           [6. , 6. ]])
    """

    asked: Request
    given: tuple[np.dtype[Any], np.dtype[Any]]  #: Dtypes of the operands.
    types: Types  #: Of a product whose results are the sums.
    algebra: Semiring | None
    device: Backend
    threads: int
    out: np.dtype[Any]  #: C's dtype: the result's, or that of the array that takes it.
    finishing: Kind | None  #: Kind of a product with k of 0, whose finish turns real sums into the result.
    operands: tuple[Array, ...]  #: Operands of that finish, of C's shape, without the sums and the old C.
    scaling: Types | None  #: Set for complex numbers and booleans that `alpha` and `beta` scale.

    @classmethod
    def of(
        cls,
        a: np.dtype[Any],
        b: np.dtype[Any],
        shape: Shape,
        asked: Request,
        out: np.dtype[Any] | None = None,
        *,
        ndims: tuple[int, int] = (2, 2),
    ) -> Partial:
        """The arithmetic for operands of these dtypes, by the rules of :func:`tilewright.matmul`.

        `a`, `b`: of the operands. `shape`: shape of the result, as `matmul` returns it, or of `out` if that has further
        axes. `out`: dtype of the array that takes the result; the result's own by default. `ndims`: numbers of
        dimensions of the operands. Tiles have two even if an operand is a vector.

        Raises ArgumentTypeError, ArgumentValueError: the dtypes have no such product, or an argument does not fit;
        DeviceError, MissingExtraError: this machine has no such device, or the device has no such product.
        """
        asked.check()
        found = asked.types(a, b)
        algebra, threads, device = asked.semiring(found), thread_count(asked.threads), opened(asked.device)
        held = None if out is None else np.empty((), out)
        asked.check_beta(held)
        made = asked.fused(found, held, shape)
        result = found.result if made is None else made.result
        if out is not None:
            check_output(out, result, asked.casting)
        require(device, kind_of(found, 1, algebra, None if made is None else made.signature))
        types, algebra = _summed(found, algebra, device)
        more = [] if made is None else made.laid(shape, functools.partial(placed, *ndims))
        return cls(
            asked,
            (a, b),
            types,
            algebra,
            device,
            threads,
            result if out is None else out,
            _finishing(found, made, types.result),
            tuple(more[: -1 if asked.beta != 0 else None]),
            found if found.lowering != "real" and asked.scale != (1, 0) else None,
        )

    @property
    def sums(self) -> np.dtype[Any]:
        """The dtype of a tile's sums."""
        return self.types.result

    @functools.cached_property
    def splits_k(self) -> bool:
        """Whether the device continues sums; else a tile has one panel with the whole of k."""
        return not self.device.refusal(self._continuing)

    @functools.cached_property
    def _continuing(self) -> Kind:
        return kind_of(self.types, 1, self.algebra)._replace(continues=True)

    @property
    def reads_out(self) -> bool:
        """Whether :meth:`finish` reads the old C."""
        return self.asked.beta != 0

    def identity(self) -> dict[str, Any]:
        """All that the result's bits depend on besides the operands, as values for JSON."""
        finish = repr((self.finishing, self.scaling, self.asked.scale, self.algebra))
        return {
            "types": [x.name for x in (*self.given, self.sums, self.out)],
            "finish": zlib.crc32(finish.encode()),
            "operands": [zlib.crc32(np.ascontiguousarray(x).tobytes()) for x in self.operands],
            "order": self.asked.order,
        }

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        """Add the product of two panels to a tile's sums; the `first` panel starts from zero.

        Raises DeviceError: the device cannot continue sums.
        """
        if not first:
            require(self.device, self._continuing)
        run = functools.partial(lowering.compute, device=self.device, continues=not first)
        run(a, b, sums, self.types, self.threads, self.algebra)

    def finish(self, sums: Array, at: tuple[int, ...], rows: slice, columns: slice, old: Array | None = None) -> Array:
        """C's tile from its sums, which it destroys: the result may use their memory."""
        if self.is_finished:
            return sums
        if self.out.itemsize <= self.sums.itemsize:
            # A strip's result ends at or before the end of its sums, which have been read by then.
            memory: Array = sums.reshape(-1).view(np.uint8)[: sums.size * self.out.itemsize]
            found = memory.view(self.out).reshape(sums.shape)
        else:
            found = np.empty(sums.shape, self.out)
        step = max(1, _STRIP // max(1, sums.shape[1]))
        for i in range(0, len(sums), step):
            part = slice(i, min(i + step, len(sums)))
            where = (*at, slice(rows.start + part.start, rows.start + part.stop), columns)
            strip = self._finished(sums[part], where, None if old is None else old[part])
            found[part] = rounded(strip, self.out)
        return found

    @property
    def is_finished(self) -> bool:
        """Whether the sums are C already."""
        return self.finishing is None and self.scaling is None and self.sums == self.out

    def _finished(self, sums: Array, where: tuple[Any, ...], old: Array | None) -> Array:
        """The result's elements for some rows of a tile; `where` is their place in C."""
        if self.scaling is not None:
            return scaled(sums, old, self.asked, self.scaling)
        if self.finishing is None or self.finishing.finish is None:
            return sums
        more = [sums, *(x[where] for x in self.operands)]
        if old is not None:
            more.append(rounded(old, as_numpy(self.finishing.finish.parameters[-1][1])))
        found: Array = np.empty(sums.shape, as_numpy(self.finishing.out))
        a, b = np.empty((len(sums), 0), np.float32), np.empty((0, sums.shape[1]), np.float32)
        opened().multiply_into(a, b, found, self.finishing, self.threads, more)
        return found

    def extra_bytes(self, rows: int, columns: int, depth: int) -> int:
        """Most bytes that :meth:`add` and :meth:`finish` take besides their arguments.

        `rows`, `columns` and `depth` are those of the largest tile and panel.
        """
        total = _EDGE_BYTES + 2 * ROUNDED_AT_ONCE * ROUNDED_BYTES
        counts = rows * depth, depth * columns
        if self.types.lowering in ("bool", "words"):  # A as bytes of 0 and 1, B and the sums as words, made of bytes
            total += counts[0] + counts[1] * (1 if self.given[1].kind == "b" else 5) // 4
            total += max(lowering.UNPACKED_BYTES, rows, columns) + rows * (columns + 31) // 4
        else:
            read = (self.types.a, self.types.b)
            total += sum(n * y.itemsize for n, x, y in zip(counts, self.given, read, strict=True) if x != y)
        if not self.splits_k:  # copies that a device's library makes
            total += (sum(counts) + rows * columns) * max(8, self.sums.itemsize)
        strip = 0 if self.is_finished else min(rows, max(1, _STRIP // max(1, columns)))
        total += strip * columns * (_FINISHED_BYTES if self.scaling is None else _SCALED_BYTES)
        if self.out.itemsize > self.sums.itemsize:
            total += rows * columns * self.out.itemsize
        return total + (self._buffer_bytes(rows, columns, depth, strip) if rows * columns else 0)

    def _buffer_bytes(self, rows: int, columns: int, depth: int, strip: int) -> int:
        """Bytes of the packing buffers: of the first panel's product, of the others' and of the finish of a strip.

        Threads keep their buffers, and each grows to the largest, so all of them may be in memory at once.
        """
        kind = kind_of(self.types, depth, self.algebra)
        wide = -(-columns // 32) if self.types.lowering == "words" else columns
        most = 0
        for by_columns in (False, True):
            arrays = _laid(rows, wide, depth, kind, by_columns=by_columns)
            kinds = {kind, kind._replace(continues=self.splits_k)}
            most = max(most, sum(self.device.plan(arrays, x, self.threads).buffer_bytes for x in kinds))
        if self.finishing is not None and self.finishing.finish is not None:
            names = [name for _, name in self.finishing.finish.parameters[1:]]
            arrays = _laid(strip, columns, 0, self.finishing, names)
            most += opened().plan(arrays, self.finishing, self.threads).buffer_bytes
        return most


def _summed(found: Types, algebra: Semiring | None, device: Backend) -> tuple[Types, Semiring | None]:
    """The dtypes of a product whose results are the sums, and its algebra.

    Integers narrower than their register are summed modulo their own width. Booleans are multiplied as words, one bit
    each, where counts would take four bytes each, unless the device has no words.
    """
    total = found.accumulator
    if found.lowering == "complex":
        return Types(*(total,) * 4, "complex"), algebra
    if found.lowering == "real":
        if algebra is None:
            total = as_numpy(element(total.name).accumulator)
        return Types(total, total, found.a, found.b, "real"), algebra
    words = algebra if algebra is not None else semiring("or-and", "bool").in_words()
    if device.refusal(word_kind(words)):
        return found, algebra
    return Types(total, total, found.a, found.b, "words"), words


def _finishing(found: Types, made: Fused | None, sums: np.dtype[Any]) -> Kind | None:
    """A kind with k of 0, whose finish turns its first operand, the real sums, into the result; None if not needed."""
    if found.lowering != "real" or (made is None and found.result == sums):
        return None
    given = identity(found.accumulator.name, found.result.name) if made is None else made.expression
    builder = Builder()
    builder.add("parameter", (), "float32", "nothing")
    total = builder.add("parameter", (), sums.name, "sums")
    others = [builder.add("parameter", (), name, label) for label, name in given.parameters[1:]]
    if sums != found.accumulator:
        total = builder.add("cast", (total,), found.accumulator.name)
    expression = builder.finished(builder.insert(given, [total, *others]), 2 + len(others))
    return Kind("float32", "float32", expression.dtype, "float32", finish=expression)


def _laid(
    rows: int, columns: int, depth: int, kind: Kind, more: Sequence[str] = (), *, by_columns: bool = False
) -> Strided:
    """Layouts of a product in C order, or with A and B in Fortran order; `more` are dtypes of the finish's operands."""

    def strides(shape: tuple[int, int], name: str, *, turned: bool = False) -> tuple[int, ...]:
        return row_major(shape[:: -1 if turned else 1], element(name).bytes)[:: -1 if turned else 1]

    a, b, out = (rows, depth), (depth, columns), (rows, columns)
    return Strided(
        a,
        strides(a, kind.a, turned=by_columns),
        b,
        strides(b, kind.b, turned=by_columns),
        out,
        strides(out, kind.out),
        tuple(strides(out, name) for name in more),
    )
