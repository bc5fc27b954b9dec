"""Tiles loaded without a guard: the last step runs past the rows of A and past the end of B."""

from case import Case, matrices, product
from tiles import LOAD_A, LOAD_B, tiles

T = 16
OPERANDS = matrices(16, 24, 32)
FINDS = {LOAD_A: ("TW107",), LOAD_B: ("TW101",)}

CASES = (
    Case("tile_load", tiles(T, guarded=False, filled=False), (2, 1), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("tile_load_guarded", tiles(T), (2, 1), (T, T), OPERANDS, product),
)
