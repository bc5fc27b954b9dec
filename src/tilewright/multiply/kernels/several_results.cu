// S11: several results per thread. A TILE x TILE block of C is covered by TILE / RESULTS rows of threads; each thread
// computes RESULTS elements of one column, TILE / RESULTS rows apart. A step of the inner loop reads RESULTS elements
// of A's tile and one of B's, and makes RESULTS multiply-adds with it: all of them use the one read of B.
// The source computes 2 results, 16 rows apart; here RESULTS is any divisor of TILE, and the shape is free.

#include "finish.cuh"

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
// Unsigned, because a signed product may overflow only by undefined behaviour.
__device__ inline int multiply_add(int a, int b, int c) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

template <typename T, int TILE, int RESULTS, typename Batch = Alone, typename... Of>
__global__ void several_results(const T *a, const T *b, T *c, int m, int n, int k, Of... of) {
    Batch batch{of...};
    find_product(batch, a, b, c);
    static_assert(TILE % RESULTS == 0, "RESULTS must divide TILE");
    constexpr int ROWS = TILE / RESULTS;

    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int x = blockIdx.x * TILE + tx;
    const int top = blockIdx.y * TILE;

    T sums[RESULTS] = {};
    for (int start = 0; start < k; start += TILE) {
        // Past the edge of k a step must leave the sums as they are, a negative zero included: 0 * -0 + c is c.
#pragma unroll
        for (int r = 0; r < RESULTS; ++r) {
            const int row = ty + r * ROWS;
            tile_a[row][tx] = top + row < m && start + tx < k ? a[(top + row) * k + start + tx] : T(0);
            tile_b[row][tx] = x < n && start + row < k ? b[(start + row) * n + x] : T(-0.0);
        }
        __syncthreads();

        for (int l = 0; l < TILE; ++l) {
            const T element = tile_b[l][tx];
#pragma unroll
            for (int r = 0; r < RESULTS; ++r) {
                sums[r] = multiply_add(tile_a[ty + r * ROWS][l], element, sums[r]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int r = 0; r < RESULTS; ++r) {
        const int y = top + ty + r * ROWS;
        if (x < n && y < m) {
            c[y * n + x] = sums[r];
        }
    }
}
