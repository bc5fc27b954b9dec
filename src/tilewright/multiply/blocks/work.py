"""The arithmetic that a product of blocks needs, as a protocol."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Work(Protocol):
    """A product whose operands come in panels along k, k ascending, for one tile of C after another."""

    @property
    def sums(self) -> np.dtype[Any]:
        """The dtype of a tile's sums."""

    @property
    def out(self) -> np.dtype[Any]:
        """The dtype of C."""

    @property
    def splits_k(self) -> bool:
        """Whether sums go on from panel to panel; a tile's one panel has the whole of k otherwise."""

    def extra_bytes(self, rows: int, columns: int, depth: int) -> int:
        """The most that :meth:`add` and :meth:`finish` take beside their arguments, for tiles and panels up to these.

        `rows` and `columns` are those of a tile, `depth` the extent of a panel along k. Both may run at the same time.
        """

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        """Add the product of two panels to a tile's sums.

        `a`, `b` (shapes (rows, depth) and (depth, columns)): of the stores' own dtypes, any strides. `sums` (shape
        (rows, columns)): in C order, of the dtype :attr:`sums`. `first`: start from zero: what `sums` holds is not
        read.
        """

    def finish(self, sums: Array, at: tuple[int, ...], rows: slice, columns: slice, old: Array | None = None) -> Array:
        """C's tile from its sums, which are lost: the result may be in their memory.

        `sums`: in C order. `at`: the batch's entry. `rows`, `columns`: what the tile is of C's rows and columns, with a
        start and a stop. `old`: the tile as it was, where C is scaled by `beta`.
        """
