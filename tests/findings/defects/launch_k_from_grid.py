"""The k loop's length is taken from the grid, which says how many tiles C has: columns of A are left out."""

from case import Case, matrices, product
from tiles import KERNEL, tiles

T = 16
OPERANDS = matrices(32, 64, 32)
FINDS = {KERNEL: ("TW506",)}
DEFECTIVE = tiles(T, guarded=False, filled=False, steps_from_grid=True)

CASES = (
    Case("k_from_grid", DEFECTIVE, (2, 2), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("k_from_a", tiles(T), (2, 2), (T, T), OPERANDS, product),
)
