"""The memory layout of a product: extents and byte strides, normalised to the form that kernels run fastest."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Layout:
    """A batch of products."""

    m: int
    n: int
    k: int
    #: `a`, `b`, `out`: bytes from row to row and from column to column.
    a: tuple[int, int]
    b: tuple[int, int]
    out: tuple[int, int]
    #: The batch's axes, outer first, with bytes from one matrix to the next (0 if broadcast).
    batch: tuple[tuple[int, ...], ...] = ()
    swapped: bool = False  #: Whether A and B are swapped: the transposed product is computed.
    #: Strides of further operands of C's extents; their steps follow the others in `batch`.
    more: tuple[tuple[int, int], ...] = ()

    @classmethod
    def strided(
        cls,
        a_shape: tuple[int, ...],
        a_strides: tuple[int, ...],
        b_shape: tuple[int, ...],
        b_strides: tuple[int, ...],
        out_shape: tuple[int, ...],
        out_strides: tuple[int, ...],
        more: tuple[tuple[int, ...], ...] = (),
        *,
        commutes: bool = True,
        folds: bool = True,
    ) -> Layout:
        """The layout of shapes and strides as NumPy has them.

        `more` are the strides of operands of C's shape. Without `commutes` A and B keep their places; without `folds`
        no axis of the batch becomes rows.
        """
        depth = len(out_shape) - 2
        a_steps, b_steps = _steps(a_shape, a_strides, depth), _steps(b_shape, b_strides, depth)
        steps = (a_steps, b_steps, out_strides[:depth], *(x[:depth] for x in more))
        batch = tuple(zip(out_shape[:depth], *steps, strict=True))
        return cls(
            out_shape[-2],
            out_shape[-1],
            a_shape[-1],
            (a_strides[-2], a_strides[-1]),
            (b_strides[-2], b_strides[-1]),
            (out_strides[-2], out_strides[-1]),
            batch,
            more=tuple((x[-2], x[-1]) for x in more),
        ).simplified(commutes=commutes, folds=folds)

    @property
    def count(self) -> int:
        """Matrices of the batch."""
        total = 1
        for extent, *_ in self.batch:
            total *= extent
        return total

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.m * self.n * self.k * self.count

    def simplified(self, *, commutes: bool = True, folds: bool = True) -> Layout:
        """An equal layout with batch axes merged or turned into rows if possible, and rows of C contiguous."""
        found = replace(self, batch=_merged(self.batch))
        found = found._rows_for_batch() if folds else found
        if not commutes:
            return found
        # A column of C is a row of its transpose. The bits are the same, since x y = y x; `swapped` notes the swap for
        # an algebra whose multiplication does not commute.
        by_columns = found.n == 1 < found.m or (abs(found.out[0]) < abs(found.out[1]) and found.m > 1)
        if not by_columns:
            return found
        return found.transposed()._rows_for_batch() if folds else found.transposed()

    def transposed(self) -> Layout:
        """The layout of C's transpose, from B's and A's."""
        return Layout(
            self.n,
            self.m,
            self.k,
            self.b[::-1],
            self.a[::-1],
            self.out[::-1],
            tuple((extent, b, a, *others) for extent, a, b, *others in self.batch),
            not self.swapped,
            tuple(x[::-1] for x in self.more),
        )

    def _rows_for_batch(self) -> Layout:
        """Treat matrices that share B and are adjacent in A and C as rows of one taller product."""
        found = self
        while found.batch:
            extent, a, b, out, *more = found.batch[-1]
            rows = found.m
            along = ((a, found.a), (out, found.out), *zip(more, found.more, strict=True))
            if b != 0 or (rows > 1 and any(step != rows * strides[0] for step, strides in along)):
                break
            found = replace(
                found,
                m=rows * extent,
                a=(a if rows == 1 else found.a[0], found.a[1]),
                out=(out if rows == 1 else found.out[0], found.out[1]),
                batch=found.batch[:-1],
                more=tuple((step if rows == 1 else x[0], x[1]) for step, x in zip(more, found.more, strict=True)),
            )
        return found


def _steps(shape: tuple[int, ...], strides: tuple[int, ...], depth: int) -> list[int]:
    """Byte strides along `depth` axes of a batch, 0 where an operand lacks the axis or repeats along it."""
    own = [0 if extent == 1 else stride for extent, stride in zip(shape[:-2], strides[:-2], strict=True)]
    return [0] * (depth - len(own)) + own


def _merged(batch: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Drop axes of extent 1, and merge neighbours with even steps."""
    axes: list[tuple[int, ...]] = []
    for axis in batch:
        if axis[0] == 1:
            continue
        if axes and all(outer == axis[0] * inner for outer, inner in zip(axes[-1][1:], axis[1:], strict=True)):
            axes[-1] = (axes[-1][0] * axis[0], *axis[1:])
        else:
            axes.append(axis)
    return tuple(axes)
