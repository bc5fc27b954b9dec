"""Bounds of C used for A and B: the guards hold, but of the wrong array."""

from case import Case, matrices, product
from tiles import LOAD_A, LOAD_B, tiles

T = 16
OPERANDS = matrices(30, 24, 40)
FINDS = {LOAD_A: ("TW107",), LOAD_B: ("TW101",)}

CASES = (
    Case("bounds_of_c", tiles(T, bounds_of_c=True), (3, 2), (T, T), OPERANDS, defective=True, finds=FINDS),
    Case("bounds_of_each", tiles(T), (3, 2), (T, T), OPERANDS, product),
)
