// What tensor-core kernels for float32 share: tiles of A and B, and how a warp reads fragments from them.
// `ldmatrix` moves pairs of halves, so it can move floats of A. It cannot transpose floats: B is read one by one.

#pragma once

#include "tiles.cuh"

// Shared memory.
template <int BM, int BN, int BK, int STAGES>
struct FloatTiles {
    __align__(128) float a[STAGES][BM * BK];
    __align__(128) float b[STAGES][BK * BN];
};

// Runs `multiply(read_a, read_b)` for each tile of BK steps of k, of a warp that owns WM x WN results of the tile of C
// at [top, left]. `read_a(i, l, to)` reads a fragment of 16 x 8 of A, from row 16 i and step l on. `read_b(j, l)` reads
// the lane's element of B, in step l + lane % 4 and column 8 j + lane / 4; l is a multiple of 4.
template <int WM, int WN, int BM, int BN, int BK, int STAGES, typename Multiply>
__device__ inline void multiply_floats(FloatTiles<BM, BN, BK, STAGES> &tiles, const float *a, const float *b, int m,
                                       int n, int k, int top, int left, int lda, int ldb, Multiply multiply) {
    constexpr int THREADS = 32 * (BM / WM) * (BN / WN), SIZE = sizeof(float);
    static_assert(BK == 16 && BN % 32 == 0, "the swizzles are for rows of 64 bytes, and of multiples of 128");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp must own whole fragments");

    // The place of a chunk in its tile. Two rows of A's are 128 bytes, all 32 banks; a row of B's is four times that,
    // and the four rows of a fragment are eight elements apart.
    auto place_a = [](int row, int chunk) { return row * BK + (chunk ^ row / 2 % 4) * in_chunk<float>(); };
    auto place_b = [](int row, int chunk) { return row * BN + (chunk ^ row % 4 * 2) * in_chunk<float>(); };

    TileCopy<float, BM, BK, THREADS, 8> copy_a(a, (long long)top * lda, lda, tiles.a, place_a);
    TileCopy<float, BK, BN, THREADS, 8> copy_b(b, left, ldb, tiles.b, place_b);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    // The row whose address the lane gives, and the element of B that it reads; other fragments are whole rows of 128
    // bytes away, or other chunks in them.
    unsigned of_lane_a = shared_address(&tiles.a[0][place_a(row + lane % 16, lane / 16)]);
    int of_lane_b = place_b(lane % 4, column / in_chunk<float>() + lane / 16) + lane / 4 % in_chunk<float>();
    asm volatile("" : "+r"(of_lane_a), "+r"(of_lane_b));  // without this NVRTC computes them again in each step

    auto load = [&](int start, int stage) {
        copy_a.begin(stage, m - top, k - start, BK);
        copy_b.begin(stage, k - start, n - left, (long long)BK * ldb);
    };
    pipeline<BK, STAGES>(0, k, load, [&](int stage) {
        const unsigned at_a = of_lane_a + stage * (BM * BK * SIZE);
        const float *from_tile = tiles.b[stage];
        multiply([&](int i, int l, unsigned (&to)[4]) { load_matrices(to, (at_a ^ l * SIZE) + 16 * i * BK * SIZE); },
                 [&](int j, int l) { return from_tile[(of_lane_b ^ 8 * j) + l * BN]; });
    });
}
