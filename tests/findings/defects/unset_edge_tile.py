"""Edge tiles are not filled: where the guard holds a load back, the tile keeps what was there."""

from case import Case, matrices, product
from tiles import COMPUTE, tiles

T = 16
OPERANDS = matrices(13, 10, 21)
FINDS = {COMPUTE: ("TW202",)}

CASES = (
    Case("edge_tile_not_filled", tiles(T, filled=False), (2, 1), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("edge_tile_filled", tiles(T), (2, 1), (T, T), OPERANDS, product),
)
