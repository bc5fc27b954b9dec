"""An index past the end of an array that the compiler unrolls into registers: it drops the access without a word."""

from case import Case, copied, cuda_cpp, numbers

SOURCE = r"""
__global__ void of_one_tile_more(const int *x, int *out) {
    int own[8];
    for (int i = 0; i < 8; ++i)
        own[i] = x[8 * threadIdx.x + i];
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 4; ++column)
            own[4 * row + column] ^= 5;  // finds: TW104
    for (int i = 0; i < 8; ++i)
        out[8 * threadIdx.x + i] = own[i] ^ 5;
}

__global__ void of_its_tiles(const int *x, int *out) {
    int own[8];
    for (int i = 0; i < 8; ++i)
        own[i] = x[8 * threadIdx.x + i];
    for (int row = 0; row < 2; ++row)
        for (int column = 0; column < 4; ++column)
            own[4 * row + column] ^= 5;
    for (int i = 0; i < 8; ++i)
        out[8 * threadIdx.x + i] = own[i] ^ 5;
}
"""
CASES = (
    Case("of_one_tile_more", cuda_cpp(__file__, SOURCE, "of_one_tile_more"), 1, 64, numbers(512), defective=True),
    Case("of_its_tiles", cuda_cpp(__file__, SOURCE, "of_its_tiles"), 1, 64, numbers(512), copied),
)
