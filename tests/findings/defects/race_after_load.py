"""The barrier after the load is missing.

A row of A's tile is used by the warp that loaded it, a column of B's tile by all: one race is among lanes, one among
warps."""

from case import Case, matrices, product
from tiles import LOAD_A, LOAD_B, tiles

T = 32
OPERANDS = matrices(T, T, T)
FINDS = {LOAD_A: ("TW304",), LOAD_B: ("TW301",)}
DEFECTIVE = tiles(T, guarded=False, filled=False, after_load=False)

CASES = (
    Case("race_after_load", DEFECTIVE, (1, 1), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("race_after_load_both", tiles(T), (1, 1), (T, T), OPERANDS, product),
)
