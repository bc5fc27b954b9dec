"""The barrier after the compute is missing: the next step's loads overtake slower warps.

A row of A's tile is used by the warp that loaded it, a column of B's tile by all: one race is among lanes, one among
warps."""

from case import Case, matrices, product
from tiles import LOAD_A, LOAD_B, tiles

T = 32
OPERANDS = matrices(T, 2 * T, T)
FINDS = {LOAD_A: ("TW304",), LOAD_B: ("TW301",)}
DEFECTIVE = tiles(T, guarded=False, filled=False, after_compute=False)

CASES = (
    Case("race_after_compute", DEFECTIVE, (1, 1), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("race_after_compute_both", tiles(T), (1, 1), (T, T), OPERANDS, product),
)
