"""Arrays outside memory, and in it, as one kind of thing: rectangles are read and written."""

from __future__ import annotations

from tilewright.multiply.blocks.stores.arrays import MemoryStore
from tilewright.multiply.blocks.stores.extents import one_file, overlap
from tilewright.multiply.blocks.stores.formats import has_other_format, place_of
from tilewright.multiply.blocks.stores.kinds import beside, created, existing, is_outside, load, opened
from tilewright.multiply.blocks.stores.lines import LinesStore
from tilewright.multiply.blocks.stores.places import Place
from tilewright.multiply.blocks.stores.rows import as_column, as_row
from tilewright.multiply.blocks.stores.store import Array, Store

__all__ = [
    "Array",
    "LinesStore",
    "MemoryStore",
    "Place",
    "Store",
    "as_column",
    "as_row",
    "beside",
    "created",
    "existing",
    "has_other_format",
    "is_outside",
    "load",
    "one_file",
    "opened",
    "overlap",
    "place_of",
]
