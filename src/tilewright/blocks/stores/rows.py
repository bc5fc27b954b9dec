"""Arrays of one axis as matrices."""

from __future__ import annotations

from typing import Any

from tilewright.blocks.stores.store import Array, Store


class _Matrix:
    """A row or a column of an array of one axis."""

    def __init__(self, line: Store) -> None:
        self.line = line
        self.name, self.dtype, self.resident = line.name, line.dtype, line.resident

    def flush(self) -> None:
        """As :meth:`Store.flush`."""
        self.line.flush()

    def identity(self) -> dict[str, Any]:
        """As :meth:`Store.identity`."""
        return self.line.identity()

    def close(self) -> None:
        """As :meth:`Store.close`."""
        self.line.close()


class _Row(_Matrix):
    def __init__(self, line: Store) -> None:
        super().__init__(line)
        self.shape = (1, *line.shape)
        self.chunks, self.write_chunks = (1, *line.chunks), (1, *line.write_chunks)

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        self.line.read(at, rows, columns, into)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        self.line.write(at, rows, columns, values)


class _Column(_Matrix):
    def __init__(self, line: Store) -> None:
        super().__init__(line)
        self.shape = (*line.shape, 1)
        self.chunks, self.write_chunks = (*line.chunks, 1), (*line.write_chunks, 1)

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Array) -> None:
        self.line.read(at, columns, rows, into.T)

    def write(self, at: tuple[int, ...], rows: slice, columns: slice, values: Array) -> None:
        self.line.write(at, columns, rows, values.T)


def as_row(line: Store) -> Store:
    """An array of n elements as a matrix of 1 x n."""
    return _Row(line)


def as_column(line: Store) -> Store:
    """An array of n elements as a matrix of n x 1."""
    return _Column(line)
