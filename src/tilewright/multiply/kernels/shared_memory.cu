// S9: tiles in shared memory, one result per thread. x is the column, y the row; arrays are row-major.
// The source multiplies square int matrices whose width is a multiple of BLOCK_SIZE; here T is any of int, float and
// double, and the shape is free.

#include "finish.cuh"

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
// Unsigned, because a signed product may overflow only by undefined behaviour.
__device__ inline int multiply_add(int a, int b, int c) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b) + static_cast<unsigned>(c));
}

template <int BLOCK_SIZE, typename T, typename Batch = Alone, typename... Of>
__global__ void shared_memory(const T *a, const T *b, T *c, int m, int n, int k, Of... of) {
    Batch batch{of...};
    find_product(batch, a, b, c);
    __shared__ T tile_a[BLOCK_SIZE][BLOCK_SIZE];
    __shared__ T tile_b[BLOCK_SIZE][BLOCK_SIZE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int x = blockIdx.x * BLOCK_SIZE + tx;
    const int y = blockIdx.y * BLOCK_SIZE + ty;

    T sum = 0;
    for (int start = 0; start < k; start += BLOCK_SIZE) {
        // Past the edge of k a step must leave the sum as it is, a negative zero included: 0 * -0 + c is c.
        tile_a[ty][tx] = y < m && start + tx < k ? a[y * k + start + tx] : T(0);
        tile_b[ty][tx] = x < n && start + ty < k ? b[(start + ty) * n + x] : T(-0.0);
        __syncthreads();

        for (int l = 0; l < BLOCK_SIZE; ++l) {
            sum = multiply_add(tile_a[ty][l], tile_b[l][tx], sum);
        }
        __syncthreads();
    }
    if (x < n && y < m) {
        c[y * n + x] = sum;
    }
}
