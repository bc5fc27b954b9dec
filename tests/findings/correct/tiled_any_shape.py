"""Matrix product through shared tiles of 16 by 16 for shapes that are no multiples: the corrected form of S2."""

from case import Case, matrices, product
from tiles import tiles

CASES = (Case("tiled_any_shape", tiles(16), (2, 2), (16, 16), matrices(20, 37, 23), product, unwritten=(2,)),)
