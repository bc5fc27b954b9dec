"""Adapters that present a vector, or a batch of vectors, as matrices of one row or one column."""

from __future__ import annotations

from typing import Any

from tilewright.multiply.blocks.stores.store import Array, Extent, Store


class _Matrix:
    """The parts that :class:`_Row` and :class:`_Column` share; `line` is the array of vectors."""

    def __init__(self, line: Store) -> None:
        self.line = line
        self.name, self.dtype, self.resident = line.name, line.dtype, line.resident
        self.buffer_bytes = line.buffer_bytes

    def flush(self) -> None:
        """As :meth:`Store.flush`."""
        self.line.flush()

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return self.line.identity()

    def extent(self) -> Extent | None:
        """As :meth:`Store.extent`."""
        return self.line.extent()

    def close(self) -> None:
        """As :meth:`Store.close`."""
        self.line.close()


class _Row(_Matrix):
    def __init__(self, line: Store) -> None:
        super().__init__(line)
        self.shape, self.chunks, self.write_chunks = (
            (*x[:-1], 1, x[-1]) for x in (line.shape, line.chunks, line.write_chunks)
        )

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        self.line.read(*_inside(at), columns, into)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        self.line.write(*_inside(at), columns, values)


class _Column(_Matrix):
    def __init__(self, line: Store) -> None:
        super().__init__(line)
        self.shape, self.chunks, self.write_chunks = ((*x, 1) for x in (line.shape, line.chunks, line.write_chunks))

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        self.line.read(*_inside(at), rows, into.T)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        self.line.write(*_inside(at), rows, values.T)


def _inside(at: tuple[int, ...]) -> tuple[tuple[int, ...], slice]:
    """The indices `at` and `rows` of a vector in the array of vectors, from the batch index of its matrix."""
    return at[:-1], slice(at[-1], at[-1] + 1) if at else slice(0, 1)


def as_row(line: Store) -> Store:
    """View an array of shape (..., n) as an array of shape (..., 1, n)."""
    return _Row(line)


def as_column(line: Store) -> Store:
    """View an array of shape (..., n) as an array of shape (..., n, 1)."""
    return _Column(line)
